//! A window in detail: played on a chip that begins with the state that it was cut with, and
//! measured between two of its instructions.

use std::collections::BTreeMap;

use halfwink_engine::{Histogram, RunControl};
use halfwink_trace::LoadKind;
use halfwink_units::{Energy, Time};

use super::cutter::Window;
use crate::chip::{Chip, ChipError, CodeCache, Options};
use crate::machine::Machine;
use crate::task::Task;

/// Measurement of a window, or of a whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Instructions, as the front end hands them to the pipeline.
    pub instructions: u64,
    /// Time from the first to the last of them.
    pub time: Time,
    /// Energy of the core, modelled.
    pub core_energy: Energy,
    /// Energy of the whole chip with its memory, modelled.
    pub energy: Energy,
    /// Stalls that memory ended: the longest of each bucket of a histogram, and how many.
    pub memory_stalls: Vec<(Time, u64)>,
}

/// The sums at one time.
struct Mark {
    at: Time,
    instructions: u64,
    core_energy: Energy,
    energy: Energy,
    memory_stalls: Histogram,
}

/// Interval of checks of the core's position: a check ends a measurement late by up to this much,
/// which affects both of its ends. The interval doubles after each check without progress, since
/// halts may last for milliseconds.
const LOOK: Time = Time::ns(20);
const LONGEST_LOOK: Time = Time::ns(1_000);

/// Refresh comes at a fixed time after a run's beginning: windows begin at evenly spread times of
/// an interval of 7.8 us, of which the mean interval of refresh of every DDR3, DDR4 and DDR5 device
/// is a whole fraction (JESD79-3, -4, -5).
const REFRESH_PS: f64 = 7.8e6;

/// Plays a window under a technique. `None` if it holds fewer instructions than are to be played
/// before it is measured.
///
/// # Errors
/// See [`ChipError`]; [`ChipError::OtherCaches`] if the technique changed the machine's caches.
pub fn measure(
    machine: &Machine,
    window: &Window,
    load: LoadKind,
    options: &Options<'_>,
    codes: &mut CodeCache,
    control: &RunControl,
) -> Result<Option<Measured>, ChipError> {
    // The fractional parts of multiples of the golden ratio are evenly spread, however many.
    let phase = (window.index as f64 * 0.618_033_988_749_895).fract();
    let start = Time((phase * REFRESH_PS) as u64);
    let source = Box::new(window.source());
    let limit = window.instructions;
    let task =
        Task { source, warm: Default::default(), load, limit, start, shared: None, thread: None };
    let mut chip = Chip::new(machine, vec![task], options, &[], codes)?;
    window.state.put_into(&mut chip.cores[0], &mut chip.shared.uncore)?;
    // Not control itself: its count is the pass's.
    let own = RunControl::new();
    let mut first = None;
    let (mut stop, mut look, mut seen) = (start, LOOK, 0);
    while chip.play_to(stop, &own)? {
        control.report(control.done())?;
        let instructions = chip.instructions();
        if first.is_none() && instructions >= window.warm_up {
            first = Some(chip.mark(stop));
        }
        if let Some(first) = &first {
            if instructions - first.instructions >= window.unit {
                return Ok(Some(chip.mark(stop).since(first)));
            }
        }
        look = if instructions > seen { LOOK } else { (look + look).min(LONGEST_LOOK) };
        seen = instructions;
        stop += look;
    }
    let Some(first) = first else { return Ok(None) };
    let end = chip.finish_mark()?;
    Ok((end.instructions > first.instructions).then(|| end.since(&first)))
}

impl Mark {
    fn since(&self, first: &Mark) -> Measured {
        let mut stalls: BTreeMap<Time, u64> = self.memory_stalls.counts().collect();
        for (length, count) in first.memory_stalls.counts() {
            let left = stalls.entry(length).or_default();
            *left = left.saturating_sub(count);
        }
        stalls.retain(|_, count| *count > 0);
        Measured {
            instructions: self.instructions - first.instructions,
            time: self.at - first.at,
            core_energy: self.core_energy - first.core_energy,
            energy: self.energy - first.energy,
            memory_stalls: stalls.into_iter().collect(),
        }
    }
}

impl Chip<'_> {
    /// Sums at `now`, to which all of the chip has come.
    fn mark(&self, now: Time) -> Mark {
        Mark {
            at: now,
            instructions: self.instructions(),
            core_energy: self.accountant.core_energy(&self.cores, now),
            energy: self.accountant.energy(&self.cores, &self.shared.uncore, now),
            memory_stalls: self.cores[0].memory_stalls.clone(),
        }
    }

    /// Sums at the end of all work, from the books.
    fn finish_mark(self) -> Result<Mark, ChipError> {
        let (result, _) = self.finish()?;
        let core = &result.cores[0];
        let energy = |wanted: &dyn Fn(&str) -> bool| result.books.energy_where(wanted);
        Ok(Mark {
            at: core.finished,
            instructions: core.work.instructions.iter().sum(),
            core_energy: energy(&|name| name == "core0"),
            energy: energy(&|_| true),
            memory_stalls: core.memory_stalls.clone(),
        })
    }
}
