//! Arbitrary text as the record of an association's numbers.

use halfwink_dataplane::NumberRecord;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    match NumberRecord::parse(text) {
        Ok(record) => assert_eq!(record.to_text(), text),
        Err(error) => {
            assert!((1..=6).contains(&error.line));
            assert!(!error.to_string().contains('\n'));
        }
    }
}
