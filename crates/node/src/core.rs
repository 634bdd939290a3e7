//! What a core does, step by step. Both engines call these steps in the same order for a core.

use halfwink_units::Time;

use crate::books::{Books, BACKGROUND, COLD, IDLE, REQUEST, TICK, WAKING};
use crate::governor::{Governor, Resting};
use crate::run::{RunError, Tally};
use crate::source::{rank, Item, Kind};
use halfwink_techniques::node::machine::Machine;

/// A core without a rest.
const AWAKE: Resting = Resting { state: 0, due: Time::NEVER, wakes: false };

/// A core.
pub(crate) struct Core {
    governor: Governor,
    pub(crate) rest: Resting,
    /// Start of the present part of its rest.
    since: Time,
    /// Time at which all that it was given is done.
    pub(crate) free: Time,
    /// Time that the next request takes longer, for what sleeps have lost.
    cold: Time,
    ticks: u64,
}

/// What a governor's timer led to.
pub(crate) enum Rang {
    /// The core handles a tick until then.
    Tick(Time),
    /// It rests on.
    Resting,
}

/// Cores, accounts and counts of a run.
pub(crate) struct Cores<'a> {
    machine: &'a Machine,
    pub(crate) books: Books,
    pub(crate) cores: Vec<Core>,
    pub(crate) tally: Tally,
    /// Time that a request takes longer after each idle state.
    extra: Vec<Time>,
}

impl<'a> Cores<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        books: Books,
        governors: Vec<Governor>,
        tally: Tally,
        extra: Vec<Time>,
    ) -> Cores<'a> {
        let core = |governor| Core {
            governor,
            rest: AWAKE,
            since: Time::ZERO,
            free: Time::ZERO,
            cold: Time::ZERO,
            ticks: 0,
        };
        Cores { machine, books, cores: governors.into_iter().map(core).collect(), tally, extra }
    }

    /// The core has nothing to do.
    pub(crate) fn begin_rest(&mut self, n: usize, now: Time) -> Result<(), RunError> {
        let core = &mut self.cores[n];
        core.rest = core.governor.begin(now)?;
        core.since = now;
        Ok(())
    }

    /// The governor's timer is due.
    pub(crate) fn ring(&mut self, n: usize, now: Time, least: Time) -> Result<Rang, RunError> {
        let core = &mut self.cores[n];
        let Resting { state, wakes, .. } = core.rest;
        self.books.post(n, IDLE + state, core.since, now);
        core.since = now;
        if !wakes {
            core.rest = core.governor.ring(now)?;
            return Ok(Rang::Resting);
        }
        core.ticks += 1;
        let id = core.ticks << 16 | n as u64;
        let ready = now + self.leave(n, state, id, least);
        self.books.post(n, WAKING, now, ready);
        let resumed = ready + self.machine.tick_work;
        self.books.post(n, TICK, ready, resumed);
        let core = &mut self.cores[n];
        core.governor.ticked(ready);
        (core.rest, core.free) = (AWAKE, resumed);
        self.tally.ticks += 1;
        Ok(Rang::Tick(resumed))
    }

    /// Work has come for a core that rests; when it runs.
    pub(crate) fn wake(&mut self, n: usize, now: Time, id: u64, least: Time) -> Time {
        let core = &mut self.cores[n];
        let state = core.rest.state;
        let (since, hindsight) = (core.since, core.governor.end(now));
        if let Some(past) = hindsight {
            // The wake-up was over in time, so nothing waits for it.
            let gated = core.governor.gated();
            self.books.post(n, IDLE + state, since, past.gate);
            self.books.post(n, IDLE + gated, past.gate.max(since), past.wake);
            self.books.post(n, WAKING, past.wake, now);
            self.tally.wakes[gated] += 1;
            self.cores[n].rest = AWAKE;
            return now;
        }
        self.books.post(n, IDLE + state, since, now);
        let ready = now + self.leave(n, state, id, least);
        self.books.post(n, WAKING, now, ready);
        let core = &mut self.cores[n];
        core.governor.woken(ready);
        core.rest = AWAKE;
        ready
    }

    /// Time to leave a state, at least as long as the package takes; notes what is lost.
    fn leave(&mut self, n: usize, state: usize, id: u64, least: Time) -> Time {
        self.tally.wakes[state] += 1;
        let core = &mut self.cores[n];
        core.cold = core.cold.max(self.extra[state]);
        let [low, high] = self.machine.states[state].wake;
        let span = (high - low).0;
        let drawn = if span == 0 { low } else { low + Time((span as f64 * rank(id)) as u64) };
        drawn.max(least)
    }

    /// The core works on this from `start`; when it is done.
    #[inline]
    pub(crate) fn work(&mut self, n: usize, start: Time, item: &Item) -> Time {
        let core = &mut self.cores[n];
        match item.kind {
            Kind::Request => {
                let cold = std::mem::take(&mut core.cold);
                let warm = start + cold;
                let done = warm + item.work;
                core.free = done;
                if cold > Time::ZERO {
                    self.books.post(n, COLD, start, warm);
                    self.tally.cold += 1;
                }
                self.books.post(n, REQUEST, warm, done);
                self.tally.request(&self.books.window, item.at, start, done);
                done
            }
            Kind::Background => {
                let done = start + item.work;
                core.free = done;
                self.books.post(n, BACKGROUND, start, done);
                done
            }
        }
    }

    /// The run is over; a core that rests is counted up to its end.
    pub(crate) fn settle(&mut self, n: usize) {
        let core = &self.cores[n];
        let (state, since) = (core.rest.state, core.since);
        self.books.post(n, IDLE + state, since, self.books.window.end);
    }
}
