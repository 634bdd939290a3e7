//! Snapshots of what Linux' idle governors decide over a table of Sapphire Rapids, in short
//! scenarios.

use halfwink_policy::gating::{
    Action, CpuIdle, CpuIdleParameters, Event, HaltPoll, HaltPollParameters,
};
use halfwink_policy::scaling::{
    Depth, Governor, IdleState, IdleStates, LadderCore, MenuCore, TeoCore,
};
use halfwink_policy::{drive, replay, Host, Lines, Policy};
use halfwink_units::Time;

/// Polling, C1, C1E and C6 as `intel_idle.c` has them.
fn spr() -> CpuIdleParameters {
    let state = |depth, exit_us: u64, residency_us: u64| IdleState {
        depth,
        exit: Time::ns(1_000 * exit_us),
        residency: Time::ns(1_000 * residency_us),
        polls: residency_us == 0,
    };
    CpuIdleParameters {
        states: IdleStates::new(&[
            state(Depth::C1, 0, 0),
            state(Depth::C1, 1, 1),
            state(Depth::C6, 2, 4),
            state(Depth::C6, 290, 800),
        ]),
        tick: Time::ns(4_000_000),
        latency_limit: Time::NEVER,
    }
}

/// Idle times of so many microseconds, each after 10 us of work. Cores wake from C6 in 190 us, and
/// from the others at once.
fn play<G: Governor>(parameters: CpuIdleParameters, lengths_us: &[u64]) -> Vec<u8> {
    let mut policy = CpuIdle::<G>::new(parameters);
    let (mut now, mut chosen) = (Time::ZERO, Vec::new());
    for &length in lengths_us {
        let began = now + Time::ns(10_000);
        now = began + Time::ns(1_000 * length);
        policy.on_event(began, &Event::IdleBegin);
        let mut take = |policy: &mut CpuIdle<G>| match policy.poll_action() {
            Some(Action::Rest { state }) => chosen.push(state),
            other => panic!("{other:?}"),
        };
        take(&mut policy);
        while let Some(tick) = policy.next_timer().filter(|&tick| tick < now) {
            policy.on_timer(tick);
            take(&mut policy);
        }
        policy.on_event(now, &Event::IdleEnd { began });
        if policy.poll_action() == Some(Action::Wake) {
            now += Time::ns(if chosen.last() == Some(&3) { 190_000 } else { 1_000 });
            policy.on_event(now, &Event::Awake);
        }
    }
    chosen
}

/// Short stays, then long ones, then short ones with a long one now and then.
fn lengths() -> Vec<u64> {
    let mut all = vec![20; 12];
    all.extend([2_000; 12]);
    all.extend([20, 20, 20, 2_000].repeat(4));
    all
}

fn digits(chosen: &[u8]) -> String {
    chosen.iter().map(|state| (b'0' + state) as char).collect()
}

#[test]
fn each_governor_learns_in_its_own_way() {
    let by = |chosen: Vec<u8>| digits(&chosen);
    let governors = [
        by(play::<MenuCore>(spr(), &lengths())),
        by(play::<TeoCore>(spr(), &lengths())),
        by(play::<LadderCore>(spr(), &lengths())),
    ];
    insta::assert_snapshot!(governors.join("\n"), @r"
    3333333322222233333333232222333333322333
    3222222222222222233333333333332222222222
    1111222232222333333333333222232222322223
    ");
}

#[test]
fn latency_limit_keeps_cores_out_of_c6_without_polling() {
    for limited in [false, true] {
        let limit = if limited { Time::ns(100_000) } else { Time::NEVER };
        let parameters = CpuIdleParameters { latency_limit: limit, ..spr() };
        for chosen in [
            play::<MenuCore>(parameters, &lengths()),
            play::<TeoCore>(parameters, &lengths()),
            play::<LadderCore>(parameters, &lengths()),
        ] {
            assert!(!chosen.contains(&0), "{chosen:?}");
            assert_eq!(chosen.contains(&3), !limited, "{chosen:?}");
        }
    }
}

#[test]
fn teo_polls_where_most_stays_are_too_short_for_c1() {
    let mut quick = spr();
    quick.states = IdleStates::new(&[
        IdleState { residency: Time::ZERO, ..quick.states[0] },
        IdleState { residency: Time::ns(50_000), ..quick.states[1] },
        quick.states[3],
    ]);
    let chosen = play::<TeoCore>(quick, &[10; 40]);
    assert_eq!(chosen.last(), Some(&0), "{chosen:?}");
}

#[test]
fn a_recorded_log_replays_to_the_same_actions() {
    let make = || CpuIdle::<TeoCore>::new(spr());
    let mut events = Vec::new();
    let mut now = Time::ZERO;
    for n in 1..300_u64 {
        let began = now + Time::ns(7_000);
        now = began + Time::ns(1_000 * (n * n * 7_919 % 3_001));
        events.extend([(began, Event::IdleBegin), (now, Event::IdleEnd { began })]);
        now += Time::ns(2_000);
        events.push((now, Event::Awake));
    }
    let mut logged = Host::logged(make(), Lines::unbounded());
    let first = drive(&mut logged, &events, Time::ns(10_000_000_000));
    let log: Vec<_> = (1..).zip(logged.log_mut().take()).collect();
    let summary = replay(&mut make(), log).expect("the same policy");
    assert_eq!(summary.actions, first.len() as u64);
    let rests = first.iter().filter(|d| matches!(d.action, Action::Rest { .. })).count();
    assert!(rests >= 299, "{rests}");
    assert_eq!(make().snapshot()[0], ("state", -1));
}

/// Halts of so many microseconds under haltpoll, each after 10 us of work: the states of each halt,
/// and the limit of polling after it in microseconds.
fn halts(parameters: HaltPollParameters, lengths_us: &[u64]) -> String {
    let mut policy = HaltPoll::new(parameters);
    let (mut now, mut lines) = (Time::ZERO, Vec::new());
    for &length in lengths_us {
        let began = now + Time::ns(10_000);
        now = began + Time::ns(1_000 * length);
        let mut states = String::new();
        let mut take = |policy: &mut HaltPoll| match policy.poll_action() {
            Some(Action::Rest { state }) => states.push((b'0' + state) as char),
            other => panic!("{other:?}"),
        };
        policy.on_event(began, &Event::IdleBegin);
        take(&mut policy);
        while let Some(over) = policy.next_timer().filter(|&over| over < now) {
            policy.on_timer(over);
            take(&mut policy);
        }
        policy.on_event(now, &Event::IdleEnd { began });
        assert_eq!(policy.poll_action(), None, "C1 is left without an order");
        let snapshot = policy.snapshot();
        let (_, limit_ps) = snapshot.iter().find(|(name, _)| *name == "limit_ps").unwrap();
        lines.push(format!("{length}: {states}, {}", limit_ps / 1_000_000));
    }
    lines.join("\n")
}

#[test]
fn haltpoll_polls_longer_after_short_halts_and_not_at_all_after_long_ones() {
    // `adjust_poll_limit` by hand, of what is left of a halt after polling: doubled if that
    // outlasts the limit, from 50 on; halved if it outlasts 200, and 0 below 50.
    let lengths = [100, 40, 120, 250, 450, 180, 390, 500, 900, 20];
    insta::assert_snapshot!(halts(HaltPollParameters::LINUX, &lengths), @r"
    100: 1, 50
    40: 0, 50
    120: 01, 100
    250: 01, 200
    450: 01, 100
    180: 01, 100
    390: 01, 50
    500: 01, 0
    900: 1, 0
    20: 1, 50
    ");
    let fixed = HaltPollParameters { shrinks: false, ..HaltPollParameters::LINUX };
    insta::assert_snapshot!(halts(fixed, &[100, 900, 900]), @r"
    100: 1, 50
    900: 01, 50
    900: 01, 50
    ");
    let at_once = HaltPollParameters { shrink: 0, ..HaltPollParameters::LINUX };
    insta::assert_snapshot!(halts(at_once, &[100, 900, 900]), @r"
    100: 1, 50
    900: 01, 0
    900: 1, 0
    ");
}
