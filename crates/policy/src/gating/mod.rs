//! When to cut the supply of a core that waits: memory-access power gating (Strong 2013, ch. 2).
//!
//! One policy object decides for one core. The world tells it when the pipeline stalls on memory,
//! what the caches and memory controllers say about outstanding accesses, and when the operating
//! system halts the core; it may gate the core and must wake it again.
//!
//! Where a world gates execution units in place of the core, one policy object decides for one
//! unit. For it `IdleBegin` and `IdleEnd` say that its unit has nothing to do and that an operation
//! needs it, and `StallBegin` and `StallEnd` that operations of the core wait for any of its units
//! to wake.
//!
//! ```text
//!  ACTIVE ──stall──▶ STALLED ──Gate──▶ GATING ──▶ GATED ──Wake──▶ CHARGING ──▶ RESTORING
//!     ▲                 │                                                          │
//!     ├────response─────┘◀──────────── no response yet ────────────────────────────┤
//!     └──────────────────────────────── response is there ─────────────────────────┘
//! ```

mod adaptive_idle;
mod always_on;
mod cpu_idle;
mod deep_rest;
mod fupg;
mod halt_poll;
mod idle_gate;
mod idle_menu;
mod interface;
mod joined;
mod mapg_counter;
mod oracle;
mod reference_core;
mod switching;
mod tap;

pub use adaptive_idle::AdaptiveIdle;
pub use always_on::AlwaysOn;
pub use cpu_idle::{CpuIdle, CpuIdleParameters};
pub use deep_rest::DeepRest;
pub use fupg::{Fupg, FupgParameters};
pub use halt_poll::{HaltPoll, HaltPollParameters};
pub use idle_gate::IdleGate;
pub use idle_menu::{IdleMenu, IdleMenuParameters};
use interface::Pending;
pub use interface::{Action, Bound, Costs, Estimate, Event, Gating, GatingPolicy, Slots, Token};
pub use joined::Joined;
pub use mapg_counter::{Expectation, MapgCounter, MapgParameters};
pub use oracle::Oracle;
pub use reference_core::{ReferenceCore, Waiting};
pub use switching::{Switching, SwitchingParameters};
pub use tap::{Tap, WakeFor};
