//! Which CPUs share a cache, and which a socket.

use alloc::vec::Vec;

/// Place of a CPU in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    /// Socket of the CPU.
    pub socket: u16,
    /// Last-level cache of the CPU; no two sockets have one in common.
    pub cache: u16,
}

/// Criterion that groups CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// CPUs of one socket.
    Socket,
    /// CPUs of one last-level cache.
    Cache,
}

/// The CPUs of a machine, numbered from zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    places: Vec<Place>,
}

impl Topology {
    /// A CPU for each place.
    ///
    /// # Panics
    /// If there are no CPUs, more than 65,536, or a cache that two sockets share.
    #[must_use]
    pub fn new(places: Vec<Place>) -> Topology {
        assert!((1..=1 << 16).contains(&places.len()), "1 to 65,536 CPUs");
        let mut sorted = places.clone();
        sorted.sort_unstable_by_key(|place| (place.cache, place.socket));
        let shared = sorted.windows(2).any(|two| two[0].cache == two[1].cache && two[0] != two[1]);
        assert!(!shared, "a cache belongs to one socket");
        Topology { places }
    }

    /// Creates `sockets` sockets with `cpus` CPUs each, which share one last-level cache. CPUs of a
    /// socket have numbers in a row.
    ///
    /// # Panics
    /// If there are no CPUs, or more than 65,536.
    #[must_use]
    pub fn uniform(sockets: u16, cpus: u16) -> Topology {
        let of = |socket| Place { socket, cache: socket };
        let places = (0..sockets).flat_map(|s| (0..cpus).map(move |_| of(s))).collect();
        Topology::new(places)
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        // 65,536 at most, of which the last is number 65,535.
        self.places.len().min(usize::from(u16::MAX)) as u16
    }

    /// Returns the place of a CPU.
    ///
    /// # Panics
    /// If there is no such CPU.
    #[must_use]
    pub fn place(&self, cpu: u16) -> Place {
        self.places[usize::from(cpu)]
    }

    /// Returns the number of sockets with CPUs.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.groups(Group::Socket).len()
    }

    /// The CPUs that belong together, each list in the order of their numbers, lists in the order
    /// of their first.
    #[must_use]
    pub fn groups(&self, by: Group) -> Vec<Vec<u16>> {
        let mut groups: Vec<(u16, Vec<u16>)> = Vec::new();
        for (cpu, place) in (0u16..).zip(&self.places) {
            let name = match by {
                Group::Socket => place.socket,
                Group::Cache => place.cache,
            };
            match groups.iter_mut().find(|group| group.0 == name) {
                Some(group) => group.1.push(cpu),
                None => groups.push((name, [cpu].into())),
            }
        }
        groups.into_iter().map(|group| group.1).collect()
    }
}

/// Groups of CPUs, each with those that may complete.
#[derive(Clone, Debug)]
pub(super) struct Handlers {
    /// Group of each CPU.
    of: Vec<u16>,
    handlers: Vec<Vec<u16>>,
}

impl Handlers {
    /// Groups CPUs by this criterion; a spared CPU completes nothing, unless its group has no
    /// other.
    pub(super) fn new(topology: &Topology, by: Group, spared: Option<u16>) -> Handlers {
        let groups = topology.groups(by);
        let mut of = alloc::vec![0; usize::from(topology.cpus())];
        for (name, group) in (0u16..).zip(&groups) {
            group.iter().for_each(|&cpu| of[usize::from(cpu)] = name);
        }
        let spare = |group: Vec<u16>| match group.len() {
            1 => group,
            _ => group.into_iter().filter(|&cpu| Some(cpu) != spared).collect(),
        };
        Handlers { of, handlers: groups.into_iter().map(spare).collect() }
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> usize {
        self.handlers.len()
    }

    /// The group of a CPU.
    pub(super) fn group(&self, cpu: u16) -> usize {
        usize::from(self.of[usize::from(cpu)])
    }

    /// Returns the CPUs of a group that complete I/Os; never empty.
    pub(super) fn members(&self, group: usize) -> &[u16] {
        &self.handlers[group]
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn groups_are_by_socket_or_by_cache() {
        // Two sockets; the first has two caches, its CPUs by turns.
        let of = |socket, cache| Place { socket, cache };
        let topology = Topology::new(vec![of(0, 7), of(0, 3), of(0, 7), of(1, 9), of(0, 3)]);
        assert_eq!(topology.groups(Group::Socket), [vec![0, 1, 2, 4], vec![3]]);
        assert_eq!(topology.groups(Group::Cache), [vec![0, 2], vec![1, 4], vec![3]]);
        assert_eq!((topology.cpus(), topology.sockets()), (5, 2));
    }

    #[test]
    fn a_spared_cpu_completes_only_where_it_is_alone() {
        let topology = Topology::uniform(2, 3);
        let handlers = Handlers::new(&topology, Group::Socket, Some(0));
        assert_eq!((handlers.members(0), handlers.members(1)), (&[1, 2][..], &[3, 4, 5][..]));
        let alone = Handlers::new(&Topology::uniform(2, 1), Group::Socket, Some(0));
        assert_eq!((alone.members(0), alone.group(1)), (&[0][..], 1));
    }

    #[test]
    #[should_panic(expected = "a cache belongs to one socket")]
    fn no_cache_spans_sockets() {
        let of = |socket| Place { socket, cache: 0 };
        let _ = Topology::new(vec![of(0), of(1)]);
    }
}
