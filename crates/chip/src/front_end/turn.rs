//! Where a thread waits for others of its program.

use std::sync::Arc;

use halfwink_trace::{Item, TemplateId};
use halfwink_units::LINE_SHIFT;

use super::FrontEnd;
use crate::strings::Strings;
use crate::threads::{OneThread, Turns, NO_POST};
use crate::uop::{Op, Playable, Uop};

/// Position of a byte in its line.
const IN_LINE: u64 = (1 << LINE_SHIFT) - 1;

impl FrontEnd {
    /// Plays one of several threads from now on, if any, which waits for the others.
    pub(crate) fn taking_turns(mut self, thread: Option<OneThread>) -> FrontEnd {
        let program = self.source.program();
        self.turns = thread.map(|thread| Box::new(Turns::new(thread, Arc::clone(program))));
        if self.turns.is_some() {
            // What other threads wait for is counted run by run: none may be left out.
            self.strings = Strings::default();
        }
        self
    }

    /// Returns the waits of its thread, if that is one of several.
    #[inline]
    pub(crate) fn turns(&self) -> Option<&Turns> {
        self.turns.as_deref()
    }

    pub(crate) fn turns_mut(&mut self) -> Option<&mut Turns> {
        self.turns.as_deref_mut()
    }

    /// Returns the post that the store in front is, or [`NO_POST`] if no thread waits for it.
    #[inline]
    pub(crate) fn post_of(&self, access: u16) -> u32 {
        self.turns.as_ref().map_or(NO_POST, |turns| turns.post_of(access))
    }

    /// A run has begun; true if it waits before its first micro-operation.
    #[cold]
    pub(super) fn run_waits(&mut self, template: TemplateId) -> bool {
        let Some(turns) = &mut self.turns else { return false };
        self.fetched.passes(turns.begin_run(template, &self.addresses));
        self.show_to_wait();
        self.uop == self.end && self.turns().is_some_and(|turns| turns.wait_in_run().is_some())
    }

    /// Makes the micro-operations of the run visible up to the next wait in it.
    fn show_to_wait(&mut self) {
        let Some(run) = &self.run else { return };
        let behind = (run.first_uop + run.uops) as usize;
        let access = self.turns.as_ref().and_then(|turns| turns.wait_in_run());
        self.end = match access {
            None => behind,
            Some(access) => {
                let uops = &self.code.uops[self.uop..behind];
                let is_it =
                    |uop: &Uop| matches!(uop.op, Op::Load | Op::Store) && uop.access == access;
                uops.iter().position(is_it).map_or(behind, |n| self.uop + n)
            }
        };
        debug_assert!(access.is_none() || self.end < behind, "an access has a micro-operation");
    }

    /// True if the next thing in front is a wait, or more of a run behind one.
    #[cold]
    pub(super) fn comes_to_a_wait(&mut self) -> bool {
        if self.run.is_some_and(|run| self.end < (run.first_uop + run.uops) as usize) {
            self.show_to_wait();
            return true;
        }
        let goes_on = matches!(self.next, Item::Run(_)) && self.left > 0;
        goes_on && self.turns.as_ref().is_some_and(|turns| turns.waits_after_call())
    }

    /// Lines of the run in front that lie before a wait in it; none if nothing waits in it.
    #[inline]
    pub(super) fn lines_before_wait(&self, run: &Playable) -> Option<u64> {
        self.turns.as_ref()?.wait_in_run()?;
        if self.end == run.first_uop as usize {
            return Some(0);
        }
        let last = u64::from(self.code.uops[self.end - 1].offset);
        Some((((run.pc & IN_LINE) + last) >> LINE_SHIFT) + 1)
    }

    /// Accesses to words that threads synchronise by in the run so many behind that in front, with
    /// as many between the two as `before`; none if it may have to wait.
    #[inline]
    pub(super) fn accesses_without_wait(
        &self,
        template: TemplateId,
        n: usize,
        before: u64,
    ) -> Option<u64> {
        let Some(turns) = &self.turns else { return Some(0) };
        if turns.waits_after_call() {
            return None;
        }
        turns.accesses_without_wait(template, self.addresses_ahead(n), before)
    }
}
