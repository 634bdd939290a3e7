//! Power of a chip whose work is done, under the technique that ran it.

use halfwink_chip::{state_power, Machine, RunResult};
use halfwink_policy::gating::{Action, Event, GatingPolicy};
use halfwink_policy::Host;
use halfwink_power::CoreState;
use halfwink_units::Time;

use super::tables::is_core;
use super::ChipJob;

/// After so long without work a policy has done what it does.
const SETTLED: Time = Time::ns(1_000_000_000);

/// Causes of energy that goes on without work, in parts that cores share.
const GOES_ON: [&str; 4] = ["leakage", "background", "refresh", "uncore"];

/// Watts while nothing runs: cores in the state in which `policy` leaves a halted core, and of all
/// other parts what the run's own ledger has beside events.
///
/// Assumption: parts that cores share stay as they were during the run, which a batch of programs
/// never lets sleep.
fn idle_w(machine: &Machine, result: &RunResult, policy: GatingPolicy, retention: bool) -> f64 {
    let state = settled(machine, policy);
    let watts = |machine: &Machine| state_power(machine, state, retention).as_w();
    let cores = result.cores.len() as f64 * watts(machine)
        + result.os_cores.len() as f64 * watts(&machine.os_core());
    let working = result.cores.len();
    let rest: f64 = result
        .books
        .named_rows()
        .filter(|(component, _, cause, _)| match component.strip_prefix("core") {
            // Cores without work are in the ledger as idle for the whole run; those with work stand
            // in `cores` above, and would count twice.
            Some(number) => number.parse().is_ok_and(|n: usize| n >= working),
            // OS cores are `os0` and so on, which `strip_prefix("core")` does not see.
            None => !is_core(component) && GOES_ON.contains(&cause.reason),
        })
        .map(|(.., row)| row.energy.as_j())
        .sum();
    cores + rest / result.duration.as_s()
}

/// The state in which a policy leaves a core that the operating system has halted for good.
fn settled(machine: &Machine, policy: GatingPolicy) -> CoreState {
    let (mut host, mut state) = (Host::new(policy), CoreState::Idle);
    let mut heed = |action| match action {
        Action::Gate => state = CoreState::Gated,
        Action::Rest { state: place } => {
            let rests = machine.rests().nth(usize::from(place));
            state = rests.map_or(CoreState::Idle, |rest| machine.state_of(rest));
        }
        _ => {}
    };
    host.deliver(Time::ZERO, &Event::IdleBegin, |_, action| heed(action));
    while host.due() < SETTLED {
        let due = host.due();
        // The floor is no judge of a policy: if its timer is stuck, the state that it reached so
        // far will do.
        if host.ring(due, |_, action| heed(action)).is_err() {
            break;
        }
    }
    state
}

impl ChipJob {
    /// The idle floor of one of its runs, in watts.
    pub(super) fn idle_w(&self, machine: &Machine, result: &RunResult) -> f64 {
        idle_w(machine, result, self.joint.policy(machine, 0), self.joint.retention())
    }
}
