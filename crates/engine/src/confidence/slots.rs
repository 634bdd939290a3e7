use std::collections::BTreeMap;

use halfwink_units::{LogScale, Time};

use super::{student, Estimate, Goal, Piece, Precision};
use crate::LogCounts;

/// Energy and latencies of one slice of a run.
#[derive(Clone, Debug)]
struct Slice {
    seconds: f64,
    energy_j: f64,
    /// Seconds of all latencies together, and how many.
    latency_s: f64,
    done: u64,
    /// Latencies by the bucket of their nanoseconds: few of all that there are.
    counts: Vec<(u32, u64)>,
}

/// Precision of the mean latency, its 99th percentile and the power of a run under a load profile:
/// slots of the profile, each cut into slices.
///
/// The estimate is the mean *under this profile*. The difference between slots is therefore no
/// uncertainty, and batch means over all of them would be far too wide. Here each slot is a
/// stratum: only the variance of slices within their slot counts (stratified sampling with a ratio
/// estimator; Cochran, "Sampling Techniques", 1977, Secs 5.6 and 6.10). Correlation between
/// neighbouring slices of a slot widens intervals as it does those of batches. A run of one slot is
/// a run of one load.
///
/// `FINE` is the resolution of the histograms of latencies.
#[derive(Clone, Debug, Default)]
pub struct Slots<const FINE: u32> {
    slots: Vec<Vec<Slice>>,
    open: Vec<Slice>,
}

impl<const FINE: u32> Slots<FINE> {
    /// Into how many slices to cut each of so many slots: 8, and more if there are few slots.
    #[must_use]
    pub fn slices(slots: usize) -> usize {
        64_usize.div_ceil(slots.max(1)).max(8)
    }

    /// A slice has ended: how long it was, joules that it took, and latencies of what left, in
    /// nanoseconds, with their sum.
    pub fn slice(&mut self, span: Time, energy_j: f64, latency: Time, counts: &LogCounts<FINE>) {
        let filled = counts.buckets();
        self.open.push(Slice {
            seconds: span.as_s(),
            energy_j,
            latency_s: latency.as_s(),
            done: counts.total(),
            counts: filled
                .map(|(low, _, count)| (LogScale::<FINE>::bucket(low) as u32, count))
                .collect(),
        });
    }

    /// A slot has ended with its last slice.
    pub fn end_slot(&mut self) {
        self.slots.push(std::mem::take(&mut self.open));
    }

    /// Returns the precision over the slots that have ended.
    #[must_use]
    pub fn precision(&self) -> Precision {
        Precision {
            mean_s: self.ratio(|slice| (slice.latency_s, slice.done as f64)),
            p99_s: self.quantile(0.99),
            power_w: self.ratio(|slice| (slice.energy_j, slice.seconds)),
            reached: false,
        }
    }

    /// The slices in their order, to compare with those of another run of the same plan.
    #[must_use]
    pub fn pieces(&self) -> Vec<Piece> {
        let of_slot = |(n, slot): (usize, &Vec<Slice>)| {
            let piece = |slice: &Slice| Piece {
                stratum: n as u32,
                work: slice.done,
                seconds: slice.seconds,
                energy_j: slice.energy_j,
            };
            slot.iter().map(piece).collect::<Vec<_>>()
        };
        self.slots.iter().enumerate().flat_map(of_slot).collect()
    }

    fn done(&self) -> u64 {
        self.slots.iter().flatten().map(|slice| slice.done).sum()
    }

    /// A ratio of two sums over all slices.
    fn ratio(&self, of: impl Fn(&Slice) -> (f64, f64)) -> Estimate {
        let slots: Vec<Vec<(f64, f64)>> =
            self.slots.iter().map(|slot| slot.iter().map(&of).collect()).collect();
        let all = slots.iter().flatten().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        Estimate { mean: all.0 / all.1, half_width: half_width(&slots), samples: self.done() }
    }

    /// A quantile of all latencies, in seconds: the share of those below it in each slice says how
    /// well that share is known, and the quantiles at both ends of its interval are the ends of
    /// the quantile's.
    fn quantile(&self, share: f64) -> Estimate {
        let mut all: BTreeMap<u32, u64> = BTreeMap::new();
        for &(bucket, count) in self.slots.iter().flatten().flat_map(|slice| &slice.counts) {
            *all.entry(bucket).or_default() += count;
        }
        let samples = self.done();
        let at = |share: f64| -> f64 {
            let wanted = share * samples as f64;
            let mut below = 0.0;
            for (&bucket, &count) in &all {
                let (low, width) = limits::<FINE>(bucket);
                if below + count as f64 >= wanted {
                    return low + width * ((wanted - below) / count as f64).clamp(0.0, 1.0);
                }
                below += count as f64;
            }
            f64::NAN
        };
        let found = at(share);
        let below = |slice: &Slice| -> f64 {
            let part = |&(bucket, count): &(u32, u64)| {
                let (low, width) = limits::<FINE>(bucket);
                count as f64 * ((found - low) / width).clamp(0.0, 1.0)
            };
            slice.counts.iter().map(part).sum()
        };
        let known = self.ratio(|slice| (below(slice), slice.done as f64)).half_width;
        let (low, high) = (share - known, share + known);
        let mut half_width = f64::INFINITY;
        if low > 0.0 && high < 1.0 {
            half_width = (at(high) - found).max(found - at(low)) * 1e-9;
        }
        Estimate { mean: found * 1e-9, half_width, samples }
    }
}

/// The least number of a bucket, and how many it has.
fn limits<const FINE: u32>(bucket: u32) -> (f64, f64) {
    let (low, high) =
        (LogScale::<FINE>::lowest(bucket as usize), LogScale::<FINE>::highest(bucket as usize));
    (low as f64, (high - low) as f64 + 1.0)
}

/// Half width of the ratio of two sums over slices in slots; infinite with too few.
fn half_width(slots: &[Vec<(f64, f64)>]) -> f64 {
    let (mut squares, mut products, mut plain, mut freedom, mut all) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for slot in slots.iter().filter(|slot| slot.len() > 1) {
        let count = slot.len() as f64;
        let (sum, samples) = slot.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        all += samples;
        if samples <= 0.0 {
            continue;
        }
        let rest: Vec<f64> = slot.iter().map(|(y, x)| y - sum / samples * x).collect();
        let square: f64 = rest.iter().map(|r| r * r).sum();
        squares += square * count / (count - 1.0);
        plain += square;
        // Residuals of a slot add up to nothing, so neighbours seem to differ by 1 / count more
        // than they do.
        products += rest.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() + square / count;
        freedom += count - 1.0;
    }
    if freedom < 7.0 || all <= 0.0 {
        return f64::INFINITY;
    }
    let r = if plain > 0.0 { (products / plain).clamp(0.0, 0.99) } else { 0.0 };
    let error = squares.sqrt() / all * ((1.0 + r) / (1.0 - r)).sqrt();
    student(Goal::NONE.confidence, freedom) * error
}
