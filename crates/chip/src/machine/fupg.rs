//! Gating of the execution units, each by itself.

use serde::Deserialize;

use super::{CoreSpec, Machine, WakeUpKind};

/// Gating of the execution units (Strong 2013, Sec 2.4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FupgSpec {
    /// Share of all units together in the core's leakage (0..=1).
    pub core_share: f64,
    /// Time from closing the switches of a unit until it works, in nanoseconds.
    pub wake_up_ns: f64,
    /// Energy to charge all units, in picojoules.
    pub wake_up_energy_pj: f64,
    /// Units that have switches of their own.
    pub domains: UnitDomains,
    /// True if a technique gates them.
    pub gated: bool,
}

/// Units that have switches of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitDomains {
    /// Integer units, multipliers with dividers, and floating-point units apart.
    #[default]
    ByUnit,
    /// All together, as one unit that each of their operations uses.
    One,
}

/// A unit, or several, behind switches of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitDomain {
    /// Name in the ledger.
    pub name: &'static str,
    /// Share in the core's leakage (0..=1).
    pub share: f64,
    /// Share in the leakage of all units (0..=1).
    pub of_units: f64,
}

/// Leakage of one integer unit, one multiplier and one floating-point unit at 32 nm, in ratio.
/// McPAT 1.3 (`FunctionalUnit` in `logic.cc`) makes it an area times the leakage of an inverter:
/// 280 x 260 x 2 um2 and three times that, both scaled by 0.7^3, at a width of 20; and 8.47 mm2
/// scaled by (32 / 90)^2 at a width of 5.
const LEAKAGE: [f64; 3] = [1.0, 3.0, 5.36];
/// Names of these, as those of their operations in the ledger.
const NAMES: [&str; 3] = ["integer", "multiply", "floating-point"];

impl FupgSpec {
    fn domains(&self, core: &CoreSpec) -> Vec<UnitDomain> {
        if self.domains == UnitDomains::One {
            return vec![UnitDomain { name: "units", share: self.core_share, of_units: 1.0 }];
        }
        let counts = [core.units.alu, core.units.multiply, core.units.fp];
        let weights: Vec<f64> = counts.iter().zip(LEAKAGE).map(|(&n, w)| n as f64 * w).collect();
        let all: f64 = weights.iter().sum();
        let domain = |(name, weight)| {
            let of_units = weight / all;
            UnitDomain { name, share: self.core_share * of_units, of_units }
        };
        NAMES.into_iter().zip(weights).map(domain).collect()
    }
}

impl Machine {
    /// Returns the machine in which the execution units are gated, and nothing else (Strong 2013,
    /// Sec 2.4): they carry a share of the core's leakage, keep no state, and wake when an
    /// operation needs them.
    #[must_use]
    pub fn with_gated_units(mut self) -> Machine {
        self.fupg.gated = true;
        // The core with its caches stays on.
        self.gating.retention_overhead = 0.0;
        self.gating.loses.clear();
        self.wake_up.controller = WakeUpKind::Fixed;
        self
    }

    /// Returns the units that are gated by themselves; none unless a technique gates units.
    #[must_use]
    pub fn unit_domains(&self) -> Vec<UnitDomain> {
        if self.fupg.gated {
            self.fupg.domains(&self.core)
        } else {
            Vec::new()
        }
    }
}
