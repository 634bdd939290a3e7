//! Policies of users, as WebAssembly modules or in the embedding program's language: read, checked,
//! and played within limits.
//!
//! ```text
//!   ./my-gate.wasm ──▶ read ──▶ translator ──▶ about ──▶ row of the list of techniques
//!                                 ▲                             │ a policy for each core
//!                                 └── block: event in, ───── played ◀── world
//!                                     actions out
//! ```
//!
//! A module imports nothing and exports its memory and four functions (`docs/own-policy.md` is the
//! whole of the interface). It is called with an event in a block of its memory, and leaves its
//! actions and its timer there. Fixed records of 64-bit words rather than the JSON of logs, so that
//! a module needs no parser and no allocator, in whichever language it is written.
//!
//! The interpreter of modules is [`set_translator`]'s: `policy-wasm`, linked or loaded. A program
//! with an interpreter of its own plays code in its language in the same way ([`set_opener`]):
//! Python has that of policies that are classes.
//!
//! A module takes bounded time and memory, and touches nothing but its own memory. One that traps,
//! uses up its fuel or requests what does not exist is not called again, and the fault is noted in
//! its `Choice`. In a simulated world the policy then requests an action that no world can do, and
//! the run ends. In a live program it requests nothing, and another policy takes over.

mod about;
mod block;
mod code;
mod families;
mod file;
mod played;

pub use about::Family;
pub use block::{Block, ABI, ACTIONS, BYTES, MOST_ACTIONS, PARAMETERS};
pub use code::{
    set_opener, set_translator, Code, Found, Limits, Opener, Started, Translated, Translator,
};
pub use families::{Playable, COMPLETION, FAMILIES, SCALING, STEERING};
pub use file::MOST_BYTES;
pub use played::{FIRST_EVENT, MORE, START, TIMER};

/// Lets techniques of these families be named by the file of a module, in the whole process.
pub fn install(families: &'static [&'static Playable]) {
    file::install(families);
}
