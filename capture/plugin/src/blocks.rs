// SPDX-License-Identifier: GPL-2.0-or-later
//! All blocks that QEMU has translated, each once however often it is translated again.

use std::collections::HashMap;

use crate::block::{BlockInfo, Definition};

/// Every block by its number.
#[derive(Debug, Default)]
pub struct Blocks {
    infos: Vec<BlockInfo>,
    definitions: Vec<Definition>,
    /// The writer knows it.
    defined: Vec<bool>,
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
        self.defined.push(false);
        number
    }

    /// What is known of a block.
    #[inline]
    #[must_use]
    pub fn info(&self, number: u32) -> &BlockInfo {
        &self.infos[number as usize]
    }

    /// The block's definition, the first time it is asked for.
    #[inline]
    pub fn take_definition(&mut self, number: u32) -> Option<Definition> {
        let defined = &mut self.defined[number as usize];
        if *defined {
            return None;
        }
        *defined = true;
        Some(self.definitions[number as usize].clone())
    }

    /// How many there are.
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
}
