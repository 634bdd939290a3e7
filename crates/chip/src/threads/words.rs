//! The words that threads synchronise by.

use std::sync::Arc;

use halfwink_trace::{InstrFlags, Item, Program, Source, Template, TraceError};

use crate::number_set::NumberSet;

/// Bytes of a word, as a power of two: a futex has four.
const WORD_SHIFT: u32 = 2;

/// Aligned words of four bytes, by number, that any thread accesses by an atomic instruction.
#[derive(Debug)]
pub(super) struct Words(NumberSet);

impl Words {
    /// Finds the words of a whole recording.
    ///
    /// # Errors
    /// If the recording is damaged.
    pub(super) fn of(source: &mut dyn Source) -> Result<Words, TraceError> {
        let program = Arc::clone(source.program());
        let has_atomics: Vec<bool> = program
            .templates
            .iter()
            .map(|template| atomics(&program, template).any(|a| a))
            .collect();
        let mut words = NumberSet::default();
        loop {
            match source.next_item()? {
                Item::Run(id) if has_atomics[id.0 as usize] => {
                    let template = program.template(id);
                    let sites = program.sites_of(template).iter().zip(source.addresses());
                    for ((site, address), is_atomic) in sites.zip(atomics(&program, template)) {
                        if is_atomic {
                            for word in words_of(address.phys.0, site.size) {
                                words.add(word);
                            }
                        }
                    }
                }
                Item::Run(_) | Item::Event(_) => {}
                Item::End => return Ok(Words(words)),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the synchronisation words, by number, that an access of `size` bytes touches.
    #[inline]
    pub(super) fn touched(&self, byte: u64, size: u8) -> impl Iterator<Item = u64> + '_ {
        words_of(byte, size).filter(|&word| self.0.has(word))
    }

    /// True if an access of `size` bytes touches any.
    #[inline]
    pub(super) fn touch(&self, byte: u64, size: u8) -> bool {
        self.touched(byte, size).next().is_some()
    }
}

/// Numbers of the words that lie in `size` bytes from `byte`.
#[inline]
fn words_of(byte: u64, size: u8) -> impl Iterator<Item = u64> {
    let last = byte.saturating_add(u64::from(size.max(1)) - 1);
    (byte >> WORD_SHIFT)..=(last >> WORD_SHIFT)
}

/// Returns for each access of a template whether an atomic instruction makes it.
fn atomics<'a>(program: &'a Program, template: &'a Template) -> impl Iterator<Item = bool> + 'a {
    let instrs = program.instrs_of(program.block(template.block));
    program.sites_of(template).iter().map(|site| {
        let instr = instrs.get(usize::from(site.instr));
        instr.is_some_and(|instr| instr.flags.has(InstrFlags::LOCKED))
    })
}
