//! How fast cores may wake, so that inrush currents do not disturb the cores that run (Strong 2013,
//! Sec 2.3.1).
//!
//! The distributed alternative needs no controller: see [`crate::gating::Slots`].

mod central;

use alloc::boxed::Box;

use crate::Policy;

pub use central::{Action, Central, Event, Mode, Neighbourhood, UnsafeError};

/// Any wake-up policy. It answers [`Event::Gated`] at once, with one [`Action::Grant`].
pub type WakeUpPolicy = Box<dyn Policy<Event = Event, Action = Action> + Send>;
