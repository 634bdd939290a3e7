//! What arrived, against what was sent: lost, duplicated, reordered.
//!
//! A frame is reordered if one with a higher number arrived before it (RFC 4737, Sec 3.3). Numbers
//! that have not come are lost for as long as they stay away.

use serde::Serialize;

use super::frame::Stamp;

/// Numbers behind the highest of which is known whether they came: what comes later still counts as
/// reordered, and can no longer be told from a duplicate.
pub const WINDOW: u64 = 1024;
const WORDS: usize = WINDOW as usize / 64;

/// Counts of one sequence of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Order {
    /// Numbers that came, each once.
    pub received: u64,
    /// Numbers below the highest that did not come.
    pub missing: u64,
    /// Frames whose number had come before.
    pub duplicated: u64,
    /// Frames behind one with a higher number.
    pub reordered: u64,
    /// Farthest that one of them was behind, in numbers.
    pub reordered_by_most: u64,
}

/// One sequence of numbers.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// One above the highest number so far.
    next: u64,
    /// Bit n % WINDOW: whether number n came, of the last WINDOW numbers.
    came: [u64; WORDS],
    order: Order,
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence { next: 0, came: [0; WORDS], order: Order::default() }
    }
}

impl Sequence {
    /// A frame came. Numbers are 32 bits wide and may begin again after the last.
    #[inline]
    pub fn add(&mut self, number: u32) {
        // The nearest number to the expected one that ends in these 32 bits.
        let ahead = number.wrapping_sub(self.next as u32) as i32;
        let number = self.next.wrapping_add_signed(i64::from(ahead));
        if ahead >= 0 {
            let skipped = number - self.next;
            self.forget(self.next, skipped);
            self.order.missing += skipped;
            self.order.received += 1;
            self.set(number, true);
            self.next = number + 1;
            return;
        }
        let behind = (self.next - 1).wrapping_sub(number);
        if behind < WINDOW && self.has(number) {
            self.order.duplicated += 1;
            return;
        }
        self.order.received += 1;
        self.order.missing = self.order.missing.saturating_sub(1);
        self.order.reordered += 1;
        self.order.reordered_by_most = self.order.reordered_by_most.max(behind);
        if behind < WINDOW {
            self.set(number, true);
        }
    }

    /// Returns the counts; with `sent`, numbers behind the highest are missing too.
    #[must_use]
    pub fn order(&self, sent: Option<u64>) -> Order {
        let tail = sent.map_or(0, |sent| sent.saturating_sub(self.next));
        Order { missing: self.order.missing + tail, ..self.order }
    }

    fn forget(&mut self, from: u64, count: u64) {
        if count >= WINDOW {
            self.came = [0; WORDS];
        } else {
            (from..from + count).for_each(|n| self.set(n, false));
        }
    }

    fn set(&mut self, number: u64, value: bool) {
        let (word, bit) = ((number / 64) as usize % WORDS, number % 64);
        self.came[word] = self.came[word] & !(1 << bit) | u64::from(value) << bit;
    }

    fn has(&self, number: u64) -> bool {
        self.came[(number / 64) as usize % WORDS] >> (number % 64) & 1 == 1
    }
}

/// All flows of a generator, and all its frames as one sequence.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    flows: Vec<Sequence>,
    all: Sequence,
}

/// Counters of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowCounts {
    /// Flows of which a frame came.
    pub flows: u64,
    /// Sum over all flows.
    pub order: Order,
    /// Flows with numbers missing, duplicated or reordered.
    pub disturbed: u64,
}

impl Tracker {
    /// A frame of ours came.
    #[inline]
    pub fn add(&mut self, stamp: Stamp) {
        let flow = usize::from(stamp.flow);
        if flow >= self.flows.len() {
            self.flows.resize(flow + 1, Sequence::default());
        }
        self.flows[flow].add(stamp.flow_sequence);
        self.all.add(stamp.sequence);
    }

    /// All frames as one sequence; `sent` if it is known how many there were.
    #[must_use]
    pub fn all(&self, sent: Option<u64>) -> Order {
        self.all.order(sent)
    }

    /// Each flow for itself.
    #[must_use]
    pub fn flows(&self) -> FlowCounts {
        let mut out = FlowCounts::default();
        for sequence in &self.flows {
            let one = sequence.order(None);
            let order = &mut out.order;
            out.flows += u64::from(one.received > 0);
            out.disturbed += u64::from(one.missing + one.duplicated + one.reordered > 0);
            order.received += one.received;
            order.missing += one.missing;
            order.duplicated += one.duplicated;
            order.reordered += one.reordered;
            order.reordered_by_most = order.reordered_by_most.max(one.reordered_by_most);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(numbers: impl IntoIterator<Item = u32>) -> Order {
        let mut sequence = Sequence::default();
        numbers.into_iter().for_each(|n| sequence.add(n));
        sequence.order(None)
    }

    #[test]
    fn frames_in_order_are_all_received() {
        assert_eq!(order(0..5000), Order { received: 5000, ..Order::default() });
        assert_eq!(order([]), Order::default());
    }

    #[test]
    fn gaps_in_sequence_count_as_missing() {
        assert_eq!(order([0, 1, 4, 5]), Order { received: 4, missing: 2, ..Order::default() });
        // The first ones count, and those at the end if it is known how many there were.
        assert_eq!(order([7]).missing, 7);
        let mut sequence = Sequence::default();
        sequence.add(0);
        assert_eq!(sequence.order(Some(10)).missing, 9);
        assert_eq!(sequence.order(Some(1)).missing, 0);
    }

    #[test]
    fn duplicates_near_and_after_gaps() {
        let found = order([0, 1, 1, 2, 0, 5000, 5000, 4999, 4999]);
        assert_eq!((found.received, found.duplicated, found.reordered), (5, 4, 1));
        assert_eq!(found.missing, 5001 - 5);
    }

    #[test]
    fn swapped_frames_are_late_not_lost() {
        let found = order([0, 2, 1, 3]);
        let expected =
            Order { received: 4, reordered: 1, reordered_by_most: 1, ..Order::default() };
        assert_eq!(found, expected);
        let back = order([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!((back.missing, back.reordered, back.reordered_by_most), (0, 9, 9));
    }

    #[test]
    fn beyond_the_window_late_is_all_that_is_known() {
        let mut numbers: Vec<u32> = (1..3000).collect();
        numbers.push(0);
        let found = order(numbers);
        assert_eq!((found.missing, found.duplicated, found.reordered), (0, 0, 1));
        assert_eq!(found.reordered_by_most, 2999);
    }

    #[test]
    fn a_window_that_moves_far_remembers_nothing_wrong() {
        // 64 is in the same place of the window as 64 + WINDOW, which has not come.
        let window = WINDOW as u32;
        let found = order([64, 66 + window, 64 + window]);
        assert_eq!((found.duplicated, found.reordered), (0, 1));
    }

    #[test]
    fn numbers_may_begin_again() {
        let mut sequence = Sequence { next: u64::from(u32::MAX), ..Sequence::default() };
        for n in [u32::MAX, 1, 0, 2] {
            sequence.add(n);
        }
        let found = sequence.order(None);
        assert_eq!((found.received, found.missing, found.reordered), (4, 0, 1));
    }

    #[test]
    fn flows_may_overtake_each_other() {
        let stamp = |flow, flow_sequence, sequence| Stamp {
            flow,
            flow_sequence,
            sequence,
            scheduled_ns: 0,
        };
        let mut tracker = Tracker::default();
        for stamp in [stamp(0, 0, 0), stamp(1, 0, 2), stamp(0, 1, 1), stamp(1, 2, 4)] {
            tracker.add(stamp);
        }
        assert_eq!(tracker.all(Some(6)).reordered, 1);
        assert_eq!(tracker.all(Some(6)).missing, 2);
        let flows = tracker.flows();
        assert_eq!((flows.flows, flows.order.reordered, flows.disturbed), (2, 0, 1));
        assert_eq!(flows.order.missing, 1);
    }
}
