//! The invented code of a service, and where it lies.

use std::ops::Range;

use super::calls::{length, VARIANTS};
use super::model::ServiceModel;
use super::random::Random;
use crate::builder::{Builder, FLAGS, INSTR_BYTES};
use crate::program::{Program, TemplateId};
use crate::record::{Branch, Kind};
use crate::synthetic::scattered;

/// Bytes of a page.
pub(super) const PAGE: u64 = 1 << halfwink_units::PAGE_SHIFT;
/// Bytes of a cache line.
pub(super) const LINE: u64 = 1 << halfwink_units::LINE_SHIFT;
/// First addresses of user code and of kernel code.
const USER_CODE: u64 = 0x40_0000;
const KERNEL_CODE: u64 = 0xffff_ffff_8100_0000;
/// Longest piece of code that ends a run; blocks are shorter.
pub(super) const TAIL: usize = 16;
/// Instructions of a block: 4 to 12.
const BLOCK: (u64, u64) = (4, 9);
/// Mean number of instructions of a block.
pub(super) const BLOCK_MEAN: f64 = 8.0;
/// Three instructions in ten access memory, and a third of these write (assumption: as the shipped
/// servers, about).
pub(super) const ACCESSES: f64 = 0.3;
/// Blocks of a function of user code: 64 instructions.
const FUNCTION: usize = 8;

/// Code, as templates by what they are for.
#[derive(Debug)]
pub(super) struct Code {
    pub program: Program,
    /// Functions of user code.
    pub functions: Vec<Range<u32>>,
    /// The kernel's path for each cause.
    pub routines: Vec<Range<u32>>,
    /// Ends of runs by length: user runs that an exception or interrupt ends, those that a system
    /// call ends, invocations that return by `iret`, and by `sysret`.
    pub tails: [[TemplateId; TAIL + 1]; 4],
    /// Template that copies a line.
    pub copy: TemplateId,
    /// Bytes of user code and of the kernel's.
    pub bytes: [u64; 2],
}

/// Templates that end a user run by an exception, by a system call; an invocation by `iret`, by
/// `sysret`.
pub(super) const TAIL_ENDS: [Branch; 4] =
    [Branch::None, Branch::Syscall, Branch::Iret, Branch::Sysret];

/// Instructions and addresses of the copying loop: eight words, the counter, the branch.
pub(super) const COPY: u32 = 18;

struct Layout {
    program: Program,
    random: Random,
    /// Bytes laid out, and where those of this side start: virtual, physical.
    bytes: u64,
    origin: (u64, u64),
    kernel: bool,
}

impl Layout {
    /// Places a block of `instrs` instructions so that it does not cross the end of a page.
    fn place(&mut self, instrs: usize) -> (u64, u64) {
        let length = INSTR_BYTES * instrs as u64;
        if self.bytes % PAGE + length > PAGE {
            self.bytes = (self.bytes / PAGE + 1) * PAGE;
        }
        let at = self.bytes;
        self.bytes += length;
        (self.origin.0 + at, scattered(self.origin.1 + at))
    }

    /// A block, ended by `end` or going on.
    fn block(&mut self, instrs: usize, end: Branch) -> TemplateId {
        let (pc, phys) = self.place(instrs);
        let mut b = Builder::at(&mut self.program, pc, phys, self.kernel);
        let body = if end == Branch::None { instrs } else { instrs - 1 };
        for _ in 0..body {
            instruction(&mut b, &mut self.random);
        }
        match end {
            Branch::None => b.finish(),
            Branch::Conditional => b.branch(),
            other => b.leave(other),
        }
    }

    fn walk(&mut self, blocks: usize) -> Range<u32> {
        let first = self.program.templates.len() as u32;
        for _ in 0..blocks {
            let instrs = BLOCK.0 + self.random.below(BLOCK.1);
            self.block(instrs as usize, Branch::Conditional);
        }
        first..self.program.templates.len() as u32
    }

    fn tails(&mut self, end: Branch) -> [TemplateId; TAIL + 1] {
        let mut tails = [TemplateId(0); TAIL + 1];
        for (n, tail) in tails.iter_mut().enumerate().skip(1) {
            *tail = self.block(n, end);
        }
        tails
    }

    fn copy(&mut self) -> TemplateId {
        let (pc, phys) = self.place(COPY as usize);
        let mut b = Builder::at(&mut self.program, pc, phys, self.kernel);
        for n in 0..8 {
            b.memory(Kind::Move, false, 6, &[], &[8 + n]);
            b.memory(Kind::Move, true, 7, &[8 + n], &[]);
        }
        b.push(Kind::IntAlu, &[1], &[1, FLAGS]);
        b.branch()
    }
}

/// An instruction that computes or accesses memory.
fn instruction(b: &mut Builder<'_>, random: &mut Random) {
    const VALUES: [u32; 8] = [0, 1, 2, 8, 9, 10, 11, 14];
    const BASES: [u32; 4] = [3, 5, 6, 7];
    let bits = random.bits();
    let value = |at: u32| VALUES[(bits >> at) as usize & 7];
    let base = BASES[(bits >> 10) as usize & 3];
    let ticket = (bits >> 40) as f64 / (1u64 << 24) as f64;
    if ticket < ACCESSES / 3.0 {
        b.memory(Kind::Move, true, base, &[value(0)], &[]);
    } else if ticket < ACCESSES {
        b.memory(Kind::Move, false, base, &[], &[value(0)]);
    } else {
        b.push(Kind::IntAlu, &[value(0), value(3)], &[value(0), FLAGS]);
    }
}

impl Code {
    /// The code of a model: the same for every seed of the stream.
    pub(super) fn new(model: &ServiceModel) -> Code {
        let (program, random) = (Program::default(), Random::new(0));
        let mut layout =
            Layout { program, random, bytes: 0, origin: (USER_CODE, 0), kernel: false };
        let plain = layout.tails(TAIL_ENDS[0]);
        let calling = layout.tails(TAIL_ENDS[1]);
        let mut functions = Vec::new();
        while functions.is_empty() || layout.bytes < model.user_code {
            functions.push(layout.walk(FUNCTION));
        }
        let user = layout.bytes.next_multiple_of(PAGE);
        layout = Layout { bytes: 0, origin: (KERNEL_CODE, user), kernel: true, ..layout };
        let (iret, sysret) = (layout.tails(TAIL_ENDS[2]), layout.tails(TAIL_ENDS[3]));
        let copy = layout.copy();
        let mut routines = Vec::new();
        for class in model.classes {
            let longest = f64::from(length(class, VARIANTS - 1));
            let blocks = (longest / (BLOCK_MEAN * model.kernel.reuse)).ceil() as usize;
            routines.extend(class.causes.iter().map(|_| layout.walk(blocks)));
        }
        let kernel = layout.bytes.next_multiple_of(PAGE);
        let tails = [plain, calling, iret, sysret];
        let program = layout.program;
        Code { program, functions, routines, tails, copy, bytes: [user, kernel] }
    }
}
