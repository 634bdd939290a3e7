//! The device: a latency, and a rate that it cannot exceed.

use std::collections::VecDeque;

use crate::description::Device;

/// A device in use. What it takes first is done first.
#[derive(Clone, Debug)]
pub struct Queue {
    latency_ps: u64,
    /// When the next may begin.
    free: u64,
    /// When each is done, and its ticket.
    done: VecDeque<(u64, u32, u32)>,
}

impl Queue {
    /// Of a device.
    #[must_use]
    pub fn new(device: &Device) -> Queue {
        Queue {
            latency_ps: ((device.latency_us + device.pcie_us) * 1e6) as u64,
            free: 0,
            done: VecDeque::new(),
        }
    }

    /// It takes a request, after which it takes none for so long: see [`gap_ps`].
    pub fn take(&mut self, now: u64, io: u32, gap_ps: u64) {
        let due = self.begin(now, gap_ps);
        self.done.push_back((due, io, 0));
    }

    /// The same, but it is done later by so much, or never; the answer bears a ticket.
    pub fn take_late(&mut self, now: u64, io: u32, gap_ps: u64, (ticket, by): (u32, Option<u64>)) {
        let due = self.begin(now, gap_ps);
        let Some(by) = by else { return };
        let due = due.saturating_add(by);
        let at = self.done.partition_point(|&(before, ..)| before <= due);
        self.done.insert(at, (due, io, ticket));
    }

    /// When a request is done that it takes now.
    fn begin(&mut self, now: u64, gap_ps: u64) -> u64 {
        let begun = self.free.max(now);
        self.free = begun + gap_ps;
        begun + self.latency_ps
    }

    /// When the next is done.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.done.front().map_or(u64::MAX, |&(due, ..)| due)
    }

    /// One is done: which, and its ticket.
    pub fn pop(&mut self) -> Option<(u32, u32)> {
        self.done.pop_front().map(|(_, io, ticket)| (io, ticket))
    }

    /// How many it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }
}

/// Between a request of so many bytes and the next, in picoseconds.
#[must_use]
pub fn gap_ps(device: &Device, bytes: u32) -> u64 {
    let by_rate_s = 1.0 / device.iops;
    let by_bytes_s = f64::from(bytes) / (device.gb_per_s * 1e9);
    (by_rate_s.max(by_bytes_s) * 1e12) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_kept_apart_by_rate_or_by_bytes() {
        let device = Device { latency_us: 1.0, iops: 1e6, gb_per_s: 3.0, pcie_us: 10.0 };
        for (bytes, gap) in [(512, 1_000_000), (6000, 2_000_000)] {
            let mut queue = Queue::new(&device);
            queue.take(5_000_000, 7, gap_ps(&device, bytes));
            queue.take(5_000_000, 8, gap_ps(&device, bytes));
            assert_eq!((queue.due(), queue.len()), (16_000_000, 2));
            assert_eq!(queue.pop(), Some((7, 0)));
            assert_eq!(queue.due(), 16_000_000 + gap);
        }
    }
}
