//! Arbitrary text as a table of routes.
#![no_main]

use halfwink_dataplane::{routes, PortSettings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let ports = ["east", "west"].map(|n| PortSettings { name: n.into(), ..Default::default() });
    match routes::parse(text, &ports) {
        Ok(routes) => assert!(routes.len() <= text.lines().count()),
        Err(error) => {
            assert!(error.line >= 1 && error.line <= text.lines().count());
            assert!(!error.to_string().contains('\n'));
        }
    }
});
