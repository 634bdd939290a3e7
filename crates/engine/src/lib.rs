//! What every simulated world stands on: a totally ordered event queue, random streams that do not
//! move when a component is added, distributions, a ledger that must balance, histograms, and run
//! control.

mod cdf;
pub mod confidence;
mod distribution;
pub mod draw;
mod histogram;
mod input;
mod ledger;
mod line;
mod node;
mod outages;
mod queue;
mod random;
mod run;
mod toml_path;

pub use cdf::Cdf;
pub use distribution::{Law, Points, Sampler};
pub use histogram::{Bucket, Histogram, LogCounts};
pub use input::{matches, nearest, set_value, Change, Input, InputError, Template};
pub use ledger::{Cause, Closed, ComponentId, Imbalance, Ledger, Meter, Mode, Row, RowKey, State};
pub use line::LineError;
pub use outages::Outages;
pub use queue::{Class, EventQueue};
pub use random::{stream, Stream};
pub use run::{Interrupted, RunControl};
