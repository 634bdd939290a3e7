//! The families whose policies can be modules, one file for each: what a module is told at its
//! start, and which of its actions its world can follow.
//!
//! ```text
//! events, actions ── record (crate policy) ──┐
//! what a world hands over ── start ──────────┼── Played ── policy of the family
//! bounds of cores, entries, states ── check ─┘
//! ```

mod circuits;
mod completion;
mod gating;
mod offload;
mod preheat;
mod scaling;
mod segregation;
mod steering;

use halfwink_techniques::{Choice, Make};

use crate::about::{About, Family};
use crate::played::Opened;

/// A family of which a policy can be a module, as rows of techniques see it.
pub struct Playable {
    /// The words that its modules use.
    pub(crate) family: Family,
    /// Change that an operator needs to run such a policy.
    pub(crate) needs: &'static str,
    /// Worlds that play a module.
    pub(crate) worlds: fn(&About) -> &'static [&'static str],
    /// The constructor of its policies.
    pub(crate) make: fn(&About) -> Make,
}

/// The family of `live block`.
pub const COMPLETION: &Playable = &completion::FAMILY;
/// The family of `live router`.
pub const SCALING: &Playable = &scaling::FAMILY;
/// The family of `live steer`.
pub const STEERING: &Playable = &steering::FAMILY;

/// All families that modules may be of.
pub const FAMILIES: [&Playable; 8] = [
    &gating::FAMILY,
    &scaling::FAMILY,
    &steering::FAMILY,
    &completion::FAMILY,
    &offload::FAMILY,
    &preheat::FAMILY,
    &circuits::FAMILY,
    &segregation::FAMILY,
];

/// Returns the module of a row.
///
/// # Panics
/// If the row is no module's.
fn module_of(choice: &Choice) -> &'static Opened {
    let module = choice.technique().module.and_then(|module| module.as_any().downcast_ref());
    module.expect("the row of a module has one")
}
