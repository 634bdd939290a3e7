//! When a segregation policy hears a sample, and what it says: counters since the last one.

use halfwink_policy::segregation::{Sample, Span, Utility};
use halfwink_units::Cycle;

/// Counters so far, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) cycle: Cycle,
    pub(crate) instructions: [u64; 2],
    pub(crate) reads: [u64; 2],
    pub(crate) misses: [u64; 2],
}

/// Waits for the time that the policy asked for.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    due_cycle: Cycle,
    due_instructions: u64,
    last: Counters,
}

impl Sampler {
    /// Creates a sampler without a deadline; counting begins at this cycle.
    pub(crate) fn new(cycle: Cycle) -> Sampler {
        let last = Counters { cycle, ..Counters::default() };
        Sampler { due_cycle: Cycle::MAX, due_instructions: u64::MAX, last }
    }

    /// The policy wants a sample so long after the last one.
    pub(crate) fn after(&mut self, span: Span) {
        match span {
            Span::Cycles(cycles) => self.due_cycle = self.last.cycle.saturating_add(cycles),
            Span::Instructions(count) => {
                let so_far = self.last.instructions.iter().sum::<u64>();
                self.due_instructions = so_far.saturating_add(count);
            }
        }
    }

    /// Returns whether its time is over.
    #[inline]
    pub(crate) fn is_due(&self, cycle: Cycle, instructions: u64) -> bool {
        cycle >= self.due_cycle || instructions >= self.due_instructions
    }

    /// Returns the counts since the last sample; the next deadline has to be set anew.
    pub(crate) fn sample(&mut self, new: Counters, utility: Option<Box<Utility>>) -> Sample {
        let old = std::mem::replace(self, Sampler { last: new, ..Sampler::new(0) }).last;
        let since = |new: [u64; 2], old: [u64; 2]| [new[0] - old[0], new[1] - old[1]];
        Sample {
            instructions: since(new.instructions, old.instructions),
            accesses: since(new.reads, old.reads),
            misses: since(new.misses, old.misses),
            cycles: new.cycle - old.cycle,
            utility,
        }
    }
}
