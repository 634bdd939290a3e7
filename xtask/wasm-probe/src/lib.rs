//! Drives every policy, so that none is left out by the linker.

use halfwink_policy::gating::{
    AlwaysOn, Bound, Costs, Event, Expectation, GatingPolicy, IdleGate, MapgCounter,
    MapgParameters, Oracle, Tap, Token,
};
use halfwink_policy::{drive, Policy};
use halfwink_units::{LineAddr, Time};

/// Number of actions that all policies ask for in a short life.
#[no_mangle]
pub extern "C" fn probe(ps: u64) -> u64 {
    let costs = Costs {
        entry: Time(ps),
        break_even: Time(ps),
        wake_up: Time(ps),
        restore: Time(ps),
        slots: halfwink_policy::gating::Slots::ANY,
    };
    let mapg =
        MapgParameters { t_llc: Time(ps), t_mem: Time(ps), expectation: Expectation::Memory };
    let mut policies: [GatingPolicy; 5] = [
        Box::new(AlwaysOn),
        Box::new(IdleGate::new()),
        Box::new(MapgCounter::new(costs, mapg)),
        Box::new(Tap::new(costs, 4)),
        Box::new(Oracle::new(costs)),
    ];
    let token = Token { line: LineAddr(1), created: Time(ps), bound: Bound::Unknown };
    let events = [
        (Time(1), Event::StallBegin),
        (Time(2), Event::Token(token)),
        (Time(3), Event::Response { line: LineAddr(1) }),
        (Time(4), Event::StallEnd { began: Time(1) }),
        (Time(5), Event::IdleBegin),
        (Time(9), Event::IdleEnd { began: Time(5) }),
    ];
    let mut actions = 0;
    for policy in &mut policies {
        actions += drive(policy, &events, Time(100)).len() as u64;
        actions += policy.snapshot().len() as u64;
    }
    actions
}
