//! Gives each side the ways that it makes most of (utility-based cache partitioning: Qureshi, Patt,
//! MICRO 2006), with user and kernel as the two threads: what the thesis is to be compared with.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Pending, Route, Rule, Segregation, Span, Utility, MAX_WAYS};
use crate::{Policy, Snapshot};

/// Cycles between decisions (Qureshi, Patt 2006, Sec 3.4).
pub const PUBLISHED_EPOCH_CYCLES: u64 = 5_000_000;

/// The ways of the kernel with which both sides together would have had most hits; each has one at
/// least. Of equal splits the most even one.
///
/// With two sides, looking at all splits is what the look-ahead algorithm approximates for more.
#[must_use]
pub fn best_split(utility: &Utility, ways: u8) -> u8 {
    debug_assert!((2..=MAX_WAYS).contains(&usize::from(ways)), "nothing to split");
    let hits = |side: usize, n: u8| utility.hits[side][..usize::from(n)].iter().sum::<u64>();
    let uneven = |kernel: u8| (2 * kernel).abs_diff(ways);
    (1..ways)
        .max_by_key(|&kernel| {
            (hits(0, ways - kernel) + hits(1, kernel), core::cmp::Reverse(uneven(kernel)))
        })
        .expect("there is a split")
}

/// Splits anew after each epoch.
#[derive(Clone, Debug)]
pub struct UtilityBased {
    epoch_cycles: u64,
    ways: u8,
    kernel_ways: u8,
    utility: Utility,
    pending: Pending,
}

impl UtilityBased {
    /// Epochs of so many cycles ([`PUBLISHED_EPOCH_CYCLES`]).
    #[must_use]
    pub fn new(epoch_cycles: u64) -> UtilityBased {
        UtilityBased {
            epoch_cycles: epoch_cycles.max(1),
            ways: 0,
            kernel_ways: 0,
            utility: Utility::default(),
            pending: Pending::default(),
        }
    }
}

impl Policy for UtilityBased {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match event {
            Event::Begin { ways: 0 | 1 } => return,
            Event::Begin { ways } => {
                self.ways = *ways;
                self.kernel_ways = ways / 2;
            }
            Event::Sample(sample) => {
                // Old counts weigh half as much (Sec 3.4).
                if let Some(seen) = &sample.utility {
                    let mine = self.utility.hits.iter_mut().flatten();
                    mine.zip(seen.hits.iter().flatten()).for_each(|(m, new)| *m = *m / 2 + new);
                }
                self.kernel_ways = best_split(&self.utility, self.ways);
            }
        }
        let rule = Rule::ways(Route::Both, self.kernel_ways);
        self.pending = Pending { rule: Some(rule), after: Some(Span::Cycles(self.epoch_cycles)) };
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.poll()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("kernel_ways", i64::from(self.kernel_ways))]
    }
}

impl Segregation for UtilityBased {}
