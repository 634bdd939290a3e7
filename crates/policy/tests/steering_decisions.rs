//! Snapshots of what each steering policy decides in short scenarios. A changed decision shows up
//! here as a changed line.

use crate::common;

use common::{decisions, play, steps};
use halfwink_policy::steering::{
    Always, AlwaysOn, Count, Event, Side, SteeringPolicy, Threshold, ThresholdParameters,
};
use halfwink_units::Time;
use proptest::prelude::*;

const SMALL: Event = Event::Finish { side: Side::Small, latency: Time::ZERO };
const BIG: Event = Event::Finish { side: Side::Big, latency: Time::ZERO };
const AWAKE: Event = Event::Awake { side: Side::Big };
const ASLEEP: Event = Event::Asleep { side: Side::Big };

fn threshold(parameters: ThresholdParameters) -> SteeringPolicy {
    Box::new(Threshold::new(parameters))
}

#[test]
fn the_big_machine_serves_from_the_threshold_on_and_sleeps_when_it_has_nothing() {
    let events =
        [Event::Arrive, ASLEEP, Event::Arrive, Event::Arrive, AWAKE, SMALL, BIG, Event::Arrive];
    let policy = threshold(ThresholdParameters::published(2));
    insta::assert_snapshot!(decisions(policy, &events), @r"
    0 Sleep { side: Big }
    1 Send { side: Small }
    3 Send { side: Small }
    4 Send { side: Big }
    4 Wake { side: Big }
    7 Sleep { side: Big }
    8 Send { side: Small }
    ");
}

#[test]
fn nothing_is_small_with_a_threshold_of_zero() {
    let policy = threshold(ThresholdParameters::published(0));
    insta::assert_snapshot!(decisions(policy, &[ASLEEP, Event::Arrive, AWAKE, BIG]), @r"
    0 Sleep { side: Big }
    2 Send { side: Big }
    2 Wake { side: Big }
    4 Sleep { side: Big }
    ");
}

#[test]
fn counting_the_whole_server_starves_the_small_machine() {
    let parameters = ThresholdParameters { count: Count::All, ..ThresholdParameters::published(1) };
    let events = [Event::Arrive, Event::Arrive, AWAKE, SMALL, Event::Arrive];
    insta::assert_snapshot!(decisions(threshold(parameters), &events), @r"
    0 Sleep { side: Big }
    1 Send { side: Small }
    2 Send { side: Big }
    2 Wake { side: Big }
    5 Send { side: Big }
    ");
}

#[test]
fn it_wakes_before_it_is_needed_and_lingers_if_told_to() {
    let parameters = ThresholdParameters {
        wake_at: 1,
        linger: Time::ns(5_000_000),
        ..ThresholdParameters::published(3)
    };
    let events = [ASLEEP, Event::Arrive, Event::Arrive, AWAKE, SMALL, SMALL];
    insta::assert_snapshot!(decisions(threshold(parameters), &events), @r"
     0 Sleep { side: Big }
     2 Send { side: Small }
     3 Send { side: Small }
     3 Wake { side: Big }
    10 Sleep { side: Big }
    ");
}

#[test]
fn a_request_that_comes_while_the_big_machine_goes_down_wakes_it_again() {
    let policy = threshold(ThresholdParameters::published(0));
    let events = [ASLEEP, Event::Arrive, AWAKE, BIG, Event::Arrive, AWAKE];
    insta::assert_snapshot!(decisions(policy, &events), @r"
    0 Sleep { side: Big }
    2 Send { side: Big }
    2 Wake { side: Big }
    4 Sleep { side: Big }
    5 Send { side: Big }
    5 Wake { side: Big }
    ");
}

#[test]
fn what_cannot_be_reached_gets_nothing_while_the_other_can() {
    let lost = Event::Lost { side: Side::Small };
    let back = Event::Back { side: Side::Small };
    let events = [ASLEEP, lost, Event::Arrive, AWAKE, BIG, back, Event::Arrive];
    let policy = threshold(ThresholdParameters::published(2));
    insta::assert_snapshot!(decisions(policy, &events), @r"
    0 Sleep { side: Big }
    3 Send { side: Big }
    3 Wake { side: Big }
    6 Sleep { side: Big }
    7 Send { side: Small }
    ");
    insta::assert_snapshot!(decisions(Box::new(Always::new(Side::Small)), &events), @r"
    0 Sleep { side: Big }
    3 Send { side: Big }
    3 Wake { side: Big }
    6 Sleep { side: Big }
    7 Send { side: Small }
    ");
}

#[test]
fn fixed_servers_decide_nothing() {
    let events = [Event::Arrive, Event::Arrive, SMALL];
    insta::assert_snapshot!(decisions(Box::new(Always::new(Side::Big)), &events), @r"
    0 Sleep { side: Small }
    1 Send { side: Big }
    2 Send { side: Big }
    ");
    insta::assert_snapshot!(decisions(Box::new(AlwaysOn::new(1)), &events), @r"
    1 Send { side: Small }
    2 Send { side: Big }
    ");
}

proptest! {
    #[test]
    fn every_arrival_is_sent_once_and_every_request_is_done(
        steps in steps(true),
        threshold in 0u32..6,
        all: bool,
        wake_at in 0u32..8,
        linger_us in 0u64..5_000,
    ) {
        let count = if all { Count::All } else { Count::Small };
        let linger = Time::ns(1_000 * linger_us);
        let parameters = ThresholdParameters { threshold, count, wake_at, linger };
        play(Box::new(Threshold::new(parameters)), &steps)?;
        play(Box::new(AlwaysOn::new(threshold)), &steps)?;
        for side in Side::BOTH {
            play(Box::new(Always::new(side)), &steps)?;
        }
    }
}
