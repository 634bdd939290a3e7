//! A dictionary section: the blocks and templates that appear first in the chunk behind it.

use std::collections::HashMap;

use halfwink_units::{PhysAddr, VirtAddr, PAGE_SHIFT};

use super::bytes::{put_varint, unzigzag, zigzag, Column};
use super::header::CodeForm;
use super::section::{put_column, take_column, take_u32};
use crate::decode::decode_block;
use crate::error::{corrupt, TraceError};
use crate::program::{Block, BlockId, Program, Site, GROUPS};
use crate::record::{Branch, Instr, InstrFlags, Kind, RegSet};

/// Longest block, in instructions. At 15 bytes each it stays below 64 KiB, so that an offset in it
/// has 16 bits.
pub(crate) const MAX_BLOCK_INSTRS: u64 = 4096;
/// Most accesses of one execution of a block.
pub(crate) const MAX_SITES: u64 = 16384;

/// An instruction apart from its place: few thousand differ in a whole kernel.
type Form = (u8, Kind, Branch, InstrFlags, RegSet, RegSet, RegSet);

fn form_of(instr: &Instr) -> Form {
    (instr.len, instr.kind, instr.branch, instr.flags, instr.reads, instr.writes, instr.address)
}

/// Writes dictionary sections, each with what is new since the last.
#[derive(Default)]
pub(crate) struct DictionaryEncoder {
    blocks_done: usize,
    templates_done: usize,
    forms: HashMap<Form, u64>,
    last_pc: u64,
    last_page: u64,
    last_block: u64,
}

impl DictionaryEncoder {
    /// True if `program` has something that no section holds yet.
    pub(crate) fn is_behind(&self, program: &Program) -> bool {
        self.templates_done < program.templates.len() || self.blocks_done < program.blocks.len()
    }

    /// The section body. `code` holds the bytes of every block, where they are kept.
    pub(crate) fn encode(
        &mut self,
        program: &Program,
        code: Option<&[Vec<u8>]>,
        level: i32,
    ) -> std::io::Result<Vec<u8>> {
        let new_blocks = &program.blocks[self.blocks_done..];
        let new_templates = &program.templates[self.templates_done..];
        // Like beside like: lengths repeat among lengths and code among code, for zstd to find.
        let mut columns = [const { Vec::new() }; 4];
        let [heads, instrs, forms, shapes] = &mut columns;
        for (i, block) in new_blocks.iter().enumerate() {
            self.put_block(heads, block);
            for instr in program.instrs_of(block) {
                match code {
                    Some(_) => instrs.push(instr.len),
                    None => self.put_form(instrs, forms, instr),
                }
            }
            if let Some(code) = code {
                forms.extend_from_slice(&code[self.blocks_done + i]);
            }
        }
        for template in new_templates {
            let block = u64::from(template.block.0);
            put_varint(shapes, zigzag(block.wrapping_sub(self.last_block)));
            self.last_block = block;
            // What is missing, not what ran: nearly always zero.
            put_varint(shapes, (program.block(template.block).instrs - template.executed).into());
            put_varint(shapes, template.sites.into());
            let mut instr = 0;
            for site in program.sites_of(template) {
                put_varint(shapes, zigzag(u64::from(site.instr).wrapping_sub(instr)));
                instr = site.instr.into();
                shapes.extend([site.size, site.group << 1 | u8::from(site.write)]);
            }
        }
        let mut body = Vec::new();
        body.extend_from_slice(&(new_blocks.len() as u32).to_le_bytes());
        body.extend_from_slice(&(new_templates.len() as u32).to_le_bytes());
        for column in &columns {
            put_column(&mut body, column, level)?;
        }
        self.blocks_done = program.blocks.len();
        self.templates_done = program.templates.len();
        Ok(body)
    }

    fn put_block(&mut self, heads: &mut Vec<u8>, block: &Block) {
        put_varint(heads, zigzag(block.pc.0.wrapping_sub(self.last_pc)));
        self.last_pc = block.pc.0;
        for page in [block.phys.0 >> PAGE_SHIFT, block.phys_next_page.0 >> PAGE_SHIFT] {
            put_varint(heads, zigzag(page.wrapping_sub(self.last_page)));
            self.last_page = page;
        }
        put_varint(heads, u64::from(block.instrs) << 1 | u64::from(block.kernel));
    }

    fn put_form(&mut self, instrs: &mut Vec<u8>, forms: &mut Vec<u8>, instr: &Instr) {
        let next = self.forms.len() as u64;
        let number = *self.forms.entry(form_of(instr)).or_insert(next);
        put_varint(instrs, number);
        if number == next {
            forms.extend([instr.len, instr.kind as u8, instr.branch as u8, instr.flags.0]);
            for set in [instr.reads, instr.writes, instr.address] {
                put_varint(forms, set.0);
            }
        }
    }
}

/// Reads dictionary sections in file order into a [`Program`].
pub(crate) struct DictionaryDecoder {
    code: CodeForm,
    forms: Vec<Form>,
    last_pc: u64,
    last_page: u64,
    last_block: u64,
    /// Instruction bytes of every block, where the file holds them.
    pub(crate) bytes: Vec<Vec<u8>>,
}

impl DictionaryDecoder {
    pub(crate) fn new(code: CodeForm) -> DictionaryDecoder {
        DictionaryDecoder {
            code,
            forms: Vec::new(),
            last_pc: 0,
            last_page: 0,
            last_block: 0,
            bytes: Vec::new(),
        }
    }

    /// Adds the section in `body`, which began at file `offset`.
    pub(crate) fn decode(
        &mut self,
        mut body: &[u8],
        offset: u64,
        program: &mut Program,
    ) -> Result<(), TraceError> {
        let blocks = take_u32(&mut body, "a dictionary", offset)?;
        let templates = take_u32(&mut body, "a dictionary", offset)?;
        let mut heads = take_column(&mut body, "the block column", offset)?;
        let mut instrs = take_column(&mut body, "the instruction column", offset)?;
        let mut forms = take_column(&mut body, "the code column", offset)?;
        let mut shapes = take_column(&mut body, "the template column", offset)?;
        if !body.is_empty() {
            return Err(corrupt(offset, "a dictionary", "bytes follow its last column"));
        }
        let mut decoded = Vec::new();
        // Nothing is reserved by these counts: each block takes bytes of a column, whose length is
        // bounded, and a count that is too high ends with the column.
        for _ in 0..blocks {
            let block = self.take_block(&mut heads)?;
            decoded.clear();
            match self.code {
                CodeForm::Bytes => self.take_bytes(&block, &mut instrs, &mut forms, &mut decoded),
                CodeForm::Decoded => self.take_forms(&block, &mut instrs, &mut forms, &mut decoded),
            }?;
            program.push_block(block, &decoded);
        }
        let mut sites = Vec::new();
        for _ in 0..templates {
            let (block, executed) = self.take_template(&mut shapes, &mut sites, program)?;
            program.push_template(block, executed, &sites);
        }
        for column in [&heads, &instrs, &forms, &shapes] {
            if !column.is_done() {
                return Err(column.fail("it holds more values than announced"));
            }
        }
        Ok(())
    }

    fn take_block(&mut self, heads: &mut Column) -> Result<Block, TraceError> {
        self.last_pc = self.last_pc.wrapping_add(unzigzag(heads.varint()?));
        let mut pages = [0; 2];
        for page in &mut pages {
            self.last_page = self.last_page.wrapping_add(unzigzag(heads.varint()?));
            *page = self.last_page << PAGE_SHIFT;
        }
        let pc = VirtAddr(self.last_pc);
        let packed = heads.varint_below(2 * MAX_BLOCK_INSTRS + 2, "the length of a block")?;
        if packed >> 1 == 0 {
            return Err(heads.fail("a block has no instructions"));
        }
        Ok(Block {
            pc,
            phys: PhysAddr(pages[0] | pc.0 & ((1 << PAGE_SHIFT) - 1)),
            phys_next_page: PhysAddr(pages[1]),
            kernel: packed & 1 == 1,
            first_instr: 0,
            instrs: (packed >> 1) as u16,
        })
    }

    fn take_bytes(
        &mut self,
        block: &Block,
        lengths: &mut Column,
        code: &mut Column,
        out: &mut Vec<Instr>,
    ) -> Result<(), TraceError> {
        // Decoded each time a file is opened, and not stored decoded: bytes are smaller, and a
        // better decoder is of use to old traces too.
        let lengths_of_block = lengths.slice(block.instrs.into())?.to_vec();
        let total = lengths_of_block.iter().map(|&l| usize::from(l)).sum();
        let bytes = code.slice(total)?.to_vec();
        decode_block(block.pc, &bytes, &lengths_of_block, out);
        self.bytes.push(bytes);
        Ok(())
    }

    fn take_forms(
        &mut self,
        block: &Block,
        numbers: &mut Column,
        forms: &mut Column,
        out: &mut Vec<Instr>,
    ) -> Result<(), TraceError> {
        let mut offset = 0u16;
        for _ in 0..block.instrs {
            let known = self.forms.len() as u64;
            let number = numbers.varint_below(known + 1, "an instruction form")? as usize;
            // The next number is a form that is new, and follows in the other column.
            if number as u64 == known {
                let form = take_form(forms)?;
                self.forms.push(form);
            }
            let (len, kind, branch, flags, reads, writes, address) = self.forms[number];
            out.push(Instr { reads, writes, address, offset, len, kind, branch, flags });
            offset = offset.saturating_add(len.into());
        }
        Ok(())
    }

    fn take_template(
        &mut self,
        shapes: &mut Column,
        sites: &mut Vec<Site>,
        program: &Program,
    ) -> Result<(BlockId, u16), TraceError> {
        self.last_block = self.last_block.wrapping_add(unzigzag(shapes.varint()?));
        let Some(block) = program.blocks.get(self.last_block as usize) else {
            return Err(shapes.fail(format!("a template names block {}", self.last_block)));
        };
        let missing = shapes.varint_below(u64::from(block.instrs) + 1, "a template's length")?;
        let executed = block.instrs - missing as u16;
        let count = shapes.varint_below(MAX_SITES + 1, "a template's number of accesses")?;
        sites.clear();
        let mut instr = 0u64;
        for _ in 0..count {
            instr = instr.wrapping_add(unzigzag(shapes.varint()?));
            // Of the block, not of what was executed: an instruction that faulted made accesses.
            if instr >= u64::from(block.instrs) {
                return Err(shapes.fail("an access names an instruction outside its block"));
            }
            let size = shapes.byte()?;
            let packed = shapes.byte()?;
            if size == 0 || usize::from(packed >> 1) >= GROUPS {
                return Err(shapes.fail("an access has an impossible size or group"));
            }
            let (group, write) = (packed >> 1, packed & 1 == 1);
            sites.push(Site { instr: instr as u16, size, write, group });
        }
        Ok((BlockId(self.last_block as u32), executed))
    }
}

fn take_form(forms: &mut Column) -> Result<Form, TraceError> {
    let [len, kind, branch, flags] = [forms.byte()?, forms.byte()?, forms.byte()?, forms.byte()?];
    let mut sets = [RegSet::EMPTY; 3];
    for set in &mut sets {
        set.0 = forms.varint_below(1 << RegSet::COUNT, "a register set")?;
    }
    let [reads, writes, address] = sets;
    let (Some(kind), Some(branch)) = (Kind::from_u8(kind), Branch::from_u8(branch)) else {
        return Err(forms.fail(format!("it holds the unknown kind {kind} or branch {branch}")));
    };
    let flags = InstrFlags(flags);
    if len == 0 || !InstrFlags::KNOWN.has(flags) || !reads.contains(address) {
        return Err(forms.fail("an instruction's length, flags or registers are impossible"));
    }
    Ok((len, kind, branch, flags, reads, writes, address))
}
