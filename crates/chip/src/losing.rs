//! What a core's private caches lose when it sleeps deeply, and what is written back before.
//!
//! The walk over a cache reads one set's tags a cycle, and a dirty line takes one more to leave. If
//! the second level is kept, dirty lines of the first go there; else all go to the shared levels,
//! on the way of victims. A line is there until it is sent: another core that asks meanwhile finds
//! it. Instruction caches and branch tables have nothing dirty, and are lost at once.

use halfwink_units::Cycle;

use crate::cache::flag;
use crate::losses::Losses;
use crate::machine::Machine;
use crate::private::Private;
use crate::ruled::Reference;
use crate::uncore::Want;

/// Counters of write-backs and losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCounts {
    /// Times that caches were lost.
    pub losses: u64,
    /// Lines that they held.
    pub lines: u64,
    /// Dirty ones that were read out of the data cache.
    pub l1d_reads: u64,
    /// Dirty ones that were read out of the second level.
    pub l2_reads: u64,
    /// Lines of the data cache that the second level took.
    pub l2_writes: u64,
    /// Lines that went to the shared levels.
    pub written_back: u64,
    /// Misses of the second level on lines that it had, or the first level, when they were lost;
    /// the first of each line, by privilege (user, kernel).
    pub cold_misses: [u64; 2],
}

/// The part of [`Private`] of a core that loses.
#[derive(Clone, Debug)]
pub(crate) struct Losing {
    /// Losses of the present or the last state.
    pub(crate) now: Losses,
    pub(crate) counts: LossCounts,
    /// Lines that must be loaded again from beyond this core, sorted, and whether each was
    /// requested.
    lost: Vec<u64>,
    asked: Vec<bool>,
    /// Requested lines without an answer yet.
    awaited: Vec<u64>,
}

/// A line to be written back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirtyLine {
    /// Cycle at which the walk reaches it, from its beginning.
    pub(crate) after: Cycle,
    line: u64,
}

/// Outcome of a dirty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentBack {
    /// Another core took it meanwhile, or it went with its copy in the other level.
    Gone,
    /// The second level has it.
    Kept,
    /// The line is on its way to the shared levels, which will answer.
    Sent,
}

impl Losing {
    /// Returns none if a core of this kind retains everything, whether it is gated or in an idle
    /// state that its technique may use.
    pub(crate) fn of(machine: &Machine) -> Option<Box<Losing>> {
        let gated = Losses::of(&machine.gating.loses);
        let loses = gated.any() || machine.rests().any(|state| !state.loses.is_empty());
        loses.then(|| {
            Box::new(Losing {
                now: gated,
                counts: LossCounts::default(),
                lost: Vec::new(),
                asked: Vec::new(),
                awaited: Vec::new(),
            })
        })
    }

    /// The second level does not have this line.
    pub(crate) fn missed(&mut self, line: u64, kernel: bool) {
        let Ok(n) = self.lost.binary_search(&line) else { return };
        if !std::mem::replace(&mut self.asked[n], true) {
            self.counts.cold_misses[usize::from(kernel)] += 1;
            self.awaited.push(line);
        }
    }

    /// Marks a line as refetched by another access. Later misses on it are not counted as caused by
    /// sleep.
    fn forgive(&mut self, line: u64) {
        if let Ok(n) = self.lost.binary_search(&line) {
            self.asked[n] = true;
        }
    }

    /// The shared levels have answered: whether the line was only asked for because it was lost.
    pub(crate) fn answered(&mut self, line: u64) -> bool {
        let place = self.awaited.iter().position(|&awaited| awaited == line);
        place.map(|place| self.awaited.swap_remove(place)).is_some()
    }
}

impl Private {
    /// The dirty lines that would be lost, in the order of the walk, and how long that takes.
    pub(crate) fn walk(&mut self) -> (Vec<DirtyLine>, Cycle) {
        let Some(losing) = &mut self.losing else { return (Vec::new(), 0) };
        let (mut dirty, mut length) = (Vec::new(), 0);
        losing.lost.clear();
        let (lost, counts) = (&mut losing.lost, &mut losing.counts);
        counts.losses += 1;
        let mut walk = |sets, lines: &mut dyn Iterator<Item = (usize, u64, u64)>| {
            let start = length;
            for (set, line, flags) in lines {
                counts.lines += 1;
                lost.push(line);
                if flags & flag::DIRTY != 0 {
                    let after = start + set as Cycle + dirty.len() as Cycle;
                    dirty.push(DirtyLine { after, line });
                }
            }
            length += sets as Cycle;
        };
        if losing.now.l1d {
            walk(self.l1d.sets(), &mut self.l1d.lines());
        }
        if losing.now.l2 {
            walk(self.l2.sets(), &mut self.l2.lines());
        }
        if losing.now.l1i {
            walk(0, &mut self.l1i.lines());
        }
        if losing.now.l2 {
            lost.sort_unstable();
            lost.dedup();
        } else {
            // The second level has them, or whoever lost them there pays as for any victim.
            lost.clear();
        }
        losing.asked.clear();
        losing.asked.resize(losing.lost.len(), false);
        let taken = dirty.len() as Cycle;
        (dirty, length + taken)
    }

    /// Loads a line into the second level at cycle `now`, if it is not there: whether it had to be
    /// asked for.
    pub(crate) fn prefetch(&mut self, line: u64, now: Cycle) -> bool {
        if self.l2.change(line, 0, 0).is_some() {
            return false;
        }
        if let Some(losing) = &mut self.losing {
            losing.forgive(line);
        }
        let reference = Reference { line, kernel: true, code: false, pc: 0 };
        self.allocate_l2(reference, flag::PENDING, true, now);
        let after = self.l1d_latency() + self.least_l2_latency();
        self.request(line, Want::Preheat, true, now, after);
        true
    }

    /// A dirty line leaves its cache at cycle `now`.
    pub(crate) fn send_back(&mut self, dirty: DirtyLine, now: Cycle) -> SentBack {
        let Some(losing) = &mut self.losing else { return SentBack::Gone };
        let (line, mut flags) = (dirty.line, 0);
        if losing.now.l1d {
            let found = self.l1d.invalidate(line).unwrap_or(0);
            losing.counts.l1d_reads += u64::from(found & flag::DIRTY != 0);
            flags |= found;
        }
        if losing.now.l2 {
            let found = self.l2.invalidate(line).unwrap_or(0);
            losing.counts.l2_reads += u64::from(found & flag::DIRTY != 0);
            flags |= found;
        }
        if flags & flag::DIRTY == 0 {
            return SentBack::Gone;
        }
        let kernel = flags & flag::KERNEL != 0;
        if losing.now.l2 {
            losing.counts.written_back += 1;
            let after = self.l1d_latency() + self.least_l2_latency();
            self.request(line, Want::Flush, kernel, now, after);
            return SentBack::Sent;
        }
        losing.counts.l2_writes += 1;
        let home = Reference::write_back(line, kernel);
        if !self.l2.write_back(home, kernel) {
            self.allocate_l2(home, flag::DIRTY, kernel, now);
        }
        SentBack::Kept
    }

    /// Asks the third level at cycle `now` to write back and lose what it has.
    pub(crate) fn lose_shared(&mut self, now: Cycle) {
        let after = self.l1d_latency() + self.least_l2_latency();
        self.request(0, Want::LoseShared, true, now, after);
    }

    /// The supply goes; nothing dirty is left.
    pub(crate) fn lose(&mut self) {
        let Some(losing) = &self.losing else { return };
        if losing.now.l1i {
            self.l1i.clear();
        }
        if let (true, Some(translation)) = (losing.now.tlb, &mut self.translation) {
            translation.buffers.clear();
        }
        if losing.now.l1d {
            debug_assert!(self.l1d.lines().all(|(.., flags)| flags & flag::DIRTY == 0));
            self.l1d.clear();
        }
        if losing.now.l2 {
            debug_assert!(self.l2.lines().all(|(.., flags)| flags & flag::DIRTY == 0));
            self.l2.clear();
        }
    }
}
