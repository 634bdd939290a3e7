//! What live programs can use of this machine. Every live crate has a `features` of its own with
//! what it alone asks for.

use crate::clock;
use crate::idle::{Mechanism, Watch};

/// A feature's name, and why it is not there; empty if it is.
pub type Feature = (&'static str, String);

/// Returns the features that belong to no single program.
#[must_use]
pub fn features() -> Vec<Feature> {
    let constant = if clock::is_constant() { "" } else { "its rate may change" };
    let records = Watch::begin(Some(Mechanism::SwitchRecords), None).and_then(Watch::end).err();
    vec![
        ("constant time-stamp counter", constant.to_owned()),
        ("switch records", records.unwrap_or_default()),
    ]
}
