//! Shortest expected delay: each request goes where it will be done first, as far as is known. The
//! baseline of queueing theory for machines of different speed.
//!
//! ```text
//!   delay = set-up still to come + (requests before it that need a worker first) / rate + service
//! ```
//!
//! Shortest-expected-delay routing: Selen, Adan, Kapodistria, van Leeuwaarden, "Steady-state
//! analysis of shortest expected delay routing" (Queueing Systems 84, 2016), who call it simple and
//! asymptotically optimal. Deviations: several workers behind each queue (a request waits for as
//! many departures as are before it, at the rate of all workers), and the big machine's wake-up
//! counts as delay, for that one sleeps when it has had nothing to do.

use halfwink_units::Time;

use super::machines::{Linger, Machines};
use super::pair::Power;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// One machine as the policy knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Requests in service at most.
    pub workers: u32,
    /// Mean service time of a request.
    pub service: Time,
}

impl Server {
    /// Returns the time that a request which arrives now will need, if the machine is on.
    #[inline]
    fn delay(self, load: u32) -> Time {
        let before = u64::from((load + 1).saturating_sub(self.workers));
        Time(self.service.0 + self.service.0.saturating_mul(before) / u64::from(self.workers))
    }
}

/// Parameters of the two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortestParameters {
    /// The small machine, always on.
    pub small: Server,
    /// Big machine, which sleeps.
    pub big: Server,
    /// Time from asleep to on.
    pub wake_latency: Time,
    /// Time for which the big machine stays on without requests.
    pub linger: Time,
}

impl ShortestParameters {
    /// Two machines alike but for the speed, and a big one that sleeps at once.
    #[must_use]
    pub fn ratio(workers: u32, small: Time, speed: u32, wake_latency: Time) -> ShortestParameters {
        ShortestParameters {
            small: Server { workers, service: small },
            big: Server { workers, service: Time(small.0 / u64::from(speed.max(1))) },
            wake_latency,
            linger: Time::ZERO,
        }
    }
}

/// Policy of the shortest delay.
#[derive(Clone, Debug)]
pub struct Shortest {
    parameters: ShortestParameters,
    machines: Machines,
    linger: Linger,
    /// Time at which the big machine will be awake, if it wakes.
    awake_at: Time,
}

impl Shortest {
    /// The big machine sleeps at first, after its linger.
    ///
    /// # Panics
    /// If a machine has no workers.
    #[must_use]
    pub fn new(parameters: ShortestParameters) -> Shortest {
        assert!(parameters.small.workers > 0 && parameters.big.workers > 0, "workers");
        let linger = Linger::standing_in(Side::Big, parameters.linger);
        let mut policy =
            Shortest { parameters, machines: Machines::NEW, linger, awake_at: Time::ZERO };
        policy.linger.settle(Time::ZERO, &mut policy.machines);
        policy
    }

    /// Returns the time until the big machine serves a request that is sent now.
    #[inline]
    fn set_up(&self, now: Time) -> Time {
        match self.machines.of(Side::Big).power {
            Power::On => Time::ZERO,
            Power::Waking => self.awake_at.saturating_sub(now),
            // How far down it is nobody tells.
            Power::GoingDown | Power::Asleep => self.parameters.wake_latency,
        }
    }

    #[inline]
    fn arrive(&mut self, now: Time) {
        let ShortestParameters { small, big, .. } = self.parameters;
        let set_up = self.set_up(now);
        let on_small = small.delay(self.machines.of(Side::Small).load);
        let on_big = set_up.saturating_add(big.delay(self.machines.of(Side::Big).load));
        let wanted = if on_small <= on_big { Side::Small } else { Side::Big };
        if self.machines.send(wanted) == Side::Big {
            self.linger.busy();
            self.awake_at = now.saturating_add(set_up);
        }
    }
}

impl Policy for Shortest {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.machines.note(event);
        match event {
            Event::Arrive => self.arrive(now),
            Event::Asleep { .. } => {}
            _ => self.linger.settle(now, &mut self.machines),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.linger.timer(now, &mut self.machines);
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        self.linger.next()
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        self.machines.snapshot()
    }
}

impl Steering for Shortest {}
