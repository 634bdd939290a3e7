//! A thread that an offload policy watches: at each change between user and kernel mode the policy
//! decides where the thread goes on, and what came of it is counted.

use std::collections::BTreeMap;

use halfwink_policy::offload::{Cause, Event, Fixed, OffloadPolicy, Place, Sample};
use halfwink_policy::Host;
use halfwink_units::{Cycle, Time};

use super::entry::kernel_entry;
use super::os_core_of;
use crate::faults::{FaultCounts, Silence};
use crate::machine::Machine;

/// Reason why a core that shares its work with others lost its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The thread goes to another core.
    Crosses,
    /// The thread is halted until this time.
    Sleeps(Time),
    /// The thread waits for this post of another thread of its program.
    Waits(u32),
    /// The thread's time slice is over.
    Yields,
    /// The thread has no work left.
    Ends,
}

/// Reaction of a core to a change of privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossed {
    /// Goes on, after so many cycles of deciding.
    Stays(Cycle),
    /// Looks again in the next cycle: the chip decides until then.
    Asks,
    /// Lets the thread go, to another core or until another thread has come as far.
    Leaves,
    /// Goes on without the interrupt that it met, which runs on an OS core beside it.
    Detaches,
}

/// Kernel invocations of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Cause of the entries; `None` if the trace does not hold it.
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
    /// Time at which it began to run in its present place.
    running_from: Time,
    /// Kernel instructions before it.
    before: u64,
    halted: Time,
}

/// State of a thread's kernel entries.
pub(crate) struct OsThread {
    policy: Host<OffloadPolicy>,
    /// The core that runs its user code.
    pub(crate) home: usize,
    invocation: Option<Invocation>,
    /// An interrupt on its own, bound to an OS core.
    pub(crate) is_detached: bool,
    /// Cycles of a decision that were not charged yet.
    pub(crate) owed: Cycle,
    /// Time for which it may run while others wait, where threads take turns.
    pub(crate) slice: Option<Time>,
    /// Since when it has its core, and whether it leaves because its turn is over.
    since: Time,
    yields: bool,
    pub(crate) calls: Calls,
    /// Times at which its OS core takes no threads, if any.
    silence: Option<Box<Silence>>,
    /// Time until which it knows that it will not be taken.
    refused_until: Time,
    pub(crate) faults: FaultCounts,
}

impl OsThread {
    pub(crate) fn new(policy: OffloadPolicy, home: usize) -> OsThread {
        OsThread {
            policy: Host::new(policy),
            home,
            invocation: None,
            is_detached: false,
            owed: 0,
            slice: None,
            since: Time::ZERO,
            yields: false,
            calls: Calls::new(),
            silence: None,
            refused_until: Time::ZERO,
            faults: FaultCounts::default(),
        }
    }

    /// On a machine whose OS cores may take no threads.
    pub(crate) fn on(machine: &Machine, policy: OffloadPolicy, home: usize) -> OsThread {
        let silence = match machine.os.cores {
            0 => None,
            os_cores => Silence::of(&machine.faults, os_core_of(home, os_cores)),
        };
        OsThread { silence, ..OsThread::new(policy, home) }
    }

    /// Sends the thread home, as its OS core has not taken it and takes no thread before `until`.
    pub(crate) fn times_out(&mut self, until: Time) {
        self.faults.os_timeouts += 1;
        self.refused_until = until;
        self.stays();
    }

    /// Returns whether this place would reject the thread at `at`. A thread whose wait timed out
    /// knows the time until then; a core that takes no threads takes no interrupts either, which is
    /// known at once.
    fn is_refused(&mut self, place: Place, at: Time) -> bool {
        let refused = match place {
            Place::Here => false,
            Place::OsCore => at < self.refused_until,
            Place::Beside => self.silence.as_mut().is_some_and(|s| s.until(at).is_some()),
        };
        self.faults.os_refusals += u64::from(refused);
        refused
    }

    /// Decides whether the thread moves.
    fn goes_to(&mut self, os_core: bool, cycles: Cycle, core: usize) -> Crossed {
        let is_there = core != self.home;
        if os_core == is_there {
            return Crossed::Stays(cycles);
        }
        self.owed = cycles;
        Crossed::Leaves
    }

    /// The thread enters the kernel at `at`, on `core`, by this event if the trace tells; `played`
    /// counts its kernel instructions so far.
    pub(crate) fn enter(
        &mut self,
        cause: Option<halfwink_trace::Event>,
        at: Time,
        core: usize,
        played: u64,
    ) -> Crossed {
        debug_assert!(self.invocation.is_none(), "an invocation ends before the next begins");
        let entry = cause.and_then(|event| kernel_entry(&event));
        let action = entry.and_then(|entry| self.policy.decide(at, &Event::Enter(entry)));
        let asked = action.map_or(Place::Here, |action| action.place);
        let place = if self.is_refused(asked, at) { Place::Here } else { asked };
        self.invocation = Some(Invocation {
            cause: entry.map(|entry| entry.cause),
            place,
            began: at,
            running_from: at,
            before: played,
            halted: Time::ZERO,
        });
        let cycles = action.map_or(0, |action| Cycle::from(action.decision_cycles));
        match place {
            Place::Here => Crossed::Stays(cycles),
            Place::Beside => Crossed::Detaches,
            Place::OsCore => self.goes_to(true, cycles, core),
        }
    }

    /// The interrupt that was entered last goes on its own.
    pub(crate) fn detach(&mut self) -> OsThread {
        // Nothing is left to decide: it ends where it runs.
        let mut detached = OsThread::new(Box::new(Fixed::never()), self.home);
        detached.is_detached = true;
        detached.invocation = self.invocation.take().map(|run| Invocation { before: 0, ..run });
        detached
    }

    /// The interrupt that was entered last cannot go on its own: it runs here.
    pub(crate) fn stays(&mut self) {
        if let Some(run) = &mut self.invocation {
            run.place = Place::Here;
        }
    }

    /// Returns the first event of an OS core that handles a detached interrupt: it is interrupted
    /// itself.
    pub(crate) fn first_event(&self) -> halfwink_trace::Event {
        match self.invocation.and_then(|run| run.cause) {
            Some(Cause::Interrupt { vector }) => halfwink_trace::Event::Interrupt { vector },
            _ => halfwink_trace::Event::Cpu(0),
        }
    }

    /// An interrupt on its own ends at `at`.
    pub(crate) fn ends(&mut self, at: Time, played: u64) {
        self.count(at, self.home, played);
    }

    fn count(&mut self, at: Time, core: usize, played: u64) -> Option<(Option<Cause>, u64)> {
        let run = self.invocation.take()?;
        let instructions = played - run.before;
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

    /// The thread returns to user mode at `at`, on `core`.
    pub(crate) fn exit(&mut self, at: Time, core: usize, sample: Sample, played: u64) -> Crossed {
        let mut action = None;
        if let Some((cause, instructions)) = self.count(at, core, played) {
            if cause.is_some() {
                action = self.policy.decide(at, &Event::Exit { instructions });
            }
            action = self.policy.decide(at, &Event::Sample(sample)).or(action);
        }
        let asks = action.is_some_and(|action| action.place == Place::OsCore);
        // Who is there already need not be taken.
        let stays_there = asks && (core != self.home || !self.is_refused(Place::OsCore, at));
        let cycles = action.map_or(0, |action| Cycle::from(action.decision_cycles));
        let crossed = self.goes_to(stays_there, cycles, core);
        let is_over = self.slice.is_some_and(|slice| at.saturating_sub(self.since) >= slice);
        if is_over && matches!(crossed, Crossed::Stays(_)) {
            self.yields = true;
            return Crossed::Leaves;
        }
        crossed
    }

    /// Returns the reason for leaving its core: to go to another one, or to yield it.
    pub(crate) fn leaves(&mut self) -> Departure {
        if std::mem::take(&mut self.yields) {
            Departure::Yields
        } else {
            Departure::Crosses
        }
    }

    /// Runs the thread from `now` on, after it left a core for this reason.
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
