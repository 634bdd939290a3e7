//! What data costs that another core has written.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::hand::beside;
use super::{Bench, Rounds};
use halfwink_live::clock;

/// Bytes that a first-level and a second-level cache hold, on most of today's servers.
const FIRST: usize = 32 << 10;
const SECOND: usize = 1 << 20;
const LINE: usize = 64;

/// One word of each line.
fn touch(words: &[AtomicU64]) -> u64 {
    words
        .iter()
        .step_by(LINE / 8)
        .map(|word| word.load(Ordering::Relaxed))
        .fold(0, u64::wrapping_add)
}

fn buffer(bytes: usize) -> Vec<AtomicU64> {
    (0..bytes as u64 / 8).map(AtomicU64::new).collect()
}

fn warm(bench: &Bench, bytes: usize) -> Result<Rounds, String> {
    let words = buffer(bytes);
    Ok(fewer(bench).repeat(|| {
        std::hint::black_box(touch(&words));
    }))
}

/// Reads a buffer each time after a thread on the other CPU has written all of it.
fn cold(bench: &Bench, bytes: usize) -> Result<Rounds, String> {
    let words = buffer(bytes);
    let turn = AtomicU32::new(0);
    beside(
        bench.there()?,
        || loop {
            match turn.load(Ordering::Acquire) {
                1 => {
                    words.iter().step_by(LINE / 8).for_each(|word| {
                        word.fetch_add(1, Ordering::Relaxed);
                    });
                    turn.store(0, Ordering::Release);
                }
                2 => break,
                _ => std::hint::spin_loop(),
            }
        },
        || {
            fewer(bench).repeat_ticks(|| {
                turn.store(1, Ordering::Release);
                while turn.load(Ordering::Acquire) != 0 {
                    std::hint::spin_loop();
                }
                let begun = clock::ticks_fenced();
                std::hint::black_box(touch(&words));
                clock::ticks_fenced() - begun
            })
        },
        || turn.store(2, Ordering::Release),
    )
}

/// Each repetition is long: a tenth of them will do.
fn fewer(bench: &Bench) -> Bench {
    let mut bench = *bench;
    bench.limits.repetitions = (bench.limits.repetitions / 10).max(1);
    bench
}

pub(super) fn warm_first(bench: &Bench) -> Result<Rounds, String> {
    warm(bench, FIRST)
}

pub(super) fn cold_first(bench: &Bench) -> Result<Rounds, String> {
    cold(bench, FIRST)
}

pub(super) fn warm_second(bench: &Bench) -> Result<Rounds, String> {
    warm(bench, SECOND)
}

pub(super) fn cold_second(bench: &Bench) -> Result<Rounds, String> {
    cold(bench, SECOND)
}
