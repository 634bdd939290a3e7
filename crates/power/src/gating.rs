use halfwink_units::{Energy, Power, Time};
use serde::{Deserialize, Serialize};

/// Costs of cutting and restoring the supply of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gating {
    /// Cycles to stop the clock, save state and clamp the outputs.
    pub entry_cycles: u64,
    /// Time from closing the first header switch until the supply is stable, in nanoseconds.
    pub wake_up_ns: f64,
    /// Cycles for clock enable, reset and restore from the retention cells.
    pub control_cycles: u64,
    /// Cycles to refill the pipeline.
    pub refill_cycles: u64,
    /// Energy to charge the core, in picojoules.
    pub wake_up_energy_pj: f64,
    /// Share of the leakage that gating takes away (0..=1).
    pub leakage_reduction: f64,
    /// Share by which retention cells raise the leakage of a core that is on.
    pub retention_overhead: f64,
    /// Parts whose contents a halted core loses once its supply is cut; a stalled core retains all.
    #[serde(default)]
    pub loses: Vec<Lost>,
    /// Time from the gate until which a gated core retains all contents, in microseconds.
    #[serde(default)]
    pub loses_after_us: f64,
}

/// A part of a core whose contents a sleep state can lose (Gottschlag 2016, Sec 2.1: core C3 and C6
/// lose the first two levels).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lost {
    /// First-level instruction cache.
    L1i,
    /// First-level data cache.
    L1d,
    /// Private second-level cache.
    L2,
    /// Shared third level: only of a chip on which one core alone has work.
    L3,
    /// State of the branch predictor.
    Branch,
    /// Cached address translations.
    Tlb,
}

impl Gating {
    /// Returns whether a deep sleep loses this part.
    #[must_use]
    pub fn loses(&self, part: Lost) -> bool {
        self.loses.contains(&part)
    }

    /// Returns the time after which a halted core loses contents; none if it never does.
    #[must_use]
    pub fn loses_after(&self) -> Option<Time> {
        (!self.loses.is_empty()).then(|| Time::from_ns(self.loses_after_us * 1e3))
    }

    /// Time off that pays for the wake-up energy (Strong 2013, Sec 2.3.3):
    /// `t = E_wakeup / (reduction * P_leak)`.
    #[must_use]
    pub fn break_even(&self, leakage_w: f64) -> Time {
        Time::from_ns(self.wake_up_energy_pj / (self.leakage_reduction * leakage_w) * 1e-3)
    }

    /// Energy of charging the gated rail once, beside what leaks meanwhile.
    #[must_use]
    pub fn wake_up_energy(&self) -> Energy {
        Energy::from_pj(self.wake_up_energy_pj)
    }

    /// Power of a core with `leakage_w` while gated.
    #[must_use]
    pub fn gated_power(&self, leakage_w: f64) -> Power {
        Power::from_w(leakage_w * (1.0 - self.leakage_reduction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gating(wake_up_energy_pj: f64, leakage_reduction: f64) -> Gating {
        Gating {
            entry_cycles: 3,
            wake_up_ns: 10.2,
            control_cycles: 3,
            refill_cycles: 7,
            wake_up_energy_pj,
            leakage_reduction,
            retention_overhead: 0.0,
            loses: Vec::new(),
            loses_after_us: 0.0,
        }
    }

    #[test]
    fn break_even_times_of_table_2_3() {
        // Strong 2013, Table 2.3: EV6 17.17 ns. The in-order row prints 8.53; its own inputs give
        // 8.46.
        assert_eq!(gating(15_358.0, 0.9765).break_even(0.916), Time(17_170));
        assert_eq!(gating(4_020.0, 0.9774).break_even(0.486), Time(8_463));
    }

    #[test]
    fn a_break_even_long_gate_costs_what_it_saves() {
        let ev6 = gating(15_358.0, 0.9765);
        let span = ev6.break_even(0.916);
        let on = Power::from_w(0.916) * span;
        let off = ev6.gated_power(0.916) * span + ev6.wake_up_energy();
        let difference = on.as_j() - off.as_j();
        // The span is rounded to a picosecond, in which the core leaks 0.9 pJ.
        assert!(difference.abs() < 1e-12, "{difference}");
    }
}
