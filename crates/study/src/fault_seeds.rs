//! Tests that play many seeds of faults, and name those that broke something.

use std::panic::{catch_unwind, AssertUnwindSafe};

use halfwink_engine::Stream;
use rand::RngExt;

/// Which one to play, alone.
const ONE: &str = "HALFWINK_FAULT_SEED";
/// The variable that says how many seeds to play; `tools/test.sh --full` plays a thousand.
const COUNT: &str = "HALFWINK_FAULT_SEEDS";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a seed, or how many of them"))
}

/// Plays those that once broke what must hold, then as many as usual, and fails with all that
/// broke it. `one` says of a seed what is broken.
pub(crate) fn play(test: &str, kept: &[u64], usual: u64, mut one: impl FnMut(u64) -> Vec<String>) {
    let seeds: Vec<u64> = match number(ONE) {
        Some(seed) => vec![seed],
        None => kept.iter().copied().chain(0..number(COUNT).unwrap_or(usual)).collect(),
    };
    let mut broken = Vec::new();
    for seed in seeds {
        // One under which the program itself fails is named, too.
        let found = catch_unwind(AssertUnwindSafe(|| one(seed)));
        for what in found.unwrap_or_else(|_| vec!["panicked".to_owned()]) {
            broken
                .push(format!("{ONE}={seed} cargo test -p halfwink-study --lib {test}  # {what}"));
        }
    }
    let count = broken.len();
    // The count is of all; the list is what a reader can work through.
    broken.truncate(20);
    assert!(count == 0, "{count} broken, keep their seeds in KEPT:\n{}", broken.join("\n"));
}

/// Returns whether all usual seeds are played, so that something can be said of their sum.
pub(crate) fn plays_all() -> bool {
    number(ONE).is_none() && number(COUNT).is_none_or(|count| count >= 1000)
}

/// Returns a random one of `of`.
pub(crate) fn any<T: Copy>(random: &mut Stream, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}
