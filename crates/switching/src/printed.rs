//! What a work printed of runs nobody can repeat, and what follows from it by arithmetic alone.

use serde::{Deserialize, Serialize};

use crate::accounting::{self, Metered, OsCore, Watts};
use crate::check::{not_negative, positive};
use crate::idle::expected_factor;
use crate::model::ModelError;

/// A printed row: a run on a single core, and one with an OS core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Name of the workload, as in its file.
    pub workload: String,
    /// Which variant of it: the network, the number of users.
    pub variant: String,
    /// Rate of the single core; none where times were printed.
    pub rate_single: Option<f64>,
    /// Rate of the same with an OS core beside it, in the same unit.
    pub rate_os_core: Option<f64>,
    /// Recorded idle time of the application core, in seconds.
    pub idle_app_s: f64,
    /// Recorded idle time of the OS core, in seconds.
    pub idle_os_s: f64,
    /// Single core: figure of merit, or joules where no rate was printed.
    pub single: f64,
    /// Figure or joules with an OS core of 1 W. Results for other powers are not used.
    pub first: f64,
}

/// Power that the first column of an OS core stands for, in watts.
const FIRST_W: f64 = 1.0;

/// Values derived from a printed row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forensic {
    /// Metered time of the single core, in seconds.
    pub elapsed_single_s: f64,
    /// Energy of the single core, in joules.
    pub single_j: f64,
    /// The run with an OS core, idle times as recorded.
    pub recorded: Metered,
    /// The run with an OS core, with idle times corrected for the histogram's expected loss (E4.5).
    pub corrected: Metered,
    /// OS-core power at which the merit is that of the single core, in watts.
    pub break_even_merit_w: f64,
    /// OS-core power at which the energy is that of the single core, in watts.
    pub break_even_energy_w: f64,
}

impl Printed {
    /// Metered times, energies and break-evens.
    #[must_use]
    pub fn forensic(&self, watts: Watts) -> Forensic {
        let app_w = watts.app_w;
        let joules = |rate: Option<f64>, cell: f64| rate.map_or(cell, |rate| rate / cell);
        let single_j = joules(self.rate_single, self.single);
        let first_j = joules(self.rate_os_core, self.first);
        let elapsed_s = (first_j + app_w * self.idle_app_s) / (app_w + FIRST_W);
        let of = |factor: f64| Metered {
            elapsed_s,
            idle_app_s: (self.idle_app_s / factor).min(elapsed_s),
            idle_os_s: (self.idle_os_s / factor).min(elapsed_s),
            wakes: 0.0,
        };
        let recorded = of(1.0);
        let ratio = match (self.rate_single, self.rate_os_core) {
            (Some(single), Some(dual)) => dual / single,
            _ => 1.0,
        };
        Forensic {
            elapsed_single_s: single_j / app_w,
            single_j,
            recorded,
            corrected: of(expected_factor()),
            break_even_merit_w: accounting::break_even_merit_w(ratio, single_j, app_w, recorded),
            break_even_energy_w: accounting::break_even_energy_w(single_j, app_w, recorded),
        }
    }

    /// Joules with an OS core, and their figure of merit where there is a rate.
    #[must_use]
    pub fn with_os_core(&self, watts: Watts, run: Metered, os: OsCore) -> (f64, Option<f64>) {
        let joules = accounting::with_os_core_j(watts, run, os);
        (joules, self.rate_os_core.map(|rate| accounting::merit(rate, joules)))
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        for (key, value) in [("rate_single", self.rate_single), ("rate_os_core", self.rate_os_core)]
        {
            value.map_or(Ok(()), |v| positive(key, v))?;
        }
        not_negative("idle_app_s", self.idle_app_s)?;
        not_negative("idle_os_s", self.idle_os_s)?;
        positive("single", self.single)?;
        positive("first", self.first)
    }
}

/// Power of a whole system, in watts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Name of the computer.
    pub name: String,
    /// The whole computer, in watts.
    pub total_w: f64,
    /// Power of the processors, in watts.
    pub cpu_w: f64,
    /// Power of the memory, in watts.
    pub memory_w: f64,
    /// Power of the disks, in watts.
    pub disk_w: f64,
    /// PCI devices, where there are any.
    pub pci_w: Option<f64>,
    /// Power of all other parts, in watts.
    pub other_w: f64,
}

impl System {
    /// Returns the power of the largest consumer other than the processors, in watts.
    #[must_use]
    pub fn largest_other_w(&self) -> f64 {
        self.memory_w.max(self.disk_w).max(self.pci_w.unwrap_or(0.0)).max(self.other_w)
    }
}

/// A core in a catalogue, relative to the smallest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueCore {
    /// Name of the core.
    pub name: String,
    /// Peak power, in watts.
    pub peak_w: f64,
    /// Average power, in watts.
    pub average_w: f64,
    /// Instructions per clock cycle.
    pub ipc: f64,
    /// Area of the core.
    pub area: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATTS: Watts = Watts { app_w: 27.0, os_w: 5.0, power_up_s: 0.0 };

    fn stream() -> Printed {
        Printed {
            workload: "netperf".to_owned(),
            variant: "tcp-stream".to_owned(),
            rate_single: Some(941.5),
            rate_os_core: Some(941.37),
            idle_app_s: 37.34,
            idle_os_s: 43.56,
            single: 0.58,
            first: 1.40,
        }
    }

    #[test]
    fn one_merit_gives_the_time_and_the_others() {
        let found = stream().forensic(WATTS);
        assert!((found.recorded.elapsed_s - 60.0).abs() < 0.1);
        let (joules, merit) = stream().with_os_core(WATTS, found.recorded, OsCore::AlwaysOn);
        assert!((merit.unwrap() - 1.03).abs() < 0.01);
        let gated = stream().with_os_core(WATTS, found.recorded, OsCore::Gated);
        assert!(gated.0 < joules);
        assert!((gated.1.unwrap() - 1.36).abs() < 0.01);
    }

    #[test]
    fn the_os_core_was_probably_idle_all_the_time() {
        // 43.56 s of 60 s were recorded; freed of the histogram's loss that is all of them.
        let found = stream().forensic(WATTS);
        assert_eq!(found.corrected.idle_os_s, found.corrected.elapsed_s);
        assert!((found.corrected.idle_app_s - 51.77).abs() < 0.01);
    }
}
