//! Slices of a run, from which confidence intervals come.

use halfwink_engine::confidence::{Estimator, Goal, Piece};
use halfwink_units::Time;

use super::core::{Account, Core};
use super::world::World;
use crate::model::CoreKind;

/// Slices of a run: as many as batches may be (32 to 64 of them, `engine::confidence`), and each
/// still of many units of work.
const COUNT: u64 = 64;

/// Estimates of power and of the rate of work.
#[derive(Debug)]
pub(super) struct Slices {
    /// Power, as joules over nanoseconds.
    pub(super) power: Estimator,
    /// Rate, as units over nanoseconds.
    pub(super) rate: Estimator,
    pub(super) pieces: Vec<Piece>,
    done: u64,
    since: Time,
    energy_j: f64,
    units: u64,
}

impl Slices {
    pub(super) fn new() -> Slices {
        let estimator = Estimator::new(Goal::NONE);
        Slices {
            rate: estimator.clone(),
            power: estimator,
            pieces: Vec::new(),
            done: 0,
            since: Time::ZERO,
            energy_j: 0.0,
            units: 0,
        }
    }

    /// Returns the end of the present slice of a run of this length.
    fn until(&self, end: Time) -> Time {
        // Whole picoseconds: slices are equal, and the rest of the division stays outside of all.
        Time(end.0 / COUNT * (self.done + 1))
    }
}

impl World<'_> {
    /// Ends the slices that end before `now`. That accounts are brought up to date then, and not at
    /// the next event, changes nothing: times are whole numbers.
    #[inline]
    pub(super) fn end_slices(&mut self, now: Time) {
        while self.slices.done < COUNT && self.slices.until(self.end) <= now {
            self.end_slice(self.slices.until(self.end));
        }
    }

    fn end_slice(&mut self, at: Time) {
        let mut energy_j = 0.0;
        for (core, kind) in self.cores.iter_mut().zip(&self.kinds) {
            core.book(at);
            energy_j += joules(core, kind);
        }
        let slices = &mut self.slices;
        let (span, took_j) = (at - slices.since, energy_j - slices.energy_j);
        let (span_ns, work) = (span.as_ns() as u64, self.units - slices.units);
        slices.power.push_many(took_j, span_ns);
        slices.rate.push_many(work as f64, span_ns);
        let piece = Piece { stratum: 0, work, seconds: span.as_s(), energy_j: took_j };
        slices.pieces.push(piece);
        (slices.since, slices.energy_j, slices.units) = (at, energy_j, self.units);
        slices.done += 1;
    }
}

/// Joules of a core so far, from its accounts.
fn joules(core: &Core, kind: &CoreKind) -> f64 {
    let of = |account: Account| core.booked[account as usize].as_s();
    let all: f64 = core.booked.iter().map(|time| time.as_s()).sum();
    let (idle, off) = (of(Account::Idle), of(Account::Off));
    let up_w = kind.up_w.unwrap_or(kind.active_w);
    kind.active_w * (all - idle - off) + up_w * idle + kind.idle_w * off
}
