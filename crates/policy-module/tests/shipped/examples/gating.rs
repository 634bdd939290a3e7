//! The shipped gating policies as a module.

use halfwink_policy::gating::{
    AdaptiveIdle, AlwaysOn, Costs, Expectation, GatingPolicy, IdleGate, IdleMenu,
    IdleMenuParameters, MapgCounter, MapgParameters, Oracle, Slots, Switching, SwitchingParameters,
    Tap, WakeFor,
};
use halfwink_policy::record::Fields;
use halfwink_units::Time;

shipped::exports!("gating", 8, GatingPolicy, policy_of);

fn policy_of(number: u32, start: &Fields) -> GatingPolicy {
    let time = |n: usize| Time(start[n]);
    let slots = Slots { period: time(4), offset: time(5) };
    let costs =
        Costs { entry: time(0), break_even: time(1), wake_up: time(2), restore: time(3), slots };
    let entries = start[6] as usize;
    let tap = Tap::new(costs, entries);
    let parameters =
        MapgParameters { t_llc: time(7), t_mem: time(8), expectation: Expectation::Memory };
    let mapg = MapgCounter::new(costs, parameters);
    match number {
        0 => Box::new(tap),
        1 => Box::new(tap.waking_for(WakeFor::LastResponse)),
        2 => Box::new(mapg),
        3 => {
            let trials = SwitchingParameters { window: Time::ns(20_000), round: 50 };
            Box::new(Switching::new(costs, trials, tap, mapg))
        }
        4 => Box::new(IdleGate::new()),
        5 => Box::new(AdaptiveIdle::new(costs)),
        6 => Box::new(IdleMenu::new(costs, IdleMenuParameters::linux(&costs))),
        7 => Box::new(Oracle::new(costs)),
        _ => Box::new(AlwaysOn),
    }
}
