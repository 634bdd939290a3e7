//! Branch prediction and fetch, from what is written to what is possible.

use halfwink_engine::InputError;
use halfwink_units::Cycle;
use serde::Deserialize;
use toml::Spanned;

use super::value::Check;
use super::{CoreKind, CoreSpec};
use crate::branch::{MAX_HISTORY, MAX_TABLES};

/// Parameters of branch prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchSpec {
    /// Kind of the direction predictor.
    pub predictor: PredictorKind,
    /// Entries of the indirect target table (a power of two).
    pub indirect_entries: usize,
    /// Depth of the return address stack.
    pub return_entries: usize,
    /// Indirect targets by history, beside that table.
    pub indirect: Option<IndirectSpec>,
    /// Branch target buffer; without one, every branch is known.
    pub btb: Option<BtbSpec>,
}

/// Kinds of direction predictors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictorKind {
    /// Never wrong, for studies that exclude branches.
    Perfect,
    /// Table of 2048 two-bit counters.
    Bimodal,
    /// The Alpha 21264's local and global predictors with a chooser.
    Tournament,
    /// Tables with tags and histories of geometric lengths.
    Tage(TageSpec),
    /// Sums of weights by hashed histories.
    Perceptron(PerceptronSpec),
}

/// Sizes of a TAGE predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TageSpec {
    /// Two-bit counters without history (a power of two).
    pub base_entries: usize,
    /// Tables with tags (1..=16).
    pub tables: usize,
    /// Entries of each (a power of two).
    pub entries: usize,
    /// Bits of a tag (6..=16).
    pub tag_bits: u32,
    /// History of the first table, in branches.
    pub shortest_history: usize,
    /// History of the last.
    pub longest_history: usize,
    /// Entries of the loop predictor (a power of two), or 0.
    pub loop_entries: usize,
}

/// Sizes of a hashed perceptron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerceptronSpec {
    /// Tables of weights (2..=16), the first without history.
    pub tables: usize,
    /// Weights of each (a power of two).
    pub entries: usize,
    /// History of the second table, in branches.
    pub shortest_history: usize,
    /// History of the last.
    pub longest_history: usize,
}

/// Sizes of an ITTAGE predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectSpec {
    /// Tables with tags (1..=16).
    pub tables: usize,
    /// Entries of each (a power of two).
    pub entries: usize,
    /// Bits of a tag (6..=16).
    pub tag_bits: u32,
    /// History of the first table, in branches.
    pub shortest_history: usize,
    /// History of the last.
    pub longest_history: usize,
}

/// Parameters of the branch target buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtbSpec {
    /// Taken branches that it holds.
    pub entries: usize,
    /// Ways of a set; `entries / ways` is a power of two.
    pub ways: usize,
    /// Cycles from the dispatch of a taken branch that it does not hold until the next one.
    pub redirect: Cycle,
}

/// Parameters of instruction fetch. All 0: one line after the other, when its turn has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchSpec {
    /// Lines, and predicted blocks, that fetch may be ahead of dispatch.
    pub queue: usize,
    /// Lines looked up in a cycle.
    pub lines_per_cycle: usize,
    /// Cycles from a line's arrival to the dispatch of what is in it: with the latency of the
    /// instruction cache, the end of the refill, before which fetch does not begin. None: what is
    /// there can be dispatched at once, and fetch begins as soon as it knows where.
    pub depth: Option<Cycle>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PredictorName {
    Perfect,
    Bimodal,
    Tournament,
    Tage,
    Perceptron,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchSection {
    predictor: Spanned<PredictorName>,
    indirect_entries: Spanned<usize>,
    return_entries: Spanned<usize>,
    tage: Option<Spanned<TageSection>>,
    perceptron: Option<Spanned<PerceptronSection>>,
    indirect: Option<Spanned<IndirectSection>>,
    btb: Option<Spanned<BtbSection>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TageSection {
    base_entries: Spanned<usize>,
    tables: Spanned<usize>,
    entries: Spanned<usize>,
    tag_bits: Spanned<usize>,
    shortest_history: Spanned<usize>,
    longest_history: Spanned<usize>,
    loop_entries: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PerceptronSection {
    tables: Spanned<usize>,
    entries: Spanned<usize>,
    shortest_history: Spanned<usize>,
    longest_history: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IndirectSection {
    tables: Spanned<usize>,
    entries: Spanned<usize>,
    tag_bits: Spanned<usize>,
    shortest_history: Spanned<usize>,
    longest_history: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BtbSection {
    entries: Spanned<usize>,
    ways: Spanned<usize>,
    redirect_cycles: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchSection {
    queue: Spanned<usize>,
    lines_per_cycle: Spanned<usize>,
    depth_cycles: Option<Spanned<usize>>,
}

/// Most lines ahead of dispatch. Assumption: real queues have 16 to 64.
const MAX_QUEUE: usize = 256;

impl Check<'_> {
    pub(super) fn branch(&self, section: &BranchSection) -> Result<BranchSpec, InputError> {
        Ok(BranchSpec {
            predictor: self.predictor(section)?,
            indirect_entries: self.power_of_two(&section.indirect_entries, "entries")?,
            return_entries: self.within(&section.return_entries, 1, 256, "entries")?,
            indirect: match &section.indirect {
                Some(indirect) => Some(self.indirect(indirect.get_ref())?),
                None => None,
            },
            btb: match &section.btb {
                Some(btb) => Some(self.btb(btb.get_ref())?),
                None => None,
            },
        })
    }

    /// The predictor that is named, with the sizes of its own section and no other.
    fn predictor(&self, section: &BranchSection) -> Result<PredictorKind, InputError> {
        let name = *section.predictor.get_ref();
        if let (Some(tage), false) = (&section.tage, matches!(name, PredictorName::Tage)) {
            return Err(self.fail(tage, "sizes of a predictor that `predictor` does not name"));
        }
        let is_perceptron = matches!(name, PredictorName::Perceptron);
        if let (Some(perceptron), false) = (&section.perceptron, is_perceptron) {
            return Err(
                self.fail(perceptron, "sizes of a predictor that `predictor` does not name")
            );
        }
        let missing = |key: &str| {
            self.fail(&section.predictor, format!("it needs its sizes in [branch.{key}]"))
        };
        Ok(match name {
            PredictorName::Perfect => PredictorKind::Perfect,
            PredictorName::Bimodal => PredictorKind::Bimodal,
            PredictorName::Tournament => PredictorKind::Tournament,
            PredictorName::Tage => {
                let tage = section.tage.as_ref().ok_or_else(|| missing("tage"))?;
                PredictorKind::Tage(self.tage(tage.get_ref())?)
            }
            PredictorName::Perceptron => {
                let sizes = section.perceptron.as_ref().ok_or_else(|| missing("perceptron"))?;
                PredictorKind::Perceptron(self.perceptron(sizes.get_ref())?)
            }
        })
    }

    fn tage(&self, section: &TageSection) -> Result<TageSpec, InputError> {
        let tables = self.within(&section.tables, 1, MAX_TABLES, "tables")?;
        let (shortest_history, longest_history) =
            self.histories(tables, &section.shortest_history, &section.longest_history)?;
        // 0 leaves the loop predictor out; `table` would refuse it as a size.
        let loops = *section.loop_entries.get_ref();
        Ok(TageSpec {
            base_entries: self.power_of_two(&section.base_entries, "entries")?,
            tables,
            entries: self.table(&section.entries)?,
            tag_bits: self.within(&section.tag_bits, 6, 16, "bits")? as u32,
            shortest_history,
            longest_history,
            loop_entries: if loops == 0 { 0 } else { self.table(&section.loop_entries)? },
        })
    }

    fn perceptron(&self, section: &PerceptronSection) -> Result<PerceptronSpec, InputError> {
        // The first table goes by the address alone: a perceptron needs one more to have any
        // history.
        let tables = self.within(&section.tables, 2, MAX_TABLES, "tables")?;
        let (shortest_history, longest_history) =
            self.histories(tables - 1, &section.shortest_history, &section.longest_history)?;
        let entries = self.table(&section.entries)?;
        Ok(PerceptronSpec { tables, entries, shortest_history, longest_history })
    }

    fn indirect(&self, section: &IndirectSection) -> Result<IndirectSpec, InputError> {
        let tables = self.within(&section.tables, 1, MAX_TABLES, "tables")?;
        let (shortest_history, longest_history) =
            self.histories(tables, &section.shortest_history, &section.longest_history)?;
        Ok(IndirectSpec {
            tables,
            entries: self.table(&section.entries)?,
            tag_bits: self.within(&section.tag_bits, 6, 16, "bits")? as u32,
            shortest_history,
            longest_history,
        })
    }

    fn btb(&self, section: &BtbSection) -> Result<BtbSpec, InputError> {
        let ways = self.within(&section.ways, 1, 64, "ways")?;
        let entries = self.within(&section.entries, ways, 1 << 20, "entries")?;
        // The set is chosen by bits of the address; the number of ways is free.
        if entries % ways != 0 || !(entries / ways).is_power_of_two() {
            let message = format!(
                "{entries} entries in {ways} ways are {} sets, expected a power of two",
                entries as f64 / ways as f64
            );
            return Err(self.fail(&section.entries, message));
        }
        let redirect = self.within(&section.redirect_cycles, 1, 200, "cycles")? as Cycle;
        Ok(BtbSpec { entries, ways, redirect })
    }

    /// Entries of one table of several: an index of at least two bits.
    fn table(&self, value: &Spanned<usize>) -> Result<usize, InputError> {
        match self.power_of_two(value, "entries")? {
            n @ 4.. => Ok(n),
            n => Err(self.fail(value, format!("{n} entries, expected at least 4"))),
        }
    }

    fn histories(
        &self,
        tables: usize,
        shortest: &Spanned<usize>,
        longest: &Spanned<usize>,
    ) -> Result<(usize, usize), InputError> {
        let first = self.within(shortest, 1, MAX_HISTORY, "branches")?;
        let last = self.within(longest, 1, MAX_HISTORY, "branches")?;
        // `geometric` makes each length greater than the one before. With less room, the last would
        // exceed `longest_history`, and possibly `MAX_HISTORY`. The condition is a sum because a
        // difference could be below zero.
        if last + 1 < first + tables {
            let message = format!(
                "{last} branches, expected at least {}: {tables} tables, each with a longer \
                 history than the one before, from {first} on",
                first + tables - 1
            );
            return Err(self.fail(longest, message));
        }
        Ok((first, last))
    }

    pub(super) fn fetch(
        &self,
        section: Option<&Spanned<FetchSection>>,
        core: &CoreSpec,
        latency: Cycle,
    ) -> Result<FetchSpec, InputError> {
        let Some(section) = section else { return Ok(FetchSpec::default()) };
        let file = section.get_ref();
        let queue = self.within(&file.queue, 0, MAX_QUEUE, "lines")?;
        if queue > 0 && core.kind == CoreKind::InOrder {
            let message = "fetch ahead of dispatch is for out-of-order cores only: expected 0";
            return Err(self.fail(&file.queue, message));
        }
        // A queue that looks up no line in a cycle would never get any.
        let least = usize::from(queue > 0);
        Ok(FetchSpec {
            queue,
            lines_per_cycle: self.within(&file.lines_per_cycle, least, 8, "lines a cycle")?,
            depth: match &file.depth_cycles {
                // The refill is at most 200 cycles.
                Some(depth) => {
                    let most = core.refill.saturating_sub(latency) as usize;
                    let what = "cycles: these and l1i.latency_cycles are part of \
                                core.refill_cycles";
                    Some(self.within(depth, 0, most, what)? as Cycle)
                }
                None => None,
            },
        })
    }
}
