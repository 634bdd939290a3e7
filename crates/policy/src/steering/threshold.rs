//! The hybrid server's scheduler (Niccolini 2012, Sec 3.1.2): below a threshold of concurrent
//! requests the small machine serves, above it the big one, which sleeps whenever it has nothing.

use halfwink_units::Time;

use super::machines::{Linger, Machines};
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Which requests count against the threshold. The thesis says both: "concurrent requests" (Sec
/// 3.1.2) and "simultaneous requests served by the small cores" (Sec 3.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Requests of the small machine.
    Small,
    /// Requests of the whole server. Starves the small machine when the big one is full.
    All,
}

/// Parameters of the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdParameters {
    /// Concurrent requests from which on the big machine serves (the thesis' S_t).
    pub threshold: u32,
    /// Which of them count.
    pub count: Count,
    /// The big machine is woken, and kept awake, while more than so many count. The threshold in
    /// the thesis: woken by the first request that it must serve. Fewer hide its wake-up.
    pub wake_at: u32,
    /// Time for which the big machine stays on without requests; zero in the thesis.
    pub linger: Time,
}

impl ThresholdParameters {
    /// Returns the parameters of the thesis, for this S_t.
    #[must_use]
    pub fn published(threshold: u32) -> ThresholdParameters {
        ThresholdParameters {
            threshold,
            count: Count::Small,
            wake_at: threshold,
            linger: Time::ZERO,
        }
    }
}

/// Scheduler with a threshold.
#[derive(Clone, Debug)]
pub struct Threshold {
    parameters: ThresholdParameters,
    machines: Machines,
    linger: Linger,
}

impl Threshold {
    /// A scheduler whose big machine sleeps.
    #[must_use]
    pub fn new(parameters: ThresholdParameters) -> Threshold {
        let linger = Linger::standing_in(Side::Big, parameters.linger);
        let mut policy = Threshold { parameters, machines: Machines::NEW, linger };
        policy.machines.rest(Side::Big);
        policy
    }

    #[inline]
    fn arrive(&mut self) {
        let small = self.machines.of(Side::Small).load;
        let counted = match self.parameters.count {
            Count::Small => small,
            Count::All => small + self.machines.of(Side::Big).load,
        };
        let wanted = if counted < self.parameters.threshold { Side::Small } else { Side::Big };
        let side = self.machines.queue(wanted);
        if side == Side::Big || counted + 1 > self.parameters.wake_at {
            self.linger.busy();
            self.machines.wake(Side::Big);
        }
    }

    /// The big machine may have become idle.
    #[inline]
    fn settle(&mut self, now: Time) {
        // Soon needed: it was woken early, or would be.
        if self.machines.of(Side::Small).load <= self.parameters.wake_at {
            self.linger.settle(now, &mut self.machines);
        }
    }
}

impl Policy for Threshold {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.machines.note(event);
        match event {
            Event::Arrive => self.arrive(),
            Event::Asleep { .. } => {}
            Event::Finish { .. }
            | Event::Awake { .. }
            | Event::Lost { .. }
            | Event::Back { .. } => {
                self.settle(now);
            }
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

impl Steering for Threshold {}
