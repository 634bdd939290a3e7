//! A thread that an offload policy watches: it follows the changes between user and kernel mode,
//! asks the policy at each entry, and counts what came of it.

use std::collections::BTreeMap;

use halfwink_policy::offload::{Cause, Event, Fixed, OffloadPolicy, Place, Sample};
use halfwink_units::{Cycle, Time};

use super::entry::kernel_entry;
use crate::core::Departure;

/// What a core does at a change of privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossed {
    /// Goes on, after so many cycles of deciding.
    Stays(Cycle),
    /// Lets the thread go to another core.
    Leaves,
    /// Goes on, and hands over what the interrupt brought ([`crate::feed::Feed::detached`]).
    Detaches,
}

/// Kernel invocations of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What they began with; `None` if the trace does not tell.
    pub cause: Option<Cause>,
    /// Complete invocations, by place (here, on an OS core).
    pub invocations: [u64; 2],
    /// Instructions that they retired, by place.
    pub instructions: [u64; 2],
    /// Time in which they ran, halts left out, by place; moving is not part of it.
    pub running: [Time; 2],
    /// Time for which the thread went without its own core: entry to exit, halts left out, with the
    /// move there and the wait for the OS core, by place; nothing for an interrupt beside it.
    pub taken: [Time; 2],
}

impl Call {
    fn add(&mut self, other: &Call) {
        for place in 0..2 {
            self.invocations[place] += other.invocations[place];
            self.instructions[place] += other.instructions[place];
            self.running[place] += other.running[place];
            self.taken[place] += other.taken[place];
        }
    }
}

/// Invocations by [`Cause::code`]; those whose cause the trace does not tell have none, 0.
pub type Calls = BTreeMap<u64, Call>;

/// Adds calls to sums of them.
pub fn add_calls(sums: &mut Calls, calls: &Calls) {
    for (&code, call) in calls {
        let sum = sums.entry(code).or_default();
        sum.cause = call.cause;
        sum.add(call);
    }
}

/// An invocation in progress.
#[derive(Clone, Copy, Debug)]
struct Invocation {
    cause: Option<Cause>,
    place: Place,
    began: Time,
    /// When it began to run where it runs.
    running_from: Time,
    /// Kernel instructions before it.
    before: u64,
    halted: Time,
}

/// What a thread knows of its kernel entries.
pub(crate) struct OsThread {
    policy: OffloadPolicy,
    /// The core that runs its user code.
    pub(crate) home: usize,
    /// Privilege of what it ran last, once it has run.
    kernel: Option<bool>,
    /// First event since it ran user code.
    cause: Option<halfwink_trace::Event>,
    invocation: Option<Invocation>,
    /// Retired so far.
    pub(crate) kernel_instructions: u64,
    /// An interrupt on its own, bound to an OS core.
    pub(crate) is_detached: bool,
    /// Cycles of a decision that were not charged yet.
    pub(crate) owed: Cycle,
    /// How long it may run while others wait, where threads take turns.
    pub(crate) slice: Option<Time>,
    /// Since when it has its core, and whether it leaves because its turn is over.
    since: Time,
    yields: bool,
    pub(crate) calls: Calls,
}

impl OsThread {
    pub(crate) fn new(policy: OffloadPolicy, home: usize) -> OsThread {
        OsThread {
            policy,
            home,
            kernel: None,
            cause: None,
            invocation: None,
            kernel_instructions: 0,
            is_detached: false,
            owed: 0,
            slice: None,
            since: Time::ZERO,
            yields: false,
            calls: Calls::new(),
        }
    }

    #[inline]
    pub(crate) fn is_crossing(&self, kernel: bool) -> bool {
        self.kernel != Some(kernel)
    }

    /// An event passes by.
    pub(crate) fn see(&mut self, event: halfwink_trace::Event) {
        use halfwink_trace::Event::{Exception, Interrupt, Syscall};
        if matches!(event, Syscall { .. } | Interrupt { .. } | Exception { .. }) {
            self.cause.get_or_insert(event);
        }
    }

    /// The thread changes to kernel mode or back at `at`, on `core`.
    pub(crate) fn cross(&mut self, kernel: bool, at: Time, core: usize, sample: Sample) -> Crossed {
        let before = self.kernel.replace(kernel);
        if !kernel {
            return self.exit(at, core, sample);
        }
        match (before, self.cause.take()) {
            // It began in the kernel: nobody knows why or when.
            (None, _) => Crossed::Stays(0),
            (Some(_), cause) => self.enter(cause, at, core),
        }
    }

    /// Where the thread goes on.
    fn goes_to(&mut self, os_core: bool, cycles: Cycle, core: usize) -> Crossed {
        let is_there = core != self.home;
        if os_core == is_there {
            return Crossed::Stays(cycles);
        }
        self.owed = cycles;
        Crossed::Leaves
    }

    fn enter(&mut self, cause: Option<halfwink_trace::Event>, at: Time, core: usize) -> Crossed {
        let entry = cause.and_then(|event| kernel_entry(&event));
        let action = entry.and_then(|entry| {
            self.policy.on_event(at, &Event::Enter(entry));
            self.policy.poll_action()
        });
        let place = action.map_or(Place::Here, |action| action.place);
        self.invocation = Some(Invocation {
            cause: entry.map(|entry| entry.cause),
            place,
            began: at,
            running_from: at,
            before: self.kernel_instructions,
            halted: Time::ZERO,
        });
        let cycles = action.map_or(0, |action| Cycle::from(action.decision_cycles));
        match place {
            Place::Here => Crossed::Stays(cycles),
            Place::Beside => Crossed::Detaches,
            Place::OsCore => self.goes_to(true, cycles, core),
        }
    }

    /// The interrupt that was entered last goes on its own, or cannot and stays.
    pub(crate) fn detaches(&mut self, can: bool) -> Option<OsThread> {
        let run = self.invocation.as_mut()?;
        if !can {
            run.place = Place::Here;
            return None;
        }
        self.kernel = Some(false);
        let mut detached = OsThread::new(Box::new(Fixed::never()), self.home);
        detached.kernel = Some(true);
        detached.is_detached = true;
        detached.invocation = self.invocation.take().map(|run| Invocation { before: 0, ..run });
        Some(detached)
    }

    /// The interrupt that this is.
    pub(crate) fn cause_of_detached(&self) -> halfwink_trace::Event {
        match self.invocation.and_then(|run| run.cause) {
            Some(Cause::Interrupt { vector }) => halfwink_trace::Event::Interrupt { vector },
            _ => halfwink_trace::Event::Cpu(0),
        }
    }

    /// An interrupt on its own ends at `at`.
    pub(crate) fn ends(&mut self, at: Time) {
        self.count(at, self.home);
    }

    fn count(&mut self, at: Time, core: usize) -> Option<(Option<Cause>, u64)> {
        let run = self.invocation.take()?;
        let instructions = self.kernel_instructions - run.before;
        let place = usize::from(run.place != Place::Here || core != self.home);
        let call = self.calls.entry(run.cause.map_or(0, Cause::code)).or_default();
        call.cause = run.cause;
        call.invocations[place] += 1;
        call.instructions[place] += instructions;
        call.running[place] += (at - run.running_from).saturating_sub(run.halted);
        if run.place != Place::Beside {
            call.taken[place] += (at - run.began).saturating_sub(run.halted);
        }
        Some((run.cause, instructions))
    }

    fn exit(&mut self, at: Time, core: usize, sample: Sample) -> Crossed {
        self.cause = None;
        if let Some((cause, instructions)) = self.count(at, core) {
            if cause.is_some() {
                self.policy.on_event(at, &Event::Exit { instructions });
            }
            self.policy.on_event(at, &Event::Sample(sample));
        }
        let action = self.policy.poll_action();
        let stays_there = action.is_some_and(|action| action.place == Place::OsCore);
        let cycles = action.map_or(0, |action| Cycle::from(action.decision_cycles));
        let crossed = self.goes_to(stays_there, cycles, core);
        let is_over = self.slice.is_some_and(|slice| at.saturating_sub(self.since) >= slice);
        if is_over && matches!(crossed, Crossed::Stays(_)) {
            self.yields = true;
            return Crossed::Leaves;
        }
        crossed
    }

    /// It leaves its core: to another one, or to let others have it.
    pub(crate) fn leaves(&mut self) -> Departure {
        if std::mem::take(&mut self.yields) {
            Departure::Yields
        } else {
            Departure::Crosses
        }
    }

    /// It runs from `now` on, after it left a core for this reason.
    pub(crate) fn runs(&mut self, now: Time, (left, why): (Time, Departure)) {
        self.since = now;
        let Some(run) = &mut self.invocation else { return };
        if why == Departure::Crosses {
            run.running_from = now;
        } else {
            // Halted, or waiting for its turn.
            run.halted += now - left;
        }
    }
}
