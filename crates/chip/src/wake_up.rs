//! The central wake-up controller as a part of the chip: messages from and to the cores take time.

use halfwink_engine::{Class, EventQueue};
use halfwink_policy::wake_up::{Action, Central, Event, WakeUpPolicy};
use halfwink_policy::Host;
use halfwink_units::Time;

use crate::machine::Machine;

/// A faster wake-up for a core, as it arrives there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) core: usize,
    pub(crate) at: Time,
    pub(crate) wake_up: Time,
}

/// The controller and what is on its way to it.
pub(crate) struct WakeUpController {
    policy: Host<WakeUpPolicy>,
    /// Delay from a core to the controller, and back.
    delay: Time,
    arriving: EventQueue<Event>,
}

impl WakeUpController {
    /// Creates the controller of a machine's cores, if they have one. Cores that are set aside for
    /// the kernel have a supply of their own: they disturb no other core, and they wake in a time
    /// of their own.
    pub(crate) fn of(
        machine: &Machine,
        users: usize,
        host: Option<&dyn Fn(Central) -> WakeUpPolicy>,
    ) -> Option<WakeUpController> {
        let central = machine.central_wake_up(users)?;
        let policy = match host {
            Some(host) => host(central),
            None => Box::new(central),
        };
        Some(WakeUpController::new(policy, machine.wake_up.delay))
    }

    pub(crate) fn new(policy: WakeUpPolicy, delay: Time) -> WakeUpController {
        WakeUpController { policy: Host::new(policy), delay, arriving: EventQueue::new() }
    }

    /// A core reports at `now`: when the reply comes, if there is one.
    pub(crate) fn push(&mut self, now: Time, event: Event) -> Option<Time> {
        // Of messages that arrive together, the lower core's is first, whoever was simulated first.
        let (Event::Gated(core) | Event::Awake(core)) = event;
        let arrival = now + self.delay;
        self.arriving.push(arrival, Class(core as u8), event);
        matches!(event, Event::Gated(_)).then_some(arrival + self.delay)
    }

    /// Returns the time at which the next message arrives.
    pub(crate) fn next_time(&self) -> Time {
        self.arriving.next_time().unwrap_or(Time::NEVER)
    }

    /// Serves the next message.
    pub(crate) fn serve(&mut self) -> Option<Grant> {
        let (now, event) = self.arriving.pop()?;
        let Action::Grant { core, wake_up } = self.policy.decide(now, &event)?;
        Some(Grant { core, at: now + self.delay, wake_up })
    }
}
