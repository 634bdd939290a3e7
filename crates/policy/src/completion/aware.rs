//! As few CPUs of the issuer's socket as keep up (Nellans 2014, Sec 6.3.3).
//!
//! ```text
//!   begin: the first CPU of each socket
//!   every period:  first CPU busy ≥ high ─▶ one more of that socket
//!                  all its CPUs   < low  ─▶ one fewer
//!   an I/O: by turns over those of its issuer's socket
//! ```

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::topology::Handlers;
use super::{Done, Group, Mapping, Topology, Where};
use crate::Snapshot;

/// Parameters of the mapping. Published is only that the first CPU of a socket begins, that others
/// are added when it is fully used, and that a periodic check looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAwareParameters {
    /// Criterion that groups CPUs.
    pub by: Group,
    /// A CPU that completes nothing where it is not alone: the one that hears.
    pub spared: Option<u16>,
    /// Thousandths of its time from which on a CPU is fully used.
    pub high_permille: u32,
    /// Below so many thousandths there are too many CPUs.
    pub low_permille: u32,
    /// Interval between checks.
    pub period: Time,
}

impl CacheAwareParameters {
    /// Returns the published parameters: groups by socket, the interrupted CPU spared. Values that
    /// are not published are assumed: 95 %, 50 %, 10 ms.
    #[must_use]
    pub fn published(hears: u16) -> CacheAwareParameters {
        CacheAwareParameters {
            by: Group::Socket,
            spared: Some(hears),
            high_permille: 950,
            low_permille: 500,
            period: Time::ns(10_000_000),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Active {
    /// CPUs that complete, the group's first ones.
    count: u32,
    /// Index of the CPU whose turn it is.
    turn: u32,
    /// The most that one of them was used since the first was looked at.
    most_permille: u32,
}

/// Mapping that adds CPUs of a group by their use.
#[derive(Clone, Debug)]
pub struct CacheAware {
    parameters: CacheAwareParameters,
    handlers: Handlers,
    active: Vec<Active>,
}

impl CacheAware {
    /// One CPU of each group completes at first.
    #[must_use]
    pub fn new(topology: &Topology, parameters: CacheAwareParameters) -> CacheAware {
        let handlers = Handlers::new(topology, parameters.by, parameters.spared);
        let one = Active { count: 1, turn: 0, most_permille: 0 };
        CacheAware { parameters, active: vec![one; handlers.len()], handlers }
    }
}

impl Mapping for CacheAware {
    fn place(&mut self, done: &Done) -> Where {
        let group = self.handlers.group(done.issuer);
        let active = &mut self.active[group];
        let cpu = self.handlers.members(group)[active.turn as usize];
        active.turn = if active.turn + 1 < active.count { active.turn + 1 } else { 0 };
        Where::On(cpu)
    }

    /// CPUs are told of in the order of their numbers, so the last one of a group that completes
    /// closes its look.
    fn used(&mut self, cpu: u16, permille: u32) {
        let group = self.handlers.group(cpu);
        let members = self.handlers.members(group);
        let active = &mut self.active[group];
        let Some(place) = members[..active.count as usize].iter().position(|&m| m == cpu) else {
            return;
        };
        // Others grow with the first, by turns; but they may do other work, too.
        let first = place == 0;
        active.most_permille = if first { permille } else { active.most_permille.max(permille) };
        if first && permille >= self.parameters.high_permille {
            active.count = (active.count + 1).min(members.len() as u32);
        } else if place + 1 == active.count as usize
            && active.most_permille < self.parameters.low_permille
        {
            active.count = (active.count - 1).max(1);
            active.turn = active.turn.min(active.count - 1);
        }
    }

    fn period(&self) -> Option<Time> {
        Some(self.parameters.period)
    }

    fn snapshot(&self) -> Snapshot {
        vec![("handlers", self.active.iter().map(|active| i64::from(active.count)).sum())]
    }
}
