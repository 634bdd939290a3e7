//! TCP as pure state machines: a sender, a receiver, congestion control. They own no clock and no
//! queue; a world carries their segments.
//!
//! ```text
//!   Sender ── ready, take ──▶ segment ── queue, wire ──▶ Receiver::data
//!     ▲                                                      │
//!     └───────────── Sender::acknowledged ◀── Ack ◀──────────┘
//! ```
//!
//! Segments are counted, not bytes: all are full, since senders always have more to send.
//! [`Pipe`] carries them over one bottleneck, where closed forms say what must come out.

mod control;
mod pipe;
mod receiver;
mod sender;

pub use control::{Algorithm, Control};
pub use pipe::{Loss, Pipe, Report};
pub use receiver::Receiver;
pub use sender::{Parameters, Sender, Tally};

use halfwink_units::Time;

/// Ranges that one acknowledgement can name beside time stamps (RFC 2018).
const BLOCKS: usize = 3;

/// An acknowledgement from a receiver to its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The first segment that has not arrived.
    pub next: u64,
    /// Ranges that arrived beyond it, as offsets from it, the one that changed first: first
    /// segment, and the one behind the last. Empty ones are (0, 0).
    pub blocks: [(u32, u32); BLOCKS],
    /// Send time of the first segment that this answers (RFC 7323).
    pub echo: Time,
    /// Segments since the last acknowledgement that a queue marked.
    pub marked: u32,
}
