//! A host's network card: packets wait in it, then follow each other on the wire.

use halfwink_engine::Stream;
use halfwink_units::Time;

use super::draw::{happens, us_between};
use super::Times;

/// The sending side of a card.
#[derive(Clone, Debug, Default)]
pub(super) struct Sender {
    /// Time at which the wire is free for one more packet.
    free: Time,
    /// Paused since more than the threshold waits.
    in_batch: bool,
    /// Longest pause so far.
    pub(super) longest_pause: Time,
}

/// A packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnWire {
    pub(super) begins: Time,
    pub(super) ends: Time,
}

impl Sender {
    /// A packet is handed over: when it will be on the wire. Nothing that comes later changes that.
    pub(super) fn hand_over(
        &mut self,
        now: Time,
        bytes: u32,
        times: &Times,
        random: &mut Stream,
    ) -> OnWire {
        let (ready, wire) = (now + times.transmit(bytes), times.wire(bytes));
        // What waits beyond the time that a packet is in the card anyway, in time on the wire: what
        // pacing guesses by (age - tokens) of Fig 4.13. The packet on the wire does not wait.
        let is_above = self.free.saturating_sub(ready) > times.batch_backlog + wire;
        if !is_above {
            self.in_batch = false;
        } else if !self.in_batch && happens(random, times.batch_share) {
            self.in_batch = true;
            let pause = us_between(random, times.batch_us);
            self.longest_pause = self.longest_pause.max(pause);
            self.free += pause;
        }
        let begins = ready.max(self.free);
        self.free = begins + wire;
        OnWire { begins, ends: self.free }
    }
}
