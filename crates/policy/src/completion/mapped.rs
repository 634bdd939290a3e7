//! Mappings that look at nothing but the I/O.

use alloc::vec;
use alloc::vec::Vec;

use super::topology::Handlers;
use super::{Done, Group, Mapping, Topology, Where};
use crate::Snapshot;

/// The shipped driver: one CPU hears and completes all (Nellans 2014, Sec 6.2.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleThread;

impl Mapping for SingleThread {
    fn place(&mut self, _done: &Done) -> Where {
        Where::Here
    }
}

/// Two phases on one CPU: what splitting costs, without what it gains (Nellans 2014, Fig 6.8).
#[derive(Clone, Copy, Debug, Default)]
pub struct Same;

impl Mapping for Same {
    fn place(&mut self, done: &Done) -> Where {
        Where::On(done.heard)
    }
}

/// Back to who issued, wherever that is: the cache-oblivious mapping of Nellans 2014, Fig 6.10, and
/// of `rq_affinity=2`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Issuer;

impl Mapping for Issuer {
    fn place(&mut self, done: &Done) -> Where {
        Where::On(done.issuer)
    }
}

/// All CPUs of the issuer's socket by turns (Nellans 2014, Fig 6.9: there is one socket).
#[derive(Clone, Debug)]
pub struct RoundRobin {
    handlers: Handlers,
    next: Vec<u32>,
}

impl RoundRobin {
    /// Creates the mapping for this machine; the spared CPU takes no turn where it is not alone.
    #[must_use]
    pub fn new(topology: &Topology, by: Group, spared: Option<u16>) -> RoundRobin {
        let handlers = Handlers::new(topology, by, spared);
        RoundRobin { next: vec![0; handlers.len()], handlers }
    }
}

impl Mapping for RoundRobin {
    fn place(&mut self, done: &Done) -> Where {
        let group = self.handlers.group(done.issuer);
        let members = self.handlers.members(group);
        let turn = &mut self.next[group];
        let cpu = members[*turn as usize % members.len()];
        *turn = (*turn + 1) % members.len() as u32;
        Where::On(cpu)
    }

    fn snapshot(&self) -> Snapshot {
        vec![("turns", self.next.iter().map(|&turn| i64::from(turn)).sum())]
    }
}

/// Threads that share the cache of who hears, by the I/O's tag: neighbouring tags go to different
/// threads, and a tag always to the same one (ublk's servers of several threads for one queue).
#[derive(Clone, Debug)]
pub struct InterleavedTags {
    handlers: Handlers,
    threads: usize,
}

impl InterleavedTags {
    /// At most so many threads of a cache.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(topology: &Topology, threads: u16, spared: Option<u16>) -> InterleavedTags {
        assert!(threads > 0, "a thread at least");
        let handlers = Handlers::new(topology, Group::Cache, spared);
        InterleavedTags { handlers, threads: usize::from(threads) }
    }
}

impl Mapping for InterleavedTags {
    fn place(&mut self, done: &Done) -> Where {
        let members = self.handlers.members(self.handlers.group(done.heard));
        Where::On(members[done.io as usize % members.len().min(self.threads)])
    }
}
