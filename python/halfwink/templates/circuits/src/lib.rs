//! @NAME@: each host sends to every other one in turn, for `day_us` at a time.
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
    "family": "circuits",
    "title": "turns of one length",
    "events": ["next", "lost", "back"],
    "parameters": [
        {"name": "day_us", "unit": "us", "default": 300, "least": 0.001, "most": 1000000000,
         "title": "length of a day"}
    ]
}"#;

const PS_PER_US: f64 = 1e6;
/// Hosts that there is room for: a circuit of each and the day are as many actions as an event may
/// have.
const ROOM: usize = 511;

/// The state of the policy, which decides for a switch.
struct Policy {
    hosts: u64,
    day: u64,
    is_lost: [bool; ROOM],
}

impl Policy {
    const fn new() -> Policy {
        Policy { hosts: 0, day: 0, is_lost: [false; ROOM] }
    }

    /// Decides on an event at `now`, in picoseconds.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        match event {
            Event::Start(start) => {
                self.hosts = start.hosts.min(ROOM as u64);
                let day = (start.parameters[0] * PS_PER_US) as u64;
                self.day = day.max(start.shortest);
            }
            Event::Next { plane, slot } => {
                let hosts = self.hosts;
                let shift = 1 + slot % (hosts - 1);
                for from in 0..hosts {
                    let to = (from + shift) % hosts;
                    if !self.is_lost[from as usize] && !self.is_lost[to as usize] {
                        reply.request(Action::Join { plane, from, to });
                    }
                }
                reply.request(Action::Day { plane, length: self.day });
            }
            Event::Lost { host } => self.is_lost[host as usize] = true,
            Event::Back { host } => self.is_lost[host as usize] = false,
            Event::Timer | Event::Demand { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interface::Start;

    #[test]
    fn hosts_send_to_every_other_one_in_turn() {
        let mut policy = Policy::new();
        let mut decided = |event| {
            let mut reply = Reply::new();
            policy.decide(0, event, &mut reply);
            reply.requested().collect::<Vec<_>>()
        };
        let start = Start { hosts: 3, parameters: [2.0; 16], ..Start::default() };
        assert_eq!(decided(Event::Start(start)), []);
        let join = |from, to| Action::Join { plane: 0, from, to };
        let day = Action::Day { plane: 0, length: 2_000_000 };
        let next = |slot| Event::Next { plane: 0, slot };
        assert_eq!(decided(next(0)), [join(0, 1), join(1, 2), join(2, 0), day]);
        assert_eq!(decided(next(1)), [join(0, 2), join(1, 0), join(2, 1), day]);
        assert_eq!(decided(Event::Lost { host: 2 }), []);
        assert_eq!(decided(next(2)), [join(0, 1), day]);
    }
}
