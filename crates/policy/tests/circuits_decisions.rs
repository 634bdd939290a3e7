//! Snapshots of what policies of circuits decide in short scenarios, and what holds for all.

use std::collections::BTreeMap;

use halfwink_policy::circuits::{
    Action, Choose, Circuits, CircuitsPolicy, Event, Needed, Plan, Still, Turns, Week,
    WeekParameters,
};
use halfwink_policy::{replay, Host, Lines, Policy};
use halfwink_units::Time;
use proptest::prelude::*;

fn us(us: u64) -> Time {
    Time::ns(1_000 * us)
}

fn week(hosts: u16, plan: Plan) -> WeekParameters {
    WeekParameters {
        hosts,
        plan,
        week: us(1_000),
        night: us(10),
        shortest: us(60),
        bytes_per_ms: 1_250_000,
    }
}

/// Tells all that waits, then asks for so many slots of plane 0: a line for each.
fn slots(policy: &mut dyn Circuits, waiting: &[(u16, u16, u64)], slots: u32) -> String {
    for &(from, to, bytes) in waiting {
        policy.on_event(Time::ZERO, &Event::Demand { from, to, bytes });
    }
    (0..slots).map(|slot| next(policy, 0, slot)).collect()
}

fn next(policy: &mut dyn Circuits, plane: u8, slot: u32) -> String {
    policy.on_event(Time::ZERO, &Event::Next { plane, slot });
    let mut text = String::new();
    while let Some(action) = policy.poll_action() {
        match action {
            Action::Join { from, to, .. } => text += &format!("{from}>{to} "),
            Action::Day { length: Time::NEVER, .. } => text += "for ever\n",
            Action::Day { length, .. } => text += &format!("{:.2} us\n", length.as_ns() / 1e3),
        }
    }
    text
}

/// Hot pairs 0 to 1 and 2 to 3, and a little of everything else.
fn skewed() -> Vec<(u16, u16, u64)> {
    let pairs = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| match (from, to) {
            (0, 1) | (2, 3) => (from, to, 800_000),
            _ => (from, to, 20_000 + 1_000 * u64::from(from)),
        })
        .collect()
}

#[test]
fn round_robin_takes_every_shift() {
    let text = slots(&mut Turns::round_robin(4, us(100)), &[], 4);
    insta::assert_snapshot!(text, @r"
    0>1 1>2 2>3 3>0 100.00 us
    0>2 1>3 2>0 3>1 100.00 us
    0>3 1>0 2>1 3>2 100.00 us
    0>1 1>2 2>3 3>0 100.00 us
    ");
}

#[test]
fn opera_reconfigures_one_plane_after_the_other() {
    let mut opera = Turns::opera(5, 2, us(100));
    let text: String = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
        .map(|(plane, slot)| format!("{plane}: {}", next(&mut opera, plane, slot)))
        .concat();
    insta::assert_snapshot!(text, @r"
    0: 0>3 1>4 2>0 3>1 4>2 50.00 us
    1: 0>4 1>0 2>1 3>2 4>3 100.00 us
    0: 0>1 1>2 2>3 3>4 4>0 100.00 us
    1: 0>2 1>3 2>4 3>0 4>1 100.00 us
    0: 0>3 1>4 2>0 3>1 4>2 100.00 us
    ");
}

#[test]
fn a_scheduled_week_gives_hot_pairs_longer_days() {
    let text = slots(&mut Week::new(week(4, Plan::Shares)), &skewed(), 4);
    insta::assert_snapshot!(text, @r"
    0>1 1>0 2>3 3>2 445.81 us
    0>1 1>2 2>3 3>0 424.98 us
    0>2 1>3 2>0 3>1 99.20 us
    0>1 1>0 2>3 3>2 445.81 us
    ");
}

#[test]
fn solstice_leaves_the_rest_to_the_packet_switch() {
    let alone = Plan::Solstice { packet_bytes_per_ms: 0 };
    let beside = Plan::Solstice { packet_bytes_per_ms: 125_000 };
    let text = slots(&mut Week::new(week(4, alone)), &skewed(), 4)
        + "beside a packet switch\n"
        + &slots(&mut Week::new(week(4, beside)), &skewed(), 2);
    insta::assert_snapshot!(text, @r"
    0>1 1>0 2>3 3>2 636.80 us
    0>2 1>3 2>0 3>1 60.00 us
    0>3 1>2 2>1 3>0 60.00 us
    0>1 1>2 2>3 3>0 60.00 us
    beside a packet switch
    0>1 1>0 2>3 3>2 636.80 us
    0>1 1>0 2>3 3>2 636.80 us
    ");
}

#[test]
fn what_is_needed_most_is_chosen_in_three_ways() {
    // The longest queue is in the way of two that are longer together.
    let waiting = [(0, 1, 100), (0, 2, 90), (1, 2, 20), (2, 1, 90), (2, 0, 10)];
    let text = [Choose::Greedy, Choose::Heaviest, Choose::Estimated].map(|choose| {
        let mut policy = Needed::new(3, choose, us(100));
        format!("{choose:?}: {}", slots(&mut policy, &waiting, 1))
    });
    insta::assert_snapshot!(text.concat(), @r"
    Greedy: 0>1 1>2 2>0 100.00 us
    Heaviest: 0>2 2>1 100.00 us
    Estimated: 0>1 1>2 2>0 100.00 us
    ");
}

#[test]
fn a_lost_host_gets_nothing_and_others_are_unharmed() {
    let mut policy = Turns::round_robin(4, us(100));
    policy.on_event(Time::ZERO, &Event::Lost { host: 2 });
    let mut text = next(&mut policy, 0, 0);
    policy.on_event(Time::ZERO, &Event::Back { host: 2 });
    text += &next(&mut policy, 0, 0);
    let mut needed = Needed::new(3, Choose::Greedy, us(100));
    needed.on_event(Time::ZERO, &Event::Lost { host: 2 });
    text += &slots(&mut needed, &[(0, 2, 100), (0, 1, 1)], 1);
    insta::assert_snapshot!(text, @r"
    0>1 3>0 100.00 us
    0>1 1>2 2>3 3>0 100.00 us
    0>1 100.00 us
    ");
}

#[test]
fn circuits_that_stay_and_none() {
    let mut packets = Still::packets(3);
    let text = slots(&mut Still::ring(3, 1), &[], 1) + &slots(&mut packets, &[], 1) + "none\n";
    assert!(!packets.has_circuits());
    insta::assert_snapshot!(text, @r"
    0>1 1>2 2>0 for ever
    none
    ");
}

fn all(hosts: u16) -> Vec<CircuitsPolicy> {
    let solstice = |packet_bytes_per_ms| Plan::Solstice { packet_bytes_per_ms };
    vec![
        Box::new(Turns::round_robin(hosts, us(100))),
        Box::new(Turns::rotor(hosts, 3, us(100))),
        Box::new(Turns::opera(hosts, 3, us(100))),
        Box::new(Week::new(week(hosts, Plan::Shares))),
        Box::new(Week::new(week(hosts, solstice(0)))),
        Box::new(Week::new(week(hosts, solstice(125_000)))),
        Box::new(Needed::new(hosts, Choose::Greedy, us(100))),
        Box::new(Needed::new(hosts, Choose::Heaviest, us(100))),
        Box::new(Needed::new(hosts, Choose::Estimated, us(100))),
        Box::new(Still::ring(hosts, 1)),
    ]
}

proptest! {
    /// Nobody sends to two or receives from two, no day is empty, and a log replays.
    #[test]
    fn every_answer_is_a_matching_and_a_day(
        hosts in 2u16..9,
        events in prop::collection::vec((0u8..12, 0u16..10, 0u16..10, 0u64..3_000_000), 1..60),
    ) {
        for (kind, policy) in all(hosts).into_iter().enumerate() {
            let mut host = Host::logged(policy, Lines::unbounded());
            let mut slots = BTreeMap::new();
            for &(what, from, to, bytes) in &events {
                let plane = what % 3;
                let event = match what {
                    0..=3 => Event::Demand { from, to, bytes },
                    4 => Event::Lost { host: from },
                    5 => Event::Back { host: from },
                    _ => {
                        let slot = slots.entry(plane).or_insert(0);
                        *slot += 1;
                        Event::Next { plane, slot: *slot - 1 }
                    }
                };
                let mut asked = Vec::new();
                host.deliver(Time::ZERO, &event, |_, action| asked.push(action));
                let Event::Next { .. } = event else {
                    prop_assert!(asked.is_empty());
                    continue;
                };
                let Some(Action::Day { plane: ended, length }) = asked.pop() else {
                    panic!("{kind}: no day")
                };
                prop_assert_eq!(ended, plane);
                prop_assert!(length > Time::ZERO);
                let mut joined = [vec![false; hosts.into()], vec![false; hosts.into()]];
                for action in asked {
                    let Action::Join { plane: at, from, to } = action else { panic!("two days") };
                    prop_assert_eq!(at, plane);
                    prop_assert_ne!(from, to);
                    for (side, end) in joined.iter_mut().zip([from, to]) {
                        prop_assert!(!std::mem::replace(&mut side[usize::from(end)], true));
                    }
                }
            }
            let lines: Vec<_> = (1..).zip(host.log_mut().take()).collect();
            let fresh = all(hosts).swap_remove(kind);
            prop_assert!(replay(&mut Host::new(fresh), lines).is_ok());
        }
    }

    /// A week is never longer than it may be, and its days never shorter.
    #[test]
    fn weeks_keep_their_length(
        hosts in 2u16..20,
        waiting in prop::collection::vec((0u16..20, 0u16..20, 0u64..10_000_000), 0..200),
        packet_bytes_per_ms in prop_oneof![Just(0u64), Just(125_000u64)],
    ) {
        for plan in [Plan::Shares, Plan::Solstice { packet_bytes_per_ms }] {
            let parameters = week(hosts, plan);
            let mut policy = Week::new(parameters);
            for &(from, to, bytes) in &waiting {
                policy.on_event(Time::ZERO, &Event::Demand { from, to, bytes });
            }
            policy.plan();
            let days: Vec<Time> = policy.days().map(|(day, _)| day).collect();
            prop_assert!(!days.is_empty());
            let alone = days.len() == 1;
            let used: u64 = days.iter().map(|day| day.0 + parameters.night.0).sum();
            prop_assert!(used <= parameters.week.0 || alone && plan != Plan::Shares);
            prop_assert!(alone || days.iter().all(|&day| day >= parameters.shortest));
        }
    }

    /// A greedy matching has at least half of the most bytes.
    #[test]
    fn greedy_has_at_least_half(
        waiting in prop::collection::vec((0u16..7, 0u16..7, 1u64..1_000), 1..40),
    ) {
        let [greedy, heaviest] = [Choose::Greedy, Choose::Heaviest].map(|choose| {
            let (mut policy, mut table) = (Needed::new(7, choose, us(100)), BTreeMap::new());
            for &(from, to, bytes) in waiting.iter().filter(|(from, to, _)| from != to) {
                policy.on_event(Time::ZERO, &Event::Demand { from, to, bytes });
                table.insert((from, to), bytes);
            }
            policy.on_event(Time::ZERO, &Event::Next { plane: 0, slot: 0 });
            let mut sum = 0;
            while let Some(action) = policy.poll_action() {
                if let Action::Join { from, to, .. } = action {
                    sum += table[&(from, to)];
                }
            }
            sum
        });
        prop_assert!(greedy <= heaviest && heaviest <= 2 * greedy, "{greedy} {heaviest}");
    }
}
