//! A core that is woken before its interrupt, and loads lines that it will need.
//!
//! ```text
//!  halted ── lead ahead ─▶ waking ─▶ loading ─▶ resting, until the interrupt ─▶ running
//! ```
//!
//! A prefetch is a micro-operation and a look-up of the second level; one starts a cycle, as long
//! as fewer lines are on their way than the data cache has miss registers. If the interrupt comes
//! first, all is loaded before it is taken (Gottschlag 2016, Sec 4.1.4).

use halfwink_units::{Cycle, Time};

use super::{Core, CoreError, Message, Phase};
use crate::cpi_stack::Reason;

/// Loads of a core before its interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreheatCounts {
    /// Lines that were asked for.
    pub lines: u64,
    /// Number of these that were not in the second level.
    pub loaded: u64,
    /// Time from the first prefetch to the last line.
    pub took: Time,
    /// Time of the interrupt.
    pub arrival: Time,
    /// Time by which loading ended after it.
    pub late: Time,
}

/// Lines that a core loads in its first halt.
#[derive(Clone, Debug)]
pub(crate) struct Preheat {
    lead: Time,
    lines: Vec<u64>,
    next: usize,
    on_the_way: usize,
    buffers: usize,
    /// The next prefetch, or the end, is not before this.
    at: Cycle,
    began: Cycle,
    is_over: bool,
    pub(crate) counts: PreheatCounts,
}

impl Core {
    /// Makes the core wake `lead` before the interrupt of its first halt, and load these lines.
    pub(crate) fn preheat(&mut self, lead: Time, lines: Vec<u64>) {
        let buffers = self.common().private.data_misses.registers();
        let counts = PreheatCounts { lines: lines.len() as u64, ..PreheatCounts::default() };
        self.preheat = Some(Box::new(Preheat {
            lead,
            lines,
            next: 0,
            on_the_way: 0,
            buffers,
            at: 0,
            began: 0,
            is_over: false,
            counts,
        }));
    }

    /// Returns the time to wake in a halt from `now` until `wake_at`.
    pub(super) fn woken_ahead(&mut self, now: Time, wake_at: Time) -> Time {
        match &mut self.preheat {
            Some(preheat) if !preheat.is_over => {
                preheat.counts.arrival = wake_at;
                wake_at.saturating_sub(preheat.lead).max(now)
            }
            _ => wake_at,
        }
    }

    /// Begins to load at `cycle`, if there is something to load; true if so.
    pub(super) fn begin_preheat(&mut self, cycle: Cycle) -> bool {
        let Some(preheat) = self.preheat.as_mut().filter(|preheat| !preheat.is_over) else {
            return false;
        };
        preheat.is_over = true;
        (preheat.at, preheat.began) = (cycle, cycle);
        self.phase = Phase::Preheating;
        self.local = self.local.max(self.clock.time_of(cycle));
        true
    }

    /// Goes on loading; false if `limit` is reached.
    pub(super) fn preheating(&mut self, limit: Time) -> Result<bool, CoreError> {
        let Some(preheat) = &mut self.preheat else { return Ok(false) };
        let all_sent = preheat.next == preheat.lines.len();
        let waits =
            if all_sent { preheat.on_the_way > 0 } else { preheat.on_the_way == preheat.buffers };
        let due = if waits { Time::NEVER } else { self.clock.time_of(preheat.at) };
        let heard = self.inbox.next_time();
        let at = due.min(heard);
        if at >= limit {
            self.local = self.local.max(limit.min(at));
            return Ok(false);
        }
        self.local = self.local.max(at);
        let common = self.pipeline.common_mut();
        if heard <= due {
            let cycle = self.clock.cycle_at_or_after(at);
            if let Some((_, Message::Answer(answer))) = self.inbox.pop() {
                common.private.answer(answer.line, answer.shared, cycle);
                preheat.on_the_way -= 1;
                preheat.at = preheat.at.max(cycle);
            }
            return Ok(true);
        }
        if let Some(&line) = preheat.lines.get(preheat.next) {
            let sent = common.private.prefetch(line, preheat.at);
            preheat.on_the_way += usize::from(sent);
            preheat.counts.loaded += u64::from(sent);
            preheat.next += 1;
            preheat.at += 1;
            return Ok(true);
        }
        self.end_preheat();
        Ok(true)
    }

    fn end_preheat(&mut self) {
        let Some(preheat) = &mut self.preheat else { return };
        let (cycle, cycles) = (preheat.at, preheat.at - preheat.began);
        let now = self.clock.time_of(cycle);
        preheat.counts.took = now - self.clock.time_of(preheat.began);
        preheat.counts.late = now.saturating_sub(preheat.counts.arrival);
        let arrival = preheat.counts.arrival;
        self.pipeline.common_mut().active.add(true, Reason::Preheat, cycles);
        self.running_cycles += cycles;
        if now < arrival {
            self.gate.rest(now);
            self.units_follow(now);
            self.phase = Phase::Resting { until: arrival };
        } else {
            self.resume(cycle);
        }
    }

    /// Waits for the interrupt with the supply on; false if `limit` is reached.
    pub(super) fn resting(&mut self, limit: Time, until: Time) -> bool {
        if until >= limit {
            self.local = self.local.max(limit);
            return false;
        }
        let cycle = self.clock.cycle_at_or_after(until);
        let edge = self.clock.time_of(cycle);
        self.local = self.local.max(until);
        let spent = self.gate.run(edge);
        self.units_follow(edge);
        self.waited.post_idle(spent, false);
        self.resume(cycle);
        true
    }
}
