//! Loads against servers that misbehave.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use halfwink_testbed::prototype::load::{run, Options as Loading, Outcome, Pace, What};
use halfwink_testbed::traffic::schedule::{Schedule, Segment, Spacing};
use http_body_util::Full;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::Response;
use hyper_util::rt::{TokioExecutor, TokioIo};

fn flat(rate: f64, seconds: f64, spacing: Spacing) -> Pace {
    let segment = Segment { seconds, from_pps: rate, to_pps: rate };
    Pace::Schedule(Schedule::new(vec![segment], 1, spacing, 1).unwrap())
}

fn loading(url: String, pace: Pace) -> Loading {
    Loading {
        url,
        what: What::Path("/".into()),
        pace,
        requests: None,
        connections: 16,
        http2: false,
        timeout_s: 5.0,
        warm_up_s: 0.0,
        backend_header: "x-backend".into(),
        seed: 1,
        keep: true,
        spin_ns: 0,
    }
}

fn sent(options: Loading) -> Outcome {
    run(options, &AtomicBool::new(false)).unwrap()
}

/// Answers every request on every connection, but is silent once for a second.
fn stalls_once(after: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (start, mut stalled) = (Instant::now(), false);
        let mut room = [0; 4096];
        while stream.read(&mut room).unwrap_or(0) > 0 {
            if start.elapsed() > after && !stalled {
                stalled = true;
                std::thread::sleep(Duration::from_secs(1));
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    });
    url
}

#[test]
fn a_stall_is_charged_to_all_that_were_due_meanwhile() {
    let mut options =
        loading(stalls_once(Duration::from_millis(300)), flat(500.0, 2.0, Spacing::Even));
    options.connections = 1;
    let found = sent(options).found;
    assert_eq!((found.requests, found.answered), (1000, 1000), "{found:?}");
    let (latency, service) = (found.latency_s.p90.unwrap(), found.service_s.p90.unwrap());
    // 500 of 1,000 were due in the stall: the one in five of those that waited longest, 800 ms.
    assert!(latency >= 0.75, "{latency}");
    // A count from the real send has one in a thousand that was slow, and does not see it. The one
    // in ten is no neighbour's doing.
    assert!(service < latency / 3.0, "{service} {latency}");
    assert!(found.waited >= 450 && found.late >= 450, "{found:?}");
    assert!(found.service_s.max.unwrap() >= 1.0, "{found:?}");
    // In a closed loop the same stall is one slow request among all the others.
    let mut options = loading(stalls_once(Duration::from_millis(300)), Pace::Closed(1, 2.0));
    options.what = What::Path("/".into());
    let closed = sent(options).found;
    assert!(closed.latency_s.p90.unwrap() < latency / 3.0, "{closed:?}");
}

/// Answers with these bytes, and closes.
fn says(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer);
        }
    });
    url
}

#[test]
fn failures_are_counted_by_kind() {
    for (answer, kind) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"[..], "broken"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "status-503"),
        (b"nothing of the sort\r\n\r\n", "malformed"),
        (b"", "closed"),
    ] {
        let outcome = sent(loading(says(answer), flat(200.0, 0.05, Spacing::Even)));
        let found = &outcome.found;
        assert_eq!(found.errors.get(kind), Some(&10), "{kind}: {:?}", found.errors);
        assert_eq!((found.requests, found.answered, outcome.records.len()), (10, 0, 10));
    }
    // Nobody accepts, or nobody answers in time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut options = loading(url.clone(), flat(100.0, 0.03, Spacing::Even));
    (options.timeout_s, options.connections) = (0.1, 2);
    let late = sent(options.clone()).found;
    assert_eq!(late.errors.values().sum::<u64>(), 3, "{:?}", late.errors);
    assert!(late.errors.contains_key("timeout"), "{:?}", late.errors);
    drop(listener);
    assert_eq!(sent(options).found.errors.get("connect"), Some(&3));
}

/// Speaks HTTP/2 alone; each answer takes 20 ms, and says how many connections there were.
fn two() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let count = Rc::new(Cell::new(0));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.set(count.get() + 1);
            let number = count.get();
            let service =
                service_fn(move |request: hyper::Request<hyper::body::Incoming>| async move {
                    assert_eq!(request.version(), hyper::Version::HTTP_2);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let answer = Response::builder().header("x-backend", number);
                    Ok::<_, Infallible>(answer.body(Full::new(Bytes::from_static(b"ok"))).unwrap())
                });
            let served = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::task::spawn_local(served);
        }
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, serve())
    });
    url
}

#[test]
fn http_2_shares_connections() {
    let mut options = loading(two(), Pace::Closed(120, 5.0));
    (options.http2, options.connections, options.requests) = (true, 120, Some(600));
    let found = sent(options).found;
    assert_eq!((found.answered, found.connections), (600, 2), "{found:?}");
    // One after the other they would take 12 s.
    assert!(found.seconds < 3.0, "{found:?}");
    assert!(found.service_s.p50.unwrap() >= 0.02, "{found:?}");
    let names: Vec<&str> = found.backends.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}
