mod counts;

use halfwink_units::Time;

pub use counts::LogCounts;

/// Times, counted in buckets of 0.8 % width, with exact count, sum and extremes.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: LogCounts<7>,
    sum: u128,
    min: Time,
    max: Time,
}

/// Part of a [`Histogram`] for a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Shortest time in the bucket.
    pub from: Time,
    /// The next bucket's shortest time.
    pub to: Time,
    /// Number of values in the bucket.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: LogCounts::default(), sum: 0, min: Time::NEVER, max: Time::ZERO }
    }
}

impl Histogram {
    /// Adds a time to its bucket.
    #[inline]
    pub fn record(&mut self, time: Time) {
        self.counts.record(time.0);
        self.sum += u128::from(time.0);
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.add(&other.counts);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the counts, of picoseconds.
    #[must_use]
    pub fn picoseconds(&self) -> &LogCounts<7> {
        &self.counts
    }

    /// Returns the number of times recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.total()
    }

    /// Returns the sum of all times; it saturates.
    #[must_use]
    pub fn total(&self) -> Time {
        Time(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// Mean; `None` if empty.
    #[must_use]
    pub fn mean(&self) -> Option<Time> {
        let count = u128::from(self.count());
        (count > 0).then(|| Time(((self.sum + count / 2) / count) as u64))
    }

    /// Longest; `None` if empty.
    #[must_use]
    pub fn max(&self) -> Option<Time> {
        (self.count() > 0).then_some(self.max)
    }

    /// Time that `quantile` (0..=1) of all do not exceed, within a bucket's width; `None` if empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Time> {
        let highest = self.counts.quantile(quantile)?;
        // The least of all is known, though its bucket has others above it.
        Some(if quantile == 0.0 { self.min } else { Time(highest).clamp(self.min, self.max) })
    }

    /// The longest time of each bucket, and how many are in it; empty buckets left out.
    pub fn counts(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        let time = |value: u64| Time(value).clamp(self.min, self.max);
        self.counts.buckets().map(move |(_, highest, count)| (time(highest), count))
    }

    /// Counts between `steps` limits per factor of two, for plots; empty buckets left out.
    #[must_use]
    pub fn log_buckets(&self, steps: u32) -> Vec<Bucket> {
        let mut out: Vec<Bucket> = Vec::new();
        for (_, highest, count) in self.counts.buckets() {
            let at = highest.max(1) as f64;
            let index = (at.log2() * f64::from(steps)).floor();
            let limit = |i: f64| Time((i / f64::from(steps)).exp2().ceil() as u64);
            let (from, to) = (limit(index), limit(index + 1.0));
            match out.last_mut() {
                Some(last) if last.from == from => last.count += count,
                _ => out.push(Bucket { from, to, count }),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_within_a_percent_and_the_mean_is_exact() {
        let mut histogram = Histogram::default();
        for n in 1..=1000 {
            histogram.record(Time::ns(n));
        }
        assert_eq!(histogram.mean(), Some(Time(500_500)));
        assert_eq!(histogram.max(), Some(Time::ns(1000)));
        let median = histogram.quantile(0.5).unwrap().as_ns();
        assert!((495.0..=505.0).contains(&median), "{median}");
        assert_eq!(histogram.log_buckets(4).iter().map(|b| b.count).sum::<u64>(), 1000);
        let mut below = 0;
        let half = histogram.counts().find(|(_, count)| {
            below += count;
            below >= 500
        });
        assert_eq!(half.unwrap().0, histogram.quantile(0.5).unwrap());
        assert_eq!(histogram.counts().map(|(_, count)| count).sum::<u64>(), 1000);
    }

    proptest! {
        /// Compares quantiles and buckets with those of the crate `hdrhistogram` at two digits.
        #[test]
        fn quantiles_and_buckets_are_those_of_hdrhistogram(
            times in prop::collection::vec((0..64_u32, any::<u64>()), 1..300),
            quantiles in prop::collection::vec(0.0..=1.0_f64, 20),
        ) {
            let mut theirs = hdrhistogram::Histogram::<u64>::new(2).unwrap();
            theirs.auto(true);
            let mut halves = [Histogram::default(), Histogram::default()];
            let times: Vec<u64> = times.iter().map(|(shift, bits)| bits >> 1 >> shift).collect();
            for (n, &time) in times.iter().enumerate() {
                theirs.record(time).unwrap();
                halves[n % 2].record(Time(time));
            }
            let [mut ours, other] = halves;
            ours.add(&other);
            let (min, max) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
            for quantile in quantiles.into_iter().chain([0.0, 0.5, 0.99, 1.0]) {
                let expected = theirs.value_at_quantile(quantile).clamp(min, max);
                prop_assert_eq!(ours.quantile(quantile), Some(Time(expected)));
            }
            let expected: Vec<_> = theirs
                .iter_recorded()
                .map(|v| (Time(v.value_iterated_to().clamp(min, max)), v.count_at_value()))
                .collect();
            prop_assert_eq!(ours.counts().collect::<Vec<_>>(), expected);
            // Of both halves, and exact.
            let (sum, count) = (times.iter().map(|&t| u128::from(t)).sum::<u128>(), times.len());
            prop_assert_eq!(ours.total(), Time(u64::try_from(sum).unwrap_or(u64::MAX)));
            let mean = (sum + count as u128 / 2) / count as u128;
            prop_assert_eq!(ours.mean(), Some(Time(mean as u64)));
            prop_assert_eq!((ours.count(), ours.max()), (count as u64, Some(Time(max))));
        }
    }

    #[test]
    fn a_mean_is_rounded_to_the_nearest_and_half_up() {
        let mean = |times: &[u64]| {
            let mut histogram = Histogram::default();
            times.iter().for_each(|&time| histogram.record(Time(time)));
            histogram.mean()
        };
        assert_eq!(mean(&[1, 2]), Some(Time(2)));
        assert_eq!(mean(&[1, 1, 2]), Some(Time(1)));
        assert_eq!(mean(&[1, 2, 2]), Some(Time(2)));
    }

    #[test]
    fn what_nothing_is_added_to_stays_and_the_least_is_either_ones() {
        let of = |times: &[u64]| {
            let mut histogram = Histogram::default();
            times.iter().for_each(|&time| histogram.record(Time(time)));
            histogram
        };
        let both = |mut one: Histogram, other: Histogram| {
            one.add(&other);
            (one.quantile(0.0), one.max(), one.total(), one.count())
        };
        let expected = (Some(Time(3)), Some(Time(90)), Time(98), 3);
        assert_eq!(both(of(&[3, 90]), of(&[5])), expected);
        assert_eq!(both(of(&[5]), of(&[3, 90])), expected);
        assert_eq!(both(of(&[]), of(&[3, 5, 90])), expected);
        assert_eq!(both(of(&[3, 5, 90]), of(&[])), expected);
    }

    #[test]
    fn plots_have_buckets_between_powers_of_two() {
        let mut histogram = Histogram::default();
        [0, 1, 2, 3, 4, 7, 8].iter().for_each(|&time| histogram.record(Time(time)));
        let bucket = |from, to, count| Bucket { from: Time(from), to: Time(to), count };
        let expected = [bucket(1, 2, 2), bucket(2, 4, 2), bucket(4, 8, 2), bucket(8, 16, 1)];
        assert_eq!(histogram.log_buckets(1), expected);
        // Four limits in an octave: 4, 4.76, 5.66, 6.73, 8, cut up to whole ones.
        let fours: Vec<Bucket> = histogram.log_buckets(4).into_iter().skip(3).collect();
        assert_eq!(fours, [bucket(4, 5, 1), bucket(7, 8, 1), bucket(8, 10, 1)]);
    }

    #[test]
    fn nothing_has_no_mean() {
        let empty = Histogram::default();
        assert_eq!((empty.mean(), empty.max(), empty.quantile(0.99)), (None, None, None));
    }
}
