//! NAPI whose idle state Linux' menu governor chooses.
//!
//! Follows `drivers/cpuidle/governors/menu.c` of Linux 6.x: the expected rest is the mean of the
//! last eight, if they are alike, with outliers above left out; else the time to the next timer
//! times a factor learnt for its order of magnitude. The deepest state whose residency and exit
//! latency fit into it is chosen.

use halfwink_units::Time;

use super::apart::Apart;
use super::cpuidle::{Governed, Governor, IdleParameters, Rested};

const INTERVALS: usize = 8;
/// Orders of magnitude, from below 10 us to above 100 ms.
const BUCKETS: usize = 6;
const RESOLUTION: u64 = 1_024;
const DECAY: u64 = 8;
/// Longer rests count as foreseen.
const MAX_INTERESTING_NS: u64 = 50_000_000;
/// `RESIDENCY_THRESHOLD_NS`: shorter expectations need no look at timers.
const THRESHOLD_NS: u64 = 15_000;

/// NAPI with this governor.
pub type Menu = Apart<Governed<MenuCore>>;

/// State of the governor for one core.
#[derive(Clone, Copy, Debug)]
pub struct MenuCore {
    recent: Recent,
    factors: [u64; BUCKETS],
    bucket: usize,
    timer_ns: u64,
}

impl Governor for MenuCore {
    fn new() -> MenuCore {
        MenuCore {
            recent: Recent::default(),
            factors: [RESOLUTION * DECAY; BUCKETS],
            bucket: 0,
            timer_ns: IdleParameters::NO_TIMER.0 / 1_000,
        }
    }

    /// Implements `menu_update`.
    fn learn(&mut self, rested: Rested, p: &IdleParameters) {
        let exit = p.states[rested.state].exit_ns();
        let measured = match rested.ns {
            _ if rested.by_tick && self.timer_ns > p.tick_ns() => 9 * MAX_INTERESTING_NS / 10,
            ns if ns > 2 * exit => ns - exit,
            ns => ns / 2,
        };
        let measured = measured.min(self.timer_ns);
        let factor = &mut self.factors[self.bucket];
        *factor -= *factor / DECAY;
        *factor += if self.timer_ns > 0 && measured < MAX_INTERESTING_NS {
            RESOLUTION * measured / self.timer_ns
        } else {
            RESOLUTION
        };
        self.recent.push(measured / 1_000);
    }

    /// `menu_select`: the state, and whether the tick goes on.
    fn choose(&mut self, now: Time, p: &IdleParameters) -> (usize, bool) {
        let mut expected = self.recent.typical_us().map_or(u64::MAX, |us| 1_000 * us);
        let until_tick = if expected > THRESHOLD_NS {
            self.timer_ns = p.timer_ns();
            self.bucket = bucket(self.timer_ns);
            let scale = RESOLUTION * DECAY * 1_000;
            let timer_us = (scale / 2 + self.timer_ns * self.factors[self.bucket]) / scale;
            expected = expected.min(1_000 * timer_us);
            p.until_tick_ns(now)
        } else {
            self.timer_ns = u64::MAX;
            self.bucket = BUCKETS - 1;
            p.tick_ns() / 2
        };
        let longest_exit = expected;
        let mut state = 0;
        for (n, s) in p.states.iter().enumerate() {
            if s.residency_ns() > expected {
                // A state of the hardware, and not polling, unless a timer is about to ring.
                if p.states[state].polls && s.residency_ns() <= self.timer_ns {
                    (expected, state) = (s.residency_ns(), n);
                    break;
                }
                // Too shallow by this guess, but the tick would wake it to guess again.
                if expected >= p.tick_ns() {
                    expected = p.states[state].residency_ns();
                }
                break;
            }
            if s.exit_ns() > longest_exit {
                break;
            }
            state = n;
        }
        let tick = expected < p.tick_ns();
        if tick && state > 0 && p.states[state].residency_ns() > until_tick {
            state = p.shallower(state, until_tick);
        }
        (state, tick)
    }
}

fn bucket(ns: u64) -> usize {
    [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000].iter().filter(|&&up| ns >= up).count()
}

/// Recent intervals, in microseconds, with the sums that their mean and variance need.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    us: [u64; INTERVALS],
    at: usize,
    sum: u64,
    /// Sum of squares, which may wrap; what wraps on the way wraps back.
    squares: u64,
}

impl Recent {
    /// Replaces the oldest interval.
    fn push(&mut self, us: u64) {
        let old = core::mem::replace(&mut self.us[self.at], us);
        self.sum = self.sum - old + us;
        let square = |us: u64| us.wrapping_mul(us);
        self.squares = self.squares.wrapping_sub(square(old)).wrapping_add(square(us));
        self.at = (self.at + 1) % INTERVALS;
    }

    /// `get_typical_interval`: the mean of intervals that are alike, in microseconds.
    fn typical_us(&self) -> Option<u64> {
        let (mut count, mut sum, mut squares) = (INTERVALS as u64, self.sum, self.squares);
        let mut limit = u64::MAX;
        // The first round has all eight, and by eight is divided without a division.
        let per = |sum: u64, count: u64| match count {
            8 => sum / 8,
            _ => sum / count,
        };
        while sum > 0 {
            let mean = per(sum, count);
            let about = count.wrapping_mul(mean).wrapping_sub(sum.wrapping_mul(2));
            let variance = per(squares.wrapping_add(about.wrapping_mul(mean)), count);
            let most = 4 * count >= 3 * INTERVALS as u64;
            if (mean * mean > 36 * variance && most) || variance <= 400 {
                return Some(mean);
            }
            if 4 * count <= 3 * INTERVALS as u64 {
                return None;
            }
            // Without jumps: which of them is the longest is as good as random.
            let kept = self.us.map(|us| if us <= limit { us } else { 0 });
            let pairs = [0, 2, 4, 6].map(|n| kept[n].max(kept[n + 1]));
            let longest = pairs[0].max(pairs[1]).max(pairs[2].max(pairs[3]));
            let times: u64 = kept.iter().map(|&us| u64::from(us == longest)).sum();
            count -= times;
            sum -= times * longest;
            squares = squares.wrapping_sub(times.wrapping_mul(longest.wrapping_mul(longest)));
            limit = longest - 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance as they are defined, one pass for each.
    fn as_defined(intervals: &[u64; INTERVALS]) -> Option<u64> {
        let mut limit = u64::MAX;
        loop {
            let kept = || intervals.iter().filter(move |&&us| us <= limit);
            let count = kept().count() as u64;
            let longest = kept().copied().max().filter(|&us| us > 0)?;
            let mean = kept().sum::<u64>() / count;
            let variance = kept().map(|&us| us.abs_diff(mean).pow(2)).sum::<u64>() / count;
            let most = 4 * count >= 3 * INTERVALS as u64;
            if (mean * mean > 36 * variance && most) || variance <= 400 {
                return Some(mean);
            }
            if 4 * count <= 3 * INTERVALS as u64 {
                return None;
            }
            limit = longest - 1;
        }
    }

    fn typical_us(intervals: &[u64; INTERVALS]) -> Option<u64> {
        let mut recent = Recent::default();
        intervals.iter().for_each(|&us| recent.push(us));
        recent.typical_us()
    }

    #[test]
    fn typical_intervals_by_sums_are_those_of_the_definition() {
        let (mut number, mut found, mut recent) = (1_u64, 0, Recent::default());
        for n in 0..200_000_u64 {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // Alike, alike but for some, or over all orders of magnitude.
            recent.push(match n / 16 % 4 {
                0 => (number >> 33) % 60,
                1 => 1_000 + (number >> 33) % (1 << (n / 64 % 11)),
                2 if number >> 62 > 0 => 100 + (number >> 33) % 30,
                _ => number >> (40 + number % 24),
            });
            let expected = as_defined(&recent.us);
            assert_eq!(recent.typical_us(), expected, "{recent:?}");
            found += u32::from(expected.is_some());
        }
        assert!((20_000..180_000).contains(&found), "{found} of 200,000 are alike");
    }

    #[test]
    fn typical_intervals_by_hand() {
        assert_eq!(typical_us(&[100; 8]), Some(100));
        // Two outliers above are left out; three are too many.
        assert_eq!(typical_us(&[100, 100, 100, 100, 100, 100, 9_000, 9_000]), Some(100));
        assert_eq!(typical_us(&[100, 900, 100, 100, 500, 100, 9_000, 9_000]), None);
        assert_eq!(typical_us(&[0; 8]), None);
        // Within 20 us of each other is alike.
        assert_eq!(typical_us(&[5, 25, 5, 25, 5, 25, 5, 25]), Some(15));
    }
}
