use halfwink_units::{Energy, Power};
use serde::{Deserialize, Serialize};

use crate::Gating;

/// State of a core's supply and clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoreState {
    /// Clock on, pipeline moving.
    Active,
    /// Clock on, pipeline waiting for memory.
    Stalled,
    /// Halted by the operating system, clock off, supply on.
    Idle,
    /// Stopping the clock, saving state.
    Gating,
    /// The supply is off.
    Gated,
    /// Header switches closing, internal rail rising.
    Charging,
    /// Reset, state restored, pipeline refilling.
    Restoring,
    /// No work was given to this core in this run: gated from the start.
    Unused,
    /// Writing back what its caches would lose, halted and with the clock of the caches on.
    Flushing,
    /// Halted, in the first of the machine's deeper idle states.
    Deep1,
    /// Halted, in the second of them.
    Deep2,
    /// Halted, in the third of them.
    Deep3,
    /// Halted, in the fourth of them.
    Deep4,
    /// Halted, in the fifth of them.
    Deep5,
    /// Halted, in the sixth of them.
    Deep6,
}

impl CoreState {
    /// Every state, in the order of a ledger.
    pub const ALL: [CoreState; 15] = [
        CoreState::Active,
        CoreState::Stalled,
        CoreState::Idle,
        CoreState::Gating,
        CoreState::Gated,
        CoreState::Charging,
        CoreState::Restoring,
        CoreState::Unused,
        CoreState::Flushing,
        CoreState::Deep1,
        CoreState::Deep2,
        CoreState::Deep3,
        CoreState::Deep4,
        CoreState::Deep5,
        CoreState::Deep6,
    ];

    /// Number of states that a core can be in while it has work.
    pub const AT_WORK: usize = CoreState::Flushing as usize + 1;

    /// Idle states deeper than a stopped clock, by place.
    pub const DEEP: [CoreState; 6] = [
        CoreState::Deep1,
        CoreState::Deep2,
        CoreState::Deep3,
        CoreState::Deep4,
        CoreState::Deep5,
        CoreState::Deep6,
    ];

    /// The place of a deeper idle state.
    #[must_use]
    pub fn deep(self) -> Option<usize> {
        (self as usize).checked_sub(CoreState::Deep1 as usize)
    }

    /// Name in ledgers and timelines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CoreState::Active => "active",
            CoreState::Stalled => "stalled",
            CoreState::Idle => "idle",
            CoreState::Gating => "gating",
            CoreState::Gated => "gated",
            CoreState::Charging => "charging",
            CoreState::Restoring => "restoring",
            CoreState::Unused => "unused",
            CoreState::Flushing => "flushing",
            CoreState::Deep1 => "deep1",
            CoreState::Deep2 => "deep2",
            CoreState::Deep3 => "deep3",
            CoreState::Deep4 => "deep4",
            CoreState::Deep5 => "deep5",
            CoreState::Deep6 => "deep6",
        }
    }
}

/// Static and clock power of a core with its private caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorePower {
    /// Leakage with the supply on, in watts.
    pub leakage_w: f64,
    /// Clock tree and latches while the pipeline moves, in watts.
    pub clock_w: f64,
    /// Clock power while it waits for memory with its clock on, in watts.
    pub stalled_clock_w: f64,
    /// Energy of each event.
    pub event_pj: CoreEvents,
}

/// Dynamic energy of a core's events, in picojoules each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreEvents {
    /// Fetching, decoding, renaming, scheduling and retiring a micro-operation.
    pub uop: f64,
    /// An integer operation in its unit.
    pub alu: f64,
    /// An integer multiplication or division.
    pub multiply: f64,
    /// A floating-point or vector operation.
    pub fp: f64,
    /// A read of the instruction cache.
    pub l1i_access: f64,
    /// A read or write of the data cache.
    pub l1d_access: f64,
    /// A read, write or fill of the second-level cache.
    pub l2_access: f64,
    /// The wrong-path work that a mispredicted branch wastes.
    pub mispredict: f64,
}

impl CorePower {
    /// Power in a state. `gating` tells what is left of the leakage when gated; `has_retention`
    /// says whether the core carries retention cells, which leak while it is on.
    #[must_use]
    pub fn in_state(&self, state: CoreState, gating: &Gating, has_retention: bool) -> Power {
        let [leakage, clock] = self.watts(state, gating, has_retention);
        Power::from_w(leakage + clock)
    }

    /// Returns the leakage part of the power in a state; the rest is the clock's.
    #[must_use]
    pub fn leakage(&self, state: CoreState, gating: &Gating, has_retention: bool) -> Power {
        Power::from_w(self.watts(state, gating, has_retention)[0])
    }

    /// Returns leakage and clock power, in watts.
    fn watts(&self, state: CoreState, gating: &Gating, has_retention: bool) -> [f64; 2] {
        let retention = if has_retention { 1.0 + gating.retention_overhead } else { 1.0 };
        let leakage = self.leakage_w * retention;
        let gated = self.leakage_w * (1.0 - gating.leakage_reduction);
        match state {
            CoreState::Active => [leakage, self.clock_w],
            // Assumption: the clock of what walks the caches is that of a stalled core.
            CoreState::Stalled | CoreState::Flushing => [leakage, self.stalled_clock_w],
            CoreState::Idle | CoreState::Gating | CoreState::Charging | CoreState::Restoring => {
                [leakage, 0.0]
            }
            // The machine's table of idle states has their power, not the gating circuit.
            CoreState::Deep1
            | CoreState::Deep2
            | CoreState::Deep3
            | CoreState::Deep4
            | CoreState::Deep5
            | CoreState::Deep6 => [leakage, 0.0],
            CoreState::Gated | CoreState::Unused => [gated, 0.0],
        }
    }
}

impl CorePower {
    /// Scales the core to a share of its voltage and frequency: dynamic energy and leakage fall
    /// with the square of the voltage, clock power also with the frequency (Strong 2013, Sec 2.4).
    #[must_use]
    pub fn at_voltage(&self, voltage: f64, frequency: f64) -> CorePower {
        let square = voltage * voltage;
        let event = &self.event_pj;
        CorePower {
            leakage_w: self.leakage_w * square,
            clock_w: self.clock_w * square * frequency,
            stalled_clock_w: self.stalled_clock_w * square * frequency,
            event_pj: CoreEvents {
                uop: event.uop * square,
                alu: event.alu * square,
                multiply: event.multiply * square,
                fp: event.fp * square,
                l1i_access: event.l1i_access * square,
                l1d_access: event.l1d_access * square,
                l2_access: event.l2_access * square,
                mispredict: event.mispredict * square,
            },
        }
    }
}

impl CoreEvents {
    /// Energy of an event given in picojoules.
    #[must_use]
    pub fn energy(picojoules: f64) -> Energy {
        Energy::from_pj(picojoules)
    }
}
