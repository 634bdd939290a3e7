//! Intervals of runs whose load follows a plan.

use halfwink_engine::confidence::{Precision, Slots};
use halfwink_engine::{stream, LogCounts};
use halfwink_units::Time;
use rand::RngExt;

/// A run of so many slots with loads that differ by far: exponential latencies of a mean of 1 to 2
/// microseconds, and a power of 10 to 100 watts with noise.
fn run(seed: u64, slots: usize) -> Precision {
    let mut random = stream(seed, "slots");
    let mut found = Slots::<5>::default();
    for slot in 0..slots {
        let share = slot as f64 / slots as f64;
        for _ in 0..Slots::<5>::slices(slots) {
            let mut counts = LogCounts::default();
            let mut sum = 0;
            for _ in 0..random.random_range(100..300) {
                let mean = 1000.0 * (1.0 + share);
                let ns = (-mean * (1.0 - random.random::<f64>()).ln()) as u64;
                counts.record(ns);
                sum += ns;
            }
            let power_w = 10.0 + 90.0 * share + random.random::<f64>() - 0.5;
            found.slice(Time::ns(1000), power_w * 1e-6, Time::ns(sum), &counts);
        }
        found.end_slot();
    }
    found.precision()
}

#[test]
fn that_loads_differ_by_plan_is_no_uncertainty() {
    for slots in [1, 10] {
        let plan = |of: fn(f64) -> f64| {
            (0..slots).map(|n| of(n as f64 / slots as f64)).sum::<f64>() / slots as f64
        };
        // Nanoseconds are cut off: half of one less in the mean.
        let mean_s = (plan(|share| 1000.0 * (1.0 + share)) - 0.5) * 1e-9;
        let power_w = plan(|share| 10.0 + 90.0 * share);
        // Where a hundredth of all latencies of all slots is beyond, by halving.
        let (mut low, mut high) = (0.0, 1e-4);
        for _ in 0..60 {
            let middle: f64 = (low + high) / 2.0;
            let beyond = (0..slots)
                .map(|n| (-middle * 1e6 / (1.0 + n as f64 / slots as f64)).exp())
                .sum::<f64>();
            (low, high) = if beyond > 0.01 * slots as f64 { (middle, high) } else { (low, middle) };
        }
        let mut covered = [0; 3];
        for seed in 0..300 {
            let found = run(seed, slots);
            let all = [(found.mean_s, mean_s), (found.p99_s, low), (found.power_w, power_w)];
            for (count, (found, truth)) in covered.iter_mut().zip(all) {
                let (low, high) = found.interval().expect("there are enough slices");
                *count += u32::from((low..=high).contains(&truth));
                assert!(found.relative() < 0.1, "{slots}: {found:?}");
            }
        }
        // 285 of 300, less and more by what chance gives.
        assert!(covered.iter().all(|c| (273..=298).contains(c)), "{slots}: {covered:?}");
    }
}

#[test]
fn slices_that_depend_on_each_other_say_less() {
    let run = |correlation: f64| {
        let mut random = stream(1, "slots");
        let (mut found, mut state) = (Slots::<5>::default(), 0.0);
        for _ in 0..64 {
            state = correlation * state + random.random::<f64>() - 0.5;
            found.slice(Time::ns(1), 1e-9 * (10.0 + state), Time::ZERO, &LogCounts::default());
        }
        found.end_slot();
        found.precision()
    };
    let (apart, together) = (run(0.0), run(0.8));
    assert!(together.power_w.half_width > 3.0 * apart.power_w.half_width);
    // Nothing was waited for.
    assert!(apart.mean_s.interval().is_none() && apart.p99_s.interval().is_none());
    assert!(Slots::<5>::default().precision().power_w.interval().is_none());
}
