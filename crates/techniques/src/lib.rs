//! The one list of techniques, with their parameters, and what their policies are made from.
//!
//! ```text
//!  `tap:wake=last` ──▶ Choice ──▶ row of the list ──▶ policy
//!                                      ▲
//!        a core's costs, a router, a server, a switch, CPUs of a machine
//! ```
//!
//! * [`techniques`] lists all of all worlds, a file for each family; a [`Choice`] is one of them
//!   with its parameters and modifiers.
//! * [`router`] and [`server`] are described machines: policies of routers and of hybrid servers
//!   are made from them, and live programs take their watts from them. [`block`] has the policies
//!   of live block devices, [`circuits`] those of live circuits, [`delegate`] those of a program's
//!   system calls.
//!   [`Descriptions`] finds descriptions by name.
//! * A [`Module`] is a policy in a file of the user's; a program that plays some sets their loader.
//! * What a row changes of a chip is a [`Change`], which the chip's world makes.
//!
//! It stands below the worlds, so that a program that needs a policy by name links no simulator.

pub mod block;
mod choice;
pub mod circuits;
mod context;
pub mod delegate;
mod descriptions;
mod error;
mod file_name;
mod kernel_table;
mod list;
pub mod node;
mod parameter;
pub mod router;
mod rows;
pub mod server;
mod slot;

pub use choice::Choice;
pub use context::{CircuitsContext, CompletionContext, GatingContext};
pub use descriptions::{read_text, Described, Descriptions, Look, Stamp};
pub use error::Error;
pub use file_name::{escape as escape_file_name, unescape as unescape_file_name};
pub use list::{
    choices, set_loader, technique, technique_in_file, techniques, Change, Delays, Gating, Loader,
    Make, MakeOffload, Modifier, Module, Plan, Preheating, Segregation, Steering, Technique,
};
pub use parameter::{Default, Parameter, Range, Setting, Values};
pub use rows::{Availability, Available};
pub use slot::Slot;
