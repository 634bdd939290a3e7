//! One name for both kinds of pipelines.

use halfwink_units::Cycle;

use super::in_order::InOrder;
use super::out_of_order::OutOfOrder;
use super::pipeline::{Common, Pause};
use crate::cpi_stack::Reason;
use crate::machine::CoreKind;
use crate::uncore::Answer;

/// Either kind of pipeline.
pub(super) enum Pipeline {
    InOrder(Box<InOrder>),
    OutOfOrder(Box<OutOfOrder>),
}

macro_rules! each_kind {
    ($self:expr, $pipeline:ident => $body:expr) => {
        match $self {
            Pipeline::InOrder($pipeline) => $body,
            Pipeline::OutOfOrder($pipeline) => $body,
        }
    };
}

impl Pipeline {
    pub(super) fn new(kind: CoreKind, common: Common) -> Pipeline {
        match kind {
            CoreKind::InOrder => Pipeline::InOrder(Box::new(InOrder::new(common))),
            CoreKind::OutOfOrder(_) => Pipeline::OutOfOrder(Box::new(OutOfOrder::new(common))),
        }
    }

    pub(super) fn run(&mut self, until: Cycle) -> Pause {
        each_kind!(self, p => p.run(until))
    }

    pub(super) fn begin(&mut self, cycle: Cycle) {
        each_kind!(self, p => p.begin(cycle));
    }

    /// Lets kernel cycles pass in which the core is busy with something that is in no trace.
    pub(super) fn spend(&mut self, cycles: Cycle, reason: Reason) {
        each_kind!(self, p => {
            p.common.active.add(true, reason, cycles);
            p.cycle += cycles;
        });
    }

    pub(super) fn resume(&mut self, cycle: Cycle) {
        each_kind!(self, p => p.resume(cycle));
    }

    pub(super) fn answer(&mut self, answer: &Answer, at: Cycle) -> bool {
        each_kind!(self, p => p.answer(answer, at))
    }

    pub(super) fn cycle(&self) -> Cycle {
        each_kind!(self, p => p.cycle)
    }

    pub(super) fn common(&self) -> &Common {
        each_kind!(self, p => &p.common)
    }

    pub(super) fn common_mut(&mut self) -> &mut Common {
        each_kind!(self, p => &mut p.common)
    }
}
