//! @NAME@: the kernel has ways by its share of the reads of the cache, `least` at least.
//!
//! This file is the policy; change it. `interface.rs` has the events and actions, and `block.rs`
//! passes them.
#![cfg_attr(not(test), no_std)]

mod block;
mod interface;

use block::Reply;
use interface::{Action, Event, Rule, Span, Split};

/// The description that halfwink reads before it plays the policy: its family, the events that it
/// wants (all if `events` is left out), and its parameters, in the order in which the start has
/// them.
#[cfg_attr(test, allow(dead_code))]
const ABOUT: &str = r#"{
    "family": "segregation",
    "title": "ways by the share of the reads",
    "events": ["begin", "sample"],
    "parameters": [
        {"name": "least", "default": 1, "least": 1, "most": 31,
         "title": "ways that the kernel has at least"},
        {"name": "after", "default": 100000, "least": 1, "most": 1000000000000, "unit": "cycles",
         "title": "cycles between two samples"}
    ]
}"#;

/// The state of the policy, which decides for the second level of one core.
struct Policy {
    ways: u64,
    least: u64,
    after: u64,
}

impl Policy {
    const fn new() -> Policy {
        Policy { ways: 0, least: 0, after: 0 }
    }

    /// Decides on an event.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        let kernel = match event {
            Event::Start(start) => {
                self.ways = start.ways;
                let [least, after, ..] = start.parameters;
                (self.least, self.after) = (least as u64, after as u64);
                return;
            }
            Event::Begin { .. } => self.ways / 2,
            Event::Sample(sample) => {
                let [user, kernel] = sample.accesses;
                let reads = (user + kernel).max(1);
                (2 * self.ways * kernel + reads) / (2 * reads)
            }
            Event::Timer | Event::Utility { .. } => return,
        };
        // A single way cannot be split.
        if self.ways > 1 {
            let kernel = kernel.max(self.least).min(self.ways - 1);
            reply.request(Action::Set(Rule { split: Split::Ways(kernel), ..Rule::default() }));
            reply.request(Action::SampleAfter(Span::Cycles(self.after)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interface::{Sample, Start};

    #[test]
    fn kernel_gets_ways_by_its_share_of_reads() {
        let mut policy = Policy::new();
        let mut decided = |event| {
            let mut reply = Reply::new();
            policy.decide(0, event, &mut reply);
            reply.requested().collect::<Vec<_>>()
        };
        let ways = |kernel| Action::Set(Rule { split: Split::Ways(kernel), ..Rule::default() });
        let after = Action::SampleAfter(Span::Cycles(1000));
        let mut parameters = [0.0; 16];
        parameters[..2].copy_from_slice(&[2.0, 1000.0]);
        let reads = |user, kernel| {
            Event::Sample(Sample { accesses: [user, kernel], ..Sample::default() })
        };
        assert_eq!(decided(Event::Start(Start { ways: 8, parameters })), []);
        assert_eq!(decided(Event::Begin { ways: 8 }), [ways(4), after]);
        assert_eq!(decided(reads(300, 500)), [ways(5), after]);
        assert_eq!(decided(reads(1000, 10)), [ways(2), after]);
        assert_eq!(decided(reads(0, 10)), [ways(7), after]);
        assert_eq!(decided(reads(0, 0)), [ways(2), after]);
    }
}
