//! A line or two of each form, with facts counted by hand.

use halfwink_inputs::Share;

use super::*;

/// Form, requests, seconds from the first to the last, and bytes of a log.
fn facts(text: &str) -> (String, usize, f64, f64) {
    let options = LogOptions { spread: Spread::Even, ..LogOptions::default() };
    let log = Log::read(text.as_bytes(), &options).unwrap_or_else(|e| panic!("{text}: {e}"));
    let span = log.times.last().unwrap().as_s() - log.times[0].as_s();
    let span = (span * 1e6).round() / 1e6;
    (log.account.format.clone(), log.times.len(), span, log.sizes.iter().sum())
}

fn check(text: &str, form: Form, requests: usize, span_s: f64, bytes: f64) {
    assert_eq!(facts(text), (form.name().to_owned(), requests, span_s, bytes), "{text}");
}

#[test]
fn kin_of_common_log_format() {
    for (first, last) in [
        ("h - - [03/Mar/2025:10:00:00.250 +0000]", "h - - [03/Mar/2025:10:00:02.000 +0000]"),
        ("h - - [2025-03-03T10:00:00.25+00:00]", "h - - [2025-03-03T10:00:02.0Z]"),
        ("h e.org [a b] [03/Mar/2025:10:00:00.25 +0000]", "h e [x] [03/Mar/2025:10:00:02.0 +0000]"),
        ("[::1]:443 h - - [03/Mar/2025:10:00:00.25 +0000]", "h - - [03/Mar/2025:10:00:02.0 +0000]"),
        ("<134>h nginx[77]: h - - [1740996000.25]", "<134>h nginx[77]: h - - [1740996002.0]"),
    ] {
        let text = format!(
            "{first} \"GET / HTTP/1.1\" 200 10 \"-\" \"ua\" 0.004\n{last} \"-\" 408 - \"-\"\n"
        );
        check(&text, Form::Common, 2, 1.75, 10.0);
    }
    // Whole seconds are spread, here evenly.
    let line = "h - - [2025-03-03T10:00:00+00:00] \"GET /\" 200 1\n";
    check(&line.repeat(4), Form::Common, 4, 0.75, 4.0);
}

#[test]
fn envoy_line_with_damaged_number_is_bad() {
    let line = |second: usize, received: &str, sent: &str| {
        let front = format!("[2016-04-15T20:17:{second:02}.310Z] \"GET / HTTP/1.1\" 200 -");
        format!("{front} {received} {sent} 226 100 \"-\" \"x\" \"a\" \"b\" \"c\"\n")
    };
    let good: String = (0..40).map(|second| line(second, "0", "10")).collect();
    for (received, sent) in [("0", "1x0"), ("abc", "20"), ("-5", "20"), ("0", "1,000"), ("0", "")] {
        let text = good.clone() + &line(50, received, sent);
        check(&text, Form::Envoy, 40, 39.0, 400.0);
        // A damaged line is of no other form, whatever stands around it.
        let few = line(0, "0", "10") + &line(1, received, sent) + &line(2, "0", "30");
        assert!(Log::read(few.as_bytes(), &LogOptions::default()).is_err(), "{received} {sent}");
    }
}

#[test]
fn line_without_newline_may_be_cut_in_its_last_number() {
    let line =
        |second: usize| format!("h - - [03/Mar/2025:10:00:0{second}.5 +0000] \"GET /\" 200 1000");
    let log = |text: &str| Log::read(text.as_bytes(), &LogOptions::default()).unwrap();
    let whole = format!("{}\n{}\n{}\n", line(0), line(1), line(2));
    assert_eq!(log(&whole).sizes, [1000.0; 3]);
    // From the last digit of the last size to its first one.
    for cut in 1..4 {
        let log = log(&whole[..whole.len() - cut]);
        assert_eq!((log.sizes, log.times.len()), (vec![1000.0; 2], 2), "{cut}");
        let told = "last line (no newline ends it: its last number may be cut)";
        assert!(log.account.left_out().contains(&told.to_owned()), "{:?}", log.account);
    }
    // The line ends in something that is not read as a number.
    let ended = format!("{} \"-\"\n{} \"-\"", line(0), line(1));
    assert_eq!(log(&ended).sizes, [1000.0; 2]);
    let json = "{\"ts\":1.5,\"status\":200,\"size\":10}\n{\"ts\":2.5,\"status\":200,\"size\":10}";
    assert_eq!(log(json).sizes, [10.0; 2]);
    assert_eq!(log(&line(0)).sizes, [1000.0]);
    // Tables need no newline at their end, so that the last row is kept, and told.
    let table = log("time,bytes\n0.25,10\n1.25,10");
    let told = "check of the end (no newline ends it: its last number may be cut)";
    assert_eq!(table.sizes, [10.0; 2]);
    assert!(table.account.left_out().contains(&told.to_owned()), "{:?}", table.account);
    assert!(log("time,bytes\n0.25,10\n1.25,10\n").account.left_out().is_empty());
    assert!(log("time,bytes,who\n0.25,10,a1\n1.25,10,b2").account.left_out().is_empty());
}

#[test]
fn negative_times_are_bad_rows() {
    let good: String = (0..40).map(|second| format!("{second}.5,7\n")).collect();
    let options = LogOptions { spread: Spread::Even, ..LogOptions::default() };
    for negative in ["-1", "-1000.25", "-0.5"] {
        let text = format!("time,bytes\n{negative},7\n{good}");
        let log = Log::read(text.as_bytes(), &options).unwrap();
        assert_eq!((log.times.len(), log.skipped.count, log.start_s), (40, 1, 0.5), "{negative}");
        let json = format!("{{\"ts\":{negative},\"status\":200}}\n{{\"ts\":5,\"status\":200}}\n");
        assert!(Log::read(json.as_bytes(), &options).is_err(), "{negative}");
    }
    // A request that ended after the first second of a recording may have begun before that.
    let text = "end_time,duration\n0.5,1.0\n1.5,0.5\n";
    let log = Log::read(text.as_bytes(), &options).unwrap();
    assert_eq!((log.times.len(), log.start_s), (2, -0.5));
}

#[test]
fn elasticdump_is_read_by_the_keys_of_its_documents() {
    let dump = |ms: u32, source: &str| {
        let time = format!("2025-03-03T10:00:00.{ms}Z");
        format!("{{\"_index\":\"l\",\"_id\":\"{ms}\",\"_source\":{{{source}}}}}\n")
            .replace("TIME", &time)
    };
    for source in [
        r#""@timestamp":"TIME","http":{"response":{"status_code":200,"body":{"bytes":512}}}"#,
        r#""@timestamp":"TIME","verb":"GET","response":"200","bytes":"512""#,
        r#""timestamp":"TIME","status":200,"body_bytes_sent":512,"size":7"#,
        r#""@timestamp":"TIME","message":"[03/Mar/2025:10:00:00.250 +0000] \"GET /\" 200 512""#,
    ] {
        let last = source.replace("00.250", "00.750");
        check(&(dump(250, source) + &dump(750, &last)), Form::Json, 2, 0.5, 1024.0);
    }
}

#[test]
fn logs_of_proxies_are_recognized() {
    let haproxy = "Feb  6 12:14:14 lb haproxy[14389]: 192.0.2.1:33317 \
        [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- \
        1/1/1/1/0 0/0 {e.org} {} \"GET /index.html HTTP/1.1\"\n\
        Feb  6 12:14:15 lb haproxy[14389]: 192.0.2.1:33318 [06/Feb/2009:12:14:15.155] \
        tcp-in~ db/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0\n";
    check(haproxy, Form::Haproxy, 2, 0.5, 2962.0);
    let envoy = "[2016-04-15T20:17:00.310Z] \"POST /api HTTP/2\" 204 - 154 7 226 100 \"-\" \"x\"\n\
        [2016-04-15T20:17:01.310Z] \"GET / HTTP/1.1\" 200 - via_upstream - \"-\" 0 226 9 8 \"-\"\n";
    // Istio has a quoted text between flags and bytes.
    check(envoy, Form::Envoy, 2, 1.0, 233.0);
    let elb = "2015-05-13T23:39:43.945958Z lb 192.0.2.1:2817 10.0.0.1:80 0.000073 0.001048 \
        0.000057 200 200 0 29 \"GET http://e.org:80/ HTTP/1.1\" \"curl/7.38.0\" - -\n\
        2015-05-13T23:39:44.945958Z lb 192.0.2.1:2817 - -1 -1 -1 504 0 0 1 \"GET / HTTP/1.1\"\n";
    check(elb, Form::Elb, 2, 1.0, 30.0);
    let alb = "http 2018-07-02T22:23:00.500000Z app/lb/50dc 192.0.2.1:2817 10.0.0.1:80 0.000 \
        0.500 0.000 200 200 34 366 \"GET http://e.org:80/ HTTP/1.1\" \"curl\" - - arn:x\n\
        https 2018-07-02T22:23:02.000000Z app/lb/50dc 192.0.2.1:2817 - -1 -1 -1 502 - 34 4 \"x\"\n";
    check(alb, Form::Alb, 2, 2.0, 370.0);
    let squid = "1286536309.450    450 192.0.2.9 TCP_MISS/200 507 POST http://e.org/ - \
        DIRECT/192.0.2.1 text/xml\n1286536310.000      0 192.0.2.9 TCP_HIT/200 9 GET http://e/ -\n";
    check(squid, Form::Squid, 2, 1.0, 516.0);
}

#[test]
fn json_values_of_unknown_keys_are_skipped() {
    let line = |second: usize, about: &str, response: &str| {
        format!("{{{about},\"ts\":{second}.5,\"res\":{response},\"a\":{{\"ts\":1}}}}\n")
    };
    let about = "\"headers\":{\"ts\":9,\"status\":[{\"size\":1}],\"x\":1e999,\"y\":\"\\u00e9\"}";
    let nested = "{\"size\":10,\"body\":{\"bytes\":7,\"size\":8,\"x\":{\"y\":{\"z\":{}}}}}";
    let flat = "1,\"res.size\":10";
    for response in [nested, flat] {
        let text = line(0, about, response) + &line(3, about, response);
        check(&text, Form::Json, 2, 3.0, 20.0);
    }
    // Text that is no UTF-8 spoils a line only where it is looked at.
    let mut text = line(0, about, nested).into_bytes();
    text.extend(line(3, "\"agent\":\"?\"", nested).bytes());
    let at = text.iter().position(|byte| *byte == b'?').unwrap();
    text[at] = 0xe9;
    assert_eq!(Log::read(&text[..], &LogOptions::default()).unwrap().times.len(), 2);
}

#[test]
fn json_logs_give_times_and_sizes() {
    let caddy = r#"{"level":"info","ts":1646861401.524,"logger":"http.log.access",
        "request":{"remote_ip":"192.0.2.1","headers":{"A":["x"]}},"duration":0.0009,"size":10,
        "status":200}"#
        .replace("\n        ", "");
    let nginx = r#"{"time_iso8601":"2022-03-09T21:30:03+00:00","msec":"1646861403.524",
        "body_bytes_sent":"32","request_time":"0.004","status":"200"}"#
        .replace("\n        ", "");
    let log = format!("{caddy}\n{nginx}\n");
    check(&log, Form::Json, 2, 2.0, 42.0);
    let iis = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n\
        #Fields: date time s-ip cs-method cs-uri-stem sc-status sc-bytes time-taken\n\
        2024-01-01 00:00:01 ::1 GET / 200 100 31\n2024-01-01 00:00:04 ::1 GET /a 200 - 15\n";
    check(iis, Form::W3c, 2, 3.0, 100.0);
    // Without its status the bytes were the milliseconds.
    let short = iis.replace("GET /a 200 - 15", "GET /a - 15");
    let error = Log::read(short.as_bytes(), &LogOptions::default()).unwrap_err().to_string();
    assert!(error.contains("1 of"), "{error}");
}

#[test]
fn columns_of_times_by_any_name() {
    let read = |text: &str, time_column: Option<&str>| {
        let time_column = time_column.map(str::to_owned);
        Log::read(text.as_bytes(), &LogOptions { time_column, ..LogOptions::default() })
    };
    for text in [
        "timestamp,size\n1740996000013,1\n1740996000018,2\n",
        "ts;bytes\n1740996000013000;1\n1740996000018000;2\n",
        "epoch\tx\n1740996000013000000\t1\n1740996000018000000\t2\n",
        "arrival_ms,x\n13,1\n18,2\n",
        "end_timestamp,duration\n2025-03-03T10:00:00.113,0.1\n2025-03-03T10:00:00.218,0.2\n",
        "app,Start Time (us)\na,13000\nb,18000\n",
    ] {
        let column = text.starts_with("app").then_some("2");
        let log = read(text, column).unwrap_or_else(|e| panic!("{text}: {e}"));
        let span = log.times[1].as_s() - log.times[0].as_s();
        assert!((span - 0.005).abs() < 1e-6, "{text}: {span}");
    }
    let said = read("when,x\n1,2\n", None).unwrap_err().to_string();
    assert!(said.contains("log:time-column=NAME:FILE"), "{said}");
    assert_eq!(read("when,x\n1,2\n2,2\n", Some("WHEN")).unwrap().times.len(), 2);
    // A number names a column where there is no header.
    assert_eq!(read("a,1\nb,2\nc,2\n", Some("2")).unwrap().times.len(), 3);
}

#[test]
fn absurd_rates_ask_for_the_unit() {
    let text = |step: f64| {
        let rows = (0..100).map(|n| format!("{}\n", f64::from(n) * step));
        format!("time\n{}", rows.collect::<String>())
    };
    let read = |text: &str, unit| {
        let time_unit = Unit::parse(unit);
        Log::read(text.as_bytes(), &LogOptions { time_unit, ..LogOptions::default() })
    };
    let said = read(&text(12.0), "").unwrap_err().to_string();
    assert!(said.contains("log:time-unit=ms:FILE"), "{said}");
    assert!(read(&text(1e3 + 0.5), "").unwrap_err().to_string().contains("time-unit="));
    assert!(read(&text(1.0), "").is_ok() && read(&text(2.5), "").is_ok());
    let log = read(&text(12.0), "ms").unwrap();
    assert!((log.times[99].as_s() - 99.0 * 0.012).abs() < 1e-9);
    // Whole seconds since 1970 are what they are.
    assert!(read(&text(12.0).replace("time\n", "time\n1740996000\n"), "").is_err());
}

#[test]
fn bad_lines_are_a_share() {
    let line = "h - - [03/Mar/2025:10:00:00 +0000] \"GET /\" 200 1\n";
    let text = format!("{}{}", line.repeat(8), "what?\n".repeat(390));
    let said = Log::read(text.as_bytes(), &LogOptions::default()).unwrap_err().to_string();
    assert!(said.starts_with("390 of 398 lines are bad, expected at most 5 %"), "{said}");
    let any = LogOptions { bad: Share::ALL, ..LogOptions::default() };
    assert_eq!(Log::read(text.as_bytes(), &any).unwrap().times.len(), 8);
    let few = format!("{}what?\n", line.repeat(20));
    let log = Log::read(few.as_bytes(), &LogOptions::default()).unwrap();
    assert!(log.account.to_string().contains("left out: bad lines (line 21"), "{}", log.account);
}

#[test]
fn other_files_are_refused_by_name() {
    let read = |bytes: &[u8]| Log::read(bytes, &LogOptions::default()).unwrap_err().to_string();
    assert!(read(b"\xd4\xc3\xb2\xa1\x02\x00").contains("a packet capture"));
    assert!(read(b"[global]\nioengine=libaio\n").contains("a job file of fio"));
}

#[test]
fn lines_beside_requests_are_left_out() {
    let k6 = r#"{"type":"Metric","metric":"http_reqs"}
{"metric":"http_reqs","type":"Point","data":{"time":"2025-03-03T10:00:00.5Z","value":1}}
{"metric":"data_sent","type":"Point","data":{"time":"2025-03-03T10:00:00.5Z","value":9}}
{"metric":"http_reqs","type":"Point","data":{"time":"2025-03-03T10:00:02.5Z","value":1}}"#;
    check(k6, Form::Json, 2, 2.0, 0.0);
    let google = r#"{"time":"0","type":"0","collection_id":"1"}
{"time":"600000000","type":"0","collection_id":"1"}
{"time":"600250000","type":"1","collection_id":"1"}
{"time":"602250000","type":"0","collection_id":"2"}"#;
    check(google, Form::Json, 2, 2.25, 0.0);
    let suricata = r#"{"timestamp":"2025-03-03T10:00:00.5+0000","event_type":"http","http":{}}
{"timestamp":"2025-03-03T10:00:01.5+0000","event_type":"flow"}
{"timestamp":"2025-03-03T10:00:02.5+0000","event_type":"dns"}"#;
    check(suricata, Form::Json, 2, 2.0, 0.0);
    let common = r#"h - - [03/Mar/2025:10:00:00.5 +0000] \"GET /\" 200 7"#;
    let line = |text| format!(r#"{{"line":"{text}","timestamp":"2025-03-03T10:00:01Z"}}"#);
    let loki = [line(common), line("reloads")].join("\n");
    check(&loki, Form::Json, 1, 0.0, 7.0);
}

#[test]
fn tables_of_samples_are_no_logs() {
    for (header, told) in [
        ("Timestamp,User Count,Requests/s", "counts:FILE"),
        ("timestamp,msname,cpu_utilization", "a row for each request"),
    ] {
        let table = format!("{header}\n1740996000,1,2\n1740996001,1,2\n");
        let error = Log::read(table.as_bytes(), &LogOptions::default()).unwrap_err().to_string();
        assert!(error.contains("samples by time") && error.contains(told), "{error}");
    }
    let table = "time,status,value\n1740996000.5,200,2\n1740996001.5,200,2\n";
    assert_eq!(facts(table).1, 2);
}
