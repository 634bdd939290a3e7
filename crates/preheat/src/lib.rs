//! World: a server that sleeps deeply, loses its caches, and has them loaded before the next packet
//! comes (Gottschlag 2016).
//!
//! ```text
//!  network ── announcement, packet ─▶ node: sleeps, wakes, flushes, dumps, loads, serves
//!                                      │ ▲            │
//!                              events  ▼ │ actions    ▼ cache ◀─ loader ◀─ memory (halfwink-dram)
//!                                     policy          working sets
//! ```
//!
//! * [`Spec`] is a description, checked; [`Cache`] the last level, whose tags can be read.
//! * [`WorkingSets`] are the lines of requests: generated, laid out in pages.
//! * [`Loading`] plays out who loads a list of lines: how long it takes comes of line fills, the
//!   way to memory and the memory's rows and banks.
//! * [`Node`] serves requests, each as long as its instructions and exposed misses take.
//! * [`Prototype`] does to a node what the thesis' harness does; [`simulate`] lets it live:
//!   requests come, it sleeps between them, and a policy prepares it.
//! * A run's ledger balances: every picosecond and attojoule of each core, of the cache and of the
//!   memory belongs to a row.
//!
//! All times, watts and joules are modelled.

mod actions;
mod books;
mod cache;
mod check;
mod loader;
mod node;
mod power;
mod prototype;
mod run;
mod spec;
mod traffic;
mod working_set;

pub use cache::{Access, Cache, Replacement};
pub use loader::{Loaded, Loading, Plan, Word};
pub use node::{Flush, Misses, Node, Served};
pub use prototype::{Estimated, Mode, Prototype, Way};
pub use run::simulate;
pub use spec::{
    Core, Estimate, Group, ListOrder, Llc, Loader, Memory, Network, Prefetcher, Service, Sleep,
    Spec, SpecError, Spread, Watts,
};
pub use traffic::{Run, RunError, Tally, Traffic};
pub use working_set::{Touch, WorkingSets, PAGE_LINES};
