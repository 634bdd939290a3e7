//! Power states, transition costs and power models. Every watt and joule here is modelled.
//!
//! The numbers come from machine descriptions, each with its source; this crate holds their shapes
//! and the formulas between them.

mod cache;
mod closed_form;
mod core;
mod gating;
pub mod pdn;

pub use cache::CachePower;
pub use closed_form::{closed_form_saving, MissLevel};
pub use core::{CoreEvents, CorePower, CoreState};
pub use gating::{Gating, Lost};
