//! How far fetch is ahead of dispatch.

use halfwink_trace::TemplateId;

/// Position of fetch ahead of dispatch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    /// Runs beyond the one that is being dispatched.
    pub(super) runs: usize,
    /// The run that it is in.
    pub(super) template: TemplateId,
    /// Number of that run's lines.
    pub(super) lines: u64,
    /// True if that run's branch is fetched, too.
    pub(super) branch: bool,
    /// Instructions of the runs beyond.
    pub(super) instructions: u64,
    /// Accesses of the runs beyond to words that threads synchronise by.
    pub(super) accesses: u64,
}

impl Default for Fetched {
    fn default() -> Fetched {
        // Of no run yet: through with it.
        let (runs, template, lines) = (0, TemplateId(0), 0);
        Fetched { runs, template, lines, branch: true, instructions: 0, accesses: 0 }
    }
}

impl Fetched {
    /// Dispatch goes to the next run, and takes fetch with it if that is not there yet: behind so
    /// many lines of the run.
    #[inline]
    pub(super) fn next_run(&mut self, template: TemplateId, instructions: u16, lines: u64) {
        if self.runs == 0 {
            *self = Fetched { template, lines, branch: false, ..Fetched::default() };
            return;
        }
        self.runs -= 1;
        self.instructions -= u64::from(instructions);
    }

    /// The run that dispatch is in has so many accesses to words that threads synchronise by.
    pub(super) fn passes(&mut self, accesses: u64) {
        // Fetch that was not ahead has counted none.
        self.accesses = self.accesses.saturating_sub(accesses);
    }
}
