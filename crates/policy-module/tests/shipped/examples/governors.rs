//! The shipped policies of halts as a module that is told of the machine's idle states.

use halfwink_policy::gating::{
    AdaptiveIdle, AlwaysOn, Costs, CpuIdle, CpuIdleParameters, GatingPolicy, Oracle, Slots,
};
use halfwink_policy::record::Fields;
use halfwink_policy::scaling::{
    Depth, Governor, IdleState, IdleStates, LadderCore, MenuCore, TeoCore,
};
use halfwink_units::Time;

shipped::exports!(
    "gating",
    5,
    GatingPolicy,
    policy_of,
    r#"["idle-begin", "idle-end", "awake", "idle-state"]"#
);

fn policy_of(number: u32, start: &Fields) -> GatingPolicy {
    let time = |n: usize| Time(start[n]);
    let costs = Costs {
        entry: time(0),
        break_even: time(1),
        wake_up: time(2),
        restore: time(3),
        slots: Slots::ANY,
    };
    match number {
        0 => governor::<MenuCore>(time(9)),
        1 => governor::<TeoCore>(time(9)),
        2 => governor::<LadderCore>(time(9)),
        3 => Box::new(AdaptiveIdle::new(costs)),
        4 => Box::new(Oracle::new(costs)),
        _ => Box::new(AlwaysOn),
    }
}

/// A governor of Linux without a limit of latency.
fn governor<G: Governor + 'static>(tick: Time) -> GatingPolicy {
    let state = |[_, exit, residency, depth, ..]: Fields| IdleState {
        depth: if depth == 2 { Depth::C6 } else { Depth::C1 },
        exit: Time(exit),
        residency: Time(residency),
        polls: depth == 0,
    };
    let states: Vec<IdleState> = shipped::idle_states().into_iter().map(state).collect();
    if states.is_empty() {
        return Box::new(AlwaysOn);
    }
    Box::new(CpuIdle::<G>::new(CpuIdleParameters {
        states: IdleStates::new(&states),
        tick,
        latency_limit: Time::NEVER,
    }))
}
