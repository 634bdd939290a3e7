//! Long streams in bounded memory: alone in its process, whose highest use of memory it reads.
#![allow(clippy::print_stdout)] // how much it was, for who looks; and why the test was skipped

use std::fs;
use std::path::Path;
use std::sync::Arc;

use halfwink_chip::sample::{cut, Begins, Cut};
use halfwink_chip::{ChipError, Machine, Task};
use halfwink_engine::{Input, RunControl};
use halfwink_trace::{Kernel, LoadKind, Synthetic};
use halfwink_units::Time;

/// The most memory that this process ever had, in kB; none where the system does not say.
fn peak_kb() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A stream ends with an iteration of its loop: a window more may begin in its last instructions.
#[test]
fn a_long_stream_takes_no_more_memory_than_a_window() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/ev6.toml");
    let machine = Machine::parse(&Input::new("ev6", fs::read_to_string(path).unwrap())).unwrap();
    let instructions = 100_000_000;
    let spec =
        Synthetic { kernel: Kernel::Mixed, footprint: 64 << 20, instructions, seed: 1, duty: None };
    let task = Task {
        source: Box::new(spec.source()),
        warm: Arc::default(),
        load: LoadKind::Closed,
        limit: u64::MAX,
        start: Time::ZERO,
        shared: None,
        thread: None,
    };
    let how =
        Cut { begins: Begins::Every { first: 0, period: 100_000 }, warm_up: 2_000, unit: 10_000 };
    let Some(before) = peak_kb() else {
        println!("skipped: /proc/self/status does not say how much memory was used");
        return;
    };
    let mut windows = 0;
    let counts = cut(&machine, task, &how, &RunControl::new(), |_| {
        windows += 1;
        Ok::<(), ChipError>(())
    })
    .unwrap();
    assert!((1_000..=1_001).contains(&windows), "{windows}");
    assert!((instructions..instructions + 20).contains(&counts.instructions[0]));
    let grown = peak_kb().unwrap() - before;
    println!("{windows} windows of {instructions} instructions: {grown} kB");
    // Tags of 8 MB twice (1 MB each), and a window's items.
    assert!(grown < 16_000, "{grown} kB");
}
