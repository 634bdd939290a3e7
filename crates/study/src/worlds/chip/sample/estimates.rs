//! From what was measured of windows to figures with intervals.

use halfwink_chip::sample::Measured;
use halfwink_chip::Machine;
use halfwink_engine::confidence::{Estimate, Estimator, Goal, QuantileEstimator};
use serde::Serialize;

use super::Prepared;

/// The measurements of each window, under each technique.
pub(super) type Windows = Vec<Vec<Measured>>;

/// The least number of windows that has intervals, as `halfwink_engine::confidence` has it.
const LEAST_WINDOWS: f64 = 32.0;

/// A figure with its interval of 95 %; without one where there are too few windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The estimate itself.
    pub value: Option<f64>,
    /// The lower end of the interval.
    pub low: Option<f64>,
    /// The upper end of the interval.
    pub high: Option<f64>,
}

impl Interval {
    /// An estimate, in another unit or seen from another side (`1 / cpi`).
    fn of(estimate: Estimate, turn: impl Fn(f64) -> f64) -> Interval {
        let ends = estimate.interval().map(|(low, high)| (turn(low), turn(high)));
        Interval {
            value: estimate.mean.is_finite().then(|| turn(estimate.mean)),
            // A turn such as `1 / x` exchanges the ends; and the reciprocal of an end at 0 is no
            // bound.
            low: ends.map(|(a, b)| a.min(b)).filter(|end| end.is_finite()),
            high: ends.map(|(a, b)| a.max(b)).filter(|end| end.is_finite()),
        }
    }

    /// The reciprocal of an estimate of what cannot be negative: an interval that reaches below
    /// zero has no upper bound.
    fn of_reciprocal(estimate: Estimate) -> Interval {
        Interval::of(estimate, |value| value.max(0.0).recip())
    }
}

/// The estimates of a technique over the windows. Energies are modelled.
#[derive(Clone, Debug, Serialize)]
pub struct SampledTechnique {
    /// The technique with its parameters.
    pub technique: String,
    /// Number of instructions measured.
    pub instructions: u64,
    /// Cycles for each instruction.
    pub cpi: Interval,
    /// Instructions for each cycle.
    pub ipc: Interval,
    /// Energy of the core for each instruction, in joules.
    pub core_energy_j_per_instruction: Interval,
    /// Energy of the whole chip with its memory for each instruction, in joules.
    pub energy_j_per_instruction: Interval,
    /// Length that 99 % of the stalls that memory ended do not exceed, in nanoseconds.
    pub memory_stall_p99_ns: Interval,
    /// Core energy saved in the same windows, in per cent of the baseline's; none of itself.
    pub core_energy_saving_pct: Option<Interval>,
    /// Energy of the whole saved in the same windows, in per cent of the baseline's; none of
    /// itself.
    pub energy_saving_pct: Option<Interval>,
    /// Time lost, in per cent of the baseline's.
    pub slowdown_pct: Option<Interval>,
    /// Windows that the wanted precision would take: of energies and CPI in per cent of their
    /// value, of savings and slowdown in percentage points.
    pub windows_needed: Option<u64>,
}

/// Figures of every technique; the first is the baseline.
pub(super) fn estimates(
    prepared: &[Prepared],
    windows: &Windows,
    machine: &Machine,
    precision_pct: Option<f64>,
) -> Vec<SampledTechnique> {
    let hz = machine.clock.hz();
    prepared
        .iter()
        .enumerate()
        .map(|(n, p)| {
            let of = |window: &Vec<Measured>| window[n].clone();
            let own: Vec<Measured> = windows.iter().map(of).collect();
            // Paired window by window: what varies between windows is in both, and drops out of the
            // ratio.
            let base: Vec<&Measured> = windows.iter().map(|window| &window[0]).collect();
            row(p.choice.to_string(), &own, (n > 0).then_some(&base), hz, precision_pct)
        })
        .collect()
}

fn row(
    technique: String,
    own: &[Measured],
    base: Option<&Vec<&Measured>>,
    hz: f64,
    precision_pct: Option<f64>,
) -> SampledTechnique {
    let per_instruction = |value: fn(&Measured) -> f64| {
        let mut mean = Estimator::new(Goal::NONE);
        own.iter().for_each(|m| mean.push_many(value(m), m.instructions));
        mean.estimate()
    };
    let cpi = per_instruction(|m| m.time.as_s()).times(hz);
    let core = per_instruction(|m| m.core_energy.as_j());
    let all = per_instruction(|m| m.energy.as_j());
    let against = |value: fn(&Measured) -> f64| base.map(|base| paired(own, base, value));
    let core_ratio = against(|m| m.core_energy.as_j());
    let all_ratio = against(|m| m.energy.as_j());
    let time_ratio = against(|m| m.time.as_s());
    let ratios = [core_ratio, all_ratio, time_ratio];
    // Ratios by their absolute width, which is one of percentage points: a saving of 0.1 % would
    // take for ever to know to 1 % of itself.
    let widths = ratios.iter().flatten().map(|ratio| 100.0 * ratio.half_width);
    let widths = widths.chain([cpi, core, all].map(|e| 100.0 * e.relative()));
    let widest = widths.fold(0.0, f64::max);
    let needed = |wanted: f64| {
        // The width falls with the root of the number of windows.
        let windows = (own.len() as f64 * (widest / wanted).powi(2)).ceil();
        windows.is_finite().then_some(windows.max(LEAST_WINDOWS) as u64)
    };
    let saving = |ratio: Option<Estimate>| ratio.map(|r| Interval::of(r, |x| 100.0 * (1.0 - x)));
    SampledTechnique {
        technique,
        instructions: own.iter().map(|m| m.instructions).sum(),
        cpi: Interval::of(cpi, |x| x),
        ipc: Interval::of_reciprocal(cpi),
        core_energy_j_per_instruction: Interval::of(core, |x| x),
        energy_j_per_instruction: Interval::of(all, |x| x),
        memory_stall_p99_ns: stalls(own),
        core_energy_saving_pct: saving(core_ratio),
        energy_saving_pct: saving(all_ratio),
        slowdown_pct: time_ratio.map(|r| Interval::of(r, |x| 100.0 * (x - 1.0))),
        windows_needed: precision_pct.and_then(needed),
    }
}

/// Estimates the ratio of `value` under a technique to that under the baseline, in the same
/// windows. Both end within some cycles of the same instruction: each is taken for one instruction
/// of its own.
fn paired(own: &[Measured], base: &[&Measured], value: fn(&Measured) -> f64) -> Estimate {
    let each = |m: &Measured| value(m) / m.instructions as f64;
    let total: f64 = base.iter().map(|m| each(m)).sum();
    // The estimator counts samples in whole numbers: a part in 10^9 of all is fine enough.
    let unit = total / 1e12;
    let mut ratio = Estimator::new(Goal::NONE);
    for (own, base) in own.iter().zip(base) {
        ratio.push_many(each(own) / unit, (each(base) / unit).round() as u64);
    }
    ratio.estimate()
}

fn stalls(own: &[Measured]) -> Interval {
    let mut p99 = QuantileEstimator::new(0.99, Goal::NONE);
    let mut any = false;
    for window in own {
        for &(length, count) in &window.memory_stalls {
            any = true;
            (0..count).for_each(|_| p99.record(length.as_s()));
        }
        // A window is one interval, also an empty one: batches are of whole windows, since the
        // stalls of one depend on each other.
        p99.end_interval();
    }
    if any {
        Interval::of(p99.estimate(), |s| 1e9 * s)
    } else {
        Interval { value: None, low: None, high: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocal_of_an_interval_beyond_zero_has_no_upper_bound() {
        let cpi = |half_width| Estimate { mean: 2.0, half_width, samples: 32 };
        let found = Interval::of_reciprocal(cpi(1.0));
        assert_eq!((found.low, found.value, found.high), (Some(1.0 / 3.0), Some(0.5), Some(1.0)));
        let found = Interval::of_reciprocal(cpi(6.0));
        assert_eq!((found.low, found.value, found.high), (Some(0.125), Some(0.5), None));
    }
}
