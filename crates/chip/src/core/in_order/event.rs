//! What lies between instructions.

use halfwink_trace::Event;
use halfwink_units::Cycle;

use super::{Blocked, InOrder, Step};
use crate::core::pipeline::StallOn;
use crate::cpi_stack::Reason;
use crate::front_end::Head;
use crate::miss::UNKNOWN;
use crate::os_cores::Crossed;

impl InOrder {
    /// Deals with what lies between instructions.
    #[cold]
    pub(super) fn event(&mut self, until: Cycle) -> Step {
        match self.common.front_end.head() {
            Head::Uop => Step::Again,
            Head::End => {
                self.ended = true;
                self.until_quiet(until)
            }
            Head::Event(Event::Idle { from_ns, to_ns }) => {
                self.halt = Some((from_ns, to_ns));
                self.until_quiet(until)
            }
            Head::Crossing => {
                match self.common.cross(self.cycle) {
                    Crossed::Stays(0) => {}
                    Crossed::Stays(cycles) => self.redirect(self.cycle + cycles, Reason::System),
                    Crossed::Asks => self.redirect(self.cycle + 1, Reason::System),
                    Crossed::Leaves => self.leaving = true,
                    Crossed::Detaches => self.common.private.must_pause = true,
                }
                Step::Again
            }
            Head::Starts(cycles) => {
                self.redirect(self.cycle + cycles, Reason::Dependency);
                self.common.front_end.pass_start();
                Step::Again
            }
            Head::Event(Event::Interrupt { .. } | Event::Exception { .. }) => {
                // Precise: everything before it has its result. Stores need not have written yet,
                // they have retired into their queue.
                if self.owed > 0 {
                    return Step::Wait(Blocked::Drain, StallOn::Data);
                }
                if self.last_known > self.cycle {
                    self.pass_to(self.last_known.min(until), Reason::System);
                    return Step::Again;
                }
                self.redirect(self.cycle + self.common.spec.syscall, Reason::System);
                self.common.front_end.pass_event();
                Step::Again
            }
            Head::Event(event) => {
                // Behind what issued in this cycle.
                self.common.mark(&event, self.cycle + u64::from(self.issued > 0));
                self.common.front_end.pass_event();
                Step::Again
            }
        }
    }

    /// Waits for everything in flight, also for lines without a waiting access: a core that is
    /// halted may be gated, and a thread that leaves takes no misses along.
    pub(super) fn until_quiet(&mut self, until: Cycle) -> Step {
        let private = &self.common.private;
        let fill = private
            .data_misses
            .next_fill(self.cycle)
            .min(private.instruction_misses.next_fill(self.cycle))
            .min(private.next_translation(self.cycle));
        let known = if self.last_known > self.cycle { self.last_known } else { UNKNOWN };
        let next = fill.min(known);
        if next != UNKNOWN {
            self.pass_to(next.min(until), Reason::Store);
            return Step::Again;
        }
        Step::Wait(Blocked::Quiet, StallOn::Store)
    }
}
