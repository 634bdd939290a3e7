//! Demands of programs of which only results were printed.

use crate::model::Model;
use crate::profile::{Demand, Workload};
use crate::sim::{run, Kernel, RunError};

/// Demand that reproduces a printed rate and a recorded idle time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solved {
    /// User mode, in nanoseconds a unit.
    pub user_ns: f64,
    /// Waiting, in nanoseconds a unit.
    pub wait_ns: f64,
    /// Relative error of the rate that is left, of 1.
    pub rate_error: f64,
    /// Relative error of the idle time that is left, of 1.
    pub idle_error: f64,
}

/// Rounds of the search.
const ROUNDS: usize = 24;

/// Finds user time and waiting time of a unit such that the single core (first configuration, stock
/// kernel) has the printed rate, and the application core (second configuration, last kernel) is
/// recorded idle as printed. Nothing else is looked at.
///
/// # Errors
/// If the workload was fitted to nothing, or cannot run.
pub fn calibrate_workload(model: &Model, workload: &Workload) -> Result<Solved, RunError> {
    let mut w = workload.clone();
    let (Some(goal), Demand::Times { .. }) = (w.fitted_to, w.demand) else {
        let at = format!("workloads.{}.fitted_to", workload.name);
        return Err(crate::ModelError::at(at, "expected what to fit a demand in times to").into());
    };
    let kernel = Kernel::named(w.kernels.last().map_or("unmod", String::as_str));
    let [single, dual] = &workload.configurations[..] else {
        let at = format!("workloads.{}.configurations", workload.name);
        let message = "expected a single core, and the same with an OS core";
        return Err(crate::ModelError::at(at, message).into());
    };
    let mut left = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        let alone = run(model, &w, single, &Kernel::Unmod, 1)?;
        let moved = run(model, &w, dual, &kernel, 1)?;
        let idle_s = moved.metered(&w, true).idle_app_s;
        left = (alone.amount / goal.rate_single - 1.0, idle_s / goal.idle_app_s - 1.0);
        let threads = (w.threads * alone.cores.len()) as f64;
        // Too much idle time: more work for the core, and as much less waiting for each thread.
        let unit_ns = w.per_seconds * 1e9 * w.unit_amount / goal.rate_single;
        let idle_share = goal.idle_app_s / moved.elapsed_s(&w) * 2.0 * std::f64::consts::LN_2;
        let busier_ns = left.1 * idle_share.min(1.0) * unit_ns;
        let slower_ns = left.0 * unit_ns * threads;
        let Demand::Times { user_ns, wait_ns, .. } = &mut w.demand else { break };
        // Not the whole step, since each of the two demands acts on both goals.
        *user_ns = (*user_ns + 0.7 * busier_ns).max(1.0);
        *wait_ns = (*wait_ns + 0.7 * (slower_ns - busier_ns)).max(0.0);
    }
    let Demand::Times { user_ns, wait_ns, .. } = w.demand else { unreachable!("checked above") };
    Ok(Solved { user_ns, wait_ns, rate_error: left.0, idle_error: left.1 })
}
