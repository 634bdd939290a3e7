// SPDX-License-Identifier: GPL-2.0-or-later
//! All blocks that QEMU has translated, each once however often it is translated again.

use std::collections::HashMap;

use crate::block::{BlockInfo, Definition};

/// No turn has this number.
const NEVER: u64 = u64::MAX;

/// Every block by its number.
#[derive(Debug, Default)]
pub struct Blocks {
    infos: Vec<BlockInfo>,
    definitions: Vec<Definition>,
    /// Last execution of each translation: its turn, and its block.
    seen: Vec<(u64, u32)>,
    by_pc: HashMap<u64, Vec<u32>>,
}

impl Blocks {
    /// The number of a block, new or known.
    pub fn intern(&mut self, definition: Definition) -> u32 {
        let same_pc = self.by_pc.entry(definition.pc).or_default();
        let known = same_pc.iter().find(|&&n| self.definitions[n as usize] == definition);
        if let Some(&number) = known {
            return number;
        }
        let number = self.infos.len() as u32;
        same_pc.push(number);
        self.infos.push(BlockInfo::new(&definition));
        self.definitions.push(definition);
        self.seen.push((NEVER, number));
        number
    }

    /// The block that the translation of block `home` stands for in this `turn` (a stretch with
    /// one address space), if that is known.
    ///
    /// QEMU translates a page of code once, wherever it is mapped: translations of a library's
    /// code serve all processes, but tell the address that the first one has it at.
    #[inline]
    #[must_use]
    pub fn placed(&self, home: u32, turn: u64) -> Option<u32> {
        let (seen, block) = self.seen[home as usize];
        (seen == turn).then_some(block)
    }

    /// The translation of block `home` runs at `pc` in this turn: as which block.
    pub fn place(&mut self, home: u32, turn: u64, pc: u64) -> u32 {
        let definition = &self.definitions[home as usize];
        let block = if definition.pc == pc {
            home
        } else {
            let moved = Definition { pc, ..definition.clone() };
            self.intern(moved)
        };
        self.seen[home as usize] = (turn, block);
        block
    }

    /// Returns the properties of a block.
    #[inline]
    #[must_use]
    pub fn info(&self, number: u32) -> &BlockInfo {
        &self.infos[number as usize]
    }

    /// Returns the definition of a block.
    #[must_use]
    pub fn definition(&self, number: u32) -> &Definition {
        &self.definitions[number as usize]
    }

    /// The block's definition, the first time it is asked for.
    pub fn take_definition(&mut self, number: u32) -> Option<Definition> {
        let info = &mut self.infos[number as usize];
        if info.defined {
            return None;
        }
        info.defined = true;
        Some(self.definitions[number as usize].clone())
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.infos.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.infos.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nops(pc: u64, count: usize) -> Definition {
        let (bytes, lengths) = (vec![0x90; count], vec![1; count]);
        Definition { pc, phys: 0, phys_next_page: 0, bytes, lengths }
    }

    #[test]
    fn equal_blocks_are_one() {
        let mut blocks = Blocks::default();
        let a = blocks.intern(nops(64, 3));
        let shorter = blocks.intern(nops(64, 2));
        assert_ne!(a, shorter);
        assert_eq!(blocks.intern(nops(64, 3)), a);
        assert_eq!((blocks.len(), blocks.is_empty()), (2, false));
        assert_eq!(blocks.take_definition(a), Some(nops(64, 3)));
        assert_eq!(blocks.take_definition(a), None);
        assert_eq!(blocks.info(shorter).end, 66);
    }

    #[test]
    fn shared_code_has_an_address_in_each_process() {
        let mut blocks = Blocks::default();
        let home = blocks.intern(nops(0x1040, 3));
        assert_eq!(blocks.placed(home, 1), None);
        assert_eq!(blocks.place(home, 1, 0x1040), home);
        assert_eq!(blocks.placed(home, 1), Some(home));
        assert_eq!(blocks.placed(home, 2), None, "another process");
        let moved = blocks.place(home, 2, 0x7040);
        assert_eq!(blocks.placed(home, 2), Some(moved));
        assert_eq!((blocks.info(moved).pc, blocks.info(moved).end), (0x7040, 0x7043));
        assert_eq!(blocks.place(home, 3, 0x7040), moved);
    }
}
