//! A cache line that two CPUs hand to and fro: the fastest way in which one can tell another.

use std::sync::atomic::{AtomicU32, Ordering};

/// A word with a cache line, and the next one, to itself. Odd numbers go, even ones come back.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line(AtomicU32);

/// Set in the word to make the other side end.
const END: u32 = u32::MAX;

impl Line {
    /// The other side: answers until it is told to end.
    pub fn echo(&self) {
        loop {
            let seen = self.0.load(Ordering::Acquire);
            if seen == END {
                break;
            }
            if seen & 1 == 1 {
                self.0.store(seen.wrapping_add(1), Ordering::Release);
            }
            std::hint::spin_loop();
        }
    }

    /// There and back once.
    #[inline]
    pub fn round_trip(&self) {
        let next = (self.0.load(Ordering::Relaxed) & 0x3fff_fffe) | 1;
        self.0.store(next, Ordering::Release);
        while self.0.load(Ordering::Acquire) != next + 1 {
            std::hint::spin_loop();
        }
    }

    /// Ends the other side.
    pub fn end(&self) {
        self.0.store(END, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ball_comes_back() {
        let line = Line(AtomicU32::new(0x3fff_fff0));
        std::thread::scope(|scope| {
            scope.spawn(|| line.echo());
            (0..100).for_each(|_| line.round_trip());
            line.end();
        });
        assert_eq!(line.0.load(Ordering::Relaxed), END);
    }
}
