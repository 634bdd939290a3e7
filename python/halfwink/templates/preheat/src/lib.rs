//! @NAME@: the first request of a service is recorded, and its lines are loaded by `cores` cores
//! when the next one is announced.
//!
//! This file is the policy; change it. `interface.rs` has the events and actions, and `block.rs`
//! passes them.
#![cfg_attr(not(test), no_std)]

mod block;
mod interface;

use block::Reply;
use interface::{Action, Event, Order, Recorded};

/// The description that halfwink reads before it plays the policy: its family, the events that it
/// wants (all if `events` is left out), and its parameters, in the order in which the start has
/// them.
#[cfg_attr(test, allow(dead_code))]
const ABOUT: &str = r#"{
    "family": "preheat",
    "title": "loads what the first request missed",
    "events": ["announced", "arrived", "idle", "built", "loaded", "closed"],
    "parameters": [
        {"name": "cores", "default": 2, "least": 1, "most": 64, "title": "cores that load"}
    ]
}"#;

/// Services that there is room for.
const ROOM: usize = 16;

/// State of the set of a service.
#[derive(Clone, Copy, PartialEq)]
enum Set {
    None,
    Recorded,
    Built,
    Ready,
    Loading,
}

/// The state of the policy, which decides for a machine.
struct Policy {
    cores: u8,
    /// Ports of services and their sets; the first ones are in use.
    services: [(u64, Set); ROOM],
    count: usize,
}

impl Policy {
    const fn new() -> Policy {
        Policy { cores: 0, services: [(0, Set::None); ROOM], count: 0 }
    }

    /// Returns the set of a service, which is new if need be; none if there is no room.
    fn set(&mut self, service: u64) -> Option<&mut Set> {
        let known = self.services[..self.count].iter().position(|(port, _)| *port == service);
        let place = known.unwrap_or(self.count);
        let (port, set) = self.services.get_mut(place)?;
        *port = service;
        self.count = self.count.max(place + 1);
        Some(set)
    }

    /// Decides on an event at `now`, in picoseconds.
    fn decide(&mut self, _now: u64, event: Event, reply: &mut Reply) {
        let cores = self.cores;
        match event {
            Event::Start(start) => self.cores = start.parameters[0] as u8,
            Event::Announced { service, .. } => {
                reply.request(Action::Wake);
                let Some(set) = self.set(service).filter(|set| **set == Set::Ready) else { return };
                *set = Set::Loading;
                let (until, order) = (u64::MAX, Order::FirstUse);
                reply.request(Action::Load { service, until, cores, order });
            }
            Event::Arrived { port } => match self.set(port) {
                Some(set) if *set == Set::None => {
                    *set = Set::Recorded;
                    reply.request(Action::Record { service: port, what: Recorded::Misses });
                }
                Some(Set::Loading) => reply.request(Action::Hold { service: port }),
                _ => {}
            },
            Event::Idle => {
                for (service, set) in &mut self.services[..self.count] {
                    if *set == Set::Recorded {
                        *set = Set::Built;
                        reply.request(Action::Build { service: *service });
                    }
                }
            }
            Event::Built { service, lines } => {
                if let Some(set) = self.set(service) {
                    *set = if lines > 0 { Set::Ready } else { Set::None };
                }
            }
            Event::Loaded { service } => {
                if let Some(set) = self.set(service).filter(|set| **set == Set::Loading) {
                    *set = Set::Ready;
                }
            }
            Event::Closed { port } => {
                if let Some(set) = self.set(port) {
                    *set = Set::None;
                    reply.request(Action::Forget { service: port });
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

    #[test]
    fn first_request_is_recorded_and_loaded_for_the_next() {
        let mut policy = Policy::new();
        let mut decided = |event| {
            let mut reply = Reply::new();
            policy.decide(0, event, &mut reply);
            reply.requested().collect::<Vec<_>>()
        };
        let service = 80;
        let announced = Event::Announced { service, due: 7 };
        assert_eq!(decided(Event::Start(Start { parameters: [2.0; 16] })), []);
        assert_eq!(decided(announced), [Action::Wake]);
        let what = Recorded::Misses;
        assert_eq!(decided(Event::Arrived { port: 80 }), [Action::Record { service, what }]);
        assert_eq!(decided(Event::Idle), [Action::Build { service }]);
        assert_eq!(decided(Event::Built { service, lines: 9 }), []);
        let (until, order) = (u64::MAX, Order::FirstUse);
        let load = Action::Load { service, until, cores: 2, order };
        assert_eq!(decided(announced), [Action::Wake, load]);
        assert_eq!(decided(Event::Arrived { port: 80 }), [Action::Hold { service }]);
        assert_eq!(decided(Event::Loaded { service }), []);
        assert_eq!(decided(Event::Closed { port: 80 }), [Action::Forget { service }]);
        assert_eq!(decided(announced), [Action::Wake]);
    }
}
