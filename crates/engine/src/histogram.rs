use halfwink_units::Time;
use hdrhistogram::Histogram as Hdr;

/// Times, counted in buckets of 0.8 % width, with exact count, sum and extremes.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Hdr<u64>,
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
    /// How many.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        // Two significant digits up to the end of time: at most 15,000 counters, grown on demand.
        let mut buckets = Hdr::new(2).expect("two significant digits are allowed");
        buckets.auto(true);
        Histogram { buckets, sum: 0, min: Time::NEVER, max: Time::ZERO }
    }
}

impl Histogram {
    /// Counts one time.
    pub fn record(&mut self, time: Time) {
        self.buckets.record(time.0).expect("the histogram grows to any value");
        self.sum += u128::from(time.0);
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Histogram) {
        self.buckets.add(&other.buckets).expect("the histogram grows to any value");
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many times were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Sum of all.
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
        let value = Time(self.buckets.value_at_quantile(quantile));
        (self.count() > 0).then(|| value.clamp(self.min, self.max))
    }

    /// The longest time of each bucket, and how many are in it; empty buckets left out.
    pub fn counts(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        let time = |value: u64| Time(value).clamp(self.min, self.max);
        self.buckets.iter_recorded().map(move |v| (time(v.value_iterated_to()), v.count_at_value()))
    }

    /// Counts between `steps` limits per factor of two, for plots; empty buckets left out.
    #[must_use]
    pub fn log_buckets(&self, steps: u32) -> Vec<Bucket> {
        let mut out: Vec<Bucket> = Vec::new();
        for value in self.buckets.iter_recorded() {
            let at = value.value_iterated_to().max(1) as f64;
            let index = (at.log2() * f64::from(steps)).floor();
            let limit = |i: f64| Time((i / f64::from(steps)).exp2().ceil() as u64);
            let (from, to) = (limit(index), limit(index + 1.0));
            match out.last_mut() {
                Some(last) if last.from == from => last.count += value.count_at_value(),
                _ => out.push(Bucket { from, to, count: value.count_at_value() }),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn nothing_has_no_mean() {
        let empty = Histogram::default();
        assert_eq!((empty.mean(), empty.max(), empty.quantile(0.99)), (None, None, None));
    }
}
