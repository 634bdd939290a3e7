//! What comes from anywhere: announcements, lists for the thread in a server, memory that is gone.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "host"))]

use std::fs::File;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use halfwink_live_preheat::daemon::{Daemon, Hosted, Triggers};
use halfwink_live_preheat::helper;
use halfwink_live_preheat::load::Loader;
use halfwink_live_preheat::policy;
use halfwink_live_preheat::set::Lines;
use halfwink_live_preheat::shared::{Operation, Shared};
use halfwink_policy::preheat::announce::{
    encode, Announcement, Key, Mode, Receiver, ReceiverParameters, BYTES,
};
use halfwink_units::Time;

fn shared(folder: &std::path::Path, measures: bool) -> Shared {
    let path = folder.join("shared");
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    Shared::create(&file, measures).unwrap()
}

#[track_caller]
fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn daemon_loading_a_set_again_says_whether_its_lines_changed() {
    let folder = tempfile::tempdir().unwrap();
    let loader = Arc::new(Mutex::new(Loader::new(None, shared(folder.path(), false), 0)));
    let receiver = Receiver::new(Key(*b"of this one test"), ReceiverParameters::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let host = Hosted::logged(policy(), None);
    let daemon = Daemon::start(socket, receiver, host, loader, (80, Triggers::default())).unwrap();
    let lines = |all: &[u64]| {
        let lines = all.iter().copied().collect();
        Lines { files: vec![("/nowhere".into(), lines)], ..Lines::default() }
    };
    let found = [&[1, 2][..], &[1, 2], &[1, 3], &[]].map(|all| daemon.load(lines(all)));
    assert_eq!(found, [Ok(true), Ok(false), Ok(true), Ok(true)]);
}

#[test]
fn datagrams_from_anywhere_are_counted() {
    const PORT: u16 = 8080;
    let folder = tempfile::tempdir().unwrap();
    let mut loader = Loader::new(None, shared(folder.path(), false), 0);
    loader.set(Lines { memory: [1, 2].into_iter().collect(), ..Lines::default() }, "x").unwrap();
    let loader = Arc::new(Mutex::new(loader));
    let key = Key(*b"of this one test");
    let receiver = Receiver::new(key, ReceiverParameters::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let host = Hosted::logged(policy(), None);
    let daemon =
        Daemon::start(socket, receiver, host, loader, (PORT, Triggers::default())).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(daemon.address).unwrap();
    let announcement = |port, sequence| Announcement {
        port,
        source: 7,
        sequence,
        lead: Time::ns(10_000_000),
        mode: Mode::Announce,
    };
    // Nothing is announced: nobody wakes.
    until(|| daemon.counts().policy.iter().any(|(name, n)| *name == "ready" && *n == 1));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(daemon.counts().wakes, 0);
    // Garbage of all lengths; forged; not of this key.
    for n in 0..1000usize {
        socket.send(&vec![n as u8; n % (2 * BYTES)]).unwrap();
        until_heard(&daemon, n as i64 + 1);
    }
    let mut forged = encode(&announcement(PORT, 1), &key);
    forged[6] ^= 1;
    socket.send(&forged).unwrap();
    socket.send(&encode(&announcement(PORT, 2), &Key([0; 16]))).unwrap();
    until(|| daemon.counts().refused["forged"] == 2);
    assert_eq!(daemon.counts().heard, 0);
    // One that is right, the same again, one of nobody's service, one for measurements.
    // A busy machine may run the daemon only when the request is due: then another one.
    let mut sequence = 2;
    while daemon.counts().loads == 0 {
        sequence += 1;
        let before = daemon.counts().heard;
        socket.send(&encode(&announcement(PORT, sequence), &key)).unwrap();
        until(|| daemon.counts().heard > before);
        std::thread::sleep(Duration::from_millis(20));
    }
    socket.send(&encode(&announcement(PORT, sequence), &key)).unwrap();
    socket.send(&encode(&announcement(PORT + 1, sequence + 1), &key)).unwrap();
    let flushed = Announcement { mode: Mode::Flushed, ..announcement(PORT, sequence + 2) };
    socket.send(&encode(&flushed, &key)).unwrap();
    until(|| daemon.counts().refused["for_measurements"] == 1);
    let before = daemon.counts();
    // Due at once: there is no time for anything.
    let late = Announcement { lead: Time::ZERO, ..announcement(PORT, sequence + 3) };
    std::thread::sleep(Duration::from_millis(5));
    socket.send(&encode(&late, &key)).unwrap();
    until(|| daemon.counts().heard == before.heard + 1);
    let counts = daemon.counts();
    assert_eq!((counts.refused["replayed"], counts.unknown), (1, 1));
    assert_eq!((counts.loads, counts.failed), (before.loads, 0));
}

fn until_heard(daemon: &Daemon, n: i64) {
    // A socket's buffer holds some hundreds.
    if n % 100 == 0 {
        until(|| daemon.counts().refused["malformed"] == n);
    }
}

#[test]
fn the_thread_in_a_server_survives_what_it_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let shared = shared(folder.path(), false);
    // SAFETY: the process has no such thread yet.
    assert!(unsafe { helper::start(shared) });
    until(|| shared.alive().any(|(_, _, helper)| helper != 0));
    let (slot, pid, _) = shared.alive().next().unwrap();
    assert_eq!(pid, std::process::id());
    let ask = |operation, words: &[u64]| {
        let number = slot.post(operation, Some(words), 0);
        assert!(slot.wait(number, 120_000_000_000), "{operation:?}");
    };
    // Memory of ours, memory that is gone, the kernel's, no address at all.
    let own = vec![1u8; 4096 * 4];
    let here = own.as_ptr() as u64 + 4096 & !4095;
    // SAFETY: the kernel chooses the place; unmapped again at once.
    let gone = unsafe {
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), 4096, read, private, -1, 0);
        libc::munmap(at, 4096);
        at as u64
    };
    let words =
        [here | 63, gone | 63, 0xffff_ffff_8100_0000 | 63, 1 << 63 | 63, 4096 | 63, u64::MAX];
    ask(Operation::Load, &words);
    assert_eq!(slot.taken.load(Ordering::Relaxed), 6);
    ask(Operation::Time, &words.map(|word| word & !63));
    let took: Vec<u32> = slot.ticks[..6].iter().map(|t| t.load(Ordering::Relaxed)).collect();
    assert!(took[0] < u32::MAX);
    assert!(took[1..].iter().all(|t| *t == u32::MAX), "errors of the kernel's: {took:?}");
    ask(Operation::Populate, &[here, gone, 1 << 62]);
    assert_eq!(slot.taken.load(Ordering::Relaxed), 1);
    // For measurements only, and this is none; no operation at all; a count beyond the list.
    ask(Operation::Flush, &[gone]);
    ask(Operation::Drop, &[here]);
    assert_eq!(slot.refused.load(Ordering::Relaxed), 2);
    assert!(own.iter().all(|byte| *byte == 1));
    slot.operation.store(77, Ordering::Relaxed);
    helper::serve(slot, true);
    assert_eq!(slot.refused.load(Ordering::Relaxed), 3);
    slot.operation.store(Operation::Load as u32, Ordering::Relaxed);
    slot.count.store(u32::MAX, Ordering::Relaxed);
    helper::serve(slot, true);
    // A load that should have ended begins no more; one that has time takes all of the list.
    slot.count.store(200, Ordering::Relaxed);
    for (until, taken) in [(1, 0), (u64::MAX, 200), (0, 200)] {
        slot.until_ticks.store(until, Ordering::Relaxed);
        helper::serve(slot, true);
        assert_eq!(slot.taken.load(Ordering::Relaxed), taken, "until {until}");
    }
    // Whoever takes over the process gains nothing by the thread.
    let status = |tid: u32, name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap();
        text.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    let (_, tid) = slot.owner().unwrap();
    assert!(status(tid, "Seccomp:").ends_with('2'), "filtered");
    assert!(status(tid, "NoNewPrivs:").ends_with('1'));
    assert!(status(pid, "Seccomp:").ends_with('0'), "it alone");
}
