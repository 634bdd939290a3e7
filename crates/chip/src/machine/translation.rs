//! Address translation of a machine's cores: none, or translation buffers and walkers.

use halfwink_engine::InputError;
use halfwink_units::Cycle;
use serde::Deserialize;
use toml::Spanned;

use super::value::Check;
use super::Geometry;
use crate::translation::Sizes;

/// Translation buffers of two levels, and what walks page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbSpec {
    /// First level for instructions.
    pub instruction: TlbLevelSpec,
    /// First level for data.
    pub data: TlbLevelSpec,
    /// Second level, for both.
    pub second: Geometry,
    /// Cycles that a hit there adds to an access.
    pub second_latency: Cycle,
    /// Number of simultaneous walks.
    pub walkers: usize,
    /// Entries of each walk cache, one for each level above the leaves; 0: there are none.
    pub walk_cache: usize,
    /// Pages of user and kernel addresses are of 2 MB where they can be.
    pub large: [bool; 2],
    /// Pages of several address spaces are told apart; else a switch of page tables loses all but
    /// the kernel's.
    pub pcid: bool,
}

/// A translation buffer of the first level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbLevelSpec {
    /// Shape for all pages, or for those of 4 KB.
    pub all: Geometry,
    /// Shape for pages of 2 MB, if they have an array of their own.
    pub large: Option<Geometry>,
}

impl TlbSpec {
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes { large: self.large }
    }
}

/// Size of pages, where a mapping could have either.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum PageSize {
    #[serde(rename = "4K")]
    Small,
    #[serde(rename = "2M")]
    Large,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlbSection {
    walkers: Spanned<usize>,
    walk_cache_entries: Spanned<usize>,
    user_pages: PageSize,
    kernel_pages: PageSize,
    pcid: bool,
    l1i: TlbLevelSection,
    l1d: TlbLevelSection,
    l2: TlbSecondSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlbLevelSection {
    entries: Spanned<usize>,
    ways: Spanned<usize>,
    large_entries: Option<Spanned<usize>>,
    large_ways: Option<Spanned<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlbSecondSection {
    entries: Spanned<usize>,
    ways: Spanned<usize>,
    latency_cycles: Spanned<Cycle>,
}

impl Check<'_> {
    pub(super) fn tlb(&self, section: &TlbSection) -> Result<TlbSpec, InputError> {
        let latency = *section.l2.latency_cycles.get_ref();
        if !(1..=100).contains(&latency) {
            let message = format!("a latency of {latency} cycles, expected 1 to 100");
            return Err(self.fail(&section.l2.latency_cycles, message));
        }
        Ok(TlbSpec {
            instruction: self.tlb_level(&section.l1i, 1)?,
            // An access that reaches into the next page needs both at once.
            data: self.tlb_level(&section.l1d, 2)?,
            second: self.tlb_array(&section.l2.entries, &section.l2.ways, 1)?,
            second_latency: latency,
            walkers: self.within(&section.walkers, 1, 64, "walkers")?,
            walk_cache: self.within(&section.walk_cache_entries, 0, 1024, "entries")?,
            large: [section.user_pages, section.kernel_pages].map(|size| size == PageSize::Large),
            pcid: section.pcid,
        })
    }

    fn tlb_level(
        &self,
        section: &TlbLevelSection,
        least: usize,
    ) -> Result<TlbLevelSpec, InputError> {
        let large = match (&section.large_entries, &section.large_ways) {
            (Some(entries), Some(ways)) => Some(self.tlb_array(entries, ways, least)?),
            (None, None) => None,
            (Some(alone), None) | (None, Some(alone)) => {
                let message = "`large_entries` and `large_ways` go together";
                return Err(self.fail(alone, message));
            }
        };
        Ok(TlbLevelSpec { all: self.tlb_array(&section.entries, &section.ways, least)?, large })
    }

    fn tlb_array(
        &self,
        entries: &Spanned<usize>,
        ways: &Spanned<usize>,
        least: usize,
    ) -> Result<Geometry, InputError> {
        let (n, in_set) = (*entries.get_ref(), *ways.get_ref());
        if n < least {
            let what = if least == 1 { "no page fits" } else { "no access to two pages fits" };
            let message = format!("{n} entries, a TLB that {what}: expected {least} or more");
            return Err(self.fail(entries, message));
        }
        if n > 1 << 20 || in_set == 0 || in_set > 4096 || !n.is_multiple_of(in_set) {
            let message = format!("{n} entries in {in_set} ways, expected whole sets of 1 to 4096");
            return Err(self.fail(ways, message));
        }
        let sets = n / in_set;
        if !sets.is_power_of_two() {
            let message = format!(
                "an impossible TLB: {n} entries in {in_set} ways are {sets} sets, expected a \
                 power of two"
            );
            return Err(self.fail(entries, message));
        }
        Ok(Geometry { sets, ways: in_set })
    }
}
