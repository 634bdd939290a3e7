//! Work in threads of its own that Python waits for.

use std::time::{Duration, Instant};

use halfwink_testbed::traffic::running::Running;
use pyo3::prelude::*;

/// Longest time without a look for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until the work has ended, for `seconds` at most, and returns whether it has. Handlers of
/// signals run meanwhile. An infinite time waits for the end; a negative time and NaN are a single
/// look.
///
/// # Errors
/// A handler of a signal raised an exception.
pub(crate) fn wait<T: Send + 'static, E: Send + 'static>(
    py: Python<'_>,
    running: &Running<T, E>,
    seconds: f64,
) -> PyResult<bool> {
    // More seconds than a clock can count have no end either.
    let most = if seconds > 0.0 { Duration::MAX } else { Duration::ZERO };
    let until = Instant::now().checked_add(Duration::try_from_secs_f64(seconds).unwrap_or(most));
    loop {
        let left = until.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()));
        if py.detach(|| running.wait(left.min(LOOK))) {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
        py.check_signals()?;
    }
}
