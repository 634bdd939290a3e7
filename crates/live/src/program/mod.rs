//! What live programs share whatever they carry: descriptions and what may change in them while the
//! program runs, times of many things summed up, accounts that balance, and what meters of the
//! machine say beside them.
//!
//! ```text
//!  description ──▶ config: read, compare ──▶ program ──▶ report: latencies, tables
//!                                              │
//!                         measured times ──────┼──▶ ledger: watts of a model, balanced or said so
//!                         energy counters ─────┴──▶ rapl: joules of this machine
//! ```

pub mod config;
pub mod ledger;
pub mod rapl;
pub mod report;
