//! The rows of the list, a file for each family.

mod availability;
mod c_states;
mod circuits;
mod completion;
mod gating;
mod node;
mod offload;
mod preheat;
mod scaling;
mod segregation;
mod steering;
mod switching;
mod wake_up;

pub use availability::{Availability, Available};
pub(crate) use completion::resting;

use crate::Technique;

/// The list, a family after the other. Its order means nothing.
// A static: each crate that uses a constant would hold the policies' functions once more.
pub(crate) static FAMILIES: [&[Technique]; 12] = [
    gating::TECHNIQUES,
    c_states::TECHNIQUES,
    offload::TECHNIQUES,
    segregation::TECHNIQUES,
    wake_up::TECHNIQUES,
    switching::TECHNIQUES,
    scaling::TECHNIQUES,
    steering::TECHNIQUES,
    preheat::TECHNIQUES,
    circuits::TECHNIQUES,
    completion::TECHNIQUES,
    node::TECHNIQUES,
];
