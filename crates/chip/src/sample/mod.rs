//! Long runs by samples: functional warming of the whole recording, and windows of it in detail
//! (SMARTS; Wunderlich, Wenisch, Falsafi and Hoe, "SMARTS: Accelerating Microarchitecture
//! Simulation via Rigorous Statistical Sampling", ISCA 2003).
//!
//! ```text
//!  Source ─▶ caches and predictor without time ─▶ ... ─▶ ... ─▶ End
//!                  │ state              │ state
//!                  ▼                    ▼
//!            window in detail     window in detail, under each technique
//! ```
//!
//! What a window begins with is what the caches and the predictor would hold; what it does not
//! have is what is in flight: misses, the store queue, rows open in memory, and what a policy has
//! learnt. That is what the first instructions of a window are played for without being measured.

mod again;
mod cutter;
mod excerpt;
mod functional;
#[cfg(test)]
mod tests;
mod window;

pub use again::again;
pub use cutter::{cut, Begins, Cut, Window};
pub(crate) use excerpt::Excerpt;
pub use excerpt::ExcerptSource;
pub(crate) use functional::Functional;
pub use functional::{FunctionalCounts, WarmState};
pub use window::{measure, Measured};
