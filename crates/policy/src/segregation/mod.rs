//! Whose lines a cache keeps where: the decisions that keep kernel and user apart in one cache
//! (Nellans 2014, ch. 5).
//!
//! A fill is too frequent to ask anyone: it reads registers, a [`Rule`]. The policy hears samples
//! of counters, as hardware's controller would, and sets the registers.
//!
//! ```text
//!            Sample { instructions, misses, cycles, utility }
//!  cache  ─────────────────────────────────────────────────▶  policy
//!         ◀─────────────────────────────────────────────────
//!            Set(Rule), SampleAfter(Span)
//! ```

mod allocator;
mod bank_choice;
mod fixed;
mod interface;
mod rule;
mod utility;

pub use allocator::{Allocator, AllocatorParameters};
pub use bank_choice::{BankChoice, BankChoiceParameters};
pub use fixed::Fixed;
use interface::Pending;
pub use interface::{
    Action, Event, Sample, Segregation, SegregationPolicy, Span, Utility, MAX_WAYS,
};
pub use rule::{LookUp, Replacement, Route, Rule, Side, Split};
pub use utility::{best_split, UtilityBased, PUBLISHED_EPOCH_CYCLES};
