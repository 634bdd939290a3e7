//! Arbitrary bytes as a log of requests, of every form and as CSV.

use halfwink_inputs::Share;
use halfwink_arrivals::log::{Form, Log, LogOptions};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let strict = LogOptions { bad: Share { most_pct: 50.0 }, ..LogOptions::default() };
    let any = LogOptions { bad: Share::ALL, ..LogOptions::default() };
    check(Log::read(bytes, &strict), 50.0);
    check(Log::csv(bytes, &strict), 50.0);
    for form in Form::ALL {
        check(Log::of(form, bytes, &any), 100.0);
    }
}

fn check(read: Result<Log, halfwink_arrivals::ReadError>, most_pct: f64) {
    match read {
        Ok(log) => {
            let (bad, good) = (log.skipped.count as f64, log.times.len() as f64);
            assert!(good > 0.0 && 100.0 * bad <= most_pct * (bad + good));
            assert!(!log.account.to_string().contains('\n'), "{}", log.account);
            log.arrivals(Some(1e-3)).check().expect("arrivals");
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}
