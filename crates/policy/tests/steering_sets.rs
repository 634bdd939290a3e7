//! Snapshots of what policies of ordered sets decide in short scenarios, and what holds for all.

use crate::common;

use common::{decisions_at, play_of, steps_of};
use halfwink_policy::steering::{
    Event, Member, Progressive, ProgressiveParameters, Rest, Side, Split, SplitParameters,
    SteeringPolicy,
};
use halfwink_units::Time;
use proptest::prelude::*;

const SET: [Side; 4] = [Side::Place(0), Side::Place(1), Side::Place(2), Side::Place(3)];

const fn ms(ms: u64) -> Time {
    Time::ns(1_000_000 * ms)
}

const fn done(place: u8) -> Event {
    Event::Finish { side: Side::Place(place), latency: Time::ZERO }
}

const fn awake(place: u8) -> Event {
    Event::Awake { side: Side::Place(place) }
}

const fn asleep(place: u8) -> Event {
    Event::Asleep { side: Side::Place(place) }
}

/// Three machines that hold two requests each.
fn parameters() -> ProgressiveParameters {
    ProgressiveParameters {
        members: SET[..3].iter().map(|&side| Member { side, holds: 2 }).collect(),
        least_on: 1,
        spare: 1,
        linger: ms(10),
        rest: Rest::default(),
    }
}

fn decisions(parameters: ProgressiveParameters, events: &[(u64, Event)], until_ms: u64) -> String {
    let told: Vec<(u64, Event)> = events.iter().map(|&(ms, event)| (1_000 * ms, event)).collect();
    decisions_at(Box::new(Progressive::new(parameters)), &told, 1_000 * until_ms)
}

#[test]
fn the_next_machine_is_woken_when_the_active_ones_are_full_and_the_last_sleeps_when_spare() {
    let events = [
        (0, asleep(1)),
        (0, asleep(2)),
        (1, Event::Arrive),
        (2, Event::Arrive),
        // More than two: the second wakes, the first takes the request until it is on.
        (3, Event::Arrive),
        (5, awake(1)),
        (6, Event::Arrive),
        // Four fit in two machines; five do not.
        (7, Event::Arrive),
        (8, Event::Arrive),
        (9, awake(2)),
        (10, Event::Arrive),
        // Three of the four places of the others are taken from 14 ms on: the third machine is
        // released at 24 ms, and sleeps once its request is done.
        (11, done(0)),
        (12, done(0)),
        (13, done(1)),
        (14, done(1)),
        (30, done(2)),
    ];
    insta::assert_snapshot!(decisions(parameters(), &events, 100), @r"
     0 Sleep { side: Place(1) }
     0 Sleep { side: Place(2) }
     1 Send { side: Place(0) }
     2 Send { side: Place(0) }
     3 Wake { side: Place(1) }
     3 Send { side: Place(0) }
     6 Send { side: Place(1) }
     7 Wake { side: Place(2) }
     7 Send { side: Place(1) }
     8 Send { side: Place(1) }
    10 Send { side: Place(2) }
    30 Sleep { side: Place(2) }
    ");
}

#[test]
fn a_request_before_the_linger_has_passed_keeps_the_last_machine() {
    let events = [
        (0, asleep(1)),
        (0, asleep(2)),
        (1, Event::Arrive),
        (1, Event::Arrive),
        (1, Event::Arrive),
        (2, awake(1)),
        // One left from 4 ms on: the second machine is spare, until another request takes the room.
        (3, done(0)),
        (4, done(0)),
        (10, Event::Arrive),
        (13, done(0)),
    ];
    insta::assert_snapshot!(decisions(parameters(), &events, 100), @r"
     0 Sleep { side: Place(1) }
     0 Sleep { side: Place(2) }
     1 Send { side: Place(0) }
     1 Send { side: Place(0) }
     1 Wake { side: Place(1) }
     1 Send { side: Place(0) }
    10 Send { side: Place(0) }
    23 Sleep { side: Place(1) }
    ");
}

#[test]
fn a_released_machine_stays_on_as_long_as_its_bounds_ask() {
    let rest = Rest { least_awake: ms(50), per_day: Some(1) };
    let burst = |at: u64| {
        [
            (at, Event::Arrive),
            (at, Event::Arrive),
            (at, Event::Arrive),
            (at + 2, awake(1)),
            (at + 3, done(0)),
            (at + 3, done(0)),
            (at + 3, done(0)),
        ]
    };
    let mut events = vec![(0, asleep(1)), (0, asleep(2))];
    events.extend(burst(1));
    // It slept at 53 ms, once the 50 ms were over. After the second burst its budget is spent.
    events.push((60, asleep(1)));
    events.extend(burst(100));
    let text = decisions(ProgressiveParameters { rest, ..parameters() }, &events, 100_000_000);
    insta::assert_snapshot!(text, @r"
      0 Sleep { side: Place(1) }
      0 Sleep { side: Place(2) }
      1 Send { side: Place(0) }
      1 Send { side: Place(0) }
      1 Wake { side: Place(1) }
      1 Send { side: Place(0) }
     53 Sleep { side: Place(1) }
    100 Send { side: Place(0) }
    100 Send { side: Place(0) }
    100 Wake { side: Place(1) }
    100 Send { side: Place(0) }
    86400053 Sleep { side: Place(1) }
    ");
}

#[test]
fn while_a_machine_is_lost_the_next_one_takes_its_place() {
    let (lost, back) = (Event::Lost { side: SET[0] }, Event::Back { side: SET[0] });
    let events = [
        (0, asleep(1)),
        (0, asleep(2)),
        (1, Event::Arrive),
        (2, lost),
        (2, done(0)),
        (2, Event::Arrive),
        (4, awake(1)),
        (6, done(1)),
        (7, back),
        (8, Event::Arrive),
    ];
    insta::assert_snapshot!(decisions(parameters(), &events, 100), @r"
     0 Sleep { side: Place(1) }
     0 Sleep { side: Place(2) }
     1 Send { side: Place(0) }
     2 Wake { side: Place(1) }
     2 Send { side: Place(1) }
     8 Send { side: Place(0) }
    17 Sleep { side: Place(1) }
    ");
}

#[test]
fn a_split_deals_out_shares_evenly_and_machines_without_one_stand_in() {
    let shares = vec![(SET[0], 2), (SET[1], 1), (SET[2], 0)];
    let [lost_0, lost_1] = [SET[0], SET[1]].map(|side| Event::Lost { side });
    let events: Vec<(u64, Event)> = (1..=6)
        .map(|at| (1_000 * at, Event::Arrive))
        .chain([(7_000, lost_0), (7_500, Event::Arrive), (8_000, lost_1), (8_500, Event::Arrive)])
        .chain([(9_000, Event::Back { side: SET[1] }), (9_200, awake(2)), (9_500, done(2))])
        .collect();
    let policy = Split::new(&SplitParameters { shares });
    insta::assert_snapshot!(decisions_at(Box::new(policy), &events, 100_000), @r"
      0 Sleep { side: Place(2) }
      1 Send { side: Place(0) }
      2 Send { side: Place(1) }
      3 Send { side: Place(0) }
      4 Send { side: Place(0) }
      5 Send { side: Place(1) }
      6 Send { side: Place(0) }
    7.5 Send { side: Place(1) }
    8.5 Send { side: Place(2) }
    8.5 Wake { side: Place(2) }
    9.5 Sleep { side: Place(2) }
    ");
}

fn policies(holds: u32, least_on: u32, spare: u32, linger: Time) -> Vec<SteeringPolicy> {
    let holds = |place: usize| 1 + (holds + place as u32) % 4;
    let member = |(place, &side): (usize, &Side)| Member { side, holds: holds(place) };
    let rests = [
        Rest::default(),
        Rest { least_awake: linger, per_day: None },
        Rest { least_awake: Time::ZERO, per_day: Some(2) },
    ];
    let progressive = |rest| -> SteeringPolicy {
        let members = SET.iter().enumerate().map(member).collect();
        let parameters = ProgressiveParameters { members, least_on, spare, linger, rest };
        Box::new(Progressive::new(parameters))
    };
    let shares = SET.into_iter().zip([1, least_on, 0, 3]).collect();
    let mut all: Vec<SteeringPolicy> = rests.map(progressive).into();
    all.push(Box::new(Split::new(&SplitParameters { shares })));
    all
}

proptest! {
    #[test]
    fn every_request_is_done_and_machines_of_sets_are_asked_only_for_what_they_can(
        steps in prop_oneof![steps_of(&SET, true), steps_of(&SET, false)],
        holds in 0u32..8,
        least_on in 0u32..5,
        spare in 0u32..3,
        span_us in 0u64..5_000,
    ) {
        for policy in policies(holds, least_on, spare, Time::ns(1_000 * span_us)) {
            play_of(policy, &SET, &steps)?;
        }
    }
}
