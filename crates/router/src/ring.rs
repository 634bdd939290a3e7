//! A receive ring.

/// A packet that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Arrival time, in picoseconds.
    pub(crate) at: u64,
    /// Number of its flow.
    pub(crate) flow: u32,
    /// Number of packets that arrived before it.
    pub(crate) number: u32,
}

/// Packets in the order of arrival; counts of all that ever came and went.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    slots: Box<[Packet]>,
    mask: u64,
    /// The packet in the first slot: an empty ring begins there again, so that little memory is
    /// touched.
    base: u64,
    /// Packets ever put in.
    pub(crate) put: u64,
    /// Packets ever taken out.
    pub(crate) taken: u64,
}

impl Ring {
    pub(crate) fn new(size: u32) -> Ring {
        debug_assert!(size.is_power_of_two(), "places are found by a mask");
        let slots = vec![Packet::default(); size as usize].into_boxed_slice();
        Ring { slots, mask: u64::from(size) - 1, base: 0, put: 0, taken: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        (self.put - self.taken) as u32
    }

    /// False if there is no descriptor left.
    pub(crate) fn put(&mut self, packet: Packet) -> bool {
        if self.put - self.taken > self.mask {
            return false;
        }
        if self.put == self.taken {
            self.base = self.put;
        }
        let slot = self.slot(self.put);
        self.slots[slot] = packet;
        self.put += 1;
        true
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        ((number - self.base) & self.mask) as usize
    }

    pub(crate) fn first(&self) -> Option<Packet> {
        (self.put > self.taken).then(|| self.slots[self.slot(self.taken)])
    }

    /// The next packet; there must be one.
    pub(crate) fn take(&mut self) -> Packet {
        debug_assert!(self.put > self.taken, "an empty ring has no next packet");
        let packet = self.slots[self.slot(self.taken)];
        self.taken += 1;
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_its_size_and_wraps() {
        let mut ring = Ring::new(4);
        for round in 0..5_u32 {
            for n in 0..4_u32 {
                assert!(ring.put(Packet { at: u64::from(n), flow: round, ..Packet::default() }));
            }
            assert!(!ring.put(Packet::default()));
            assert_eq!(ring.first(), Some(Packet { at: 0, flow: round, ..Packet::default() }));
            let flows = (0..4_u64)
                .all(|n| ring.take() == Packet { at: n, flow: round, ..Packet::default() });
            assert!(flows && ring.first().is_none());
        }
        assert_eq!((ring.put, ring.taken, ring.len()), (20, 20, 0));
    }
}
