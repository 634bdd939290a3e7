//! What the daemon's policy decided, from its log: a fresh policy decides the same.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "host"))]

use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use halfwink_eventlog::{
    replay_log, replayer, Ended, Family, Header, Live, LogError, Reader, Report,
};
use halfwink_live_preheat::bpf::Sockets;
use halfwink_live_preheat::daemon::{Daemon, Hosted, Triggers};
use halfwink_live_preheat::load::Loader;
use halfwink_live_preheat::set::Lines;
use halfwink_live_preheat::shared::Shared;
use halfwink_live_preheat::{policy, TECHNIQUE};
use halfwink_policy::preheat::announce::{
    encode, Announcement, Key, Mode, Receiver, ReceiverParameters,
};
use halfwink_units::Time;

fn replayed(text: &str) -> Result<Report, LogError> {
    replay_log(Reader::new("a.log", text.as_bytes()), |_, _| Ok(replayer(policy())))
}

/// The log of a daemon that hears six announcements, one of which comes too late; whether it saw
/// its service restart.
fn log() -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared");
    let file = File::options().read(true).write(true).create_new(true).open(file).unwrap();
    let mut loader = Loader::new(None, Shared::create(&file, false).unwrap(), 0);
    loader.set(Lines { memory: [1, 2].into_iter().collect(), ..Lines::default() }, "x").unwrap();
    let key = Key(*b"of this one test");
    let receiver = Receiver::new(key, ReceiverParameters::default());
    let any = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let service = TcpListener::bind(any).unwrap();
    let sockets = Sockets::open().ok();
    let restarts = sockets.is_some();
    let triggers = Triggers { sockets, ..Triggers::default() };
    let path = folder.path().join("log");
    let header = Header::new("live preheat", Family::Preheat, TECHNIQUE).on("", "live");
    let (log, tap) = Live::create(&path, &header, 1 << 16, |_| {}).unwrap();
    let hosted = Hosted::logged(policy(), Some(tap));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let loader = Arc::new(Mutex::new(loader));
    let mut daemon =
        Daemon::start(socket, receiver, hosted, loader, (any.port(), triggers)).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut service = Some(service);
    for sequence in 1..=6 {
        let lead = Time::ns(if sequence == 3 { 0 } else { 9_000_000 });
        let (port, mode) = (any.port(), Mode::Announce);
        let announcement = Announcement { port, source: 7, sequence, lead, mode };
        socket.send_to(&encode(&announcement, &key), daemon.address).unwrap();
        let begun = Instant::now();
        while daemon.counts().heard < sequence {
            assert!(begun.elapsed() < Duration::from_secs(120), "not in time");
        }
        // The next request is another one.
        while begun.elapsed() < Duration::from_millis(10) {
            std::hint::spin_loop();
        }
        if sequence == 4 {
            service = None;
        }
        if sequence == 5 {
            let memory = [1, 2, 3].into_iter().collect();
            daemon.load(Lines { memory, ..Lines::default() }).unwrap();
        }
    }
    assert!(service.is_none());
    assert!(daemon.is_running());
    daemon.stop();
    assert!(!daemon.is_running());
    log.end().unwrap();
    (fs::read_to_string(path).unwrap(), restarts)
}

#[test]
fn replayed_preheat_log_gives_equal_actions() {
    let (text, restarts) = log();
    let report = replayed(&text).unwrap();
    assert_eq!(report.first_difference, None, "{text}");
    assert!(matches!(report.ended, Ended::Whole(_)), "{text}");
    assert_eq!(report.header.world, "live preheat");
    for there in [r#""event":{"announced""#, r#""built""#, r#""event":{"loaded""#, r#"{"load":"#] {
        assert!(text.contains(there), "{there} in {text}");
    }
    assert_eq!(text.contains(r#""event":{"closed""#), restarts, "{text}");
    assert!(report.actions >= 2, "{text}");
    // Another set is known before the next request is.
    let (other, last) = (text.rfind(r#""lines":3"#), text.rfind(r#""event":{"announced""#));
    assert!(other.is_some() && other < last, "{text}");
    // Nobody can hold back a server that knows nothing of this: every load has its end.
    assert_eq!(text.matches(r#""until_ps":null"#).count(), 0, "{text}");
}

/// Of a number that a policy goes by, every changed digit shows; and so does every decision that is
/// taken away.
#[test]
fn what_was_changed_in_a_log_is_found() {
    let (text, _) = log();
    let untouched = replayed(&text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let with = |n: usize, line: String| {
        let mut all: Vec<&str> = lines.clone();
        all[n] = &line;
        all.join("\n") + "\n"
    };
    let is_found = |n: usize, line: String| {
        let text = with(n, line);
        replayed(&text).map_or(true, |report| report.first_difference.is_some())
    };
    let mut changed = 0;
    for (n, line) in lines.iter().enumerate() {
        if let Some((before, asked)) = line.split_once(r#","actions":"#) {
            assert!(is_found(n, format!("{before}}}")), "taken away: {line}");
            for (at, byte) in asked.bytes().enumerate().filter(|(_, b)| b.is_ascii_digit()) {
                let other = if byte == b'7' { '8' } else { '7' };
                let asked = format!("{}{other}{}", &asked[..at], &asked[at + 1..]);
                let line = format!(r#"{before},"actions":{asked}"#);
                assert!(is_found(n, line), "byte {at} of the actions in {}", lines[n]);
                changed += 1;
            }
        }
        let late = line.replace(r#""due_ps":"#, r#""due_ps":9"#);
        assert!(late == *line || !line.contains(r#"{"load""#) || is_found(n, late), "{line}");
    }
    assert!(changed > 10, "{changed} bytes of {} actions", untouched.actions);
}
