//! Which CPU completes an I/O, and how one that waits for completions rests (Nellans 2014, ch. 6).
//!
//! ```text
//!                 ┌ phase 1: hear the device ┐        ┌ phase 2: driver's tables, wake who waits ┐
//!   device ──────▶│ Done { io, issuer, .. }  │──Give─▶│ on another CPU                           │
//!                 └──────────────────────────┘──Here─▶│ on the same                              │
//!                                                     └──────────── Empty ──▶ Rest ──────────────┘
//! ```
//!
//! A policy is a [`Mapping`], which places the second phase, with its own way to rest
//! ([`Completing`]), or with that of any [`scaling`](crate::scaling) policy ([`Rested`]): waiting
//! for completions and waiting for packets is one problem. Machines are a [`Topology`], given at
//! construction.
//!
//! | mapping | completes on | hears at | source |
//! |---|---|---|---|
//! | [`SingleThread`] | the CPU that hears | one CPU | Nellans 2014, Sec 6.2.1 |
//! | [`Same`] | the same, by a second interrupt | one CPU | Nellans 2014, Sec 6.3.2, Fig 6.8 |
//! | [`Issuer`] | the CPU that issued | one CPU | Nellans 2014, Sec 6.3.3, Fig 6.10 |
//! | [`RoundRobin`] | the issuer's socket, by turns | one CPU | Nellans 2014, Sec 6.3.2, Fig 6.9 |
//! | [`CacheAware`] | as few CPUs of its socket as keep up | one CPU | Nellans 2014, Sec 6.3.3 |
//! | [`Dynamic`] | the CPU that hears, until it falls behind | one CPU | Nellans 2014, Sec 6.5 |
//! | [`Direct`] | where it is heard | the issuer, or polls | Nellans 2014, Sec 6.5; blk-mq; SPDK |
//! | [`InterleavedTags`] | a thread of the cache by tag | one CPU | ublk |

mod aware;
mod completing;
mod direct;
mod dynamic;
mod gather;
mod interface;
mod mapped;
mod rested;
mod topology;

pub use aware::{CacheAware, CacheAwareParameters};
pub use completing::{Completing, Resting};
pub use direct::Direct;
pub use dynamic::{Dynamic, DynamicParameters};
pub use gather::Gather;
pub use interface::{
    Action, Completion, CompletionPolicy, Done, Event, Hears, Mapping, Queues, Where,
};
pub use mapped::{InterleavedTags, Issuer, RoundRobin, Same, SingleThread};
pub use rested::Rested;
pub use topology::{Group, Place, Topology};
