//! Snapshots of what progressive activation of a backup decides in short scenarios, and what holds
//! for every policy of two machines.

use crate::common;

use common::{decisions_at, play, steps};
use halfwink_policy::steering::{Event, ProgressiveBackup, ProgressiveBackupParameters, Side};
use halfwink_units::Time;
use proptest::prelude::*;

const AWAKE: Event = Event::Awake { side: Side::Big };
const ASLEEP: Event = Event::Asleep { side: Side::Big };
const SMALL: Event = Event::Finish { side: Side::Small, latency: Time::ns(1_000_000) };
const BIG: Event = Event::Finish { side: Side::Big, latency: Time::ns(1_000_000) };

const fn ms(ms: u64) -> Time {
    Time::ns(1_000_000 * ms)
}

/// Two at the small machine, which does one in 4 ms; the big one wakes in 8 ms, so that two are
/// done meanwhile.
fn parameters() -> ProgressiveBackupParameters {
    ProgressiveBackupParameters {
        threshold: 2,
        hold: ms(10),
        down: 0,
        linger: ms(20),
        wake_latency: ms(8),
        small_gap: ms(4),
    }
}

fn decisions(parameters: ProgressiveBackupParameters, events: &[(u64, Event)]) -> String {
    let told: Vec<(u64, Event)> = events.iter().map(|&(ms, event)| (1_000 * ms, event)).collect();
    decisions_at(Box::new(ProgressiveBackup::new(parameters)), &told, 1_000_000)
}

#[test]
fn it_is_called_when_too_much_has_waited_for_a_while_and_retired_when_quiet() {
    let events = [
        (0, ASLEEP),
        // Three from 61 ms on, but only for 5 ms.
        (1, Event::Arrive),
        (31, Event::Arrive),
        (61, Event::Arrive),
        (66, SMALL),
        // Again from 100 ms on, for more than 10 ms; while it wakes the small machine has it all.
        (100, Event::Arrive),
        (112, Event::Arrive),
        (118, AWAKE),
        // The small machine has four: over to the big one.
        (120, Event::Arrive),
        (121, SMALL),
        (122, SMALL),
        (123, SMALL),
        // Below the threshold again.
        (124, Event::Arrive),
        (125, BIG),
        // Quiet for 20 ms, then asleep.
        (130, SMALL),
    ];
    insta::assert_snapshot!(decisions(parameters(), &events), @r"
      0 Sleep { side: Big }
      1 Send { side: Small }
     31 Send { side: Small }
     61 Send { side: Small }
    100 Send { side: Small }
    110 Wake { side: Big }
    112 Send { side: Small }
    120 Send { side: Big }
    124 Send { side: Small }
    145 Sleep { side: Big }
    ");
}

#[test]
fn it_is_called_at_once_when_a_burst_is_predicted_to_outlast_the_wake_up() {
    // Gaps of 1 ms: 8 more come within a wake-up, 2 are done. 2 + 8 - 2 > 2 at the second arrival.
    let events = [(0, ASLEEP), (50, Event::Arrive), (51, Event::Arrive), (59, AWAKE)];
    insta::assert_snapshot!(decisions(parameters(), &events), @r"
     0 Sleep { side: Big }
    50 Send { side: Small }
    51 Send { side: Small }
    51 Wake { side: Big }
    79 Sleep { side: Big }
    ");
    // Gaps of 5 ms: one more comes, and two are done.
    let events = [(0, ASLEEP), (50, Event::Arrive), (55, Event::Arrive), (60, SMALL)];
    insta::assert_snapshot!(decisions(parameters(), &events), @r"
     0 Sleep { side: Big }
    50 Send { side: Small }
    55 Send { side: Small }
    ");
}

#[test]
fn what_is_left_is_drained_and_it_may_be_called_again_meanwhile() {
    let up = [
        (0, ASLEEP),
        (50, Event::Arrive),
        (51, Event::Arrive),
        (59, AWAKE),
        (60, Event::Arrive),
        (61, Event::Arrive),
        (62, BIG),
    ];
    // One is left at the big machine: little for 20 ms, so retired at 82 ms, asleep when it is
    // done.
    let little = ProgressiveBackupParameters { down: 1, ..parameters() };
    let drained = [&up[..], &[(90, SMALL), (95, Event::Arrive), (130, BIG)]].concat();
    insta::assert_snapshot!(decisions(little, &drained), @r"
      0 Sleep { side: Big }
     50 Send { side: Small }
     51 Send { side: Small }
     51 Wake { side: Big }
     60 Send { side: Big }
     61 Send { side: Big }
     95 Send { side: Small }
    130 Sleep { side: Big }
    ");
    // Called again while it drains, it need not wake up.
    let again = [
        &up[..],
        &[(90, Event::Arrive), (91, Event::Arrive), (92, Event::Arrive), (93, Event::Arrive)],
    ]
    .concat();
    insta::assert_snapshot!(decisions(little, &again), @r"
     0 Sleep { side: Big }
    50 Send { side: Small }
    51 Send { side: Small }
    51 Wake { side: Big }
    60 Send { side: Big }
    61 Send { side: Big }
    90 Send { side: Small }
    91 Send { side: Small }
    92 Send { side: Big }
    93 Send { side: Big }
    ");
}

#[test]
fn a_lost_small_machine_is_stood_in_for() {
    let (lost, back) = (Event::Lost { side: Side::Small }, Event::Back { side: Side::Small });
    let events = [ASLEEP, lost, Event::Arrive, AWAKE, BIG, back, Event::Arrive];
    let policy = ProgressiveBackup::new(parameters());
    insta::assert_snapshot!(common::decisions(Box::new(policy), &events), @r"
    0 Sleep { side: Big }
    3 Send { side: Big }
    3 Wake { side: Big }
    6 Sleep { side: Big }
    7 Send { side: Small }
    ");
}

proptest! {
    #[test]
    fn every_request_is_done_and_machines_are_asked_only_for_what_they_can(
        steps in prop_oneof![steps(true), steps(false)],
        threshold in 0u32..6,
        down in 0u32..4,
        hold_us in 0u64..5_000,
        linger_us in 0u64..5_000,
        wake_us in 0u64..2_000,
    ) {
        let us = |us| Time::ns(1_000 * us);
        let policy = ProgressiveBackup::new(ProgressiveBackupParameters {
            threshold,
            hold: us(hold_us),
            down,
            linger: us(linger_us),
            wake_latency: us(wake_us),
            small_gap: us(300),
        });
        play(Box::new(policy), &steps)?;
    }
}
