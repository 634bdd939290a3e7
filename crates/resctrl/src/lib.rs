//! Cache allocation as Linux has it (resctrl): a tree is read, classes for the kernel, for services
//! and for the rest are planned as masks of ways, and a plan is applied and taken back.
//!
//! Pure but for `std::fs`: a tree is any folder that is laid out like one ([`Files`]). Where it is
//! no mounted resctrl, [`Rehearsal`] does what the kernel would do by itself.

mod advice;
mod apply;
mod check;
mod error;
mod files;
mod journal;
mod kernel_threads;
mod mask;
pub mod names;
mod plan;
mod rehearsal;
mod restore;
mod schemata;
mod state;
pub mod text;

pub use advice::{Advice, Change, Expected, Routing};
pub use apply::{apply, Applied, Assign};
pub use check::check;
pub use error::Error;
pub use files::{default_journal, open, Files, Mounted};
pub use journal::{Journal, Phase, Step};
pub use mask::Mask;
pub use plan::{
    divisible, plan, Class, Divisible, KernelBy, KernelClass, Plan, Request, Role, Service,
    KERNEL_GROUP,
};
pub use rehearsal::Rehearsal;
pub use restore::{restore, Restored};
pub use schemata::{Line, Schemata};
pub use state::{Cache, Group, Kind, Resource, State};
