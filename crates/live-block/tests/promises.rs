//! What is promised about stable storage, on a device that forgets what was not flushed; and the
//! event log of a server's policy, told to a fresh one.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod client;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::Client;
use halfwink_eventlog::{replay_log, replayer, Family, Header, Live, Reader};
use halfwink_live_block::backend::{Backend, Ram};
use halfwink_live_block::{EventLog, Listen, Server, Setting};
use halfwink_policy::completion::{
    CacheAware, CacheAwareParameters, Completing, CompletionPolicy, Direct, Dynamic,
    DynamicParameters, Group, Issuer, RoundRobin, Same, SingleThread, Topology,
};
use halfwink_units::Time;

const SIZE: usize = 1 << 20;
const BLOCK: usize = 4096;

/// A disk with a cache that a power cut empties.
struct Volatile {
    cache: Mutex<Vec<u8>>,
    stable: Arc<Mutex<Vec<u8>>>,
}

impl Volatile {
    fn new() -> (Volatile, Arc<Mutex<Vec<u8>>>) {
        let stable = Arc::new(Mutex::new(vec![0; SIZE]));
        (Volatile { cache: Mutex::new(vec![0; SIZE]), stable: Arc::clone(&stable) }, stable)
    }
}

impl Backend for Volatile {
    fn size(&self) -> u64 {
        SIZE as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.cache.lock().unwrap()[offset as usize..][..into.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.cache.lock().unwrap()[offset as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64, _keep: bool, _fast: bool) -> io::Result<()> {
        self.cache.lock().unwrap()[offset as usize..][..length as usize].fill(0);
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.zero(offset, length, false, false)
    }

    fn is_flushed_slowly(&self) -> bool {
        true
    }

    fn flush(&self) -> io::Result<()> {
        let now = self.cache.lock().unwrap().clone();
        // Another write may come meanwhile: what was there before counts.
        std::thread::yield_now();
        *self.stable.lock().unwrap() = now;
        Ok(())
    }
}

fn setting(path: &Path, threads: usize) -> Setting {
    Setting {
        listen: Listen::Unix(path.to_owned()),
        name: String::new(),
        read_only: false,
        cpus: vec![None; threads],
        connections: 10,
        handshake: Duration::from_secs(60),
    }
}

fn start(path: &Path, name: &str, backend: Box<dyn Backend>, log: Option<EventLog>) -> Server {
    Server::start(&setting(path, 2), backend, made(name), log).unwrap()
}

/// A policy for two CPUs that share a cache.
fn made(name: &str) -> CompletionPolicy {
    let two = Topology::uniform(1, 2);
    let published = CacheAwareParameters::published(0);
    let aware = CacheAwareParameters { period: Time::ns(100_000), ..published };
    let aware = CacheAware::new(&two, aware);
    match name {
        "single-thread" => Box::new(Completing::new(SingleThread, 2)),
        "same" => Box::new(Completing::new(Same, 2)),
        "issuer" => Box::new(Completing::new(Issuer, 2)),
        "msi-x" => Box::new(Completing::new(Direct::MSI_X, 2)),
        "cache-aware" => Box::new(Completing::new(aware, 2)),
        "dynamic" => {
            let early = DynamicParameters { high: 2, low: 0 };
            Box::new(Completing::new(Dynamic::new(aware, early), 2))
        }
        "round-robin-socket" => {
            Box::new(Completing::new(RoundRobin::new(&two, Group::Socket, Some(0)), 2))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_flush_on_one_connection_covers_all_and_fua_covers_itself() {
    for name in ["single-thread", "issuer", "msi-x"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (disk, stable) = Volatile::new();
        let server = start(&path, name, Box::new(disk), None);
        let mut clients: Vec<Client> =
            (0..3).map(|_| Client::connect(&path, SIZE as u64)).collect();
        for round in 1..=100u8 {
            let block = |n: u8| usize::from(n) * 2 * BLOCK;
            for (n, client) in (0u8..).zip(&mut clients) {
                client.done(1, 0, block(n) as u64, BLOCK as u32, &[round; BLOCK]);
            }
            // Whoever flushes, whatever was answered to anybody is stable.
            let flusher = usize::from(round) % 3;
            clients[flusher].done(3, 0, 0, 0, b"");
            for n in 0..3u8 {
                assert!(stable.lock().unwrap()[block(n)..][..BLOCK].iter().all(|&b| b == round));
            }
            let at = 8 * BLOCK as u64;
            clients[0].done(1, client::FUA, at, BLOCK as u32, &[round; BLOCK]);
            assert_eq!(stable.lock().unwrap()[8 * BLOCK], round);
            let fua_zero = if round % 2 == 0 { 6 } else { 4 };
            clients[1].done(fua_zero, client::FUA, at, BLOCK as u32, b"");
            assert_eq!(stable.lock().unwrap()[8 * BLOCK], 0);
        }
        let report = server.report();
        assert_eq!(report.flushes.answered, 300);
        assert!(report.flushes.count <= 300 && report.flushes.failed == 0);
        server.stop().unwrap();
        assert!(!path.exists());
    }
}

#[test]
fn written_blocks_read_back_on_every_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = start(&path, "round-robin-socket", Box::new(Ram::new(SIZE as u64).unwrap()), None);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(&path, SIZE as u64)).collect();
    for n in 0..200u64 {
        let writer = (n % 4) as usize;
        // Across blocks, of odd lengths.
        let (offset, body) = (n * 4099 % 900_000, vec![n as u8 + 1; 5000 + n as usize]);
        clients[writer].done(1, 0, offset, body.len() as u32, &body);
        let reader = ((n + 1) % 4) as usize;
        assert!(clients[reader].read(offset, body.len() as u32) == body, "{n}");
    }
    // The same cookie twice at once: both are answered.
    clients[0].ask(3, 0, 0, 0, b"");
    clients[0].ask(3, 0, 0, 0, b"");
    assert_eq!((clients[0].answer(), clients[0].answer()), (0, 0));
    clients[1].done(6, 0, 100, 100_000, b"");
    assert!(clients[2].read(100, 100_000).iter().all(|&byte| byte == 0));
    assert_ne!(clients[2].read(99, 1), [0]);
    let report = server.report();
    assert_eq!((report.requests.writes, report.requests.zeroes), (200, 1));
    assert_eq!(report.errors, 0);
}

#[test]
fn a_fresh_policy_decides_as_the_log_says() {
    for name in ["single-thread", "issuer", "dynamic", "cache-aware"] {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("socket"), folder.path().join("log"));
        let header = Header::new("live block", Family::Completion, name);
        let (live, tap) = Live::create(&file, &header, 1 << 16, |_| {}).unwrap();
        let server = start(&path, name, Box::new(Ram::new(SIZE as u64).unwrap()), Some(tap));
        let mut client = Client::connect(&path, SIZE as u64);
        for n in 0..50u64 {
            (0..8).for_each(|_| client.ask(1, 0, n * 4096, 512, &[1; 512]));
            (0..8).for_each(|_| assert_eq!(client.answer(), 0));
        }
        server.stop().unwrap();
        assert_eq!(live.end().unwrap().dropped, 0);
        let told = |name: &str| {
            let log = Reader::open(&file).unwrap();
            replay_log(log, |_, _| Ok(replayer(made(name)))).unwrap()
        };
        let report = told(name);
        assert_eq!(report.first_difference, None, "{name}");
        assert!(report.events > 400, "{name}: {}", report.events);
        // Another one does not.
        let other = if name == "issuer" { "single-thread" } else { "same" };
        assert!(told(other).first_difference.is_some());
    }
}

#[test]
fn client_without_handshake_is_disconnected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let setting = Setting { handshake: Duration::from_secs(1), ..setting(&path, 2) };
    let disk = Box::new(Ram::new(SIZE as u64).unwrap());
    let server = Server::start(&setting, disk, made("single-thread"), None).unwrap();
    // One has said nothing, one the half of it, and one all.
    let mut quiet = UnixStream::connect(&path).unwrap();
    let mut slow = UnixStream::connect(&path).unwrap();
    let mut client = Client::connect(&path, SIZE as u64);
    slow.write_all(&[0, 0, 0, 3]).unwrap();
    slow.write_all(b"IHAVE").unwrap();
    for stream in [&mut quiet, &mut slow] {
        let mut all = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 18);
    }
    client.done(1, 0, 0, 4096, &[1; 4096]);
    let found = server.report().connections.unwrap();
    assert_eq!((found.late, found.wrong, found.open), (2, 2, 1));
}
