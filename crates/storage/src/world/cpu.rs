//! What a CPU does, and how long it did what.

use std::collections::VecDeque;

use halfwink_engine::Mode;

use super::source::Source;

/// Activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Sleeps until an interrupt.
    Idle,
    /// Polls for work.
    Polling,
    /// Issuing: application and software outside locks.
    Submit,
    /// Inserting into the request queue.
    Insert,
    /// Dispatching from it to the driver.
    Dispatch,
    /// The device's interrupt: phase 1.
    Interrupt,
    /// Putting an I/O into the deferred ring.
    Enqueue,
    /// Sends an interrupt to another CPU.
    Send,
    /// Being interrupted by another CPU.
    Receive,
    /// Reading the ring, where its lock is one to upgrade.
    Peek,
    /// Taking I/Os from the ring.
    Dequeue,
    /// The driver's data structures, outside their lock.
    Structures,
    /// Updates the driver's data structures under their lock.
    Map,
    /// Completing to the operating system and the application.
    Complete,
    /// Completing at the request queue.
    Retire,
    /// Waiting for a lock to issue.
    SpinToIssue,
    /// Waiting for a lock to complete.
    SpinToComplete,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 17] = [
        Stage::Idle,
        Stage::Polling,
        Stage::Submit,
        Stage::Insert,
        Stage::Dispatch,
        Stage::Interrupt,
        Stage::Enqueue,
        Stage::Send,
        Stage::Receive,
        Stage::Peek,
        Stage::Dequeue,
        Stage::Structures,
        Stage::Map,
        Stage::Complete,
        Stage::Retire,
        Stage::SpinToIssue,
        Stage::SpinToComplete,
    ];

    /// Returns the name that tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Idle => "idle",
            Stage::Polling => "polling",
            Stage::Submit => "submit",
            Stage::Insert => "insert",
            Stage::Dispatch => "dispatch",
            Stage::Interrupt => "interrupt",
            Stage::Enqueue => "enqueue",
            Stage::Send => "ipi-send",
            Stage::Receive => "ipi-receive",
            Stage::Peek => "peek",
            Stage::Dequeue => "dequeue",
            Stage::Structures => "structures",
            Stage::Map => "map",
            Stage::Complete => "completion",
            Stage::Retire => "retire",
            Stage::SpinToIssue => "lock-to-issue",
            Stage::SpinToComplete => "lock-to-complete",
        }
    }

    /// Returns whether the driver uses the CPU in this stage, as the published work counts it.
    #[must_use]
    pub const fn is_driver(self) -> bool {
        !matches!(
            self,
            Stage::Idle
                | Stage::Polling
                | Stage::Submit
                | Stage::Insert
                | Stage::Dispatch
                | Stage::SpinToIssue
        )
    }

    /// The state of power in which it is.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Stage::Idle => State::Asleep,
            Stage::Polling => State::Polling,
            Stage::SpinToIssue | Stage::SpinToComplete => State::Spinning,
            _ => State::Busy,
        }
    }

    pub(super) const fn mode(self) -> Mode {
        match self {
            Stage::Idle | Stage::Polling => Mode::Idle,
            Stage::Submit => Mode::User,
            _ => Mode::Kernel,
        }
    }
}

/// A state of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Asleep until an interrupt.
    Asleep,
    /// Polls the device.
    Polling,
    /// Waiting for a lock.
    Spinning,
    /// Runs software outside locks.
    Busy,
}

impl State {
    /// Returns the name that tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            State::Asleep => "asleep",
            State::Polling => "polling",
            State::Spinning => "spinning",
            State::Busy => "busy",
        }
    }
}

/// An I/O in whose completion another CPU than the issuer had a part.
// The highest bit is free: `MOST_IN_FLIGHT` for each of at most 2^16 CPUs is far below 2^31.
pub(super) const FROM_ELSEWHERE: u32 = 1 << 31;

/// State of a CPU.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    pub stage: Stage,
    /// Time at which the stage began.
    pub since: u64,
    /// While it spins: what it does then.
    pub awaited: Stage,
    /// Time by stage, since counting began.
    pub times: [u64; Stage::ALL.len()],
    /// The meter's own: state, since when, time by state.
    pub metered: (State, u64, [u64; 4]),
    /// Time in the driver, in all.
    pub driver_ps: u64,
    /// Part of that time spent waiting for locks.
    pub spun_ps: u64,
    /// Use of the CPU when the policy last received it.
    pub told_ps: u64,
    /// I/Os of which the device interrupts it.
    pub heard: VecDeque<u32>,
    /// I/Os that it was given.
    pub given: VecDeque<u32>,
    /// I/Os that it may issue.
    pub ready: Vec<u32>,
    /// Time left of a submission that was interrupted.
    pub left: Option<u64>,
    /// The I/O that it submits, and how long the device takes no other after it.
    pub submitting: u32,
    pub device_ps: u64,
    /// Source of the I/Os that it issues.
    pub source: Source,
    /// I/Os that may be issued again, in order.
    pub thinking: VecDeque<(u64, u32)>,
    /// The I/Os that it completes.
    pub completing: Vec<u32>,
    /// CPU to which it assigns an I/O.
    pub to: u16,
    /// Completions of this interrupt so far.
    pub coalesced: u32,
    /// Whether it takes I/Os without another interrupt.
    pub drains: bool,
    /// Whether it polls for I/Os that are assigned to it.
    pub polls: bool,
    /// Interrupts are masked until this time.
    pub deaf_until: u64,
    /// Earliest time of its next issue, if rates are limited.
    pub may_issue: u64,
}

impl Cpu {
    pub(super) fn new() -> Cpu {
        Cpu {
            stage: Stage::Idle,
            since: 0,
            awaited: Stage::Idle,
            times: [0; Stage::ALL.len()],
            metered: (State::Asleep, 0, [0; 4]),
            driver_ps: 0,
            spun_ps: 0,
            told_ps: 0,
            heard: VecDeque::new(),
            given: VecDeque::new(),
            ready: Vec::new(),
            left: None,
            submitting: 0,
            device_ps: 0,
            source: Source::default(),
            thinking: VecDeque::new(),
            completing: Vec::new(),
            to: 0,
            coalesced: 0,
            drains: false,
            polls: false,
            deaf_until: 0,
            may_issue: 0,
        }
    }

    /// Enters a stage, and counts the time in the last one.
    #[inline]
    pub(super) fn enter(&mut self, now: u64, stage: Stage) {
        let spent = now - self.since;
        self.times[self.stage as usize] += spent;
        if self.stage.is_driver() {
            self.driver_ps += spent;
        }
        // Kept apart, since descriptions differ in whether the policy sees spinning as use of the
        // CPU (`spinning_is_use`).
        if self.stage == Stage::SpinToComplete {
            self.spun_ps += spent;
        }
        (self.stage, self.since) = (stage, now);
        self.meter(now, stage.state());
    }

    /// Updates the power meter, which is independent of the stages.
    #[inline]
    fn meter(&mut self, now: u64, state: State) {
        let (was, since, times) = &mut self.metered;
        if *was != state {
            // Only a change of state is metered, so a run of busy stages costs one addition; the
            // ledger then compares two sums that were formed in different ways.
            times[*was as usize] += now - *since;
            (*was, *since) = (state, now);
        }
    }

    /// Returns the time in each state of power up to now, since counting began.
    pub(super) fn metered_until(&self, now: u64) -> [u64; 4] {
        let (state, since, mut times) = self.metered;
        times[state as usize] += now - since;
        times
    }

    /// Closes both accounts at this time; they count from here.
    pub(super) fn close(&mut self, now: u64) -> ([u64; Stage::ALL.len()], [u64; 4]) {
        // Entering the stage it is in adds the time until now to the account, and changes nothing
        // else.
        self.enter(now, self.stage);
        let (state, since, times) = &mut self.metered;
        times[*state as usize] += now - *since;
        *since = now;
        (std::mem::replace(&mut self.times, [0; Stage::ALL.len()]), std::mem::take(times))
    }

    /// Returns whether an interrupt is delivered at once.
    pub(super) fn is_interruptible(&self) -> bool {
        // The other stages hold or want a lock, or complete: a handler that wanted the same lock
        // there would never get it. What comes meanwhile stays pending until [`World::next`].
        matches!(self.stage, Stage::Idle | Stage::Polling | Stage::Submit)
    }
}
