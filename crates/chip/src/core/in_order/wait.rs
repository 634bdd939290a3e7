//! Waiting for an answer: what is done first, what it is charged to, and when it is over.

use halfwink_units::Cycle;

use super::{Blocked, InOrder, Ready};
use crate::core::pipeline::{Pause, Stall, StallOn};
use crate::cpi_stack::Reason;
use crate::miss::UNKNOWN;

impl InOrder {
    /// The operation in front cannot go on without an answer; what else is there to do first?
    pub(super) fn wait(&mut self, blocked: Blocked, on: StallOn, until: Cycle) -> Option<Pause> {
        // A cycle in which something issued is work, whatever stops the next operation.
        if self.issued > 0 {
            self.pass_to(self.cycle + 1, Reason::Base);
            return None;
        }
        // A stall may be slept through, so nothing may move in it by itself: stores write first, as
        // far as they come, and may miss too.
        if self.next_drain != UNKNOWN {
            let drain = self.next_drain.max(self.cycle + 1);
            self.wait_for(drain.min(until), self.why(blocked));
            return None;
        }
        if blocked == Blocked::Quiet && self.stores.is_empty() {
            let private = &mut self.common.private;
            if private.is_quiet(self.cycle) {
                if let Some((from_ns, to_ns)) = self.halt.take() {
                    self.common.front_end.pass_event();
                    return Some(Pause::Halted { at: self.cycle, from_ns, to_ns });
                }
                if self.leaving {
                    return Some(Pause::Left);
                }
                return Some(Pause::Finished(self.cycle));
            }
        }
        let kernel = self.common.front_end.is_kernel();
        self.blocked = blocked;
        Some(Pause::Stalled(Stall { since: self.cycle, kernel, on }))
    }

    pub(super) fn can_move(&mut self, at: Cycle) -> bool {
        if self.common.private.can_walk() {
            return true;
        }
        if !self.stores.is_empty() && !self.store_blocked {
            return true;
        }
        match self.blocked {
            Blocked::No => true,
            Blocked::Operands => {
                let uop = self.common.front_end.uop();
                let needed = uop.sources.iter().chain(&uop.results);
                needed.copied().all(|n| self.ready[usize::from(n)] != Ready::UNKNOWN)
            }
            Blocked::Drain => self.owed == 0,
            Blocked::Fetch => !self.fetching,
            Blocked::FetchRegister => self.common.private.instruction_misses.has_free(at),
            Blocked::DataRegisters(n) => self.common.private.data_misses.free(at) >= n,
            Blocked::Quiet => self.common.private.is_quiet(at),
            // Its walk goes on.
            Blocked::Translation => false,
        }
    }

    /// Returns the reason that a wait is charged to while stores still drain.
    fn why(&self, blocked: Blocked) -> Why {
        match blocked {
            Blocked::Operands => {
                let uop = self.common.front_end.uop();
                let needed = uop.sources.iter().chain(&uop.results);
                let mut needed = needed.map(|&n| usize::from(n));
                let owed = needed.find(|&n| self.ready[n] == Ready::UNKNOWN);
                owed.map_or(Why::Reason(Reason::Dependency), |n| {
                    Why::Outstanding(self.origin[n].miss)
                })
            }
            Blocked::Fetch | Blocked::FetchRegister => Why::Reason(Reason::Fetch),
            // All registers wait for the shared levels, and which of them will be free first, and
            // from where it is answered, is not known yet.
            Blocked::DataRegisters(_) => Why::Reason(Reason::Memory),
            Blocked::Drain => Why::Reason(Reason::System),
            Blocked::Translation => Why::Reason(Reason::Tlb),
            Blocked::Quiet | Blocked::No => Why::Reason(Reason::Store),
        }
    }

    /// Lets time pass until `to`, for a reason.
    fn wait_for(&mut self, to: Cycle, why: Why) {
        match why {
            Why::Reason(reason) => self.pass_to(to, reason),
            Why::Outstanding(n) => {
                let kernel = self.common.front_end.is_kernel();
                let cycles = to - self.cycle;
                let miss = self.common.private.data_misses.get(usize::from(n));
                miss.waited[usize::from(kernel)] += cycles;
                self.enter_cycle(to);
            }
        }
    }
}

/// Reason why time passes.
#[derive(Clone, Copy, Debug)]
enum Why {
    Reason(Reason),
    /// Waiting for data in this miss register; the reason shows when it is answered.
    Outstanding(u8),
}
