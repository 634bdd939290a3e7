//! What queueing theory says without a simulation: the oracles of this world.
//!
//! Rates are per second and times in seconds unless a caller uses another unit throughout; powers
//! in watts. Everything is of the steady state: where there is none (utilisation 1 or more) times
//! are infinite.
//!
//! Sources, by the name used below: Kleinrock, "Queueing Systems" I (1975); Takagi, "Queueing
//! Analysis" 1 (1991), with vacations and set-up; Harchol-Balter, "Performance Modeling and Design
//! of Computer Systems" (2013); others where they are used.

mod markov;
mod power_law;
mod sleep;

pub use markov::{erlang_b, erlang_c, Mginf, Mmk};
pub use power_law::BoundedPareto;
pub use sleep::{Mg1, Shares, SleepCycle};
