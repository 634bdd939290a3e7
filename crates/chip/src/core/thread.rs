//! What belongs to a thread and not to its core, and how it goes from one core to another.

use std::collections::HashMap;

use halfwink_engine::Histogram;
use halfwink_policy::offload::Sample;
use halfwink_trace::LoadKind;
use halfwink_units::Time;

use crate::front_end::{Crossing, FrontEnd};
use crate::os_cores::{Crossed, Departure, OsThread};

/// State of a thread beside its instructions, on whichever core it runs.
pub(crate) struct ThreadContext {
    load: LoadKind,
    origin: Origin,
    pub(crate) requests: Requests,
    /// Decides where its kernel entries run, if that is not simply where they are.
    pub(crate) os: Option<Box<OsThread>>,
    /// An interrupt that goes its own way, and since when, until its core passes it on.
    detached: Option<(Time, Box<Thread>)>,
}

/// A thread between two cores.
pub(crate) struct Thread {
    pub(crate) front_end: FrontEnd,
    pub(crate) context: ThreadContext,
    /// Time and reason of its departure from the last core.
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

/// Mapping of recorded time to simulated time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    /// Recorded and simulated time of the first event that carries a time.
    pair: Option<(u64, Time)>,
}

impl Origin {
    /// Returns the simulated time of a recorded time, for arrivals that do not depend on the run.
    pub(super) fn at(&mut self, recorded_ns: u64, now: Time) -> Time {
        // One pair for the whole run: were it renewed, a slow core would delay the arrivals behind
        // it, and an open load would be none.
        let (recorded, simulated) = *self.pair.get_or_insert((recorded_ns, now));
        if recorded_ns >= recorded {
            simulated + Time::ns(recorded_ns - recorded)
        } else {
            simulated.saturating_sub(Time::ns(recorded - recorded_ns))
        }
    }
}

impl ThreadContext {
    pub(super) fn new(load: LoadKind) -> ThreadContext {
        ThreadContext {
            load,
            origin: Origin::default(),
            requests: Requests::default(),
            os: None,
            detached: None,
        }
    }

    /// A request begins at `now`, as it did at `recorded_ns`.
    pub(super) fn begin_request(&mut self, id: u64, recorded_ns: u64, now: Time) {
        let arrived = self.origin.at(recorded_ns, now);
        let start = if self.load == LoadKind::Open { arrived } else { now };
        self.requests.open.insert(id, start);
    }

    /// A request ends at `now`, as it did at `recorded_ns`: its latency, if its begin was seen.
    pub(super) fn end_request(&mut self, id: u64, recorded_ns: u64, now: Time) -> Option<Time> {
        self.origin.at(recorded_ns, now);
        // A core that is faster than the recorded machine may be done before a recorded arrival, if
        // no halt made it wait for that. The request took no time then, rather than less than none.
        let latency = now.saturating_sub(self.requests.open.remove(&id)?);
        self.requests.completed += 1;
        self.requests.latency.record(latency);
        Some(latency)
    }

    /// Returns the end of a halt that begins at `now`: work that waits for responses is shifted
    /// with the work before it, independent arrivals come when they were recorded.
    pub(super) fn end_of_halt(&mut self, from_ns: u64, to_ns: u64, now: Time) -> Time {
        match self.load {
            LoadKind::Closed => now + Time::ns(to_ns - from_ns),
            LoadKind::Open => {
                self.origin.at(from_ns, now);
                self.origin.at(to_ns, now).max(now)
            }
        }
    }

    /// True unless the thread is a guest on this core.
    pub(super) fn is_home(&self, core: usize) -> bool {
        self.os.as_ref().is_none_or(|os| os.home == core)
    }

    /// The thread changes its privilege at `at`, on `core`: where it goes on, as its offload policy
    /// decides.
    pub(super) fn cross(
        &mut self,
        front_end: &mut FrontEnd,
        at: Time,
        core: usize,
        sample: Sample,
    ) -> Crossed {
        let crossing = front_end.pass_crossing();
        let played = front_end.kernel_instructions;
        let Some(os) = &mut self.os else { return Crossed::Stays(0) };
        let crossed = match crossing {
            Crossing::Begins => Crossed::Stays(0),
            Crossing::Enters(cause) => os.enter(cause, at, core, played),
            Crossing::Returns => os.exit(at, core, sample, played),
        };
        if crossed != Crossed::Detaches {
            return crossed;
        }
        let Some(front_end) = front_end.split_interrupt(os.first_event()) else {
            os.stays();
            return Crossed::Stays(0);
        };
        // It has neither requests nor halts (`split_interrupt` refuses those): any load will do.
        let mut interrupt = Thread::new(front_end, LoadKind::Closed);
        interrupt.context.os = Some(Box::new(os.detach()));
        interrupt.left = (at, Departure::Sleeps(at));
        self.detached = Some((at, Box::new(interrupt)));
        crossed
    }

    /// An interrupt that the thread left to others, and when it began.
    pub(super) fn take_detached(&mut self) -> Option<(Time, Thread)> {
        self.detached.take().map(|(at, thread)| (at, *thread))
    }
}

impl Thread {
    /// Creates a thread that starts with `front_end`.
    pub(crate) fn new(front_end: FrontEnd, load: LoadKind) -> Thread {
        let left = (Time::ZERO, Departure::Ends);
        Thread { front_end, context: ThreadContext::new(load), left }
    }

    /// Which thread it is.
    pub(crate) fn number(&self) -> usize {
        self.front_end.thread()
    }

    /// Returns the core that it began on; `core` if it cannot move.
    pub(crate) fn home(&self, core: usize) -> usize {
        self.context.os.as_ref().map_or(core, |os| os.home)
    }

    pub(super) fn none() -> Thread {
        Thread::new(FrontEnd::empty(), LoadKind::Closed)
    }
}
