//! One name for both kinds of pipelines.

use halfwink_units::Cycle;

use super::in_order::InOrder;
use super::out_of_order::{Narrow, Wide, Widest};
use super::pipeline::{Common, Pause};
use crate::cpi_stack::Reason;
use crate::machine::CoreKind;
use crate::uncore::Answer;

/// Either kind of pipeline, the out-of-order one by the size of its window.
pub(super) enum Pipeline {
    InOrder(Box<InOrder>),
    Narrow(Box<Narrow>),
    Wide(Box<Wide>),
    Widest(Box<Widest>),
}

macro_rules! each_kind {
    ($self:expr, $pipeline:ident => $body:expr) => {
        match $self {
            Pipeline::InOrder($pipeline) => $body,
            Pipeline::Narrow($pipeline) => $body,
            Pipeline::Wide($pipeline) => $body,
            Pipeline::Widest($pipeline) => $body,
        }
    };
}

impl Pipeline {
    pub(super) fn new(kind: CoreKind, common: Common) -> Pipeline {
        match kind {
            CoreKind::InOrder => Pipeline::InOrder(Box::new(InOrder::new(common))),
            CoreKind::OutOfOrder(window) => match window.reorder.max(common.spec.store_queue) {
                0..=128 => Pipeline::Narrow(Box::new(Narrow::new(common))),
                129..=512 => Pipeline::Wide(Box::new(Wide::new(common))),
                _ => Pipeline::Widest(Box::new(Widest::new(common))),
            },
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

    #[cfg(test)]
    pub(super) fn never_skip(&mut self) {
        match self {
            Pipeline::InOrder(_) => {}
            Pipeline::Narrow(pipeline) => pipeline.never_skip = true,
            Pipeline::Wide(pipeline) => pipeline.never_skip = true,
            Pipeline::Widest(pipeline) => pipeline.never_skip = true,
        }
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
