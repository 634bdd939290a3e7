//! Snapshots of what the steering policies of others decide in short scenarios, and what holds for
//! all of them.

use crate::common;

use common::{decisions, decisions_at, play, steps};
use halfwink_policy::steering::{
    DreamWeaver, DreamWeaverParameters, Event, Hal, HalParameters, KnightShift,
    KnightShiftParameters, LevelCost, OctopusMan, OctopusManParameters, Server, Shortest,
    ShortestParameters, Side, SleepTimer, SleepTimerParameters, SteeringPolicy,
};
use halfwink_units::Time;
use proptest::prelude::*;

const AWAKE: Event = Event::Awake { side: Side::Big };
const ASLEEP: Event = Event::Asleep { side: Side::Big };
const SMALL_AWAKE: Event = Event::Awake { side: Side::Small };
const SMALL_ASLEEP: Event = Event::Asleep { side: Side::Small };

const fn us(us: u64) -> Time {
    Time::ns(1_000 * us)
}

/// A request done at the small machine after so many microseconds.
const fn small(latency_us: u64) -> Event {
    Event::Finish { side: Side::Small, latency: us(latency_us) }
}

const fn big(latency_us: u64) -> Event {
    Event::Finish { side: Side::Big, latency: us(latency_us) }
}

#[test]
fn power_nap_sleeps_when_it_has_nothing_and_wakes_for_the_next_request() {
    let policy = SleepTimer::new(SleepTimerParameters::power_nap());
    let events = [SMALL_ASLEEP, ASLEEP, Event::Arrive, AWAKE, Event::Arrive, big(1), big(1)];
    insta::assert_snapshot!(decisions(Box::new(policy), &events), @r"
    0 Sleep { side: Small }
    0 Sleep { side: Big }
    3 Send { side: Big }
    3 Wake { side: Big }
    5 Send { side: Big }
    7 Sleep { side: Big }
    ");
}

#[test]
fn delayed_off_starts_its_timer_anew_with_each_idle_time() {
    let policy = SleepTimer::new(SleepTimerParameters::fixed(us(5_000)));
    let events = [
        (1_000, Event::Arrive),
        (2_000, big(1_000)),
        (6_000, Event::Arrive),
        (8_000, big(2_000)),
        (13_500, Event::Arrive),
        (14_000, AWAKE),
    ];
    insta::assert_snapshot!(decisions_at(Box::new(policy), &events, 100_000), @r"
      0 Sleep { side: Small }
      1 Send { side: Big }
      6 Send { side: Big }
     13 Sleep { side: Big }
    13.5 Send { side: Big }
    13.5 Wake { side: Big }
    ");
}

#[test]
fn timers_pay_for_a_wake_up() {
    // 200 W for 260 s of set-up, 140 W idle.
    let scale = SleepTimerParameters::set_up_over_idle(Time::ns(260_000_000_000), 200.0, 140.0);
    assert!((scale.linger.as_s() - 371.428_571).abs() < 1e-6, "{:?}", scale.linger);
    // 10 J against 25 W saved.
    let level = LevelCost { sleep_w: 5.0, transition_j: 10.0 };
    let timer = SleepTimerParameters::break_even(30.0, level);
    assert_eq!(timer.linger, us(400_000));
    let never = SleepTimer::new(SleepTimerParameters::break_even(5.0, level));
    insta::assert_snapshot!(decisions(Box::new(never), &[Event::Arrive, big(1)]), @r"
    0 Sleep { side: Small }
    1 Send { side: Big }
    ");
}

#[test]
fn ladder_goes_down_where_energies_cross() {
    let level = |sleep_w, transition_j| LevelCost { sleep_w, transition_j };
    let rungs = |levels: &[LevelCost]| {
        let SleepTimerParameters { linger, deeper, .. } =
            SleepTimerParameters::ladder(30.0, levels);
        [linger, deeper[0], deeper[1], deeper[2]]
    };
    // 10 J against 20 W saved, 40 J more against 8 W more, 30 J more against 1 W more.
    let three = [level(10.0, 10.0), level(2.0, 50.0), level(1.0, 80.0)];
    assert_eq!(rungs(&three), [us(500_000), us(5_000_000), us(30_000_000), Time::NEVER]);
    // The middle one is never the cheapest: it is passed on the way.
    let passed = [level(25.0, 50.0), level(10.0, 60.0)];
    assert_eq!(rungs(&passed), [us(3_000_000), us(3_000_000), Time::NEVER, Time::NEVER]);
    assert_eq!(rungs(&[level(30.0, 0.0)]), [Time::NEVER; 4]);
    assert_eq!(rungs(&[level(29.0, 0.0), level(30.0, 0.0)])[..2], [Time::ZERO, Time::NEVER]);
}

#[test]
fn sleeping_machine_goes_deeper_until_request_comes() {
    let deeper = [us(20_000), us(20_000), Time::NEVER];
    let parameters = SleepTimerParameters { deeper, ..SleepTimerParameters::fixed(us(5_000)) };
    let events = [
        (1_000, Event::Arrive),
        (2_000, big(1_000)),
        (8_000, ASLEEP),
        // Both deeper levels at once, 20 ms after the last request was done.
        (23_000, ASLEEP),
        (24_000, ASLEEP),
        (30_000, Event::Arrive),
        (35_000, AWAKE),
        (36_000, big(6_000)),
        (42_000, ASLEEP),
        // A request that comes while it goes deeper wakes it.
        (56_500, Event::Arrive),
    ];
    let policy = Box::new(SleepTimer::new(parameters));
    insta::assert_snapshot!(decisions_at(policy, &events, 100_000), @r"
      0 Sleep { side: Small }
      1 Send { side: Big }
      7 Sleep { side: Big }
     22 Sleep { side: Big }
     23 Sleep { side: Big }
     30 Send { side: Big }
     30 Wake { side: Big }
     41 Sleep { side: Big }
     56 Sleep { side: Big }
    56.5 Send { side: Big }
    56.5 Wake { side: Big }
    ");
}

#[test]
fn octopus_man_climbs_in_danger_and_descends_when_safe() {
    let policy = || {
        Box::new(OctopusMan::new(OctopusManParameters {
            period: us(10_000),
            ..OctopusManParameters::published(us(1_000))
        }))
    };
    let events = [
        (1_000, SMALL_ASLEEP),
        (1_000, Event::Arrive),
        (1_200, big(200)),
        // 10 ms: safe, so the small machine wakes; until it is awake the big one serves.
        (11_000, Event::Arrive),
        (12_000, SMALL_AWAKE),
        (12_000, Event::Arrive),
        (12_100, big(1_100)),
        (12_900, small(900)),
        // 20 ms: danger, back to the big one.
        (21_000, AWAKE),
        (22_000, Event::Arrive),
        // Neither: 500 us.
        (22_500, big(500)),
    ];
    insta::assert_snapshot!(decisions_at(policy(), &events, 35_000), @r"
      0 Sleep { side: Small }
      1 Send { side: Big }
     10 Wake { side: Small }
     11 Send { side: Big }
     12 Send { side: Small }
    12.1 Sleep { side: Big }
     20 Wake { side: Big }
     21 Sleep { side: Small }
     22 Send { side: Big }
    ");
}

#[test]
fn octopus_man_stays_where_nothing_is_done_though_requests_wait() {
    let policy = OctopusMan::new(OctopusManParameters {
        period: us(10_000),
        ..OctopusManParameters::published(us(1_000))
    });
    insta::assert_snapshot!(decisions_at(Box::new(policy), &[(1_000, Event::Arrive)], 55_000), @r"
    0 Sleep { side: Small }
    1 Send { side: Big }
    ");
}

#[test]
fn octopus_man_can_have_a_rung_of_both() {
    let policy = OctopusMan::new(OctopusManParameters {
        period: us(10_000),
        both: true,
        ..OctopusManParameters::published(us(1_000))
    });
    let mut events = vec![(1_000, SMALL_ASLEEP), (1_000, Event::Arrive), (3_000, big(2_000))];
    events.push((11_000, SMALL_AWAKE));
    events.extend([(12_000, Event::Arrive); 5]);
    insta::assert_snapshot!(decisions_at(Box::new(policy), &events, 15_000), @r"
     0 Sleep { side: Small }
     1 Send { side: Big }
    10 Wake { side: Small }
    12 Send { side: Big }
    12 Send { side: Small }
    12 Send { side: Big }
    12 Send { side: Big }
    12 Send { side: Big }
    ");
}

#[test]
fn the_knight_goes_on_until_the_primary_is_awake_and_back_in_charge_lets_it_drain() {
    let policy = KnightShift::new(KnightShiftParameters {
        period: us(10_000),
        ..KnightShiftParameters::published(2, 4)
    });
    let events = [
        (500, ASLEEP),
        (1_000, Event::Arrive),
        (1_000, Event::Arrive),
        // 10 ms: 90 % of both workers, so the primary wakes.
        (12_000, Event::Arrive),
        (13_000, AWAKE),
        (13_000, Event::Arrive),
        (14_000, small(13_000)),
        // 20 ms: 7 of 28 worker milliseconds, above 7.5 %; 30 ms: 1 of 40, below.
        (21_000, big(8_000)),
        (29_500, Event::Arrive),
        (31_000, Event::Arrive),
        (32_000, big(2_500)),
    ];
    insta::assert_snapshot!(decisions_at(Box::new(policy), &events, 35_000), @r"
      0 Sleep { side: Big }
      1 Send { side: Small }
      1 Send { side: Small }
     10 Wake { side: Big }
     12 Send { side: Small }
     13 Send { side: Big }
    29.5 Send { side: Big }
     31 Send { side: Small }
     32 Sleep { side: Big }
    ");
}

#[test]
fn the_authors_simulator_shifts_at_once_and_back_under_more_load() {
    let policy = KnightShift::new(KnightShiftParameters::simulator(5, 20));
    let mut events = vec![ASLEEP];
    events.extend([Event::Arrive; 4]);
    events.extend([AWAKE, Event::Arrive, Event::Arrive, Event::Arrive, Event::Arrive]);
    events.extend([big(1), Event::Arrive, big(1), big(1), Event::Arrive]);
    insta::assert_snapshot!(decisions(Box::new(policy), &events), @r"
     0 Sleep { side: Big }
     2 Send { side: Small }
     3 Send { side: Small }
     4 Send { side: Small }
     5 Send { side: Small }
     5 Wake { side: Big }
     7 Send { side: Big }
     8 Send { side: Big }
     9 Send { side: Big }
    10 Send { side: Big }
    12 Send { side: Big }
    15 Send { side: Small }
    ");
}

#[test]
fn hal_sends_the_excess_to_the_big_machine() {
    // A token a millisecond, two at first.
    let parameters = HalParameters { burst: 2, step: 0, ..HalParameters::published(1_000, 1) };
    let events = [
        (0, ASLEEP),
        (100, Event::Arrive),
        (200, Event::Arrive),
        (300, Event::Arrive),
        (400, AWAKE),
        (500, big(200)),
        (1_000, Event::Arrive),
        (1_200, Event::Arrive),
        (1_400, big(200)),
    ];
    let policy = Hal::new(HalParameters { linger: us(3_000), ..parameters });
    insta::assert_snapshot!(decisions_at(Box::new(policy), &events, 50_000), @r"
    0.1 Send { side: Small }
    0.2 Send { side: Small }
    0.3 Send { side: Big }
    0.3 Wake { side: Big }
      1 Send { side: Big }
    1.2 Send { side: Small }
    4.4 Sleep { side: Big }
    ");
}

#[test]
fn hal_follows_how_full_the_small_machine_is() {
    let rate_after = |done: bool| {
        let parameters = HalParameters { high: 3, ..HalParameters::published(1_000, 1) };
        let mut policy: SteeringPolicy = Box::new(Hal::new(parameters));
        let take = |policy: &mut SteeringPolicy| while policy.poll_action().is_some() {};
        for n in 0..30 {
            policy.on_event(us(300 * n), &Event::Arrive);
            take(&mut policy);
            if done {
                policy.on_event(us(300 * n + 100), &small(100));
            }
        }
        policy.on_timer(us(10_000));
        policy.snapshot().into_iter().find(|row| row.0 == "rate").expect("a rate").1
    };
    assert_eq!((rate_after(true), rate_after(false)), (1_020, 980));
}

#[test]
fn dream_weaver_weaves_requests_into_full_loads() {
    let policy = || DreamWeaver::new(DreamWeaverParameters::published(2, us(10_000)));
    // Two requests wake it; with one left it sleeps, freezing that.
    let events = [
        (0, SMALL_ASLEEP),
        (0, ASLEEP),
        (1_000, Event::Arrive),
        (4_000, Event::Arrive),
        (5_000, AWAKE),
        (6_000, big(5_000)),
        // It came at 4 ms and was held up for 1 ms: 9 ms left.
        (15_500, AWAKE),
        (16_000, Event::Arrive),
        (17_000, big(1_000)),
        // Held up for 10.5 ms: it is not stopped again.
        (18_000, big(14_000)),
    ];
    insta::assert_snapshot!(decisions_at(Box::new(policy()), &events, 50_000), @r"
     0 Sleep { side: Small }
     0 Sleep { side: Big }
     1 Send { side: Big }
     4 Send { side: Big }
     4 Wake { side: Big }
     6 Sleep { side: Big }
    15 Wake { side: Big }
    16 Send { side: Big }
    18 Sleep { side: Big }
    ");
    // The first alone waits for the bound.
    let events = [(0, ASLEEP), (1_000, Event::Arrive), (12_000, AWAKE), (13_000, big(12_000))];
    insta::assert_snapshot!(decisions_at(Box::new(policy()), &events, 50_000), @r"
     0 Sleep { side: Small }
     0 Sleep { side: Big }
     1 Send { side: Big }
    11 Wake { side: Big }
    13 Sleep { side: Big }
    ");
}

#[test]
fn the_shortest_delay_counts_queues_speeds_and_the_wake_up() {
    let parameters = ShortestParameters::ratio(2, us(3_000), 3, us(4_000));
    let mut events = vec![ASLEEP];
    events.extend([Event::Arrive; 5]);
    events.extend([AWAKE, Event::Arrive, Event::Arrive]);
    insta::assert_snapshot!(decisions(Box::new(Shortest::new(parameters)), &events), @r"
    0 Sleep { side: Big }
    2 Send { side: Small }
    3 Send { side: Small }
    4 Send { side: Small }
    5 Send { side: Big }
    5 Wake { side: Big }
    6 Send { side: Big }
    8 Send { side: Big }
    9 Send { side: Big }
    ");
}

#[test]
fn a_lost_machine_is_stood_in_for() {
    let lost = Event::Lost { side: Side::Big };
    let back = Event::Back { side: Side::Big };
    let events = [SMALL_ASLEEP, lost, Event::Arrive, SMALL_AWAKE, back, small(1), Event::Arrive];
    let power_nap = SleepTimer::new(SleepTimerParameters::power_nap());
    insta::assert_snapshot!(decisions(Box::new(power_nap), &events), @r"
    0 Sleep { side: Small }
    0 Sleep { side: Big }
    3 Send { side: Small }
    3 Wake { side: Small }
    5 Sleep { side: Big }
    6 Sleep { side: Small }
    7 Send { side: Big }
    7 Wake { side: Big }
    ");
    let parameters = DreamWeaverParameters::published(4, us(50_000));
    insta::assert_snapshot!(decisions(Box::new(DreamWeaver::new(parameters)), &events), @r"
     0 Sleep { side: Small }
     0 Sleep { side: Big }
     3 Send { side: Small }
     3 Wake { side: Small }
     5 Sleep { side: Big }
     6 Sleep { side: Small }
     7 Send { side: Big }
    57 Wake { side: Big }
    ");
    let octopus = OctopusMan::new(OctopusManParameters::published(us(1_000)));
    insta::assert_snapshot!(decisions(Box::new(octopus), &events), @r"
    0 Sleep { side: Small }
    3 Send { side: Small }
    3 Wake { side: Small }
    6 Sleep { side: Small }
    7 Send { side: Big }
    ");
}

/// It serves every request then, and would wake for each.
#[test]
fn a_big_machine_alone_stays_on_until_the_small_one_is_back() {
    let (lost, back) = (Event::Lost { side: Side::Small }, Event::Back { side: Side::Small });
    let events = [ASLEEP, lost, Event::Arrive, AWAKE, big(1), back];
    let hal = HalParameters { linger: Time::ZERO, ..HalParameters::published(1_000, 2) };
    insta::assert_snapshot!(decisions(Box::new(Hal::new(hal)), &events), @r"
    0 Sleep { side: Big }
    3 Send { side: Big }
    3 Wake { side: Big }
    6 Sleep { side: Big }
    ");
    let shortest = ShortestParameters::ratio(2, us(3_000), 3, us(4_000));
    insta::assert_snapshot!(decisions(Box::new(Shortest::new(shortest)), &events), @r"
    0 Sleep { side: Big }
    3 Send { side: Big }
    3 Wake { side: Big }
    6 Sleep { side: Big }
    ");
    // A linger that has begun before ends without a sleep.
    let lingers = Shortest::new(ShortestParameters { linger: us(2_000), ..shortest });
    let events = [(1_000, lost), (5_000, back)];
    let decided = decisions_at(Box::new(lingers), &events, 50_000);
    assert_eq!(decided.trim(), "7 Sleep { side: Big }");
}

fn policies(a: u32, b: u32, span: Time) -> Vec<SteeringPolicy> {
    let period = span + us(1);
    let knight = KnightShiftParameters { period, ..KnightShiftParameters::published(a, a + b) };
    let octopus = OctopusManParameters { period, ..OctopusManParameters::published(span) };
    let timer = |side| {
        let deeper = [span + us(100), span + us(100), Time::NEVER];
        Box::new(SleepTimer::new(SleepTimerParameters { side, linger: span, deeper }))
    };
    let hal = HalParameters { period, linger: span, ..HalParameters::published(100 * b, a) };
    vec![
        timer(Side::Small),
        timer(Side::Big),
        Box::new(SleepTimer::new(SleepTimerParameters::power_nap())),
        Box::new(KnightShift::new(knight)),
        Box::new(KnightShift::new(KnightShiftParameters::simulator(a, a + b))),
        Box::new(OctopusMan::new(octopus)),
        Box::new(OctopusMan::new(OctopusManParameters { both: true, ..octopus })),
        Box::new(Hal::new(hal)),
        Box::new(DreamWeaver::new(DreamWeaverParameters::published(a, span))),
        Box::new(DreamWeaver::new(DreamWeaverParameters {
            side: Side::Small,
            workers: b + 1,
            delay: Time::ZERO,
        })),
        Box::new(Shortest::new(ShortestParameters {
            small: Server { workers: a, service: span },
            big: Server { workers: b + 1, service: us(300) },
            wake_latency: us(500),
            linger: Time::ZERO,
        })),
    ]
}

proptest! {
    #[test]
    fn every_request_is_done_and_machines_are_asked_only_for_what_they_can(
        steps in prop_oneof![steps(true), steps(false)],
        a in 1u32..6,
        b in 0u32..8,
        span_us in 0u64..5_000,
    ) {
        for policy in policies(a, b, us(span_us)) {
            play(policy, &steps)?;
        }
    }
}
