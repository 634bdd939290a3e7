//! How well the results of a run are known.
//!
//! A run is one sample of what a workload does: had the recording begun a little later, each figure
//! would be a little different. How different is estimated from slices of the run by batch means
//! (see [`halfwink_engine::confidence`]). The run is cut by time, since components that nobody uses
//! have nothing but time; its length is not known beforehand, so slices begin short, and whenever
//! there are enough, neighbours become one.

use halfwink_engine::confidence::{Estimate, Estimator, Goal, Piece, QuantileEstimator};
use halfwink_units::{Clock, Energy, Time};

/// Confidence intervals (of 95 %) of the results that have one; none where a run is too short.
#[derive(Clone, Copy, Debug)]
pub struct Precision {
    /// Energy of the whole chip for each instruction, in joules.
    pub energy_j_per_instruction: Estimate,
    /// Energy of the whole chip for each request, in joules.
    pub energy_j_per_request: Estimate,
    /// Mean latency of requests, in seconds.
    pub latency_mean_s: Estimate,
    /// 99th percentile of the latency, in seconds.
    pub latency_p99_s: Estimate,
    /// Instructions for each cycle of a core from its begin to its end.
    pub ipc: Estimate,
}

/// Sums up to some time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) at: Time,
    pub(crate) energy: Energy,
    pub(crate) instructions: u64,
    /// Times of the cores that have work of their own, each from its begin to its end.
    pub(crate) run: Time,
}

/// Cuts a run into slices as it goes on.
#[derive(Debug)]
pub(crate) struct Slices {
    length: Time,
    next: Time,
    /// Sums at the ends of slices, and how many requests were complete.
    ends: Vec<(Sums, usize)>,
    /// Latencies of requests in the order in which they were noticed.
    latencies: Vec<Time>,
}

impl Slices {
    /// Twice as many as are kept, when neighbours become one.
    const MOST: usize = 128;
    /// Length of the first: with 64 of them, a run of 64 us has intervals.
    const SHORTEST: Time = Time::ns(1_000);

    pub(crate) fn new() -> Slices {
        let length = Slices::SHORTEST;
        Slices { length, next: length, ends: Vec::new(), latencies: Vec::new() }
    }

    /// Returns the end of the present slice.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// A request was completed with this latency.
    pub(crate) fn complete(&mut self, latency: Time) {
        self.latencies.push(latency);
    }

    /// The present slice ends with these sums.
    pub(crate) fn end(&mut self, sums: Sums) {
        debug_assert!(self.ends.last().is_none_or(|(last, _)| last.at < sums.at));
        self.ends.push((sums, self.latencies.len()));
        if self.ends.len() == Slices::MOST {
            self.length = self.length + self.length;
            let mut is_second = true;
            self.ends.retain(|_| {
                is_second = !is_second;
                is_second
            });
        }
        self.next = sums.at + self.length;
    }

    /// The run ends with these sums. Its last piece, which is no whole slice, goes to the last one.
    pub(crate) fn finish(mut self, sums: Sums, clock: Clock) -> (Precision, Vec<Piece>) {
        self.ends.pop();
        self.ends.push((sums, self.latencies.len()));
        let [mut by_instruction, mut by_request, mut latency, mut ipc] =
            std::array::from_fn(|_| Estimator::new(Goal::NONE));
        let mut p99 =
            (!self.latencies.is_empty()).then(|| QuantileEstimator::new(0.99, Goal::NONE));
        let mut before = (Sums::default(), 0);
        let mut pieces = Vec::with_capacity(self.ends.len());
        for &(sums, requests) in &self.ends {
            let energy_j = sums.energy.as_j() - before.0.energy.as_j();
            let instructions = sums.instructions - before.0.instructions;
            let latencies = &self.latencies[before.1..requests];
            let seconds = (sums.at - before.0.at).as_s();
            pieces.push(Piece { stratum: 0, work: instructions, seconds, energy_j });
            by_instruction.push_many(energy_j, instructions);
            by_request.push_many(energy_j, latencies.len() as u64);
            latency.push_many(latencies.iter().map(|l| l.as_s()).sum(), latencies.len() as u64);
            // Where threads move, it shows only at the end that one ended earlier.
            let run = sums.run.saturating_sub(before.0.run);
            ipc.push_many(instructions as f64, clock.cycles_covering(run));
            if let Some(p99) = &mut p99 {
                latencies.iter().for_each(|l| p99.record(l.as_s()));
                p99.end_interval();
            }
            before = (sums, requests);
        }
        let nothing = Estimate { mean: f64::NAN, half_width: f64::INFINITY, samples: 0 };
        let precision = Precision {
            energy_j_per_instruction: by_instruction.estimate(),
            energy_j_per_request: by_request.estimate(),
            latency_mean_s: latency.estimate(),
            latency_p99_s: p99.map_or(nothing, |p99| p99.estimate()),
            ipc: ipc.estimate(),
        };
        (precision, pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of whole microseconds at a watt, with an instruction each nanosecond, and a request
    /// each microsecond that took as long as is said.
    fn run(micros: u64, latency_ns: impl Fn(u64) -> u64) -> (Slices, Sums) {
        let mut slices = Slices::new();
        let sums = |us: u64| Sums {
            at: Time::ns(1_000 * us),
            energy: halfwink_units::Power::from_w(1.0) * Time::ns(1_000 * us),
            instructions: 1_000 * us,
            run: Time::ns(1_000 * us),
        };
        for us in 1..=micros {
            slices.complete(Time::ns(latency_ns(us)));
            if slices.next() <= Time::ns(1_000 * us) {
                slices.end(sums(us));
            }
        }
        (slices, sums(micros))
    }

    #[test]
    fn slices_are_few_however_long_the_run() {
        for micros in [64, 127, 128, 129, 1_000, 54_321] {
            let (slices, _) = run(micros, |_| 1);
            assert!((63..128).contains(&slices.ends.len()), "{micros}: {}", slices.ends.len());
            let ends = slices.ends.windows(2);
            assert!(ends.clone().all(|w| w[1].0.at - w[0].0.at == slices.length), "{micros}");
        }
    }

    #[test]
    fn what_does_not_vary_is_known_exactly() {
        let (slices, sums) = run(10_000, |_| 500);
        let (found, pieces) = slices.finish(sums, Clock::from_hz(1_000_000_000).unwrap());
        let close = |estimate: Estimate, value: f64| {
            assert!((estimate.mean / value - 1.0).abs() < 1e-9, "{estimate:?} {value}");
            assert!(estimate.half_width < 1e-6 * value, "{estimate:?}");
        };
        close(found.energy_j_per_instruction, 1e-9);
        close(found.energy_j_per_request, 1e-6);
        close(found.latency_mean_s, 5e-7);
        close(found.ipc, 1.0);
        assert_eq!(found.latency_p99_s.samples, 10_000);
        assert_eq!(pieces.iter().map(|piece| piece.work).sum::<u64>(), sums.instructions);
        let energy_j: f64 = pieces.iter().map(|piece| piece.energy_j).sum();
        assert!((energy_j / sums.energy.as_j() - 1.0).abs() < 1e-9, "{energy_j}");
    }

    #[test]
    fn intervals_hold_the_mean_of_a_noisy_latency() {
        // Knuth's generator; latencies evenly between 0 and 1024 ns: mean 512.
        let mut state = 1u64;
        let noise: Vec<u64> = (0..=20_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 54
            })
            .collect();
        let (slices, sums) = run(20_000, |us| noise[us as usize]);
        let (found, _) = slices.finish(sums, Clock::from_hz(1_000_000_000).unwrap());
        let (low, high) = found.latency_mean_s.interval().unwrap();
        assert!(low < 512e-9 && 512e-9 < high && high - low < 20e-9, "{low} {high}");
        let (low, high) = found.latency_p99_s.interval().unwrap();
        assert!(low < 1014e-9 && 1014e-9 < high && high - low < 20e-9, "{low} {high}");
    }

    #[test]
    fn a_short_run_has_no_intervals() {
        let (slices, sums) = run(20, |_| 1);
        let (found, _) = slices.finish(sums, Clock::from_hz(1_000_000_000).unwrap());
        assert_eq!(found.energy_j_per_instruction.interval(), None);
        assert_eq!(found.ipc.mean, 1.0);
    }
}
