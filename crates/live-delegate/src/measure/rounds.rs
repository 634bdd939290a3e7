//! Times of repetitions.

use super::{Limits, Times};
use halfwink_live::clock::Rate;

/// Ticks of each repetition, and of the trials.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    ticks: Vec<u64>,
    trial: (u64, u64),
    trials: u32,
    best: Option<f64>,
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
        self.trial.0 += ticks;
        self.trial.1 += 1;
    }

    pub(super) fn end_trial(&mut self) {
        let (sum, count) = std::mem::take(&mut self.trial);
        if count > 0 {
            let mean = sum as f64 / count as f64;
            self.best = Some(self.best.map_or(mean, |best| best.min(mean)));
            self.trials += 1;
        }
    }

    /// Appends the trials of another round.
    pub(super) fn and(mut self, mut more: Rounds) -> Rounds {
        self.end_trial();
        more.end_trial();
        self.ticks.append(&mut more.ticks);
        self.trials += more.trials;
        self.best = [self.best, more.best].into_iter().flatten().reduce(f64::min);
        self
    }

    /// Each repetition did its thing so many times.
    pub(super) fn divided(mut self, by: u64) -> Rounds {
        self.divisor = by.max(1);
        self
    }

    /// Converts to nanoseconds, less the time of reading the counter. `None` if there was no trial.
    pub(super) fn times(mut self, rate: Rate, reading: u64) -> Option<Times> {
        if self.trials == 0 {
            self.end_trial();
        }
        self.ticks.sort_unstable();
        let count = self.ticks.len();
        let scale = rate.ps(1 << 20) as f64 / f64::from(1 << 20) * 1e-3 / self.divisor as f64;
        let ns = |ticks: f64| (ticks - reading as f64).max(0.0) * scale;
        let at = |share: f64| {
            let rank = (count as f64 * share).ceil() as usize;
            Some(ns(*self.ticks.get(rank.clamp(1, count.max(1)) - 1)? as f64))
        };
        Some(Times {
            repetitions: count as u64,
            trials: self.trials,
            min_ns: at(0.0)?,
            p50_ns: at(0.5)?,
            p90_ns: at(0.9)?,
            p99_ns: at(0.99)?,
            max_ns: at(1.0)?,
            mean_ns: ns(self.ticks.iter().sum::<u64>() as f64 / count as f64),
            best_trial_ns: ns(self.best?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let mut rounds = Rounds::new(Limits { trials: 2, repetitions: 2, item_ns: 1 });
        for (a, b) in [(110, 120), (130, 1_010)] {
            rounds.add(a);
            rounds.add(b);
            rounds.end_trial();
        }
        // A tick of 2 ns; reading takes 10 ticks.
        let times = rounds.times(Rate(2_000 << 20), 10).unwrap();
        assert_eq!((times.repetitions, times.trials), (4, 2));
        let found = [times.min_ns, times.p50_ns, times.p90_ns, times.max_ns];
        assert_eq!(found, [200.0, 220.0, 2_000.0, 2_000.0]);
        assert_eq!((times.mean_ns, times.best_trial_ns), (665.0, 210.0));
        let none = Rounds::new(Limits { trials: 1, repetitions: 1, item_ns: 1 });
        assert!(none.times(Rate(1), 0).is_none());
    }
}
