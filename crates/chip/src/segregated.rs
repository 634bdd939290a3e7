//! A private second level that keeps kernel and user apart as a segregation policy says (Nellans
//! 2014, ch. 5): the cache, its policy, and what both are told and counted by.
//!
//! ```text
//!  first level ── reads, write-backs ──▶ RuledCache ──▶ shared levels
//!                          │ counters        ▲ registers
//!                          ▼                 │
//!                       Sample ──────▶ segregation policy
//! ```
//!
//! A sample is given before the first load or fetch that reads the second level once its time is
//! over: at that access all of what came before has happened, wherever a run was cut, while a store
//! writes behind the pipeline's back, which may have come any further by then.

use halfwink_policy::segregation::{Action, Event, Replacement, Rule, SegregationPolicy, Side};
use halfwink_policy::Host;
use halfwink_units::{Clock, Cycle, Time};

use crate::cache::{flag, Cache, Victim};
use crate::front_end::WorkCounts;
use crate::machine::Geometry;
use crate::ruled::{Counters, Found, Reference, RuledCache, Sampler};

/// Policies by which the second levels of a run separate kernel and user.
#[derive(Clone, Copy)]
pub struct Segregated<'a> {
    /// Makes the policy of each core's second level.
    pub policy: &'a dyn Fn(usize) -> SegregationPolicy,
    /// Which line of a set leaves.
    pub replacement: Replacement,
    /// Whether monitors estimate each side's use of more ways.
    pub monitors: bool,
}

/// Counters of a second level that a rule divides. A **side** is that of a reference under the rule
/// of its time: under [`Route::Both`](halfwink_policy::segregation::Route::Both) its privilege. A
/// write-back has the side of the access that brought the line into the first level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegregationCounts {
    /// Reads, by side (user, kernel).
    pub reads: [u64; 2],
    /// Number of misses among these.
    pub misses: [u64; 2],
    /// Write-backs of the first level, by side.
    pub write_backs: [u64; 2],
    /// Reads that hit, by side, in the bank that was asked first; none where banks were never
    /// segregated.
    pub predicted: [u64; 2],
    /// Reads that hit in the other.
    pub mispredicted: [u64; 2],
    /// Look-ups of the whole cache, write-backs included, by privilege of who causes them.
    pub whole: [u64; 2],
    /// Banks read by look-ups of banks, likewise.
    pub banks: [u64; 2],
    /// Lines displaced by fills of a side, that the other privilege had brought.
    pub displaced: [u64; 2],
    /// Samples that the policy heard, and times it set the registers.
    pub samples: u64,
    /// Times that it set the registers.
    pub rules: u64,
    /// Rule at the end.
    pub rule: Rule,
}

/// Checks that a rule can be set in a cache of this shape.
///
/// # Errors
///
/// The reason why not.
pub fn possible_rule(geometry: Geometry, rule: &Rule) -> Result<(), &'static str> {
    crate::ruled::possible(geometry, rule)
}

/// A ruled cache and its policy.
pub(crate) struct Ruled {
    cache: RuledCache,
    policy: Host<SegregationPolicy>,
    ways: u8,
    pub(crate) counts: SegregationCounts,
    /// Reads and misses so far, by privilege.
    reads: [u64; 2],
    misses: [u64; 2],
    sampler: Sampler,
    /// Reason why the policy's last rule is impossible, if it is.
    pub(crate) error: Option<&'static str>,
}

impl std::fmt::Debug for Ruled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ruled").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The second level of a core.
#[derive(Debug)]
pub(crate) enum SecondLevel {
    Plain(Cache),
    Ruled(Box<Ruled>),
}

/// Result of a look-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    /// Flags of the line before, if it was there.
    pub(crate) flags: Option<u64>,
    /// Whether it took the time of a bank.
    pub(crate) fast: bool,
}

impl SecondLevel {
    pub(crate) fn new(geometry: Geometry, how: Option<&Segregated<'_>>, core: usize) -> Self {
        let Some(how) = how else { return SecondLevel::Plain(Cache::new(geometry)) };
        SecondLevel::Ruled(Box::new(Ruled {
            cache: RuledCache::with_replacement(geometry, how.monitors, how.replacement),
            policy: Host::new((how.policy)(core)),
            // A machine file allows at most 64 ways (`Check::geometry`), so nothing is cut off.
            ways: geometry.ways as u8,
            counts: SegregationCounts::default(),
            reads: [0; 2],
            misses: [0; 2],
            // It has no deadline: no sample is due before `begin` has asked the policy for one.
            sampler: Sampler::new(0),
            error: None,
        }))
    }

    pub(crate) fn ruled(&self) -> Option<&Ruled> {
        match self {
            SecondLevel::Plain(_) => None,
            SecondLevel::Ruled(ruled) => Some(ruled),
        }
    }

    /// A first-level cache reads a line.
    #[inline]
    pub(crate) fn read(&mut self, reference: Reference) -> Looked {
        match self {
            SecondLevel::Plain(cache) => {
                Looked { flags: cache.touch(reference.line, 0), fast: false }
            }
            SecondLevel::Ruled(ruled) => ruled.read(reference),
        }
    }

    /// A first-level cache writes a line back, for an access of this privilege: true if it is here.
    #[inline]
    pub(crate) fn write_back(&mut self, home: Reference, kernel: bool) -> bool {
        match self {
            SecondLevel::Plain(cache) => cache.touch(home.line, flag::DIRTY).is_some(),
            SecondLevel::Ruled(ruled) => ruled.write_back(home, kernel),
        }
    }

    /// Puts a line in that is not there; returns what had to leave.
    #[inline]
    pub(crate) fn insert(&mut self, reference: Reference, flags: u64) -> Option<Victim> {
        match self {
            SecondLevel::Plain(cache) => {
                cache.insert(reference.line, flags | flag::owner(reference.kernel))
            }
            SecondLevel::Ruled(ruled) => ruled.insert(reference, flags),
        }
    }

    /// Changes flags of a line, see [`Cache::change`].
    #[inline]
    pub(crate) fn change(&mut self, line: u64, take: u64, give: u64) -> Option<u64> {
        match self {
            SecondLevel::Plain(cache) => cache.change(line, take, give),
            SecondLevel::Ruled(ruled) => ruled.cache.change(line, take, give),
        }
    }

    /// Returns all lines, see [`Cache::lines`].
    pub(crate) fn lines(&self) -> Box<dyn Iterator<Item = (usize, u64, u64)> + '_> {
        match self {
            SecondLevel::Plain(cache) => Box::new(cache.lines()),
            SecondLevel::Ruled(ruled) => Box::new(ruled.cache.lines()),
        }
    }

    pub(crate) fn sets(&self) -> usize {
        match self {
            SecondLevel::Plain(cache) => cache.sets(),
            SecondLevel::Ruled(ruled) => ruled.cache.sets(),
        }
    }

    /// Removes all lines.
    pub(crate) fn clear(&mut self) {
        match self {
            SecondLevel::Plain(cache) => cache.clear(),
            SecondLevel::Ruled(ruled) => ruled.cache.clear(),
        }
    }

    /// Another core takes the line away; its flags, if it was there.
    pub(crate) fn invalidate(&mut self, line: u64) -> Option<u64> {
        match self {
            SecondLevel::Plain(cache) => cache.invalidate(line),
            SecondLevel::Ruled(ruled) => ruled.cache.invalidate(line),
        }
    }
}

impl Ruled {
    fn side(&self, reference: Reference) -> usize {
        let side = self.counts.rule.route.side(reference.kernel, reference.code);
        usize::from(side == Side::Kernel)
    }

    #[cold]
    fn read(&mut self, reference: Reference) -> Looked {
        let (side, mode) = (self.side(reference), usize::from(reference.kernel));
        let found = self.cache.touch(reference, 0);
        self.count_look_up(&found, mode);
        self.counts.reads[side] += 1;
        // Samples count by privilege: what a side holds changes with the rule, and a policy
        // compares samples across rules.
        self.reads[mode] += 1;
        match found.predicted {
            Some(true) => self.counts.predicted[side] += 1,
            Some(false) => self.counts.mispredicted[side] += 1,
            None => {}
        }
        if found.flags.is_none() {
            self.counts.misses[side] += 1;
            self.misses[mode] += 1;
        }
        Looked { flags: found.flags, fast: found.fast }
    }

    #[cold]
    fn write_back(&mut self, home: Reference, kernel: bool) -> bool {
        let side = self.side(home);
        let found = self.cache.touch(home, flag::DIRTY);
        self.count_look_up(&found, usize::from(kernel));
        self.counts.write_backs[side] += 1;
        found.flags.is_some()
    }

    fn count_look_up(&mut self, found: &Found, mode: usize) {
        // Reading a bank takes less energy than a look-up of the whole cache, and is charged apart
        // (`accounting::core_energies`).
        if self.cache.is_segregated() {
            self.counts.banks[mode] += u64::from(found.banks);
        } else {
            self.counts.whole[mode] += 1;
        }
    }

    #[cold]
    fn insert(&mut self, reference: Reference, flags: u64) -> Option<Victim> {
        let side = self.side(reference);
        let victim = self.cache.insert(reference, flags);
        if victim.is_some_and(|victim| victim.kernel != reference.kernel) {
            self.counts.displaced[side] += 1;
        }
        victim
    }

    /// Sets the state as if the line had been used, and this victim of the first level written
    /// back, without time or counts.
    #[cold]
    pub(crate) fn warm(&mut self, victim: Option<Victim>, reference: Reference, flags: u64) {
        // The victim goes before the line comes, as in `Private::data_miss`: the order of recency
        // is that of a run.
        if let Some(victim) = victim {
            let home = Reference::write_back(victim.line, victim.kernel);
            self.cache.touch(home, flag::DIRTY);
        }
        if self.cache.touch(reference, flags).flags.is_none() {
            self.cache.insert(reference, flags);
        }
        // The first sample must hold what the run did, and nothing of the lines that were there
        // before it.
        self.cache.forget_utility();
    }

    /// The run begins at this cycle.
    pub(crate) fn begin(&mut self, at: Time, cycle: Cycle) {
        self.sampler = Sampler::new(cycle);
        self.tell(at, &Event::Begin { ways: self.ways });
    }

    /// A load or a fetch is about to read: the policy hears a sample, if it is time.
    #[cold]
    pub(crate) fn sample(&mut self, clock: Clock, now: Cycle, work: &WorkCounts) {
        let instructions = work.instructions;
        if !self.sampler.is_due(now, instructions.iter().sum()) {
            return;
        }
        let (reads, misses) = (self.reads, self.misses);
        let counters = Counters { cycle: now, instructions, reads, misses };
        let sample = self.sampler.sample(counters, self.cache.take_utility());
        self.counts.samples += 1;
        self.tell(clock.time_of(now), &Event::Sample(sample));
    }

    fn tell(&mut self, at: Time, event: &Event) {
        self.policy.notify(at, event);
        while let Some(action) = self.policy.next_action() {
            match action {
                Action::Set(rule) => self.set(rule),
                Action::SampleAfter(span) => self.sampler.after(span),
            }
        }
    }

    fn set(&mut self, rule: Rule) {
        match self.cache.possible(&rule) {
            Ok(()) => {
                self.cache.set(rule);
                self.counts.rule = rule;
                self.counts.rules += 1;
            }
            // The first reason is kept and ends the run (`Core::impossible_rule`).
            Err(why) => self.error = self.error.or(Some(why)),
        }
    }
}
