//! What belongs to a thread and not to its core, and how it goes from one core to another.

use std::collections::HashMap;

use halfwink_engine::Histogram;
use halfwink_trace::LoadKind;
use halfwink_units::{Cycle, Time};

use super::{Core, CoreError, Phase};
use crate::account::Reason;
use crate::feed::{memory_of, Feed};
use crate::os_cores::add_calls;
use crate::uncore::Held;

/// Why a core that shares its work with others lost its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The thread goes to another core.
    Crosses,
    /// It is halted until this time.
    Sleeps(Time),
    /// Its turn is over.
    Yields,
    /// It has nothing left to do.
    Ends,
}

/// What a thread takes along when it changes cores, beside its instructions.
#[derive(Debug)]
pub(crate) struct Baggage {
    pub(super) load: LoadKind,
    pub(super) origin: Origin,
    pub(crate) requests: Requests,
}

/// A thread between two cores.
pub(crate) struct Thread {
    pub(crate) feed: Feed,
    pub(crate) baggage: Baggage,
    /// When and why it left the last one.
    pub(crate) left: (Time, Departure),
}

/// Requests of the workload, by simulated time.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Start of each request that is under way.
    open: HashMap<u64, Time>,
    pub(crate) completed: u64,
    pub(crate) latency: Histogram,
}

/// How recorded time maps to simulated time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    /// Recorded and simulated time of the first event that carries a time.
    pair: Option<(u64, Time)>,
}

impl Origin {
    /// Simulated time of a recorded time, for arrivals that wait for nobody.
    pub(super) fn at(&mut self, recorded_ns: u64, now: Time) -> Time {
        let (recorded, simulated) = *self.pair.get_or_insert((recorded_ns, now));
        if recorded_ns >= recorded {
            simulated + Time::ns(recorded_ns - recorded)
        } else {
            simulated.saturating_sub(Time::ns(recorded - recorded_ns))
        }
    }
}

impl Baggage {
    fn new(load: LoadKind) -> Baggage {
        Baggage { load, origin: Origin::default(), requests: Requests::default() }
    }
}

impl Thread {
    /// Starts on `feed`.
    pub(crate) fn new(feed: Feed, load: LoadKind) -> Thread {
        let left = (Time::ZERO, Departure::Ends);
        Thread { feed, baggage: Baggage::new(load), left }
    }

    /// Which thread it is, by the memory that it runs in.
    pub(crate) fn number(&self) -> usize {
        memory_of(self.feed.line_base())
    }

    /// The core that it began on; `core` if nobody lets it move.
    pub(crate) fn home(&self, core: usize) -> usize {
        self.feed.os.as_ref().map_or(core, |os| os.home)
    }

    pub(super) fn none() -> Thread {
        Thread::new(Feed::empty(), LoadKind::Closed)
    }
}

impl Core {
    pub(super) fn count_requests(&mut self) {
        let marks = std::mem::take(&mut self.pipeline.common_mut().marks);
        for mark in &marks {
            let now = self.clock.time_of(mark.at);
            let Baggage { load, origin, requests } = &mut self.baggage;
            let arrived = origin.at(mark.recorded_ns, now);
            if mark.begins {
                let start = if *load == LoadKind::Open { arrived } else { now };
                requests.open.insert(mark.id, start);
            } else if let Some(start) = requests.open.remove(&mark.id) {
                requests.completed += 1;
                requests.latency.record(now.saturating_sub(start));
            }
        }
    }

    /// How far it has come, and the first time at which it could ask the shared levels for
    /// something; a core without a thread does nothing by itself.
    pub(crate) fn progress(&self) -> Option<(Time, Time)> {
        let idle = matches!(self.phase, Phase::Vacant | Phase::Finished);
        (!idle).then(|| (self.local, self.local.saturating_add(self.shortest_message)))
    }

    /// The core loses its thread; always false: what comes next is up to others.
    pub(super) fn leave(&mut self, why: Departure) -> Result<bool, CoreError> {
        if why == Departure::Crosses {
            let common = self.pipeline.common_mut();
            let decision = common.feed.os.as_mut().map_or(0, |os| std::mem::take(&mut os.owed));
            self.pipeline.spend(decision, Reason::System);
            self.pipeline.spend(self.switch, Reason::Switch);
        }
        let at = self.pipeline.cycle();
        self.running_cycles += at - self.running_from;
        let now = self.clock.time_of(at);
        self.local = now;
        self.away = why == Departure::Crosses && self.common().feed.is_home(self.index);
        self.departure = Some((now, why));
        self.phase = Phase::Vacant;
        self.gate.wait_begins(now, true).map_err(|e| self.policy_error(e))?;
        Ok(false)
    }

    /// Since when it has no thread; the beginning of time if it has one.
    pub(crate) fn vacant_since(&self) -> Time {
        if matches!(self.phase, Phase::Vacant) {
            self.local
        } else {
            Time::ZERO
        }
    }

    /// An interrupt that its thread left to others, and when it began.
    pub(crate) fn detached(&mut self) -> Option<(Time, Thread)> {
        let (at, feed) = self.pipeline.common_mut().feed.detached.take()?;
        let mut thread = Thread::new(*feed, LoadKind::Closed);
        thread.left = (at, Departure::Sleeps(at));
        Some((at, thread))
    }

    /// Gives its thread away, after a [`Departure`].
    pub(crate) fn give_up(&mut self) -> Thread {
        let common = self.pipeline.common_mut();
        let mut feed = std::mem::replace(&mut common.feed, Feed::empty());
        common.feed.take_counts(&mut feed);
        let nothing = Baggage::new(LoadKind::Closed);
        let left = self.departure.take().expect("it has left");
        Thread { feed, baggage: std::mem::replace(&mut self.baggage, nothing), left }
    }

    /// Takes a thread over at `at`.
    pub(crate) fn take_over(&mut self, thread: Thread, at: Time) {
        debug_assert!(matches!(self.phase, Phase::Vacant));
        let Thread { mut feed, baggage, left } = thread;
        let common = self.pipeline.common_mut();
        feed.take_counts(&mut common.feed);
        common.feed = feed;
        self.baggage = baggage;
        self.left = left;
        self.local = at;
        self.phase = Phase::Halted { wake_at: at, woken: false };
    }

    /// A thread that began here has nothing left to do, wherever it ended.
    pub(crate) fn end(&mut self, ended: Thread) {
        self.finished = self.finished.max(Some(ended.left.0));
        if let Some(os) = &ended.feed.os {
            add_calls(&mut self.calls, &os.calls);
        }
        self.baggage.requests.completed += ended.baggage.requests.completed;
        self.baggage.requests.latency.add(&ended.baggage.requests.latency);
    }

    /// Accounts the time of a core that has no thread until the end of the run.
    pub(crate) fn close(&mut self, end: Time) -> Result<(), CoreError> {
        if matches!(self.phase, Phase::Vacant) {
            let spent = self.gate.settle(end).map_err(|e| self.policy_error(e))?;
            self.waited.post_idle(spent, self.away);
            self.phase = Phase::Finished;
        }
        self.gate.close(end);
        Ok(())
    }

    /// Another core asks for a line: see [`crate::private::Private::snoop`].
    pub(crate) fn snoop(&mut self, line: u64, read: bool) -> Held {
        self.pipeline.common_mut().private.snoop(line, read)
    }

    /// A thread that was taken over begins to run.
    pub(super) fn begin(&mut self, cycle: Cycle) {
        self.pipeline.begin(cycle);
        let feed = &self.common().feed;
        // An interrupt goes to its core by itself, and leaves no trace.
        if !feed.os.as_ref().is_some_and(|os| os.is_detached) {
            let thread = Some(memory_of(feed.line_base()));
            let is_other = std::mem::replace(&mut self.last_thread, thread) != thread;
            if is_other || self.left.1 == Departure::Crosses {
                self.pipeline.spend(self.switch, Reason::Switch);
            }
        }
        let now = self.clock.time_of(self.pipeline.cycle());
        if let Some(os) = &mut self.pipeline.common_mut().feed.os {
            os.runs(now, self.left);
        }
    }
}
