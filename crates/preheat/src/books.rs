//! Accounts of a run: what each component draws, and why.

use halfwink_engine::{Cause, Closed, Imbalance, Ledger, Mode, Row, State};
use halfwink_units::{Energy, Power, Time};

/// State of a component, and its cause.
pub type Doing = (State, Cause);

/// A component's meter and rows. They are counted apart: the meter whenever its power changes, the
/// rows for each thing that it did.
#[derive(Clone, Debug)]
struct Component {
    name: String,
    meter: Row,
    power: Power,
    since: Time,
    rows: Vec<(Doing, Row)>,
    doing: Doing,
    from: Time,
}

/// All components of a node.
#[derive(Clone, Debug)]
pub struct Books {
    components: Vec<Component>,
}

/// Returns the cause of work that no request needs.
pub const fn idle(reason: &'static str) -> Cause {
    Cause { mode: Mode::Idle, reason }
}

/// Returns the cause of work for a request.
pub const fn request(reason: &'static str) -> Cause {
    Cause { mode: Mode::User, reason }
}

/// Returns the cause of the kernel's work.
pub const fn kernel(reason: &'static str) -> Cause {
    Cause { mode: Mode::Kernel, reason }
}

impl Books {
    /// Components that all do the same at the start, at zero.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>, power: Power, doing: Doing) -> Books {
        let component = |name| Component {
            name,
            meter: Row::default(),
            power,
            since: Time::ZERO,
            rows: Vec::new(),
            doing,
            from: Time::ZERO,
        };
        Books { components: names.into_iter().map(component).collect() }
    }

    /// Changes the state and power of a component at `at`.
    pub fn turn(&mut self, component: usize, at: Time, power: Power, doing: Doing) {
        let c = &mut self.components[component];
        // Rows are posted with the power that the time was spent at; the meter runs on its own.
        let spent = at.saturating_sub(c.from);
        let row = Row { time: spent, energy: c.power * spent };
        c.post(row);
        (c.doing, c.from) = (doing, at);
        c.advance(at);
        c.power = power;
    }

    /// Energy of events, beside what is drawn all the time.
    pub fn event(&mut self, component: usize, doing: Doing, energy: Energy) {
        let c = &mut self.components[component];
        c.meter.energy += energy;
        let row = Row { time: Time::ZERO, energy };
        match c.rows.iter_mut().find(|(known, _)| *known == doing) {
            Some((_, sum)) => sum.energy += row.energy,
            None => c.rows.push((doing, row)),
        }
    }

    /// Returns the time up to which the state of the components is known.
    #[must_use]
    pub fn latest(&self) -> Time {
        self.components.iter().map(|c| c.from).max().unwrap_or_default()
    }

    /// Returns the energy of all components from the start until `at`, by the meters. What is known
    /// of a component beyond `at` is in it.
    #[must_use]
    pub fn energy(&self, at: Time) -> Energy {
        let of = |c: &Component| c.meter.energy + c.power * at.saturating_sub(c.since);
        self.components.iter().map(of).sum()
    }

    /// Closes the accounts at `end`, and returns the balanced ledger.
    ///
    /// # Errors
    /// If rows and meters differ.
    pub fn close(mut self, end: Time) -> Result<Closed, Imbalance> {
        let mut ledger = Ledger::new();
        for c in &mut self.components {
            let spent = end.saturating_sub(c.from);
            c.post(Row { time: spent, energy: c.power * spent });
            c.advance(end);
            let id = ledger.component(c.name.clone(), c.meter);
            for ((state, cause), row) in &c.rows {
                ledger.post(id, *state, *cause, *row);
            }
        }
        ledger.close(end)
    }
}

impl Component {
    fn advance(&mut self, at: Time) {
        let spent = at.saturating_sub(self.since);
        self.meter.time += spent;
        self.meter.energy += self.power * spent;
        self.since = self.since.max(at);
    }

    fn post(&mut self, row: Row) {
        match self.rows.iter_mut().find(|(known, _)| *known == self.doing) {
            Some((_, sum)) => {
                sum.time += row.time;
                sum.energy += row.energy;
            }
            None => self.rows.push((self.doing, row)),
        }
    }
}
