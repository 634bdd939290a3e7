//! Records of steering: which machine of a set serves a request, and which sleeps.

use halfwink_units::Time;

use super::{record, Fields, Record, Words};
use crate::steering::{Action, Event, Side};

/// The place of the machine in its set. The first two places read as those of a pair.
impl Words for Side {
    #[inline]
    fn write(self, words: &mut [u64]) {
        words[0] = self.index() as u64;
    }

    #[inline]
    fn read(words: &[u64]) -> Option<Side> {
        Some(match words[0] {
            0 => Side::Small,
            1 => Side::Big,
            place => Side::Place(place.try_into().ok()?),
        })
    }
}

record! { Event {
    "arrive" Arrive {}
    "finish" Finish { side: Side, latency: Time }
    "awake" Awake { side: Side }
    "asleep" Asleep { side: Side }
    "lost" Lost { side: Side }
    "back" Back { side: Side }
} }

record! { Action {
    "send" Send { side: Side }
    "wake" Wake { side: Side }
    "sleep" Sleep { side: Side }
} }
