//! The log of misses that Jukebox's hardware writes: regions of code, in the order in which they
//! first missed, each with the lines that did (Schall 2022).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Lines of a region: 1 KiB.
pub const LINES: u64 = 16;
/// Regions that are collected at once before the oldest is written (assumption: Schall 2022 has a
/// small FIFO; its size is taken as 16).
pub const COLLECTED: usize = 16;
/// Bytes of a written region: its number, and a bit for each line; 54 bits in hardware.
const BITS: usize = 54;

/// A region of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Number of the region: that of its first line / [`LINES`].
    pub number: u64,
    /// Bit n: its line n missed.
    pub missed: u16,
}

impl Region {
    /// Numbers of the lines that missed, ascending.
    pub fn lines(self) -> impl Iterator<Item = u64> {
        let missed = move |&n: &u64| self.missed >> n & 1 == 1;
        (0..LINES).filter(missed).map(move |n| self.number * LINES + n)
    }
}

/// A log with room for so many bytes. Allocates nothing after construction.
#[derive(Clone, Debug)]
pub struct RegionLog {
    collected: VecDeque<Region>,
    written: Vec<Region>,
    room: usize,
    dropped: u64,
}

impl RegionLog {
    /// Bytes of a recording: of the 32 KB of a function, half are being replayed (Schall 2022).
    pub const BYTES: usize = 16 << 10;

    /// Creates an empty log.
    #[must_use]
    pub fn new(bytes: usize) -> RegionLog {
        let room = bytes * 8 / BITS;
        RegionLog {
            collected: VecDeque::with_capacity(COLLECTED),
            written: Vec::with_capacity(room),
            room,
            dropped: 0,
        }
    }

    /// Records the miss of a line.
    pub fn miss(&mut self, line: u64) {
        let (number, missed) = (line / LINES, 1 << (line % LINES));
        if let Some(region) = self.collected.iter_mut().find(|region| region.number == number) {
            region.missed |= missed;
            return;
        }
        if self.collected.len() == COLLECTED {
            self.write();
        }
        self.collected.push_back(Region { number, missed });
    }

    /// The recording is over: all that was collected is written.
    pub fn finish(&mut self) -> &[Region] {
        while !self.collected.is_empty() {
            self.write();
        }
        &self.written
    }

    /// Clears the log.
    pub fn clear(&mut self) {
        self.collected.clear();
        self.written.clear();
        self.dropped = 0;
    }

    /// Regions that there was no room for.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn write(&mut self) {
        let Some(oldest) = self.collected.pop_front() else { return };
        if self.written.len() < self.room {
            self.written.push(oldest);
        } else {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_in_the_order_of_their_first_misses() {
        let mut log = RegionLog::new(RegionLog::BYTES);
        // Regions 5, 0, 5 again, and 15 others: as 5 is the oldest of 17, it is written.
        [80, 3, 82, 80].into_iter().for_each(|line| log.miss(line));
        (100..115).for_each(|region| log.miss(region * LINES));
        log.miss(95);
        let written = log.finish();
        let numbers: Vec<u64> = written.iter().map(|region| region.number).collect();
        assert_eq!(numbers[..3], [5, 0, 100]);
        // Its last miss came too late for the entry: it has another.
        assert_eq!((numbers.len(), numbers.last()), (18, Some(&5)));
        assert_eq!(written[0].lines().collect::<Vec<_>>(), [80, 82]);
        assert_eq!(written[17].lines().collect::<Vec<_>>(), [95]);
        log.clear();
        assert!(log.finish().is_empty());
    }

    #[test]
    fn a_full_log_drops_the_rest() {
        // 2427 entries of 54 bits in 16 KiB.
        let mut log = RegionLog::new(RegionLog::BYTES);
        (0..2_430).for_each(|region| log.miss(region * LINES));
        assert_eq!(log.finish().len(), 2_427);
        assert_eq!(log.dropped(), 3);
    }
}
