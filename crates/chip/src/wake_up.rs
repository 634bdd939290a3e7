//! The central wake-up controller as a part of the chip: messages from and to the cores take time.

use halfwink_engine::{Class, EventQueue};
use halfwink_policy::wake_up::{Action, Central, Event};
use halfwink_policy::Policy;
use halfwink_units::Time;

/// A faster wake-up for a core, as it arrives there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) core: usize,
    pub(crate) at: Time,
    pub(crate) wake_up: Time,
}

/// The controller and what is on its way to it.
pub(crate) struct WakeUpController {
    policy: Central,
    /// From a core to the controller, and back.
    delay: Time,
    arriving: EventQueue<Event>,
}

impl WakeUpController {
    pub(crate) fn new(policy: Central, delay: Time) -> WakeUpController {
        WakeUpController { policy, delay, arriving: EventQueue::new() }
    }

    /// A core says something at `now`.
    pub(crate) fn tell(&mut self, now: Time, event: Event) {
        // Of messages that arrive together, the lower core's is first, whoever was simulated first.
        let (Event::Gated(core) | Event::Awake(core)) = event;
        self.arriving.push(now + self.delay, Class(core as u8), event);
    }

    /// When the next message arrives.
    pub(crate) fn next_time(&self) -> Time {
        self.arriving.next_time().unwrap_or(Time::NEVER)
    }

    /// Hears the next message.
    pub(crate) fn serve(&mut self) -> Option<Grant> {
        let (now, event) = self.arriving.pop()?;
        self.policy.on_event(now, &event);
        let Action::Grant { core, wake_up } = self.policy.poll_action()?;
        Some(Grant { core, at: now + self.delay, wake_up })
    }
}
