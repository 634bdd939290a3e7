//! One core: what it runs, what waits, and where its time goes.

use std::collections::VecDeque;

use halfwink_policy::switching::break_even;
use halfwink_units::Time;

use super::sleep::{Sleep, SleepPolicy};
use crate::idle::{IdleRecord, Stamps};
use crate::model::{CoreKind, Model};

/// Account that a core's time is posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    User,
    Call,
    Switch,
    Interrupt,
    Tick,
    /// The core powers up.
    Waking,
    /// The core is up, with no work.
    Idle,
    /// The core is powered down.
    Off,
}

pub(crate) const ACCOUNTS: usize = 8;

/// Continuation after a piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// The thread goes on with its next step.
    Step,
    /// The body of a call begins, on this core.
    Body { call: usize },
    /// The body has ended; on an OS core the thread goes home.
    Return { call: usize },
    /// The thread has left for another core, where it needs `takes` after `gap`.
    Leave { to: usize, gap: Time, takes: Time, body: Option<usize> },
}

/// Work of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) thread: usize,
    pub(crate) left: Time,
    pub(crate) account: Account,
    /// Index of the call that the time is posted to, if any.
    pub(crate) call: Option<usize>,
    pub(crate) then: Then,
}

/// An interrupt that waits or runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt {
    pub(crate) takes: Time,
    pub(crate) account: Account,
    pub(crate) ends: Ends,
}

/// Continuation after an interrupt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ends {
    Nothing,
    /// Ends the thread's wait.
    Wait {
        thread: usize,
    },
    /// The device for which the thread's call on this core waits.
    Device {
        thread: usize,
        core: usize,
    },
    /// A request is there for any thread.
    Request,
    /// One of the thread's units of background work is done.
    Background {
        thread: usize,
    },
}

pub(crate) struct Core {
    /// Time posted to each account.
    pub(crate) booked: [Time; ACCOUNTS],
    /// Time posted to each call.
    pub(crate) by_call: Vec<Time>,
    /// Busy time, counted apart from the accounts.
    pub(crate) busy: Time,
    pub(crate) idle: IdleRecord,
    pub(crate) queue: VecDeque<Item>,
    pub(crate) running: Option<Item>,
    pub(crate) interrupts: VecDeque<Interrupt>,
    pub(crate) handling: Option<Interrupt>,
    /// Distinguishes the end that is due from those that interrupts put off.
    pub(crate) generation: u64,
    pub(crate) sleep: Sleep,
    stamps: Stamps,
    since: Time,
    idle_from: Option<Time>,
}

impl Core {
    fn new(clock_ghz: f64, calls: usize, stamps: Stamps, sleep: Sleep) -> Core {
        Core {
            booked: [Time(0); ACCOUNTS],
            by_call: vec![Time(0); calls],
            busy: Time(0),
            idle: IdleRecord::new(clock_ghz),
            queue: VecDeque::new(),
            running: None,
            interrupts: VecDeque::new(),
            handling: None,
            generation: 0,
            sleep,
            stamps,
            since: Time(0),
            idle_from: Some(Time(0)),
        }
    }

    /// A core of this kind that has done nothing yet.
    pub(crate) fn of(model: &Model, kind: &CoreKind, calls: usize, policy: SleepPolicy) -> Core {
        Core::new(kind.clock_ghz, calls, model.spec().kernel.stamps, Sleep::new(policy))
    }

    /// Returns the policy that decides whether a core of this kind powers down.
    pub(crate) fn sleep_policy(
        model: &Model,
        kind: &CoreKind,
        is_os: bool,
        power_up: Time,
    ) -> SleepPolicy {
        let microwatts = |w: f64| (w * 1e6) as u64;
        let up_w = kind.up_w.unwrap_or(kind.active_w);
        let saved_uw = microwatts(up_w - kind.idle_w);
        let break_even = break_even(power_up, microwatts(kind.active_w), saved_uw);
        // Far away, but policies add to it.
        let break_even = break_even.unwrap_or(Time(u64::MAX / 4));
        SleepPolicy::new(model.spec().kernel.power_down, is_os, power_up, break_even)
    }

    /// Threads on it or waiting for it.
    pub(crate) fn load(&self) -> usize {
        self.queue.len() + usize::from(self.running.is_some())
    }

    /// No thread is there, so that a switch to it finds it asleep.
    pub(crate) fn is_free(&self) -> bool {
        self.load() == 0
    }

    /// Posts the time since the last change; call before every change.
    pub(crate) fn book(&mut self, now: Time) {
        let passed = now - self.since;
        self.since = now;
        // Who handles an interrupt has its thread wait: the thread's work does not get less.
        let account = match (&self.handling, &mut self.running) {
            (Some(interrupt), _) => interrupt.account,
            (None, Some(item)) => {
                debug_assert!(item.left >= passed, "a thread ran for longer than it had left");
                item.left = item.left.saturating_sub(passed);
                if let Some(call) = item.call {
                    self.by_call[call] += passed;
                }
                item.account
            }
            (None, None) if self.sleep.is_off() => Account::Off,
            (None, None) => Account::Idle,
        };
        // A second sum, formed here and not from the accounts: the ledger checks one against the
        // other.
        if !matches!(account, Account::Idle | Account::Off) {
            self.busy += passed;
        }
        self.booked[account as usize] += passed;
    }

    /// An interrupt begins; the accounts are up to date.
    pub(crate) fn handle(&mut self, now: Time, interrupt: Interrupt) {
        // What an idle period is depends on where the kernel reads its clock: exact stamps end it
        // with the interrupt, those of the halt only where a thread runs or the halt is entered
        // again.
        if self.stamps == Stamps::Exact {
            self.end_idle(now);
        }
        debug_assert!(self.handling.is_none(), "interrupts are handled one after the other");
        self.handling = Some(interrupt);
        self.generation += 1;
    }

    /// A thread begins or goes on.
    pub(crate) fn start(&mut self, now: Time, item: Item) {
        self.end_idle(now);
        debug_assert!(self.handling.is_none(), "a thread starts while an interrupt is handled");
        debug_assert!(self.running.is_none(), "a thread starts on a core that runs another");
        self.running = Some(item);
        self.generation += 1;
    }

    /// Begins an idle period, as no work is left.
    pub(crate) fn rest(&mut self, now: Time, interrupted: bool) {
        if interrupted && self.stamps == Stamps::Halt {
            self.end_idle(now);
        }
        // With late stamps the period goes on over the interrupt: its begin stays.
        self.idle_from.get_or_insert(now);
        self.generation += 1;
        debug_assert!(self.is_idle() && self.queue.is_empty(), "a core rests although it has work");
        self.sleep.rest(now);
    }

    /// Returns whether the core has no work, up or off.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.handling.is_none()
    }

    pub(crate) fn end_idle(&mut self, now: Time) {
        if let Some(from) = self.idle_from.take() {
            self.idle.add(now - from);
        }
    }

    /// Time until what runs ends, if nothing comes between.
    pub(crate) fn due(&self) -> Option<Time> {
        match (&self.handling, &self.running) {
            (Some(interrupt), _) => Some(interrupt.takes),
            (None, Some(item)) => Some(item.left),
            (None, None) => None,
        }
    }
}
