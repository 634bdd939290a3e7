//! Arbitrary bytes as a packed file: unpacked within a budget, or refused in one line.

use std::io::Read;

use halfwink_inputs::{decoded, look, unpack, Budget, Family};

/// Bytes that an input may have.
const BUDGET: u64 = 1 << 20;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let (budget, mut out) = (Budget::new(BUDGET), Vec::new());
    let read = unpack(bytes, &budget).and_then(|mut reader| reader.read_to_end(&mut out));
    assert!(out.len() as u64 <= BUDGET);
    if let Err(error) = read {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let _ = (look(&out, Family::Flows), decoded(out));
}
