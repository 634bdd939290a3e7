//! Preheaters in any order of what can happen: they ask only for what is possible, end what they
//! begin, decide alike when told alike, and allocate nothing.

use crate::preheat_world as world;

use halfwink_policy::preheat::{
    Begin, Late, NextLine, NoPreheat, Ports, PreheatPolicy, Preheater, PreheaterParameters,
    Replayer, ReplayerParameters, Sets, ShamRequest, Stash, Stride, StrideParameters, Trigger,
    WakeOnly,
};
use halfwink_units::Time;
use proptest::prelude::*;
use world::{play, Step};

fn port() -> impl Strategy<Value = u16> {
    1u16..5
}

fn lines() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0u32), 9 => Just(100u32)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (port(), 0u16..300).prop_map(|(service, lead)| Step::Announce { service, lead }),
        1 => port().prop_map(|service| Step::Announce { service, lead: 20_000 }),
        8 => port().prop_map(Step::Arrive),
        8 => Just(Step::Idle),
        1 => Just(Step::Lose),
        6 => lines().prop_map(Step::Dump),
        6 => lines().prop_map(Step::Build),
        6 => Just(Step::Finish),
        1 => port().prop_map(Step::Close),
        2 => (0u64..50, 0u64..4).prop_map(|(line, site)| Step::Miss { line, site }),
        1 => (0u16..30).prop_map(Step::Receive),
        6 => (0u16..400).prop_map(Step::Pass),
        1 => Just(Step::Pass(20_000)),
    ];
    prop::collection::vec(step, 0..300)
}

fn parameters() -> impl Strategy<Value = PreheaterParameters> {
    let late = prop_oneof![Just(Late::Wait), Just(Late::Skip), Just(Late::Concurrent)];
    let sets = prop_oneof![
        3 => Just(Sets::Apart),
        1 => Just(Sets::Intersection),
        1 => Just(Sets::Union),
    ];
    let just = Begin::JustInTime { wake: Time::ns(35_000), margin: Time::ns(5_000) };
    let begin = prop_oneof![Just(Begin::AtOnce), Just(just)];
    let ports = prop_oneof![Just(Ports::Announced), Just(Ports::Learned)];
    let refresh = prop::option::of((1u64..2_000).prop_map(|us| Time::ns(1_000 * us)));
    let flags = any::<[bool; 3]>();
    let numbers = (1u32..4, prop::option::of(1u32..5), 1usize..6);
    (late, sets, begin, ports, refresh, flags, numbers).prop_map(
        |(late, sets, begin, ports, refresh, [filter, isolated, only_cold], numbers)| {
            let (training, refresh_requests, services) = numbers;
            PreheaterParameters {
                training,
                filter,
                sets,
                late,
                ports,
                isolated,
                only_cold,
                begin,
                refresh,
                refresh_requests,
                services,
                ..PreheaterParameters::published()
            }
        },
    )
}

proptest! {
    #[test]
    fn any_events_give_a_preheater_the_same_actions_twice(
        parameters in parameters(),
        steps in steps(),
    ) {
        let build = || -> PreheatPolicy { Box::new(Preheater::new(parameters)) };
        prop_assert_eq!(play(build(), steps.clone()), play(build(), steps));
    }

    #[test]
    fn any_events_give_the_same_actions_twice(steps in steps()) {
        let stride = StrideParameters { entries: 8, degree: 2, distance: 1 };
        let announced =
            ReplayerParameters { trigger: Trigger::Announced, ..ReplayerParameters::reap() };
        let rare = ReplayerParameters { again: 3, late: Late::Skip, ..announced };
        let build: [&dyn Fn() -> PreheatPolicy; 10] = [
            &|| Box::new(NoPreheat),
            &|| Box::new(WakeOnly::new(Some(Time::ns(40_000)))),
            &|| Box::new(ShamRequest::new(None, Late::Wait)),
            &|| Box::new(ShamRequest::new(Some(Time::ns(60_000)), Late::Skip)),
            &|| Box::new(NextLine::new(4, 1)),
            &|| Box::new(Stride::new(stride)),
            &|| Box::new(Stash::new(4)),
            &|| Box::new(Replayer::new(ReplayerParameters::jukebox())),
            &|| Box::new(Replayer::new(announced)),
            &|| Box::new(Replayer::new(rare)),
        ];
        for build in build {
            prop_assert_eq!(play(build(), steps.clone()), play(build(), steps.clone()));
        }
    }
}
