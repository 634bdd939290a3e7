//! Snapshots of what each steering policy decides in short scenarios. A changed decision shows up
//! here as a changed line.

use halfwink_policy::steering::{
    Action, Always, AlwaysOn, Count, Event, Side, SteeringPolicy, Threshold, ThresholdParameters,
};
use halfwink_policy::{drive, Decision, Policy};
use halfwink_units::Time;
use proptest::prelude::*;

const SMALL: Event = Event::Finish { side: Side::Small, sojourn: Time::ZERO };
const BIG: Event = Event::Finish { side: Side::Big, sojourn: Time::ZERO };
const AWAKE: Event = Event::Awake { side: Side::Big };
const ASLEEP: Event = Event::Asleep { side: Side::Big };

/// Tells events, a millisecond apart; what it asks for, by milliseconds.
fn decisions(mut policy: SteeringPolicy, events: &[Event]) -> String {
    let mut text = String::new();
    while let Some(action) = policy.poll_action() {
        text += &format!("  0 {action:?}\n");
    }
    let told: Vec<(Time, Event)> = events
        .iter()
        .enumerate()
        .map(|(n, &event)| (Time::ns(1_000_000 * (n as u64 + 1)), event))
        .collect();
    let line = |d: Decision<Action>| format!("{:>3} {:?}\n", d.at.as_ns() / 1e6, d.action);
    text + &drive(&mut policy, &told, Time::ns(100_000_000))
        .into_iter()
        .map(line)
        .collect::<String>()
}

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
    5 Sleep { side: Big }
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

/// A world in small: machines that wake and sleep at once, requests that finish in any order.
fn play(mut policy: SteeringPolicy, steps: &[(bool, u8)]) -> Result<(), TestCaseError> {
    let mut on = [true; 2];
    let mut load = [0u32; 2];
    let mut news = answers(&mut policy, &mut on, &mut load)?.1;
    for (n, &(arrives, pick)) in steps.iter().enumerate() {
        let now = Time::ns(1_000 * n as u64);
        let pick = Side::BOTH[usize::from(pick % 2)];
        if arrives {
            news.insert(0, Event::Arrive);
        } else if load[pick as usize] > 0 && on[pick as usize] {
            load[pick as usize] -= 1;
            news.push(Event::Finish { side: pick, sojourn: Time::ns(1) });
        }
        while policy.next_timer().is_some_and(|at| at <= now) {
            policy.on_timer(now);
            news.extend(answers(&mut policy, &mut on, &mut load)?.1);
        }
        while !news.is_empty() {
            let event = news.remove(0);
            policy.on_event(now, &event);
            let (sent, more) = answers(&mut policy, &mut on, &mut load)?;
            prop_assert_eq!(sent, u32::from(event == Event::Arrive), "one answer to an arrival");
            news.extend(more);
        }
    }
    // Whatever waits somewhere is served in the end: by a machine that is on.
    for side in Side::BOTH {
        prop_assert!(load[side as usize] == 0 || on[side as usize], "{side:?} sleeps on work");
    }
    Ok(())
}

/// Takes all actions: how many requests were sent, and what to tell then.
fn answers(
    policy: &mut SteeringPolicy,
    on: &mut [bool; 2],
    load: &mut [u32; 2],
) -> Result<(u32, Vec<Event>), TestCaseError> {
    let (mut sent, mut news) = (0, Vec::new());
    while let Some(action) = policy.poll_action() {
        match action {
            Action::Send { side } => {
                sent += 1;
                load[side as usize] += 1;
            }
            Action::Wake { side } => {
                prop_assert!(!on[side as usize], "{side:?} is on");
                on[side as usize] = true;
                news.push(Event::Awake { side });
            }
            Action::Sleep { side } => {
                prop_assert!(on[side as usize], "{side:?} sleeps");
                on[side as usize] = false;
                news.push(Event::Asleep { side });
            }
        }
    }
    Ok((sent, news))
}

proptest! {
    #[test]
    fn every_arrival_is_sent_once_and_no_machine_sleeps_on_work(
        steps in proptest::collection::vec((any::<bool>(), any::<u8>()), 1..200),
        threshold in 0u32..6,
        all: bool,
        wake_at in 0u32..8,
        linger_ns in 0u64..20_000,
    ) {
        let count = if all { Count::All } else { Count::Small };
        let parameters =
            ThresholdParameters { threshold, count, wake_at, linger: Time::ns(linger_ns) };
        play(Box::new(Threshold::new(parameters)), &steps)?;
        play(Box::new(AlwaysOn::new(threshold)), &steps)?;
        for side in Side::BOTH {
            play(Box::new(Always::new(side)), &steps)?;
        }
    }
}
