//! Which packets overtook which.

use crate::ring::Packet;

/// The last packet of a flow to leave, of those that came latest.
#[derive(Clone, Copy, Debug, Default)]
struct FlowEnd {
    at: u64,
    left: u64,
}

/// Counts packets that leave after later ones.
#[derive(Clone, Debug)]
pub(super) struct Order {
    flows: Vec<FlowEnd>,
    mask: u32,
    in_flows: u64,
    /// Arrival and departure of each packet in the order of arrival, if it is asked for.
    all: Option<Vec<(u64, u64)>>,
}

impl Order {
    pub(super) fn new(flows: u32, overall: bool) -> Order {
        let count = flows.next_power_of_two();
        Order {
            flows: vec![FlowEnd::default(); count as usize],
            mask: count - 1,
            in_flows: 0,
            all: overall.then(Vec::new),
        }
    }

    #[inline]
    pub(super) fn arrives(&mut self, packet: Packet) {
        if let Some(all) = &mut self.all {
            all.push((packet.at, u64::MAX));
        }
    }

    #[inline]
    pub(super) fn leaves(&mut self, packet: Packet, leaves: u64) {
        let flow = &mut self.flows[(packet.flow & self.mask) as usize];
        if packet.at >= flow.at {
            self.in_flows += u64::from(leaves < flow.left);
            *flow = FlowEnd { at: packet.at, left: leaves };
        } else {
            self.in_flows += u64::from(leaves > flow.left);
        }
        if let Some(all) = &mut self.all {
            all[packet.number as usize].1 = leaves;
        }
    }

    /// Packets that left after one of their flow that came later.
    pub(super) fn in_flows(&self) -> u64 {
        self.in_flows
    }

    /// Packets that left after any that came later: backwards in the order of arrival, those that
    /// leave after the earliest departure of what came later.
    pub(super) fn overall(&self) -> Option<u64> {
        let all = self.all.as_ref()?;
        let (mut late, mut earliest) = (0, u64::MAX);
        for together in all.chunk_by(|a, b| a.0 == b.0).rev() {
            let left = || together.iter().map(|&(_, left)| left).filter(|&left| left < u64::MAX);
            late += left().filter(|&left| left > earliest).count() as u64;
            earliest = left().fold(earliest, u64::min);
        }
        Some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Departures of packets, a nanosecond apart unless they come together.
    fn overall(packets: &[(u64, u64)]) -> u64 {
        let mut order = Order::new(1, true);
        let packet = |number: usize, at| Packet { at, flow: 0, number: number as u32 };
        for (n, &(at, _)) in packets.iter().enumerate() {
            order.arrives(packet(n, at));
        }
        for (n, &(at, left)) in packets.iter().enumerate().filter(|(_, p)| p.1 < u64::MAX) {
            order.leaves(packet(n, at), left);
        }
        order.overall().unwrap()
    }

    #[test]
    fn who_leaves_after_a_later_one_by_hand() {
        assert_eq!(overall(&[(1, 10), (2, 11), (3, 12)]), 0);
        // The first two leave after the third.
        assert_eq!(overall(&[(1, 13), (2, 14), (3, 12)]), 2);
        // What came together, leaves together, or was lost overtook nobody.
        assert_eq!(overall(&[(1, 14), (1, 13), (2, 14), (3, u64::MAX)]), 0);
        assert_eq!(overall(&[(1, 14), (1, 13), (2, 12)]), 2);
    }
}
