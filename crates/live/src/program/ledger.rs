//! Accounts of a live run: measured times in states with the watts of a model, through the same
//! double-entry ledger as a simulated run's.
//!
//! A simulated world has one clock, so its rows fill the run to the picosecond. Here they cannot:
//! each component reads a clock of its own, at its own moments, and any clock may step. So up to
//! [`tolerance`] a gap is posted as what it is, a row `unaccounted` without energy; beyond it the
//! accounts do not balance, and say so. Energy has no such excuse: what a component's meter says
//! must be the sum of its rows.

use std::time::Instant;

use halfwink_engine::{Cause, Closed, Ledger, Meter, Mode, Row, State};
use halfwink_units::{Energy, Time};
use serde::Serialize;

use super::report::Column;

/// Time that no state of a component accounts for.
const UNACCOUNTED: State = State("unaccounted");
const CLOCKS: Cause = Cause { mode: Mode::Idle, reason: "clocks-differ" };
/// Two counts of the same joules in floating point agree so well.
const ENERGY_SHARE: f64 = 1e-6;

/// A component's rows, and what counted the same apart from them.
#[derive(Clone, Debug)]
pub struct Account {
    /// Name of the component (`core0`, `big`).
    pub component: String,
    /// States with their causes, times and modelled energies.
    pub rows: Vec<(State, Cause, Row)>,
    /// Meter of the component. Time: of the states that it went through.
    pub meter: Meter,
}

impl Account {
    /// A component that has no meter of its own: its rows are all there is.
    #[must_use]
    pub fn of(component: impl Into<String>, rows: Vec<(State, Cause, Row)>) -> Account {
        let meter = sum(&rows);
        Account { component: component.into(), rows, meter }
    }

    /// Posts what is missing of the run's length.
    fn fill(&mut self, duration: Time) {
        let time = Time(duration.0 - sum(&self.rows).time.0);
        self.rows.push((UNACCOUNTED, CLOCKS, Row { time, ..Row::default() }));
        self.meter.time += time;
    }
}

/// The accounts of a run. Times are measured, joules are modelled.
#[derive(Clone, Debug, Serialize)]
pub struct Balance {
    /// Length of the run by the kernel's monotonic clock, in seconds.
    pub duration_s: f64,
    /// Energy of all components, modelled; null without a model.
    pub energy_j: Option<f64>,
    /// Allowed difference between times and length, in seconds.
    pub tolerance_s: f64,
    /// Largest difference of a component, in seconds.
    pub gap_s: f64,
    /// Reason why the accounts do not balance; null if they do.
    pub imbalance: Option<String>,
    /// Component, state, mode, cause, time and energy.
    pub rows: Vec<LedgerRow>,
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerRow {
    /// Name of the component.
    pub component: String,
    /// State of the component.
    pub state: &'static str,
    /// Mode of the work: `user`, `kernel`, `idle`.
    pub mode: &'static str,
    /// Cause of the state.
    pub cause: &'static str,
    /// Measured time, in seconds.
    pub time_s: f64,
    /// Modelled energy, in joules; null without a model.
    pub energy_j: Option<f64>,
}

/// Length of a run, by the kernel's monotonic clock. Components are read one after another while
/// other programs may take the processor, so the length is known within the times of the reading's
/// begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Time from the latest possible begin to the first reading.
    pub least: Time,
    /// Time from the earliest possible begin to the last reading.
    pub most: Time,
}

impl Length {
    /// Measures a run that began between two moments, while `read` reads its components.
    pub fn while_reading<T>(
        [earliest, latest]: [Instant; 2],
        read: impl FnOnce() -> T,
    ) -> (T, Length) {
        let least = latest.elapsed();
        let result = read();
        let [least, most] = [least, earliest.elapsed()].map(|d| Time(d.as_nanos() as u64 * 1000));
        (result, Length { least, most })
    }

    /// Returns the distance of a time from the possible range.
    fn gap(self, time: Time) -> Time {
        Time(time.0.abs_diff(time.clamp(self.least, self.most).0))
    }
}

impl From<Time> for Length {
    fn from(known: Time) -> Length {
        Length { least: known, most: known }
    }
}

/// Returns the allowed difference between a component's times and the length of the run: a
/// thousandth of it, and a millisecond for the moments at which clocks are read.
#[must_use]
pub fn tolerance(wall: Time) -> Time {
    Time(wall.0 / 1000 + 1_000_000_000)
}

/// Closes the accounts of a run of such a length. `modelled_j`: energy of all components together,
/// where the model has a formula for it that does not go by rows.
#[must_use]
pub fn close(length: Length, mut accounts: Vec<Account>, modelled_j: Option<f64>) -> Balance {
    let held = |account: &Account| sum(&account.rows).time;
    let allowed = tolerance(length.most);
    let gap = accounts.iter().map(|a| length.gap(held(a))).max().unwrap_or_default();
    let mut imbalance = step(length, &accounts, allowed);
    // Whose clock ran ahead sets the length, so that no row has less than no time.
    let duration = accounts.iter().map(held).fold(length.least, Time::max);
    if imbalance.is_none() {
        accounts.iter_mut().for_each(|account| account.fill(duration));
    }
    let rows: Vec<LedgerRow> = accounts.iter().flat_map(named).collect();
    let energy: Energy = accounts.iter().map(|account| sum(&account.rows).energy).sum();
    let energy_j = energy.as_j();
    imbalance = imbalance
        .or_else(|| formula(energy_j, modelled_j))
        .or_else(|| post(accounts, duration).err());
    Balance {
        duration_s: duration.clamp(length.least, length.most).as_s(),
        energy_j: Some(energy_j),
        tolerance_s: allowed.as_s(),
        gap_s: gap.as_s(),
        imbalance,
        rows,
    }
}

/// The first component whose times are too far from the length of the run.
fn step(length: Length, accounts: &[Account], allowed: Time) -> Option<String> {
    accounts.iter().find_map(|account| {
        let held = sum(&account.rows).time;
        (length.gap(held) > allowed).then(|| {
            format!(
                "the ledger of {} does not balance: its states hold {held} of {}, expected \
                 within {allowed}; has a clock stepped?",
                account.component, length.most
            )
        })
    })
}

fn formula(energy_j: f64, modelled_j: Option<f64>) -> Option<String> {
    let modelled_j = modelled_j?;
    let differ = (energy_j - modelled_j).abs() > ENERGY_SHARE * modelled_j.abs();
    differ.then(|| {
        format!("the ledger does not balance: its rows hold {energy_j} J, the model {modelled_j} J")
    })
}

/// Posts all rows; the engine judges.
fn post(accounts: Vec<Account>, duration: Time) -> Result<Closed, String> {
    let mut ledger = Ledger::new();
    for Account { component, rows, meter } in accounts {
        let id = ledger.component(component, meter);
        rows.into_iter().for_each(|(state, cause, row)| ledger.post(id, state, cause, row));
    }
    ledger.close(duration).map_err(|imbalance| imbalance.to_string())
}

fn sum(rows: &[(State, Cause, Row)]) -> Row {
    rows.iter().fold(Row::default(), |sum, (_, _, row)| Row {
        time: sum.time + row.time,
        energy: [sum.energy, row.energy].into_iter().sum(),
    })
}

fn named(account: &Account) -> Vec<LedgerRow> {
    let row = |&(state, cause, row): &(State, Cause, Row)| LedgerRow {
        component: account.component.clone(),
        state: state.0,
        mode: cause.mode.name(),
        cause: cause.reason,
        time_s: row.time.as_s(),
        energy_j: Some(row.energy.as_j()),
    };
    account.rows.iter().filter(|(_, _, row)| *row != Row::default()).map(row).collect()
}

impl Balance {
    /// Drops all energies: the run had no model, so its rows hold measured times alone.
    #[must_use]
    pub fn without_energy(mut self) -> Balance {
        self.energy_j = None;
        self.rows.iter_mut().for_each(|row| row.energy_j = None);
        self
    }

    /// Columns of the ledger's table; without a model there is none of energy.
    #[must_use]
    pub fn table(&self) -> Vec<Column> {
        fn column<T: Into<serde_json::Value>>(
            rows: &[LedgerRow],
            of: impl Fn(&LedgerRow) -> T,
        ) -> Vec<serde_json::Value> {
            rows.iter().map(|row| of(row).into()).collect()
        }
        let rows = &self.rows;
        let mut columns = vec![
            ("component", "text", column(rows, |row| row.component.as_str().to_owned())),
            ("state", "text", column(rows, |row| row.state)),
            ("mode", "text", column(rows, |row| row.mode)),
            ("cause", "text", column(rows, |row| row.cause)),
            ("time_s", "real", column(rows, |row| row.time_s)),
        ];
        if self.energy_j.is_some() {
            columns.push(("energy_j", "real", column(rows, |row| row.energy_j)));
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_units::Power;

    const BUSY: (State, Cause) = (State("busy"), Cause { mode: Mode::User, reason: "requests" });
    const IDLE: (State, Cause) = (State("idle"), Cause { mode: Mode::Idle, reason: "nothing" });

    fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000_000)
    }

    fn second() -> Length {
        ms(1000).into()
    }

    fn row((state, cause): (State, Cause), time: Time, watts: f64) -> (State, Cause, Row) {
        (state, cause, Row { time, energy: Power::from_w(watts) * time })
    }

    fn machine(busy: Time, idle: Time) -> Account {
        Account::of("big", vec![row(BUSY, busy, 100.0), row(IDLE, idle, 10.0)])
    }

    #[test]
    fn states_that_fill_the_run_balance() {
        let balance = close(second(), vec![machine(ms(250), ms(750))], Some(32.5));
        assert_eq!(balance.imbalance, None);
        assert_eq!((balance.energy_j, balance.gap_s), (Some(32.5), 0.0));
        let names: Vec<_> = balance.rows.iter().map(|r| (r.state, r.mode, r.time_s)).collect();
        assert_eq!(names, [("busy", "user", 0.25), ("idle", "idle", 0.75)]);
        let columns: Vec<_> = balance.table().iter().map(|column| column.0).collect();
        assert_eq!(columns, ["component", "state", "mode", "cause", "time_s", "energy_j"]);
    }

    #[test]
    fn a_small_gap_is_a_row_of_its_own() {
        let balance = close(second(), vec![machine(ms(250), ms(749))], None);
        assert_eq!(balance.imbalance, None);
        let last = balance.rows.last().unwrap();
        assert_eq!(
            (last.state, last.cause, last.energy_j),
            ("unaccounted", "clocks-differ", Some(0.0))
        );
        assert!((last.time_s - 1e-3).abs() < 1e-12 && (balance.gap_s - 1e-3).abs() < 1e-12);
        // A clock that ran ahead makes the run longer for the others.
        let ahead = close(second(), vec![machine(ms(1), ms(1000)), machine(ms(0), ms(1000))], None);
        assert_eq!(ahead.imbalance, None);
        assert_eq!(ahead.rows.iter().filter(|r| r.state == "unaccounted").count(), 1);
    }

    #[test]
    fn a_clock_that_stepped_is_said() {
        for idle in [ms(747), ms(753)] {
            let balance = close(second(), vec![machine(ms(250), idle)], None);
            let why = balance.imbalance.unwrap();
            assert!(why.contains("ledger of big") && why.contains("stepped"), "{why}");
            assert!(balance.rows.iter().all(|row| row.state != "unaccounted"));
        }
    }

    #[test]
    fn a_reader_that_was_kept_from_reading_is_no_gap() {
        let length = Length { least: ms(1000), most: ms(1008) };
        for held in [999, 1000, 1004, 1008, 1009] {
            let balance = close(length, vec![machine(ms(250), ms(held - 250))], None);
            assert_eq!(balance.imbalance, None, "{held}");
            assert!((1.0..=1.008).contains(&balance.duration_s), "{held}");
        }
        for held in [997, 1011] {
            let balance = close(length, vec![machine(ms(250), ms(held - 250))], None);
            assert!(balance.imbalance.is_some() && (balance.gap_s - 3e-3).abs() < 1e-12, "{held}");
        }
    }

    #[test]
    fn energy_has_no_tolerance_of_its_own() {
        let mut account = machine(ms(250), ms(750));
        account.meter.energy = [account.meter.energy, Energy(1)].into_iter().sum();
        let why = close(second(), vec![account], None).imbalance.unwrap();
        assert!(why.contains("ledger of big does not balance"), "{why}");
        let why = close(second(), vec![machine(ms(250), ms(750))], Some(33.0)).imbalance.unwrap();
        assert!(why.contains("the model 33 J"), "{why}");
    }
}
