use halfwink_inputs::Share;

use super::*;
use proptest::prelude::*;

const DAY: &str = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /pb.gif HTTP/1.0" 200 2326
h - - [10/Oct/2000:13:55:38 -0700] "GET /a \"b\" HTTP/1.0" 304 - "http://x/" "Mozilla/4.08 [en]"
h - - [10/Oct/2000:22:55:36 +0200] "-" 408 0
nonsense
h - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 17

"#;

fn wrapped(error: &impl ToString) -> String {
    error.to_string().replace(", expected", ",\n  expected").replace(", or its", ",\n  or its")
}

fn even() -> LogOptions {
    LogOptions { spread: Spread::Even, bad: Share { most_pct: 40.0 }, ..LogOptions::default() }
}

#[test]
fn a_common_log_is_spread_over_its_seconds() {
    let log = Log::read(DAY.as_bytes(), &even()).unwrap();
    let seconds: Vec<f64> = log.times.iter().map(|t| t.as_s()).collect();
    // Three in the first second, whichever zone they were written in.
    let expected = [1.0 / 6.0, 0.5, 5.0 / 6.0, 2.5];
    assert!(seconds.iter().zip(expected).all(|(s, e)| (s - e).abs() < 1e-9), "{seconds:?}");
    assert_eq!(log.sizes, [2326.0, 0.0, 17.0, 0.0]);
    assert_eq!((log.start_s, log.disordered, log.skipped.count), (971_211_336.0, 2, 1));
    insta::assert_snapshot!(wrapped(&log.skipped.examples[0]), @r#"
    line 4: found `nonsense`,
      expected `host ident user [10/Oct/2000:13:55:36 -0700] "request" status bytes`
    "#);
    log.arrivals(Some(1e-3)).check().unwrap();
}

#[test]
fn random_spreads_stay_in_their_second_and_are_the_same_with_the_same_seed() {
    let line = "h - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200 1\n";
    let text = line.repeat(1000) + &line.replace(":36", ":37").repeat(1000);
    let log = |seed| {
        let options = LogOptions { spread: Spread::Random { seed }, ..LogOptions::default() };
        Log::read(text.as_bytes(), &options).unwrap().times
    };
    let times = log(3);
    assert!(times.windows(2).all(|w| w[0] <= w[1]));
    assert!(times[999] < Time::ns(1_000_000_000) && times[1000] >= Time::ns(1_000_000_000));
    let mean = times[..1000].iter().map(|t| t.as_s()).sum::<f64>() / 1e3;
    assert!((mean - 0.5).abs() < 0.05, "{mean}");
    assert_eq!(times, log(3));
    assert_ne!(times, log(4));
}

#[test]
fn csv_has_times_and_perhaps_sizes() {
    let text = "Size, At_s ,user\n5,10.5,\"a,b\"\n7,10.25,x\n,11,y\n";
    let log = Log::read(text.as_bytes(), &even()).unwrap();
    assert_eq!(log.times, [Time::ZERO, Time::ns(250_000_000)]);
    assert_eq!((log.sizes.clone(), log.sizes_are), (vec![7.0, 5.0], Some(Sizes::Size)));
    assert_eq!((log.disordered, log.start_s), (1, 10.25));
    insta::assert_snapshot!(wrapped(&log.skipped.examples[0]), @r"
    line 4: found `,11,y`,
      expected a row with a time from 0 on, and a size if the header has one
    ");
    let dates = "timestamp\n2026-01-01 00:00:01.5\n2026-01-01T00:00:01Z\n";
    let log = Log::read(dates.as_bytes(), &even()).unwrap();
    assert_eq!(log.times, [Time::ZERO, Time::ns(500_000_000)]);
    assert!(log.sizes.is_empty() && log.sizes_are.is_none());
    // A quote that is never closed is a matter of its line.
    let quote = Log::read(&b"agent,time\n\"x,1\n\"y,z\",2\ny,3\n"[..], &even()).unwrap();
    assert_eq!((quote.times.len(), quote.skipped.count), (2, 1));
    let service = Log::read(&b"service_s,time\n0.5,1\n"[..], &even()).unwrap();
    assert_eq!((service.sizes_are, &service.sizes[..]), (Some(Sizes::Service), &[0.5][..]));
}

#[test]
fn damaged_log_names_line_and_reason() {
    let wrong = [
        "",
        "a,b\n1,2\n",
        "time\nx\ny\n",
        "time\nx\n",
        "time\n0\n1e9\n",
        "h - - [10/Oct/2000] \"GET /\" 200 1\n",
    ];
    let errors: Vec<String> = wrong
        .iter()
        .map(|text| wrapped(&Log::read(text.as_bytes(), &even()).unwrap_err()))
        .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    nothing to read,
      expected a header with a column of times (time, timestamp, ts, arrival, start_time ...),
      or its name (log:time-column=NAME:FILE)
    line 1: found `a,b`,
      expected a header with a column of times (time, timestamp, ts, arrival, start_time ...),
      or its name (log:time-column=NAME:FILE)
    line 2: found `x`,
      expected a row with a time from 0 on, and a size if the header has one
    line 2: found `x`,
      expected a row with a time from 0 on, and a size if the header has one
    1000000000 seconds from the first to the last,
      expected at most 18000000
    line 1: found `h - - [10/Oct/2000] "GET /" 200 1`,
      expected `host ident user [10/Oct/2000:13:55:36 -0700] "request" status bytes`
    "#);
}

proptest! {
    #[test]
    fn arbitrary_logs_never_panic(
        bytes: Vec<u8>,
        text in "(time|bytes|\\[|\\]|\"|,|[0-9]{1,3}| |-|\n){0,60}",
    ) {
        for bytes in [&bytes[..], text.as_bytes()] {
            let _ = Log::read(bytes, &LogOptions::default());
            for form in Form::ALL {
                let _ = Log::of(form, bytes, &LogOptions::default());
            }
            let _ = Log::csv(bytes, &LogOptions::default());
        }
    }

    #[test]
    fn written_log_reads_back_equal(
        rows in proptest::collection::vec((0u32..1_000_000, 0u32..9999), 1..50),
    ) {
        let mut text = String::from("at_s,bytes\n");
        for (ms, bytes) in &rows {
            text += &format!("{},{bytes}\n", f64::from(*ms) * 1e-3);
        }
        let log = Log::read(text.as_bytes(), &even()).unwrap();
        let mut expected: Vec<u32> = rows.iter().map(|r| r.0).collect();
        expected.sort_unstable();
        let first = expected[0];
        let found: Vec<u32> =
            log.times.iter().map(|t| (t.as_s() * 1e3).round() as u32 + first).collect();
        prop_assert_eq!(found, expected);
        let bytes = |sizes: &[f64]| sizes.iter().sum::<f64>();
        prop_assert_eq!(bytes(&log.sizes), rows.iter().map(|r| f64::from(r.1)).sum::<f64>());
    }
}

#[test]
fn commas_between_groups_of_three_digits_are_no_points() {
    let sizes = |text: &str| Log::read(text.as_bytes(), &even()).unwrap().sizes;
    let text = "time,bytes\n1.5,\"1,234\"\n2.5,\"1,234,567\"\n3.5,\"1,5\"\n4.5,\"12,345.5\"\n";
    assert_eq!(sizes(text), [1234.0, 1_234_567.0, 1.5, 12_345.5]);
    // Between other delimiters a comma is a point.
    assert_eq!(sizes("time;bytes\n1,5;1,234\n2,5;2,5\n"), [1.234, 2.5]);
}

#[test]
fn columns_of_times_are_taken_by_name_and_unit() {
    let log = |text: &str| Log::read(text.as_bytes(), &even()).unwrap();
    // The submission is the arrival, whatever stands before it.
    let text = "start_time,submit_time\n5.5,1.5\n7.5,2.5\n";
    assert_eq!(log(text).start_s, 1.5);
    let text = "arrival_milliseconds\n1500.5\n2500.5\n";
    assert_eq!(log(text).times[1], Time::ns(1_000_000_000));
    // Google's cluster (2019) has several events; submissions alone are requests, in microseconds.
    let text = "time,type,collection_id\n1000000,0,7\n1500000,1,7\n3000000,0,8\n";
    assert_eq!(log(text).times, [Time::ZERO, Time::ns(2_000_000_000)]);
}
