//! The hub without the preload library: real workers, threads, forks. One test, since the hub
//! belongs to the process.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use halfwink_eventlog::{replay_log, replayer, Ended, Header, Reader, Report};
use halfwink_live::clock::Rate;
use halfwink_live::sys::CpuSet;
use halfwink_live_delegate::calls::Index;
use halfwink_live_delegate::hub::{self, Way};
use halfwink_live_delegate::report::Run;
use halfwink_live_delegate::shared::{Options, Shared};
use halfwink_policy::offload::{Delegation, DelegationKind, DelegationParameters};

/// Reads eight bytes at `at` by delegation.
fn read(file: &File, at: u64) -> (Way, [u8; 8]) {
    let mut bytes = [0u8; 8];
    let args = [file.as_raw_fd() as u64, bytes.as_mut_ptr() as u64, 8, at, 0, 0];
    // SAFETY: the kernel writes eight bytes.
    let way = unsafe { hub::call(Index::Pread, &args) };
    (way, bytes)
}

fn reads_well(file: &File, n: u64) -> bool {
    let want: [u8; 8] = std::array::from_fn(|i| (n * 8 + i as u64) as u8);
    read(file, n * 8) == (Way::There(8), want)
}

const TECHNIQUE: &str = "os-always";
const ALWAYS: DelegationParameters =
    DelegationParameters { kind: DelegationKind::Always, n_ns: None, least_bytes: 0 };

/// Told to fresh policies.
fn replayed(log: &Path) -> Report {
    let make = |header: &Header, _| {
        assert_eq!(header.technique, TECHNIQUE);
        Ok(replayer(Delegation::new(&ALWAYS)))
    };
    replay_log(Reader::open(log).unwrap(), make).unwrap()
}

#[test]
fn calls_move_in_threads_and_forks() {
    let name = |what: &str| format!("halfwink-{what}-{}", std::process::id());
    let counts = std::env::temp_dir().join(name("hub-counts"));
    let data = std::env::temp_dir().join(name("hub-data"));
    let bytes: Vec<u8> = (0..2048u32).map(|n| n as u8).collect();
    std::fs::write(&data, bytes).unwrap();
    let file = File::open(&data).unwrap();
    let options = Options {
        policy: ALWAYS,
        os_cpu: CpuSet::allowed().iter().last().unwrap_or(0),
        time_every: 2,
        worker_spin_ns: 20_000,
        caller_spin_ns: 20_000,
        rate: Rate::measure(),
        log_records: 1_000,
    };
    let run = Run::begin(&counts, TECHNIQUE, options).unwrap();
    let (shared, read_back) = Shared::open(&counts).unwrap();
    assert_eq!(read_back, options);
    assert_eq!(read(&file, 0).0, Way::Here(0), "nothing moves before the start");
    hub::install(shared, options, || ());

    assert!((0..200).all(|n| reads_well(&file, n)));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                assert!((0..200).all(|n| reads_well(&file, n)));
                hub::detach();
            });
        }
    });
    // Workers go and come again.
    let process = hub::process().unwrap();
    process.pause();
    assert_eq!(read(&file, 0).0, Way::Here(0), "no worker while credentials change");
    process.resume();
    assert!(reads_well(&file, 3));
    // A fork has none of its parent's workers, and gets its own.
    // SAFETY: the child makes no call of libc but the last.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let well = (0..50).all(|n| reads_well(&file, n));
        // SAFETY: ends the child.
        unsafe { libc::_exit(if well { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: the kernel writes the status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 7);
    assert!(reads_well(&file, 9));
    // Nothing moves once a filter may be there.
    hub::confine();
    assert_eq!(read(&file, 0).0, Way::Here(0));

    let report = run.report();
    let pread = &report.calls[0];
    assert_eq!((pread.name, pread.calls), ("pread", 9 * 200 + 1 + 1 + 50 + 1 + 1));
    assert_eq!(pread.delegated, 9 * 200 + 1 + 50 + 1);
    assert_eq!(pread.refused["no-worker"], 2);
    assert_eq!((report.process_images, report.confined), (2, 1));
    assert!(report.modelled_energy.model.starts_with("modelled, not measured"));
    assert_eq!(report.log_records, 1_000);
    the_log_is_replayed(&run, &std::env::temp_dir().join(name("hub-log")));
    for path in [counts, data] {
        std::fs::remove_file(path).unwrap();
    }
}

/// Its log, cut at 1,000 lines, is told to fresh policies, which ask for the same; and for
/// something else where it was changed.
fn the_log_is_replayed(run: &Run, log: &Path) {
    let report = run.report();
    let footer = run.write_log(log).unwrap();
    assert_eq!((footer.lines, footer.dropped), (1_000, report.log_dropped));
    assert!(report.log_dropped > 1_000);
    let again = replayed(log);
    // This thread's policy and those of the eight others; with luck none took another's place.
    assert!((2..=9).contains(&again.policies), "{again:?}");
    assert_eq!((again.lines, again.first_difference), (1_000, None));
    assert_eq!(again.ended, Ended::Whole(footer));
    let text = std::fs::read_to_string(log).unwrap();
    std::fs::write(log, text.replacen("os-core", "here", 1)).unwrap();
    assert_eq!(replayed(log).first_difference.map(|d| d.line), Some(2));
    std::fs::remove_file(log).unwrap();
}
