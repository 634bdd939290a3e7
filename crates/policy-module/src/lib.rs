//! Policies of users, as WebAssembly modules or in the embedding program's language: read, checked,
//! and played within limits.
//!
//! ```text
//!   ./my-gate.wasm ──▶ read ──▶ engine ──▶ about ──▶ row of the list of techniques
//!                                 ▲                          │ a policy for each core
//!                                 └── block: event in, ── played ◀── world
//!                                     actions out
//! ```
//!
//! A module imports nothing and exports its memory and four functions (`docs/own-policy.md` is the
//! whole of the interface). It is called with an event in a block of its memory, and leaves its
//! actions and its timer there. Fixed records of 64-bit words rather than the JSON of logs, so that
//! a module needs no parser and no allocator, in whichever language it is written.
//!
//! A program with an interpreter of its own plays code in its language in the same way
//! ([`set_opener`]): Python has that of policies that are classes.
//!
//! A module takes bounded time and memory, and touches nothing but its own memory. One that traps,
//! uses up its fuel or requests what does not exist ends the run. The policy then notes the fault
//! in its `Choice`, requests an action that no world can do, and requests nothing more.

mod about;
mod block;
mod code;
mod engine;
mod families;
mod file;
mod played;

pub use about::Family;
pub use block::{ABI, ACTIONS, MOST_ACTIONS, PARAMETERS};
pub use code::{set_opener, Code, Found, Opener, Started};
pub use engine::{translated, MOST_FUEL, MOST_MEMORY};
pub use file::MOST_BYTES;
pub use played::{FIRST_EVENT, MORE, START, TIMER};

/// Lets techniques be named by the file of a module, in the whole process.
pub fn install() {
    halfwink_techniques::set_loader(file::load);
}
