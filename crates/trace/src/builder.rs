//! Blocks of invented code.

use halfwink_units::{PhysAddr, VirtAddr};

use crate::program::{Block, BlockId, Program, Site, TemplateId};
use crate::record::{Branch, Instr, Kind, RegSet};

/// Bytes of every instruction.
pub(crate) const INSTR_BYTES: u64 = 4;
/// Number of the status flags among the registers.
pub(crate) const FLAGS: u32 = 16;

/// Lays out the instructions of a block, four bytes each.
pub(crate) struct Builder<'a> {
    program: &'a mut Program,
    pc: u64,
    phys: u64,
    kernel: bool,
    instrs: Vec<Instr>,
    sites: Vec<Site>,
}

impl<'a> Builder<'a> {
    /// A block of user code whose physical address is its virtual one.
    pub(crate) fn new(program: &'a mut Program, pc: u64) -> Builder<'a> {
        let (instrs, sites) = (Vec::new(), Vec::new());
        Builder { program, pc, phys: pc, kernel: false, instrs, sites }
    }

    /// A block of a privilege at a physical address; it must not cross a page.
    pub(crate) fn at(program: &'a mut Program, pc: u64, phys: u64, kernel: bool) -> Builder<'a> {
        Builder { phys, kernel, ..Builder::new(program, pc) }
    }

    pub(crate) fn push(&mut self, kind: Kind, reads: &[u32], writes: &[u32]) -> &mut Instr {
        let set = |numbers: &[u32]| RegSet(numbers.iter().fold(0, |set, n| set | 1u64 << n));
        let offset = INSTR_BYTES as u16 * self.instrs.len() as u16;
        let (reads, writes) = (set(reads), set(writes));
        self.instrs.push(Instr { kind, reads, writes, ..Instr::nop(offset, INSTR_BYTES as u8) });
        self.instrs.last_mut().expect("just pushed")
    }

    /// An instruction with a memory operand addressed by register `base`.
    pub(crate) fn memory(
        &mut self,
        kind: Kind,
        write: bool,
        base: u32,
        reads: &[u32],
        writes: &[u32],
    ) {
        let instr = self.push(kind, reads, writes);
        instr.address = RegSet(1 << base);
        instr.reads = instr.reads.union(instr.address);
        let site = Site { instr: self.instrs.len() as u16 - 1, size: 8, write, group: base as u8 };
        self.sites.push(site);
    }

    /// Ends the block with a conditional branch on the flags.
    pub(crate) fn branch(mut self) -> TemplateId {
        self.push(Kind::Branch, &[FLAGS], &[]).branch = Branch::Conditional;
        self.finish()
    }

    /// Ends the block with another change of the flow of control.
    pub(crate) fn leave(mut self, branch: Branch) -> TemplateId {
        self.push(Kind::Branch, &[], &[]).branch = branch;
        self.finish()
    }

    /// The template in which all of the block is executed.
    pub(crate) fn finish(self) -> TemplateId {
        let block = Block {
            pc: VirtAddr(self.pc),
            phys: PhysAddr(self.phys),
            phys_next_page: PhysAddr((self.phys | 0xfff) + 1),
            kernel: self.kernel,
            first_instr: 0,
            instrs: 0,
        };
        let executed = self.instrs.len() as u16;
        let block: BlockId = self.program.push_block(block, &self.instrs);
        self.program.push_template(block, executed, &self.sites)
    }
}
