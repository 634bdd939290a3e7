//! Memory devices: timing, shape and currents, as files with their sources.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::timing::{SpecError, Timing};

/// The devices that form a rank of a channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Source of these values.
    pub source: String,
    /// Period of the command bus, in picoseconds.
    pub clock_ps: u64,
    /// Bank groups of a rank (a power of two; 1 before DDR4).
    pub groups: usize,
    /// Banks of a group (a power of two).
    pub banks: usize,
    /// Bytes of a row of the whole rank (a power of two from 64).
    pub row_bytes: u64,
    /// Timing constraints, in clocks.
    pub timing: Timing,
    /// Supply currents, if a source states them.
    pub power: Option<Currents>,
}

/// Currents of a chip by the names of its data sheet, in milliamperes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Currents {
    /// Source of these values.
    pub source: String,
    /// Chips of a rank that hold data.
    pub chips: u32,
    /// Supply voltage, in volts.
    pub vdd_v: f64,
    /// Activate and precharge, one after the other.
    pub idd0_ma: f64,
    /// Current with all banks closed.
    pub idd2n_ma: f64,
    /// Current with a row open.
    pub idd3n_ma: f64,
    /// Current of back-to-back reads.
    pub idd4r_ma: f64,
    /// Current of back-to-back writes.
    pub idd4w_ma: f64,
    /// Current of back-to-back refreshes.
    pub idd5_ma: f64,
}

/// Energy of commands of a rank beyond its background, without I/O and termination.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandEnergy {
    /// Opening and closing a row, in picojoules.
    pub activate_pj: f64,
    /// Reading a line, in picojoules.
    pub read_pj: f64,
    /// Writing a line, in picojoules.
    pub write_pj: f64,
    /// Refreshing once, in picojoules.
    pub refresh_pj: f64,
    /// Power of a rank with its rows closed, in watts.
    pub closed_w: f64,
    /// Power of a rank with a row open, in watts.
    pub open_w: f64,
}

const FILES: [(&str, &str); 5] = [
    ("lpddr3-1866", include_str!("../devices/lpddr3-1866.toml")),
    ("ddr3-1333", include_str!("../devices/ddr3-1333.toml")),
    ("ddr4-2133", include_str!("../devices/ddr4-2133.toml")),
    ("ddr4-3200", include_str!("../devices/ddr4-3200.toml")),
    ("ddr5-4800", include_str!("../devices/ddr5-4800.toml")),
];

impl Device {
    /// Names of the devices that come along.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.into_iter().map(|(name, _)| name)
    }

    /// One of the devices that come along.
    #[must_use]
    pub fn named(name: &str) -> Option<Device> {
        // Read once: a sweep of machines names one device in each of them. The files are part of
        // this crate, and a test reads them all.
        static READ: LazyLock<Vec<Option<Device>>> =
            LazyLock::new(|| FILES.iter().map(|(_, text)| toml::from_str(text).ok()).collect());
        let place = FILES.iter().position(|(known, _)| *known == name)?;
        READ[place].clone()
    }

    /// Energy of its commands, if its currents are known (Micron TN-41-01, "Calculating Memory
    /// System Power for DDR3", and DRAMsim3, `configuration.cc`).
    #[must_use]
    pub fn command_energy(&self) -> Option<CommandEnergy> {
        let currents = self.power.as_ref()?;
        let (timing, clock_ns) = (&self.timing, self.clock_ps as f64 * 1e-3);
        // Milliamperes times volts times nanoseconds are picojoules.
        let volts = currents.vdd_v * f64::from(currents.chips);
        let charge = |ma: f64, clocks: u64| ma * clocks as f64 * clock_ns;
        let cycle = timing.t_ras + timing.t_rp;
        let activate = charge(currents.idd0_ma, cycle)
            - charge(currents.idd3n_ma, timing.t_ras)
            - charge(currents.idd2n_ma, timing.t_rp);
        let above_open = |ma: f64, clocks| volts * charge(ma - currents.idd3n_ma, clocks);
        Some(CommandEnergy {
            activate_pj: volts * activate,
            read_pj: above_open(currents.idd4r_ma, timing.burst),
            write_pj: above_open(currents.idd4w_ma, timing.burst),
            refresh_pj: above_open(currents.idd5_ma, timing.t_rfc),
            closed_w: volts * currents.idd2n_ma * 1e-3,
            open_w: volts * currents.idd3n_ma * 1e-3,
        })
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// The first value that is impossible.
    pub fn check(&self) -> Result<(), SpecError> {
        if !(50..=100_000).contains(&self.clock_ps) {
            let message = format!("{} ps a clock, expected 50 to 100000", self.clock_ps);
            return Err(SpecError::new("clock_ps", message));
        }
        for (key, n) in [("groups", self.groups), ("banks", self.banks)] {
            if !n.is_power_of_two() {
                let message = format!("{n} {key}, expected a power of two");
                return Err(SpecError::new(key, message));
            }
        }
        if !self.row_bytes.is_power_of_two() || self.row_bytes < 64 || self.row_bytes > 1 << 20 {
            let message = format!("a row of {} bytes, expected a power of two", self.row_bytes);
            return Err(SpecError::new("row_bytes", format!("{message} from 64 to 1048576")));
        }
        self.timing.check()
    }
}
