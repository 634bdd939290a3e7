//! The front end of one thread: its trace as a stream of micro-operations, with one item of
//! lookahead. It knows instructions and their privilege, and nothing of cores, operating systems or
//! policies: where a change of privilege matters to somebody, it stops there and says so.

mod fetch;
mod fetched;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;

use halfwink_trace::{Address, Event, Item, Program, Script, Source, TraceError};
use halfwink_units::{Cycle, LINE_SHIFT};

use self::fetched::Fetched;
pub(crate) use crate::by::{By, Coming};
use crate::cpi_stack::UnitCounts;
use crate::lines::memory_base;
use crate::machine::StringSpec;
use crate::shared_lines::SharedLines;
use crate::strings::Strings;
use crate::threads::Turns;
use crate::translation::{Page, Sizes, Space};
use crate::uop::{fold, Code, Playable, Uop};

/// Blocks of the longest interrupt that goes its own way. To know whether an interrupt simply
/// returns, it is read to its end and held with all its addresses: a trace that never returns must
/// not be held whole. A longer one stays with its thread.
const LONGEST_INTERRUPT: usize = 1 << 16;

/// True for what may happen within an interrupt that its thread does not depend on.
fn is_of_interrupts(event: Event) -> bool {
    matches!(event, Event::Interrupt { .. } | Event::Exception { .. })
}

/// Next item of a front end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head {
    /// The micro-operation that [`FrontEnd::uop`] shows.
    Uop,
    /// An event between instructions.
    Event(Event),
    /// A change to kernel mode, or back out of it, that [`FrontEnd::pass_crossing`] was not asked
    /// about.
    Crossing,
    /// Dispatch stands for so many cycles, until [`FrontEnd::pass_start`] is called.
    Starts(Cycle),
    /// The end of the thread.
    End,
}

/// A change of privilege.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crossing {
    /// The thread begins in the kernel, for an unknown cause.
    Begins,
    /// The thread enters the kernel, with the first event since it ran user code.
    Enters(Option<Event>),
    /// The thread returns to user mode, or begins in it.
    Returns,
}

/// Instructions retired, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Instructions; iterations of a repeated string instruction are one.
    pub instructions: [u64; 2],
    /// Number of micro-operations.
    pub uops: [u64; 2],
}

/// Vectors of addresses that are kept for use again.
const MOST_SPARE: usize = 64;

/// Plays a source, one micro-operation after another, with one item of lookahead.
pub(crate) struct FrontEnd {
    source: Box<dyn Source>,
    code: Arc<Code>,
    /// The thread that it plays.
    thread: usize,
    /// First line of the memory in which that runs.
    memory: u64,
    /// Lines that it has in common with copies of itself, and the first line of their memory.
    shared: Option<(u64, Arc<SharedLines>)>,
    /// The page tables that it runs with.
    pub(crate) space: Space,
    run: Option<Playable>,
    uop: usize,
    /// The micro-operation up to which they are visible: the run's end, or a wait for a thread.
    end: usize,
    addresses: Vec<Address>,
    /// Position of fetch, if it is ahead.
    fetched: Fetched,
    next: Item,
    fold: Option<u64>,
    strings: Strings,
    /// The run in front needs no line of code.
    pub(crate) goes_on: bool,
    pub(crate) work: WorkCounts,
    pub(crate) units: UnitCounts,
    /// A source that failed ends; this says why.
    pub(crate) error: Option<TraceError>,
    /// Instructions left to play, if the run is limited.
    left: u64,
    /// Items that were read ahead of `next`, with their addresses.
    ahead: VecDeque<(Item, Vec<Address>)>,
    /// Addresses of `next`, if it was read ahead.
    held: Option<Vec<Address>>,
    /// Memory for the addresses of what is read ahead.
    spare: Vec<Vec<Address>>,
    /// Whether changes of privilege are reported.
    shows_crossings: bool,
    /// Privilege up to the last crossing, once there was one.
    privilege: Option<bool>,
    /// First event since user code that can have led to the kernel.
    cause: Option<Event>,
    /// Instructions that the thread played in the kernel, on whichever core.
    pub(crate) kernel_instructions: u64,
    /// Waits for other threads of its program, if it plays one of several.
    turns: Option<Box<Turns>>,
}

impl FrontEnd {
    /// Starts on `source`, compiled as `code`, as this thread, in a memory of its own.
    pub(crate) fn new(
        source: Box<dyn Source>,
        code: Arc<Code>,
        thread: usize,
        limit: u64,
    ) -> FrontEnd {
        let mut front_end = FrontEnd {
            source,
            code,
            thread,
            memory: memory_base(thread),
            shared: None,
            space: Space::of(memory_base(thread)),
            run: None,
            uop: 0,
            end: 0,
            addresses: Vec::new(),
            fetched: Fetched::default(),
            next: Item::End,
            fold: None,
            strings: Strings::default(),
            goes_on: false,
            work: WorkCounts::default(),
            units: UnitCounts::default(),
            error: None,
            left: limit,
            ahead: VecDeque::new(),
            held: None,
            spare: Vec::new(),
            shows_crossings: false,
            privilege: None,
            cause: None,
            kernel_instructions: 0,
            turns: None,
        };
        front_end.look_ahead();
        front_end
    }

    /// Stops at changes of privilege from now on.
    pub(crate) fn showing_crossings(mut self) -> FrontEnd {
        self.shows_crossings = true;
        self
    }

    /// Moves memory by string instructions like this from now on.
    pub(crate) fn with_strings(mut self, spec: Option<StringSpec>) -> FrontEnd {
        self.strings = Strings::on(spec);
        self
    }

    /// Runs in the memory of this thread from now on.
    pub(crate) fn in_memory_of(mut self, thread: usize) -> FrontEnd {
        self.memory = memory_base(thread);
        self.space = self.space.in_memory(self.memory);
        self
    }

    /// Has these lines in common with copies of itself, in the memory of the first of them.
    pub(crate) fn sharing(mut self, first: usize, lines: Arc<SharedLines>) -> FrontEnd {
        self.shared = Some((memory_base(first), lines));
        self
    }

    /// A line of its program, as the shared levels see it.
    #[inline]
    fn placed(&self, line: u64) -> u64 {
        match &self.shared {
            Some((memory, lines)) if lines.has(line) => line | memory,
            _ => line | self.memory,
        }
    }

    /// Creates the front end of an idle core.
    pub(crate) fn empty() -> FrontEnd {
        let program = Arc::<Program>::default();
        let code = Arc::new(Code::compile(&program));
        FrontEnd::new(Box::new(Script::new(program)), code, 0, 0)
    }

    /// Takes the counts that another front end has gathered: they are its core's, not its thread's.
    pub(crate) fn take_counts(&mut self, other: &mut FrontEnd) {
        self.work = std::mem::take(&mut other.work);
        self.units = std::mem::take(&mut other.units);
    }

    /// The thread that it plays.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }

    fn read(&mut self) -> Item {
        match self.source.next_item() {
            Ok(item) => item,
            Err(error) => {
                self.error.get_or_insert(error);
                Item::End
            }
        }
    }

    fn look_ahead(&mut self) {
        if let Some(old) = self.held.take().filter(|_| self.spare.len() < MOST_SPARE) {
            self.spare.push(old);
        }
        self.next = match self.ahead.pop_front() {
            Some((item, addresses)) => {
                self.held = Some(addresses);
                item
            }
            None => self.read(),
        };
        if let Item::Run(template) = self.next {
            // A program's micro-operations are many and its blocks far apart: asking for the next
            // block's now hides the host's own cache miss.
            let run = &self.code.playable[template.0 as usize];
            std::hint::black_box(self.code.uops.get(run.first_uop as usize).map(|u| u.op));
        }
    }

    /// Returns the next item; micro-operations of the next run become visible.
    #[inline]
    pub(crate) fn head(&mut self) -> Head {
        if self.uop < self.end {
            return Head::Uop;
        }
        self.next_run()
    }

    fn next_run(&mut self) -> Head {
        if self.turns.is_some() && self.comes_to_a_wait() {
            return if self.uop < self.end { Head::Uop } else { Head::Crossing };
        }
        loop {
            match self.next {
                // Asked between blocks only: a limit is passed by less than a block.
                Item::Run(_) if self.left == 0 => return Head::End,
                Item::Run(_) if self.strings.owed > 0 => return Head::Starts(self.strings.owed),
                Item::Run(template) => {
                    let run = self.code.playable[template.0 as usize];
                    if self.shows_crossings && self.privilege != Some(run.kernel) {
                        return Head::Crossing;
                    }
                    // A copy: looking ahead makes the source forget them, and the pipeline comes
                    // back for them until the run's last access.
                    self.addresses.clear();
                    let addresses = self.held.as_deref();
                    let addresses = addresses.unwrap_or_else(|| self.source.addresses());
                    self.addresses.extend_from_slice(addresses);
                    self.look_ahead();
                    let first = run.first_uop as usize;
                    let end = first + run.uops as usize;
                    let repeats = run.starts_repeat && self.fold == Some(run.pc);
                    self.goes_on = self.strings.goes_on(&run, repeats);
                    let lines = if self.goes_on { run.lines() } else { 0 };
                    self.fetched.next_run(template, run.instrs, lines);
                    let uops = &self.code.uops[first..end];
                    let joins = self.strings.joins(&run, repeats, uops, &self.addresses);
                    self.count(&run, repeats, joins);
                    if joins {
                        continue;
                    }
                    (self.uop, self.end) = (first, end);
                    self.run = Some(run);
                    if self.turns.is_some() && self.run_waits(template) {
                        return Head::Crossing;
                    }
                    if self.uop < self.end {
                        return Head::Uop;
                    }
                }
                Item::Event(event) => return Head::Event(event),
                Item::End => return Head::End,
            }
        }
    }

    /// Counts a run. Each iteration of a repeated string instruction is a run of its own, but it
    /// retires once: one that `repeats` another of the same address is no further instruction, and
    /// one that `joins` an earlier one is no micro-operation.
    fn count(&mut self, run: &Playable, repeats: bool, joins: bool) {
        self.fold = (run.ends_repeat != u64::MAX).then_some(run.ends_repeat);
        let instrs = u64::from(run.instrs) - u64::from(repeats);
        let mode = usize::from(run.kernel);
        self.work.instructions[mode] += instrs;
        if !joins {
            self.work.uops[mode] += u64::from(run.uops);
            self.units.add(&run.in_unit, mode);
        }
        self.kernel_instructions += instrs * u64::from(run.kernel);
        self.left = self.left.saturating_sub(instrs);
    }

    /// Goes past the start of a string instruction that [`FrontEnd::head`] showed.
    pub(crate) fn pass_start(&mut self) {
        self.strings.owed = 0;
    }

    /// Goes past the event that [`FrontEnd::head`] showed.
    pub(crate) fn pass_event(&mut self) {
        use Event::{Exception, Interrupt, Syscall};
        if let Item::Event(event @ (Syscall { .. } | Interrupt { .. } | Exception { .. })) =
            self.next
        {
            // The first one: what interrupts kernel code later does not explain why it runs.
            self.cause.get_or_insert(event);
        }
        self.look_ahead();
    }

    /// True if kernel code comes next.
    pub(crate) fn enters_kernel(&self) -> bool {
        match self.next {
            Item::Run(template) => self.code.playable[template.0 as usize].kernel,
            _ => false,
        }
    }

    /// Goes past the crossing in front, and tells what it is.
    pub(crate) fn pass_crossing(&mut self) -> Crossing {
        let kernel = self.enters_kernel();
        let before = self.privilege.replace(kernel);
        debug_assert!(before != Some(kernel), "a crossing changes the privilege");
        let cause = self.cause.take();
        match (before, kernel) {
            (_, false) => Crossing::Returns,
            (None, true) => Crossing::Begins,
            (Some(_), true) => Crossing::Enters(cause),
        }
    }

    /// Takes the interrupt whose kernel code is in front out of the stream; it then begins with the
    /// event `first`. `None` if its thread depends on it: it halts, changes processes, or does not
    /// simply return.
    pub(crate) fn split_interrupt(&mut self, first: Event) -> Option<FrontEnd> {
        let (mut taken, is_separable) = self.take_interrupt();
        let split = is_separable.then(|| {
            let mut script = Script::new(Arc::clone(self.source.program()));
            script.event(first);
            // What the thread does next stays with it.
            let rest = taken.split_off(taken.len() - 1);
            for (item, addresses) in std::mem::replace(&mut taken, rest) {
                match item {
                    Item::Run(template) => {
                        script.run(template, addresses);
                    }
                    Item::Event(event) => {
                        script.event(event);
                    }
                    Item::End => {}
                }
            }
            // As if it had never been: for the thread there is no crossing where it was cut out,
            // and the interrupt begins in the kernel, where it was entered already.
            self.privilege = Some(false);
            let code = Arc::clone(&self.code);
            let mut split = FrontEnd::new(Box::new(script), code, self.thread, u64::MAX);
            (split.memory, split.shared) = (self.memory, self.shared.clone());
            split.space = self.space;
            split.strings = self.strings.anew();
            (split.shows_crossings, split.privilege) = (true, Some(true));
            split
        });
        for item in taken.into_iter().rev() {
            self.ahead.push_front(item);
        }
        self.look_ahead();
        split
    }

    /// Reads up to the end of the kernel code in front, and one item beyond: what was read, and
    /// whether it is an interrupt alone, after which the thread goes on in user mode.
    fn take_interrupt(&mut self) -> (Vec<(Item, Vec<Address>)>, bool) {
        let held = self.held.clone().unwrap_or_else(|| self.source.addresses().to_vec());
        let mut taken = vec![(self.next, held)];
        loop {
            let item = match self.ahead.pop_front() {
                Some(item) => item,
                None => {
                    let item = self.read();
                    (item, self.source.addresses().to_vec())
                }
            };
            let goes_on = match item.0 {
                Item::Run(template) => self.code.playable[template.0 as usize].kernel,
                Item::Event(event) => is_of_interrupts(event),
                Item::End => false,
            };
            let returns = matches!(item.0, Item::Run(_)) && !goes_on;
            taken.push(item);
            if !goes_on || taken.len() > LONGEST_INTERRUPT {
                return (taken, returns);
            }
        }
    }

    /// The micro-operation in front.
    #[inline]
    pub(crate) fn uop(&self) -> &Uop {
        &self.code.uops[self.uop]
    }

    /// True if the run has one left, and it is part of the macro-operation before it.
    #[inline]
    pub(crate) fn next_joins(&self) -> bool {
        self.uop < self.end && self.code.uops[self.uop].folds & fold::JOINS != 0
    }

    /// The micro-operation in front, if the run has one left and it is an ordinary one.
    #[inline]
    pub(crate) fn ordinary_uop(&self) -> Option<Uop> {
        if self.uop >= self.end {
            return None;
        }
        let uop = self.uop();
        uop.ordinary.then_some(*uop)
    }

    /// The run it belongs to.
    #[inline]
    pub(crate) fn run(&self) -> &Playable {
        self.run.as_ref().expect("a micro-operation belongs to a run")
    }

    /// Privilege of what was played last.
    #[inline]
    pub(crate) fn is_kernel(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.kernel)
    }

    /// Goes past the micro-operation in front.
    #[inline]
    pub(crate) fn pass_uop(&mut self) {
        self.uop += 1;
    }

    /// Address of the next run's first instruction, if nothing comes between.
    #[inline]
    pub(crate) fn next_pc(&self) -> Option<u64> {
        match self.next {
            Item::Run(template) => Some(self.code.playable[template.0 as usize].pc),
            _ => None,
        }
    }

    /// Returns the source of the micro-operation in front, which the caller passes.
    #[inline]
    pub(crate) fn by(&self, uop: &Uop) -> By {
        let run = self.run();
        By::new(run.pc.wrapping_add(u64::from(uop.offset)), run.kernel)
    }

    /// Line of the instruction in front.
    #[inline]
    pub(crate) fn fetch_line(&self) -> u64 {
        self.placed(self.run().line_at(self.uop().offset))
    }

    /// First and last line that the load or store in front touches, and its first byte.
    #[inline]
    pub(crate) fn data_lines(&self) -> (u64, u64, u64) {
        let uop = self.uop();
        let phys = self.addresses[usize::from(uop.access)].phys.0;
        debug_assert!(uop.size > 0, "only loads and stores have data");
        // Assumption: across the end of a page, the next physical page follows. A trace has one
        // address for each access.
        let last = phys + u64::from(uop.size) - 1;
        (self.placed(phys >> LINE_SHIFT), self.placed(last >> LINE_SHIFT), phys)
    }

    /// Page of the instruction in front.
    #[inline]
    pub(crate) fn fetch_page(&self, sizes: Sizes) -> Page {
        let virt = self.run().pc.wrapping_add(u64::from(self.uop().offset));
        Page::of(self.space, virt, self.fetch_line(), sizes)
    }

    /// Page of a line of code that fetch comes to, at this instruction.
    #[inline]
    pub(crate) fn code_page(&self, virt: u64, line: u64, sizes: Sizes) -> Page {
        Page::of(self.space, virt, line, sizes)
    }

    /// Pages of the first and last byte that the load or store in front touches.
    #[inline]
    pub(crate) fn data_pages(&self, sizes: Sizes) -> [Page; 2] {
        let (first, last, _) = self.data_lines();
        let virt = self.addresses[usize::from(self.uop().access)].virt.0;
        let page = Page::of(self.space, virt, first, sizes);
        [page, page.last(first, last)]
    }
}
