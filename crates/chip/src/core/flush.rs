//! A halted core writes back what it is about to lose, then its supply goes.
//!
//! Lines leave as fast as the walk finds them, as long as fewer are on their way than the data
//! cache has miss registers, which serve as write buffers here. The state lasts until the shared
//! levels have the last one.

use halfwink_units::{Clock, Cycle, Time};

use super::inbox::Inbox;
use super::{Core, CoreError, Message, Phase};
use crate::losing::{DirtyLine, SentBack};
use crate::memory::Undecided;
use crate::uncore::Answer;

/// A flush that is under way.
pub(super) struct Flush {
    start: Cycle,
    /// Cycles by which the walk was held up.
    held: Cycle,
    walk: Vec<DirtyLine>,
    next: usize,
    length: Cycle,
    /// The third level has to be lost too, behind all of it.
    shared: bool,
    on_the_way: usize,
    /// Lines that may be on their way at once.
    buffers: usize,
    last_answer: Time,
}

impl Flush {
    /// Returns the time at which it continues by itself; never if it waits for an answer.
    fn due(&self, clock: Clock) -> Time {
        let after = match self.walk.get(self.next) {
            Some(_) if self.on_the_way == self.buffers => return Time::NEVER,
            Some(dirty) => dirty.after,
            None if self.on_the_way > 0 => return Time::NEVER,
            None => self.length,
        };
        clock.time_of(self.start + self.held + after).max(self.last_answer)
    }
}

impl Core {
    /// Begins to flush, if the gate asks for it.
    #[inline]
    pub(super) fn look_at_caches(&mut self, now: Time) {
        if self.gate.take_flush_due() {
            self.begin_flush(now);
        }
    }

    #[cold]
    fn begin_flush(&mut self, now: Time) {
        // Whoever follows has caches of its own from here on.
        self.followers.part();
        let losses = self.gate.losses();
        let common = self.pipeline.common_mut();
        if let Some(losing) = &mut common.private.losing {
            losing.now = losses;
        }
        let (walk, length) = common.private.walk();
        self.flush = Some(Box::new(Flush {
            start: self.clock.cycle_at_or_after(now),
            held: 0,
            walk,
            next: 0,
            length,
            shared: common.private.losing.as_ref().is_some_and(|losing| losing.now.l3),
            on_the_way: 0,
            buffers: common.private.data_misses.registers(),
            last_answer: now,
        }));
    }

    /// Handles the actions of an idle core's policy before the caches were filled.
    pub(crate) fn begin_losses(&mut self) {
        self.look_at_caches(self.local);
    }

    /// Returns the time at which the flush continues or receives an answer; never if there is none.
    #[inline]
    pub(super) fn flush_at(&self) -> Time {
        match &self.flush {
            None => Time::NEVER,
            Some(flush) => flush.due(self.clock).min(self.inbox.next_time()),
        }
    }

    /// Lets the flush go on at `at`, which [`Core::flush_at`] gave.
    pub(super) fn step_flush(&mut self, at: Time) {
        let Some(flush) = &mut self.flush else { return };
        if let Some(answer) = heard(&mut self.inbox, at) {
            if answer.prefetch {
                // It was on its way before the flush, and nobody waits for it.
                self.pipeline.answer(&answer, self.clock.cycle_at_or_after(at));
                return;
            }
            let waited = flush.on_the_way == flush.buffers;
            (flush.on_the_way, flush.last_answer) = (flush.on_the_way - 1, at);
            if let Some(dirty) = flush.walk.get(flush.next).filter(|_| waited) {
                let due = flush.start + flush.held + dirty.after;
                flush.held += self.clock.cycle_at_or_after(at).saturating_sub(due);
            }
            return;
        }
        let common = self.pipeline.common_mut();
        if let Some(&dirty) = flush.walk.get(flush.next) {
            let now = self.clock.cycle_at_or_after(at);
            let sent = common.private.send_back(dirty, now);
            flush.on_the_way += usize::from(sent == SentBack::Sent);
            flush.next += 1;
            return;
        }
        if std::mem::take(&mut flush.shared) {
            let now = self.clock.cycle_at_or_after(at);
            common.private.lose_shared(now);
            flush.on_the_way += 1;
            return;
        }
        self.flush = None;
        common.private.lose();
        common.fetch_line = u64::MAX;
        let losing = common.private.losing.as_ref();
        if losing.is_some_and(|losing| losing.now.branch) {
            common.predictor.forget(self.branch);
        }
        self.gate.flushed(at);
    }

    /// A core without a thread goes on with what it loses, before `limit`, at which no thread has
    /// come yet.
    pub(super) fn vacant(&mut self, limit: Time) -> Result<bool, CoreError> {
        let (flush_at, gate_at) = (self.flush_at(), self.gate.next_time());
        let at = flush_at.min(gate_at);
        if at >= limit {
            if self.flush.is_some() {
                self.local = self.local.max(limit.min(at) - Time(1));
            }
            return Ok(false);
        }
        self.local = self.local.max(at);
        if gate_at <= flush_at {
            self.gate.step(at).map_err(|e| self.policy_error(e))?;
            self.look_at_caches(at);
        } else {
            self.step_flush(at);
        }
        // Whether what its timers do next is still part of the run is for the chip to say.
        Ok(self.flush.is_some())
    }

    /// Returns the time up to which an idle core that may lose contents was simulated.
    pub(super) fn vacant_progress(&self, undecided: Undecided) -> Option<Time> {
        if !self.loses() {
            return None;
        }
        let next = match &self.flush {
            None => self.gate.next_time(),
            Some(flush) => {
                let heard = self.inbox.next_message(undecided).min(self.inbox.next_time());
                flush.due(self.clock).min(heard).min(self.gate.next_time())
            }
        };
        (next != Time::NEVER).then(|| self.local.max(next))
    }

    /// Returns whether it can lose contents in a halt.
    #[inline]
    pub(crate) fn loses(&self) -> bool {
        self.common().private.losing.is_some()
    }

    /// Returns whether it writes back, although it has no thread.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    /// Returns whether it has no thread.
    pub(crate) fn is_vacant(&self) -> bool {
        matches!(self.phase, Phase::Vacant)
    }
}

/// Takes the answer that came at `at`, if one did.
fn heard(inbox: &mut Inbox, at: Time) -> Option<Answer> {
    if inbox.next_time() > at {
        return None;
    }
    match inbox.pop() {
        Some((_, Message::Answer(answer))) => Some(answer),
        _ => None,
    }
}
