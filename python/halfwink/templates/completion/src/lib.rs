//! @NAME@: an I/O is completed where it was issued if the CPU that hears of it has `waiting` more.
//!
//! This file is the policy; change it. `interface.rs` has the events and actions, and `block.rs`
//! passes them.
#![cfg_attr(not(test), no_std)]

mod block;
mod interface;

use block::Reply;
use interface::{Action, Event, Rest};

/// The description that halfwink reads before it plays the policy: its family, the events that it
/// wants (all if `events` is left out), and its parameters, in the order in which the start has
/// them.
#[cfg_attr(test, allow(dead_code))]
const ABOUT: &str = r#"{
    "family": "completion",
    "title": "back to the issuer, if many I/Os wait",
    "events": ["done"],
    "parameters": [
        {"name": "waiting", "default": 4, "least": 0, "most": 1000000,
         "title": "waiting I/Os from which on the issuer completes"}
    ]
}"#;

/// The state of the policy, which decides for a device.
struct Policy {
    waiting: u64,
}

impl Policy {
    const fn new() -> Policy {
        Policy { waiting: 0 }
    }

    /// Decides on an event at `now`, in picoseconds.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        match event {
            Event::Start(start) => self.waiting = start.parameters[0] as u64,
            Event::Done { io, issuer, heard, waiting, .. } => {
                let is_here = waiting < self.waiting || issuer == heard;
                let give = Action::Give { io, cpu: issuer };
                reply.request(if is_here { Action::Here { io } } else { give });
            }
            Event::Empty { cpu } => reply.request(Action::Rest { cpu, rest: Rest::Halt }),
            Event::Timer | Event::Used { .. } | Event::Poll { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interface::Start;

    #[test]
    fn issuer_completes_if_many_wait() {
        let mut policy = Policy::new();
        let mut decided = |event| {
            let mut reply = Reply::new();
            policy.decide(0, event, &mut reply);
            reply.requested().collect::<Vec<_>>()
        };
        let done = |waiting| Event::Done { io: 7, issuer: 3, heard: 0, waiting, took: 1 };
        let start = Start { parameters: [4.0; 16], ..Start::default() };
        assert_eq!(decided(Event::Start(start)), []);
        assert_eq!(decided(done(3)), [Action::Here { io: 7 }]);
        assert_eq!(decided(done(4)), [Action::Give { io: 7, cpu: 3 }]);
        assert_eq!(decided(Event::Empty { cpu: 2 }), [Action::Rest { cpu: 2, rest: Rest::Halt }]);
    }
}
