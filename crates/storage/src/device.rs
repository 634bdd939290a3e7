//! The device: a latency, and a rate that it cannot exceed.

use std::collections::VecDeque;

use crate::description::Device;

/// A device in use. What it takes first is done first.
#[derive(Clone, Debug)]
pub struct Queue {
    latency_ps: u64,
    /// Time from which the next request may begin.
    free: u64,
    /// Completion time of each request, with its I/O and ticket.
    done: VecDeque<(u64, u32, u32)>,
}

impl Queue {
    /// Creates the queue of a device.
    #[must_use]
    pub fn new(device: &Device) -> Queue {
        Queue {
            latency_ps: ((device.latency_us + device.pcie_us) * 1e6) as u64,
            free: 0,
            done: VecDeque::new(),
        }
    }

    /// Takes a request, after which the device takes none for `gap_ps`: see [`gap_ps`].
    pub fn take(&mut self, now: u64, io: u32, gap_ps: u64) {
        let due = self.begin(now, gap_ps);
        // A constant latency keeps the order of taking.
        debug_assert!(
            self.done.back().is_none_or(|last| last.0 <= due),
            "completions are in order"
        );
        self.done.push_back((due, io, 0));
    }

    /// Takes a request whose completion is late by this time, or never comes; the completion
    /// carries a ticket.
    pub fn take_late(&mut self, now: u64, io: u32, gap_ps: u64, (ticket, by): (u32, Option<u64>)) {
        let due = self.begin(now, gap_ps);
        let Some(by) = by else { return };
        let due = due.saturating_add(by);
        // Late completions come out of order; among equal times the request that was taken first
        // stays first, as in the queue without faults.
        let at = self.done.partition_point(|&(before, ..)| before <= due);
        self.done.insert(at, (due, io, ticket));
    }

    /// Returns the completion time of a request that is taken now.
    fn begin(&mut self, now: u64, gap_ps: u64) -> u64 {
        // The gap bounds the rate, the latency does not: requests overlap in the device, so that
        // only their beginnings are kept apart.
        let begun = self.free.max(now);
        // Thousands of requests may wait for a slow device: their ends are past any run then.
        self.free = begun.saturating_add(gap_ps);
        begun.saturating_add(self.latency_ps)
    }

    /// Returns the time of the next completion.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.done.front().map_or(u64::MAX, |&(due, ..)| due)
    }

    /// One is done: which, and its ticket.
    pub fn pop(&mut self) -> Option<(u32, u32)> {
        self.done.pop_front().map(|(_, io, ticket)| (io, ticket))
    }

    /// Returns the number of outstanding requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Returns whether no request is outstanding.
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
    // The slower of two limits: small requests meet the rate of commands, large ones that of
    // bytes.
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
