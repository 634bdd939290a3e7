//! Records of steering: which of two machines serves a request, and which sleeps.

use halfwink_units::Time;

use super::{record, Fields, Record, Words};
use crate::steering::{Action, Event, Side};

impl Words for Side {
    #[inline]
    fn write(self, words: &mut [u64]) {
        words[0] = self as u64;
    }

    #[inline]
    fn read(words: &[u64]) -> Option<Side> {
        Side::BOTH.into_iter().find(|&side| side as u64 == words[0])
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
