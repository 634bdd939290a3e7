//! Intervals contain what they say they contain, as often as they say.

use halfwink_engine::confidence::{Estimate, Estimator, Goal, QuantileEstimator, Watch};
use halfwink_engine::{stream, Stream};
use halfwink_units::Time;
use rand::RngExt;

fn within(relative: f64) -> Goal {
    Goal { relative, confidence: 0.95 }
}

fn exponential(random: &mut Stream, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Times in the system of an M/M/1 queue with service times of mean 1 (Lindley's recursion), after
/// a start that is left out.
struct Queue {
    random: Stream,
    load: f64,
    wait: f64,
}

impl Queue {
    fn new(seed: u64, load: f64) -> Queue {
        let mut queue = Queue { random: stream(seed, "queue"), load, wait: 0.0 };
        for _ in 0..2_000 {
            queue.next();
        }
        queue
    }

    fn next(&mut self) -> f64 {
        let time = self.wait + exponential(&mut self.random, 1.0);
        self.wait = (time - exponential(&mut self.random, 1.0 / self.load)).max(0.0);
        time
    }
}

/// Share of 300 estimates whose interval holds `truth`.
fn coverage(truth: f64, estimate: impl Fn(u64) -> Estimate) -> f64 {
    let holds = |e: Estimate| (e.mean - truth).abs() <= e.half_width;
    (0..300).filter(|&seed| holds(estimate(seed))).count() as f64 / 300.0
}

#[test]
fn means_of_a_queue_are_within_their_half_width_as_often_as_said() {
    for load in [0.5, 0.8] {
        let covered = coverage(1.0 / (1.0 - load), |seed| {
            let mut queue = Queue::new(seed, load);
            let mut mean = Estimator::new(within(0.1));
            while !mean.is_done() {
                mean.push(queue.next());
            }
            let estimate = mean.estimate();
            assert!(estimate.relative() <= 0.1);
            estimate
        });
        // 0.95 less what stopping early costs; plain variance would give 0.3.
        assert!(covered >= 0.9, "load {load}: {covered}");
    }
}

#[test]
fn quantiles_of_a_queue_are_within_their_half_width_as_often_as_said() {
    for load in [0.3, 0.7] {
        // The time in the system is exponential.
        let covered = coverage(-(0.05_f64.ln()) / (1.0 - load), |seed| {
            let mut queue = Queue::new(seed, load);
            let mut quantile = QuantileEstimator::new(0.95, within(0.1));
            while !quantile.is_done() {
                for _ in 0..8 {
                    quantile.record(queue.next());
                }
                quantile.end_interval();
            }
            quantile.estimate()
        });
        assert!(covered >= 0.9, "load {load}: {covered}");
    }
}

#[test]
fn samples_that_depend_on_each_other_within_an_interval_do_not_mislead() {
    // All samples of an interval are the same; intervals have 1 to 99 of them.
    let covered = coverage(1.0, |seed| {
        let mut random = stream(seed, "intervals");
        let mut mean = Estimator::new(within(0.05));
        while !mean.is_done() {
            let count = random.random_range(1..100);
            mean.push_many(exponential(&mut random, 1.0) * count as f64, count);
        }
        mean.estimate()
    });
    assert!(covered >= 0.92, "{covered}");
}

#[test]
fn nothing_is_done_before_there_is_enough() {
    let mut mean = Estimator::new(within(0.05));
    let mut quantile = QuantileEstimator::new(0.5, within(0.05));
    assert!(mean.estimate().mean.is_nan() && quantile.estimate().mean.is_nan());
    for n in 1..48 {
        mean.push(1.0);
        quantile.push(1.0);
        assert!(!mean.is_done() && !quantile.is_done());
        assert_eq!(mean.estimate().half_width.is_infinite(), n < 32);
    }
    mean.push(1.0);
    assert!(mean.is_done());
    assert_eq!(mean.estimate(), Estimate { mean: 1.0, half_width: 0.0, samples: 48 });
}

#[test]
fn a_trend_is_never_done() {
    let mut mean = Estimator::new(within(0.5));
    for n in 0..100_000 {
        mean.push(f64::from(n) + 100_000.0);
        assert!(!mean.is_done(), "after {n}");
    }
}

#[test]
fn quantiles_are_found_within_a_thousandth_over_twenty_decades() {
    for scale in [1e-9, 1.0, 1e11] {
        let mut quantile = QuantileEstimator::new(0.9, within(0.01));
        for n in 0..100_000_u32 {
            quantile.push(f64::from(n.wrapping_mul(7_919) % 10_007) / 10_007.0 * scale);
        }
        let found = quantile.estimate().mean / scale;
        assert!((found - 0.9).abs() < 1e-3, "{found}");
    }
}

/// A run of given length, cut into slices: independent samples, the number of which differs from
/// slice to slice.
fn slices(seed: u64, count: u64) -> (Estimate, Estimate, Watch) {
    let mut random = stream(seed, "slices");
    let mut watch = Watch::new(Goal::NONE, Some(Time::ZERO));
    let (mut mean, mut now) = (Estimator::new(Goal::NONE), Time::ZERO);
    for _ in 0..count {
        let samples: Vec<f64> =
            (0..random.random_range(20..60)).map(|_| exponential(&mut random, 1.0)).collect();
        // Two joules for each sample, one sample for each microsecond in the mean.
        now += Time((1e6 * samples.iter().sum::<f64>()) as u64);
        watch.interval(now, 2.0 * samples.len() as f64, &samples);
        mean.push_many(samples.iter().sum(), samples.len() as u64);
    }
    (mean.estimate(), watch.precision().p99_s, watch)
}

#[test]
fn slices_of_a_run_say_how_well_independent_samples_are_known() {
    for count in [64, 100] {
        let mut covered = [0; 3];
        for seed in 0..300 {
            let (mean, p99, watch) = slices(seed, count);
            let power = watch.precision().power_w;
            for (n, (found, truth)) in
                [(mean, 1.0), (p99, 100f64.ln()), (power, 2e6)].into_iter().enumerate()
            {
                let (low, high) = found.interval().expect("there are enough slices");
                covered[n] += u32::from((low..=high).contains(&truth));
            }
        }
        // Of 300 intervals at 95 %, 276 to 294 hold the truth in 98 of 100 cases; a little more
        // often here, since four batches as one must not say that it is wider.
        assert!(covered.iter().all(|c| (276..=298).contains(c)), "{count}: {covered:?}");
    }
}

#[test]
fn a_watch_without_a_goal_never_ends_a_run_and_few_slices_have_no_interval() {
    let (mean, p99, watch) = slices(1, 31);
    assert!(mean.interval().is_none() && p99.interval().is_none() && !watch.is_done());
    let mut constant = Watch::new(Goal::NONE, None);
    for n in 0..200 {
        constant.interval(Time::ns(n), 0.0, &[0.0]);
        assert!(!constant.is_done());
    }
    // The first interval has no known length.
    assert_eq!(constant.precision().mean_s.samples, 199);
}

#[test]
fn an_estimate_in_other_words() {
    let found = Estimate { mean: -4.0, half_width: 1.0, samples: 9 };
    assert_eq!((found.relative(), found.interval()), (0.25, Some((-5.0, -3.0))));
    let halves = found.times(2.0);
    assert_eq!(halves, Estimate { mean: -8.0, half_width: 2.0, samples: 9 });
    assert_eq!(halves.relative(), 0.25);
    assert_eq!(Estimate { half_width: f64::INFINITY, ..found }.interval(), None);
    assert_eq!(Estimate { mean: f64::NAN, ..found }.interval(), None);
}
