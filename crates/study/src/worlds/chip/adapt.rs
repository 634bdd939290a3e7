//! The machine under a technique: what rows of the list change of a chip.

use halfwink_chip::{Machine, WakeUpKind};
use halfwink_policy::gating::GatingPolicy;
use halfwink_policy::segregation::SegregationPolicy;
use halfwink_techniques::{Change, Choice, Gating, GatingContext, Make, Modifier, Segregation};

const NO_STATE: &str = "this machine names no such state; expected it among [[idle_states]]";
const NO_PACKAGE: &str = "this machine names no state of its package; expected [package.sleep]";

/// Returns the machine as a technique and its modifiers have it.
pub(super) fn adapted(choice: &Choice, gating: &Gating, machine: Machine) -> Machine {
    let mut machine = changed(machine, gating.change);
    for modifier in choice.modifiers() {
        if let Make::Modifier(Modifier::Chip(change)) = modifier.technique().make {
            machine = changed(machine, change(modifier));
        }
    }
    machine
}

fn changed(machine: Machine, change: Change) -> Machine {
    match change {
        Change::None => machine,
        Change::GatedClock => machine.with_gated_clock(),
        Change::GatedUnits => machine.with_gated_units(),
        Change::WithoutOsCores => machine.without_os_cores(),
        Change::IdleState(name) => machine.with_idle_state(name),
        Change::PackageSleep => machine.with_package_sleep(),
        Change::FixedWakeUp => controlled(machine, WakeUpKind::Fixed),
        Change::DistributedWakeUp => controlled(machine, WakeUpKind::Distributed),
        Change::CentralWakeUp { delay } => {
            let mut machine = controlled(machine, WakeUpKind::Central);
            machine.wake_up.delay = delay.unwrap_or(machine.wake_up.delay);
            machine
        }
    }
}

fn controlled(mut machine: Machine, controller: WakeUpKind) -> Machine {
    machine.wake_up.controller = controller;
    machine
}

/// Says what a machine lacks that a technique changes, if it lacks something.
pub(super) fn lacking(gating: &Gating, machine: &Machine) -> Option<&'static str> {
    match gating.change {
        Change::IdleState(name) => machine.idle_state(name).is_none().then_some(NO_STATE),
        Change::PackageSleep => {
            let sleeps = machine.package.as_ref().is_some_and(|package| package.sleep.is_some());
            (!sleeps).then_some(NO_PACKAGE)
        }
        _ => None,
    }
}

/// Makes the policy of a core.
pub(super) fn gating_policy(
    gating: &Gating,
    choice: &Choice,
    machine: &Machine,
    core: usize,
) -> GatingPolicy {
    let core = GatingContext {
        costs: machine.gating_costs(core),
        token_entries: machine.token_entries(),
        memory: [machine.mapg.t_llc, machine.mapg.t_mem],
        power_down: machine.os.power_down,
    };
    (gating.build)(choice, &core)
}

/// Makes the policy of a second level.
pub(super) fn segregation_policy(
    how: &Segregation,
    choice: &Choice,
    machine: &Machine,
) -> SegregationPolicy {
    (how.build)(choice, machine.l2.geometry.ways as u8)
}
