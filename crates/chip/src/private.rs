//! The private caches of a core: first-level instruction and data caches, and a second level behind
//! both. All write back and allocate on writes; none includes another.
//!
//! **Coherence** is MESI, kept where it is cheap: a line that others may hold carries the flag
//! SHARED (S); without it, it is E or M by its flag DIRTY, and a line that is not here is I. A read
//! that another core's caches answer comes back shared on both sides; a write to a shared line asks
//! for an upgrade, and the others drop theirs. No directory is needed: threads have memories of
//! their own, so a line can only be where its thread runs or ran; or all cores are asked, where
//! threads are CPUs of one machine. Without either nobody shares anything, and none of this costs
//! anything.

use halfwink_trace::WarmLine;
use halfwink_units::{Clock, Cycle, Time};

use crate::agent::Agent;
use crate::cache::{flag, Cache};
use crate::front_end::{By, WorkCounts};
use crate::losing::Losing;
use crate::machine::Machine;
use crate::miss::{Miss, MissFile, UNKNOWN};
use crate::prefetch::Prefetchers;
use crate::ruled::Reference;
use crate::segregated::{SecondLevel, Segregated};
use crate::translation::Translation;
use crate::uncore::{Request, SnoopResult, Want};

/// Counters of the private caches, by privilege of the access (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Lines fetched for instructions.
    pub l1i_accesses: [u64; 2],
    /// Number of misses among these.
    pub l1i_misses: [u64; 2],
    /// Lines accessed for loads and stores.
    pub l1d_accesses: [u64; 2],
    /// Number of misses among these.
    pub l1d_misses: [u64; 2],
    /// Reads, fills and write-backs of the second level.
    pub l2_accesses: [u64; 2],
    /// Reads that missed there.
    pub l2_misses: [u64; 2],
    /// Most misses outstanding at once.
    pub most_outstanding: u32,
}

/// Result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The first level hits.
    Hit,
    /// Data at this cycle, from the second level.
    At(Cycle),
    /// This miss register holds it until the shared levels answer.
    Outstanding(usize),
    /// No miss register is free; nothing happened.
    NoRegister,
}

/// An event that a token-hearing policy learns of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// An access left the first level for the second.
    MissedL1 { line: u64, at: Cycle },
    /// An access left the second level for the third.
    MissedL2 { line: u64, at: Cycle },
    /// The second level answers.
    L2Answer { line: u64, at: Cycle },
}

/// Use of a line before the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warm {
    pub(crate) code: bool,
    pub(crate) dirty: bool,
    pub(crate) kernel: bool,
    /// Another core holds it too.
    pub(crate) shared: bool,
}

impl From<WarmLine> for Warm {
    fn from(line: WarmLine) -> Warm {
        Warm { code: line.code, dirty: line.dirty, kernel: line.kernel, shared: false }
    }
}

/// The caches of one core.
#[derive(Debug)]
pub(crate) struct Private {
    pub(crate) core: usize,
    clock: Clock,
    pub(crate) l1i: Cache,
    pub(crate) l1d: Cache,
    pub(crate) l2: SecondLevel,
    pub(crate) instruction_misses: MissFile,
    pub(crate) data_misses: MissFile,
    l1i_latency: Cycle,
    l1d_latency: Cycle,
    l2_latency: Cycle,
    /// Latency of a bank, where the second level is divided.
    bank_latency: Cycle,
    pub(crate) counts: CacheCounts,
    /// Requests to the shared levels, with their arrival.
    pub(crate) requests: Vec<(Time, Request)>,
    /// The pipeline must return control: others have to hear of something.
    pub(crate) must_pause: bool,
    /// Other cores may hold the same lines.
    pub(crate) shares: bool,
    /// Threads of one program contend for lines: one that left the cache before its data came
    /// was taken by another core.
    pub(crate) contends: bool,
    /// Notices, collected only if a policy needs them.
    pub(crate) notices: Option<Vec<Notice>>,
    /// State of the caches that a halt may lose, if any.
    pub(crate) losing: Option<Box<Losing>>,
    /// Translation of addresses, if that takes time.
    pub(crate) translation: Option<Box<Translation>>,
    /// Prefetchers of the core, if it has any.
    pub(crate) prefetchers: Option<Box<Prefetchers>>,
    /// Prefetched lines that left the instruction cache, the data cache and the second level
    /// unused.
    pub(crate) useless: [u64; 3],
    /// The last answer was awaited by more than prefetchers.
    pub(crate) answer_was_wanted: bool,
}

impl Private {
    pub(crate) fn new(
        machine: &Machine,
        core: usize,
        hears_tokens: bool,
        segregated: Option<&Segregated<'_>>,
    ) -> Private {
        Private {
            core,
            clock: machine.clock,
            l1i: Cache::new(machine.l1i.geometry),
            l1d: Cache::new(machine.l1d.geometry),
            l2: SecondLevel::new(machine.l2.geometry, segregated, core),
            instruction_misses: MissFile::new(machine.l1i.mshrs),
            data_misses: MissFile::new(machine.l1d.mshrs),
            l1i_latency: machine.l1i.latency,
            l1d_latency: machine.l1d.latency,
            l2_latency: machine.l2.latency,
            bank_latency: machine.l2.bank_latency,
            counts: CacheCounts::default(),
            requests: Vec::new(),
            must_pause: false,
            shares: false,
            contends: false,
            notices: hears_tokens.then(Vec::new),
            losing: Losing::of(machine),
            translation: machine.tlb.map(|spec| Box::new(Translation::new(spec))),
            prefetchers: Prefetchers::of(&machine.prefetch),
            useless: [0; 3],
            answer_was_wanted: true,
        }
    }

    /// Returns whether the pipeline may run on, as no message has to be delivered first.
    #[inline]
    pub(crate) fn lets_run(&self) -> bool {
        self.requests.is_empty() && !self.must_pause
    }

    /// Shortest time from an access to its arrival at the shared levels.
    pub(crate) fn shortest_request(&self) -> Cycle {
        self.l1i_latency.min(self.l1d_latency) + self.least_l2_latency()
    }

    /// Cycles that the second level adds to an access at least.
    pub(crate) fn least_l2_latency(&self) -> Cycle {
        match self.l2 {
            SecondLevel::Plain(_) => self.l2_latency,
            SecondLevel::Ruled(_) => self.l2_latency.min(self.bank_latency),
        }
    }

    /// Cycles from a hit in the instruction cache to its line.
    pub(crate) fn l1i_latency(&self) -> Cycle {
        self.l1i_latency
    }

    /// Cycles from a hit in the data cache to its data.
    #[inline]
    pub(crate) fn l1d_latency(&self) -> Cycle {
        self.l1d_latency
    }

    /// The run begins at cycle `now`.
    pub(crate) fn begin(&mut self, now: Cycle) {
        if let SecondLevel::Ruled(ruled) = &mut self.l2 {
            ruled.begin(self.clock.time_of(now), now);
        }
    }

    /// Reads the line of an instruction at cycle `now`, when the core has done so much `work`.
    #[inline]
    pub(crate) fn fetch(&mut self, line: u64, by: By, now: Cycle, work: &WorkCounts) -> Access {
        let access = self.fetch_line(line, by, now, work);
        if self.prefetchers.is_some() && access != Access::NoRegister {
            // The core repeats an access without a register: prefetchers would learn from it twice.
            self.fetched(line, by, now);
        }
        access
    }

    #[inline]
    fn fetch_line(&mut self, line: u64, by: By, now: Cycle, work: &WorkCounts) -> Access {
        let mode = usize::from(by.kernel());
        match self.l1i.touch(line, 0) {
            Some(flags) => {
                self.counts.l1i_accesses[mode] += 1;
                if flags & (flag::PENDING | flag::PREFETCHED) == 0 {
                    return Access::Hit;
                }
                let found = self.instruction_misses.find(line, now);
                if flags & flag::PREFETCHED != 0 {
                    self.used_first(line, true, found);
                }
                match found {
                    Some(n) => outstanding(n, self.instruction_misses.get(n)),
                    None => {
                        // The register freed itself at its fill: only the flag was left of it.
                        self.l1i.arrived(line);
                        Access::Hit
                    }
                }
            }
            None => self.fetch_miss(line, by, now, work),
        }
    }

    #[cold]
    fn fetch_miss(&mut self, line: u64, by: By, now: Cycle, work: &WorkCounts) -> Access {
        let mode = usize::from(by.kernel());
        if let Some(n) = self.instruction_misses.find(line, now) {
            // It left the cache again before its data came.
            self.counts.l1i_accesses[mode] += 1;
            self.joins(true, n);
            let victim = self.l1i.insert(line, flag::PENDING);
            self.count_useless(0, victim);
            return outstanding(n, self.instruction_misses.get(n));
        }
        // No counter has changed yet: the core asks again until a register is free.
        if !self.instruction_misses.has_free(now) {
            return Access::NoRegister;
        }
        self.counts.l1i_accesses[mode] += 1;
        self.counts.l1i_misses[mode] += 1;
        let victim = self.l1i.insert(line, flag::PENDING);
        self.count_useless(0, victim);
        let reference = Reference::of(line, by, true);
        let fill = self.second_level(reference, Want::Read, now, Some(work));
        let n = self.instruction_misses.allocate(line, fill, now).expect("a register is free");
        self.count_outstanding(now);
        outstanding(n, self.instruction_misses.get(n))
    }

    /// Reads a line of data at cycle `now`, when the core has done so much `work`.
    #[inline]
    pub(crate) fn load(&mut self, line: u64, by: By, now: Cycle, work: &WorkCounts) -> Access {
        self.data(line, false, by, now, Some(work))
    }

    /// Writes a line of data at cycle `now`.
    #[inline]
    pub(crate) fn store(&mut self, line: u64, by: By, now: Cycle) -> Access {
        self.data(line, true, by, now, None)
    }

    #[inline]
    pub(crate) fn data(
        &mut self,
        line: u64,
        write: bool,
        by: By,
        now: Cycle,
        work: Option<&WorkCounts>,
    ) -> Access {
        let access = self.data_line(line, write, by, now, work);
        if self.prefetchers.is_some() && access != Access::NoRegister {
            self.accessed(line, by, now);
        }
        access
    }

    #[inline]
    fn data_line(
        &mut self,
        line: u64,
        write: bool,
        by: By,
        now: Cycle,
        work: Option<&WorkCounts>,
    ) -> Access {
        let mode = usize::from(by.kernel());
        if write && self.shares && self.cannot_upgrade(line, now) {
            return Access::NoRegister;
        }
        // A line that others may hold is no hit for a write.
        const NO_HIT: u64 = flag::PENDING | flag::PREFETCHED;
        let (dirty, no_hit) =
            if write { (flag::DIRTY, NO_HIT | flag::SHARED) } else { (0, NO_HIT) };
        match self.l1d.touch(line, dirty) {
            Some(flags) => {
                self.counts.l1d_accesses[mode] += 1;
                if flags & no_hit == 0 {
                    return Access::Hit;
                }
                let found = self.data_misses.find(line, now);
                if flags & flag::PREFETCHED != 0 {
                    self.used_first(line, false, found);
                }
                match found {
                    Some(n) => outstanding(n, self.data_misses.get(n)),
                    None if flags & no_hit & flag::SHARED != 0 => {
                        self.upgrade(line, by.kernel(), now)
                    }
                    None => {
                        self.l1d.arrived(line);
                        Access::Hit
                    }
                }
            }
            None => self.data_miss(line, dirty, by, now, work),
        }
    }

    /// True if a write would have to ask for the line, and has no register to wait in. Nothing may
    /// change then, not even the order of recency: who looks again and how often must not matter.
    fn cannot_upgrade(&mut self, line: u64, now: Cycle) -> bool {
        !self.data_misses.has_free(now)
            && self.l1d.change(line, 0, 0).is_some_and(|flags| flags & flag::SHARED != 0)
            && self.data_misses.find(line, now).is_none()
    }

    /// Asks for the right to write a line that is there; a register is free.
    #[cold]
    fn upgrade(&mut self, line: u64, kernel: bool, now: Cycle) -> Access {
        self.l1d.change(line, 0, flag::PENDING);
        self.request(line, Want::Upgrade, kernel, now, self.l1d_latency + self.l2_latency);
        let n = self.data_misses.allocate(line, UNKNOWN, now).expect("a register is free");
        self.count_outstanding(now);
        outstanding(n, self.data_misses.get(n))
    }

    #[cold]
    fn data_miss(
        &mut self,
        line: u64,
        dirty: u64,
        by: By,
        now: Cycle,
        work: Option<&WorkCounts>,
    ) -> Access {
        let mode = usize::from(by.kernel());
        if let Some(n) = self.data_misses.find(line, now) {
            self.counts.l1d_accesses[mode] += 1;
            self.joins(false, n);
            if !self.contends {
                self.allocate_l1d(line, dirty, by.kernel(), now);
            }
            return outstanding(n, self.data_misses.get(n));
        }
        if !self.data_misses.has_free(now) {
            return Access::NoRegister;
        }
        self.counts.l1d_accesses[mode] += 1;
        self.counts.l1d_misses[mode] += 1;
        self.allocate_l1d(line, dirty, by.kernel(), now);
        let want = if dirty == 0 { Want::Read } else { Want::Write };
        let fill = self.second_level(Reference::of(line, by, false), want, now, work);
        let n = self.data_misses.allocate(line, fill, now).expect("a register is free");
        self.count_outstanding(now);
        outstanding(n, self.data_misses.get(n))
    }

    #[inline]
    pub(crate) fn count_outstanding(&mut self, now: Cycle) {
        let now_outstanding = self.instruction_misses.in_use(now) + self.data_misses.in_use(now);
        self.counts.most_outstanding = self.counts.most_outstanding.max(now_outstanding);
    }

    pub(crate) fn allocate_l1d(&mut self, line: u64, dirty: u64, kernel: bool, now: Cycle) {
        let owner = flag::owner(kernel);
        let victim = self.l1d.insert(line, flag::PENDING | dirty | owner);
        self.count_useless(1, victim);
        if let Some(victim) = victim.filter(|v| v.dirty) {
            self.counts.l2_accesses[usize::from(kernel)] += 1;
            // It belongs to who brought it; the access that evicts it is who pays.
            let home = Reference::write_back(victim.line, victim.kernel);
            if !self.l2.write_back(home, kernel) {
                self.allocate_l2(home, flag::DIRTY, kernel, now);
            }
        }
    }

    pub(crate) fn allocate_l2(
        &mut self,
        reference: Reference,
        flags: u64,
        kernel: bool,
        now: Cycle,
    ) {
        let victim = self.l2.insert(reference, flags);
        self.count_useless(2, victim);
        if let Some(victim) = victim.filter(|v| v.dirty) {
            let after = self.l1d_latency + self.l2_latency;
            self.request(victim.line, Want::WriteBack, kernel, now, after);
        }
    }

    /// A miss of the first level at cycle `now`: the cycle at which its data is there, or
    /// [`UNKNOWN`]. `work` is what the core has done, where that does not depend on how far its
    /// pipeline has run.
    pub(crate) fn second_level(
        &mut self,
        reference: Reference,
        want: Want,
        now: Cycle,
        work: Option<&WorkCounts>,
    ) -> Cycle {
        let fill = self.read_second_level(reference, want, now, work);
        if self.prefetchers.is_some() {
            self.read_by_core(reference, now);
        }
        fill
    }

    fn read_second_level(
        &mut self,
        reference: Reference,
        want: Want,
        now: Cycle,
        work: Option<&WorkCounts>,
    ) -> Cycle {
        let Reference { line, kernel, code, .. } = reference;
        let mode = usize::from(kernel);
        let l1_latency = if code { self.l1i_latency } else { self.l1d_latency };
        self.counts.l2_accesses[mode] += 1;
        self.notice(Notice::MissedL1 { line, at: now });
        if let (SecondLevel::Ruled(ruled), Some(work)) = (&mut self.l2, work) {
            ruled.sample(self.clock, now, work);
        }
        let found = self.l2.read(reference);
        let latency = if found.fast { self.bank_latency } else { self.l2_latency };
        let after = l1_latency + latency;
        let answered = now + after;
        if let Some(flags) = found.flags.filter(|flags| flags & flag::PREFETCHED != 0) {
            self.used_second(line, flags);
        }
        match found.flags {
            Some(flags) if flags & (flag::PENDING | flag::SHARED) == 0 => {
                self.notice(Notice::L2Answer { line, at: answered });
                answered
            }
            Some(flags) if flags & flag::PENDING == 0 => {
                // Otherwise a later store would hit the copy in the first level without an upgrade.
                self.l1d.change(line, 0, flag::SHARED);
                if want == Want::Write {
                    self.notice(Notice::MissedL2 { line, at: now });
                    self.request(line, Want::Upgrade, kernel, now, after);
                    return UNKNOWN;
                }
                self.notice(Notice::L2Answer { line, at: answered });
                answered
            }
            Some(_) => {
                // The other first-level cache has asked for it: both get the one answer.
                self.notice(Notice::MissedL2 { line, at: now });
                UNKNOWN
            }
            None => {
                self.counts.l2_misses[mode] += 1;
                if let Some(losing) = &mut self.losing {
                    losing.missed(line, kernel);
                }
                self.notice(Notice::MissedL2 { line, at: now });
                self.allocate_l2(reference, flag::PENDING, kernel, now);
                self.request(line, want, kernel, now, after);
                UNKNOWN
            }
        }
    }

    /// Reads a line of the second level, bypassing the data cache: returns its flags, if it is
    /// present, and the cycles that it takes.
    pub(crate) fn read_second(&mut self, reference: Reference) -> (Option<u64>, Cycle) {
        let found = self.l2.read(reference);
        if let Some(flags) = found.flags.filter(|flags| flags & flag::PREFETCHED != 0) {
            self.used_second(reference.line, flags);
        }
        let latency = if found.fast { self.bank_latency } else { self.l2_latency };
        (found.flags, self.l1d_latency + latency)
    }

    /// A request of cycle `now` arrives at the shared levels so many cycles later.
    pub(crate) fn request(
        &mut self,
        line: u64,
        want: Want,
        kernel: bool,
        now: Cycle,
        after: Cycle,
    ) {
        debug_assert!(after >= self.shortest_request(), "others may be simulated up to here");
        let issued = self.clock.time_of(now);
        // Its core numbers it.
        let request =
            Request { agent: Agent::core(self.core), number: 0, line, want, kernel, issued };
        self.requests.push((self.clock.time_of(now + after), request));
    }

    #[inline]
    pub(crate) fn notice(&mut self, notice: Notice) {
        if let Some(notices) = &mut self.notices {
            notices.push(notice);
        }
    }

    /// The shared levels answered at cycle `at`: the data misses and instruction misses of this
    /// line. If it is `shared`, it must not be written yet.
    pub(crate) fn answer(
        &mut self,
        line: u64,
        shared: bool,
        at: Cycle,
    ) -> (Option<Miss>, Option<Miss>) {
        let give = if shared { flag::SHARED } else { 0 };
        self.l2.change(line, flag::PENDING | flag::SHARED, give);
        let walks = self.answer_walks(line);
        let data = self.data_misses.answer(line);
        let instruction = self.instruction_misses.answer(line);
        if self.prefetchers.is_some() {
            self.prefetch_arrived(line);
            let wanted = |miss: &Option<Miss>| miss.is_some_and(|miss| !miss.is_prefetch);
            self.answer_was_wanted = walks || wanted(&data) || wanted(&instruction);
        }
        if data.is_some() {
            let before = self.l1d.change(line, flag::PENDING | flag::SHARED, give);
            if let Some(flags) = before.filter(|flags| shared && flags & flag::DIRTY != 0) {
                // A store joined a miss that only asked to read: it has written, the others must
                // hear of it. The line has its reader's privilege, which passes for the store's.
                self.l1d.change(line, flag::SHARED, 0);
                self.l2.change(line, flag::SHARED, 0);
                let after = self.l1d_latency + self.l2_latency;
                self.request(line, Want::Invalidate, flags & flag::KERNEL != 0, at, after);
            }
        }
        if instruction.is_some() {
            self.l1i.arrived(line);
        }
        (data, instruction)
    }

    /// Another core asks for a line: what is here of it, of which a clean copy stays if it only
    /// wants to `read`.
    pub(crate) fn snoop(&mut self, line: u64, read: bool) -> SnoopResult {
        let first = [&mut self.l1i, &mut self.l1d].map(|cache| {
            if read {
                cache.change(line, flag::DIRTY, flag::SHARED)
            } else {
                cache.invalidate(line)
            }
        });
        let second = if read {
            self.l2.change(line, flag::DIRTY, flag::SHARED)
        } else {
            self.l2.invalidate(line)
        };
        // No level includes another: all were asked, and any of them may hold the dirty copy.
        match first.into_iter().chain([second]).flatten().reduce(|a, b| a | b) {
            None => SnoopResult::Miss,
            Some(flags) if flags & flag::DIRTY != 0 => SnoopResult::Dirty,
            Some(_) => SnoopResult::Clean,
        }
    }

    /// Returns the time at which a cycle begins.
    pub(crate) fn time_of(&self, cycle: Cycle) -> Time {
        self.clock.time_of(cycle)
    }

    /// True if no miss is outstanding at `now`.
    pub(crate) fn is_quiet(&mut self, now: Cycle) -> bool {
        self.data_misses.is_empty(now)
            && self.instruction_misses.is_empty(now)
            && self.is_translated(now)
            && self.is_prefetched()
    }
}

#[inline]
fn outstanding(n: usize, miss: &Miss) -> Access {
    if miss.fill == UNKNOWN {
        Access::Outstanding(n)
    } else {
        Access::At(miss.fill)
    }
}
