//! @NAME@: gates a halted core once it has been idle for `after_us` microseconds.
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
    "family": "gating",
    "title": "gates a halted core after a fixed time",
    "events": ["idle-begin", "idle-end"],
    "parameters": [
        {"name": "after_us", "unit": "us", "default": 5, "least": 0, "most": 1000000,
         "title": "idle time after which the core is gated"}
    ]
}"#;

/// The state of the policy. Each core has a policy of its own.
struct Policy {
    after_ps: u64,
    gated: bool,
}

impl Policy {
    const fn new() -> Policy {
        Policy { after_ps: 0, gated: false }
    }

    /// Decides on an event at `now`, in picoseconds.
    fn decide(&mut self, now: u64, event: Event, reply: &mut Reply) {
        match event {
            Event::Start(start) => self.after_ps = (start.parameters[0] * 1e6) as u64,
            Event::IdleBegin => reply.set_timer(now + self.after_ps),
            Event::Timer => {
                reply.stop_timer();
                self.gated = true;
                reply.request(Action::Gate);
            }
            Event::IdleEnd { .. } => {
                reply.stop_timer();
                if self.gated {
                    self.gated = false;
                    reply.request(Action::Wake);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interface::Start;

    /// Events with their times in microseconds; what is requested at each.
    fn decisions(events: &[(u64, Event)]) -> Vec<(u64, Vec<Action>)> {
        let mut policy = Policy::new();
        let mut decided = Vec::new();
        for &(now_us, event) in events {
            let mut reply = Reply::new();
            policy.decide(now_us * 1_000_000, event, &mut reply);
            decided.push((now_us, reply.requested().collect()));
        }
        decided
    }

    #[test]
    fn long_halt_is_gated_and_short_one_is_not() {
        let start = Event::Start(Start { parameters: [5.0; 16], ..Start::default() });
        let found = decisions(&[
            (0, start),
            (10, Event::IdleBegin),
            (12, Event::IdleEnd { began: 10_000_000 }),
            (20, Event::IdleBegin),
            (25, Event::Timer),
            (90, Event::IdleEnd { began: 20_000_000 }),
        ]);
        let requested: Vec<_> = found.into_iter().filter(|(_, all)| !all.is_empty()).collect();
        assert_eq!(requested, [(25, vec![Action::Gate]), (90, vec![Action::Wake])]);
    }
}
