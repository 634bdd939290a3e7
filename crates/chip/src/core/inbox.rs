//! What reaches a core from outside, and the one rule for how far the core may look ahead.
//!
//! A core is simulated up to its **horizon**: the first time at which something could reach it that
//! is not in its inbox yet. Whatever is beyond might still be changed by a message, whatever is
//! before cannot. So it does not matter which core is simulated first, nor how far.
//!
//! | message | comes from | at the earliest |
//! |---|---|---|
//! | answer | the shared levels, to a request | the request's arrival there, and a look-up |
//! | the same, after a miss | memory | its controller's bound, and what it has not decided yet |
//! | an estimate, to who hears them | memory | its way here, after what is not decided yet |
//! | grant | the wake-up controller, to a report | a round trip after the report |
//! | thread | the scheduler, to a core without one | when all others have come as far |
//! | snoop | the shared levels, for another core's request | that core's lookahead |
//!
//! Replies are known here: what was sent is noted with the first time at which its reply can come.
//! The other two depend on other cores and are the limit that the chip lets a core advance to. A
//! snoop is answered on the spot, since its sender waits for what is found; it is made once this
//! core has done all that it does at the snoop's time, and nothing later.

use std::collections::VecDeque;

use halfwink_units::Time;

use super::thread::Thread;
use crate::memory::Undecided;
use crate::uncore::Answer;

/// A message from outside.
pub(crate) enum Message {
    /// The shared levels answer a request.
    Answer(Answer),
    /// The wake-up controller lets the core wake in this time.
    Grant(Time),
    /// A thread, for a core without one.
    Thread(Box<Thread>),
}

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    number: u64,
    /// Earliest time of an answer when it was made, which gives the order of arrival at the shared
    /// levels.
    asked: Time,
    /// Earliest time of news about it; once it is accepted, of its data.
    at: Time,
    /// Time at which the memory controller accepted it.
    accepted: Option<Time>,
}

/// Order among messages of one time: answers in the order in which their requests arrived, then
/// grants.
type Order = (Time, u64);

/// Messages in the order of their time, and what is still to come.
pub(super) struct Inbox {
    /// The first one last.
    replies: Vec<(Time, Order, Message)>,
    unanswered: Vec<Unanswered>,
    /// Earliest of those that memory has accepted, and of the others.
    earliest: [Time; 2],
    /// Estimates of memory come so long after it knows them, to policies that hear them.
    estimate: Option<Time>,
    /// Earliest time of the first estimate for accepted requests.
    earliest_estimate: Time,
    /// The first times at which grants can come that are not here yet.
    grants: VecDeque<Time>,
}

impl Inbox {
    /// `estimate`: how long one is on its way, if the policy hears estimates.
    pub(super) fn new(estimate: Option<Time>) -> Inbox {
        Inbox {
            estimate,
            earliest_estimate: Time::NEVER,
            replies: Vec::new(),
            unanswered: Vec::new(),
            earliest: [Time::NEVER; 2],
            grants: VecDeque::new(),
        }
    }

    /// The shared levels will answer, at `at` or later.
    #[inline]
    pub(super) fn expect_answer(&mut self, number: u64, at: Time) {
        self.unanswered.push(Unanswered { number, asked: at, at, accepted: None });
        self.earliest[0] = self.earliest[0].min(at);
    }

    /// The wake-up controller will reply, at `at` or later; it does so in the order of reports.
    pub(super) fn expect_grant(&mut self, at: Time) {
        self.grants.push_back(at);
    }

    /// Postpones the earliest news of a request to `at`.
    pub(super) fn postpone(&mut self, number: u64, at: Time) {
        self.expect_again(number, at, None);
    }

    /// Memory has accepted a request at `at`: what is left to hear is its data, not before `bound`,
    /// and when that comes.
    pub(super) fn accepted(&mut self, number: u64, at: Time, bound: Time) {
        self.expect_again(number, bound, Some(at));
    }

    fn expect_again(&mut self, number: u64, at: Time, accepted: Option<Time>) {
        let found = self.unanswered.iter_mut().find(|unanswered| unanswered.number == number);
        debug_assert!(
            found.as_ref().is_some_and(|u| u.at <= at),
            "a bound is no lower than before"
        );
        if let Some(unanswered) = found {
            *unanswered = Unanswered { at, accepted, ..*unanswered };
        }
        self.find_earliest();
    }

    fn find_earliest(&mut self) {
        (self.earliest, self.earliest_estimate) = ([Time::NEVER; 2], Time::NEVER);
        for unanswered in &self.unanswered {
            let earliest = &mut self.earliest[usize::from(unanswered.accepted.is_some())];
            *earliest = unanswered.at.min(*earliest);
            if let (Some(at), Some(way)) = (unanswered.accepted, self.estimate) {
                self.earliest_estimate = self.earliest_estimate.min(at + way);
            }
        }
    }

    /// A reply that was expected.
    pub(super) fn receive(&mut self, at: Time, message: Message) {
        let (expected, order) = match &message {
            Message::Answer(answer) => {
                let place = self.unanswered.iter().position(|u| u.number == answer.number);
                let request = place.map(|place| self.unanswered.swap_remove(place));
                self.find_earliest();
                let asked = request.map_or(Time::ZERO, |request| request.asked);
                (request.map(|request| request.at), (asked, answer.number))
            }
            Message::Grant(_) | Message::Thread(_) => {
                (self.grants.pop_front(), (Time::NEVER, u64::MAX))
            }
        };
        // Had it come before the horizon, the core might already have run past it.
        debug_assert!(expected.is_some_and(|first| first <= at), "a reply was expected by now");
        let behind = |reply: &(Time, Order, Message)| (reply.0, reply.1) > (at, order);
        let place = self.replies.iter().rposition(behind).map_or(0, |place| place + 1);
        self.replies.insert(place, (at, order, message));
    }

    /// No message that is not here can come before this, with what memory has not decided.
    #[inline]
    pub(super) fn next_message(&self, undecided: Undecided) -> Time {
        let [other, accepted] = self.earliest;
        let grant = self.grants.front().copied().unwrap_or(Time::NEVER);
        other.min(accepted.max(undecided.data)).min(grant)
    }

    /// Returns the time before which no further message can come: neither a reply nor an estimate,
    /// which moves no pipeline.
    #[inline]
    pub(super) fn horizon(&self, undecided: Undecided) -> Time {
        let way = self.estimate.unwrap_or(Time::ZERO);
        let estimate = undecided.command.saturating_add(way);
        self.next_message(undecided).min(self.earliest_estimate.max(estimate))
    }

    /// Returns the time of the first message.
    #[inline]
    pub(super) fn next_time(&self) -> Time {
        self.replies.last().map_or(Time::NEVER, |reply| reply.0)
    }

    /// Takes the first message.
    pub(super) fn pop(&mut self) -> Option<(Time, Message)> {
        self.replies.pop().map(|(at, _, message)| (at, message))
    }
}
