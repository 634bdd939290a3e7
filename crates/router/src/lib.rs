//! World: a software router at the scale of packets (Niccolini 2012, ch. 4).
//!
//! ```text
//!  traffic ──▶ redirect table ──▶ receive rings ──▶ poll loops of cores ──▶ out
//!                    ▲                │  interrupts      │ waiting, empty
//!                    │                ▼                  ▼
//!                    └─── moves ── cores: C0, C1, C3, C6 ◀── scaling policy
//! ```
//!
//! * [`Model`](halfwink_techniques::router::Model) is a description, checked, with its closed
//!   forms: service times, rates, power.
//! * [`Traffic`] makes packets; [`simulate`] plays them against a scaling policy, exact to the
//!   packet, with one event for each pass of a poll loop.
//! * A run's ledger balances: every picosecond and attojoule of every core belongs to a row.
//!
//! All times, watts and joules are modelled.

mod accounting;
mod cpu;
mod faults;
mod latency;
mod power;
mod ring;
mod traffic;
mod world;

pub use accounting::{Run, Slot};
pub use faults::{Broken, FaultCounts};
pub use latency::Latencies;
pub use power::Watts;
pub use traffic::{Flows, Gap, Profile, Traffic};
pub use world::{simulate, simulate_controlled, Options, RunError};
