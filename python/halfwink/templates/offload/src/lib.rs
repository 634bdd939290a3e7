//! @NAME@: system calls whose mean run is longer than `threshold` instructions move.
//!
//! This file is the policy; change it. `interface.rs` has the events and actions, and `block.rs`
//! passes them.
#![cfg_attr(not(test), no_std)]

mod block;
mod interface;

use block::Reply;
use interface::{Action, Event};

/// The description that halfwink reads before it plays the policy: its family, the events that it
/// wants (all if `events` is left out), and its parameters, in the order in which the start has
/// them.
#[cfg_attr(test, allow(dead_code))]
const ABOUT: &str = r#"{
    "family": "offload",
    "title": "moves the system calls whose mean run is long",
    "events": ["enter", "exit"],
    "parameters": [
        {"name": "threshold", "default": 1000, "least": 0, "most": 1000000000,
         "title": "instructions from which on a call moves"}
    ]
}"#;

/// Calls and vectors that have a mean of their own.
const KNOWN: usize = 2048;
/// Cycles of a decision in software.
const DECIDES: u64 = 16;

/// The state of the policy, which decides for one core.
struct Policy {
    threshold: f64,
    /// Place of the last entry in the table.
    entered: usize,
    /// Mean instructions of each; negative before the first run.
    mean: [f64; KNOWN],
}

impl Policy {
    const fn new() -> Policy {
        Policy { threshold: 0.0, entered: 0, mean: [-1.0; KNOWN] }
    }

    /// Decides on an event.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        match event {
            Event::Start(start) => self.threshold = start.parameters[0],
            Event::Enter(entry) => {
                self.entered = (3 * entry.number + entry.cause) as usize % KNOWN;
                let (here, there) =
                    (Action::Here { cycles: DECIDES }, Action::OsCore { cycles: DECIDES });
                let is_long = self.mean[self.entered] > self.threshold;
                reply.request(if is_long { there } else { here });
            }
            Event::Exit { instructions } => {
                let (mean, now) = (&mut self.mean[self.entered], instructions as f64);
                *mean = if *mean < 0.0 { now } else { 0.75 * *mean + 0.25 * now };
            }
            Event::Timer | Event::Sample(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interface::{Entry, Start};

    #[test]
    fn call_moves_once_its_runs_are_long() {
        let mut policy = Policy::new();
        let mut decided = |event| {
            let mut reply = Reply::new();
            policy.decide(0, event, &mut reply);
            reply.requested().collect::<Vec<_>>()
        };
        let start = Start { parameters: [1000.0; 16], ..Start::default() };
        let call = |number| Event::Enter(Entry { number, ..Entry::default() });
        assert_eq!(decided(Event::Start(start)), []);
        assert_eq!(decided(call(1)), [Action::Here { cycles: DECIDES }]);
        assert_eq!(decided(Event::Exit { instructions: 5000 }), []);
        assert_eq!(decided(call(1)), [Action::OsCore { cycles: DECIDES }]);
        assert_eq!(decided(call(2)), [Action::Here { cycles: DECIDES }]);
    }
}
