//! Snapshots of what each gating policy decides in short scenarios. A changed decision shows up
//! here as a changed line.

use halfwink_policy::gating::{
    Action, AdaptiveIdle, AlwaysOn, Bound, Costs, Event, Expectation, Fupg, FupgParameters,
    GatingPolicy, IdleGate, MapgCounter, MapgParameters, Oracle, Slots, Switching,
    SwitchingParameters, Tap, Token, WakeFor,
};
use halfwink_policy::{drive, replay, Host, Lines, Policy};
use halfwink_units::{LineAddr, Time};

/// In-order core (Strong 2013, Table 2.3): restore is 3 control cycles + 4 stages at 2 GHz.
const IN_ORDER: Costs = Costs {
    entry: Time(1_500),
    break_even: Time(8_530),
    wake_up: Time(8_060),
    restore: Time(3_500),
    slots: Slots::ANY,
};

/// EV6 core (Strong 2013, Table 2.3 and Sec 2.3.6).
const EV6: Costs = Costs {
    entry: Time(909),
    break_even: Time(17_170),
    wake_up: Time(10_200),
    restore: Time(3_030),
    slots: Slots::ANY,
};

const MAPG: MapgParameters =
    MapgParameters { t_llc: Time(22_000), t_mem: Time(45_000), expectation: Expectation::Memory };

fn ns(ns: f64) -> Time {
    Time::from_ns(ns)
}

const A: LineAddr = LineAddr(0xa);
const B: LineAddr = LineAddr(0xb);

fn token(line: LineAddr, created: f64, bound: Bound) -> Event {
    Event::Token(Token { line, created: ns(created), bound })
}

/// The tokens of an access at `at` that misses everywhere, and the stall it causes (times of
/// Table 2.3: 0.5, 4.5, 17.5 ns to the levels; estimate 4.5 ns after the access reached memory).
fn full_miss(line: LineAddr, at: f64, response: f64) -> Vec<(Time, Event)> {
    vec![
        (ns(at + 0.5), token(line, at + 0.5, Bound::NotBefore(ns(4.0)))),
        (ns(at + 4.5), token(line, at + 4.5, Bound::NotBefore(ns(13.0)))),
        (ns(at + 17.5), token(line, at + 17.5, Bound::Unknown)),
        (ns(at + 26.5), token(line, at + 22.0, Bound::Eta(ns(response - at - 22.0)))),
    ]
}

fn sorted(mut events: Vec<(Time, Event)>) -> Vec<(Time, Event)> {
    events.sort_by_key(|&(at, _)| at);
    events
}

fn decisions(
    policy: &mut dyn Policy<Event = Event, Action = Action>,
    events: Vec<(Time, Event)>,
) -> String {
    let asked = drive(policy, &sorted(events), Time::ns(1_000_000));
    let mut text = String::new();
    for decision in asked {
        text += &format!("{:>8.2} {:?}\n", decision.at.as_ns(), decision.action);
    }
    text
}

#[test]
fn an_idle_time_expected_to_be_short_is_waited_out() {
    // Worth it on an EV6: 0.91 + 17.17 + 10.2 + 3.03 = 31.31 ns. The first is not known to be
    // short; the second is; the third is guessed wrong and gated late; the fourth is long.
    let idle = |from: f64, to: f64| {
        let began = ns(from);
        [(began, Event::IdleBegin), (ns(to), Event::IdleEnd { began })]
    };
    let times = [(0.0, 20.0), (100.0, 110.0), (200.0, 1000.0), (1100.0, 1200.0)];
    let events = times.into_iter().flat_map(|(from, to)| idle(from, to)).collect();
    let text = decisions(&mut AdaptiveIdle::new(EV6), events);
    insta::assert_snapshot!(text, @r"
        0.00 Gate
       20.00 Wake
      231.31 Gate
     1000.00 Wake
     1100.00 Gate
     1200.00 Wake
    ");
}

#[test]
fn tap_follows_the_published_timeline() {
    // Strong 2013, Fig 2.11: request at 0 misses everywhere; the core stalls just after the second
    // token, gates at the third, and wakes at 70 to be restored when the response comes at 81.
    let mut events = full_miss(A, 0.0, 81.0);
    events.push((ns(5.0), Event::StallBegin));
    events.push((ns(81.0), Event::Response { line: A }));
    events.push((ns(81.0), Event::StallEnd { began: ns(5.0) }));
    let text = decisions(&mut Tap::new(IN_ORDER, 4), events);
    insta::assert_snapshot!(text, @r"
       17.50 Gate
       69.44 Wake
    ");
}

#[test]
fn tap_wakes_for_the_earliest_of_two_responses() {
    let mut events = full_miss(A, 0.0, 120.0);
    events.extend(full_miss(B, 10.0, 100.0));
    events.push((ns(11.0), Event::StallBegin));
    events.push((ns(100.0), Event::Response { line: B }));
    events.push((ns(100.0), Event::Awake));
    events.push((ns(120.0), Event::Response { line: A }));
    events.push((ns(120.0), Event::StallEnd { began: ns(11.0) }));
    let text = decisions(&mut Tap::new(EV6, 20), events);
    insta::assert_snapshot!(text, @r"
       27.50 Gate
       86.77 Wake
    ");
}

#[test]
fn tap_stays_on_when_something_will_come_too_soon() {
    // A hit in the third level is on its way while another access is unknown.
    let mut events = full_miss(A, 0.0, 81.0);
    events.retain(|&(at, _)| at < ns(20.0));
    events.push((ns(12.0), token(B, 12.0, Bound::NotBefore(ns(13.0)))));
    events.push((ns(13.0), Event::StallBegin));
    events.push((ns(25.0), Event::Response { line: B }));
    let text = decisions(&mut Tap::new(EV6, 20), events);
    // Only once B was answered does the unknown access allow gating.
    insta::assert_snapshot!(text, @"   25.00 Gate");
}

#[test]
fn tap_never_gates_an_l3_hit() {
    let mut events = full_miss(A, 0.0, 81.0);
    events.truncate(2);
    events.push((ns(1.0), Event::StallBegin));
    events.push((ns(17.5), Event::Response { line: A }));
    events.push((ns(17.5), Event::StallEnd { began: ns(1.0) }));
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), events), @"");
}

#[test]
fn what_wakes_slowly_is_not_gated_again_before_it_is_awake() {
    // A neighbour's wake-up leaves this one 100 ns: it is told at 77.97 and awake at 181. A stall
    // that begins meanwhile, for what comes at 130, would otherwise be worth gating.
    let mut events = full_miss(A, 0.0, 181.0);
    events.push((ns(5.0), Event::StallBegin));
    events.push((ns(20.0), Event::Granted { wake_up: ns(100.0) }));
    events.push((ns(90.0), Event::Response { line: A }));
    events.push((ns(90.0), Event::StallEnd { began: ns(5.0) }));
    events.push((ns(92.0), Event::StallBegin));
    events.push((ns(93.0), token(B, 93.0, Bound::Eta(ns(37.0)))));
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), events), @r"
       17.50 Gate
       77.97 Wake
    ");
}

#[test]
fn a_grant_holds_for_one_wake_up() {
    // Granted 2 ns: 181 - 2 - 3.03. The next time takes 10.2 as ever: 581 - 10.2 - 3.03.
    let mut events = full_miss(A, 0.0, 181.0);
    events.push((ns(5.0), Event::StallBegin));
    events.push((ns(20.0), Event::Granted { wake_up: ns(2.0) }));
    events.push((ns(181.0), Event::Awake));
    events.push((ns(181.0), Event::Response { line: A }));
    events.push((ns(181.0), Event::StallEnd { began: ns(5.0) }));
    events.extend(full_miss(B, 400.0, 581.0));
    events.push((ns(405.0), Event::StallBegin));
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), sorted(events)), @r"
       17.50 Gate
      175.97 Wake
      417.50 Gate
      567.77 Wake
    ");
}

#[test]
fn a_token_that_comes_too_late_to_promise_anything_is_none() {
    let events = vec![
        (ns(0.0), Event::StallBegin),
        (ns(10.0), token(A, 0.0, Bound::NotBefore(ns(5.0)))),
        (ns(12.0), token(B, 12.0, Bound::Unknown)),
    ];
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), events.clone()), @"   12.00 Gate");
    // One that comes just in time promises something, and that comes too soon.
    let mut at_once = events;
    at_once[1].0 = ns(5.0);
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), at_once), @"");
}

#[test]
fn a_full_table_counts_what_it_turns_away() {
    let fill = |entries: usize| {
        let mut policy = Tap::new(EV6, entries);
        let mut events = vec![(ns(0.0), token(A, 0.0, Bound::Unknown))];
        // Something that comes too soon to gate, if there is room to know of it.
        events.push((ns(1.0), token(B, 1.0, Bound::NotBefore(ns(13.0)))));
        events.push((ns(2.0), Event::StallBegin));
        let text = decisions(&mut policy, events);
        let shown = policy.snapshot();
        let of = |name| shown.iter().find(|(n, _)| *n == name).unwrap().1;
        (text, of("entries"), of("most_entries"), of("overflows"))
    };
    assert_eq!(fill(2), (String::new(), 2, 2, 0));
    assert_eq!(fill(1), ("    2.00 Gate\n".to_owned(), 1, 1, 1));
}

#[test]
fn mapg_learns_the_excess_and_backs_off_at_once() {
    // Stalls of 95 ns (28 over 22 + 45), four times, then one of 70 and one of 20.
    let mut events = Vec::new();
    let mut start = 0.0;
    for length in [95.0, 95.0, 95.0, 95.0, 70.0, 20.0] {
        events.push((ns(start), Event::StallBegin));
        events.push((ns(start + length), Event::Response { line: A }));
        events.push((ns(start + length), Event::StallEnd { began: ns(start) }));
        start += 1000.0;
    }
    let mut policy = MapgCounter::new(EV6, MAPG);
    let text = decisions(&mut policy, events);
    insta::assert_snapshot!(text, @r"
       22.00 Gate
       53.77 Wake
     1022.00 Gate
     1060.77 Wake
     2022.00 Gate
     2065.97 Wake
     3022.00 Gate
     3069.87 Wake
     4022.00 Gate
     4070.00 Wake
    ");
    assert_eq!(policy.snapshot()[0], ("delta_ps", 3_000));
}

#[test]
fn mapg_memory_sooner_than_a_row_miss_stops_gating_what_does_not_pay() {
    // Row hits: these stalls end 53 ns after they begin, 14 ns sooner than a row-buffer miss.
    let events = (0..4u32)
        .flat_map(|n| {
            let start = f64::from(n) * 1000.0;
            [
                (ns(start), Event::StallBegin),
                (ns(start + 53.0), Event::Response { line: A }),
                (ns(start + 53.0), Event::StallEnd { began: ns(start) }),
            ]
        })
        .collect();
    let mut policy = MapgCounter::new(EV6, MAPG);
    // The first is gated for an expected end at 67 ns and found asleep. From then on 53 - 22 = 31
    // ns are expected, and 31.309 must be left for gating to pay.
    insta::assert_snapshot!(decisions(&mut policy, events), @r"
       22.00 Gate
       53.00 Wake
    ");
    assert_eq!(policy.snapshot()[0], ("delta_ps", -14_000));
}

#[test]
fn mapg_expects_half_the_excess_under_the_other_reading() {
    let parameters = MapgParameters { expectation: Expectation::MemoryAndDelta, ..MAPG };
    let mut policy = MapgCounter::new(EV6, parameters);
    let events = (0..200u32)
        .flat_map(|n| {
            let start = f64::from(n) * 1000.0;
            [
                (ns(start), Event::StallBegin),
                (ns(start + 107.0), Event::StallEnd { began: ns(start) }),
            ]
        })
        .collect();
    decisions(&mut policy, events);
    // The excess is 40 ns; 0.75 delta + 0.25 (40 - delta) settles at 20, less integer steps.
    let delta = policy.snapshot()[0].1;
    assert!((19_000..=20_000).contains(&delta), "{delta}");
}

#[test]
fn the_oracle_gates_exactly_what_pays() {
    let mut events = Vec::new();
    for (start, length) in [(0.0, 31.0), (1000.0, 31.4), (2000.0, 81.0)] {
        events.push((ns(start), Event::StallBegin));
        events.push((ns(start + length), Event::StallEnd { began: ns(start) }));
    }
    let text = decisions(&mut Oracle::new(EV6), events);
    // entry 0.909 + break-even 17.17 + wake-up 10.2 + restore 3.03 = 31.309 ns.
    insta::assert_snapshot!(text, @r"
     1031.40 Hindsight { gate: 1 us, wake: 1.01817 us }
     2081.00 Hindsight { gate: 2 us, wake: 2.06777 us }
    ");
}

#[test]
fn a_halted_core_is_gated_by_all_but_always_on() {
    let events =
        || vec![(ns(100.0), Event::IdleBegin), (ns(9000.0), Event::IdleEnd { began: ns(100.0) })];
    insta::assert_snapshot!(decisions(&mut AlwaysOn, events()), @"");
    let gate_and_wake = decisions(&mut IdleGate::new(), events());
    insta::assert_snapshot!(gate_and_wake, @r"
      100.00 Gate
     9000.00 Wake
    ");
    assert_eq!(decisions(&mut Tap::new(EV6, 20), events()), gate_and_wake);
    assert_eq!(decisions(&mut MapgCounter::new(EV6, MAPG), events()), gate_and_wake);
    insta::assert_snapshot!(
        decisions(&mut Oracle::new(EV6), events()),
        @" 9000.00 Hindsight { gate: 100 ns, wake: 8.98677 us }"
    );
}

#[test]
fn a_recorded_log_replays_to_the_same_actions() {
    let build: [fn() -> GatingPolicy; 3] = [
        || Box::new(Tap::new(EV6, 20)),
        || Box::new(MapgCounter::new(EV6, MAPG)),
        || Box::new(Oracle::new(EV6)),
    ];
    for make in build {
        let mut events = full_miss(A, 0.0, 81.0);
        events.push((ns(5.0), Event::StallBegin));
        events.push((ns(81.0), Event::Response { line: A }));
        events.push((ns(81.0), Event::StallEnd { began: ns(5.0) }));
        let mut logged = Host::logged(make(), Lines::unbounded());
        let first = drive(&mut logged, &events, Time::ns(1_000));
        // Told the same again, timers included, a fresh policy asks the same.
        let log: Vec<_> = (1..).zip(logged.log_mut().take()).collect();
        let summary = replay(make(), log).expect("the same policy");
        assert_eq!(summary.actions, first.len() as u64);
        assert!(!first.is_empty());
    }
}

const FUPG: FupgParameters =
    FupgParameters { idle: Time(5_000), window: Time::ns(10_000), budget: Time::ns(200) };
/// A unit that is idle for a while in a world whose units wake in 6.4 ns: the operation that needs
/// it waits for that long if it was gated.
fn unit_idle(start: f64, length: f64) -> Vec<(Time, Event)> {
    let needed = start + length;
    let began = ns(start);
    let mut events = vec![(began, Event::IdleBegin), (ns(needed), Event::IdleEnd { began })];
    if length > 5.0 {
        events.extend(wait_for_unit(needed));
        events.push((ns(needed + 6.4), Event::Awake));
    }
    events
}

fn wait_for_unit(start: f64) -> [(Time, Event); 2] {
    [(ns(start), Event::StallBegin), (ns(start + 6.4), Event::StallEnd { began: ns(start) })]
}

#[test]
fn fupg_gates_a_unit_after_5_ns_and_wakes_it_on_use() {
    let events = [unit_idle(100.0, 4.9), unit_idle(200.0, 60.0), unit_idle(266.4, 3.0)].concat();
    insta::assert_snapshot!(decisions(&mut Fupg::new(FUPG), events), @r"
      205.00 Gate
      260.00 Wake
    ");
}

/// Times of gating.
fn gates(text: &str) -> Vec<f64> {
    let gates = text.lines().filter_map(|line| line.trim().strip_suffix(" Gate"));
    gates.map(|at| at.trim().parse().unwrap()).collect()
}

#[test]
fn fupg_stops_when_the_window_has_lost_2_per_cent() {
    // 6.4 ns each: the 32nd wait crosses 200 ns. The unit that is idle at the end of the window is
    // gated then.
    let idle = |n: u32| {
        let start = f64::from(n) * 200.0 + 50.0;
        let began = ns(start);
        match n {
            32..=48 => {
                vec![(began, Event::IdleBegin), (ns(start + 60.0), Event::IdleEnd { began })]
            }
            49 => unit_idle(start, 180.0),
            _ => unit_idle(start, 60.0),
        }
    };
    let text = decisions(&mut Fupg::new(FUPG), (0..60).flat_map(idle).collect());
    let gates = gates(&text);
    assert_eq!(gates[31], 31.0 * 200.0 + 55.0);
    assert_eq!(gates[32], 10_000.0);
    assert_eq!(gates.len(), 32 + 11);
}

#[test]
fn fupg_counts_waits_for_other_units_of_its_core() {
    // 40 waits for another unit bar this one until the window ends, but do not wake it.
    let others = (0..40u32).flat_map(|n| wait_for_unit(f64::from(n) * 100.0 + 50.0));
    let gated = [(ns(10.0), Event::IdleBegin)].into_iter().chain(others);
    let late = [(ns(5_000.0), Event::IdleEnd { began: ns(10.0) })];
    let events = gated.chain(late).chain([(ns(5_006.4), Event::Awake)]);
    let events = events.chain([(ns(6_000.0), Event::IdleBegin)]);
    let events = events.chain([(ns(10_100.0), Event::StallBegin)]).collect();
    insta::assert_snapshot!(decisions(&mut Fupg::new(FUPG), events), @r"
       15.00 Gate
     5000.00 Wake
    10000.00 Gate
    ");
}

#[test]
fn tap_may_wake_for_the_last_response() {
    // Two accesses, answered at 81 and 181.
    let mut events = full_miss(A, 0.0, 81.0);
    events.extend(full_miss(B, 1.0, 181.0));
    events.push((ns(5.0), Event::StallBegin));
    events.push((ns(81.0), Event::Response { line: A }));
    events.push((ns(181.0), Event::Response { line: B }));
    events.push((ns(181.0), Event::StallEnd { began: ns(5.0) }));
    let events = sorted(events);
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), events.clone()), @r"
       18.50 Gate
       67.77 Wake
    ");
    let last = &mut Tap::new(EV6, 20).waking_for(WakeFor::LastResponse);
    insta::assert_snapshot!(decisions(last, events), @r"
       17.50 Gate
      167.77 Wake
    ");
}

#[test]
fn tap_forgets_a_token_that_came_after_its_response() {
    // Of B nothing more is heard: its response came at 30, before the token that says "unknown".
    let stale = |at: f64| {
        vec![
            (ns(30.0), Event::Response { line: B }),
            (ns(40.0), token(B, 18.5, Bound::Unknown)),
            (ns(at), Event::StallBegin),
            (ns(at + 81.0), Event::Response { line: A }),
        ]
    };
    // Whoever waits for the last response has that of A, and none to come.
    let last = || Tap::new(EV6, 20).waking_for(WakeFor::LastResponse);
    insta::assert_snapshot!(decisions(&mut last(), stale(50.0)), @r"
        50.00 Gate
     20131.00 Wake
    ");
    // Who waits for the first is woken by that of A, and late; and later gates no more for B.
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), stale(50.0)), @r"
       50.00 Gate
      131.00 Wake
    ");
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), stale(20_041.0)), @"");
    insta::assert_snapshot!(decisions(&mut last(), stale(20_041.0)), @"");
    // An earlier token that is later still makes a bound of it that has passed: nobody gates for A
    // before it is forgotten.
    let bound = |at: f64| {
        let mut events = stale(20_000.0);
        events.truncate(2);
        events.push((ns(50.0), token(B, 4.5, Bound::NotBefore(ns(13.0)))));
        events.extend(full_miss(A, at, at + 81.0));
        events.push((ns(at + 5.0), Event::StallBegin));
        events.push((ns(at + 81.0), Event::Response { line: A }));
        events
    };
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), bound(100.0)), @"");
    insta::assert_snapshot!(decisions(&mut Tap::new(EV6, 20), bound(30_000.0)), @r"
     30017.50 Gate
     30067.77 Wake
    ");
}

#[test]
fn slots_move_a_wake_up_to_the_last_that_is_early_enough() {
    let slots = Slots::nth(1, 5, Time(900));
    let costs = Costs { slots, ..EV6 };
    let mut events = full_miss(A, 0.0, 81.0);
    events.push((ns(5.0), Event::StallBegin));
    events.push((ns(81.0), Event::Response { line: A }));
    events.push((ns(81.0), Event::StallEnd { began: ns(5.0) }));
    // Needed: 67.77; its slots are 0.9 + 4.5 k, so 63.9.
    insta::assert_snapshot!(decisions(&mut Tap::new(costs, 20), sorted(events)), @r"
       17.50 Gate
       63.90 Wake
    ");
}

#[test]
fn switching_keeps_to_the_controller_that_gains_more() {
    let parameters = SwitchingParameters { window: Time::ns(1_000), round: 5 };
    let build = || {
        let (tap, mapg) = (Tap::new(EV6, 20), MapgCounter::new(EV6, MAPG));
        Switching::new(EV6, parameters, tap, mapg)
    };
    // Without tokens TAP never gates, so MAPG-Counter has the windows 1, 3, 4 ... of the first
    // round, and all but the first of later ones.
    let stalls = (0..10u32).flat_map(|n| {
        let start = f64::from(n) * 1_000.0 + 10.0;
        [
            (ns(start), Event::StallBegin),
            (ns(start + 95.0), Event::Response { line: A }),
            (ns(start + 95.0), Event::StallEnd { began: ns(start) }),
        ]
    });
    let text = decisions(&mut build(), stalls.collect());
    let gated: Vec<u32> = text
        .lines()
        .filter_map(|line| line.trim().strip_suffix(" Gate"))
        .map(|at| (at.trim().parse::<f64>().unwrap() / 1_000.0) as u32)
        .collect();
    assert_eq!(gated, [1, 2, 3, 4, 6, 7, 8, 9]);
    // With tokens TAP gates longer: window 1 tries MAPG-Counter, which has learnt 3.4 ns from the
    // first stall; the rest is TAP's.
    let stalls = (0..5u32).flat_map(|n| {
        let start = f64::from(n) * 1_000.0 + 10.0;
        let mut events = full_miss(A, start, start + 81.0);
        events.push((ns(start + 0.1), Event::StallBegin));
        events.push((ns(start + 81.0), Event::Response { line: A }));
        events.push((ns(start + 81.0), Event::StallEnd { began: ns(start + 0.1) }));
        sorted(events)
    });
    insta::assert_snapshot!(decisions(&mut build(), stalls.collect()), @r"
       27.50 Gate
       77.77 Wake
     1032.10 Gate
     1067.27 Wake
     2027.50 Gate
     2077.77 Wake
     3027.50 Gate
     3077.77 Wake
     4027.50 Gate
     4077.77 Wake
    ");
}
