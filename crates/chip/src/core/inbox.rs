//! What reaches a core from outside, and the one rule for how far the core may look ahead.
//!
//! A core is simulated up to its **horizon**: the first time at which something could reach it that
//! is not in its inbox yet. Whatever is beyond might still be changed by a message, whatever is
//! before cannot. So it does not matter which core is simulated first, nor how far.
//!
//! | message | comes from | at the earliest |
//! |---|---|---|
//! | answer | the shared levels, to a request | the request's arrival there, and a look-up |
//! | grant | the wake-up controller, to a report | a round trip after the report |
//! | thread | the scheduler, to a core without one | when all others have come as far |
//! | snoop | the shared levels, for another core's request | that core's lookahead |
//!
//! Replies are known here: what was sent is noted with the first time at which its reply can come.
//! The other two depend on other cores and are the limit that the chip lets a core advance to. A
//! snoop is answered on the spot, since its sender waits for what is found; it is made once this
//! core has come exactly as far.

use std::collections::VecDeque;

use halfwink_engine::{Class, EventQueue};
use halfwink_units::Time;

use super::thread::Thread;
use crate::uncore::Answer;

/// Something from outside.
pub(crate) enum Message {
    /// The shared levels answer a request.
    Answer(Answer),
    /// The wake-up controller lets the core wake in this time.
    Grant(Time),
    /// A thread, for a core without one.
    Thread(Box<Thread>),
}

/// Whom a core sends something that is replied to; each replies in the order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    SharedLevels,
    WakeUpController,
}

/// Messages in the order of their time, and what is still to come.
pub(super) struct Inbox {
    replies: EventQueue<Message>,
    /// The first times at which replies can come that are not here yet, by who owes them.
    expected: [VecDeque<Time>; 2],
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox { replies: EventQueue::new(), expected: Default::default() }
    }

    /// A reply will come, at `at` or later.
    #[inline]
    pub(super) fn expect(&mut self, from: From, at: Time) {
        let expected = &mut self.expected[from as usize];
        // Nearly always the last: a fetch may overtake a load whose first level is slower.
        let mut place = expected.len();
        while place > 0 && expected[place - 1] > at {
            place -= 1;
        }
        if place == expected.len() {
            expected.push_back(at);
        } else {
            expected.insert(place, at);
        }
    }

    /// The reply to the message that was first to arrive there.
    pub(super) fn receive(&mut self, from: From, at: Time, message: Message) {
        let expected = self.expected[from as usize].pop_front();
        // Had it come before the horizon, the core might already have run past it.
        debug_assert!(expected.is_some_and(|first| first <= at), "a reply was expected by now");
        self.replies.push(at, Class(from as u8), message);
    }

    /// Nothing that is not here can come before this.
    #[inline]
    pub(super) fn horizon(&self) -> Time {
        let first = |from: From| self.expected[from as usize].front().copied();
        let [levels, controller] = [From::SharedLevels, From::WakeUpController].map(first);
        levels.unwrap_or(Time::NEVER).min(controller.unwrap_or(Time::NEVER))
    }

    /// When the first message comes.
    #[inline]
    pub(super) fn next_time(&self) -> Time {
        self.replies.next_time().unwrap_or(Time::NEVER)
    }

    /// Takes the first message.
    pub(super) fn pop(&mut self) -> Option<(Time, Message)> {
        self.replies.pop()
    }
}
