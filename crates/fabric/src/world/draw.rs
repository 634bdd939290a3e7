//! What is drawn.

use halfwink_engine::Stream;
use halfwink_units::Time;
use rand::RngExt;

/// Draws whether an event of this probability happens.
pub(super) fn happens(random: &mut Stream, share: f64) -> bool {
    random.random::<f64>() < share
}

/// An even time between two, in microseconds.
pub(super) fn us_between(random: &mut Stream, range: [f64; 2]) -> Time {
    us_in(random.random(), range)
}

/// The time of a draw.
pub(super) fn us_in(drawn: f64, [least, most]: [f64; 2]) -> Time {
    Time::from_ns(1e3 * (least + (most - least) * drawn))
}
