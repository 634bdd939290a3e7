//! World: one server of today under millions of requests.
//!
//! ```text
//!  arrivals ─▶ network card ─▶ dispatch ─▶ queue of a core ─▶ core ─▶ done
//!                 (coalesces)                  idle ─▶ governor: state, tick
//!                                              all cores idle ─▶ package sleeps
//! ```
//!
//! * [`Machine`](halfwink_techniques::node::Machine) is a description, checked: dies and cores,
//!   idle states as governors are told of them and as silicon leaves them, watts of each part.
//! * [`Profile`] says what a request costs a core: a law of busy time, what a sleep that loses
//!   caches adds to it, watts. Techniques that work within a request (gating in stalls, frequency,
//!   divided caches) are variants of it, which the chip's world has measured.
//! * [`Plan`](halfwink_techniques::node::Plan) has one policy for each slot: idle, package,
//!   dispatch, input, preheat.
//!   Where kernel code moves to cores of its own, a request visits them, and waits for them.
//! * [`Load`] is open, of requests that come at times of their own, or closed, of clients that wait
//!   for their answers and think.
//! * [`simulate`] plays a load. Where no queue is joined and no package sleeps, each core is a
//!   recurrence over its own arrivals ([`fast`]); all else goes through an event queue
//!   ([`general`]). Both give the same run where both can play it (a test).
//!
//! All compositions of one load play the same arrivals, service times and flows (common random
//! numbers), so the difference of two runs is known far better than either of them. All times,
//! watts and joules are modelled.

mod books;
pub mod closed_form;
mod core;
mod fast;
pub mod gaps;
mod general;
mod governor;
mod intake;
mod load;
mod moderation;
mod moved;
mod package;
mod profile;
mod run;
mod source;

pub use load::{Clients, Load};
pub use profile::{Cold, Moved, Preheated, Profile, ProfileSpec, Variant, Watts};
pub use run::{
    draw, idle_power, simulate, Engine, Options, Run, RunError, Slice, StateUse, Tally, SLICES,
};
