//! What a core does, step by step. Both engines call these steps in the same order for a core.

use halfwink_units::Time;

use crate::books::{Books, BACKGROUND, COLD, IDLE, PREHEAT, REQUEST, TICK, VISIT, WAKING};
use crate::governor::{Governor, Resting};
use crate::intake::Held;
use crate::profile::Preheated;
use crate::run::{RunError, Tally};
use crate::source::{between, rank, Item, Kind};
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
    /// State of the sleep that lost it.
    lost: usize,
    /// Requests that were announced and have not come yet.
    announced: u32,
    /// True while it rests for one of them, or as its input wants, without its governor.
    awaits: bool,
    ticks: u64,
}

/// Reaction of a core to the announcement of a request.
pub(crate) struct Preheating {
    /// State in which it awaits the request.
    pub(crate) awaits_in: usize,
    /// Time that handling an announcement takes.
    pub(crate) handling: Time,
    /// Effect of loading, by the state that lost lines. Empty if none are loaded.
    pub(crate) loads: Vec<Preheated>,
}

/// Outcome of a governor's timer.
pub(crate) enum Rang {
    /// The core handles a tick until then.
    Tick(Time),
    /// The core rests on.
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
    preheating: Option<Preheating>,
    /// Share of what a sleep has lost that a visit to a core of the kernel needs again.
    pub(crate) visit_cold: f64,
}

impl<'a> Cores<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        books: Books,
        governors: Vec<Governor>,
        tally: Tally,
        extra: Vec<Time>,
        preheating: Option<Preheating>,
    ) -> Cores<'a> {
        let core = |governor| Core {
            governor,
            rest: AWAKE,
            since: Time::ZERO,
            free: Time::ZERO,
            cold: Time::ZERO,
            lost: 0,
            announced: 0,
            awaits: false,
            ticks: 0,
        };
        let cores = governors.into_iter().map(core).collect();
        Cores { machine, books, cores, tally, extra, preheating, visit_cold: 1.0 }
    }

    /// The core has nothing to do.
    pub(crate) fn begin_rest(&mut self, n: usize, now: Time) -> Result<(), RunError> {
        let core = &mut self.cores[n];
        core.since = now;
        core.awaits = core.announced > 0;
        core.rest = match &self.preheating {
            Some(preheating) if core.awaits => {
                Resting { state: preheating.awaits_in, due: Time::NEVER, wakes: false }
            }
            _ => core.governor.begin(now)?,
        };
        Ok(())
    }

    /// The core has nothing to do, and rests in a state that its governor does not choose.
    pub(crate) fn hold(&mut self, n: usize, now: Time, (state, due, wakes): Held) {
        let core = &mut self.cores[n];
        core.since = now;
        // Its governor is not told, and learns nothing from a rest that it did not choose.
        (core.awaits, core.rest) = (true, Resting { state, due, wakes });
    }

    /// The timer of its rest is due.
    pub(crate) fn ring(&mut self, n: usize, now: Time, least: Time) -> Result<Rang, RunError> {
        let core = &mut self.cores[n];
        let Resting { state, wakes, .. } = core.rest;
        self.books.post(n, IDLE + state, core.since, now);
        core.since = now;
        if !wakes {
            if core.awaits {
                self.begin_rest(n, now)?;
            } else {
                core.rest = core.governor.ring(now, state)?;
            }
            return Ok(Rang::Resting);
        }
        core.ticks += 1;
        let id = core.ticks << 16 | n as u64;
        let ready = now + self.leave(n, state, id, least);
        self.books.post(n, WAKING, now, ready);
        let resumed = ready + self.machine.tick_work;
        self.books.post(n, TICK, ready, resumed);
        let core = &mut self.cores[n];
        // Such a rest was not ended by a tick that the governor reckons with.
        if !core.awaits {
            core.governor.ticked(ready);
        }
        (core.rest, core.free) = (AWAKE, resumed);
        self.tally.ticks += 1;
        Ok(Rang::Tick(resumed))
    }

    /// Work has come for a core that rests; when it runs.
    pub(crate) fn wake(
        &mut self,
        n: usize,
        now: Time,
        id: u64,
        least: Time,
    ) -> Result<Time, RunError> {
        let core = &mut self.cores[n];
        let state = core.rest.state;
        let awaits = core.awaits;
        let (since, hindsight) = (core.since, if awaits { None } else { core.governor.end(now)? });
        if let Some(past) = hindsight {
            // The wake-up was over in time, so nothing waits for it.
            let gated = core.governor.gated();
            self.books.post(n, IDLE + state, since, past.gate);
            self.books.post(n, IDLE + gated, past.gate.max(since), past.wake);
            self.books.post(n, WAKING, past.wake, now);
            self.tally.wakes[gated] += 1;
            self.cores[n].rest = AWAKE;
            return Ok(now);
        }
        self.books.post(n, IDLE + state, since, now);
        let ready = now + self.leave(n, state, id, least);
        self.books.post(n, WAKING, now, ready);
        let core = &mut self.cores[n];
        if !awaits {
            core.governor.woken(ready)?;
        }
        core.rest = AWAKE;
        Ok(ready)
    }

    /// Time to leave a state, at least as long as the package takes; notes what is lost.
    fn leave(&mut self, n: usize, state: usize, id: u64, least: Time) -> Time {
        self.tally.wakes[state] += 1;
        let core = &mut self.cores[n];
        // Sleeps behind each other lose lines once: the request pays for the deepest of them.
        if self.extra[state] > core.cold {
            (core.cold, core.lost) = (self.extra[state], state);
        }
        between(self.machine.states[state].wake, || rank(id)).max(least)
    }

    /// The core works on this from `start`; when it is done.
    #[inline]
    pub(crate) fn work(&mut self, n: usize, start: Time, item: &Item) -> Time {
        match item.kind {
            Kind::Request => {
                let done = self.part(n, start, item);
                self.tally.request(&self.books.window, item.at, start, done);
                done
            }
            Kind::Return => self.part(n, start, item),
            Kind::Visit => self.visit(n, start, item),
            Kind::Background => {
                let core = &mut self.cores[n];
                let done = start + item.work;
                core.free = done;
                self.books.post(n, BACKGROUND, start, done);
                done
            }
            Kind::Announcement => self.announced(n, start),
            Kind::GivesUp => self.gives_up(n, start),
        }
    }

    /// The core works on a request, or on a part of one; when that is done.
    #[inline]
    pub(crate) fn part(&mut self, n: usize, start: Time, item: &Item) -> Time {
        let core = &mut self.cores[n];
        core.announced -= u32::from(item.is_told);
        let cold = std::mem::take(&mut core.cold);
        let warm = start + cold;
        let done = warm + item.work;
        core.free = done;
        if cold > Time::ZERO {
            self.books.post(n, COLD, start, warm);
            self.tally.cold += 1;
        }
        self.books.post(n, REQUEST, warm, done);
        done
    }

    /// A core of the kernel runs code of a request; when that is done.
    fn visit(&mut self, n: usize, start: Time, item: &Item) -> Time {
        let core = &mut self.cores[n];
        let cold = std::mem::take(&mut core.cold);
        let warm = start + Time((cold.0 as f64 * self.visit_cold) as u64);
        core.free = warm + item.work;
        self.books.post(n, COLD, start, warm);
        self.books.post(n, VISIT, warm, core.free);
        core.free
    }

    /// A request is announced to a core that runs.
    fn announced(&mut self, n: usize, start: Time) -> Time {
        let core = &mut self.cores[n];
        core.announced += 1;
        let Some(preheating) = &self.preheating else { return start };
        let mut done = start + preheating.handling;
        // Not twice: what an earlier announcement has loaded is there.
        let worth = |preheated: &&Preheated| preheated.left < core.cold;
        if let Some(preheated) = preheating.loads.get(core.lost).filter(worth) {
            done += preheated.load;
            core.cold = preheated.left;
        }
        core.free = done;
        self.books.post(n, PREHEAT, start, done);
        done
    }

    /// A core that runs waits no longer for a request that was announced.
    fn gives_up(&mut self, n: usize, start: Time) -> Time {
        let core = &mut self.cores[n];
        core.announced -= 1;
        let Some(preheating) = &self.preheating else { return start };
        core.free = start + preheating.handling;
        self.books.post(n, PREHEAT, start, core.free);
        core.free
    }

    /// The run is over; a core that rests is counted up to its end.
    pub(crate) fn settle(&mut self, n: usize) {
        let core = &self.cores[n];
        let (state, since) = (core.rest.state, core.since);
        self.books.post(n, IDLE + state, since, self.books.window.end);
    }
}
