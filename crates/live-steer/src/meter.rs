//! How long a machine was in each state: what a virtual power meter needs to know. Measured.

use halfwink_engine::{Cause, Mode, Row, State as LedgerState};
use halfwink_live::program::ledger::Account;
use halfwink_policy::steering::{ASLEEP, LEVELS};
use halfwink_units::{Power, Time};
use serde::Serialize;

/// A machine's power state, as the proxy knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The machine serves.
    On,
    /// The machine was asked to sleep, and does not yet.
    GoingDown,
    /// The machine sleeps.
    Asleep,
    /// The machine was asked to wake, and does not serve yet.
    Waking,
    /// The machine cannot be reached.
    Lost,
}

/// Seconds in each state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Residency {
    /// On, by the number of requests in service; the first with none.
    pub on_s: Vec<f64>,
    /// Time going down, in seconds.
    pub going_down_s: f64,
    /// Time asleep, in seconds.
    pub asleep_s: f64,
    /// Time asleep by the level of sleep, in seconds, the first level first.
    pub asleep_by_level_s: Vec<f64>,
    /// Time waking, in seconds.
    pub waking_s: f64,
    /// Time lost, in seconds.
    pub lost_s: f64,
}

impl Residency {
    /// All together: as long as the proxy runs.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        let on: f64 = self.on_s.iter().sum();
        on + self.going_down_s + self.asleep_s + self.waking_s + self.lost_s
    }
}

/// Watts of a machine by a model: nothing here reads a power meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watts {
    /// Power when on, without requests.
    pub idle: Power,
    /// More for each request in service (Niccolini 2012, Eq 3.2).
    pub request: Power,
    /// While it changes between on and asleep.
    pub changing: Power,
    /// Power when asleep, by the level of sleep.
    pub asleep: [Power; LEVELS],
}

/// Times beside those on: going down, waking and lost by [`State`], asleep by the level.
type Times = [u64; SLOTS];

/// Levels below the first one stand behind all states.
const SLOTS: usize = State::Lost as usize + LEVELS;

const fn slot(state: State, level: usize) -> usize {
    match (state, level) {
        (State::Asleep, 1..) => State::Lost as usize + level,
        _ => state as usize,
    }
}

/// Times in states, and what they take by a model.
///
/// Energy is counted twice: in `total` as states change, with the watts of all that the machine
/// does, and in rows, from times and reasons. The ledger compares them.
#[derive(Clone, Debug)]
pub struct Meter {
    since: Time,
    on: Vec<u64>,
    other: Times,
    watts: Watts,
    total: Row,
    /// Rows up to the last change of watts, and the times of then.
    posted: Vec<(Posting, Row)>,
    posted_on: Vec<u64>,
    posted_other: Times,
}

type Posting = (LedgerState, Cause);

impl Meter {
    /// Starts a meter for a machine with `workers` workers.
    #[must_use]
    pub fn start(now: Time, workers: usize, watts: Watts) -> Meter {
        Meter {
            since: now,
            on: vec![0; workers + 1],
            other: [0; SLOTS],
            watts,
            total: Row::default(),
            posted: Vec::new(),
            posted_on: Vec::new(),
            posted_other: [0; SLOTS],
        }
    }

    /// Books the time since the last call to this state, level of sleep (from 0) and number of
    /// requests in service.
    #[inline]
    pub fn spent(&mut self, now: Time, state: State, level: usize, in_service: usize) {
        let span = Time(now.0.saturating_sub(self.since.0));
        self.since = now;
        let power = match state {
            State::On => self.watts.idle + Power(self.watts.request.0 * in_service as u64),
            State::GoingDown | State::Waking => self.watts.changing,
            State::Asleep => self.watts.asleep[level],
            State::Lost => Power(0),
        };
        self.total.time += span;
        self.total.energy += power * span;
        if state == State::On {
            if in_service >= self.on.len() {
                // More workers since a reload.
                self.on.resize(in_service + 1, 0);
            }
            self.on[in_service] += span.0;
        } else {
            self.other[slot(state, level)] += span.0;
        }
    }

    /// Books the time up to an earlier moment than now as on, if it is later than the last call's.
    #[inline]
    pub fn on_until(&mut self, edge: Time, in_service: usize) {
        if edge > self.since {
            self.spent(edge, State::On, 0, in_service);
        }
    }

    /// Other watts from now on, up to which all was told by [`Meter::spent`].
    pub fn set_watts(&mut self, watts: Watts) {
        self.posted = self.rows();
        self.posted_on.clone_from(&self.on);
        self.posted_other = self.other;
        self.watts = watts;
    }

    /// Returns the times so far, all of which were told by [`Meter::spent`], of a machine with so
    /// many levels of sleep.
    #[must_use]
    pub fn residency(&self, levels: usize) -> Residency {
        let s = |ps: &u64| *ps as f64 * 1e-12;
        let of = |state: State| s(&self.other[slot(state, 0)]);
        let asleep: Vec<f64> =
            (0..levels).map(|level| s(&self.other[slot(State::Asleep, level)])).collect();
        Residency {
            on_s: self.on.iter().map(s).collect(),
            going_down_s: of(State::GoingDown),
            asleep_s: asleep.iter().sum(),
            asleep_by_level_s: asleep,
            waking_s: of(State::Waking),
            lost_s: of(State::Lost),
        }
    }

    /// Returns the times as an account, with the states and causes of a simulated server.
    #[must_use]
    pub fn account(&self, machine: &str) -> Account {
        let rows = self.rows().into_iter().map(|((state, cause), row)| (state, cause, row));
        Account { component: machine.to_owned(), rows: rows.collect(), meter: self.total }
    }

    /// Joules as it was, and had it never slept: idle instead.
    #[must_use]
    pub fn joules(&self) -> [f64; 2] {
        let lost = State::Lost as usize;
        let changed_or_slept = self.other.iter().enumerate().filter(|(slot, _)| *slot != lost);
        let idle_s = changed_or_slept.map(|(_, &ps)| ps as f64 * 1e-12).sum::<f64>();
        let on = self.rows().into_iter().filter(|((state, _), _)| state.0 == "on");
        let on_j: f64 = on.map(|(_, row)| row.energy.as_j()).sum();
        [self.total.energy.as_j(), on_j + idle_s * self.watts.idle.as_w()]
    }

    fn rows(&self) -> Vec<(Posting, Row)> {
        let (mut on, mut served) = (0, 0);
        for (busy, &ps) in self.on.iter().enumerate() {
            let ps = ps - self.posted_on.get(busy).copied().unwrap_or_default();
            on += ps;
            served += ps * busy as u64;
        }
        let since_at = |at: usize| Time(self.other[at] - self.posted_other[at]);
        let since = |state: State| since_at(slot(state, 0));
        let row = |time: Time, power: Power| Row { time, energy: power * time };
        let watts = &self.watts;
        let serving = Row { time: Time::ZERO, ..row(Time(served), watts.request) };
        let mut rows = self.posted.clone();
        rows.extend([
            (posting("on", Mode::Idle, "on"), row(Time(on), watts.idle)),
            (posting("on", Mode::User, "requests"), serving),
            (
                posting("going-down", Mode::Kernel, "no-requests"),
                row(since(State::GoingDown), watts.changing),
            ),
        ]);
        rows.extend((0..LEVELS).map(|level| {
            let slept = since_at(slot(State::Asleep, level));
            let posting = posting(ASLEEP[level], Mode::Idle, "no-requests");
            (posting, row(slept, watts.asleep[level]))
        }));
        rows.extend([
            (
                posting("waking", Mode::Kernel, "requests"),
                row(since(State::Waking), watts.changing),
            ),
            (posting("lost", Mode::Idle, "unreachable"), row(since(State::Lost), Power(0))),
        ]);
        merge(rows)
    }
}

const fn posting(state: &'static str, mode: Mode, reason: &'static str) -> Posting {
    (LedgerState(state), Cause { mode, reason })
}

/// One row for each state and cause, in the order in which they came first.
fn merge(rows: Vec<(Posting, Row)>) -> Vec<(Posting, Row)> {
    let mut merged: Vec<(Posting, Row)> = Vec::new();
    for (posting, row) in rows {
        match merged.iter_mut().find(|(known, _)| *known == posting) {
            Some((_, sum)) => {
                sum.time += row.time;
                sum.energy += row.energy;
            }
            None => merged.push((posting, row)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_live::program::ledger::close;

    const WATTS: Watts = Watts {
        idle: Power(100_000_000),
        request: Power(25_000_000),
        changing: Power(80_000_000),
        asleep: [Power(5_000_000), Power(1_000_000), Power(0), Power(0)],
    };

    fn played() -> Meter {
        let mut meter = Meter::start(Time::ZERO, 2, WATTS);
        meter.spent(Time::ns(1_000_000), State::On, 0, 0);
        meter.spent(Time::ns(3_000_000), State::On, 0, 2);
        meter.spent(Time::ns(4_000_000), State::GoingDown, 0, 1);
        meter.spent(Time::ns(5_000_000), State::Asleep, 0, 1);
        meter.spent(Time::ns(6_000_000), State::Asleep, 1, 1);
        meter.spent(Time::ns(7_000_000), State::Waking, 1, 1);
        meter.spent(Time::ns(9_000_000), State::Lost, 0, 1);
        meter.spent(Time::ns(10_000_000), State::On, 0, 3);
        meter
    }

    #[test]
    fn every_moment_is_somewhere() {
        let r = played().residency(2);
        assert_eq!(r.asleep_by_level_s, [0.001, 0.001]);
        assert_eq!(r.on_s, [0.001, 0.0, 0.002, 0.001]);
        assert_eq!(
            (r.going_down_s, r.asleep_s, r.waking_s, r.lost_s),
            (0.001, 0.002, 0.001, 0.002)
        );
        assert!((r.total_s() - 0.01).abs() < 1e-12);
    }

    #[test]
    fn joules_balance_also_where_watts_change() {
        let mut meter = played();
        // By hand, in millijoules: on 4 ms x 100 W, requests (2 x 2 + 3 x 1) ms x 25 W, changing
        // 2 ms x 80 W, asleep 1 ms x 5 W and 1 ms x 1 W.
        let by_hand = 400.0 + 175.0 + 160.0 + 5.0 + 1.0;
        let balance = close(Time::ns(10_000_000).into(), vec![meter.account("big")], None);
        assert_eq!(balance.imbalance, None);
        assert!((balance.energy_j.unwrap() * 1e3 - by_hand).abs() < 1e-9, "{balance:?}");
        // Never asleep: the 4 ms in which it changed or slept at 100 W.
        let [joules, awake] = meter.joules();
        assert!((joules * 1e3 - by_hand).abs() < 1e-9 && (awake * 1e3 - 975.0).abs() < 1e-9);
        meter.set_watts(Watts { asleep: [Power(50_000_000); LEVELS], ..WATTS });
        meter.spent(Time::ns(11_000_000), State::Asleep, 0, 0);
        let balance = close(Time::ns(11_000_000).into(), vec![meter.account("big")], None);
        assert_eq!(balance.imbalance, None);
        assert!((balance.energy_j.unwrap() * 1e3 - by_hand - 50.0).abs() < 1e-9, "{balance:?}");
        let asleep: Vec<_> = balance.rows.iter().filter(|r| r.state == "asleep").collect();
        assert_eq!(asleep.len(), 1, "one row for each state and cause: {asleep:?}");
    }
}
