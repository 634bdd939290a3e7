//! Arbitrary text as a table of routes.

use halfwink_dataplane::{routes, PortSettings};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    let ports = ["east", "west"].map(|n| PortSettings { name: n.into(), ..Default::default() });
    match routes::parse(text, &ports) {
        Ok(routes) => assert!(routes.len() <= text.lines().count()),
        Err(error) => {
            assert!(error.line >= 1 && error.line <= text.lines().count());
            assert!(!error.to_string().contains('\n'));
        }
    }
}
