//! Memory: devices as data, and a controller that moves from event to event.
//!
//! ```text
//!  requests ─▶ arrivals ─▶ read queue  ─┐ one a clock
//!                          write queue ─┴─▶ queues of banks ─▶ first ready ─▶ commands, data
//!                               ▲ drains when full or idle
//! ```
//!
//! A [`Channel`] counts clocks but has none: it knows the earliest time of every command that it
//! could give, and takes the first. Constraints of a data sheet are whole clocks, so nothing is
//! rounded inside. [`Memory`] puts channels side by side, and turns picoseconds into clocks.
//!
//! **What is final when.** Whoever brings requests says up to when all have come. Everything before
//! is decided for good, nothing after: so results do not depend on how often it is asked. When a
//! request is accepted, a **lower bound** of its data's time is known. It stays one, since earliest
//! times only ever grow.

mod address;
mod channel;
mod device;
mod memory;
mod spec;
mod timing;

pub use address::{AddressMap, BankHash, MapOrder, Place};
pub use channel::{Channel, Command, Commands, Counts, Kind, Payer, Request, Sink};
pub use device::{CommandEnergy, Currents, Device};
pub use memory::{Heard, Memory};
pub use spec::{Page, Rules, Spec, MAX_BANKS};
pub use timing::{SpecError, Timing};
