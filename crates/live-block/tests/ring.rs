//! Files by io_uring, through the page cache and past it: the same promises as by calls.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod client;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{request, Client, FLUSH, FUA, READ, TRIM, WRITE, ZEROES};
use halfwink_live_block::backend::{Backend, File, Io, Rings, Way};
use halfwink_live_block::report::Report;
use halfwink_live_block::{Listen, Server, Setting};
use halfwink_policy::completion::{
    Completing, CompletionPolicy, Direct, Group, RoundRobin, SingleThread, Topology,
};

const SIZE: usize = 4 << 20;
const BLOCK: usize = 4096;

/// How a file is read and written, and whether it goes past the page cache.
const WAYS: [(Io, bool); 3] = [(Io::Sync, false), (Io::Uring, false), (Io::Uring, true)];

/// A file whose flushes are looked at: what it holds when one is asked for becomes stable.
struct Watched {
    file: File,
    path: std::path::PathBuf,
    stable: Arc<Mutex<Vec<u8>>>,
}

impl Backend for Watched {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn rings(&self) -> Option<&Rings> {
        self.file.rings()
    }

    fn way(&self) -> Way {
        self.file.way()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, into)
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.file.write(offset, from)
    }

    fn zero(&self, offset: u64, length: u64, keep: bool, fast: bool) -> io::Result<()> {
        self.file.zero(offset, length, keep, fast)
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.trim(offset, length)
    }

    fn is_flushed_slowly(&self) -> bool {
        true
    }

    fn flush(&self) -> io::Result<()> {
        let now = fs::read(&self.path)?;
        self.file.flush()?;
        *self.stable.lock().unwrap() = now;
        Ok(())
    }
}

fn policy(name: &str) -> CompletionPolicy {
    let two = Topology::uniform(1, 2);
    match name {
        "single-thread" => Box::new(Completing::new(SingleThread, 2)),
        "msi-x" => Box::new(Completing::new(Direct::MSI_X, 2)),
        "round-robin-socket" => {
            Box::new(Completing::new(RoundRobin::new(&two, Group::Socket, Some(0)), 2))
        }
        other => panic!("{other}"),
    }
}

fn served(path: &Path, name: &str, backend: Box<dyn Backend>) -> Server {
    let setting = Setting {
        listen: Listen::Unix(path.to_owned()),
        name: String::new(),
        read_only: false,
        cpus: vec![None; 2],
        connections: 10,
        handshake: Duration::from_secs(60),
    };
    Server::start(&setting, backend, policy(name), None).unwrap()
}

/// A file of that size, and the device of it.
fn made(folder: &Path, (io, direct): (Io, bool), size: usize) -> File {
    let path = folder.join("image");
    fs::write(&path, vec![0; size]).unwrap();
    File::open_by(&path, false, io, direct).unwrap()
}

/// What should have gone through rings did, as far as the machine has them.
fn went_through(report: &Report, io: Io) {
    if io == Io::Sync || report.io.way.fell_back.is_some() {
        assert_eq!((report.io.way.io, report.io.ringed), ("sync", 0));
        return;
    }
    assert_eq!(report.io.way.io, "uring");
    assert!(report.io.ringed + report.io.at_once > 0);
    assert_eq!(report.io.past_cache > 0, report.io.way.direct);
}

#[test]
fn a_flush_covers_what_was_answered_on_any_connection() {
    for (way, name) in WAYS.into_iter().zip(["single-thread", "msi-x", "round-robin-socket"]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let stable = Arc::new(Mutex::new(vec![0; SIZE]));
        let image = folder.path().join("image");
        let file = made(folder.path(), way, SIZE);
        let disk = Watched { file, path: image, stable: Arc::clone(&stable) };
        let server = served(&path, name, Box::new(disk));
        let mut clients: Vec<Client> =
            (0..3).map(|_| Client::connect(&path, SIZE as u64)).collect();
        for round in 1..=40u8 {
            let block = |n: usize| n * 2 * BLOCK;
            for (n, client) in clients.iter_mut().enumerate() {
                client.done(WRITE, 0, block(n) as u64, BLOCK as u32, &[round; BLOCK]);
            }
            clients[usize::from(round) % 3].done(FLUSH, 0, 0, 0, b"");
            for n in 0..3 {
                assert!(stable.lock().unwrap()[block(n)..][..BLOCK].iter().all(|&b| b == round));
            }
            let at = 8 * BLOCK as u64;
            clients[0].done(WRITE, FUA, at, BLOCK as u32, &[round; BLOCK]);
            assert_eq!(stable.lock().unwrap()[8 * BLOCK], round, "{way:?}");
            let fua_zero = if round % 2 == 0 { ZEROES } else { TRIM };
            clients[1].done(fua_zero, FUA, at, BLOCK as u32, b"");
            assert_eq!(stable.lock().unwrap()[8 * BLOCK], 0);
            let read = clients[2].read(block(1) as u64, BLOCK as u32);
            assert!(read.iter().all(|&byte| byte == round));
        }
        went_through(&server.report(), way.0);
        server.stop().unwrap();
    }
}

#[test]
fn written_blocks_read_back_at_any_alignment() {
    for way in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let server = served(&path, "round-robin-socket", Box::new(made(folder.path(), way, SIZE)));
        let mut clients: Vec<Client> =
            (0..4).map(|_| Client::connect(&path, SIZE as u64)).collect();
        let mut model = vec![0u8; SIZE];
        let mut random = 7u64;
        for n in 0..400u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n | 1);
            // Blocks, parts of them, what fits no slot, what is long.
            let length = [4096, 512, 65_536, 100, 70_000, 8192, 300_000, 5000][n as usize % 8];
            let offset = (random >> 33) as usize % (SIZE - length);
            let offset = if n % 3 == 0 { offset } else { offset / BLOCK * BLOCK };
            let body: Vec<u8> = (0..length).map(|at| (at as u64 ^ random >> 8) as u8).collect();
            let flags = if n % 16 == 0 { FUA } else { 0 };
            clients[n as usize % 4].done(WRITE, flags, offset as u64, length as u32, &body);
            model[offset..offset + length].copy_from_slice(&body);
            let from = offset.saturating_sub(BLOCK) / BLOCK * BLOCK;
            let to = (offset + length + BLOCK).min(SIZE);
            let read = clients[(n as usize + 1) % 4].read(from as u64, (to - from) as u32);
            assert!(read == model[from..to], "{way:?} {n}: {length} bytes at {offset}");
        }
        server.stop().unwrap();
        let report = server.report();
        went_through(&report, way.0);
        assert_eq!(report.errors, 0);
        assert!(fs::read(folder.path().join("image")).unwrap() == model);
    }
}

/// A whole page and a part of it at the same time: what is outside the part is the page's.
#[test]
fn a_part_of_a_page_undoes_no_write_past_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = served(&path, "msi-x", Box::new(made(folder.path(), (Io::Uring, true), SIZE)));
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&path, SIZE as u64)).collect();
    for round in 0..300u64 {
        let fresh = round as u8 | 1;
        let pages: Vec<u64> = (0..16).map(|n| (round * 16 + n) % (SIZE / BLOCK) as u64).collect();
        for page in &pages {
            let at = page * BLOCK as u64;
            clients[0].ask(WRITE, 0, at, BLOCK as u32, &[fresh; BLOCK]);
            clients[1].ask(WRITE, 0, at + 100, 8, &[0xee; 8]);
        }
        for _ in &pages {
            assert_eq!((clients[0].answer(), clients[1].answer()), (0, 0));
        }
        for page in pages {
            let read = clients[0].read(page * BLOCK as u64, BLOCK as u32);
            let outside = read[..100].iter().chain(&read[108..]);
            assert!(outside.copied().all(|byte| byte == fresh), "round {round}, page {page}");
            assert!(read[100..108] == [0xee; 8] || read[100..108] == [fresh; 8]);
        }
    }
    let report = server.report();
    assert_eq!(report.io.parts > 0, report.io.way.direct);
}

#[test]
fn more_than_there_is_room_for_and_answers_that_nobody_takes() {
    for way in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let server = served(&path, "round-robin-socket", Box::new(made(folder.path(), way, SIZE)));
        let mut client = Client::connect(&path, SIZE as u64);
        let mut other = Client::connect(&path, SIZE as u64);
        for page in 0..(SIZE / BLOCK) as u64 {
            client.done(WRITE, 0, page * BLOCK as u64, BLOCK as u32, &[page as u8; BLOCK]);
        }
        // 1,000 blocks and 200 of 64 KiB: 16 MB that are not read yet.
        let asked: Vec<(u64, u32)> = (0..1200u64)
            .map(|n| if n % 6 == 5 { (n % 64 * 65_536, 65_536) } else { (n % 1024 * 4096, 4096) })
            .collect();
        let all = (0u64..).zip(&asked);
        let all: Vec<u8> =
            all.flat_map(|(n, &(offset, length))| request(n, (READ, 0), offset, length)).collect();
        client.0.write_all(&all).unwrap();
        // Others are served meanwhile.
        assert_eq!(other.read(9 * BLOCK as u64, 1), [9]);
        for _ in &asked {
            let (error, cookie) = client.reply();
            assert_eq!(error, 0, "{way:?}");
            let (offset, length) = asked[cookie as usize];
            let mut bytes = vec![0; length as usize];
            client.0.read_exact(&mut bytes).unwrap();
            for (page, bytes) in (offset / BLOCK as u64..).zip(bytes.chunks(BLOCK)) {
                assert!(bytes.iter().all(|&byte| byte == page as u8), "{way:?}");
            }
        }
        assert_eq!(client.read(9 * BLOCK as u64, 4096), [9; BLOCK]);
        server.stop().unwrap();
        let report = server.report();
        went_through(&report, way.0);
        // Many at once go through a ring, one alone does not if the page cache has it.
        if report.io.way.io == "uring" {
            assert!(report.io.ringed > 100, "{:?}", report.io);
            assert_eq!(report.io.at_once > 0, !report.io.way.direct);
        }
    }
}

#[test]
fn a_file_that_is_cut_off_is_an_error_and_no_more() {
    for way in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let server = served(&path, "single-thread", Box::new(made(folder.path(), way, SIZE)));
        let mut client = Client::connect(&path, SIZE as u64);
        let image = fs::OpenOptions::new().write(true).open(folder.path().join("image")).unwrap();
        image.set_len(SIZE as u64 / 2).unwrap();
        client.ask(READ, 0, SIZE as u64 - 8192, 4096, b"");
        assert_eq!(client.answer(), 5, "{way:?}");
        assert!(client.read(0, 4096).iter().all(|&byte| byte == 0));
        // Half of it is there.
        image.set_len(SIZE as u64 / 2 + 2048).unwrap();
        client.ask(READ, 0, SIZE as u64 / 2, 4096, b"");
        assert_eq!(client.answer(), 5, "{way:?}");
        server.stop().unwrap();
        let report = server.report();
        assert_eq!(report.errors, 2);
        went_through(&report, way.0);
    }
}

#[test]
fn what_is_in_the_device_when_it_ends_is_waited_for() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let server = served(&path, "msi-x", Box::new(made(folder.path(), (Io::Uring, true), SIZE)));
        let mut client = Client::connect(&path, SIZE as u64);
        for page in 0..64u64 {
            client.ask(WRITE, 0, page * BLOCK as u64, BLOCK as u32, &[7; BLOCK]);
            client.ask(READ, 0, page * BLOCK as u64, BLOCK as u32, b"");
        }
        server.stop().unwrap();
        // Whole pages, written or not.
        let image = fs::File::open(folder.path().join("image")).unwrap();
        for page in 0..64u64 {
            let mut bytes = [0; BLOCK];
            image.read_exact_at(&mut bytes, page * BLOCK as u64).unwrap();
            assert!(bytes == [0; BLOCK] || bytes == [7; BLOCK]);
        }
    }
}

#[test]
fn a_file_goes_by_calls_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let way = |io: Io, direct| made(folder.path(), (io, direct), SIZE).way();
    assert_eq!(way(Io::Sync, false), Way { io: "sync", direct: false, fell_back: None });
}

/// As in a container whose profile knows no io_uring: this thread and those that it makes.
fn forbid_io_uring() {
    let line = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut lines = [
        // The number of the call is the first word.
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, errno),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which is whole.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let filter = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program), 0);
    }
}

#[test]
fn where_io_uring_is_forbidden_calls_do_and_it_is_said() {
    let body = || {
        forbid_io_uring();
        for io in [Io::Auto, Io::Uring] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("socket");
            let file = made(folder.path(), (io, true), SIZE);
            let server = served(&path, "msi-x", Box::new(file));
            let mut client = Client::connect(&path, SIZE as u64);
            client.done(WRITE, FUA, 4096, 4096, &[3; BLOCK]);
            assert_eq!(client.read(4096, 4096), [3; BLOCK]);
            server.stop().unwrap();
            let way = server.report().io.way;
            assert_eq!((way.io, way.direct), ("sync", false));
            let why = way.fell_back.unwrap();
            assert!(why.contains("not permitted") && why.contains("io_uring_disabled"), "{why}");
        }
    };
    std::thread::spawn(body).join().unwrap();
}
