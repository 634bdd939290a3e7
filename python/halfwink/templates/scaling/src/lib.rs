//! @NAME@: a core that finds nothing asks its queue `polls` times more, then halts.
//!
//! This file is the policy; change it. `interface.rs` has the events and actions, and `block.rs`
//! passes them.
#![cfg_attr(not(test), no_std)]

mod block;
mod interface;

use block::Reply;
use interface::{Action, Depth, Event, Rest};

/// The description that halfwink reads before it plays the policy: its family, the events that it
/// wants (all if `events` is left out), and its parameters, in the order in which the start has
/// them.
#[cfg_attr(test, allow(dead_code))]
const ABOUT: &str = r#"{
    "family": "scaling",
    "title": "some empty polls, then a halt in C1",
    "parameters": [
        {"name": "polls", "default": 100, "least": 1, "most": 1000000,
         "title": "empty polls after which a core halts"}
    ]
}"#;

/// The state of the policy, which decides for all cores of a router.
struct Policy {
    polls: u32,
    /// Cores that have asked their queue again since they had packets.
    waited: [bool; 256],
}

impl Policy {
    const fn new() -> Policy {
        Policy { polls: 1, waited: [false; 256] }
    }

    /// Decides on an event at `now`, in picoseconds.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        match event {
            Event::Start(start) => self.polls = start.parameters[0] as u32,
            Event::Timer => {}
            Event::Poll { core, taken, .. } => {
                if taken > 0 {
                    self.waited[usize::from(core)] = false;
                }
            }
            Event::Empty { core } => {
                let waited = core::mem::replace(&mut self.waited[usize::from(core)], true);
                let again = Rest::Again { polls: self.polls };
                let rest = if waited { Rest::Halt(Depth::C1) } else { again };
                reply.request(Action::Rest { core, rest });
            }
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
    fn core_asks_again_before_it_halts() {
        let mut policy = Policy::new();
        let start = Start { parameters: [100.0; 16], ..Start::default() };
        decided(&mut policy, Event::Start(start));
        let rest = |core, rest| vec![Action::Rest { core, rest }];
        let again = Rest::Again { polls: 100 };
        assert_eq!(decided(&mut policy, Event::Empty { core: 1 }), rest(1, again));
        assert_eq!(decided(&mut policy, Event::Empty { core: 1 }), rest(1, Rest::Halt(Depth::C1)));
        assert_eq!(decided(&mut policy, Event::Poll { core: 1, taken: 3, waiting: 3 }), []);
        assert_eq!(decided(&mut policy, Event::Empty { core: 1 }), rest(1, again));
    }
}
