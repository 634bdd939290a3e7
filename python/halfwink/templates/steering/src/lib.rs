//! @NAME@: the big machine serves what comes while the small one has `threshold` requests, and
//! sleeps otherwise.
//!
//! This file is the policy; change it. `interface.rs` has the events and actions, and `block.rs`
//! passes them.
#![cfg_attr(not(test), no_std)]

mod block;
mod interface;

use block::Reply;
use interface::{Action, Event, Side};

/// The description that halfwink reads before it plays the policy: its family, the events that it
/// wants (all if `events` is left out), and its parameters, in the order in which the start has
/// them.
#[cfg_attr(test, allow(dead_code))]
const ABOUT: &str = r#"{
    "family": "steering",
    "title": "the big machine from a threshold on",
    "parameters": [
        {"name": "threshold", "default": 4, "least": 0, "most": 1000000,
         "title": "requests of the small machine from which on the big one serves"}
    ]
}"#;

/// The state of the policy. Each pair of machines has a policy of its own.
struct Policy {
    threshold: u64,
    /// Requests of each machine.
    requests: [u64; 2],
    /// Machines that cannot be reached.
    lost: [bool; 2],
    /// True if the big machine is on or wakes up.
    is_up: bool,
    /// True if the big machine serves now.
    is_on: bool,
}

impl Policy {
    const fn new() -> Policy {
        Policy { threshold: 0, requests: [0; 2], lost: [false; 2], is_up: true, is_on: true }
    }

    /// Decides on an event at `now`, in picoseconds.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        match event {
            Event::Start(start) => self.threshold = start.parameters[0] as u64,
            Event::Arrive => {
                let is_small = self.requests[0] < self.threshold && !self.lost[0];
                let side = if is_small || self.lost[1] { Side::Small } else { Side::Big };
                self.requests[side as usize] += 1;
                reply.request(Action::Send { side });
                if side == Side::Big && !self.is_up {
                    self.is_up = true;
                    reply.request(Action::Wake { side });
                }
            }
            Event::Finish { side, .. } => {
                let requests = &mut self.requests[side as usize];
                *requests = requests.saturating_sub(1);
            }
            Event::Lost { side } => {
                self.lost[side as usize] = true;
                if side == Side::Big {
                    self.is_on = false;
                }
            }
            Event::Awake { side } | Event::Back { side } => {
                self.lost[side as usize] = false;
                if side == Side::Big {
                    (self.is_up, self.is_on) = (true, true);
                }
            }
            Event::Timer | Event::Asleep { .. } => {}
        }
        // The big machine sleeps once it has nothing to do, unless the small one is lost.
        if self.is_on && self.requests[1] == 0 && self.lost == [false; 2] {
            (self.is_up, self.is_on) = (false, false);
            reply.request(Action::Sleep { side: Side::Big });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interface::Start;

    /// Returns what is requested at an event.
    fn decided(policy: &mut Policy, event: Event) -> Vec<Action> {
        let mut reply = Reply::new();
        policy.decide(0, event, &mut reply);
        reply.requested().collect()
    }

    #[test]
    fn big_machine_serves_from_threshold_on() {
        use Action::{Send, Sleep, Wake};
        use Side::{Big, Small};
        let mut policy = Policy::new();
        let start = Start { parameters: [2.0; 16], ..Start::default() };
        let start = Event::Start(start);
        assert_eq!(decided(&mut policy, start), [Sleep { side: Big }]);
        assert_eq!(decided(&mut policy, Event::Arrive), [Send { side: Small }]);
        assert_eq!(decided(&mut policy, Event::Arrive), [Send { side: Small }]);
        let third = decided(&mut policy, Event::Arrive);
        assert_eq!(third, [Send { side: Big }, Wake { side: Big }]);
        assert_eq!(decided(&mut policy, Event::Awake { side: Big }), []);
        let finish = Event::Finish { side: Big, latency: 1 };
        assert_eq!(decided(&mut policy, finish), [Sleep { side: Big }]);
    }

    #[test]
    fn other_machine_serves_while_one_is_lost() {
        let mut policy = Policy::new();
        decided(&mut policy, Event::Start(Start { parameters: [2.0; 16], ..Start::default() }));
        decided(&mut policy, Event::Lost { side: Side::Small });
        let sent = decided(&mut policy, Event::Arrive);
        assert!(sent.contains(&Action::Send { side: Side::Big }));
    }
}
