//! Circuit switches: nights, days, matchings.

use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_policy::Host;
use halfwink_units::Time;

use super::error::FlowsError;
use crate::matching;

/// A circuit switch, or several that are joined alike.
#[derive(Clone, Debug)]
pub(super) struct Plane {
    number: u8,
    /// Destination of each rack during a day; empty at night.
    pub(super) to: Vec<Option<u16>>,
    coming: Vec<Option<u16>>,
    /// Destinations that the policy requested, if faults are enabled; empty at night.
    asked: Vec<Option<u16>>,
    day: Time,
    slot: u32,
    pub(super) is_up: bool,
    /// End of the day or night.
    pub(super) until: Time,
    /// Begin of the day or night.
    since: Time,
    /// Time of nights and days that are over.
    pub(super) nights: Time,
    pub(super) days: Time,
    pub(super) begun: u64,
}

impl Plane {
    pub(super) fn new(number: u8, racks: u16) -> Plane {
        let nobody = vec![None; usize::from(racks)];
        Plane {
            number,
            to: nobody.clone(),
            coming: nobody,
            asked: vec![],
            day: Time::ZERO,
            slot: 0,
            is_up: true,
            until: Time::ZERO,
            since: Time::ZERO,
            nights: Time::ZERO,
            days: Time::ZERO,
            begun: 0,
        }
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    fn passes(&mut self, now: Time) {
        let spent = now - self.since;
        if self.is_up {
            self.days += spent;
        } else {
            self.nights += spent;
        }
        self.since = now;
    }

    /// The night begins: asks for the next day.
    pub(super) fn dusk(
        &mut self,
        now: Time,
        night: Time,
        policy: &mut Host<CircuitsPolicy>,
    ) -> Result<(), FlowsError> {
        self.passes(now);
        self.to.fill(None);
        self.asked.clear();
        (self.is_up, self.until) = (false, now + night);
        let (plane, slot) = (self.number, self.slot);
        self.day = matching::ask(policy, now, (plane, slot), "rack", &mut self.coming)
            .map_err(|message| FlowsError::Schedule { plane, slot, message })?;
        // Wraps rather than panics: leaps over idle time may pass 2^32 slots in a run.
        self.slot = slot.wrapping_add(1);
        Ok(())
    }

    pub(super) fn dawn(&mut self, now: Time) {
        self.passes(now);
        // Asked for at dusk and used at dawn: a policy decides without what happens in the night.
        std::mem::swap(&mut self.to, &mut self.coming);
        self.is_up = true;
        self.until = now.saturating_add(self.day);
        self.begun += 1;
    }

    /// The slot whose day it is.
    pub(super) fn day_number(&self) -> u32 {
        self.slot.wrapping_sub(1)
    }

    /// Removes the circuits of racks that miss this day, and keeps the rest as those requested.
    pub(super) fn misses(&mut self, missed: &[bool]) {
        for (to, _) in self.to.iter_mut().zip(missed).filter(|(_, &is_missed)| is_missed) {
            *to = None;
        }
        self.asked.clone_from(&self.to);
    }

    /// Circuits are there if both links are up.
    pub(super) fn light(&mut self, is_up: impl Fn(usize, usize) -> bool) {
        for (from, (to, asked)) in self.to.iter_mut().zip(&self.asked).enumerate() {
            *to = asked.filter(|&to| is_up(from, usize::from(to)));
        }
    }

    /// Leaps over whole slots up to `then`, at the end of which the matching is another one: for
    /// policies of which every slot is as long as the next, while nothing waits.
    pub(super) fn leap(&mut self, then: Time, night: Time) {
        let slot = night.0.saturating_add(self.day.0);
        // The first slot may have a length of its own, where planes begin staggered.
        if self.slot < 2 || !self.is_up || self.until >= then || slot == 0 {
            return;
        }
        let slots = (then.0 - self.until.0) / slot;
        // Day and night follow each other as before, so that this day begins so much later.
        self.since += Time(slots * slot);
        self.until += Time(slots * slot);
        self.nights += Time(slots * night.0);
        self.days += Time(slots * self.day.0);
        self.slot = self.slot.wrapping_add(slots as u32);
        self.begun += slots;
    }

    /// Ends with the run.
    pub(super) fn close(&mut self, end: Time) {
        let end = end.max(self.since);
        self.passes(end);
    }

    /// Returns the time that is left of this day.
    pub(super) fn rest(&self, now: Time) -> Time {
        self.until.saturating_sub(now)
    }
}
