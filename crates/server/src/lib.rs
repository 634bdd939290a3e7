//! World: requests that a small and a big machine serve (Niccolini 2012, ch. 3).
//!
//! ```text
//!  arrivals ──▶ steering policy ──▶ queue of the small machine ──▶ workers ──▶ done
//!                   │    ▲    └───▶ queue of the big machine   ──▶ workers ──▶ done
//!                   │    └── done, awake, asleep ──┘
//!                   └── wake, sleep ──▶ on, going down, asleep, waking, lost
//! ```
//!
//! * [`Model`](halfwink_techniques::server::Model) is a description, checked;
//!   [`Service`](halfwink_techniques::server::Service) what requests ask for (Eq 3.1) and what the
//!   machines can carry.
//! * [`Arrivals`] say when requests come; [`simulate`] plays them against one pair of machines,
//!   event by event.
//! * A run's ledger balances: every picosecond and attojoule of both machines belongs to a row.
//!
//! All times, watts and joules are modelled.

pub mod capping;
pub mod closed_form;
mod faults;
mod fleet;
pub mod proportionality;
mod run;
mod server;
mod station;
pub mod year;

pub use halfwink_engine::confidence;
pub use halfwink_engine::confidence::{Goal, Precision};

pub use fleet::{simulate_fleet, Dispatch, FleetRun, MakePolicy};
pub use halfwink_arrivals::Arrivals;
pub use run::{draw, simulate, simulate_controlled, MachineUse, Options, Run, RunError, Slot};
pub use server::{Misled, Tally};
