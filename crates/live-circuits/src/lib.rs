//! Hosts that use circuits by turns, on Linux (Strong 2013, Sec 4.4).
//!
//! ```text
//!   programs ── TAP ──▶ queues, tokens ── veth ──▶ ┌────────┐ ── veth ──▶ the same ──▶ programs
//!                          ▲                       │ switch │
//!                          └────── sync frames ─── │ policy │
//!                                                  └────────┘
//! ```
//!
//! * [`switch::Switch`] is an emulated circuit switch: it owns the matching ([`circuits`]), and a
//!   policy says which comes next;
//! * [`host::Shaper`] is the sending side of a host, for unmodified programs: queues by destination
//!   ([`queues`]), and the very tokens of the simulated hosts;
//! * [`load`] sends datagrams to all others, and counts what arrives;
//! * [`nodes`] are those of them that one process plays, by a description ([`config`]).
//!
//! Sync frames are in `halfwink_policy::circuits::sync`. Linux on x86-64 only: the crate is empty
//! elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod card;
pub mod circuits;
pub mod config;
pub mod host;
pub mod load;
pub mod nodes;
pub mod port;
pub mod queues;
pub mod report;
pub mod streams;
pub mod switch;
pub mod time;

pub use host::Shaper;
pub use switch::Switch;

/// The policy's side of an event log.
pub type EventLog =
    halfwink_eventlog::Tap<halfwink_policy::circuits::Event, halfwink_policy::circuits::Action>;

/// Real-time priority of a host's shaper: it has a day to meet.
pub const HOST_PRIORITY: i32 = 30;
/// Real-time priority of the switch. It has notified hosts in good time, and frames wait for it
/// with their timestamps.
pub const SWITCH_PRIORITY: i32 = 20;
/// Real-time priority of a load: other programs on the machine must not keep queues empty.
pub const LOAD_PRIORITY: i32 = 10;
