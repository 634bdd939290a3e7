//! What a core hears from outside: answers, how long they will take at least, grants, threads.

use halfwink_policy::gating::{Bound, Estimate, Event, Token};
use halfwink_units::{LineAddr, Time};

use super::{Core, Message, Waited};
use crate::faults::FaultCounts;
use crate::gate::Gate;
use crate::memory::ReadNews;
use crate::uncore::{Answer, Missed, Served};

impl Core {
    /// Receives a message from outside, at `at`.
    pub(crate) fn receive(&mut self, at: Time, message: Message) {
        match message {
            Message::Thread(thread) => self.take_over(*thread, at),
            Message::Answer(_) | Message::Grant(_) => self.inbox.receive(at, message),
        }
    }

    /// The shared levels have served one of its requests.
    pub(crate) fn served(&mut self, served: Served) {
        match served {
            Served::Answered(answer) => self.receive(answer.at, Message::Answer(answer)),
            Served::Missed(missed) => self.missed(&missed),
        }
    }

    /// One of its requests has to wait for memory; a policy that hears tokens hears of it.
    fn missed(&mut self, missed: &Missed) {
        self.inbox.postpone(missed.number, missed.estimate_at);
        if missed.prefetch {
            return;
        }
        let (line, created) = (LineAddr(missed.line), missed.unknown_at);
        let token = Token { line, created, bound: Bound::Unknown };
        self.tell(created, Event::Token(token), None);
    }

    /// Memory knows more of one of its requests.
    pub(crate) fn hears(&mut self, news: ReadNews) {
        match news {
            ReadNews::Accepted { answer, at, bound, counted } => {
                self.inbox.accepted(answer.number, at, bound);
                self.estimate(&answer, at, counted, Estimate::Counted);
            }
            // A controller that reorders knows when a line comes once it has given the command
            // that reads it. When it accepts the request it can only guess.
            ReadNews::Done { answer, known } => {
                self.estimate(&answer, known, answer.at, Estimate::Scheduled);
                self.receive(answer.at, Message::Answer(answer));
            }
        }
    }

    /// Memory says at `known` that the data of a request is at the core at `expected`.
    fn estimate(&mut self, answer: &Answer, known: Time, expected: Time, which: Estimate) {
        if answer.prefetch {
            return;
        }
        let line = LineAddr(answer.line);
        let token = Token { line, created: known, bound: Bound::Eta(expected - known) };
        self.tell(known + self.tokens.eta, Event::Token(token), Some(which));
    }

    /// Policies that listen to tokens will hear of this when its time has come; of an estimate,
    /// those that hear this one.
    #[inline]
    pub(super) fn tell(&mut self, at: Time, event: Event, estimate: Option<Estimate>) {
        if !self.hears_tokens {
            return;
        }
        self.followers.tell(at, event, estimate);
        if self.gate.is_told(estimate) {
            // A run with faults has no followers.
            let Some(at) = self.met.arrival(at, &event) else { return };
            self.gate.schedule(at, event);
        }
    }

    /// Returns the faults of the core, and of the thread that began on it.
    pub(crate) fn faults(&self) -> FaultCounts {
        self.met.counts(self.gate.faults())
    }

    /// Returns how often operations needed a gated unit, and how long they waited.
    pub(crate) fn waits_for_units(&self) -> (u64, Time) {
        let gates = self.common().unit_gates.as_ref();
        gates.map_or((0, Time::ZERO), |gates| (gates.late_wakes, gates.late))
    }

    /// Returns the sleep under its own policy, or under that of a follower that has not diverged.
    pub(crate) fn sleep(&self, follower: Option<usize>) -> (&Gate, &Waited) {
        match follower {
            None => (&self.gate, &self.waited),
            Some(number) => {
                let sleep = self.followers.get(number).expect("whoever parted is not asked for");
                (&sleep.gate, &sleep.waited)
            }
        }
    }
}
