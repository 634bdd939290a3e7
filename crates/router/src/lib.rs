//! World: a software router at the scale of packets (Niccolini 2012, ch. 4).
//!
//! ```text
//!  traffic ──▶ redirect table ──▶ receive rings ──▶ poll loops of cores ──▶ out
//!                    ▲                │  interrupts      │ waiting, empty
//!                    │                ▼                  ▼
//!                    └─── moves ── cores: C0, C1, C3, C6 ◀── scaling policy
//! ```
//!
//! * [`Model`] is a description, checked, with its closed forms: service times, rates, power.
//! * [`Traffic`] makes packets; [`simulate`] plays them against a scaling policy, exact to the
//!   packet, with one event for each pass of a poll loop.
//! * A run's books close: every picosecond and attojoule of every core belongs to a row.
//!
//! All times, watts and joules are modelled.

mod books;
mod check;
mod cpu;
mod latency;
mod model;
mod power;
mod ring;
mod spec;
mod traffic;
mod world;

pub use books::{Run, Slot};
pub use latency::Latencies;
pub use model::{Model, ModelError, Point};
pub use power::Watts;
pub use spec::{
    App, Burst, Cores, Evaluation, Look, Loop, Nic, Path, Power, PowerSave, Printed, Sleep, Spec,
    Wake,
};
pub use traffic::{Flows, Gap, Profile, Traffic};
pub use world::{simulate, Options};
