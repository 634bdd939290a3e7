//! @NAME@: the kernel has `most` ways while it misses more than the user, else one.
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
    "title": "more ways for the side that misses more",
    "events": ["begin", "sample"],
    "parameters": [
        {"name": "most", "default": 4, "least": 1, "most": 31,
         "title": "ways of a kernel that misses more"},
        {"name": "after", "default": 100000, "least": 1, "most": 1000000000000, "unit": "cycles",
         "title": "cycles between two samples"}
    ]
}"#;

/// The state of the policy, which decides for the second level of one core.
struct Policy {
    ways: u64,
    most: u64,
    after: u64,
}

impl Policy {
    const fn new() -> Policy {
        Policy { ways: 0, most: 0, after: 0 }
    }

    /// Decides on an event.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        let kernel = match event {
            Event::Start(start) => {
                self.ways = start.ways;
                let [most, after, ..] = start.parameters;
                (self.most, self.after) = (most as u64, after as u64);
                return;
            }
            Event::Begin { .. } => 1,
            Event::Sample(sample) if sample.misses[1] > sample.misses[0] => {
                self.most.min(self.ways - 1)
            }
            Event::Sample(_) => 1,
            Event::Timer | Event::Utility { .. } => return,
        };
        // A single way cannot be split.
        if self.ways > 1 {
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
    fn kernel_that_misses_more_gets_more_ways() {
        let mut policy = Policy::new();
        let mut decided = |event| {
            let mut reply = Reply::new();
            policy.decide(0, event, &mut reply);
            reply.requested().collect::<Vec<_>>()
        };
        let ways = |kernel| Action::Set(Rule { split: Split::Ways(kernel), ..Rule::default() });
        let after = Action::SampleAfter(Span::Cycles(1000));
        let mut parameters = [0.0; 16];
        parameters[..2].copy_from_slice(&[4.0, 1000.0]);
        let misses = |user, kernel| {
            Event::Sample(Sample { misses: [user, kernel], ..Sample::default() })
        };
        assert_eq!(decided(Event::Start(Start { ways: 8, parameters })), []);
        assert_eq!(decided(Event::Begin { ways: 8 }), [ways(1), after]);
        assert_eq!(decided(misses(5, 6)), [ways(4), after]);
        assert_eq!(decided(misses(6, 5)), [ways(1), after]);
    }
}
