//! Arbitrary bytes as counts of requests.

use halfwink_inputs::Share;
use halfwink_arrivals::counts::Counts;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    match Counts::read(bytes, Share { most_pct: 50.0 }) {
        Ok(counts) => {
            counts.arrivals().check().expect("arrivals");
            assert!(counts.part(1e3, 1e4).requests.len() <= counts.requests.len());
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}
