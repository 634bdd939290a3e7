//! What a core's circuit sheet says, and the relations between its rows (Strong 2013, Table 2.1).

use serde::{Deserialize, Serialize};

use super::spec::PdnError;

/// The rows of a column of Table 2.1 that do not follow from others. They describe the core without
/// caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreSheet {
    /// Supply voltage, in volts.
    pub supply_v: f64,
    /// Area of the core, in square millimetres.
    pub core_area_mm2: f64,
    /// Area of its logic, in square millimetres.
    pub logic_area_mm2: f64,
    /// Capacitance of logic and wires, in farads.
    pub c_core_f: f64,
    /// Leakage when on, in watts.
    pub leakage_w: f64,
    /// Average current, in amperes.
    pub i_active_a: f64,
    /// Current that its supply may carry, in amperes.
    pub i_limit_a: f64,
    /// Shortest charging with that current as printed, in nanoseconds; it does not follow from
    /// the printed charge and current.
    pub printed_min_charge_ns: f64,
    /// Number of header switches.
    pub head_switches: f64,
    /// Leakage when gated, in watts.
    pub gated_leakage_w: f64,
    /// Bumps per square millimetre of logic.
    pub bumps_per_mm2: f64,
    /// Between package nodes of neighbouring cores, in ohms.
    pub r_shared_ohm: f64,
}

/// Decoupling capacitance as a share of the core's (Strong 2013, Sec 2.2.2).
const DECAP_SHARE: f64 = 0.20;
/// Inductance of a bump, in nanohenries, and its resistance, in ohms (Strong 2013, Sec 2.2.2).
const BUMP_L_NH: f64 = 0.05;
const BUMP_R_OHM: f64 = 1e-3;
/// Static drop at the average current that the printed `R_PDN` amounts to (derived).
const STATIC_DROP: f64 = 0.05;

impl CoreSheet {
    pub(crate) fn check(&self) -> Result<(), PdnError> {
        for (row, value) in self.printed() {
            if !(value.is_finite() && value > 0.0) {
                let message = format!("{value}, expected a number above 0");
                return Err(PdnError::at(&format!("sheet.{row}"), message));
            }
        }
        Ok(())
    }

    /// Charge of the core, in coulombs (Sec 2.2.1).
    #[must_use]
    pub fn charge_c(&self) -> f64 {
        self.c_core_f * self.supply_v
    }

    /// Shortest charging: `Q / I_limit` (Sec 2.2.1), in nanoseconds.
    #[must_use]
    pub fn min_charge_ns(&self) -> f64 {
        self.charge_c() / self.i_limit_a * 1e9
    }

    /// Energy of a wake-up: half of printed charge time times current limit times supply, in
    /// picojoules.
    #[must_use]
    pub fn wake_up_energy_pj(&self) -> f64 {
        0.5 * self.printed_min_charge_ns * self.i_limit_a * self.supply_v * 1e3
    }

    /// Leakage that gating takes away, in percent.
    #[must_use]
    pub fn leakage_reduction_pct(&self) -> f64 {
        100.0 * (1.0 - self.gated_leakage_w / self.leakage_w)
    }

    /// Bumps that carry the supply to the logic. The text says all of them; the printed
    /// inductance needs half, as the other half carries ground.
    #[must_use]
    pub fn supply_bumps(&self) -> f64 {
        0.5 * self.bumps_per_mm2 * self.logic_area_mm2
    }

    fn printed(&self) -> [(&'static str, f64); 12] {
        [
            ("supply_v", self.supply_v),
            ("core_area_mm2", self.core_area_mm2),
            ("logic_area_mm2", self.logic_area_mm2),
            ("c_core_f", self.c_core_f),
            ("leakage_w", self.leakage_w),
            ("i_active_a", self.i_active_a),
            ("i_limit_a", self.i_limit_a),
            ("printed_min_charge_ns", self.printed_min_charge_ns),
            ("head_switches", self.head_switches),
            ("gated_leakage_w", self.gated_leakage_w),
            ("bumps_per_mm2", self.bumps_per_mm2),
            ("r_shared_ohm", self.r_shared_ohm),
        ]
    }

    /// Every row: those that are printed, then those that follow.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, f64)> {
        let derived = [
            ("charge_c", self.charge_c()),
            ("min_charge_ns", self.min_charge_ns()),
            ("wake_up_energy_pj", self.wake_up_energy_pj()),
            ("leakage_reduction_pct", self.leakage_reduction_pct()),
            ("c_decap_f", DECAP_SHARE * self.c_core_f),
            ("l_pkg_core_nh", BUMP_L_NH / self.supply_bumps()),
            ("r_pkg_core_ohm", BUMP_R_OHM / self.supply_bumps()),
            ("r_pdn_ohm", STATIC_DROP * self.supply_v / self.i_active_a),
        ];
        let rows = self.printed().into_iter().chain(derived);
        rows.map(|(row, value)| (format!("sheet.{row}"), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_32_nm_high_performance_column_of_table_2_1() {
        let sheet = CoreSheet {
            supply_v: 1.0,
            core_area_mm2: 4.593,
            logic_area_mm2: 2.891,
            c_core_f: 7.53e-9,
            leakage_w: 0.355,
            i_active_a: 0.725,
            i_limit_a: 1.298,
            printed_min_charge_ns: 5.08,
            head_switches: 9_664.0,
            gated_leakage_w: 8.03e-3,
            bumps_per_mm2: 45.0,
            r_shared_ohm: 0.01,
        };
        // Strong 2013, Table 2.1: 3.30e3 pJ, 97.74 %, 7.69e-4 nH, 1.54e-5 ohm, 0.07 ohm.
        assert!((sheet.wake_up_energy_pj() - 3_300.0).abs() < 5.0);
        assert!((sheet.leakage_reduction_pct() - 97.74).abs() < 0.005);
        assert!((BUMP_L_NH / sheet.supply_bumps() - 7.69e-4).abs() < 5e-7);
        assert!((BUMP_R_OHM / sheet.supply_bumps() - 1.54e-5).abs() < 5e-8);
        // The printed charge time does not follow from charge over current: 5.80, not 5.08 ns.
        assert!((sheet.min_charge_ns() - 5.80).abs() < 0.005);
    }
}
