//! Memory that takes its time, as a device does.

use std::io;

use halfwink_engine::draw::exponential;
use halfwink_engine::{stream, Stream};

use super::device::{Backend, Extent, Window};
use super::ram::Ram;

/// assumption: of a device's latency three quarters are always the same, and the rest is drawn from
/// an exponential distribution.
const CONSTANT: f64 = 0.75;

/// Distribution of the latencies of I/Os.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Mean latency, in nanoseconds.
    pub mean_ns: f64,
    /// Seed of the draws.
    pub seed: u64,
}

/// Draws of one who hears the device.
#[derive(Debug)]
pub(crate) struct Draws {
    delay: Delay,
    random: Stream,
}

impl Delay {
    /// Returns the draws of a worker; they are the same for the same seed.
    pub(crate) fn draws(self, worker: u16) -> Draws {
        Draws { delay: self, random: stream(self.seed, &format!("device {worker}")) }
    }
}

impl Draws {
    /// Nanoseconds of the next I/O.
    pub(crate) fn next_ns(&mut self) -> u64 {
        let tail = (1.0 - CONSTANT) * exponential(&mut self.random);
        (self.delay.mean_ns * (CONSTANT + tail)) as u64
    }
}

/// A device of memory with a latency. It does everything at once, and any number of I/Os side by
/// side; only that it is done is heard later.
#[derive(Debug)]
pub struct Modelled {
    ram: Ram,
    delay: Delay,
}

impl Modelled {
    /// Creates a device of `size` bytes with this latency.
    ///
    /// # Errors
    /// There is no room for them in the process.
    pub fn new(size: u64, delay: Delay) -> io::Result<Modelled> {
        Ok(Modelled { ram: Ram::new(size)?, delay })
    }
}

impl Backend for Modelled {
    fn size(&self) -> u64 {
        self.ram.size()
    }

    fn window(&self) -> Option<Window> {
        self.ram.window()
    }

    fn delay(&self) -> Option<Delay> {
        Some(self.delay)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.ram.read(offset, into)
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.ram.write(offset, from)
    }

    fn zero(&self, offset: u64, length: u64, keep: bool, fast: bool) -> io::Result<()> {
        self.ram.zero(offset, length, keep, fast)
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.ram.trim(offset, length)
    }

    fn extents(&self, range: (u64, u64), most: usize, into: &mut Vec<Extent>) -> io::Result<()> {
        self.ram.extents(range, most, into)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_their_mean_and_repeat() {
        let delay = Delay { mean_ns: 80_000.0, seed: 3 };
        let draw = |worker| {
            let mut draws = delay.draws(worker);
            (0..20_000).map(|_| draws.next_ns()).collect::<Vec<_>>()
        };
        let first = draw(0);
        assert_eq!(first, draw(0));
        assert_ne!(first, draw(1));
        let mean = first.iter().sum::<u64>() as f64 / first.len() as f64;
        assert!((mean / 80_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!(first.iter().all(|&ns| ns >= 60_000));
    }
}
