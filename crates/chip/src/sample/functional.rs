//! Caches, translations and branch predictor without time: what they would hold after so many
//! instructions.
//!
//! Rules of replacement and of write-backs are those of the chip's own caches, on which this
//! stands. What differs is the order: here every access happens where the program has it. In the
//! chip, stores write behind the loads that follow them, loads that find a store's bytes in its
//! queue never ask the cache, and an out-of-order core reorders loads.

use std::sync::Arc;

use halfwink_trace::{Address, Branch, Event, TemplateId, WarmSet};

use crate::branch::{BranchCounts, Predictor};
use crate::cache::{flag, Cache};
use crate::chip::ChipError;
use crate::core::Core;
use crate::lines::Span;
use crate::machine::{Machine, TlbSpec};
use crate::private::{CacheCounts, Private};
use crate::segregated::SecondLevel;
use crate::translation::{Buffers, Page, Space, TlbCounts};
use crate::uncore::{L3Counts, Uncore};
use crate::uop::{Code, Op, Playable};

/// Contents of all caches of a core and of the third level, each set in the order of recency with
/// what is dirty and the kernel's, and what the branch predictor has learnt.
#[derive(Clone, Debug)]
pub struct WarmState {
    l1i: Cache,
    l1d: Cache,
    l2: Cache,
    l3: Option<Cache>,
    predictor: Predictor,
    /// Translations, if they take time, and the page tables that are used.
    buffers: Option<Buffers>,
    space: Space,
}

impl WarmState {
    /// Creates the state in which a run of `machine` begins with these lines in its caches.
    fn new(machine: &Machine, warm: &WarmSet) -> WarmState {
        let mut private = Private::new(machine, 0, false, None);
        let mut uncore = Uncore::new(machine);
        for &entry in &warm.lines {
            private.warm(entry.line.0, entry.into());
            uncore.warm(entry.line.0, entry.dirty, entry.kernel);
        }
        let predictor = Predictor::new(machine.branch);
        let SecondLevel::Plain(l2) = private.l2 else { unreachable!("nobody rules it") };
        let buffers = machine.tlb.as_ref().map(Buffers::new);
        let (l1i, l1d, l3, space) = (private.l1i, private.l1d, uncore.l3, Space::of(0));
        WarmState { l1i, l1d, l2, l3, predictor, buffers, space }
    }

    /// Puts all of it into the first core of a chip that has not begun.
    ///
    /// # Errors
    /// If the chip's caches have another shape.
    pub(crate) fn put_into(&self, core: &mut Core, uncore: &mut Uncore) -> Result<(), ChipError> {
        let common = core.common_mut();
        let private = &mut common.private;
        // A second level that is ruled begins empty, and has no such shape.
        let SecondLevel::Plain(l2) = &mut private.l2 else { return Err(ChipError::OtherCaches) };
        let shaped_alike = private.l1i.is_shaped_like(&self.l1i)
            && private.l1d.is_shaped_like(&self.l1d)
            && l2.is_shaped_like(&self.l2)
            && match (&uncore.l3, &self.l3) {
                (Some(theirs), Some(ours)) => theirs.is_shaped_like(ours),
                (theirs, ours) => theirs.is_none() && ours.is_none(),
            }
            && match (&private.translation, &self.buffers) {
                (Some(theirs), Some(ours)) => theirs.buffers.is_shaped_like(ours),
                (theirs, ours) => theirs.is_none() && ours.is_none(),
            };
        if !shaped_alike {
            return Err(ChipError::OtherCaches);
        }
        private.l1i.clone_from(&self.l1i);
        private.l1d.clone_from(&self.l1d);
        l2.clone_from(&self.l2);
        uncore.l3.clone_from(&self.l3);
        if let (Some(theirs), Some(ours)) = (&mut private.translation, &self.buffers) {
            theirs.buffers.clone_from(ours);
        }
        common.front_end.space = self.space;
        common.predictor.clone_from(&self.predictor);
        // The pass has counted its branches already; the run counts its own from 0.
        common.predictor.counts = BranchCounts::default();
        Ok(())
    }
}

/// Counters of the pass, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionalCounts {
    /// Number of instructions.
    pub instructions: [u64; 2],
    /// Accesses and misses of the private caches; nothing is outstanding here.
    pub caches: CacheCounts,
    /// Counters of translation, if it takes time.
    pub tlb: TlbCounts,
    /// Counters of the third level.
    pub l3: L3Counts,
    /// Counters of branches.
    pub branches: BranchCounts,
}

/// One thing that an execution of a template touches, or the branch that ends it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A line of instructions.
    Fetch(u64),
    Load {
        access: u16,
        size: u8,
    },
    Store {
        access: u16,
        size: u8,
    },
}

/// A template, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    first: u32,
    end: u32,
    /// The branch that it ends in, and its address.
    branch: Option<(Branch, u64)>,
}

/// Plays a program without time.
#[derive(Debug)]
pub(crate) struct Functional {
    pub(crate) state: WarmState,
    pub(super) counts: FunctionalCounts,
    code: Arc<Code>,
    footprints: Vec<Footprint>,
    steps: Vec<Step>,
    /// Virtual address of what each step fetches.
    fetches: Vec<u64>,
    /// Parameters of translation, if it takes time.
    tlb: Option<TlbSpec>,
    /// The repeated string instruction that the last run ended in.
    fold: Option<u64>,
    fetched: u64,
    /// The last run, if it ended in a branch whose target is not known yet.
    open: Option<TemplateId>,
}

impl Functional {
    pub(crate) fn new(machine: &Machine, code: Arc<Code>, warm: &WarmSet) -> Functional {
        let (mut steps, mut fetches) = (Vec::new(), Vec::new());
        let of = |run| footprint(&code, run, &mut steps, &mut fetches);
        let footprints = code.playable.iter().map(of).collect();
        Functional {
            footprints,
            fetches,
            tlb: machine.tlb,
            state: WarmState::new(machine, warm),
            counts: FunctionalCounts::default(),
            code,
            steps,
            fold: None,
            fetched: u64::MAX,
            open: None,
        }
    }

    /// True if this run goes on with a repeated string instruction.
    #[inline]
    pub(super) fn is_repeat(&self, id: TemplateId) -> bool {
        let run = &self.code.playable[id.0 as usize];
        run.starts_repeat && self.fold == Some(run.pc)
    }

    /// Handles an event: the target of the last branch is not in the trace then.
    pub(crate) fn event(&mut self, event: Event) {
        self.open = None;
        let Event::AddressSpace(asid) = event else { return };
        let space = self.state.space.switched(asid);
        let is_other = std::mem::replace(&mut self.state.space, space) != space;
        if let (true, Some(spec), Some(buffers)) = (is_other, &self.tlb, &mut self.state.buffers) {
            if !spec.pcid {
                buffers.flush();
            }
        }
    }

    /// Resolves the last branch by the run that follows it.
    #[inline]
    pub(crate) fn resolve(&mut self, id: TemplateId) {
        let Some(open) = self.open.take() else { return };
        let Some((branch, pc)) = self.footprints[open.0 as usize].branch else { return };
        let run = &self.code.playable[open.0 as usize];
        let target = self.code.playable[id.0 as usize].pc;
        self.state.predictor.guess(branch, pc, run.fall_through, target, run.kernel);
    }

    /// A run of this template; how many instructions it retires.
    #[inline]
    pub(crate) fn run(&mut self, id: TemplateId, addresses: &[Address]) -> u64 {
        let repeat = self.is_repeat(id);
        let run = &self.code.playable[id.0 as usize];
        // Each iteration of a repeated string instruction is a run, but the instruction retires
        // once: a run that goes on with one does not count it again, as in `FrontEnd::count`.
        self.fold = (run.ends_repeat != u64::MAX).then_some(run.ends_repeat);
        let instructions = u64::from(run.instrs) - u64::from(repeat);
        let kernel = run.kernel;
        self.counts.instructions[usize::from(kernel)] += instructions;
        let footprint = self.footprints[id.0 as usize];
        for n in footprint.first..footprint.end {
            match self.steps[n as usize] {
                Step::Fetch(line) => {
                    // A line is read once while execution stays in it, whatever the number of runs
                    // there.
                    if self.fetched != line {
                        self.fetched = line;
                        if self.tlb.is_some() {
                            let span = Span { first: line, last: line };
                            self.translate(self.fetches[n as usize], span, true, kernel);
                        }
                        self.fetch(line, kernel);
                    }
                }
                Step::Load { access, size } => {
                    self.data(addresses[usize::from(access)], size, 0, kernel);
                }
                Step::Store { access, size } => {
                    self.data(addresses[usize::from(access)], size, flag::DIRTY, kernel);
                }
            }
        }
        self.open = footprint.branch.is_some().then_some(id);
        instructions
    }

    /// All counts so far.
    pub(super) fn counts(&self) -> FunctionalCounts {
        FunctionalCounts { branches: self.state.predictor.counts, ..self.counts }
    }

    #[inline]
    fn fetch(&mut self, line: u64, kernel: bool) {
        self.counts.caches.l1i_accesses[usize::from(kernel)] += 1;
        if self.state.l1i.touch(line, 0).is_none() {
            self.counts.caches.l1i_misses[usize::from(kernel)] += 1;
            self.state.l1i.insert(line, 0);
            self.second_level(line, kernel);
        }
    }

    #[inline]
    fn data(&mut self, address: Address, size: u8, dirty: u64, kernel: bool) {
        let span = Span::new(address.phys.0, size);
        if self.tlb.is_some() {
            self.translate(address.virt.0, span, false, kernel);
        }
        for line in span.lines() {
            self.counts.caches.l1d_accesses[usize::from(kernel)] += 1;
            if self.state.l1d.touch(line, dirty).is_none() {
                self.data_miss(line, dirty, kernel);
            }
        }
    }

    /// The pages of an access to this virtual address and these physical lines.
    fn translate(&mut self, virt: u64, span: Span, code: bool, kernel: bool) {
        let (Some(spec), space) = (self.tlb, self.state.space) else { return };
        let page = Page::of(space, virt, span.first, spec.sizes());
        // An access has at most 255 bytes, so it touches two pages at most.
        let last = page.last(span.first, span.last);
        self.translate_page(page, code, kernel);
        if last != page {
            self.translate_page(last, code, kernel);
        }
    }

    fn translate_page(&mut self, page: Page, code: bool, kernel: bool) {
        let Some(buffers) = &mut self.state.buffers else { return };
        let (mode, counts) = (usize::from(kernel), &mut self.counts.tlb);
        let (accesses, misses) = match code {
            true => (&mut counts.instruction_accesses, &mut counts.instruction_misses),
            false => (&mut counts.data_accesses, &mut counts.data_misses),
        };
        accesses[mode] += 1;
        if buffers.use_first(page, code) {
            return;
        }
        misses[mode] += 1;
        if buffers.use_second(page) {
            return;
        }
        counts.walks[mode] += 1;
        let begin = buffers.first_read(page);
        for level in (page.leaf()..=begin).rev() {
            self.counts.tlb.walk_reads[mode] += 1;
            self.second_level(page.entry_line(level), kernel);
            if let Some(buffers) = &mut self.state.buffers {
                buffers.has_read(page, level);
            }
        }
    }

    fn data_miss(&mut self, line: u64, dirty: u64, kernel: bool) {
        self.counts.caches.l1d_misses[usize::from(kernel)] += 1;
        // The victim is written back before the second level is read for the line, as in
        // `Private::data_miss`: the order decides what that level evicts.
        let victim = self.state.l1d.insert(line, dirty | flag::owner(kernel));
        if let Some(victim) = victim.filter(|v| v.dirty) {
            self.counts.caches.l2_accesses[usize::from(kernel)] += 1;
            if self.state.l2.touch(victim.line, flag::DIRTY).is_none() {
                // It belongs to the privilege that brought it; the access that evicts it pays.
                let flags = flag::DIRTY | flag::owner(victim.kernel);
                self.allocate_l2(victim.line, flags, kernel);
            }
        }
        self.second_level(line, kernel);
    }

    fn second_level(&mut self, line: u64, kernel: bool) {
        self.counts.caches.l2_accesses[usize::from(kernel)] += 1;
        if self.state.l2.touch(line, 0).is_none() {
            self.counts.caches.l2_misses[usize::from(kernel)] += 1;
            self.allocate_l2(line, flag::owner(kernel), kernel);
            self.third_level(line, 0, kernel);
        }
    }

    fn allocate_l2(&mut self, line: u64, flags: u64, kernel: bool) {
        if let Some(victim) = self.state.l2.insert(line, flags).filter(|v| v.dirty) {
            self.third_level(victim.line, flag::DIRTY, kernel);
        }
    }

    /// Reads a line there, or gives a dirty one back.
    fn third_level(&mut self, line: u64, dirty: u64, kernel: bool) {
        let (mode, counts) = (usize::from(kernel), &mut self.counts.l3);
        counts.accesses[mode] += 1;
        // A write-back brings its data along: it is an access, and no miss.
        let reads = u64::from(dirty == 0);
        let Some(l3) = &mut self.state.l3 else {
            counts.misses[mode] += reads;
            counts.write_backs += 1 - reads;
            return;
        };
        let flags = flag::owner(kernel) | dirty;
        if l3.touch(line, flags).is_some() {
            return;
        }
        counts.misses[mode] += reads;
        match l3.insert(line, flags) {
            None => counts.cold_fills[mode] += reads,
            Some(victim) => counts.write_backs += u64::from(victim.dirty),
        }
    }
}

/// Appends what a template touches, in the order in which its micro-operations do.
fn footprint(
    code: &Code,
    run: &Playable,
    steps: &mut Vec<Step>,
    fetches: &mut Vec<u64>,
) -> Footprint {
    let first = steps.len() as u32;
    let (mut line, mut branch) = (None, None);
    for uop in &code.uops[run.first_uop as usize..][..run.uops as usize] {
        if uop.new_line {
            let next = run.line_at(uop.offset);
            if line.replace(next) != Some(next) {
                // The address of a step has the step's index, so that `Step` stays small; steps
                // that fetch nothing leave a gap.
                fetches.resize(steps.len(), 0);
                fetches.push(run.pc.wrapping_add(u64::from(uop.offset)));
                steps.push(Step::Fetch(next));
            }
        }
        match uop.op {
            Op::Load => steps.push(Step::Load { access: uop.access, size: uop.size }),
            Op::Store => steps.push(Step::Store { access: uop.access, size: uop.size }),
            _ => {}
        }
        if uop.branch != Branch::None {
            branch = Some((uop.branch, run.pc.wrapping_add(u64::from(uop.offset))));
        }
    }
    Footprint { first, end: steps.len() as u32, branch }
}

#[cfg(test)]
mod tests {
    use halfwink_engine::Input;
    use halfwink_units::{PhysAddr, VirtAddr};

    use super::*;

    fn functional() -> Functional {
        let text = include_str!("../../../../machines/ev6.toml");
        let machine = Machine::parse(&Input::new("ev6", text.to_owned())).unwrap();
        Functional::new(&machine, Arc::default(), &WarmSet::default())
    }

    fn store(pass: &mut Functional, line: u64, kernel: bool) {
        let address = Address { virt: VirtAddr(line * 64), phys: PhysAddr(line * 64) };
        pass.data(address, 8, flag::DIRTY, kernel);
    }

    fn owner(lines: impl Iterator<Item = (usize, u64, u64)>, wanted: u64) -> Option<u64> {
        let mut found = lines.filter(|(_, line, _)| *line == wanted);
        found.next().map(|(.., flags)| flags & flag::KERNEL)
    }

    /// `Private::allocate_l1d` notes the owner in a run.
    #[test]
    fn dirty_line_of_the_kernel_stays_its_own_when_the_user_displaces_it() {
        let mut pass = functional();
        let sets = pass.state.l1d.sets() as u64;
        store(&mut pass, 7, true);
        assert_eq!(owner(pass.state.l1d.lines(), 7), Some(flag::KERNEL));
        // The second level loses the line first, so that the write-back has to allocate it there.
        pass.state.l2.invalidate(7);
        (1..=8).for_each(|n| store(&mut pass, 7 + n * sets, false));
        assert_eq!(owner(pass.state.l1d.lines(), 7), None, "it was displaced");
        assert_eq!(owner(pass.state.l2.lines(), 7), Some(flag::KERNEL));
    }
}
