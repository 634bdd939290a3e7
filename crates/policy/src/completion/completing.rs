//! A mapping with its own way to rest.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::{Action, Completion, Done, Event, Hears, Mapping, Queues, Where};
use crate::scaling::{Depth, Rest};
use crate::{Policy, Snapshot};

/// Way in which a CPU without completions rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resting {
    /// Halts in C1 until it is interrupted.
    Interrupt,
    /// Asks again and again.
    Spin,
    /// Sleeps once after each completion for half of the time that I/Os took of late, then asks
    /// again and again.
    HalfWay,
}

/// Weight of the past in the time that I/Os take, of eight.
const PAST: u64 = 7;

/// State of a CPU.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Time that I/Os took of late: an exponential average.
    took: Time,
    /// Whether it slept since the last completion.
    slept: bool,
}

/// Completion policy around a mapping.
pub struct Completing<M: Mapping> {
    mapping: M,
    waiting: Vec<Waiting>,
    pending: Option<Action>,
}

impl<M: Mapping> Completing<M> {
    /// Creates the policy for `cpus` CPUs, which rest as the mapping says.
    #[must_use]
    pub fn new(mapping: M, cpus: u16) -> Completing<M> {
        let none = Waiting { took: Time::ZERO, slept: false };
        let waiting = vec![none; usize::from(cpus)];
        Completing { mapping, waiting, pending: None }
    }

    fn rest(&mut self, cpu: u16) -> Rest {
        let waiting = &mut self.waiting[usize::from(cpu)];
        match self.mapping.rests() {
            Resting::Interrupt => Rest::Halt(Depth::C1),
            Resting::HalfWay if !waiting.slept && waiting.took > Time::ZERO => {
                waiting.slept = true;
                Rest::Sleep { span: Time(waiting.took.0 / 2), depth: Depth::C1 }
            }
            Resting::Spin | Resting::HalfWay => Rest::Spin,
        }
    }

    fn done(&mut self, done: &Done) {
        let waiting = &mut self.waiting[usize::from(done.heard)];
        waiting.slept = false;
        waiting.took = match waiting.took {
            Time::ZERO => done.took,
            past => Time(past.0 / 8 * PAST + done.took.0 / 8),
        };
        self.pending = Some(match self.mapping.place(done) {
            Where::Here => Action::Here { io: done.io },
            Where::On(cpu) => Action::Give { io: done.io, cpu },
        });
    }
}

impl<M: Mapping> Policy for Completing<M> {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match *event {
            Event::Done(ref done) => self.done(done),
            Event::Used { cpu, busy, of } => {
                let permille = u64::from(busy) * 1_000 / u64::from(of.max(1));
                self.mapping.used(cpu, permille as u32);
            }
            Event::Empty { cpu } => {
                let rest = self.rest(cpu);
                self.pending = Some(Action::Rest { cpu, rest });
            }
            Event::Poll { .. } => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        self.mapping.snapshot()
    }
}

impl<M: Mapping> Completion for Completing<M> {
    fn hears(&self) -> Hears {
        self.mapping.hears()
    }

    fn queues(&self) -> Queues {
        self.mapping.queues()
    }

    fn period(&self) -> Option<Time> {
        self.mapping.period()
    }
}
