//! When to cut the supply of a core that waits: memory-access power gating (Strong 2013, ch. 2).
//!
//! One policy object decides for one core. The world tells it when the pipeline stalls on memory,
//! what the caches and memory controllers say about outstanding accesses, and when the operating
//! system halts the core; it may gate the core and must wake it again.
//!
//! ```text
//!  ACTIVE ──stall──▶ STALLED ──Gate──▶ GATING ──▶ GATED ──Wake──▶ CHARGING ──▶ RESTORING
//!     ▲                 │                                                          │
//!     ├────response─────┘◀──────────── no response yet ────────────────────────────┤
//!     └──────────────────────────────── response is there ─────────────────────────┘
//! ```

mod always_on;
mod idle_gate;
mod mapg_counter;
mod oracle;
mod tap;

use alloc::boxed::Box;

pub use always_on::AlwaysOn;
pub use idle_gate::IdleGate;
pub use mapg_counter::{Expectation, MapgCounter, MapgParameters};
pub use oracle::Oracle;
pub use tap::Tap;

use halfwink_units::{LineAddr, Time};

use crate::Policy;

/// A policy that gates one core.
pub trait Gating: Policy<Event = Event, Action = Action> + Send {
    /// Whether it listens to [`Event::Token`] and, while the core runs, to [`Event::Response`]. A
    /// world may spare itself telling others.
    fn hears_tokens(&self) -> bool {
        false
    }
}

/// Any gating policy.
pub type GatingPolicy = Box<dyn Gating>;

/// What a core tells its gating policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pipeline cannot move before memory answers.
    StallBegin,
    /// The pipeline moves again; the stall began at `began`.
    StallEnd {
        /// Start of the stall that ends.
        began: Time,
    },
    /// A cache or memory controller says how far an outstanding access is.
    Token(Token),
    /// An outstanding access was answered.
    Response {
        /// Its line.
        line: LineAddr,
    },
    /// The operating system halted the core.
    IdleBegin,
    /// An interrupt ends the halt that began at `began`.
    IdleEnd {
        /// Start of the halt that ends.
        began: Time,
    },
    /// The core is restored and runs, or waits with its clock on.
    Awake,
}

/// What is known of an outstanding access (Strong 2013, Sec 2.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The line that is wanted.
    pub line: LineAddr,
    /// When the controller made the token.
    pub created: Time,
    /// What it promises.
    pub bound: Bound,
}

/// What a token promises about its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Missed in this cache; no response before this long after creation, even if the next level
    /// hits.
    NotBefore(Time),
    /// Missed in the last cache; the memory controller will tell more.
    Unknown,
    /// The memory controller knows when the bank is done: this long after creation, or later.
    Eta(Time),
}

/// What a gating policy can ask of its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stop the clock, save state, open the header switches.
    Gate,
    /// Close the header switches, restore, run.
    Wake,
    /// Account the span as if the core had been gated at `gate` and woken at `wake`. Only a policy
    /// that knows the future can ask for this; it changes the energy and nothing else.
    Hindsight {
        /// When gating would have begun.
        gate: Time,
        /// When waking would have begun.
        wake: Time,
    },
}

/// What one round trip to the gated state costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// From the decision until the supply is off.
    pub entry: Time,
    /// Time off that pays for waking up: wake-up energy / leakage saved (Strong 2013, Sec 2.3.3).
    pub break_even: Time,
    /// From closing the first header switch until the supply is stable.
    pub wake_up: Time,
    /// From there until the pipeline is refilled.
    pub restore: Time,
}

impl Costs {
    /// From the order to wake until the core runs.
    #[must_use]
    pub fn lead(&self) -> Time {
        self.wake_up + self.restore
    }

    /// The break-even rule: a wait of `span` is worth gating (Strong 2013, Sec 2.3.3; entry and
    /// restore counted as overheads, Sec 2.5).
    #[must_use]
    pub fn pays(&self, span: Time) -> bool {
        span > self.entry + self.break_even + self.lead()
    }
}

/// A slot for the one action that a gating policy can have pending.
type Pending = Option<Action>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_l3_hit_never_pays_and_a_memory_access_does() {
        // Strong 2013, Table 2.3: EV6 break-even 17.17, wake-up 10.2, restore 3.03 ns.
        let ev6 = Costs {
            entry: Time::ZERO,
            break_even: Time(17_170),
            wake_up: Time(10_200),
            restore: Time(3_030),
        };
        assert!(!ev6.pays(Time::ns(13)));
        assert!(!ev6.pays(Time(30_400)));
        assert!(ev6.pays(Time(30_401)));
        assert!(ev6.pays(Time::ns(50)));
    }
}
