//! Arbitrary bytes as a log of requests: common log format, CSV, packed or not.

use halfwink_arrivals::log::{Log, LogOptions};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let options = LogOptions { bad_lines: 3, ..LogOptions::default() };
    for read in [
        Log::read(bytes, &options),
        Log::common(bytes, &options),
        Log::csv(bytes, &options),
    ] {
        match read {
            Ok(log) => {
                assert!(log.skipped.count <= 3 && !log.times.is_empty());
                log.arrivals(Some(1e-3)).check().expect("arrivals");
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}
