//! Times of repetitions.

use super::{Limits, Times};
use halfwink_live::clock::Rate;

/// Ticks of each repetition, and of the trials.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    ticks: Vec<u64>,
    /// Ends of the trials in `ticks`.
    ends: Vec<usize>,
    divisor: u64,
}

impl Rounds {
    pub(super) fn new(limits: Limits) -> Rounds {
        let room = (limits.trials as usize).saturating_mul(limits.repetitions as usize);
        // Filled in advance: growing would disturb what is measured.
        Rounds { ticks: Vec::with_capacity(room.min(1 << 22)), divisor: 1, ..Rounds::default() }
    }

    pub(super) fn add(&mut self, ticks: u64) {
        self.ticks.push(ticks);
    }

    pub(super) fn end_trial(&mut self) {
        if self.ends.last().copied().unwrap_or(0) < self.ticks.len() {
            self.ends.push(self.ticks.len());
        }
    }

    /// Returns the median of each trial, in ticks, the lowest first.
    fn medians(&self) -> Vec<u64> {
        let begins = std::iter::once(&0).chain(&self.ends);
        let medians = begins.zip(&self.ends).map(|(&begin, &end)| {
            let mut trial = self.ticks[begin..end].to_vec();
            let middle = (trial.len() - 1) / 2;
            *trial.select_nth_unstable(middle).1
        });
        let mut medians: Vec<u64> = medians.collect();
        medians.sort_unstable();
        medians
    }

    /// Appends the trials of another round.
    pub(super) fn and(mut self, mut more: Rounds) -> Rounds {
        self.end_trial();
        more.end_trial();
        let begin = self.ticks.len();
        self.ends.extend(more.ends.iter().map(|end| begin + end));
        self.ticks.append(&mut more.ticks);
        self
    }

    /// Each repetition did its thing so many times.
    pub(super) fn divided(mut self, by: u64) -> Rounds {
        self.divisor = by.max(1);
        self
    }

    /// Converts to nanoseconds, less the time of reading the counter. `None` if there was no trial.
    pub(super) fn times(mut self, rate: Rate, reading: u64) -> Option<Times> {
        self.end_trial();
        let medians = self.medians();
        self.ticks.sort_unstable();
        let count = self.ticks.len();
        let scale = rate.ps(1 << 20) as f64 / f64::from(1 << 20) * 1e-3 / self.divisor as f64;
        let ns = |ticks: f64| (ticks - reading as f64).max(0.0) * scale;
        let of = |sorted: &[u64], share: f64| {
            let rank = (sorted.len() as f64 * share).ceil() as usize;
            Some(ns(*sorted.get(rank.clamp(1, sorted.len().max(1)) - 1)? as f64))
        };
        let at = |share: f64| of(&self.ticks, share);
        let p50_ns = at(0.5)?;
        let width = of(&medians, 0.9)? - of(&medians, 0.1)?;
        Some(Times {
            repetitions: count as u64,
            trials: medians.len() as u32,
            min_ns: at(0.0)?,
            p50_ns,
            p90_ns: at(0.9)?,
            p99_ns: at(0.99)?,
            max_ns: at(1.0)?,
            mean_ns: ns(self.ticks.iter().sum::<u64>() as f64 / count as f64),
            spread_pct: if width > 0.0 { 100.0 * width / p50_ns } else { 0.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_times_is_that_of_their_trials() {
        let round = |trials: [(u64, u64); 2]| {
            let mut rounds = Rounds::new(Limits { trials: 2, repetitions: 2, item_ns: 1 });
            for (a, b) in trials {
                rounds.add(a);
                rounds.add(b);
                rounds.end_trial();
            }
            rounds
        };
        // A tick of 2 ns; reading takes 10 ticks.
        let times = round([(110, 120), (130, 1_010)]).times(Rate(2_000 << 20), 10).unwrap();
        assert_eq!((times.repetitions, times.trials), (4, 2));
        let found = [times.min_ns, times.p50_ns, times.p90_ns, times.max_ns];
        assert_eq!(found, [200.0, 220.0, 2_000.0, 2_000.0]);
        // Medians of the trials: 200 and 240 ns; of all: 220 ns.
        assert_eq!((times.mean_ns, times.spread_pct), (665.0, 100.0 * 40.0 / 220.0));
        let same = round([(110, 110), (110, 110)]).and(round([(110, 110), (110, 9_000)]));
        let times = same.times(Rate(2_000 << 20), 10).unwrap();
        assert_eq!((times.trials, times.spread_pct), (4, 0.0));
        let far = round([(110, 110), (110, 110)]).and(round([(110, 110), (210, 210)]));
        let times = far.times(Rate(2_000 << 20), 10).unwrap();
        assert_eq!((times.trials, times.spread_pct), (4, 100.0));
        let none = Rounds::new(Limits { trials: 1, repetitions: 1, item_ns: 1 });
        assert!(none.times(Rate(1), 0).is_none());
    }
}
