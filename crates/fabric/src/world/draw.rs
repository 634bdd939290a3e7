//! What is drawn.

use halfwink_engine::Stream;
use halfwink_units::Time;
use rand::RngExt;

/// Whether something of this share happens.
pub(super) fn happens(random: &mut Stream, share: f64) -> bool {
    random.random::<f64>() < share
}

/// An even time between two, in microseconds.
pub(super) fn us_between(random: &mut Stream, [least, most]: [f64; 2]) -> Time {
    let us = least + (most - least) * random.random::<f64>();
    Time::from_ns(1e3 * us)
}
