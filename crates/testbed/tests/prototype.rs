//! Data sets, pools and loads against each other, over loopback.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use halfwink_testbed::prototype::dataset::{check, write, Dataset, Index, Options as Values};
use halfwink_testbed::prototype::handlers::Workload;
use halfwink_testbed::prototype::load::{run, Options as Loading, Outcome, Pace, What};
use halfwink_testbed::prototype::server::{Options as Serving, Server, SlowBy};
use halfwink_testbed::traffic::schedule::{Schedule, Segment, Spacing};

const VALUES: Values =
    Values { files: 1030, min_bytes: 200, max_bytes: 20_000, mean_bytes: 800.0, seed: 7 };

fn made(folder: &Path, values: Values, threads: usize) -> Result<Dataset, String> {
    let written = AtomicUsize::new(0);
    let made = write(folder, values, threads, &written, &AtomicBool::new(false));
    made.map_err(|e| e.to_string())
}

fn pages(files: usize) -> (tempfile::TempDir, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let dataset = made(folder.path(), Values { files, ..VALUES }, 2).unwrap();
    (folder, dataset)
}

fn serving(folder: &Path, workers: usize) -> Serving {
    Serving {
        name: "small".into(),
        listen: "127.0.0.1:0".into(),
        folder: folder.to_owned(),
        workers,
        cpus: Vec::new(),
        slow: 1.0,
        slow_by: SlowBy::Wait,
        repeat: 1,
        quota: None,
    }
}

fn flat(rate: f64, seconds: f64, spacing: Spacing) -> Pace {
    let segment = Segment { seconds, from_pps: rate, to_pps: rate };
    Pace::Schedule(Schedule::new(vec![segment], 1, spacing, 1).unwrap())
}

fn loading(url: String, pace: Pace) -> Loading {
    Loading {
        url,
        what: What::Workload(Workload::Count, None),
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

#[test]
fn a_data_set_is_the_same_for_the_same_seed() {
    let (folder, dataset) = pages(1030);
    let other = tempfile::tempdir().unwrap();
    assert_eq!(made(other.path(), VALUES, 1).unwrap(), dataset);
    assert_eq!(check(other.path()).unwrap(), dataset);
    let index = Index::read(folder.path()).unwrap();
    assert_eq!(index.files.len(), 1030);
    assert_eq!(index.files.iter().map(|(_, bytes)| bytes).sum::<u64>(), dataset.bytes);
    assert_eq!(index.files[1029].0, "0001/0001029.txt");
    // The same again changes nothing; other values are refused, as are others' files.
    let text = std::fs::metadata(index.path(0).unwrap()).unwrap().modified().unwrap();
    assert_eq!(made(folder.path(), VALUES, 2).unwrap(), dataset);
    assert_eq!(std::fs::metadata(index.path(0).unwrap()).unwrap().modified().unwrap(), text);
    let refused = made(folder.path(), Values { seed: 8, ..VALUES }, 1).unwrap_err();
    assert!(refused.contains("holds another data set"), "{refused}");
    let next = tempfile::tempdir().unwrap();
    std::fs::write(next.path().join("mine"), "x").unwrap();
    let refused = made(next.path(), VALUES, 1).unwrap_err();
    assert!(refused.contains("holds other files"), "{refused}");
    assert_eq!(std::fs::read_dir(next.path()).unwrap().count(), 1);
    let differs = made(&other.path().join("b"), Values { seed: 8, ..VALUES }, 2).unwrap();
    assert_ne!(differs.sum, dataset.sum);
}

#[test]
fn interrupted_data_set_is_finished_and_damage_is_found() {
    let (folder, dataset) = pages(1030);
    let begun = tempfile::tempdir().unwrap();
    let (written, stop) = (AtomicUsize::new(0), AtomicBool::new(true));
    let stopped = write(begun.path(), VALUES, 1, &written, &stop).unwrap_err().to_string();
    assert!(stopped.contains("goes on"), "{stopped}");
    assert_eq!(made(begun.path(), VALUES, 1).unwrap(), dataset);
    let index = Index::read(folder.path()).unwrap();
    let mut page = std::fs::read(index.path(5).unwrap()).unwrap();
    page[3] ^= 1;
    std::fs::write(index.path(5).unwrap(), page).unwrap();
    assert!(check(folder.path()).unwrap_err().to_string().contains("the sum is"));
    let no_room = Values { files: 10_000_000, min_bytes: 1 << 30, max_bytes: 1 << 31, ..VALUES };
    let no_room = Values { mean_bytes: 1.5e9, ..no_room };
    let refused = made(&folder.path().join("huge"), no_room, 1).unwrap_err();
    assert!(refused.contains("GB free: expected"), "{refused}");
}

fn answer(stream: &mut (impl Read + Write), request: &[u8]) -> (String, Vec<u8>) {
    stream.write_all(request).unwrap();
    read_answer(stream)
}

fn read_answer(stream: &mut impl Read) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap() == 0 {
            break;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |l| l.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

#[test]
fn a_pool_answers_what_the_workloads_return() {
    let (folder, _) = pages(40);
    let server = Server::start(serving(folder.path(), 2)).unwrap();
    let index = Index::read(folder.path()).unwrap();
    let mut stream = connect(&server);
    for workload in Workload::ALL {
        let request = format!("GET /{}/39 HTTP/1.1\r\nHost: a\r\n\r\n", workload.name());
        let (head, body) = answer(&mut stream, request.as_bytes());
        let content = std::fs::read(index.path(39).unwrap()).unwrap();
        let mut wanted = Vec::new();
        workload.run(&content, &mut wanted);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nX-Backend: small\r\n"), "{head}");
        assert!(head.contains(&format!("X-File-Bytes: {}\r\n", content.len())), "{head}");
        assert_eq!(body, wanted);
    }
    // Two at once on one connection, the second without its body; then a word by word one.
    let two = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nHEAD /count/0 HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(answer(&mut stream, two).0.starts_with("HTTP/1.1 204 "));
    let mut head = [0; 17];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK\r\n");
    let mut slow = connect(&server);
    for part in ["GET /cou", "nt/99999 HTTP/1.1\r\nHo", "st: a\r\n"] {
        slow.write_all(part.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(answer(&mut slow, b"\r\n").0.starts_with("HTTP/1.1 404 "));
    server.stop();
    let report = server.report();
    assert_eq!((report.served, report.refused, report.connections), (5, 1, 2));
    assert_eq!(report.workers.len(), 2);
    assert!(report.workers.iter().map(|w| w.busy_s).sum::<f64>() > 0.0);
}

#[test]
fn malformed_request_is_refused_with_its_status() {
    let (folder, _) = pages(40);
    let server = Server::start(serving(folder.path(), 1)).unwrap();
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000));
    for (bytes, status) in [
        (&b"\0\x01\x02\xff\r\n\r\n"[..], 400),
        (b"GET /count/1 HTTP/1.1\r\n\r\n", 400),
        (b"GET /count/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /", 400),
        (b"GET /count/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /count/1 HTTP/3.0\r\n\r\n", 505),
        (long.as_bytes(), 431),
    ] {
        let mut stream = connect(&server);
        let (head, _) = answer(&mut stream, bytes);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.contains("Connection: close"), "{head}");
        // All that follows is the end, whether or not it had more to hear.
        let _ = stream.read(&mut [0]).map(|bytes| assert_eq!(bytes, 0));
    }
    let mut stream = connect(&server);
    let health = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    for refused in [
        "GET /count/-1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        "DELETE /count/1 HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let (head, _) = answer(&mut stream, refused.as_bytes());
        assert!(head.starts_with("HTTP/1.1 4"), "{head}");
    }
    assert!(answer(&mut stream, health).0.starts_with("HTTP/1.1 204 "));
    assert_eq!(server.report().refused, 9);
}

#[test]
fn a_pool_on_a_path() {
    let (folder, _) = pages(40);
    let path = folder.path().join("pool.sock");
    let listen = format!("unix:{}", path.display());
    let server = Server::start(Serving { listen: listen.clone(), ..serving(folder.path(), 1) });
    let server = server.unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    let health = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(answer(&mut stream, health).0.starts_with("HTTP/1.1 204 "));
    let again = Server::start(Serving { listen: listen.clone(), ..serving(folder.path(), 1) });
    assert!(again.err().unwrap().to_string().contains("in use"));
    let outcome = sent(loading(listen.clone(), Pace::Closed(2, 0.1)));
    assert!(outcome.found.answered > 10 && outcome.found.errors.is_empty(), "{outcome:?}");
    drop(server);
    assert!(!path.exists());
    // A socket that nobody listens on any more is taken over.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    Server::start(Serving { listen, ..serving(folder.path(), 1) }).unwrap();
}

#[test]
fn options_that_cannot_be() {
    let (folder, _) = pages(40);
    let with = |change: fn(&mut Serving)| {
        let mut options = serving(folder.path(), 1);
        change(&mut options);
        Server::start(options).err().unwrap().to_string()
    };
    assert!(with(|o| o.workers = 0).contains("expected 1 to 1024"));
    assert!(with(|o| o.slow = 0.5).contains("expected 1 to 1000"));
    assert!(with(|o| o.name = "a\r\nb".into()).contains("expected letters"));
    assert!(with(|o| o.cpus = vec![1000]).contains("not allowed"));
    assert!(with(|o| o.listen = "127.0.0.1".into()).contains("expected HOST:PORT"));
    assert!(with(|o| o.folder = PathBuf::from("/nowhere")).contains("live dataset"));
    let refused = |url: &str, change: fn(&mut Loading)| {
        let mut options = loading(url.into(), Pace::Closed(1, 0.1));
        change(&mut options);
        run(options, &AtomicBool::new(false)).unwrap_err().to_string()
    };
    assert!(refused("ftp://x", |_| ()).contains("expected http://"));
    assert!(refused("http://127.0.0.1:1", |_| ()).contains("127.0.0.1:1: "));
    assert!(refused("http://127.0.0.1:1", |o| o.connections = 0).contains("expected 1 to"));
    assert!(refused("http://a", |o| o.what = What::Path("x y".into())).contains("begins with"));
}

#[test]
fn a_slower_pool_takes_its_times_the_processor_time() {
    let (folder, _) = pages(40);
    let busy_per_cpu = |slow_by| {
        let options = Serving { slow: 3.5, slow_by, repeat: 20, ..serving(folder.path(), 1) };
        let server = Server::start(options).unwrap();
        let url = format!("http://{}", server.address());
        let mut options = loading(url, Pace::Closed(1, 10.0));
        options.what = What::Workload(Workload::Compress, None);
        options.requests = Some(60);
        assert_eq!(sent(options).found.answered, 60);
        server.stop();
        let worker = server.report().workers[0].clone();
        (worker.busy_s, worker.cpu_s)
    };
    let (busy, cpu) = busy_per_cpu(SlowBy::Wait);
    // At least: what the machine does meanwhile comes on top.
    assert!(busy / cpu > 3.0, "{busy} {cpu}");
    // Processor time itself scatters on a machine that others use: less than 3.5 is asked for.
    let cpu = cpu.min(busy_per_cpu(SlowBy::Wait).1);
    let (_, again) = busy_per_cpu(SlowBy::Spin);
    assert!(again > 1.5 * cpu, "{again} {cpu}");
}

#[test]
fn requests_leave_when_they_are_due_and_the_log_tells() {
    let (folder, _) = pages(40);
    let server = Server::start(serving(folder.path(), 2)).unwrap();
    let url = format!("http://{}", server.address());
    let outcome = sent(loading(url.clone(), flat(500.0, 0.5, Spacing::Even)));
    let found = &outcome.found;
    assert_eq!((found.requests, found.answered), (250, 250), "{found:?}");
    assert!((found.offered_per_s - 500.0).abs() < 1e-6, "{found:?}");
    let due: Vec<u64> = outcome.records.iter().map(|r| r.at_ns).collect();
    assert!(due.windows(2).all(|w| (w[1] - w[0]).abs_diff(2_000_000) < 10), "{due:?}");
    let index = Index::read(folder.path()).unwrap();
    let all: Vec<u64> = index.files.iter().map(|&(_, bytes)| bytes).collect();
    assert!(outcome.records.iter().all(|r| all.contains(&r.bytes) && r.status == 200));
    assert!(outcome.records.iter().all(|r| r.latency_ns >= r.service_ns));
    assert_eq!((found.backends.len(), found.backends[0].latency_s.count), (1, 250));
    // The same seed picks the same files; a list of times is kept to.
    let times = Pace::Times(due.clone());
    let again = sent(Loading { spin_ns: 100_000, ..loading(url.clone(), times) });
    let bytes = |o: &Outcome| o.records.iter().map(|r| r.bytes).collect::<Vec<_>>();
    assert_eq!(bytes(&again), bytes(&outcome));
    let mut csv = Vec::new();
    outcome.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let line = csv.lines().nth(2).unwrap();
    assert!(csv.starts_with("at_s,bytes,latency_s,service_s,status,backend\n"), "{csv}");
    assert!(line.starts_with("0.003000") && line.ends_with(",200,small"), "{line}");
    let mut some = loading(url, flat(500.0, 0.2, Spacing::Exponential));
    (some.warm_up_s, some.keep) = (0.1, false);
    some.what = What::Workload(Workload::Readfile, Some(3));
    let some = sent(some);
    assert!(some.found.requests < 90 && some.records.is_empty(), "{:?}", some.found);
}
