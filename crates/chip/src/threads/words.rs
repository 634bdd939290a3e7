//! The words that threads synchronise by.

use std::sync::Arc;

use halfwink_trace::{InstrFlags, Item, Program, Source, Template, TraceError};
use halfwink_units::LINE_SHIFT;

/// Bytes of a word, as a power of two: a futex has four.
const WORD_SHIFT: u32 = 2;
/// Words of a line: as many as a mask has bits.
const WORDS: u64 = 1 << (LINE_SHIFT - WORD_SHIFT);
const _: () = assert!(WORDS == u16::BITS as u64);

/// Aligned words of four bytes that any thread accesses by an atomic instruction.
#[derive(Debug)]
pub(super) struct Words {
    /// Lines that hold some, and [`EMPTY`]; open addressing.
    lines: Box<[u64]>,
    /// Synchronisation words of each line, a bit each.
    masks: Box<[u16]>,
    held: usize,
}

/// No line: physical addresses are shorter.
const EMPTY: u64 = u64::MAX;

impl Words {
    fn new() -> Words {
        Words { lines: vec![EMPTY; 64].into(), masks: vec![0; 64].into(), held: 0 }
    }

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
        let mut words = Words::new();
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
                Item::End => return Ok(words),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Returns the place of a line, present or not: at most half of all places are taken.
    #[inline]
    fn place(&self, line: u64) -> usize {
        let mask = self.lines.len() - 1;
        // Fibonacci hashing (Knuth, TAOCP 3, Sec 6.4).
        let mut place = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.lines[place] != line && self.lines[place] != EMPTY {
            place = (place + 1) & mask;
        }
        place
    }

    fn add(&mut self, word: u64) {
        if 2 * (self.held + 1) > self.lines.len() {
            let places = 2 * self.lines.len();
            let old = (std::mem::take(&mut self.lines), std::mem::take(&mut self.masks));
            (self.lines, self.masks) = (vec![EMPTY; places].into(), vec![0; places].into());
            for (&line, &mask) in old.0.iter().zip(&old.1).filter(|(&line, _)| line != EMPTY) {
                let place = self.place(line);
                (self.lines[place], self.masks[place]) = (line, mask);
            }
        }
        let place = self.place(word / WORDS);
        self.held += usize::from(self.lines[place] == EMPTY);
        self.lines[place] = word / WORDS;
        self.masks[place] |= 1 << (word % WORDS);
    }

    #[inline]
    fn has(&self, word: u64) -> bool {
        // An empty place has no words.
        self.masks[self.place(word / WORDS)] >> (word % WORDS) & 1 == 1
    }

    /// Returns the synchronisation words, by number, that an access of `size` bytes touches.
    #[inline]
    pub(super) fn touched(&self, byte: u64, size: u8) -> impl Iterator<Item = u64> + '_ {
        words_of(byte, size).filter(|&word| self.has(word))
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
