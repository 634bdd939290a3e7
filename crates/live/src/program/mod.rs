//! What live programs share whatever they carry: descriptions and what may change in them while the
//! program runs, times of many things summed up, accounts that balance, what meters of the machine
//! say beside them, and policies in files of the user's, which may fail.
//!
//! ```text
//!  description ──▶ config: read, compare ──▶ program ──▶ report: latencies, tables
//!                                              │
//!                         measured times ──────┼──▶ ledger: watts of a model, balanced or said so
//!                         energy counters ─────┼──▶ rapl: joules of this machine
//!                         module of a policy ──┴──▶ interpreter; stand_in, if it fails
//! ```

pub mod child;
pub mod config;
pub mod interpreter;
pub mod ledger;
pub mod rapl;
pub mod report;
pub mod say;
pub mod stand_in;
