//! Traps that the recorded machine does not have: register windows that spill and fill, and TLBs
//! that software fills, as on the UltraSPARC of Nellans 2014, Sec 4.1 and 4.5.1.
//!
//! ```text
//!  user     ──call──┐              ┌──load──┐               ┌──
//!  kernel           └─ spill: 27 ──┘        └─ TLB miss: 12 ┘
//! ```
//!
//! [`Traps`] is a source around a source. It keeps account of windows and pages along the recorded
//! calls, returns and addresses, and puts handlers where a trap would have come: in user code an
//! [`Event::Exception`] with the trap's type and the handler's instructions, in the kernel only
//! the instructions, which lengthen what the kernel is at. Everything recorded comes in its order;
//! the same source and model give the same traps. The state is bounded, whatever comes: calls that
//! never return, returns without a call, switches of threads in the middle.
//!
//! What it does not know: threads of one process that change on a CPU (their windows pass for one
//! another's), procedures that were compiled into their callers, and what handlers access
//! themselves (16 words beside the stack pointer, an entry of the translation storage buffer).

mod cpu;
mod model;
mod shapes;
#[cfg(test)]
mod tests;
mod tlb;
mod windows;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

pub use model::{HandlerLengths, TlbModel, TlbShape, Trap, TrapModel, WindowModel};
pub use windows::{Owner, Saved, Windows};

use crate::error::TraceError;
use crate::event::Event;
use crate::program::{Program, TemplateId};
use crate::source::{Address, Item, Source};
use cpu::{Cpu, Taken};
use shapes::{Handler, Shapes};
use tlb::Tsb;

/// Number of traps taken, by kind and by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrapCounts {
    counts: [[u64; 2]; Trap::ALL.len()],
    /// Entries into the kernel that had to spill a window.
    pub entry_spills: u64,
    /// Returns to the user that had to fill one.
    pub exit_fills: u64,
    /// Windows that switches of address spaces wrote.
    pub flushed: u64,
    /// Instructions of all handlers of windows, in user code and inside the kernel.
    pub window_instructions: u64,
    /// Number of instructions of TLB-miss handlers, in user code and inside the kernel.
    pub tlb_instructions: u64,
}

impl TrapCounts {
    /// Returns the count of one kind, by privilege (user, kernel).
    #[must_use]
    pub fn of(&self, trap: Trap) -> [u64; 2] {
        self.counts[trap as usize]
    }
}

/// An item that waits, with its addresses among those of the recorded item.
#[derive(Debug)]
struct Waiting {
    item: Item,
    addresses: Range<usize>,
    /// Address of the instruction that traps, if this begins a trap of user code.
    site: Option<u64>,
}

/// A source with the traps of a processor that has register windows and fills its TLBs by software.
#[derive(Debug)]
pub struct Traps<S> {
    source: S,
    program: Arc<Program>,
    shapes: Shapes,
    model: TrapModel,
    cpus: Vec<Cpu>,
    current: usize,
    tsb: Tsb,
    counts: TrapCounts,
    waiting: VecDeque<Waiting>,
    /// Addresses of the last item.
    addresses: Range<usize>,
    taken: Vec<Taken>,
    site: u64,
    /// The last run was of the kernel.
    in_kernel: bool,
}

impl<S: Source> Traps<S> {
    /// Around `source`, from where it is. `model` is one that [`TrapModel::check`] accepts.
    pub fn new(source: S, model: TrapModel) -> Traps<S> {
        let mut program = Program::clone(source.program());
        let shapes = Shapes::new(&mut program, &model.handlers, model.tlb.page_bytes);
        Traps {
            source,
            program: Arc::new(program),
            shapes,
            cpus: vec![Cpu::new(0, &model)],
            current: 0,
            tsb: Tsb::new(model.tlb.tsb_entries as usize),
            model,
            counts: TrapCounts::default(),
            waiting: VecDeque::new(),
            addresses: 0..0,
            taken: Vec::new(),
            site: 0,
            in_kernel: false,
        }
    }

    /// Returns the traps up to now.
    #[must_use]
    pub fn counts(&self) -> &TrapCounts {
        &self.counts
    }

    /// Address of the user instruction that the last trap of user code came before.
    #[must_use]
    pub fn site(&self) -> u64 {
        self.site
    }

    fn push(&mut self, item: Item, addresses: Range<usize>) {
        self.waiting.push_back(Waiting { item, addresses, site: None });
    }

    fn push_handler(&mut self, handler: Handler) {
        let id = self.shapes.handler(handler);
        let instructions = u64::from(self.program.template(id).executed);
        if handler.is_window() {
            self.counts.window_instructions += instructions;
        } else {
            self.counts.tlb_instructions += instructions;
        }
        self.push(Item::Run(id), 0..0);
        self.in_kernel = true;
    }

    fn event(&mut self, event: Event) {
        self.push(Item::Event(event), 0..0);
        match event {
            Event::Cpu(number) => {
                let known = self.cpus.iter().position(|cpu| cpu.number == number);
                self.current = known.unwrap_or_else(|| {
                    self.cpus.push(Cpu::new(number, &self.model));
                    self.cpus.len() - 1
                });
                self.in_kernel = self.cpus[self.current].kernel == Some(true);
            }
            Event::AddressSpace(space) => {
                let written = self.cpus[self.current].switch_space(space.0);
                for (count, handler) in
                    written.into_iter().zip([Handler::KernelSpill, Handler::UserSpill])
                {
                    self.counts.flushed += u64::from(count);
                    (0..count).for_each(|_| self.push_handler(handler));
                }
            }
            Event::Interrupt { .. } | Event::Exception { .. } => {
                if let Some(handler) = self.cpus[self.current].interrupted() {
                    self.counts.counts[Trap::WindowSpill as usize][1] += 1;
                    self.push_handler(handler);
                }
            }
            _ => {}
        }
    }

    fn run(&mut self, id: TemplateId) {
        let kernel = self.program.block(self.program.template(id).block).kernel;
        let cpu = &mut self.cpus[self.current];
        if let Some(handler) = cpu.turn(kernel) {
            match handler {
                Handler::EntrySpill => self.counts.entry_spills += 1,
                _ => self.counts.exit_fills += 1,
            }
            self.push_handler(handler);
        }
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        let addresses = self.source.addresses();
        let execution = (&*self.program, id);
        let cpu = &mut self.cpus[self.current];
        cpu.execute(&self.model, &mut self.tsb, execution, addresses, &mut taken);
        for one in &taken {
            self.counts.counts[one.trap as usize][usize::from(kernel)] += 1;
        }
        if kernel {
            taken.iter().for_each(|one| self.push_handler(one.handler));
            self.push(Item::Run(id), 0..self.source.addresses().len());
            self.in_kernel = true;
        } else {
            self.user(id, &taken);
        }
        self.taken = taken;
    }

    /// User code and its traps: in one piece, or cut where a trap comes.
    fn user(&mut self, id: TemplateId, taken: &[Taken]) {
        if taken.iter().all(|one| one.instr == 0) {
            taken.iter().for_each(|one| self.trap(id, one));
            self.push(Item::Run(id), 0..self.source.addresses().len());
            self.in_kernel = false;
            return;
        }
        let mut rest = taken.iter().peekable();
        for place in 0..self.shapes.segments(id).len() {
            let segment = self.shapes.segments(id)[place].clone();
            while let Some(one) = rest.next_if(|one| one.instr <= segment.start) {
                self.trap(id, one);
            }
            self.push(Item::Run(segment.template), segment.sites);
            self.in_kernel = false;
        }
        debug_assert!(rest.peek().is_none(), "a trap where no block was cut");
    }

    /// A trap of user code.
    fn trap(&mut self, id: TemplateId, one: &Taken) {
        if self.in_kernel {
            // The instruction is tried again before the next trap, though it does not retire.
            self.push(Item::Run(self.shapes.tried), 0..0);
        }
        let block = self.program.block(self.program.template(id).block);
        let instr = &self.program.instrs_of(block)[usize::from(one.instr)];
        let site = Some(block.pc_of(instr));
        let item = Item::Event(Event::Exception { vector: one.trap.vector() });
        self.waiting.push_back(Waiting { item, addresses: 0..0, site });
        self.push_handler(one.handler);
    }
}

impl<S: Source> Source for Traps<S> {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        if self.waiting.is_empty() {
            match self.source.next_item()? {
                Item::Run(id) => self.run(id),
                Item::Event(event) => self.event(event),
                Item::End => {
                    self.addresses = 0..0;
                    return Ok(Item::End);
                }
            }
        }
        let Some(next) = self.waiting.pop_front() else { return Ok(Item::End) };
        self.addresses = next.addresses;
        self.site = next.site.unwrap_or(self.site);
        Ok(next.item)
    }

    fn addresses(&self) -> &[Address] {
        if self.addresses.is_empty() {
            return &[];
        }
        &self.source.addresses()[self.addresses.clone()]
    }
}
