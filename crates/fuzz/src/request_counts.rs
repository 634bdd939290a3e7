//! Arbitrary bytes as counts of requests, packed or not.

use halfwink_arrivals::counts::Counts;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    match Counts::read(bytes, 3) {
    Ok(counts) => {
        assert!(counts.skipped.count <= 3);
        counts.arrivals().check().expect("arrivals");
        assert!(counts.part(1e3, 1e4).requests.len() <= counts.requests.len());
    }
    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
}
}
