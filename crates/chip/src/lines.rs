//! Which lines an execution of a block touches, in the order of the program, and in whose memory
//! they lie.

use std::sync::Arc;

use halfwink_trace::{Address, Instr, Program, Site, Template};
use halfwink_units::LINE_SHIFT;

use crate::front_end::FrontEnd;
use crate::machine::Machine;
use crate::shared_lines::SharedLines;
use crate::task::Task;

/// Physical lines of different threads' programs must not coincide: each thread's program lives in
/// a memory of its own, told apart by these bits of the line number; CPUs of one machine live in
/// the first one's.
const MEMORY_SHIFT: u32 = 42;

/// The thread in whose memory a line lies.
pub(crate) fn memory_of(line: u64) -> usize {
    (line >> MEMORY_SHIFT) as usize
}

/// The first line of a thread's memory.
pub(crate) fn memory_base(thread: usize) -> u64 {
    (thread as u64) << MEMORY_SHIFT
}

/// A line of a thread's memory, as the shared levels see it.
pub(crate) fn line_of(thread: usize, line: u64) -> u64 {
    debug_assert!(line >> MEMORY_SHIFT == 0, "it would lie in another thread's memory");
    line | memory_base(thread)
}

/// Memories in which the tasks' lines lie.
pub(crate) struct Memories {
    /// All in the first one's.
    one: bool,
    /// Lines that each task shares, and the first task that shares them.
    shared: Vec<Option<(usize, Arc<SharedLines>)>>,
}

impl Memories {
    pub(crate) fn of(machine: &Machine, tasks: &[Task]) -> Memories {
        let same = |a: &Task, b: &Arc<SharedLines>| {
            a.shared.as_ref().is_some_and(|lines| Arc::ptr_eq(lines, b))
        };
        let shared = tasks.iter().map(|task| {
            let lines = task.shared.as_ref()?;
            let first = tasks.iter().position(|other| same(other, lines))?;
            Some((first, Arc::clone(lines)))
        });
        Memories { one: machine.os.one_memory, shared: shared.collect() }
    }

    /// Any core may hold lines of any task.
    pub(crate) fn meet(&self) -> bool {
        self.one || self.shared.iter().any(Option::is_some)
    }

    /// The task's instructions, in its memory.
    pub(crate) fn place(&self, task: usize, front_end: FrontEnd) -> FrontEnd {
        match &self.shared[task] {
            _ if self.one => front_end.in_memory_of(0),
            Some((first, lines)) => front_end.sharing(*first, Arc::clone(lines)),
            None => front_end,
        }
    }

    /// A line of a task as the shared levels see it, and whether others may hold it too.
    pub(crate) fn line_of(&self, task: usize, line: u64) -> (u64, bool) {
        match &self.shared[task] {
            _ if self.one => (line_of(0, line), true),
            Some((first, lines)) if lines.has(line) => (line_of(*first, line), true),
            _ => (line_of(task, line), false),
        }
    }
}

/// The lines of some bytes: one, or two that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Span {
    /// Creates the span of `size` bytes (at most a line's) from `address`.
    #[inline]
    pub(crate) fn new(address: u64, size: u8) -> Span {
        let last = address.wrapping_add(u64::from(size.max(1)) - 1);
        Span { first: address >> LINE_SHIFT, last: last >> LINE_SHIFT }
    }

    /// Returns each line once.
    #[inline]
    pub(crate) fn lines(self) -> impl Iterator<Item = u64> {
        let second = (self.last != self.first).then_some(self.last);
        std::iter::once(self.first).chain(second)
    }
}

/// A memory access of an execution.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touch<'a> {
    /// The instruction of this index in its block.
    Fetch(usize, &'a Instr),
    /// Data of the last fetched instruction, or of the one behind it, which faulted.
    Data(&'a Site, Address),
}

/// Shows what an execution touches: each retired instruction before its data.
#[inline]
pub(crate) fn touches(
    program: &Program,
    template: &Template,
    addresses: &[Address],
    mut see: impl FnMut(Touch<'_>),
) {
    let instrs = program.instrs_of(program.block(template.block));
    let mut data = program.sites_of(template).iter().zip(addresses).peekable();
    for (index, instr) in instrs[..usize::from(template.executed)].iter().enumerate() {
        see(Touch::Fetch(index, instr));
        while let Some((site, &address)) =
            data.next_if(|(site, _)| usize::from(site.instr) <= index)
        {
            see(Touch::Data(site, address));
        }
    }
    for (site, &address) in data {
        see(Touch::Data(site, address));
    }
}

/// A line that an execution touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineTouch {
    pub(crate) line: u64,
    /// Fetched rather than accessed as data.
    pub(crate) code: bool,
    pub(crate) write: bool,
    /// Virtual address of the instruction.
    pub(crate) pc: u64,
}

/// Goes through executions line by line: an instruction of the line fetched last fetches nothing,
/// since it can neither miss nor change the order of recency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineWalk {
    /// Line and privilege of the last fetch.
    fetched: (u64, bool),
}

impl LineWalk {
    pub(crate) fn new() -> LineWalk {
        LineWalk { fetched: (u64::MAX, false) }
    }

    /// Shows the lines of an execution in order. `repeat` leaves out the first fetch: a further
    /// iteration of the repeated string instruction that ran before.
    #[inline]
    pub(crate) fn walk(
        &mut self,
        program: &Program,
        template: &Template,
        addresses: &[Address],
        repeat: bool,
        mut see: impl FnMut(LineTouch),
    ) {
        let block = program.block(template.block);
        let mut pc = 0;
        touches(program, template, addresses, |touch| match touch {
            Touch::Fetch(0, _) if repeat => {}
            Touch::Fetch(_, instr) => {
                pc = block.pc_of(instr);
                let span = Span::new(Program::instr_phys(block, instr).0, instr.len);
                let fetch = LineTouch { line: span.first, code: true, write: false, pc };
                if self.fetched != (span.first, block.kernel) {
                    see(fetch);
                }
                if span.last != span.first {
                    see(LineTouch { line: span.last, ..fetch });
                }
                self.fetched = (span.last, block.kernel);
            }
            Touch::Data(site, address) => {
                for line in Span::new(address.phys.0, site.size).lines() {
                    see(LineTouch { line, code: false, write: site.write, pc });
                }
            }
        });
    }
}
