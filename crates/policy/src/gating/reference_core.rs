//! A core in small, which is always as fast as it says: what a policy may ask of it. Random and
//! fuzzed events are played against it.

use alloc::format;
use alloc::string::{String, ToString};

use halfwink_units::Time;

use super::{Action, Costs, Slots};
use crate::scaling::{Depth, IdleState, IdleStates};

/// State of the work of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The core runs, and waits for nothing.
    No,
    /// The core has stalled on memory since this time.
    Stalled(Time),
    /// The core has been halted since this time.
    Halted(Time),
}

/// A core with four idle states, two of which are left by waking.
#[derive(Clone, Debug)]
pub struct ReferenceCore {
    /// State of its work.
    pub waiting: Waiting,
    /// True while it is gated, or in an idle state that is left by waking.
    pub is_gated: bool,
    /// Time at which it is awake, once it was asked to wake.
    pub awake_at: Option<Time>,
}

impl ReferenceCore {
    /// Times that gating this core takes.
    pub const COSTS: Costs = Costs {
        entry: Time(909),
        break_even: Time(17_170),
        wake_up: Time(10_200),
        restore: Time(3_030),
        slots: Slots::ANY,
    };

    const STATES: usize = 4;
    /// First idle state that is left by waking.
    const DEEP: usize = 2;

    /// Creates a core that runs.
    #[must_use]
    pub const fn new() -> ReferenceCore {
        ReferenceCore { waiting: Waiting::No, is_gated: false, awake_at: None }
    }

    /// Returns its idle states.
    #[must_use]
    pub fn idle_states() -> IdleStates {
        let state = |exit, residency| IdleState {
            depth: if exit > 1 { Depth::C6 } else { Depth::C1 },
            exit: Time::ns(exit),
            residency: Time::ns(residency),
            polls: residency == 0,
        };
        let states: [IdleState; Self::STATES] =
            [state(0, 0), state(1, 1), state(2, 4), state(290, 800)];
        IdleStates::new(&states)
    }

    /// Does what its policy asks for at `now`.
    ///
    /// # Errors
    /// What the policy did, if the core cannot do so.
    pub fn take(&mut self, now: Time, action: Action) -> Result<(), String> {
        match action {
            Action::Gate => {
                if self.waiting == Waiting::No || self.is_gated {
                    return Err("gated a core that does not wait, or sleeps".to_string());
                }
                self.is_gated = true;
            }
            Action::Rest { state } => {
                if !matches!(self.waiting, Waiting::Halted(_)) || self.is_gated {
                    return Err("had a core rest that is not halted, or sleeps".to_string());
                }
                if usize::from(state) >= Self::STATES {
                    let count = Self::STATES;
                    return Err(format!("entered the state {state}, expected one below {count}"));
                }
                self.is_gated = usize::from(state) >= Self::DEEP;
            }
            Action::Wake => {
                if self.is_gated && self.awake_at.is_none() {
                    self.awake_at = Some(now + Self::COSTS.entry + Self::COSTS.lead());
                }
            }
            Action::Hindsight { gate, wake } => {
                let (Waiting::Stalled(began) | Waiting::Halted(began)) = self.waiting else {
                    return Err("accounted a wait that was none".to_string());
                };
                let fits = began <= gate && gate + Self::COSTS.entry <= wake;
                if !fits || wake + Self::COSTS.lead() > now {
                    return Err(format!("accounted {gate} to {wake}, outside of the wait"));
                }
            }
        }
        Ok(())
    }
}

impl Default for ReferenceCore {
    fn default() -> ReferenceCore {
        ReferenceCore::new()
    }
}
