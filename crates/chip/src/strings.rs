//! Repeated string instructions (`rep movsb`, `rep stosb`) as cores of today execute them.
//!
//! A recording has a run for each iteration. Cores with fast strings (ERMS, FSRM) begin with
//! microcode, and then move as many bytes in a cycle as fit into a block of a power of two: here
//! all iterations within one block are one load and one store.

use halfwink_trace::Address;
use halfwink_units::Cycle;

use crate::machine::StringSpec;
use crate::uop::{Op, Playable, Uop};

/// Progress of the string instruction that a thread executes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strings {
    spec: Option<StringSpec>,
    /// Bytes that it has moved.
    moved: u64,
    /// Physical addresses from which it goes on to load and to store.
    next: [u64; 2],
    /// Cycles until the run behind its last iteration may begin.
    pub(crate) owed: Cycle,
}

impl Strings {
    /// Creates the state of a thread on such cores; without a kind each iteration is played.
    pub(crate) fn on(spec: Option<StringSpec>) -> Strings {
        Strings { spec, ..Strings::default() }
    }

    /// Returns the state of another thread on such cores.
    pub(crate) fn anew(&self) -> Strings {
        Strings::on(self.spec)
    }

    /// Returns whether a run is a further iteration of a string instruction that is under way: it
    /// needs no line of code.
    #[inline]
    pub(crate) fn goes_on(&self, run: &Playable, repeats: bool) -> bool {
        repeats && run.moves > 0 && run.instrs == 1 && self.spec.is_some()
    }

    /// Notes an iteration, the last instruction of a run. Returns true if its bytes are moved by
    /// what was played for an earlier one, so that nothing is to be played for it.
    #[inline]
    pub(crate) fn joins(
        &mut self,
        run: &Playable,
        repeats: bool,
        uops: &[Uop],
        addresses: &[Address],
    ) -> bool {
        match self.spec {
            Some(spec) if run.moves > 0 => self.moves(spec, run, repeats, uops, addresses),
            _ => false,
        }
    }

    fn moves(
        &mut self,
        spec: StringSpec,
        run: &Playable,
        repeats: bool,
        uops: &[Uop],
        addresses: &[Address],
    ) -> bool {
        let size = u64::from(run.moves);
        // How many bytes there will be is not known at the first one: a long one is told from a
        // short one where it exceeds that, and waits for the rest of its start then.
        let before = if repeats { self.moved } else { 0 };
        self.moved = before + size;
        let is_short = |bytes: u64| size == 1 && bytes <= spec.short_bytes;
        if !repeats {
            self.owed += if is_short(size) { spec.short_start } else { spec.start };
        } else if is_short(before) && !is_short(self.moved) {
            self.owed += spec.start - spec.short_start;
        }
        let mut joins = self.goes_on(run, repeats);
        let last = uops.last().map(|uop| uop.offset);
        for uop in uops.iter().filter(|uop| Some(uop.offset) == last) {
            let next = match uop.op {
                Op::Load => &mut self.next[0],
                Op::Store => &mut self.next[1],
                _ => continue,
            };
            let at = addresses[usize::from(uop.access)].phys.0;
            let end = at.wrapping_add(size - 1);
            // Downward, or from an element that lies in two blocks, each is moved alone.
            let within = !at.is_multiple_of(spec.bytes) && at / spec.bytes == end / spec.bytes;
            joins &= at == *next && within;
            *next = end.wrapping_add(1);
        }
        joins
    }
}
