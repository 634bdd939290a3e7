//! News of nights and days on their way to a host: a softirq that is busy with other things handles
//! them late, and then all at once (Strong 2013, Fig 4.19).

use halfwink_engine::Stream;
use halfwink_units::Time;

use super::draw::{happens, us_between};
use crate::hosts::Stalls;

/// Distances between sync frames when handled, against the distances when sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Number of frames whose distances differ by a microsecond at most.
    pub on_time: u64,
    /// Handled at the same time as the one before.
    pub zero: u64,
    /// Later than a whole slot.
    pub long: u64,
    /// Number of all other frames.
    pub other: u64,
}

impl Gaps {
    /// Returns the number of all frames.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.on_time + self.zero + self.long + self.other
    }

    pub(super) fn add(&mut self, other: &Gaps) {
        self.on_time += other.on_time;
        self.zero += other.zero;
        self.long += other.long;
        self.other += other.other;
    }
}

/// The receiving side of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Receiver {
    pub(super) stalled_until: Time,
    /// Send time and handling time of the last frame.
    pub(super) last: Option<(Time, Time)>,
    pub(super) gaps: Gaps,
}

/// Frames are on time if they are so much further apart, or less far, than they were sent.
pub(super) const TOLERANCE: Time = Time::ns(1_000);

impl Receiver {
    /// Returns the time at which the host handles a frame that was sent at `sent` and comes `after`
    /// that. Frames keep their order.
    pub(super) fn handle(
        &mut self,
        sent: Time,
        after: Time,
        slot: Time,
        stalls: &Stalls,
        random: &mut Stream,
    ) -> Time {
        let comes = sent + after;
        if comes >= self.stalled_until {
            let drawn = happens(random, stalls.long_share)
                .then_some(stalls.long_us)
                // Drawn only if there is no long one; `quiet.rs` takes as many draws, and depends
                // on this order.
                .or_else(|| happens(random, stalls.short_share).then_some(stalls.short_us));
            if let Some(range) = drawn {
                self.stalled_until = comes + us_between(random, range);
            }
        }
        let mut handled = comes.max(self.stalled_until);
        if let Some((sent_before, handled_before)) = self.last {
            // A softirq takes frames in their order, so that a slow one holds up those behind it.
            handled = handled.max(handled_before);
            self.count(sent - sent_before, handled - handled_before, slot);
        }
        self.last = Some((sent, handled));
        handled
    }

    fn count(&mut self, sent: Time, handled: Time, slot: Time) {
        let counter = if handled == Time::ZERO {
            &mut self.gaps.zero
        } else if sent.saturating_sub(handled).max(handled.saturating_sub(sent)) <= TOLERANCE {
            &mut self.gaps.on_time
        } else if handled > slot {
            &mut self.gaps.long
        } else {
            &mut self.gaps.other
        };
        *counter += 1;
    }
}
