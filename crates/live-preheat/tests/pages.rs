//! A process whose pages are dropped while it stands still finds all of them again.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "host"))]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Condvar, Mutex};

use halfwink_live_preheat::helper::{self, WRITTEN};
use halfwink_live_preheat::maps;
use halfwink_live_preheat::pages::freeze::Frozen;
use halfwink_live_preheat::pages::image::Image;
use halfwink_live_preheat::pages::set::{runs, PageSet};
use halfwink_live_preheat::shared::{Operation, Shared};

const ROLE: &str = "HALFWINK_TEST_VICTIM";
const PAGE: usize = 4096;

fn sum(all: &[u8]) -> u64 {
    all.iter().enumerate().map(|(n, byte)| (n as u64 ^ 0x5a) * u64::from(*byte)).sum()
}

/// Not a test of its own: what the others start. At each line that it reads it changes its memory,
/// then says what it had found there.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(ROLE) else { return };
    let shared = Shared::open(Path::new(&path)).unwrap();
    // SAFETY: the process has no such thread yet.
    assert!(unsafe { helper::start(shared) });
    let (lock, bell) = (Mutex::new(()), Condvar::new());
    std::thread::scope(|threads| {
        // One that waits for ever, and one that is always under way.
        threads.spawn(|| drop(bell.wait(lock.lock().unwrap())));
        threads.spawn(|| loop {
            std::hint::black_box(sum(&[7; 100]));
        });
        let mut memory: Vec<u8> = (0..600 * PAGE).map(|n| (n / 97) as u8).collect();
        let mut small: Vec<Box<u64>> = (0..10_000).map(Box::new).collect();
        let region = region();
        for (n, _) in std::io::stdin().lines().enumerate() {
            if n == 4 {
                grows(region);
            }
            let all: u64 = small.iter().map(|n| **n).sum();
            let found = sum(&memory);
            for page in memory.chunks_mut(PAGE).step_by(3) {
                page[5] = page[5].wrapping_add(1);
            }
            // Larger, and moved perhaps: new memory is zero, whatever lies beside it in a file.
            memory.resize(memory.len() + 100 * PAGE, 0);
            small.iter_mut().for_each(|n| **n += 1);
            writeln!(std::io::stdout(), "\nfound {found} {all}").unwrap();
        }
        std::process::exit(0);
    });
}

/// Sixteen pages of sevens.
fn region() -> *mut u8 {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
    // SAFETY: the kernel chooses the place, of which so much is ours.
    unsafe {
        let flags = flags | libc::MAP_ANONYMOUS;
        let at = libc::mmap(std::ptr::null_mut(), 16 * PAGE, rights, flags, -1, 0).cast::<u8>();
        at.write_bytes(7, 16 * PAGE);
        at
    }
}

/// New memory behind old is zero, whatever lies there in a file.
fn grows(region: *mut u8) {
    const BYTES: usize = 8 << 20;
    // SAFETY: the region is ours, and so is all of it where it is then.
    let all = unsafe {
        let at = libc::mremap(region.cast(), 16 * PAGE, BYTES, libc::MREMAP_MAYMOVE);
        std::slice::from_raw_parts(at.cast::<u8>(), BYTES)
    };
    let wrong = all.iter().enumerate().position(|(n, b)| *b != if n < 16 * PAGE { 7 } else { 0 });
    assert_eq!(wrong, None);
}

struct Victim {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    memory: Vec<u8>,
    times: u64,
}

impl Victim {
    fn start(shared: &Path) -> Victim {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["victim", "--exact", "--nocapture"])
            .env(ROLE, shared)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let memory = (0..600 * PAGE).map(|n| (n / 97) as u8).collect();
        let mut victim = Victim { child, input, output: BufReader::new(output), memory, times: 0 };
        victim.ask();
        victim
    }

    /// What it found is what was there.
    fn ask(&mut self) {
        writeln!(self.input, "go on").unwrap();
        let mut line = String::new();
        while !line.starts_with("found ") {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it has ended");
        }
        let all = (0..10_000).sum::<u64>() + 10_000 * self.times;
        assert_eq!(line.trim(), format!("found {} {all}", sum(&self.memory)));
        for page in self.memory.chunks_mut(PAGE).step_by(3) {
            page[5] = page[5].wrapping_add(1);
        }
        self.memory.resize(self.memory.len() + 100 * PAGE, 0);
        self.times += 1;
    }

    fn state(&self) -> String {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        text.rsplit_once(") ").unwrap().1[..1].to_owned()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shared(folder: &Path) -> (std::path::PathBuf, Shared) {
    let path = folder.join("shared");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let shared = Shared::create(&file, true).unwrap();
    (path, shared)
}

#[test]
fn a_stopped_process_makes_calls_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Victim::start(&shared(folder.path()).0);
    let pid = victim.child.id();
    for _ in 0..20 {
        let mut frozen = Frozen::stop(pid).unwrap();
        assert_eq!(victim.state(), "t");
        let mappings = maps::mappings(pid).unwrap();
        assert_eq!(frozen.call(&mappings, libc::SYS_getpid, [0; 6]).unwrap(), u64::from(pid));
        let refused = frozen.call(&mappings, libc::SYS_close, [9_999, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
        drop(frozen);
        victim.ask();
    }
    victim.child.kill().unwrap();
    victim.child.wait().unwrap();
    let problem = Frozen::stop(pid).unwrap_err();
    assert!(problem.starts_with(&format!("stopping process {pid}: ")), "{problem}");
    assert!(!problem.contains('\n'));
}

#[test]
fn dropped_pages_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Victim::start(&shared(folder.path()).0);
    let mut image = Image::create(victim.child.id(), &folder.path().join("image")).unwrap();
    for round in 0..6 {
        let dropped = image.drop_pages(round % 2 == 1).unwrap();
        assert!(dropped.files > 20, "{dropped:?}");
        if round == 0 {
            assert!(dropped.changed > 600, "{dropped:?}");
        } else {
            // A third was changed, a hundred are new, and all were read.
            assert!((300..1_200).contains(&dropped.changed), "{dropped:?}");
            assert!(dropped.memory > 600, "{dropped:?}");
        }
        victim.ask();
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(folder.path().join("image")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "it holds the server's secrets");
    // Without its file it lives on.
    drop(image);
    assert!(!folder.path().join("image").exists());
    victim.ask();
    victim.ask();
}

#[test]
fn a_recording_is_put_back_by_the_thread_in_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let (path, shared) = shared(folder.path());
    let mut victim = Victim::start(&path);
    let pid = victim.child.id();
    let mut image = Image::create(pid, &folder.path().join("image")).unwrap();
    let recorded =
        |image: &Image| PageSet::of(pid, &maps::mappings(pid).unwrap(), |m| image.has(m)).unwrap();
    image.drop_pages(false).unwrap();
    victim.ask();
    let set = recorded(&image);
    assert!(set.written.len() > 200 && set.read.len() > 300, "{}", set.pages());
    image.drop_pages(true).unwrap();
    let mappings = maps::mappings(pid).unwrap();
    let words = set.words(&mappings);
    assert!(words.iter().any(|word| word & WRITTEN != 0));
    let before = recorded(&image);
    assert!(before.written.len() < 100, "{}", before.written.len());
    image.fetch(&mappings, &runs(&words));
    let (slot, _, _) = shared.alive().find(|(_, owner, _)| *owner == pid).unwrap();
    let number = slot.post(Operation::Populate, Some(&words), 0);
    assert!(slot.wait(number, 10_000_000_000));
    let now = recorded(&image);
    let missing = set.written.subtract(&now.written);
    assert!(missing.is_empty(), "{} written pages of {}", missing.len(), set.written.len());
    let missing = set.read.subtract(&now.read.union(&now.written));
    assert!(missing.is_empty(), "{} read pages of {}", missing.len(), set.read.len());
    victim.ask();
}
