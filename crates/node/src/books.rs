//! Time and energy of each core, by what it did, in the window that is counted.
//!
//! Rows say how long a core was in each state. Its meter is another count: it runs on from the
//! time of the last change, so that a span which no row covers, or two do, is an imbalance.

use halfwink_engine::{Cause, Closed, Imbalance, Ledger, Mode, Row, State};
use halfwink_units::{Energy, Power, Time};

/// Serves a request.
pub(crate) const REQUEST: usize = 0;
/// Waits for lines that a sleep has lost.
pub(crate) const COLD: usize = 1;
/// Works for the kernel alone.
pub(crate) const BACKGROUND: usize = 2;
/// Handles a tick.
pub(crate) const TICK: usize = 3;
/// Leaves an idle state.
pub(crate) const WAKING: usize = 4;
/// Handles an announcement, and loads lines that a sleep has lost.
pub(crate) const PREHEAT: usize = 5;
/// Runs kernel code of a request, on a core of the kernel.
pub(crate) const VISIT: usize = 6;
/// The first idle state; others follow.
pub(crate) const IDLE: usize = 7;

/// The span that is counted, in slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) slice: Time,
}

impl Window {
    /// Slice that a time in the window lies in.
    #[inline]
    pub(crate) fn slice_of(&self, at: Time, slices: usize) -> usize {
        (((at - self.start).0 / self.slice.0) as usize).min(slices - 1)
    }
}

/// Account of one component whose power changes.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    rows: Vec<Time>,
    meter: Energy,
    at: Time,
    slice: usize,
    slice_end: Time,
}

impl Account {
    pub(crate) fn new(window: &Window, kinds: usize) -> Account {
        Account {
            rows: vec![Time::ZERO; kinds],
            meter: Energy(0),
            at: window.start,
            slice: 0,
            slice_end: window.start + window.slice,
        }
    }

    /// The component was like this from one time to another.
    #[inline]
    pub(crate) fn post(
        &mut self,
        window: &Window,
        slices: &mut [u128],
        (kind, power): (usize, Power),
        from: Time,
        to: Time,
    ) {
        let (from, to) = (from.max(window.start), to.min(window.end));
        if from >= to {
            return;
        }
        self.rows[kind] += to - from;
        self.meter += power * to.saturating_sub(self.at);
        self.at = to;
        let mut since = from;
        while to > self.slice_end && self.slice + 1 < slices.len() {
            slices[self.slice] += (power * self.slice_end.saturating_sub(since)).0;
            since = since.max(self.slice_end);
            self.slice += 1;
            self.slice_end += window.slice;
        }
        slices[self.slice] += (power * (to - since)).0;
    }

    pub(crate) fn time(&self, kind: usize) -> Time {
        self.rows[kind]
    }

    pub(crate) fn meter(&self, window: &Window) -> Row {
        Row { time: self.at - window.start, energy: self.meter }
    }
}

/// Accounts of all cores.
pub(crate) struct Books {
    pub(crate) window: Window,
    /// Energy of all that was posted, in attojoules, by slice.
    pub(crate) slices: Vec<u128>,
    pub(crate) cores: Vec<Account>,
    /// Power of each kind.
    power: Vec<Power>,
    /// Power of each kind on cores of the kernel, and the number of the first of them.
    kernel: (Vec<Power>, usize),
    names: Vec<&'static str>,
}

impl Books {
    pub(crate) fn new(
        window: Window,
        slices: usize,
        cores: usize,
        power: Vec<Power>,
        kernel: (Vec<Power>, usize),
        names: Vec<&'static str>,
    ) -> Books {
        let account = Account::new(&window, power.len());
        let (slices, cores) = (vec![0; slices], vec![account; cores]);
        Books { window, slices, cores, power, kernel, names }
    }

    #[inline]
    fn power(&self, core: usize) -> &[Power] {
        let (power, first) = &self.kernel;
        if core < *first {
            &self.power
        } else {
            power
        }
    }

    #[inline]
    pub(crate) fn post(&mut self, core: usize, kind: usize, from: Time, to: Time) {
        let with = (kind, self.power(core)[kind]);
        self.cores[core].post(&self.window, &mut self.slices, with, from, to);
    }

    /// Time of all cores in a kind.
    pub(crate) fn total(&self, kind: usize) -> Time {
        Time(self.cores.iter().map(|core| core.time(kind).0).sum())
    }

    /// Adds the cores to a ledger; a share of the time with requests is the user's.
    pub(crate) fn enter(&self, ledger: &mut Ledger, user_share: f64) {
        for (n, core) in self.cores.iter().enumerate() {
            let id = ledger.component(format!("core{n}"), core.meter(&self.window));
            let mut post = |kind: usize, state, mode, reason, time: Time| {
                let energy = self.power(n)[kind] * time;
                ledger.post(id, State(state), Cause { mode, reason }, Row { time, energy });
            };
            let requests = core.time(REQUEST);
            let user = Time((requests.0 as f64 * user_share) as u64);
            post(REQUEST, "busy", Mode::User, "request", user);
            post(REQUEST, "busy", Mode::Kernel, "request", requests - user);
            post(VISIT, "busy", Mode::Kernel, "moved", core.time(VISIT));
            post(COLD, "busy", Mode::User, "cold", core.time(COLD));
            post(BACKGROUND, "busy", Mode::Kernel, "background", core.time(BACKGROUND));
            post(TICK, "busy", Mode::Kernel, "tick", core.time(TICK));
            post(PREHEAT, "busy", Mode::Kernel, "preheat", core.time(PREHEAT));
            post(WAKING, "waking", Mode::Kernel, "wake-up", core.time(WAKING));
            for (state, name) in self.names.iter().enumerate() {
                let time = core.time(IDLE + state);
                post(IDLE + state, name, Mode::Idle, "no-request", time);
            }
        }
    }

    pub(crate) fn close(&self, ledger: Ledger) -> Result<Closed, Imbalance> {
        ledger.close(self.window.end - self.window.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { start: Time(100), end: Time(500), slice: Time(100) };

    fn closes(spans: &[(usize, u64, u64)]) -> Result<Vec<u128>, Imbalance> {
        let power = vec![Power(2); IDLE + 1];
        let mut books = Books::new(WINDOW, 4, 1, power, (Vec::new(), 1), vec!["poll"]);
        for &(kind, from, to) in spans {
            books.post(0, kind, Time(from), Time(to));
        }
        let mut ledger = Ledger::new();
        books.enter(&mut ledger, 0.5);
        books.close(ledger).map(|_| books.slices.clone())
    }

    #[test]
    fn spans_are_clipped_and_cut_into_slices() {
        let slices = closes(&[(REQUEST, 0, 150), (IDLE, 150, 420), (COLD, 420, 900)]).unwrap();
        assert_eq!(slices, [200, 200, 200, 200]);
    }

    #[test]
    fn gap_or_overlap_is_an_imbalance() {
        assert!(closes(&[(REQUEST, 0, 150), (IDLE, 160, 900)]).is_err());
        assert!(closes(&[(REQUEST, 0, 150), (IDLE, 140, 900)]).is_err());
        assert!(closes(&[(REQUEST, 0, 150)]).is_err());
    }
}
