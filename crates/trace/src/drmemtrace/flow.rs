//! Where what was interrupted goes on, which the trace tells only later.

use std::collections::HashMap;
use std::sync::Arc;

use halfwink_units::Asid;

use crate::error::TraceError;
use crate::event::Event;
use crate::format::TraceFile;
use crate::record::Branch;
use crate::source::{Item, Source};

/// Returns, for each interrupt and exception of a CPU in order, the address at which the
/// interrupted code resumes; none if the trace ends before.
pub(super) fn resumptions(file: &TraceFile, cpu: u16) -> Result<Vec<Option<u64>>, TraceError> {
    let mut flow = Flow::default();
    let mut stream = file.stream();
    let program = Arc::clone(stream.program());
    let mut here = true;
    loop {
        match stream.next_item()? {
            Item::End => return Ok(flow.found),
            Item::Event(Event::Cpu(n)) => here = n == cpu,
            _ if !here => {}
            Item::Event(Event::AddressSpace(space)) => flow.space = space,
            Item::Event(Event::Interrupt { .. } | Event::Exception { .. }) => flow.interrupt(),
            Item::Event(_) => {}
            Item::Run(id) => {
                let template = program.template(id);
                let block = program.block(template.block);
                let executed = &program.instrs_of(block)[..usize::from(template.executed)];
                // A run of no instructions is allowed, and goes nowhere.
                if let Some(last) = executed.last() {
                    flow.run(block.pc.0, block.kernel, last.branch);
                }
            }
        }
    }
}

#[derive(Default)]
struct Flow {
    found: Vec<Option<u64>>,
    /// Kernel entries that have not ended, by address space: the interrupts that end with each;
    /// none for a system call.
    inside: HashMap<Asid, Vec<Vec<usize>>>,
    space: Asid,
    /// Interrupts whose code goes on with the next run.
    over: Vec<usize>,
    /// Whether the last run was the kernel's, and the branch that ended it.
    last: Option<(bool, Branch)>,
    /// True if an interrupt came since the last run.
    interrupted: bool,
}

impl Flow {
    fn interrupt(&mut self) {
        self.leave(None);
        // What was about to go on goes on when this does.
        let mut all = std::mem::take(&mut self.over);
        all.push(self.found.len());
        self.found.push(None);
        self.inside.entry(self.space).or_default().push(all);
        self.interrupted = true;
        self.last = None;
    }

    fn run(&mut self, pc: u64, kernel: bool, end: Branch) {
        if kernel && !self.interrupted && matches!(self.last, Some((false, _))) {
            self.inside.entry(self.space).or_default().push(Vec::new());
        }
        self.leave(Some(kernel));
        for n in self.over.drain(..) {
            self.found[n] = Some(pc);
        }
        self.last = Some((kernel, end));
        self.interrupted = false;
    }

    /// Ends the kernel entries that end with the last run, given whether the next one is user code,
    /// kernel code, or interrupted before it began.
    fn leave(&mut self, next_kernel: Option<bool>) {
        let Some((true, end)) = self.last else { return };
        let inside = self.inside.entry(self.space).or_default();
        if next_kernel == Some(false) {
            // What is above belongs to threads that wait.
            let first = inside.drain(..).next();
            self.over.extend(first.unwrap_or_default());
        } else if end == Branch::Iret && inside.len() > 1 {
            self.over.extend(inside.pop().unwrap_or_default());
        }
    }
}
