//! How long a cache line takes from its owner to a CPU.

use crate::description::{Coherence, Topology};

/// Transfer times between the CPUs of a machine, in picoseconds.
///
/// CPUs are numbered socket by socket. Sockets are next to each other or two hops apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// Socket of each CPU.
    socket_of: Vec<u16>,
    /// Latencies from socket to socket; the diagonal is within one.
    between: Vec<u64>,
    sockets: usize,
    same_core: u64,
}

impl Distances {
    /// Creates the distances of a machine.
    #[must_use]
    pub fn new(topology: &Topology, coherence: &Coherence) -> Distances {
        let sockets = usize::from(topology.sockets);
        let ps = |ns: f64| (ns * 1e3 + 0.5) as u64;
        let mut between = vec![0; sockets * sockets];
        for from in 0..sockets {
            for to in 0..sockets {
                between[from * sockets + to] = match topology.hops(from as u16, to as u16) {
                    0 => ps(coherence.same_socket_ns),
                    1 => ps(coherence.one_hop_ns),
                    _ => ps(coherence.two_hops_ns),
                };
            }
        }
        let cores = topology.cores_per_socket;
        let socket_of = (0..topology.cpus()).map(|cpu| cpu / cores).collect();
        Distances { socket_of, between, sockets, same_core: ps(coherence.same_core_ns) }
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.socket_of.len() as u16
    }

    /// Returns the number of sockets.
    #[must_use]
    pub fn sockets(&self) -> u16 {
        self.sockets as u16
    }

    /// The socket of a CPU.
    #[inline]
    #[must_use]
    pub fn socket(&self, cpu: u16) -> u16 {
        self.socket_of[usize::from(cpu)]
    }

    /// A line that `from` wrote last comes to `to`.
    #[inline]
    #[must_use]
    pub fn line(&self, from: u16, to: u16) -> u64 {
        if from == to {
            return self.same_core;
        }
        self.sockets_apart(self.socket(from), self.socket(to))
    }

    /// A line comes from one socket to another, or between two cores of one.
    #[inline]
    #[must_use]
    pub fn sockets_apart(&self, from: u16, to: u16) -> u64 {
        self.between[usize::from(from) * self.sockets + usize::from(to)]
    }

    /// Within a socket, between cores.
    #[inline]
    #[must_use]
    pub fn within_socket(&self) -> u64 {
        self.between[0]
    }

    /// Returns the extra latency of a line from there over one from a neighbour in the same socket.
    #[inline]
    #[must_use]
    pub fn beyond_socket(&self, from: u16, to: u16) -> u64 {
        self.line(from, to).saturating_sub(self.within_socket())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: Coherence = Coherence {
        same_core_ns: 5.0,
        same_socket_ns: 50.0,
        one_hop_ns: 250.0,
        two_hops_ns: 400.0,
    };

    #[test]
    fn distances_are_by_core_socket_and_hops() {
        let topology = Topology { sockets: 8, cores_per_socket: 10, ..Topology::default() };
        let far = Distances::new(&topology, &LINES);
        assert_eq!(far.cpus(), 80);
        assert_eq!([far.line(3, 3), far.line(3, 9), far.line(9, 10)], [5_000, 50_000, 250_000]);
        // A cube: 0 and 7 are opposite corners, as 0 and 3 are of a face.
        assert_eq!([far.line(0, 79), far.line(0, 35)], [400_000, 400_000]);
        assert_eq!([far.beyond_socket(0, 1), far.beyond_socket(0, 10)], [0, 200_000]);
    }

    #[test]
    fn four_sockets_are_all_neighbours() {
        let topology = Topology { sockets: 4, cores_per_socket: 8, ..Topology::default() };
        let near = Distances::new(&topology, &LINES);
        for from in 0..32 {
            for to in 0..32 {
                assert_eq!(near.line(from, to), near.line(to, from));
                assert!(near.line(from, to) <= 250_000);
            }
        }
    }
}
