//! When frames are due: rates that change in lines, frames one by one or in bursts.

use halfwink_engine::draw::exponential;
use halfwink_engine::{stream, Stream};

use super::Error;

/// A stretch of time in which the rate changes in a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Length in seconds.
    pub seconds: f64,
    /// Frames per second at its start.
    pub from_pps: f64,
    /// And at its end.
    pub to_pps: f64,
}

/// Distribution of the gaps between bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Bursts at equal distances.
    Even,
    /// At random, as of many sources: exponential gaps.
    Exponential,
}

/// A list of due times.
#[derive(Clone, Debug)]
pub struct Schedule {
    segments: Vec<Segment>,
    burst: u32,
    spacing: Spacing,
    random: Stream,
    /// Segment that is being played, and seconds into it.
    at: usize,
    into: f64,
    /// Nanoseconds of all segments before.
    before_ns: f64,
    /// Frames of the burst that are still to come at `due`.
    left: u32,
    due: u64,
}

impl Schedule {
    /// Rates in the order of their segments; `burst` frames are due at once, and bursts follow each
    /// other so that the rate is kept.
    ///
    /// # Errors
    /// A rate or a length is negative or not a number, or the burst is empty.
    pub fn new(
        segments: Vec<Segment>,
        burst: u32,
        spacing: Spacing,
        seed: u64,
    ) -> Result<Schedule, Error> {
        let fits = |s: &Segment| {
            (0.0..=1e9).contains(&s.from_pps)
                && (0.0..=1e9).contains(&s.to_pps)
                && (0.0..=1e6).contains(&s.seconds)
        };
        if let Some(wrong) = segments.iter().find(|s| !fits(s)) {
            return Err(Error::input(format!(
                "{} s from {} to {} frames/s: expected times to 1e6 s and rates to 1e9/s",
                wrong.seconds, wrong.from_pps, wrong.to_pps
            )));
        }
        if burst == 0 {
            return Err(Error::input("a burst of 0 frames: expected 1 or more"));
        }
        Ok(Schedule {
            segments,
            burst,
            spacing,
            random: stream(seed, "schedule"),
            at: 0,
            into: 0.0,
            before_ns: 0.0,
            left: 0,
            due: 0,
        })
    }

    /// Length of all segments, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        (self.segments.iter().map(|s| s.seconds).sum::<f64>() * 1e9) as u64
    }

    /// Frames that the rates amount to.
    #[must_use]
    pub fn expected_frames(&self) -> f64 {
        self.segments.iter().map(|s| s.seconds * (s.from_pps + s.to_pps) / 2.0).sum()
    }

    fn advance(&mut self) -> Option<u64> {
        // The area under the rate until the next burst.
        let mut need = f64::from(self.burst)
            * match self.spacing {
                Spacing::Even => 1.0,
                Spacing::Exponential => exponential(&mut self.random),
            };
        // Evenly spaced frames stand in the middle of their share of time.
        if self.spacing == Spacing::Even && self.at == 0 && self.into == 0.0 {
            need /= 2.0;
        }
        loop {
            let segment = self.segments.get(self.at)?;
            let slope = (segment.to_pps - segment.from_pps) / segment.seconds.max(1e-12);
            let rate = segment.from_pps + slope * self.into;
            let left = segment.seconds - self.into;
            let area = (rate + slope * left / 2.0) * left;
            if area >= need && area > 0.0 {
                // rate * dt + slope * dt^2 / 2 = need, written so that a slope of 0 is no trouble.
                let root = (rate * rate + 2.0 * slope * need).max(0.0).sqrt();
                self.into += (2.0 * need / (rate + root)).min(left);
                return Some((self.before_ns + self.into * 1e9) as u64);
            }
            need -= area;
            self.before_ns += segment.seconds * 1e9;
            self.at += 1;
            self.into = 0.0;
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    /// The next frame's due time, in nanoseconds from the start.
    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.left == 0 {
            self.due = self.advance()?;
            self.left = self.burst;
        }
        self.left -= 1;
        Some(self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(seconds: f64, pps: f64) -> Segment {
        Segment { seconds, from_pps: pps, to_pps: pps }
    }

    fn times(segments: &[Segment], burst: u32, spacing: Spacing) -> Vec<u64> {
        Schedule::new(segments.to_vec(), burst, spacing, 1).unwrap().collect()
    }

    #[test]
    fn a_constant_rate_is_even() {
        let due = times(&[flat(1.0, 1000.0)], 1, Spacing::Even);
        assert_eq!(due.len(), 1000);
        assert!(due[0].abs_diff(500_000) < 10);
        assert!(due.windows(2).all(|w| (w[1] - w[0]).abs_diff(1_000_000) < 10));
    }

    #[test]
    fn bursts_keep_the_rate() {
        let due = times(&[flat(1.0, 1000.0)], 50, Spacing::Even);
        assert_eq!(due.len(), 1000);
        assert!(due.chunks(50).all(|c| c.iter().all(|&t| t == c[0])));
        assert!((due[50] - due[0]).abs_diff(50_000_000) < 10);
    }

    #[test]
    fn steps_pauses_and_ramps_have_the_area_under_their_rate() {
        let ramp = Segment { seconds: 2.0, from_pps: 0.0, to_pps: 1000.0 };
        let segments = [flat(1.0, 200.0), flat(1.0, 0.0), ramp, flat(0.5, 100.0)];
        let due = times(&segments, 1, Spacing::Even);
        let within = |from: f64, to: f64| {
            due.iter().filter(|&&t| (from..to).contains(&(t as f64 / 1e9))).count()
        };
        assert_eq!(within(0.0, 1.0), 200);
        assert_eq!(within(1.0, 2.0), 0);
        assert!(within(2.0, 3.0).abs_diff(250) <= 1);
        assert!(within(3.0, 4.0).abs_diff(750) <= 1);
        assert!(within(4.0, 4.5).abs_diff(50) <= 1);
        let all = Schedule::new(segments.to_vec(), 1, Spacing::Even, 1).unwrap();
        assert!((all.expected_frames() - due.len() as f64).abs() <= 1.0);
        assert_eq!(all.length_ns(), 4_500_000_000);
    }

    #[test]
    fn falling_ramps_end_at_zero() {
        let fall = Segment { seconds: 1.0, from_pps: 1000.0, to_pps: 0.0 };
        let due = times(&[fall], 1, Spacing::Even);
        assert!(due.len().abs_diff(500) <= 1);
        assert!(due.windows(2).all(|w| w[0] <= w[1]) && *due.last().unwrap() <= 1_000_000_000);
    }

    #[test]
    fn random_gaps_have_the_rate_and_the_spread() {
        let due = times(&[flat(10.0, 10_000.0)], 1, Spacing::Exponential);
        assert!((due.len() as f64 / 1e5 - 1.0).abs() < 0.02, "{}", due.len());
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e5).collect();
        let longer = gaps.iter().filter(|&&g| g > 1.0).count() as f64 / gaps.len() as f64;
        // e^-1 of exponential gaps are longer than their mean.
        assert!((longer - 0.368).abs() < 0.01, "{longer}");
    }

    #[test]
    fn schedule_with_bad_rates_is_refused() {
        for wrong in [flat(-1.0, 1.0), flat(1.0, -1.0), flat(f64::NAN, 1.0), flat(1.0, 2e9)] {
            assert!(Schedule::new(vec![wrong], 1, Spacing::Even, 1).is_err());
        }
        assert!(Schedule::new(vec![flat(1.0, 1.0)], 0, Spacing::Even, 1).is_err());
        assert_eq!(times(&[], 1, Spacing::Even), [0u64; 0]);
        assert_eq!(times(&[flat(1.0, 0.0)], 1, Spacing::Exponential), [0u64; 0]);
    }
}
