//! What points say: steps, knees, jumps. Nothing here measures.

use serde::Serialize;

/// Summary of repeated measurements of one quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The minimum, or the quantile that was asked for.
    pub value: f64,
    /// Largest excess of the value over a quarter of the runs above this one, in percent: the error
    /// of a repetition.
    pub spread_pct: f64,
    /// Number of runs that counted.
    pub runs: usize,
}

impl Measured {
    /// Summarises samples of a time, in the order in which they were taken; returns none without
    /// samples. `quantile` 0 is the minimum.
    #[must_use]
    pub fn of(samples: &[f64], quantile: f64) -> Option<Measured> {
        let value = quantile_of(samples, quantile)?;
        // Each quarter is a repetition: what disturbs a machine for a while disturbs one of them.
        let quarters = samples.chunks(samples.len().div_ceil(4).max(1));
        let worst = quarters.filter_map(|q| quantile_of(q, quantile)).fold(value, f64::max);
        Some(Measured { value, spread_pct: 100.0 * (worst / value - 1.0), runs: samples.len() })
    }

    /// Converts to another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Measured {
        Measured { value: self.value * factor, ..self }
    }

    /// A rate from the time of one.
    #[must_use]
    pub fn inverse(self, amount: f64) -> Measured {
        Measured { value: amount / self.value, ..self }
    }
}

fn quantile_of(samples: &[f64], quantile: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|t| t.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get((quantile * sorted.len().saturating_sub(1) as f64).round() as usize).copied()
}

/// A stretch of points at one height.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// First and last place.
    pub from: f64,
    /// Last place of the level.
    pub until: f64,
    /// Median of the heights.
    pub value: f64,
    /// Number of points.
    pub points: usize,
}

/// Decrease of the squared errors of logarithms that a further step must bring to be accepted:
/// steps of 30 % on two points and noise of 3 % are an order of magnitude to both sides of it.
const STEP_PENALTY: f64 = 0.05;

/// Cuts points into stretches of one height each: least squares of the logarithms, with a penalty
/// for each stretch (optimal partitioning: Jackson et al., IEEE Signal Processing Letters 2005).
///
/// Heights must be above 0. Points must come by rising place.
#[must_use]
pub fn levels(points: &[(f64, f64)]) -> Vec<Level> {
    let logs: Vec<f64> = points.iter().map(|&(_, t)| t.max(f64::MIN_POSITIVE).ln()).collect();
    let sums = |power: i32| -> Vec<f64> {
        let mut total = 0.0;
        std::iter::once(0.0)
            .chain(logs.iter().map(|t| {
                total += t.powi(power);
                total
            }))
            .collect()
    };
    let (one, two) = (sums(1), sums(2));
    let cost = |from: usize, to: usize| {
        let n = (to - from) as f64;
        let sum = one[to] - one[from];
        (two[to] - two[from] - sum * sum / n).max(0.0)
    };
    let mut best = vec![(0.0, 0usize)];
    for to in 1..=logs.len() {
        let all = (0..to).map(|from| (best[from].0 + cost(from, to) + STEP_PENALTY, from));
        best.push(all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default());
    }
    let mut found = Vec::new();
    let mut to = logs.len();
    while to > 0 {
        let from = best[to].1;
        let mut heights: Vec<f64> = points[from..to].iter().map(|p| p.1).collect();
        heights.sort_by(f64::total_cmp);
        found.push(Level {
            from: points[from].0,
            until: points[to - 1].0,
            value: heights[heights.len() / 2],
            points: to - from,
        });
        to = from;
    }
    found.reverse();
    found
}

/// Levels that are plateaus, and not points on the way from one to the next.
#[must_use]
pub fn plateaus(points: &[(f64, f64)], least: usize) -> Vec<Level> {
    levels(points).into_iter().filter(|level| level.points >= least).collect()
}

/// Returns the place at which a curve rises past a height: between the two points around it, by
/// logarithms of the places. None if it does not.
#[must_use]
pub fn crossing(points: &[(f64, f64)], height: f64) -> Option<f64> {
    // From behind: a disturbed point in front is no crossing.
    let below = points.iter().rposition(|p| p.1 < height)?;
    let (a, b) = (points.get(below)?, points.get(below + 1)?);
    let share = (height / a.1).ln() / (b.1 / a.1).ln();
    Some(a.0 * (b.0 / a.0).powf(share.clamp(0.0, 1.0)))
}

/// Returns the capacity of a cache: the place at which a ladder is halfway, by logarithms, from its
/// latency to that of the level behind. This also holds for caches with random replacement, which
/// begin to miss before they are full and still hit when they overflow.
#[must_use]
pub fn capacity(points: &[(f64, f64)], inside: f64, behind: f64) -> Option<f64> {
    (behind > inside).then(|| crossing(points, (inside * behind).sqrt())).flatten()
}

/// Returns the place at which a curve of two misses goes from the time of one to the time of two:
/// halfway between the times, and between the two points around it. None if it never does.
///
/// For Wong's method (Wong, "Measuring Reorder Buffer Capacity", 2013): below a queue's size two
/// misses overlap, above it they do not. The operations between them take less than half of a miss
/// themselves.
#[must_use]
pub fn jump(points: &[(f64, f64)]) -> Option<f64> {
    let mut low: Vec<f64> = points.iter().take(3).map(|p| p.1).collect();
    low.sort_by(f64::total_cmp);
    let middle = 1.5 * low.get(low.len() / 2)?;
    // From behind, so that one disturbed point in front decides nothing.
    let last_low = points.iter().rposition(|p| p.1 < middle)?;
    let (a, b) = (points.get(last_low)?, points.get(last_low + 1)?);
    Some(a.0 + (b.0 - a.0) * (middle - a.1) / (b.1 - a.1))
}

/// Returns the number of simultaneous operations: the largest `latency / time of each` over all
/// trials (Little's law), where the time of each no longer falls.
#[must_use]
pub fn parallelism(latency: f64, each: &[(f64, f64)]) -> Option<f64> {
    let least = each.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    (least.is_finite() && least > 0.0).then(|| latency / least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Random;
    use proptest::prelude::*;

    /// Sizes by quarters of an octave, and the times of caches that keep what fits, with noise.
    fn ladder(steps: &[(f64, f64)], noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        (0..64)
            .map(|n| {
                let size = 4096.0 * 2f64.powf(f64::from(n) / 4.0);
                let height = steps.iter().find(|s| size <= s.0).map_or(400.0, |s| s.1);
                let unit = random.below(10_001) as f64 / 10_000.0;
                (size, height * (1.0 + noise * (2.0 * unit - 1.0)))
            })
            .collect()
    }

    proptest! {
        #[test]
        fn steps_are_found_in_noise(
            seed in 0u64..1000,
            l1 in 2u32..5,
            l2 in 7u32..9,
            l3 in 11u32..14,
            noise in 0.0f64..0.06,
        ) {
            // 4 KB << n
            let at = |n: u32| 4096.0 * f64::from(1u32 << n);
            let steps = [(at(l1), 4.0), (at(l2), 14.0), (at(l3), 50.0)];
            let found = plateaus(&ladder(&steps, noise, seed), 3);
            prop_assert_eq!(found.len(), 4, "{:?}", found);
            for (level, step) in found.iter().zip(steps) {
                prop_assert!((level.until / step.0 - 1.0).abs() < 1e-9, "{:?} {:?}", level, step);
                prop_assert!((level.value / step.1 - 1.0).abs() < noise + 1e-9);
            }
        }
    }

    #[test]
    fn noise_alone_is_no_step() {
        let flat: Vec<(f64, f64)> = ladder(&[(f64::INFINITY, 10.0)], 0.08, 5);
        assert_eq!(plateaus(&flat, 3).len(), 1);
    }

    #[test]
    fn a_slope_between_two_levels_is_none_of_them() {
        let mut points = ladder(&[(65_536.0, 4.0), (f64::INFINITY, 40.0)], 0.0, 1);
        let edge = points.iter().position(|p| p.1 == 40.0).unwrap();
        points[edge].1 = 12.0;
        let found = plateaus(&points, 3);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].until, found[1].from), (65_536.0, points[edge + 1].0));
    }

    #[test]
    fn a_capacity_is_halfway_up_a_slope() {
        // Replacement at random: a share of (1 - C / s) misses, from 4 to 64 ns; halfway, at 16 ns,
        // a fifth of the loads misses.
        let points: Vec<(f64, f64)> = (0..64)
            .map(|n| 4096.0 * 2f64.powf(f64::from(n) / 4.0))
            .map(|s| (s, 4.0 + 60.0 * (1.0 - 262_144.0 / s).max(0.0)))
            .collect();
        let found = capacity(&points, 4.0, 64.0).unwrap();
        assert!((found / (262_144.0 * 1.25) - 1.0).abs() < 0.05, "{found}");
        // A sharp edge lies between its two points.
        let sharp = ladder(&[(65_536.0, 4.0), (f64::INFINITY, 40.0)], 0.0, 1);
        let found = capacity(&sharp, 4.0, 40.0).unwrap();
        assert!((65_536.0..65_536.0 * 1.2).contains(&found), "{found}");
        assert_eq!(capacity(&sharp, 40.0, 400.0), None);
    }

    #[test]
    fn a_jump_is_where_two_misses_no_longer_overlap() {
        // A window of 224 entries, tried in steps of 8: one latency, then two.
        let points: Vec<(f64, f64)> = (0..60)
            .map(|n| f64::from(n) * 8.0)
            .map(|n| (n, if n < 224.0 { 1.0 } else { 2.0 }))
            .collect();
        assert_eq!(jump(&points), Some(220.0));
        assert_eq!(jump(&points[..20]), None);
        let mut disturbed = points;
        disturbed[4].1 = 1.9;
        assert_eq!(jump(&disturbed), Some(220.0));
    }

    #[test]
    fn misses_in_flight_by_littles_law() {
        let each: Vec<(f64, f64)> =
            (1..40).map(|n| (f64::from(n), 100.0 / f64::from(n.min(16)))).collect();
        assert_eq!(parallelism(100.0, &each), Some(16.0));
    }

    #[test]
    fn what_is_measured_has_its_spread() {
        // The last of four repetitions is 25 % slower throughout.
        let mut samples: Vec<f64> = (0..100).map(|n| 10.0 + f64::from(n % 7)).collect();
        samples[75..].iter_mut().for_each(|t| *t *= 1.25);
        let found = Measured::of(&samples, 0.0).unwrap();
        assert_eq!((found.value, found.runs), (10.0, 100));
        assert!((found.spread_pct - 25.0).abs() < 1e-9);
        assert_eq!(Measured::of(&samples[..70], 0.5).unwrap().value, 13.0);
        assert_eq!(Measured::of(&[], 0.0), None);
    }
}
