//! A cache that can be ruled: which side fills what, and at which rank, is read from registers at
//! each fill (Nellans 2014, ch. 5).
//!
//! The plain [`Cache`](crate::cache::Cache) keeps a set in the order of recency and has no ways to
//! speak of. Here **ways have identity**, each with its rank, since a mask of ways says where a
//! line may come in, and a line that is there stays in its way when the mask changes: an exact
//! quota would have to decide which lines change sides. Kernel ways are the lowest, so that the
//! masks are contiguous, as processors want them.
//!
//! **Banks** are the two halves of the sets. Interleaved, the lowest bit of a line's number selects
//! the bank, which is the plain cache in another order of sets; segregated, its side does, with the
//! same set in either bank. Both are looked at once lines may lie in either.

mod monitor;
mod rrip;
mod sampler;
#[cfg(test)]
mod tests;

use halfwink_policy::segregation::{LookUp, Replacement, Rule, Side, Split, Utility, MAX_WAYS};

use crate::cache::{flag, Victim, TAG_SHIFT};
use crate::front_end::By;
use crate::machine::Geometry;
use monitor::Monitors;
pub(crate) use rrip::signature;
use rrip::Rrip;
pub(crate) use sampler::{Counters, Sampler};

/// A reference to a line, with its privilege and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) line: u64,
    pub(crate) kernel: bool,
    pub(crate) code: bool,
    /// Virtual address of the instruction that asks; 0 for a write-back. Only
    /// [`Replacement::Ship`] reads it.
    pub(crate) pc: u64,
}

impl Reference {
    /// A first-level cache asks for a line, of instructions or of data.
    #[inline]
    pub(crate) fn of(line: u64, by: By, code: bool) -> Reference {
        Reference { line, kernel: by.kernel(), code, pc: by.pc() }
    }

    /// A first-level cache gives a line of data back that this privilege had brought.
    #[inline]
    pub(crate) fn write_back(line: u64, kernel: bool) -> Reference {
        Reference { line, kernel, code: false, pc: 0 }
    }
}

/// Result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Flags of the line before, if it was there.
    pub(crate) flags: Option<u64>,
    /// Found, or not, in the time of a bank rather than of the whole cache.
    pub(crate) fast: bool,
    /// Banks that were read: 1 or 2.
    pub(crate) banks: u8,
    /// The bank that was asked first had it; none if it missed, or if there was no choice.
    pub(crate) predicted: Option<bool>,
}

/// Cache that a rule divides.
#[derive(Clone, Debug)]
pub(crate) struct RuledCache {
    tags: Box<[u64]>,
    /// Rank of each way in its set: 0 for the most recent.
    ranks: Box<[u8]>,
    geometry: Geometry,
    rule: Rule,
    /// Lines may lie in the bank of their side, whatever their number says.
    segregated: bool,
    /// Replaces the ranks, if it is not LRU.
    rrip: Option<Box<Rrip>>,
    monitors: Option<Box<Monitors>>,
}

impl RuledCache {
    /// Empty, one LRU stack. With `monitors` it can say what each side would make of more ways.
    ///
    /// # Panics
    /// If it has more than [`MAX_WAYS`] ways.
    pub(crate) fn new(geometry: Geometry, monitors: bool) -> RuledCache {
        RuledCache::with_replacement(geometry, monitors, Replacement::Lru)
    }

    /// Creates the cache with another replacement, which ignores a rule's ranks. A touch or an
    /// insertion with [`flag::DIRTY`] is a write-back there, and no use.
    ///
    /// # Panics
    ///
    /// If it has more than [`MAX_WAYS`] ways.
    pub(crate) fn with_replacement(
        geometry: Geometry,
        monitors: bool,
        replacement: Replacement,
    ) -> RuledCache {
        assert!(geometry.ways <= MAX_WAYS, "no rank for so many ways");
        let lines = geometry.sets * geometry.ways;
        RuledCache {
            tags: vec![0; lines].into_boxed_slice(),
            ranks: (0..lines).map(|n| (n % geometry.ways) as u8).collect(),
            geometry,
            rule: Rule::LRU,
            segregated: false,
            rrip: Rrip::new(replacement, geometry.sets, geometry.ways),
            monitors: monitors.then(|| Box::new(Monitors::new(geometry))),
        }
    }

    /// Sets the registers. No line moves.
    ///
    /// # Panics
    /// In debug builds, if the rule leaves a side without a way or a bank.
    pub(crate) fn set(&mut self, rule: Rule) {
        debug_assert_eq!(self.possible(&rule), Ok(()), "checked where rules come from");
        self.segregated |= rule.split == Split::Banks;
        self.rule = rule;
    }

    /// Checks that a rule is possible; the error says why not.
    pub(crate) fn possible(&self, rule: &Rule) -> Result<(), &'static str> {
        possible(self.geometry, rule)
    }

    /// Lines may lie in the bank of their side: both banks are looked at.
    pub(crate) fn is_segregated(&self) -> bool {
        self.segregated
    }

    /// Looks a line up: if it is there it is the most recent, and has these flags, too.
    #[inline]
    pub(crate) fn touch(&mut self, reference: Reference, flags: u64) -> Found {
        let (found, place) = self.find(reference);
        if let Some(place) = place {
            self.tags[place] |= flags;
            match &mut self.rrip {
                None => self.promote(place),
                Some(rrip) => rrip.hit(place, flags & flag::DIRTY != 0),
            }
        }
        if let Some(monitors) = &mut self.monitors {
            let side = self.rule.route.side(reference.kernel, reference.code);
            monitors.touch(reference.line, side);
        }
        found
    }

    /// Finds a line; returns the cost of the look-up, and its place.
    #[inline]
    fn find(&self, reference: Reference) -> (Found, Option<usize>) {
        let first = self.bank(reference);
        let mut place = self.way_of(first, reference.line);
        if !self.segregated {
            let flags = place.map(|place| self.tags[place] & flag::ALL);
            return (Found { flags, fast: false, banks: 1, predicted: None }, place);
        }
        let right = place.is_some();
        if !right {
            place = self.way_of(1 - first, reference.line);
        }
        let (fast, banks) = match (self.rule.split, self.rule.look_up) {
            (Split::Banks, LookUp::Parallel) => (true, 2),
            (Split::Banks, LookUp::Serial) if right => (true, 1),
            // Fallen back: the latency of the whole, whichever bank it is in.
            _ => (false, 2),
        };
        let flags = place.map(|place| self.tags[place] & flag::ALL);
        let predicted = place.map(|_| right);
        (Found { flags, fast, banks, predicted }, place)
    }

    /// The bank into which this reference's fills go.
    #[inline]
    fn bank(&self, reference: Reference) -> usize {
        match self.rule.split {
            Split::Banks => match self.rule.route.side(reference.kernel, reference.code) {
                Side::User => 0,
                Side::Kernel => 1,
            },
            Split::None | Split::Ways(_) => (reference.line & 1) as usize,
        }
    }

    /// Index of the first way of a line's set in a bank.
    #[inline]
    fn set_of(&self, bank: usize, line: u64) -> usize {
        let half = self.geometry.sets / 2;
        let set = if half == 0 { 0 } else { bank * half + ((line >> 1) as usize & (half - 1)) };
        set * self.geometry.ways
    }

    #[inline]
    fn way_of(&self, bank: usize, line: u64) -> Option<usize> {
        let start = self.set_of(bank, line);
        let key = line << TAG_SHIFT | flag::VALID;
        let tags = &self.tags[start..start + self.geometry.ways];
        let way = tags.iter().position(|&tag| tag & (!flag::ALL | flag::VALID) == key)?;
        Some(start + way)
    }

    /// Makes a line the most recent of its set.
    #[inline]
    fn promote(&mut self, place: usize) {
        let rank = self.ranks[place];
        if rank != 0 {
            for other in self.ranks_around(place) {
                *other += u8::from(*other < rank);
            }
            self.ranks[place] = 0;
        }
    }

    #[inline]
    fn ranks_around(&mut self, place: usize) -> &mut [u8] {
        let start = place - place % self.geometry.ways;
        &mut self.ranks[start..start + self.geometry.ways]
    }

    /// Puts a line that is not there where the rule says; returns what had to leave.
    pub(crate) fn insert(&mut self, reference: Reference, flags: u64) -> Option<Victim> {
        debug_assert!(self.find(reference).1.is_none(), "it is there");
        let side = self.rule.route.side(reference.kernel, reference.code);
        let start = self.set_of(self.bank(reference), reference.line);
        let place = start + self.victim(start, side);
        let last = self.tags[place];
        let owner = flag::owner(reference.kernel);
        self.tags[place] = reference.line << TAG_SHIFT | flags | owner | flag::VALID;
        match &mut self.rrip {
            None => self.enter(place, self.rule.insertion[usize::from(side == Side::Kernel)]),
            Some(rrip) => {
                rrip.fill(place, reference, flags & flag::DIRTY != 0, last & flag::VALID != 0);
            }
        }
        (last & flag::VALID != 0).then_some(Victim {
            line: last >> TAG_SHIFT,
            dirty: last & flag::DIRTY != 0,
            kernel: last & flag::KERNEL != 0,
            prefetched: last & flag::PREFETCHED != 0,
        })
    }

    /// A line comes in at this rank of its set.
    #[inline]
    fn enter(&mut self, place: usize, comes_in: u8) {
        let leaves = self.ranks[place];
        for other in self.ranks_around(place) {
            // The others close the gap, then make room.
            *other -= u8::from(*other > leaves);
            *other += u8::from(*other >= comes_in);
        }
        self.ranks[place] = comes_in;
    }

    /// The way of a set that a fill of this side takes: an empty one, or else the least recent.
    #[inline]
    fn victim(&mut self, start: usize, side: Side) -> usize {
        let ways = match (self.rule.split, side) {
            (Split::Ways(kernel), Side::Kernel) => 0..usize::from(kernel),
            (Split::Ways(kernel), Side::User) => usize::from(kernel)..self.geometry.ways,
            (Split::None | Split::Banks, _) => 0..self.geometry.ways,
        };
        if let Some(rrip) = &mut self.rrip {
            let is_empty = |&way: &usize| self.tags[start + way] & flag::VALID == 0;
            return match ways.clone().find(is_empty) {
                Some(way) => way,
                None => rrip.victim(start + ways.start..start + ways.end) - start,
            };
        }
        let mut worst = (0, ways.start);
        for way in ways {
            let empty = self.tags[start + way] & flag::VALID == 0;
            let rank = if empty { u8::MAX } else { self.ranks[start + way] + 1 };
            if rank > worst.0 {
                worst = (rank, way);
            }
        }
        worst.1
    }

    /// Takes flags from a line, if it is present, and gives it others, without using it; returns
    /// its flags before.
    pub(crate) fn change(&mut self, line: u64, take: u64, give: u64) -> Option<u64> {
        let place = self.place_of(line)?;
        let before = self.tags[place];
        self.tags[place] = before & !take | give;
        Some(before & flag::ALL)
    }

    /// Another core takes the line away; its flags, if it was there.
    pub(crate) fn invalidate(&mut self, line: u64) -> Option<u64> {
        let place = self.place_of(line)?;
        let flags = self.tags[place] & flag::ALL;
        self.tags[place] = 0;
        Some(flags)
    }

    /// Returns all lines, see [`Cache::lines`](crate::cache::Cache::lines).
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let sets = self.tags.chunks_exact(self.geometry.ways).enumerate();
        let held = |word: &&u64| **word & flag::VALID != 0;
        sets.flat_map(move |(set, words)| {
            let words = words.iter().filter(held);
            words.map(move |word| (set, word >> TAG_SHIFT, word & flag::ALL))
        })
    }

    pub(crate) fn sets(&self) -> usize {
        self.geometry.sets
    }

    /// Removes all lines; ways keep their ranks, and monitors their counts.
    pub(crate) fn clear(&mut self) {
        self.tags.fill(0);
    }

    fn place_of(&self, line: u64) -> Option<usize> {
        if !self.segregated {
            return self.way_of((line & 1) as usize, line);
        }
        self.way_of(0, line).or_else(|| self.way_of(1, line))
    }

    /// Monitors forget what they counted, not what is where.
    pub(crate) fn forget_utility(&mut self) {
        if let Some(monitors) = &mut self.monitors {
            monitors.forget();
        }
    }

    /// Takes the counts of the monitors since the last call.
    pub(crate) fn take_utility(&mut self) -> Option<Box<Utility>> {
        self.monitors.as_mut().map(|monitors| monitors.take())
    }
}

/// Checks that a rule is possible in a cache of this shape; the error says why not.
pub(crate) fn possible(geometry: Geometry, rule: &Rule) -> Result<(), &'static str> {
    if geometry.ways > MAX_WAYS {
        return Err("more ways than can be ruled, 32");
    }
    match rule.split {
        Split::Ways(0) => return Err("no way for the kernel"),
        Split::Ways(k) if usize::from(k) >= geometry.ways => return Err("no way for the user"),
        Split::Banks if geometry.sets < 2 => return Err("one set has no two banks"),
        Split::None | Split::Ways(_) | Split::Banks => {}
    }
    if rule.insertion.iter().any(|&rank| usize::from(rank) >= geometry.ways) {
        return Err("a rank that no way has");
    }
    Ok(())
}
