//! How far fetch is ahead of dispatch.

use halfwink_trace::TemplateId;

/// Position of fetch ahead of dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    /// Runs beyond the one that is being dispatched.
    pub(crate) runs: usize,
    /// The run that it is in.
    pub(crate) template: TemplateId,
    /// Number of that run's lines.
    pub(crate) lines: u64,
    /// Whether that run's branch is fetched, too.
    pub(crate) branch: bool,
    /// Instructions of the runs beyond.
    pub(crate) instructions: u64,
}

impl Default for Fetched {
    fn default() -> Fetched {
        // Of no run yet: through with it.
        Fetched { runs: 0, template: TemplateId(0), lines: 0, branch: true, instructions: 0 }
    }
}

impl Fetched {
    /// Dispatch goes to the next run, and takes fetch with it if that is not there yet.
    #[inline]
    pub(crate) fn next_run(&mut self, template: TemplateId, instructions: u16) {
        if self.runs == 0 {
            *self = Fetched { template, branch: false, ..Fetched::default() };
            return;
        }
        self.runs -= 1;
        self.instructions -= u64::from(instructions);
    }
}
