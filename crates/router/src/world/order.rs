//! Which packets overtook which.

use std::collections::VecDeque;

use crate::ring::Packet;

/// The last packet of a flow to leave, of those that came latest.
#[derive(Clone, Copy, Debug, Default)]
struct FlowEnd {
    at: u64,
    left: u64,
}

/// A packet for the order of all.
#[derive(Clone, Copy, Debug)]
struct Passage {
    at: u64,
    left: u64,
    /// A later one is known to have left before it.
    overtaken: bool,
}

/// Departure time of a packet that is still inside.
const INSIDE: u64 = u64::MAX;
/// Counted, or never to be.
const SETTLED: u64 = 0;

/// The order of all packets. Those that have left for certain are settled from time to time, so
/// that few are kept.
#[derive(Clone, Debug, Default)]
struct Overall {
    /// Packets in the order of arrival.
    passages: VecDeque<Passage>,
    /// Number of the first of them.
    first: u32,
    late: u64,
}

/// Counts packets that leave after later ones.
#[derive(Clone, Debug)]
pub(super) struct Order {
    flows: Vec<FlowEnd>,
    mask: u32,
    in_flows: u64,
    overall: Option<Overall>,
}

impl Overall {
    fn passage(&mut self, number: u32) -> &mut Passage {
        &mut self.passages[number.wrapping_sub(self.first) as usize]
    }

    /// All that left until `now` is known. Backwards in the order of arrival, a packet is late if
    /// it leaves after the earliest departure of what came later.
    fn settle(&mut self, now: u64) {
        let passages = self.passages.make_contiguous();
        let mut earliest = INSIDE;
        for together in passages.chunk_by_mut(|a, b| a.at == b.at).rev() {
            let mut left = earliest;
            for passage in together.iter_mut().filter(|p| p.left != SETTLED) {
                passage.overtaken |= earliest < passage.left.min(now.saturating_add(1));
                left = left.min(passage.left);
                if passage.left <= now {
                    self.late += u64::from(passage.overtaken);
                    passage.left = SETTLED;
                }
            }
            earliest = left;
        }
        while self.passages.front().is_some_and(|p| p.left == SETTLED) {
            self.passages.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

impl Order {
    pub(super) fn new(flows: u32, overall: bool) -> Order {
        let count = flows.next_power_of_two();
        Order {
            flows: vec![FlowEnd::default(); count as usize],
            mask: count - 1,
            in_flows: 0,
            overall: overall.then(Overall::default),
        }
    }

    #[inline]
    pub(super) fn arrives(&mut self, packet: Packet) {
        if let Some(overall) = &mut self.overall {
            let passage = Passage { at: packet.at, left: INSIDE, overtaken: false };
            overall.passages.push_back(passage);
        }
    }

    /// Records a packet that was lost to a full queue.
    pub(super) fn is_lost(&mut self, packet: Packet) {
        if let Some(overall) = &mut self.overall {
            overall.passage(packet.number).left = SETTLED;
        }
    }

    #[inline]
    pub(super) fn leaves(&mut self, packet: Packet, leaves: u64) {
        // Packets are told of as their batches are taken, on whichever core: either of two may be
        // the first to be told.
        let flow = &mut self.flows[(packet.flow & self.mask) as usize];
        if packet.at >= flow.at {
            self.in_flows += u64::from(leaves < flow.left);
            *flow = FlowEnd { at: packet.at, left: leaves };
        } else {
            self.in_flows += u64::from(leaves > flow.left);
        }
        if let Some(overall) = &mut self.overall {
            overall.passage(packet.number).left = leaves;
        }
    }

    /// Everything that happened until `now` has been told.
    pub(super) fn settle(&mut self, now: u64) {
        if let Some(overall) = &mut self.overall {
            overall.settle(now);
        }
    }

    /// Packets that left after one of their flow that came later.
    pub(super) fn in_flows(&self) -> u64 {
        self.in_flows
    }

    /// Packets that left after any that came later, if it was asked for.
    pub(super) fn overall(&mut self) -> Option<u64> {
        let overall = self.overall.as_mut()?;
        overall.settle(INSIDE - 1);
        Some(overall.late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals and departures (0: lost), settled after each packet or only at the end.
    fn overall(packets: &[(u64, u64)]) -> u64 {
        let count = |often: bool| {
            let mut order = Order::new(1, true);
            let packet = |number: usize, at| Packet { at, flow: 0, number: number as u32 };
            let mut events: Vec<(u64, usize)> =
                packets.iter().enumerate().map(|(n, p)| (p.1, n)).collect();
            events.sort_unstable();
            for (n, &(at, left)) in packets.iter().enumerate() {
                order.arrives(packet(n, at));
                if left == 0 {
                    order.is_lost(packet(n, at));
                }
            }
            for (left, n) in events.into_iter().filter(|e| e.0 > 0 && e.0 < INSIDE) {
                order.leaves(packet(n, packets[n].0), left);
                if often {
                    order.settle(left - 1);
                }
            }
            order.overall().unwrap()
        };
        assert_eq!(count(true), count(false));
        count(true)
    }

    #[test]
    fn settling_often_changes_nothing() {
        let noise = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let packets: Vec<(u64, u64)> =
            (1..400_u64).map(|n| (n / 3, n / 3 + 1 + noise(n))).collect();
        let late = |&(at, left): &(u64, u64)| packets.iter().any(|q| q.0 > at && q.1 < left);
        assert_eq!(overall(&packets), packets.iter().filter(|p| late(p)).count() as u64);
    }

    #[test]
    fn overtaken_packets_are_counted_by_hand() {
        assert_eq!(overall(&[(1, 10), (2, 11), (3, 12)]), 0);
        // The first two leave after the third.
        assert_eq!(overall(&[(1, 13), (2, 14), (3, 12)]), 2);
        // What came together, leaves together, was lost or is still inside overtook nobody.
        assert_eq!(overall(&[(1, 14), (1, 13), (2, 14), (3, INSIDE)]), 0);
        assert_eq!(overall(&[(1, 14), (1, 13), (2, 14), (3, 0)]), 0);
        assert_eq!(overall(&[(1, 14), (1, 13), (2, 12)]), 2);
    }
}
