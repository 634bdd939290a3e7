//! Double-entry accounts of time and energy.
//!
//! Each component of a world has a [`Meter`], which the component itself runs as its power state
//! changes and its events happen, and rows in the [`Ledger`], which say why. The two are counted by
//! different code; [`Ledger::close`] fails a run in which they do not agree to the picosecond and
//! the attojoule.

use std::collections::BTreeMap;

use halfwink_units::{Energy, Time};

/// A component of a world (`core0`, `l3`, `dram`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(usize);

/// Power state of a component (`active`, `gated`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State(pub &'static str);

/// Privilege of the work that a component did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Code of a user program.
    User,
    /// Kernel code, for whichever program.
    Kernel,
    /// No work was present.
    Idle,
}

impl Mode {
    /// Returns the name that tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::User => "user",
            Mode::Kernel => "kernel",
            Mode::Idle => "idle",
        }
    }
}

/// Reason for a state (`memory-stall`), and the privilege of the work behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    /// Privilege of the work that caused the state.
    pub mode: Mode,
    /// Reason within that work.
    pub reason: &'static str,
}

/// Key of a ledger row, to which time and energy are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Component that the time and energy belong to.
    pub component: ComponentId,
    /// The power state that it was in.
    pub state: State,
    /// Cause of the state.
    pub cause: Cause,
}

/// Sums of a row, or of a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Time in the state.
    pub time: Time,
    /// Energy used in the state.
    pub energy: Energy,
}

/// Time and energy that a component's own meter counted.
pub type Meter = Row;

/// The accounts of a run that is being closed.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    components: Vec<(String, Meter)>,
    rows: BTreeMap<RowKey, Row>,
}

/// The balanced accounts of a finished run.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Names and totals of the components.
    pub components: Vec<(String, Meter)>,
    /// All rows that hold anything.
    pub rows: BTreeMap<RowKey, Row>,
    /// Length of the run.
    pub duration: Time,
}

/// Rows and meter of a component differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ledger of {component} does not balance: its rows hold {} and {}, its meter {} and {} \
     (time and energy)",
    .rows.time, joules(.rows), .meter.time, joules(.meter)
)]
pub struct Imbalance {
    /// Name of the first component that does not balance.
    pub component: String,
    /// Sum of its rows.
    pub rows: Row,
    /// Reading of the component's meter; for the time, the length of the run.
    pub meter: Row,
}

fn joules(row: &Row) -> String {
    format!("{} J", row.energy.as_j())
}

impl Ledger {
    /// Creates a ledger without components.
    #[must_use]
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// Adds a component with what its meter says at the end of the run.
    pub fn component(&mut self, name: impl Into<String>, meter: Meter) -> ComponentId {
        self.components.push((name.into(), meter));
        ComponentId(self.components.len() - 1)
    }

    /// Adds time and energy to a row.
    pub fn post(&mut self, component: ComponentId, state: State, cause: Cause, row: Row) {
        if row == Row::default() {
            return;
        }
        let entry = self.rows.entry(RowKey { component, state, cause }).or_default();
        entry.time += row.time;
        entry.energy += row.energy;
    }

    /// Balances the books of a run that lasted `duration`.
    ///
    /// # Errors
    /// The first component whose rows do not sum to its meter, or do not fill the run.
    pub fn close(self, duration: Time) -> Result<Closed, Imbalance> {
        let mut sums = vec![Row::default(); self.components.len()];
        for (key, row) in &self.rows {
            sums[key.component.0].time += row.time;
            sums[key.component.0].energy += row.energy;
        }
        // Equal, not nearly: whole picoseconds and attojoules have no rounding that could excuse a
        // difference, so the smallest one is a state or an event that nobody accounts for.
        for ((name, meter), &rows) in self.components.iter().zip(&sums) {
            if rows != *meter || rows.time != duration {
                let mut meter = *meter;
                if rows.time != duration {
                    meter.time = duration;
                }
                return Err(Imbalance { component: name.clone(), rows, meter });
            }
        }
        Ok(Closed { components: self.components, rows: self.rows, duration })
    }
}

impl Closed {
    /// Rows with the names of their components.
    pub fn named_rows(&self) -> impl Iterator<Item = (&str, State, Cause, Row)> {
        self.rows.iter().map(|(key, row)| {
            (self.components[key.component.0].0.as_str(), key.state, key.cause, *row)
        })
    }

    /// Energy of all components whose name satisfies `select`.
    pub fn energy_where(&self, select: impl Fn(&str) -> bool) -> Energy {
        let selected = self.components.iter().filter(|(name, _)| select(name));
        selected.map(|(_, meter)| meter.energy).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: State = State("active");
    const WORK: Cause = Cause { mode: Mode::User, reason: "base" };

    fn row(time: u64, energy: u128) -> Row {
        Row { time: Time(time), energy: Energy(energy) }
    }

    #[test]
    fn balanced_ledger_closes_and_sums_rows() {
        let mut ledger = Ledger::new();
        let core = ledger.component("core0", row(10, 7));
        ledger.post(core, ACTIVE, WORK, row(4, 5));
        ledger.post(core, State("gated"), WORK, row(6, 2));
        ledger.post(core, State("gated"), WORK, row(0, 0));
        let closed = ledger.close(Time(10)).unwrap();
        assert_eq!(closed.rows.len(), 2);
        assert_eq!(closed.energy_where(|name| name == "core0"), Energy(7));
    }

    #[test]
    fn a_missing_attojoule_fails_the_run() {
        let mut ledger = Ledger::new();
        let core = ledger.component("core0", row(10, 7));
        ledger.post(core, ACTIVE, WORK, row(10, 6));
        let error = ledger.close(Time(10)).unwrap_err();
        assert_eq!(error.component, "core0");
        assert!(error.to_string().contains("core0 does not balance"), "{error}");
    }

    #[test]
    fn a_missing_picosecond_fails_the_run() {
        let mut ledger = Ledger::new();
        let core = ledger.component("core0", row(9, 7));
        ledger.post(core, ACTIVE, WORK, row(9, 7));
        assert!(ledger.close(Time(10)).is_err());
    }
}
