//! Completes where it hears, and gives away only while that falls behind (Nellans 2014, Sec 6.5:
//! named, not built).

use alloc::vec;

use super::{Done, Mapping, Where};
use crate::Snapshot;

/// Thresholds at which I/Os are given to other CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicParameters {
    /// Number of waiting I/Os from which on others get them.
    pub high: u32,
    /// Number of waiting I/Os at which that ends.
    pub low: u32,
}

/// Mapping that gives I/Os to other CPUs only under load, chosen by another mapping.
#[derive(Clone, Debug)]
pub struct Dynamic<M: Mapping> {
    parameters: DynamicParameters,
    others: M,
    gives: bool,
}

impl<M: Mapping> Dynamic<M> {
    /// Gives I/Os to the CPUs that `others` chooses.
    #[must_use]
    pub fn new(others: M, parameters: DynamicParameters) -> Dynamic<M> {
        Dynamic { parameters, others, gives: false }
    }
}

impl<M: Mapping> Mapping for Dynamic<M> {
    fn place(&mut self, done: &Done) -> Where {
        let p = self.parameters;
        self.gives = done.waiting >= p.high || (self.gives && done.waiting > p.low);
        if self.gives {
            self.others.place(done)
        } else {
            Where::Here
        }
    }

    fn used(&mut self, cpu: u16, permille: u32) {
        self.others.used(cpu, permille);
    }

    fn period(&self) -> Option<halfwink_units::Time> {
        self.others.period()
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = vec![("gives", i64::from(self.gives))];
        state.extend(self.others.snapshot());
        state
    }
}
