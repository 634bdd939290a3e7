//! Arbitrary text as the record of an association's numbers.
#![no_main]

use halfwink_dataplane::NumberRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match NumberRecord::parse(text) {
        Ok(record) => assert_eq!(record.to_text(), text),
        Err(error) => {
            assert!((1..=6).contains(&error.line));
            assert!(!error.to_string().contains('\n'));
        }
    }
});
