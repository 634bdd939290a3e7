//! What a core hears from outside: answers, how long they will take at least, grants, threads.

use halfwink_policy::gating::{Bound, Event, Token};
use halfwink_units::{LineAddr, Time};

use super::{Core, Message, Waited};
use crate::faults::FaultCounts;
use crate::gate::Gate;
use crate::memory::ReadNews;
use crate::uncore::{Missed, Served};

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
        self.tell(created, Event::Token(token));
    }

    /// Memory knows more of one of its requests.
    pub(crate) fn hears(&mut self, news: ReadNews) {
        match news {
            ReadNews::Accepted { number, at, bound, .. } => {
                self.inbox.accepted(number, at, bound);
            }
            // A controller that reorders knows when a line comes once it has given the command
            // that reads it, and not when it accepts the request: until then it is unknown.
            ReadNews::Done { answer, known } => {
                let bound = Bound::Eta(answer.at - known);
                let token = Token { line: LineAddr(answer.line), created: known, bound };
                if !answer.prefetch {
                    self.tell(known + self.tokens.eta, Event::Token(token));
                }
                self.receive(answer.at, Message::Answer(answer));
            }
        }
    }

    /// Policies that listen to tokens will hear of this when its time has come.
    #[inline]
    pub(super) fn tell(&mut self, at: Time, event: Event) {
        if !self.hears_tokens {
            return;
        }
        let Some(at) = self.met.arrival(at, &event) else { return };
        if self.gate.hears_tokens {
            self.gate.schedule(at, event);
        }
        self.followers.tell(at, event);
    }

    /// Returns the faults of the core, and of the thread that began on it.
    pub(crate) fn faults(&self) -> FaultCounts {
        self.met.counts(self.gate.faults())
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
