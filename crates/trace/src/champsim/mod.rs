//! ChampSim traces: 64-byte records, raw or compressed, in and out.
//!
//! ```text
//! ip u64 | is_branch u8 | taken u8 | results u8 x 2 | sources u8 x 4 | stores u64 x 2
//! | loads u64 x 4
//! ```
//!
//! They hold one address space and no privilege, sizes, kinds, lengths or physical addresses. On
//! import, accesses are of 8 bytes (less at a line's end), physical addresses are the virtual ones,
//! and lengths are learnt from where code goes on (`lengths.rs`); on export, what does not fit is
//! left out and the user is told how much.

mod export;
mod form;
mod import;
mod lengths;
#[cfg(test)]
mod return_tests;

pub use export::{export_champsim, ExportOptions};
pub(crate) use form::import_of;
pub use form::RecordForm;
pub use import::{import_champsim, ImportOptions};

use std::path::Path;

use crate::record::Branch;

/// Size of a record.
pub const RECORD_BYTES: usize = 64;
/// Registers with a meaning in ChampSim's rules for branches: Pin's numbers, from whose tracer the
/// format comes.
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// Compression of a file of records, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// The file is not compressed.
    Raw,
    /// The name ends in `.xz`.
    Xz,
    /// The name ends in `.gz`.
    Gzip,
    /// The name ends in `.bz2`.
    Bzip2,
}

impl Compression {
    /// Derives the compression from the end of a file name.
    #[must_use]
    pub fn of(path: &Path) -> Compression {
        match path.extension().and_then(|e| e.to_str()) {
            Some("xz") => Compression::Xz,
            Some("gz") => Compression::Gzip,
            Some("bz2") => Compression::Bzip2,
            _ => Compression::Raw,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) ip: u64,
    pub(super) is_branch: bool,
    pub(super) taken: bool,
    pub(super) results: [u8; 4],
    pub(super) sources: [u8; 4],
    pub(super) stores: [u64; 4],
    pub(super) loads: [u64; 4],
}

impl Record {
    /// Everything but addresses, and whether the branch was taken.
    pub(super) fn code(&self) -> [u8; 17] {
        let mut code = [0; 17];
        code[..8].copy_from_slice(&self.ip.to_le_bytes());
        code[8] = self.is_branch.into();
        code[9..13].copy_from_slice(&self.results);
        code[13..].copy_from_slice(&self.sources);
        code
    }

    /// As ChampSim's own record: two results, two stores.
    pub(super) fn bytes(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..8].copy_from_slice(&self.ip.to_le_bytes());
        out[8] = self.is_branch.into();
        out[9] = self.taken.into();
        out[10..12].copy_from_slice(&self.results[..2]);
        out[12..16].copy_from_slice(&self.sources);
        let words = self.stores[..2].iter().chain(&self.loads);
        for (place, word) in out[16..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// ChampSim's own rules (`inc/instruction.h`), which look at the special registers only: not at
    /// `is_branch`, so that what enters the kernel is no branch.
    pub(super) fn branch(&self) -> Branch {
        let reads = |r| self.sources.contains(&r);
        let writes = |r| self.results.contains(&r);
        let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
        let reads_other = self.sources.iter().any(|r| !special.contains(r));
        let (reads_ip, reads_flags) = (reads(INSTRUCTION_POINTER), reads(FLAGS));
        if !writes(INSTRUCTION_POINTER) {
            return Branch::None;
        }
        match (reads(STACK_POINTER), writes(STACK_POINTER)) {
            (false, _) if !reads_flags && !reads_other => Branch::Jump,
            (false, _) if !reads_flags && !reads_ip => Branch::IndirectJump,
            (true, true) if !reads_ip => Branch::Return,
            (true, true) if !reads_flags && reads_other => Branch::IndirectCall,
            (true, true) if !reads_flags => Branch::Call,
            // Of those that fit nowhere, ChampSim predicts the direction.
            _ => Branch::Conditional,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TraceError;
    use crate::format::{BlockDef, Code, CodeForm, Header, TraceFile, TraceWriter};
    use crate::program::BlockId;
    use crate::source::{Item, Source};
    use crate::synthetic::{Kernel, Synthetic};

    fn import(bytes: &[u8]) -> Result<TraceFile, TraceError> {
        let options = ImportOptions {
            workload: "test".into(),
            origin: "a test".into(),
            limit: None,
            level: 3,
        };
        let budget = halfwink_inputs::Budget::new(1 << 30);
        let input = halfwink_inputs::unpack(bytes, &budget)
            .map_err(|e| TraceError::at(0, crate::error::Problem::Io(e)))?;
        let (_, out) = import_champsim(input, RecordForm::Own, &options, Vec::new())?;
        TraceFile::from_bytes(out)
    }

    /// A trace of a synthetic loop.
    fn recorded() -> TraceFile {
        let header = Header::new("mixed", "a test", CodeForm::Decoded);
        let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
        let spec = Synthetic {
            kernel: Kernel::Mixed,
            footprint: 1 << 16,
            instructions: 20_000,
            seed: 3,
            duty: None,
        };
        let mut source = spec.source();
        let program = std::sync::Arc::clone(source.program());
        let blocks: Vec<BlockId> = program
            .blocks
            .iter()
            .map(|b| {
                let code = Code::Decoded(program.instrs_of(b));
                let (pc, phys, phys_next_page) = (b.pc, b.phys, b.phys_next_page);
                let def = BlockDef { pc, phys, phys_next_page, kernel: false, code };
                writer.define_block(&def).unwrap()
            })
            .collect();
        while let Item::Run(id) = source.next_item().unwrap() {
            let template = program.template(id);
            let block = blocks[template.block.0 as usize];
            let sites = program.sites_of(template);
            writer.run_as(block, template.executed, sites, source.addresses()).unwrap();
        }
        TraceFile::from_bytes(writer.finish().unwrap().1).unwrap()
    }

    fn everything(file: &TraceFile) -> Vec<(u64, Branch, Vec<u64>)> {
        let mut stream = file.stream();
        let program = std::sync::Arc::clone(stream.program());
        let mut out = Vec::new();
        loop {
            match stream.next_item().unwrap() {
                Item::End => return out,
                Item::Event(_) => {}
                Item::Run(id) => {
                    let template = program.template(id);
                    let block = program.block(template.block);
                    let sites = program.sites_of(template);
                    for (n, instr) in program.instrs_of(block).iter().enumerate() {
                        let own = sites.iter().zip(stream.addresses());
                        let own = own.filter(|(s, _)| usize::from(s.instr) == n);
                        let at = own.map(|(_, a)| a.virt.0).collect();
                        out.push((block.pc_of(instr), instr.branch, at));
                    }
                }
            }
        }
    }

    #[test]
    fn export_and_import_keep_instructions_branches_and_addresses() {
        let file = recorded();
        let all = ExportOptions { user: true, kernel: true, limit: None };
        for compression in
            [Compression::Raw, Compression::Xz, Compression::Gzip, Compression::Bzip2]
        {
            let mut bytes = Vec::new();
            let done = export_champsim(&file, all, &mut bytes, compression).unwrap();
            assert_eq!(done.records, file.footer().totals.instructions);
            assert_eq!(done.accesses_left_out, 0);
            let again = import(&bytes).unwrap();
            assert_eq!(everything(&again), everything(&file));
        }
    }

    #[test]
    fn limit_of_import_counts_records() {
        let file = recorded();
        let some = ExportOptions { user: true, kernel: true, limit: Some(1001) };
        let mut bytes = Vec::new();
        export_champsim(&file, some, &mut bytes, Compression::Raw).unwrap();
        assert_eq!(bytes.len(), 1001 * RECORD_BYTES);
    }

    #[test]
    fn broken_records_are_one_line_with_the_offset() {
        let mut record = [0; 64];
        record[2] = 0x40;
        let error = import(&record.repeat(2)[..100]).unwrap_err().to_string();
        assert_eq!(
            error,
            "offset 64: the records end in the middle of one: 36 of 64 bytes; is this a ChampSim \
             trace?"
        );
        assert!(import(&[]).unwrap_err().to_string().contains("no instructions"));
        let error = import(b"\x1f\x8b\x08this is not gzip").unwrap_err().to_string();
        assert!(error.contains("packed by gzip, and damaged"), "{error}");
    }
}
