//! Drives every policy, so that none is left out by the linker.

use halfwink_policy::gating::{
    AlwaysOn, Bound, Costs, Event, Expectation, GatingPolicy, IdleGate, MapgCounter,
    MapgParameters, Oracle, Tap, Token,
};
use halfwink_policy::offload::{
    self, Fixed, KernelEntry, OffloadPolicy, Organisation, Parameters, PerCall, Predicted,
    PredictedParameters, Registers, Threshold,
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
    actions + probe_offload(ps)
}

/// The same for kernel entries.
fn probe_offload(n: u64) -> u64 {
    let mut policies: Vec<OffloadPolicy> = vec![
        Box::new(Fixed::never()),
        Box::new(PerCall::enough_work(n)),
        Box::new(PerCall::instrumented(&[], n, 2)),
    ];
    for organisation in [
        Organisation::PUBLISHED_ASSOCIATIVE,
        Organisation::PUBLISHED_DIRECT,
        Organisation::Unbounded,
    ] {
        let feedback = offload::Feedback::new(offload::FeedbackParameters::published());
        for threshold in [Threshold::Fixed(n), Threshold::Feedback(Box::new(feedback))] {
            let predictor = Parameters::published(organisation);
            let parameters = PredictedParameters::hardware(predictor, threshold);
            policies.push(Box::new(Predicted::new(parameters)));
        }
    }
    let entry = KernelEntry {
        cause: offload::Cause::SystemCall { number: n as u32 },
        args: [n; 6],
        bytes_in_memory: Some(n),
        registers: Registers::x86_64(0, n, n, n),
    };
    let events = [
        (Time(1), offload::Event::Enter(entry)),
        (Time(2), offload::Event::Exit { instructions: n }),
        (Time(3), offload::Event::Sample(offload::Sample::default())),
        (Time(4), offload::Event::Enter(entry)),
    ];
    let mut actions = 0;
    for policy in &mut policies {
        actions += drive(policy, &events, Time(100)).len() as u64;
        actions += policy.snapshot().len() as u64;
    }
    actions
}
