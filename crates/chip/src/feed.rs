//! The stream of micro-operations of one core: the front end's view of a trace.

use std::collections::VecDeque;
use std::sync::Arc;

use halfwink_policy::offload::Sample;
use halfwink_trace::{Address, Event, Item, Program, Script, Source, TraceError};
use halfwink_units::{Time, LINE_SHIFT};

use crate::account::UnitCounts;
use crate::os_cores::{Crossed, OsThread};
use crate::uop::{Code, Playable, Uop};

/// Physical lines of different cores' programs must not coincide: each core's program lives in its
/// own memory, told apart by these bits of the line number.
const COPY_SHIFT: u32 = 42;

/// Blocks of the longest interrupt that goes its own way.
const LONGEST_INTERRUPT: usize = 1 << 16;

/// True for what may happen within an interrupt that its thread does not depend on.
fn is_of_interrupts(event: Event) -> bool {
    matches!(event, Event::Interrupt { .. } | Event::Exception { .. })
}

/// The thread in whose memory a line lies.
pub(crate) fn memory_of(line: u64) -> usize {
    (line >> COPY_SHIFT) as usize
}

/// A line of a thread's memory, as the shared levels see it.
pub(crate) fn line_of(thread: usize, line: u64) -> u64 {
    line | (thread as u64) << COPY_SHIFT
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head {
    /// The micro-operation that [`Feed::uop`] shows.
    Uop,
    /// Something between instructions.
    Event(Event),
    /// A change to kernel mode, or back out of it, that [`Feed::os`] was not told of.
    Crossing,
    /// Nothing.
    End,
}

/// Instructions retired, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Instructions; iterations of a repeated string instruction are one.
    pub instructions: [u64; 2],
    /// Micro-operations.
    pub uops: [u64; 2],
}

/// Plays a source, one micro-operation after another, with one item of lookahead.
pub(crate) struct Feed {
    source: Box<dyn Source>,
    code: Arc<Code>,
    copy: u64,
    run: Option<Playable>,
    uop: usize,
    end: usize,
    addresses: Vec<Address>,
    next: Item,
    fold: Option<u64>,
    pub(crate) work: WorkCounts,
    pub(crate) units: UnitCounts,
    /// A source that failed ends; this says why.
    pub(crate) error: Option<TraceError>,
    /// Instructions left to play, if the run is limited.
    left: u64,
    /// What was read ahead of `next`, with its addresses.
    ahead: VecDeque<(Item, Vec<Address>)>,
    /// Addresses of `next`, if it was read ahead.
    held: Option<Vec<Address>>,
    /// An interrupt that goes its own way, and when it began.
    pub(crate) detached: Option<(Time, Box<Feed>)>,
    /// Decides where its kernel entries run, if that is not simply where they are.
    pub(crate) os: Option<Box<OsThread>>,
}

impl Feed {
    /// Starts on `source`, compiled as `code`. `copy` tells its memory from that of other cores'.
    pub(crate) fn new(source: Box<dyn Source>, code: Arc<Code>, copy: usize, limit: u64) -> Feed {
        let mut feed = Feed {
            source,
            code,
            copy: (copy as u64) << COPY_SHIFT,
            run: None,
            uop: 0,
            end: 0,
            addresses: Vec::new(),
            next: Item::End,
            fold: None,
            work: WorkCounts::default(),
            units: UnitCounts::default(),
            error: None,
            left: limit,
            ahead: VecDeque::new(),
            held: None,
            detached: None,
            os: None,
        };
        feed.look_ahead();
        feed
    }

    /// Of a core without a thread.
    pub(crate) fn empty() -> Feed {
        let program = Arc::<Program>::default();
        let code = Arc::new(Code::compile(&program));
        Feed::new(Box::new(Script::new(program)), code, 0, 0)
    }

    /// Takes the counts that another feed has gathered: they are its core's, not its thread's.
    pub(crate) fn take_counts(&mut self, other: &mut Feed) {
        self.work = std::mem::take(&mut other.work);
        self.units = std::mem::take(&mut other.units);
    }

    /// Physical line numbers of this core's memory start here.
    pub(crate) fn line_base(&self) -> u64 {
        self.copy
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
        self.held = None;
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

    /// What comes next; micro-operations of the next run become visible.
    #[inline]
    pub(crate) fn head(&mut self) -> Head {
        if self.uop < self.end {
            return Head::Uop;
        }
        self.next_run()
    }

    fn next_run(&mut self) -> Head {
        loop {
            match self.next {
                Item::Run(_) if self.left == 0 => return Head::End,
                Item::Run(template) => {
                    let run = self.code.playable[template.0 as usize];
                    if self.os.as_ref().is_some_and(|os| os.is_crossing(run.kernel)) {
                        return Head::Crossing;
                    }
                    self.addresses.clear();
                    let addresses = self.held.as_deref();
                    let addresses = addresses.unwrap_or_else(|| self.source.addresses());
                    self.addresses.extend_from_slice(addresses);
                    self.look_ahead();
                    self.count(&run);
                    self.uop = run.first_uop as usize;
                    self.end = self.uop + run.uops as usize;
                    self.run = Some(run);
                    if self.uop < self.end {
                        return Head::Uop;
                    }
                }
                Item::Event(event) => return Head::Event(event),
                Item::End => return Head::End,
            }
        }
    }

    fn count(&mut self, run: &Playable) {
        let repeat = run.starts_repeat && self.fold == Some(run.pc);
        self.fold = (run.ends_repeat != u64::MAX).then_some(run.ends_repeat);
        let instrs = u64::from(run.instrs) - u64::from(repeat);
        let mode = usize::from(run.kernel);
        self.work.instructions[mode] += instrs;
        self.work.uops[mode] += u64::from(run.uops);
        self.units.add(&run.in_unit, mode);
        if let Some(os) = &mut self.os {
            os.kernel_instructions += instrs * u64::from(run.kernel);
        }
        self.left = self.left.saturating_sub(instrs);
    }

    /// Goes past the event that [`Feed::head`] showed.
    pub(crate) fn pass_event(&mut self) {
        if let (Some(os), Item::Event(event)) = (&mut self.os, self.next) {
            os.see(event);
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

    /// Tells [`Feed::os`] of the crossing in front.
    pub(crate) fn cross(&mut self, at: Time, core: usize, sample: Sample) -> Crossed {
        let kernel = self.enters_kernel();
        let Some(os) = &mut self.os else { return Crossed::Stays(0) };
        let crossed = os.cross(kernel, at, core, sample);
        if crossed == Crossed::Detaches && !self.detach(at) {
            return Crossed::Stays(0);
        }
        crossed
    }

    /// Takes the interrupt in front out of the stream; false if its thread depends on it.
    fn detach(&mut self, at: Time) -> bool {
        let addresses =
            |feed: &Feed| feed.held.clone().unwrap_or_else(|| feed.source.addresses().to_vec());
        let mut taken = vec![(self.next, addresses(self))];
        let separable = loop {
            let item = match self.ahead.pop_front() {
                Some(item) => item,
                None => {
                    let item = self.read();
                    (item, self.source.addresses().to_vec())
                }
            };
            let kernel = match item.0 {
                Item::Run(template) => self.code.playable[template.0 as usize].kernel,
                Item::Event(event) => is_of_interrupts(event),
                Item::End => false,
            };
            let returns = matches!(item.0, Item::Run(_)) && !kernel;
            taken.push(item);
            if !kernel || taken.len() > LONGEST_INTERRUPT {
                break returns;
            }
        };
        let detached = self.os.as_mut().and_then(|os| os.detaches(separable));
        if let Some(os) = detached {
            let mut script = Script::new(Arc::clone(self.source.program()));
            // The OS core is interrupted, and what the thread does next stays with it.
            script.event(os.cause_of_detached());
            let rest = taken.split_off(taken.len() - 1);
            for (item, addresses) in taken {
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
            taken = rest;
            let copy = memory_of(self.copy);
            let mut feed = Feed::new(Box::new(script), Arc::clone(&self.code), copy, u64::MAX);
            feed.os = Some(Box::new(os));
            self.detached = Some((at, Box::new(feed)));
        }
        for item in taken.into_iter().rev() {
            self.ahead.push_front(item);
        }
        self.look_ahead();
        self.detached.is_some()
    }

    /// True unless the thread is a guest on this core.
    pub(crate) fn is_home(&self, core: usize) -> bool {
        self.os.as_ref().is_none_or(|os| os.home == core)
    }

    /// The micro-operation in front.
    #[inline]
    pub(crate) fn uop(&self) -> &Uop {
        &self.code.uops[self.uop]
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

    /// Line of the instruction in front.
    #[inline]
    pub(crate) fn fetch_line(&self) -> u64 {
        const PAGE: u64 = 1 << halfwink_units::PAGE_SHIFT;
        let run = self.run();
        let offset = u64::from(self.uop().offset);
        let in_page = run.pc % PAGE + offset;
        let phys = if in_page < PAGE {
            run.phys + offset
        } else {
            (run.phys_next_page & !(PAGE - 1)) + (in_page - PAGE)
        };
        phys >> LINE_SHIFT | self.copy
    }

    /// First and last line that the load or store in front touches, and its first byte.
    #[inline]
    pub(crate) fn data_lines(&self) -> (u64, u64, u64) {
        let uop = self.uop();
        let phys = self.addresses[usize::from(uop.access)].phys.0;
        let last = phys + u64::from(uop.size) - 1;
        (phys >> LINE_SHIFT | self.copy, last >> LINE_SHIFT | self.copy, phys)
    }
}
