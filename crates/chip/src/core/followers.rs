//! Techniques that follow a run which the policy of another one paces.
//!
//! Whether a core sleeps while it waits changes when it goes on only if it is not awake by then. As
//! long as a technique is awake exactly when the one that leads the run is, a run of its own would
//! hold the same instructions at the same times, and would differ in nothing but power states. So
//! one run is enough for both: each follower has a gate and accounts of its own, which are told the
//! same. At the first wait that would end at another time it **parts**: what it has gathered is
//! dropped, and whoever wants its result gives it a run of its own.
//!
//! A gate is not looked at while its core waits for others: it is brought up to what comes next,
//! in the order in which [`Core`](super::Core) would have stepped it.

use halfwink_policy::gating::{Estimate, Event};
use halfwink_units::Time;

use super::waited::Waited;
use crate::cpi_stack::Reason;
use crate::gate::{Gate, PolicyError, Stepped};

/// State of one technique's sleep on one core.
pub(crate) struct Sleep {
    pub(crate) gate: Gate,
    pub(crate) waited: Waited,
}

/// End of a core's wait, and the account of its time.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Time at which the wait is over.
    pub(super) at: Time,
    /// The clock edge from which the pipeline runs.
    pub(super) edge: Time,
    pub(super) cause: EndCause,
}

#[derive(Clone, Copy)]
pub(super) enum EndCause {
    /// Memory answered, for this mode and reason.
    Stall { kernel: bool, reason: Reason },
    /// An interrupt arrived.
    Halt,
}

/// The followers of one core, by number; those that have parted are gone.
#[derive(Default)]
pub(crate) struct Followers {
    all: Vec<Option<Box<Sleep>>>,
    /// Whether a follower diverged since the last check.
    has_parted: bool,
}

impl Followers {
    /// Gates of a core whose work begins at `start`.
    pub(super) fn begin(gates: Vec<Gate>, start: Time) -> Followers {
        let begun = |mut gate: Gate| {
            gate.begin(start);
            Some(Box::new(Sleep { gate, waited: Waited::default() }))
        };
        Followers { all: gates.into_iter().map(begun).collect(), has_parted: false }
    }

    /// The follower of this number, unless it has parted.
    pub(crate) fn get(&self, number: usize) -> Option<&Sleep> {
        self.all[number].as_deref()
    }

    /// True once after followers parted.
    pub(crate) fn take_has_parted(&mut self) -> bool {
        std::mem::take(&mut self.has_parted)
    }

    /// All part: what the core holds is no longer what others would.
    pub(super) fn part(&mut self) {
        self.each(|_| Ok(false));
    }

    /// On another core of the chip it has parted.
    pub(crate) fn forget(&mut self, number: usize) {
        self.all[number] = None;
    }

    /// Does this with each, which parts if the answer is false. A policy that does the impossible
    /// parts too: it fails in a run of its own, and spoils no other.
    fn each(&mut self, mut follow: impl FnMut(&mut Sleep) -> Result<bool, PolicyError>) {
        for place in &mut self.all {
            let Some(sleep) = place else { continue };
            // One that is about to lose its caches parts too: the run keeps them.
            if !matches!(follow(sleep), Ok(true)) || sleep.gate.take_flush_due() {
                *place = None;
                self.has_parted = true;
            }
        }
    }

    /// Policies that hear tokens will hear of this when its time has come; of an estimate, those
    /// that hear this one.
    pub(super) fn tell(&mut self, at: Time, event: Event, estimate: Option<Estimate>) {
        for sleep in self.all.iter_mut().flatten().filter(|sleep| sleep.gate.is_told(estimate)) {
            sleep.gate.schedule(at, event);
        }
    }

    /// Lets those hear that hoard news, while the core runs.
    pub(super) fn catch_up(&mut self, now: Time, most: usize) {
        self.each(|Sleep { gate, .. }| {
            if gate.pending() > most {
                gate.catch_up(now)?;
            }
            Ok(true)
        });
    }

    pub(super) fn pass_over(&mut self, now: Time) {
        self.each(|sleep| sleep.gate.passes_over(now).map(|()| true));
    }

    pub(super) fn wait_begins(&mut self, now: Time, halted: bool) {
        self.each(|sleep| sleep.gate.wait_begins(now, halted).map(|()| true));
    }

    /// A stalled core hears at `at`; if it is `movable`, it is asleep: who wakes parts.
    pub(super) fn come_to(&mut self, at: Time, movable: bool) {
        self.each(|Sleep { gate, .. }| {
            // At equal times transitions come before what is heard, and all else behind it.
            while gate.next_time() < at || gate.is_in_transition(at) {
                if gate.step(gate.next_time())? == Stepped::Awake && movable {
                    return Ok(false);
                }
            }
            Ok(true)
        });
    }

    /// Plays what is due before `now` on a waiting core; a follower diverges if it wakes a core
    /// that is `movable`.
    pub(super) fn come_before(&mut self, now: Time, movable: bool) {
        self.each(|Sleep { gate, .. }| {
            while gate.next_time() < now {
                if gate.step(gate.next_time())? == Stepped::Awake && movable {
                    return Ok(false);
                }
            }
            Ok(true)
        });
    }

    /// An answer finds the core still waiting, all followers having come to it. If it is the one
    /// that `could_move` the core, all must be asleep, or they would have moved.
    pub(super) fn respond(&mut self, at: Time, response: &Event, could_move: bool) {
        self.each(|Sleep { gate, .. }| {
            if could_move && gate.is_powered() {
                return Ok(false);
            }
            gate.deliver(at, response).map(|()| true)
        });
    }

    /// The answer finds the core awake, which goes on: so must they. They hear of it as news.
    pub(super) fn answered(&mut self, end: End, response: Event) {
        self.each(|sleep| {
            if !sleep.gate.is_powered() {
                return Ok(false);
            }
            sleep.gate.wait_ends(end.at, false)?;
            sleep.run(end);
            sleep.gate.schedule(end.at, response);
            Ok(true)
        });
    }

    /// The interrupt finds the core powered or not: so it must them.
    pub(super) fn interrupted(&mut self, at: Time, is_powered: bool) {
        self.each(|Sleep { gate, .. }| {
            while gate.next_time() <= at {
                gate.step(gate.next_time())?;
            }
            gate.wait_ends(at, true)?;
            Ok(gate.is_powered() == is_powered)
        });
    }

    /// The core, which the interrupt found powered, goes on.
    pub(super) fn run(&mut self, end: End) {
        self.each(|sleep| {
            sleep.run(end);
            Ok(true)
        });
    }

    /// The core wakes, later than its wait was over: so must they, at the same time.
    pub(super) fn wake(&mut self, end: End) {
        self.each(|sleep| {
            loop {
                let gate = &mut sleep.gate;
                let at = gate.next_time();
                if at > end.at || at == end.at && !gate.is_in_transition(at) {
                    return Ok(false);
                }
                if gate.step(at)? == Stepped::Awake {
                    if at < end.at {
                        return Ok(false);
                    }
                    break;
                }
            }
            if matches!(end.cause, EndCause::Stall { .. }) {
                sleep.gate.wait_ends(end.at, false)?;
            }
            sleep.run(end);
            Ok(true)
        });
    }

    pub(super) fn finish(&mut self, now: Time) {
        self.each(|sleep| sleep.gate.finish(now).map(|()| true));
    }

    /// Ends the run for all followers.
    pub(super) fn close(&mut self, now: Time) {
        self.each(|sleep| {
            sleep.gate.close(now);
            Ok(true)
        });
    }
}

impl Sleep {
    /// The pipeline runs again: the time of the wait is posted.
    fn run(&mut self, end: End) {
        let spent = self.gate.run(end.edge);
        match end.cause {
            EndCause::Stall { kernel, reason } => self.waited.post(spent, kernel, reason),
            EndCause::Halt => self.waited.post_idle(spent, false),
        }
    }
}
