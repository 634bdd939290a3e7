//! The closed form of in-order gating (Strong 2013, Eq 2.2-2.5), fed with the miss rate and the
//! power of a run, and with the latencies of the machine description.

use halfwink_chip::{CoreKind, Machine, RunResult};
use halfwink_power::{closed_form_saving, MissLevel};
use halfwink_units::Time;

/// Share of the working cores' energy that Eq 2.5 says token-based gating saves; `None` for
/// out-of-order cores and for runs that never waited for memory.
///
/// As in the thesis, every access to memory is taken to be a row-buffer miss without contention.
/// `M_L3` is the rate of the stalls that memory ends: misses that the store queue or later
/// instructions hide do not idle the core.
#[must_use]
pub fn closed_form(machine: &Machine, result: &RunResult) -> Option<f64> {
    if machine.core.kind != CoreKind::InOrder {
        return None;
    }
    let run_s: f64 = result.cores.iter().map(|c| (c.finished - c.started).as_s()).sum();
    let stalls: f64 = result.cores.iter().map(|c| c.memory_stalls.count() as f64).sum();
    if run_s <= 0.0 || stalls == 0.0 {
        return None;
    }
    let idle_s = idle_of_miss(machine).as_s();
    let level = MissLevel { misses_per_s: stalls / run_s, idle_s };
    let share = level.misses_per_s * idle_s;
    let leakage_w = machine.power.core.leakage_w;
    let idle_w = leakage_w + machine.power.core.stalled_clock_w;
    let working = |name: &str| {
        let number = name.strip_prefix("core").and_then(|n| n.parse::<usize>().ok());
        number.is_some_and(|n| n < result.cores.len())
    };
    let mean_w = result.books.energy_where(working).as_j() / run_s;
    // The power of the run is a mean over working and waiting; Eq 2.5 wants that of the working
    // core, so that the waits are taken out.
    let total_w = (mean_w - share * idle_w) / (1.0 - share);
    let costs = machine.gating_costs(0);
    let overhead_s = (costs.entry + costs.restore).as_s();
    Some(closed_form_saving(&[level], &machine.gating, leakage_w, idle_w, total_w, overhead_s))
}

/// `L_dmiss:L3`: from the last-level token to the response of a row-buffer miss.
fn idle_of_miss(machine: &Machine) -> Time {
    let memory = &machine.memory;
    let first_levels = machine.clock.time_of(machine.l1d.latency + machine.l2.latency);
    let response =
        first_levels + machine.l3.latency + memory.request + memory.conflict() + memory.response;
    response.saturating_sub(machine.tokens.l3)
}
