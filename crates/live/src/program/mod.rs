//! What live programs share whatever they carry: descriptions and what may change in them while the
//! program runs, times of many things summed up, and accounts that balance.
//!
//! ```text
//!  description ──▶ config: read, compare ──▶ program ──▶ report: latencies, tables
//!                                              │
//!                         measured times ──────┴──▶ ledger: watts of a model, balanced or said so
//! ```

pub mod config;
pub mod ledger;
pub mod report;
