use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Lets the outside watch a run and stop it.
#[derive(Debug, Default)]
pub struct RunControl {
    stop: AtomicBool,
    done: AtomicU64,
}

/// The run was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl RunControl {
    /// Creates the control of a run that is not to be stopped.
    #[must_use]
    pub const fn new() -> RunControl {
        RunControl { stop: AtomicBool::new(false), done: AtomicU64::new(0) }
    }

    /// Asks the run to stop soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Units of work done so far (instructions, packets, requests).
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Publishes the progress of the world, which calls this regularly.
    ///
    /// # Errors
    /// If the run shall stop.
    pub fn report(&self, done: u64) -> Result<(), Interrupted> {
        self.done.store(done, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) {
            Err(Interrupted)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_what_is_done_and_hears_that_it_shall_stop() {
        let control = RunControl::new();
        assert_eq!((control.report(7), control.done()), (Ok(()), 7));
        control.stop();
        assert_eq!((control.report(9), control.done()), (Err(Interrupted), 9));
    }
}
