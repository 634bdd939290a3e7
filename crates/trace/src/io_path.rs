//! What an I/O takes in the kernel's block layer: instructions, locked ones, interrupts and lines
//! of memory, by a recording of a program that submits I/Os with system calls.
//!
//! Two CPUs that issue to one device are recorded one after the other, in equal runs of the same
//! machine, so physical addresses agree. How often a line travels between them is estimated as if
//! their I/Os took turns: one that I write comes from the other if its last I/O touched it, one
//! that I only read if its last I/O wrote it.

use std::collections::HashMap;
use std::sync::Arc;

use halfwink_units::LINE_SHIFT;

use crate::error::TraceError;
use crate::event::Event;
use crate::program::{Program, TemplateId};
use crate::record::InstrFlags;
use crate::repeat::RepeatFold;
use crate::source::{Address, Item, Source};

/// Number of windows, from one submission to the next, in which a line was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Windows {
    touched: u64,
    written: u64,
}

/// Lines of data that a CPU's kernel uses for its I/Os, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLines {
    windows: u64,
    lines: HashMap<u64, Windows>,
}

impl KernelLines {
    /// Returns the number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there are no lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A window is over, in which these lines were used, and written or not.
    fn close(&mut self, window: &HashMap<u64, bool>) {
        self.windows += 1;
        for (&line, &written) in window {
            let known = self.lines.entry(line).or_default();
            known.touched += 1;
            known.written += u64::from(written);
        }
    }

    /// Returns the probability that a line, which is used now and written or not, is at this CPU.
    fn holds(&self, line: u64, written: bool) -> f64 {
        let known = self.lines.get(&line).copied().unwrap_or_default();
        let times = if written { known.touched } else { known.written };
        times as f64 / self.windows.max(1) as f64
    }
}

/// Sums over a recording, which should be of a steady state: what it began and did not end is taken
/// for what it ended and did not begin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoCounts {
    /// Number of I/Os submitted.
    pub ios: u64,
    /// System calls that submitted them.
    pub submissions: u64,
    /// Instructions retired (user, kernel); iterations of a repeated string instruction are one.
    pub instructions: [u64; 2],
    /// Atomic read-modify-writes of the kernel: locks, reference counts, bit maps.
    pub locked: u64,
    /// Number of interrupts taken.
    pub interrupts: u64,
    /// Distinct lines of data that the kernel touched between a submission and the next, summed.
    pub lines: u64,
    /// Lines that came from the other CPU, estimated as if the I/Os of both took turns.
    pub transfers: f64,
}

/// I/O work of a recorded CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoPath {
    /// Counters of the CPU.
    pub counts: IoCounts,
    /// Lines that its kernel used.
    pub touched: KernelLines,
}

/// I/Os that a system call submits on Linux for x86-64; none if it is another one.
fn submits(number: u32, args: &[u64; 6]) -> u64 {
    match number {
        // pread64, pwrite64, preadv, pwritev, preadv2, pwritev2
        17 | 18 | 295 | 296 | 327 | 328 => 1,
        // io_submit, io_uring_enter: their second argument counts.
        209 | 426 => args[1],
        _ => 0,
    }
}

/// A CPU's walk through its recording.
struct Walk<'a> {
    program: Arc<Program>,
    fold: RepeatFold,
    beside: Option<&'a KernelLines>,
    /// Lines used since the last submission, and whether they were written.
    window: HashMap<u64, bool>,
    counts: IoCounts,
    touched: KernelLines,
}

impl Walk<'_> {
    fn run(&mut self, id: TemplateId, addresses: &[Address]) {
        let template = self.program.template(id);
        let block = self.program.block(template.block);
        let repeat = self.fold.is_repeat(&self.program, id);
        let executed = u64::from(template.executed) - u64::from(repeat);
        self.counts.instructions[usize::from(block.kernel)] += executed;
        if !block.kernel {
            return;
        }
        let retired = &self.program.instrs_of(block)[..usize::from(template.executed)];
        let locked = retired.iter().filter(|instr| instr.flags.has(InstrFlags::LOCKED)).count();
        self.counts.locked += locked as u64;
        for (site, address) in self.program.sites_of(template).iter().zip(addresses) {
            *self.window.entry(address.phys.0 >> LINE_SHIFT).or_default() |= site.write;
        }
    }

    /// A submission, or the end: what lies between two is a window.
    fn close_window(&mut self) {
        self.touched.close(&self.window);
        self.counts.lines += self.window.len() as u64;
        if let Some(beside) = self.beside {
            let held = |(&line, &written): (&u64, &bool)| beside.holds(line, written);
            self.counts.transfers += self.window.iter().map(held).sum::<f64>();
        }
        self.window.clear();
    }
}

/// Walks a recording of one CPU. Beside the lines of another, estimates how many of its own come
/// from there.
///
/// # Errors
/// If the underlying file is damaged or cannot be read.
pub fn io_path<S: Source>(
    mut source: S,
    beside: Option<&KernelLines>,
) -> Result<IoPath, TraceError> {
    let mut walk = Walk {
        program: Arc::clone(source.program()),
        fold: RepeatFold::default(),
        beside,
        window: HashMap::new(),
        counts: IoCounts::default(),
        touched: KernelLines::default(),
    };
    loop {
        match source.next_item()? {
            Item::Run(id) => walk.run(id, source.addresses()),
            Item::Event(Event::Interrupt { .. }) => walk.counts.interrupts += 1,
            Item::Event(Event::Syscall { number, ref args }) => {
                let ios = submits(number, args);
                if ios > 0 {
                    walk.close_window();
                    walk.counts.submissions += 1;
                    walk.counts.ios += ios;
                }
            }
            Item::Event(_) => {}
            Item::End => break,
        }
    }
    walk.close_window();
    Ok(IoPath { counts: walk.counts, touched: walk.touched })
}

#[cfg(test)]
mod tests {
    use halfwink_units::{PhysAddr, VirtAddr};

    use super::*;
    use crate::program::{Block, Site};
    use crate::record::Instr;
    use crate::script::Script;

    const SUBMIT_TWO: Event = Event::Syscall { number: 209, args: [0, 2, 0, 0, 0, 0] };
    const READ_ONE: Event = Event::Syscall { number: 17, args: [3, 0, 4096, 0, 0, 0] };
    const WAIT: Event = Event::Syscall { number: 208, args: [0, 1, 2, 0, 0, 0] };
    const TICK: Event = Event::Interrupt { vector: 236 };

    /// Ten instructions of user code; a kernel block of four, of which one is locked and writes,
    /// and one reads.
    fn script() -> (Script, TemplateId, TemplateId) {
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
        let mut four: Vec<Instr> = (0..4).map(|n| Instr::nop(n, 1)).collect();
        four[1].flags = InstrFlags::LOCKED;
        let kernel = program.push_block(block(0x2000, true), &four);
        let site = |instr, write| Site { instr, size: 8, write, group: 0 };
        let user = program.push_template(user, 10, &[]);
        let kernel = program.push_template(kernel, 4, &[site(1, true), site(2, false)]);
        (Script::new(Arc::new(program)), user, kernel)
    }

    fn at(lines: [u64; 2]) -> Vec<Address> {
        let address = |line| Address { virt: VirtAddr(0), phys: PhysAddr(64 * line + 8) };
        lines.map(address).into()
    }

    #[test]
    fn io_path_counts_instructions_of_submission_and_completion() {
        let (mut s, user, kernel) = script();
        s.run(user, vec![]).run(kernel, at([1, 2])).event(TICK);
        s.event(SUBMIT_TWO).run(kernel, at([1, 2])).run(kernel, at([1, 3]));
        s.event(WAIT).run(user, vec![]).event(TICK).run(kernel, at([1, 2]));
        s.event(READ_ONE).run(kernel, at([4, 5]));
        let found = io_path(s, None).unwrap();
        let expected = IoCounts {
            ios: 3,
            submissions: 2,
            instructions: [20, 20],
            locked: 5,
            interrupts: 2,
            // {1, 2}, {1, 2, 3} and {4, 5}.
            lines: 7,
            transfers: 0.0,
        };
        assert_eq!(found.counts, expected);
        assert_eq!(found.touched.len(), 5);
    }

    #[test]
    fn a_line_travels_if_either_writes_it() {
        let path = |pairs: &[[u64; 2]], beside: Option<&KernelLines>| {
            let (mut s, _, kernel) = script();
            for (n, &pair) in pairs.iter().enumerate() {
                if n > 0 {
                    s.event(READ_ONE);
                }
                s.run(kernel, at(pair));
            }
            io_path(s, beside).unwrap()
        };
        // Each pair is a line that is written and one that is read; theirs over four windows.
        let theirs = path(&[[2, 1], [6, 4], [2, 1], [2, 8]], None).touched;
        // 1 is written here and read there in half the windows; 2 is read here and written there
        // in three of four; 4 is read by both; 6 is written by both.
        let transfers = |pair| path(&[pair], Some(&theirs)).counts.transfers;
        assert_eq!(transfers([1, 3]), 0.5);
        assert_eq!(transfers([3, 2]), 0.75);
        assert_eq!(transfers([3, 4]), 0.0);
        assert_eq!(transfers([6, 5]), 0.25);
        assert_eq!(path(&[[1, 2], [6, 4]], Some(&theirs)).counts.transfers, 1.5);
    }

    #[test]
    fn without_submissions_there_are_no_ios() {
        let (mut s, user, _) = script();
        s.event(WAIT).run(user, vec![]);
        assert_eq!(io_path(s, None).unwrap().counts.ios, 0);
    }
}
