//! How a request gets from the network card to a core: by an interrupt, or since the core polls.

use halfwink_techniques::node::machine::{us, State, POLL};
use halfwink_techniques::node::Input;
use halfwink_units::Time;

use crate::moderation::Moderation;

/// The policy of the input slot, in the machine's units.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Intake {
    AtOnce,
    Coalesced(Time),
    Moderated,
    Polled {
        span: Time,
        /// Work that a request costs less if no interrupt brings it.
        saved: Time,
    },
    Suspended {
        flush: Time,
        timers: u32,
        saved: Time,
        /// State in which a core awaits such a timer: the governor knows that it is near.
        awaits_in: usize,
    },
}

/// A rest that no governor chose: the state, when its timer is due, whether that wakes the core.
pub(crate) type Held = (usize, Time, bool);

/// State of one core's receive queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Time of the card's next interrupt.
    interrupt: Time,
    // Boxed: every step of every core reads what stands beside it.
    moderation: Option<Box<Moderation>>,
    /// End of the present poll, or of the present timer; over if it is not later than now.
    until: Time,
    /// Timers that may still find nothing.
    timers: u32,
}

impl Intake {
    pub(crate) fn new(input: Input, states: &[State]) -> Intake {
        match input {
            Input::AtOnce => Intake::AtOnce,
            Input::Coalesced(0.0) => Intake::AtOnce,
            Input::Coalesced(hold_us) => Intake::Coalesced(us(hold_us)),
            Input::Moderated => Intake::Moderated,
            Input::Polled { span_us, interrupt_us } => {
                let span = if span_us.is_finite() { us(span_us) } else { Time::NEVER };
                Intake::Polled { span, saved: us(interrupt_us) }
            }
            Input::Suspended { flush_us, empty_polls, interrupt_us } => Intake::Suspended {
                flush: us(flush_us),
                timers: empty_polls,
                saved: us(interrupt_us),
                // The shallowest state that is no polling.
                awaits_in: (states.len() - 1).min(1),
            },
        }
    }

    /// Work that a request costs that no interrupt brings.
    pub(crate) fn polled(&self, work: Time) -> Time {
        match self {
            Intake::Polled { saved, .. } | Intake::Suspended { saved, .. } => {
                work.saturating_sub(*saved)
            }
            _ => work,
        }
    }
}

impl Queue {
    pub(crate) fn new(intake: &Intake) -> Queue {
        let is_moderated = matches!(intake, Intake::Moderated);
        let moderation = is_moderated.then(|| Box::new(Moderation::new()));
        Queue { interrupt: Time::ZERO, moderation, until: Time::ZERO, timers: 0 }
    }

    /// The card has a request: the time of the interrupt that brings it, and whether that is a new
    /// one; none if there is no delay.
    pub(crate) fn receive(&mut self, intake: &Intake, now: Time) -> Option<(Time, bool)> {
        let hold = match (intake, &mut self.moderation) {
            (Intake::AtOnce, _) => return None,
            (Intake::Coalesced(hold), _) => *hold,
            (Intake::Moderated, Some(moderation)) => {
                moderation.packet();
                moderation.hold()
            }
            _ => return None,
        };
        let is_new = self.interrupt < now;
        if is_new {
            self.interrupt = now + hold;
        }
        Some((self.interrupt, is_new))
    }

    /// The card's interrupt is due.
    pub(crate) fn interrupts(&mut self, now: Time) {
        if let Some(moderation) = &mut self.moderation {
            moderation.interrupt(now);
        }
    }

    /// A core has nothing to do, behind requests or behind other work: how it rests, if its
    /// governor has no say yet.
    pub(crate) fn rests(
        &mut self,
        intake: &Intake,
        is_behind_requests: bool,
        now: Time,
    ) -> Option<Held> {
        let (span, timers, state, wakes) = match *intake {
            Intake::Polled { span, .. } => (span, 1, POLL, false),
            Intake::Suspended { flush, timers, awaits_in, .. } => (flush, timers, awaits_in, true),
            _ => return None,
        };
        if is_behind_requests {
            (self.timers, self.until) = (timers, now.saturating_add(span));
        } else if self.until <= now && self.timers > 0 {
            // A timer has found nothing.
            self.timers -= 1;
            self.until = if self.timers > 0 { now + span } else { self.until };
        }
        (self.until > now).then_some((state, self.until, wakes))
    }

    /// True while a core that rests polls.
    pub(crate) fn polls(&self, intake: &Intake, now: Time) -> bool {
        matches!(intake, Intake::Polled { .. }) && self.until > now
    }

    /// True while interrupts are masked: requests wait for a timer.
    pub(crate) fn is_masked(&self, intake: &Intake, now: Time) -> bool {
        matches!(intake, Intake::Suspended { .. }) && self.until > now
    }
}
