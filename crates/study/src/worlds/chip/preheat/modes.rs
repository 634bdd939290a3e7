//! One request in one mode.

use halfwink_chip::preheat::{play, CacheLevel, Engine, Played, Request, Sleep, Trial};
use halfwink_chip::{CodeCache, Machine};
use halfwink_engine::RunControl;
use halfwink_policy::preheat::LineSet;
use halfwink_units::Time;

use super::PreheatQuestion;
use crate::error::StudyError;

/// The state of the core before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The core waits with its supply on.
    Warm,
    /// The core sleeps, and the request's arrival wakes it.
    Cold,
    /// The core is woken ahead.
    WakeOnly,
    /// ... and loads the set.
    Preheated,
    /// ... and an engine beside memory loads the set into the third level.
    Engine,
    /// ... and plays the request before this one.
    Sham,
}

impl Mode {
    pub(super) const ALL: [Mode; 6] =
        [Mode::Warm, Mode::Cold, Mode::WakeOnly, Mode::Preheated, Mode::Engine, Mode::Sham];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Mode::Warm => "warm",
            Mode::Cold => "cold",
            Mode::WakeOnly => "wake-only",
            Mode::Preheated => "preheated",
            Mode::Engine => "engine",
            Mode::Sham => "sham-request",
        }
    }
}

/// The outcome of one request in one mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) mode: Mode,
    pub(super) request: u64,
    pub(super) instructions: u64,
    pub(super) response: Time,
    pub(super) l2_misses: u64,
    pub(super) l3_misses: u64,
    pub(super) lines: u64,
    pub(super) loaded: u64,
    /// Number of lines of the set that the request touched.
    pub(super) useful: u64,
    pub(super) touched: u64,
    pub(super) preheat: Time,
    pub(super) late: Time,
    pub(super) energy_j: f64,
}

/// The machine and settings with which requests are played.
pub(super) struct Bench<'a> {
    pub(super) machine: &'a Machine,
    pub(super) question: &'a PreheatQuestion,
    /// The level whose contents are the working set.
    pub(super) level: CacheLevel,
}

impl Bench<'_> {
    fn run(
        &self,
        request: &Request,
        trial: &Trial<'_>,
        codes: &mut CodeCache,
    ) -> Result<Played, StudyError> {
        let length = self.question.sleep();
        let control = RunControl::new();
        Ok(play(self.machine, request, &request.state, length, trial, codes, &control)?)
    }

    /// Returns the lines that a request leaves in the caches when it is played cold.
    pub(super) fn dump(
        &self,
        request: &Request,
        codes: &mut CodeCache,
    ) -> Result<LineSet, StudyError> {
        let sleep = Some(Sleep { lead: None });
        let trial = Trial { sleep, dump: Some(self.level), ..Trial::default() };
        Ok(self.run(request, &trial, codes)?.dump)
    }

    fn ahead(&self) -> Option<Sleep> {
        Some(Sleep { lead: Some(self.question.lead()) })
    }

    /// Plays a request in a mode; `sham` is the one before it.
    pub(super) fn outcome(
        &self,
        mode: Mode,
        request: &Request,
        set: &LineSet,
        sham: &Request,
        codes: &mut CodeCache,
    ) -> Result<Outcome, StudyError> {
        let ahead = self.ahead();
        let trial = match mode {
            Mode::Warm => Trial::default(),
            Mode::Cold => Trial { sleep: Some(Sleep { lead: None }), ..Trial::default() },
            Mode::WakeOnly => Trial { sleep: ahead, ..Trial::default() },
            Mode::Preheated => {
                Trial { sleep: ahead, lines: set.as_slice().to_vec(), ..Trial::default() }
            }
            Mode::Engine => {
                let gating = &self.machine.gating;
                // An engine has nowhere to put lines before the cache has its supply again.
                let awake = Time::from_ns(gating.wake_up_ns) + self.machine.restore();
                let start = self.question.sleep().saturating_sub(self.question.lead()) + awake;
                // As fast as memory can deliver at best.
                let interval = self.machine.memory.line_time();
                let lines = set.as_slice().to_vec();
                let engine = Some(Engine { lines, start, interval });
                Trial { sleep: ahead, engine, ..Trial::default() }
            }
            Mode::Sham => Trial { sleep: ahead, sham: Some(sham), ..Trial::default() },
        };
        let played = self.run(request, &trial, codes)?;
        let core = &played.run.cores[0];
        let sum = |pair: [u64; 2]| pair[0] + pair[1];
        let touched = request.touched();
        let (preheat, agents) = (&played.preheat, &played.agents);
        let lines = preheat.lines + agents.lines;
        Ok(Outcome {
            mode,
            request: request.index,
            instructions: request.instructions,
            response: played.response,
            l2_misses: sum(core.caches.l2_misses),
            l3_misses: sum(played.run.l3.misses),
            lines,
            loaded: preheat.loaded + agents.loaded,
            // In modes that load nothing the set is there all the same, and none of it helped.
            useful: if lines > 0 { set.common(&touched) as u64 } else { 0 },
            touched: touched.len() as u64,
            preheat: preheat.took,
            late: preheat.late,
            energy_j: played.run.books.energy_where(|_| true).as_j(),
        })
    }

    /// Returns how long loading the set takes in three orders of its lines.
    pub(super) fn orders(
        &self,
        request: &Request,
        set: &LineSet,
        codes: &mut CodeCache,
    ) -> Result<Vec<(&'static str, Time)>, StudyError> {
        let sorted = set.as_slice().to_vec();
        let mut by_set = sorted.clone();
        let sets = match self.level {
            CacheLevel::L3 => self.machine.l3.geometry.map_or(1, |g| g.sets as u64),
            _ => self.machine.l2.geometry.sets as u64,
        };
        // As a walk over the tags finds them: by set, then by way, which is as good as any order.
        by_set.sort_by_key(|line| (line % sets, line.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let mut scattered = sorted.clone();
        scattered.sort_by_key(|line| line.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut found = Vec::new();
        for (name, lines) in [("sorted", sorted), ("by set", by_set), ("scattered", scattered)] {
            let trial = Trial { sleep: self.ahead(), lines, ..Trial::default() };
            found.push((name, self.run(request, &trial, codes)?.preheat.took));
        }
        Ok(found)
    }
}
