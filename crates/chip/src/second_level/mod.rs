//! What reaches a core's second level, recorded once and played through any number of caches
//! (Nellans 2014, ch. 5).
//!
//! No level includes another here, so what the first levels hold, and hence what they ask the
//! second level for, does not depend on it. A trace is walked once; a second level is then a matter
//! of some hundred nanoseconds per thousand instructions, not of a simulation.
//!
//! **Time** is the model of the dissertation: an instruction a cycle, and every look-up of the
//! second level stalls for its latency, every miss for memory's too (Sec 4.5.2, 5.1). It is linear
//! in what is counted, so one replay gives the time for any latencies. The simulated chip, which
//! has a store queue and memory channels, is beside it in the tests.

mod distances;
mod replay;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use halfwink_policy::segregation::Rule;
use halfwink_trace::{Item, RepeatFold, Source, TraceError, WarmSet};

use crate::cache::{flag, Cache, Victim};
use crate::lines::{LineTouch, LineWalk};
use crate::machine::Geometry;
use crate::ruled::{signature, Reference, RuledCache};
pub use distances::{stack_distances, StackDistances};
pub use replay::{replay, Cost, Latencies, ReplayError, ReplaySetup, Replayed, Sides};

/// A reference with what ran since the one before, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The line in the bits from [`LINE_BIT`], a signature of the instruction below, flags lowest.
    word: u64,
    /// Instructions retired since the last reference (user, kernel).
    retired: [u32; 2],
}

const CODE: u64 = 1;
const KERNEL: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const WRITE_BACK: u64 = 1 << 3;
const SIGNATURE_BIT: u32 = 4;
const SIGNATURE_BITS: u32 = 14;
const LINE_BIT: u32 = SIGNATURE_BIT + SIGNATURE_BITS;

impl Record {
    pub(crate) fn reference(self) -> Reference {
        Reference {
            line: self.word >> LINE_BIT,
            kernel: self.word & KERNEL != 0,
            code: self.word & CODE != 0,
            pc: self.word >> SIGNATURE_BIT & ((1 << SIGNATURE_BITS) - 1),
        }
    }

    /// Asked for by a store, which need not wait.
    pub(crate) fn is_write(self) -> bool {
        self.word & WRITE != 0
    }

    /// A dirty line that left the first level; its side is that of who had brought it there.
    pub(crate) fn is_write_back(self) -> bool {
        self.word & WRITE_BACK != 0
    }
}

/// References to the second level, in order.
#[derive(Clone, Debug)]
pub struct SecondLevelStream {
    records: Vec<Record>,
    /// Lines in use before, least recent first.
    warm: Vec<Reference>,
    /// Retired in all (user, kernel).
    instructions: [u64; 2],
    /// Number of these after the last reference.
    rest: [u32; 2],
}

impl SecondLevelStream {
    /// Instructions retired (user, kernel).
    #[must_use]
    pub fn instructions(&self) -> [u64; 2] {
        self.instructions
    }

    /// Returns the number of references, write-backs included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if nothing left the first level.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// Plays `source` through first-level caches (instructions, data) that hold `warm` at first: all
/// that misses there, and the dirty lines that leave. `rule` says what these keep apart.
///
/// # Errors
/// If the trace is damaged.
pub fn second_level_stream(
    source: &mut dyn Source,
    warm: &WarmSet,
    l1: [Geometry; 2],
    rule: Rule,
) -> Result<SecondLevelStream, TraceError> {
    let program = Arc::clone(source.program());
    let mut fold = RepeatFold::default();
    let mut recorder = Recorder {
        l1: l1.map(|geometry| FirstLevel::new(geometry, rule)),
        retired: [0; 2],
        stream: SecondLevelStream {
            records: Vec::new(),
            warm: Vec::with_capacity(warm.lines.len()),
            instructions: [0; 2],
            rest: [0; 2],
        },
    };
    for line in &warm.lines {
        let (kernel, code) = (line.kernel, line.code);
        recorder.warm(Reference { line: line.line.0, kernel, code, pc: 0 });
    }
    let mut walk = LineWalk::new();
    loop {
        match source.next_item()? {
            Item::Run(id) => {
                let repeat = fold.is_repeat(&program, id);
                let template = program.template(id);
                let kernel = program.block(template.block).kernel;
                let retired = template.executed - u16::from(repeat);
                recorder.retired[usize::from(kernel)] += u32::from(retired);
                recorder.stream.instructions[usize::from(kernel)] += u64::from(retired);
                walk.walk(&program, template, source.addresses(), repeat, |touch| {
                    recorder.touch(touch, kernel);
                });
            }
            Item::Event(_) => {}
            Item::End => return Ok(recorder.finish()),
        }
    }
}

struct Recorder {
    /// First levels of instructions and of data.
    l1: [FirstLevel; 2],
    /// Since the last reference.
    retired: [u32; 2],
    stream: SecondLevelStream,
}

impl Recorder {
    /// Sets the state that a recording left, without counting.
    fn warm(&mut self, reference: Reference) {
        self.l1[usize::from(!reference.code)].access(reference, 0);
        self.stream.warm.push(reference);
    }

    #[inline]
    fn touch(&mut self, touch: LineTouch, kernel: bool) {
        let dirty = if touch.write { flag::DIRTY } else { 0 };
        let reference = Reference { line: touch.line, kernel, code: touch.code, pc: touch.pc };
        if let Some(victim) = self.l1[usize::from(!touch.code)].access(reference, dirty) {
            self.miss(touch, kernel);
            if let Some(victim) = victim.filter(|victim| victim.dirty) {
                // Of who had brought it there, not of who displaced it.
                self.push(victim.line, if victim.kernel { KERNEL } else { 0 } | WRITE_BACK);
            }
        }
    }

    fn miss(&mut self, touch: LineTouch, kernel: bool) {
        let flags = [(touch.code, CODE), (kernel, KERNEL), (touch.write, WRITE)];
        let flags = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum::<u64>();
        self.push(touch.line, flags | u64::from(signature(touch.pc)) << SIGNATURE_BIT);
    }

    fn push(&mut self, line: u64, flags: u64) {
        debug_assert!(line >> (u64::BITS - LINE_BIT) == 0, "the flags' bits are the line's");
        let retired = std::mem::take(&mut self.retired);
        self.stream.records.push(Record { word: line << LINE_BIT | flags, retired });
    }

    fn finish(mut self) -> SecondLevelStream {
        self.stream.rest = self.retired;
        self.stream
    }
}

/// A first-level cache, which keeps nothing apart unless that is asked.
enum FirstLevel {
    Plain(Cache),
    Ruled(RuledCache),
}

impl FirstLevel {
    fn new(geometry: Geometry, rule: Rule) -> FirstLevel {
        if rule == Rule::LRU {
            return FirstLevel::Plain(Cache::new(geometry));
        }
        let mut cache = RuledCache::new(geometry, false);
        cache.set(rule);
        FirstLevel::Ruled(cache)
    }

    /// Accesses a line, which is present afterwards. If it misses, returns the line that is evicted
    /// for it, if any.
    #[inline]
    fn access(&mut self, reference: Reference, dirty: u64) -> Option<Option<Victim>> {
        match self {
            FirstLevel::Plain(cache) => {
                let missed = cache.touch(reference.line, dirty).is_none();
                let flags = dirty | flag::owner(reference.kernel);
                missed.then(|| cache.insert(reference.line, flags))
            }
            FirstLevel::Ruled(cache) => {
                let missed = cache.touch(reference, dirty).flags.is_none();
                missed.then(|| cache.insert(reference, dirty))
            }
        }
    }
}
