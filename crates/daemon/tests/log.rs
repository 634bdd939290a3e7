//! The log of a real proxy, from its start over a reload to its end, replayed from its headers
//! alone.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use halfwink_daemon::steer::Steer;
use halfwink_daemon::Program;
use halfwink_eventlog::{replay_log, replayer, Ended, Header, Reader, Report};
use halfwink_techniques::server::read;
use halfwink_techniques::{Choice, Descriptions, Error};

fn library() -> Descriptions {
    Descriptions::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A machine that answers every request with `ok`.
fn machine() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while stream.read(&mut piece).is_ok_and(|n| n > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn ask(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn replayed(log: &Path) -> Report {
    let library = library();
    let make = |header: &Header, _| {
        let set: Vec<_> = header.set.clone().into_iter().collect();
        let wrong = |e: Error| e.to_string();
        let model = read(&library, &header.machine, &set).map_err(wrong)?.model;
        let service = model.named_service(&header.workload).map_err(wrong)?;
        let technique = Choice::parse("server", &header.technique).map_err(wrong)?;
        Ok(replayer(technique.steering(&model, &service).map_err(wrong)?))
    };
    replay_log(Reader::open(log).unwrap(), make).unwrap()
}

#[test]
fn a_log_grows_while_its_proxy_runs_and_says_all_that_a_replay_needs() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("steer.toml"), folder.path().join("log.jsonl"));
    let describe = |policy: &str| {
        let (small, big) = (machine(), machine());
        let text = format!(
            "schema = 1\nlisten = \"127.0.0.1:0\"\npolicy = \"{policy}\"\n\
             machine = \"niccolini\"\n\
             [small]\naddress = \"{small}\"\nworkers = 2\n[big]\naddress = \"{big}\"\n\
             workers = 4\n[health]\ninterval_ms = 0\n[set]\n\"big.wake_ms\" = 12.5\n"
        );
        std::fs::write(&path, text).unwrap();
    };
    describe("hybrid:threshold=3");
    let steer = Steer::start(&Ok(library()), &path, Some(&log)).unwrap();
    (0..5).for_each(|_| ask(&steer.address()));
    let end = Instant::now() + Duration::from_secs(120);
    let lines = || std::fs::read_to_string(&log).unwrap().lines().count();
    while lines() < 11 {
        assert!(Instant::now() < end, "header, and two lines for each request, while it runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    let running = replayed(&log);
    assert_eq!((running.first_difference, running.ended), (None, Ended::Cut { torn: false }));
    // The same policy on other machines goes on; another one has a header.
    describe("hybrid:threshold=3");
    assert_eq!(steer.reload(&path).unwrap(), ["big.address", "small.address"]);
    ask(&steer.address());
    describe("hybrid:wake_at=2,threshold=2");
    steer.reload(&path).unwrap();
    (0..3).for_each(|_| ask(&steer.address()));
    steer.stop().unwrap();
    let report = steer.report();
    assert_eq!((&report["log_dropped"], &report["steps_back"]), (&0.into(), &0.into()));

    let whole = replayed(&log);
    assert_eq!((whole.first_difference, whole.policies), (None, 2));
    assert!(matches!(whole.ended, Ended::Whole(footer) if footer.dropped == 0));
    assert_eq!(whole.header.set["big.wake_ms"], "12.5");
    let text = std::fs::read_to_string(&log).unwrap();
    let headers: Vec<&str> = text.lines().filter(|line| line.contains("\"schema\"")).collect();
    assert!(headers[0].contains("\"technique\":\"hybrid:threshold=3\""), "{headers:?}");
    assert!(headers[1].contains("\"technique\":\"hybrid:threshold=2,wake_at=2\""), "{headers:?}");
    assert_eq!(headers.len(), 2);
    // Had the header been another, somebody would have noticed.
    std::fs::write(&log, text.replacen("hybrid:threshold=2,wake_at=2", "always-big", 1)).unwrap();
    assert!(replayed(&log).first_difference.is_some());
}

#[test]
fn a_disk_that_fails_ends_no_proxy_and_is_said_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steer.toml");
    let (small, big) = (machine(), machine());
    let text = format!(
        "schema = 1\nlisten = \"127.0.0.1:0\"\n[small]\naddress = \"{small}\"\nworkers = 2\n\
         [big]\naddress = \"{big}\"\nworkers = 4\n[health]\ninterval_ms = 0\n"
    );
    std::fs::write(&path, text).unwrap();
    let nowhere = folder.path().join("none/log.jsonl");
    let refused = Steer::start(&Ok(library()), &path, Some(&nowhere)).err().unwrap().to_string();
    assert!(refused.ends_with("none/log.jsonl: No such file or directory (os error 2)"));
    let steer = Steer::start(&Ok(library()), &path, Some(Path::new("/dev/full"))).unwrap();
    ask(&steer.address());
    let end = Instant::now() + Duration::from_secs(120);
    while steer.report()["log_error"].is_null() {
        assert!(Instant::now() < end, "the report says so at once");
        std::thread::sleep(Duration::from_millis(5));
    }
    ask(&steer.address());
    assert!(steer.metrics().contains("\nhalfwink_event_log_up 0\n"), "{}", steer.metrics());
    let error = steer.stop().unwrap_err().to_string();
    assert_eq!(error, "/dev/full: No space left on device (os error 28); the log is not complete");
    assert_eq!(steer.report()["requests"]["answered"], 2);
    assert_eq!(steer.stop(), Ok(()), "it has been said");
}
