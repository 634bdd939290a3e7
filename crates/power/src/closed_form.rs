//! The closed form for in-order cores (Strong 2013, Sec 2.3.5, Eq 2.2-2.5), as an independent check
//! of the simulation.
//!
//! Two corrections make the printed equations compute. Eq 2.3 is the energy *spent* in a gated miss
//! (Eq 2.5 subtracts it), so its `R` is the residual share of the leakage, not the reduction. And
//! `P_miss` of Eq 2.5, which is not defined, must equal the leakage for its denominator to be the
//! energy per second of the ungated core.

use crate::Gating;

/// A level of the memory hierarchy whose misses idle the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissLevel {
    /// `M_Li`: misses per second of run time.
    pub misses_per_s: f64,
    /// `L_dmiss:Li`: idle time of one miss, from the token of this level to the response, in
    /// seconds.
    pub idle_s: f64,
}

/// `E_save:LN`: the share of the core's energy that ideal gating of the given misses saves.
///
/// `idle_w` is the power of the ungated core while it waits: the leakage, plus the clock if it is
/// not gated then (the printed form has the leakage alone). `total_w` is its power while it does
/// not wait. `overhead_s` is added to the wake-up latency: time with the supply on for saving and
/// restoring state, which the printed form leaves out.
#[must_use]
pub fn closed_form_saving(
    levels: &[MissLevel],
    gating: &Gating,
    leakage_w: f64,
    idle_w: f64,
    total_w: f64,
    overhead_s: f64,
) -> f64 {
    let residual = 1.0 - gating.leakage_reduction;
    let wake_up_s = gating.wake_up_ns * 1e-9 + overhead_s;
    let wake_up_j = gating.wake_up_energy_pj * 1e-12;
    let mut saved = 0.0;
    let mut kappas = 0.0;
    let mut idle_share = 0.0;
    for level in levels {
        let share = level.misses_per_s * level.idle_s;
        let kappa = share * idle_w; // Eq 2.4
                                    // Eq 2.3
        let spent =
            (level.idle_s - wake_up_s) * residual * leakage_w + wake_up_j + wake_up_s * leakage_w;
        if level.idle_s > wake_up_s && spent < level.idle_s * idle_w {
            saved += kappa - spent * level.misses_per_s;
        }
        kappas += kappa;
        idle_share += share;
    }
    saved / (kappas + (1.0 - idle_share) * total_w) // Eq 2.5
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_ORDER: Gating = Gating {
        entry_cycles: 0,
        wake_up_ns: 8.06,
        control_cycles: 3,
        refill_cycles: 4,
        wake_up_energy_pj: 4_020.0,
        leakage_reduction: 0.9774,
        retention_overhead: 0.0,
        loses: Vec::new(),
        loses_after_us: 0.0,
    };

    fn memory(misses_per_s: f64, idle_s: f64) -> [MissLevel; 1] {
        [MissLevel { misses_per_s, idle_s }]
    }

    #[test]
    fn no_misses_save_nothing() {
        assert_eq!(closed_form_saving(&memory(0.0, 60e-9), &IN_ORDER, 0.486, 0.486, 1.0, 0.0), 0.0);
    }

    #[test]
    fn a_stall_shorter_than_break_even_is_left_alone() {
        assert_eq!(closed_form_saving(&memory(1e7, 16e-9), &IN_ORDER, 0.486, 0.486, 1.0, 0.0), 0.0);
    }

    #[test]
    fn a_core_that_only_waits_saves_the_hand_computed_share() {
        // One 100 ns wait after another: per wait 48.6 nJ of leakage without gating; with it,
        // 91.94 ns at 2.26 % (1.00983 nJ) + 4.02 nJ + 8.06 ns on (3.91716 nJ).
        let saving = closed_form_saving(&memory(1e7, 100e-9), &IN_ORDER, 0.486, 0.486, 1.0, 0.0);
        let expected = (48.6 - 1.009_832 - 4.02 - 3.917_16) / 48.6;
        assert!((saving - expected).abs() < 1e-6, "{saving} {expected}");
    }
}
