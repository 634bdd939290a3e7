//! The static side of a trace: which instructions there are, in which blocks, and in which shapes
//! the blocks were executed.

use halfwink_units::{PhysAddr, VirtAddr};

use crate::record::Instr;

/// Number of a [`Block`] within its [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Number of a [`Template`] within its [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId(pub u32);

/// A straight run of code with one entry at its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Virtual address of the first instruction.
    pub pc: VirtAddr,
    /// Physical address of the first instruction.
    pub phys: PhysAddr,
    /// Physical address where the block goes on if it crosses a page boundary.
    pub phys_next_page: PhysAddr,
    /// Runs with kernel privilege.
    pub kernel: bool,
    /// Index of its first instruction in [`Program::instrs`].
    pub first_instr: u32,
    /// Number of instructions (at least one).
    pub instrs: u16,
}

impl Block {
    /// Virtual address of one of its instructions. Foreign traces may hold any address: it wraps.
    #[must_use]
    #[inline]
    pub fn pc_of(&self, instr: &Instr) -> u64 {
        self.pc.0.wrapping_add(u64::from(instr.offset))
    }

    /// Virtual address behind one of its instructions.
    #[must_use]
    #[inline]
    pub fn end_of(&self, instr: &Instr) -> u64 {
        self.pc_of(instr).wrapping_add(u64::from(instr.len))
    }
}

/// One memory access that an execution of a block makes: everything but the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Which instruction of the block.
    pub instr: u16,
    /// Size of the access, in bytes.
    pub size: u8,
    /// A store rather than a load.
    pub write: bool,
    /// Accesses with the same group are likely near one another: the base register's number for
    /// captured code. Only the compression looks at it.
    pub group: u8,
}

/// Most groups a [`Site`] may name.
pub const GROUPS: usize = 32;

/// One way in which a block was executed: how far, and with which memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// The block that was executed, whole or up to `executed`.
    pub block: BlockId,
    /// Instructions that retired, from the first.
    pub executed: u16,
    /// Index of its first access in [`Program::sites`].
    pub first_site: u32,
    /// Number of accesses of the template.
    pub sites: u16,
}

/// All static tables of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Table of blocks by [`BlockId`].
    pub blocks: Vec<Block>,
    /// Instructions of all blocks, block after block.
    pub instrs: Vec<Instr>,
    /// Table of templates by [`TemplateId`].
    pub templates: Vec<Template>,
    /// Accesses of all templates, template after template.
    pub sites: Vec<Site>,
}

impl Program {
    /// The block with this number.
    #[must_use]
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// The template with this number.
    #[must_use]
    pub fn template(&self, id: TemplateId) -> &Template {
        &self.templates[id.0 as usize]
    }

    /// The instructions of a block.
    #[must_use]
    pub fn instrs_of(&self, block: &Block) -> &[Instr] {
        &self.instrs[block.first_instr as usize..][..usize::from(block.instrs)]
    }

    /// The accesses of a template, in the order they happen.
    #[must_use]
    pub fn sites_of(&self, template: &Template) -> &[Site] {
        &self.sites[template.first_site as usize..][..usize::from(template.sites)]
    }

    /// Appends a block to the table.
    pub fn push_block(&mut self, mut block: Block, instrs: &[Instr]) -> BlockId {
        block.first_instr = self.instrs.len() as u32;
        block.instrs = instrs.len() as u16;
        self.instrs.extend_from_slice(instrs);
        self.blocks.push(block);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Appends a template to the table.
    pub fn push_template(&mut self, block: BlockId, executed: u16, sites: &[Site]) -> TemplateId {
        let first_site = self.sites.len() as u32;
        self.sites.extend_from_slice(sites);
        self.templates.push(Template { block, executed, first_site, sites: sites.len() as u16 });
        TemplateId(self.templates.len() as u32 - 1)
    }

    /// Physical address of an instruction of a block.
    #[must_use]
    pub fn instr_phys(block: &Block, instr: &Instr) -> PhysAddr {
        const PAGE: u64 = 1 << halfwink_units::PAGE_SHIFT;
        let in_page = block.pc.0 % PAGE + u64::from(instr.offset);
        if in_page < PAGE {
            PhysAddr(block.phys.0.wrapping_add(u64::from(instr.offset)))
        } else {
            PhysAddr((block.phys_next_page.0 & !(PAGE - 1)).wrapping_add(in_page - PAGE))
        }
    }
}
