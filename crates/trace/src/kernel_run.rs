//! Kernel invocations: what lies between a change to kernel mode and the change back.

use crate::error::TraceError;
use crate::event::Event;
use crate::program::Program;
use crate::repeat::RepeatFold;
use crate::source::{Item, Source};

/// One invocation of the kernel: all that a CPU retired in kernel mode from the change out of user
/// mode to the change back. Interrupts and context switches in between belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRun {
    /// The system call, interrupt or exception that led to it; `None` if the trace does not say.
    pub cause: Option<Event>,
    /// Instructions retired; iterations of a repeated string instruction are one.
    pub instructions: u64,
    /// Interrupts and exceptions within it.
    pub nested: u32,
    /// The CPU halted within it: what ended it is not what began it.
    pub halted: bool,
}

/// One CPU of the recorded machine.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    number: u16,
    /// Privilege of what it ran last, once something was.
    kernel: Option<bool>,
    /// First event since it last ran user code.
    cause: Option<Event>,
    /// The run in progress; `None` in one that began before the trace.
    run: Option<KernelRun>,
}

/// Walks a source from kernel invocation to kernel invocation. Those that the beginning or the end
/// of the trace cuts are left out.
#[derive(Debug)]
pub struct KernelRuns<S> {
    source: S,
    fold: RepeatFold,
    cpus: Vec<Cpu>,
    current: usize,
    /// Instructions passed, by privilege (user, kernel).
    pub instructions: [u64; 2],
}

impl<S: Source> KernelRuns<S> {
    /// Starts at the first item that `source` has left.
    pub fn new(source: S) -> KernelRuns<S> {
        let cpus = vec![Cpu::default()];
        KernelRuns { source, fold: RepeatFold::default(), cpus, current: 0, instructions: [0; 2] }
    }

    /// The source, as far as it was read.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The next complete invocation, in the order of their ends; `None` at the end of the source.
    ///
    /// # Errors
    /// If the underlying file is damaged or cannot be read.
    pub fn next_run(&mut self) -> Result<Option<KernelRun>, TraceError> {
        let program = std::sync::Arc::clone(self.source.program());
        loop {
            match self.source.next_item()? {
                Item::Run(id) => {
                    let repeat = self.fold.is_repeat(&program, id);
                    if let Some(run) = self.pass(&program, id, repeat) {
                        return Ok(Some(run));
                    }
                }
                Item::Event(event) => self.event(event),
                Item::End => return Ok(None),
            }
        }
    }

    fn event(&mut self, event: Event) {
        if let Event::Cpu(number) = event {
            let known = self.cpus.iter().position(|cpu| cpu.number == number);
            self.current = known.unwrap_or_else(|| {
                self.cpus.push(Cpu { number, ..Cpu::default() });
                self.cpus.len() - 1
            });
            return;
        }
        let cpu = &mut self.cpus[self.current];
        let enters = matches!(
            event,
            Event::Syscall { .. } | Event::Interrupt { .. } | Event::Exception { .. }
        );
        match &mut cpu.run {
            Some(run) => {
                run.nested += u32::from(enters);
                run.halted |= matches!(event, Event::Idle { .. });
            }
            None if enters => {
                cpu.cause.get_or_insert(event);
            }
            None => {}
        }
    }

    /// Counts an execution of a block; the invocation that it ends.
    fn pass(
        &mut self,
        program: &Program,
        id: crate::program::TemplateId,
        repeat: bool,
    ) -> Option<KernelRun> {
        let template = program.template(id);
        let kernel = program.block(template.block).kernel;
        let instructions = u64::from(template.executed) - u64::from(repeat);
        self.instructions[usize::from(kernel)] += instructions;
        let cpu = &mut self.cpus[self.current];
        let before = cpu.kernel.replace(kernel);
        if !kernel {
            cpu.cause = None;
            return cpu.run.take().filter(|run| run.instructions > 0);
        }
        if before == Some(false) {
            let cause = cpu.cause.take();
            cpu.run = Some(KernelRun { cause, instructions: 0, nested: 0, halted: false });
        }
        if let Some(run) = &mut cpu.run {
            run.instructions += instructions;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use halfwink_units::{PhysAddr, VirtAddr};

    use super::*;
    use crate::program::{Block, TemplateId};
    use crate::record::{Instr, InstrFlags};
    use crate::script::Script;

    const READ: Event = Event::Syscall { number: 0, args: [3, 0, 0, 0, 0, 0] };
    const TICK: Event = Event::Interrupt { vector: 236 };
    const FAULT: Event = Event::Exception { vector: 14 };
    const IDLE: Event = Event::Idle { from_ns: 1, to_ns: 2 };

    /// Templates of ten user, ten kernel and one repeated kernel instruction, and of a user block
    /// that faults at once.
    fn script() -> (Script, [TemplateId; 4]) {
        let mut program = Program::default();
        let block = |pc: u64, kernel| Block {
            pc: VirtAddr(pc),
            phys: PhysAddr(pc),
            phys_next_page: PhysAddr(0),
            kernel,
            first_instr: 0,
            instrs: 0,
        };
        let ten: Vec<Instr> = (0..10).map(|n| Instr::nop(n, 1)).collect();
        let user = program.push_block(block(0x1000, false), &ten);
        let kernel = program.push_block(block(0x2000, true), &ten);
        let rep = Instr { flags: InstrFlags::REP, ..Instr::nop(0, 2) };
        let string = program.push_block(block(0x3000, true), &[rep]);
        let templates = [
            program.push_template(user, 10, &[]),
            program.push_template(kernel, 10, &[]),
            program.push_template(string, 1, &[]),
            program.push_template(user, 0, &[]),
        ];
        (Script::new(Arc::new(program)), templates)
    }

    fn runs(script: Script) -> (Vec<KernelRun>, [u64; 2]) {
        let mut runs = KernelRuns::new(script);
        let mut all = Vec::new();
        while let Some(run) = runs.next_run().unwrap() {
            all.push(run);
        }
        (all, runs.instructions)
    }

    fn run(cause: Event, instructions: u64) -> KernelRun {
        KernelRun { cause: Some(cause), instructions, nested: 0, halted: false }
    }

    #[test]
    fn kernel_runs_are_cut_at_privilege_changes() {
        let (mut s, [user, kernel, string, _]) = script();
        // Cut at the beginning: left out, its tick too.
        s.run(kernel, vec![]).event(TICK).run(kernel, vec![]).run(user, vec![]);
        // A call that copies with a repeated instruction: 10 + 1 + 10.
        s.event(READ).run(kernel, vec![]);
        (0..5).for_each(|_| {
            s.run(string, vec![]);
        });
        s.run(kernel, vec![]).run(user, vec![]);
        // A tick; a call that halts and is ended by a tick; something unexplained; cut at the end.
        s.event(TICK).run(kernel, vec![]).run(user, vec![]);
        s.event(READ).run(kernel, vec![]).event(IDLE).event(TICK).run(kernel, vec![]);
        s.run(user, vec![]).run(kernel, vec![]).run(user, vec![]);
        s.event(READ).run(kernel, vec![]);
        let (all, instructions) = runs(s);
        let waited = KernelRun { nested: 1, halted: true, ..run(READ, 20) };
        let unexplained = KernelRun { cause: None, ..run(READ, 10) };
        assert_eq!(all, [run(READ, 21), run(TICK, 10), waited, unexplained]);
        assert_eq!(instructions, [50, 20 + 21 + 10 + 20 + 10 + 10]);
    }

    #[test]
    fn of_two_events_at_once_the_first_is_the_cause() {
        let (mut s, [user, kernel, _, faults]) = script();
        s.run(user, vec![]).event(READ).event(TICK).run(kernel, vec![]);
        // Back in user mode it faults before an instruction retires: another invocation.
        s.run(faults, vec![]).event(FAULT).run(kernel, vec![]).run(user, vec![]);
        assert_eq!(runs(s).0, [run(READ, 10), run(FAULT, 10)]);
    }

    #[test]
    fn cpus_are_told_apart() {
        let (mut s, [user, kernel, ..]) = script();
        s.run(user, vec![]).event(READ).run(kernel, vec![]);
        s.event(Event::Cpu(1)).run(user, vec![]).event(TICK).run(kernel, vec![]);
        s.event(Event::Cpu(0)).run(kernel, vec![]).run(user, vec![]);
        s.event(Event::Cpu(1)).run(user, vec![]);
        assert_eq!(runs(s).0, [run(READ, 20), run(TICK, 10)]);
    }
}
