//! Snapshots of what the policies around core switching decide in short scenarios.

use std::fmt::Debug;

use halfwink_policy::switching::{
    AdaptiveParameters, AdaptivePowerDown, Counters, EarlyWake, EarlyWakeParameters, IdleEvent,
    LikeOs, LikeOsParameters, RateParameters, RatePowerDown, ThreadEpoch, WakeEvent,
};
use halfwink_policy::{drive, Policy};
use halfwink_units::Time;
use proptest::prelude::*;

const READ: u64 = 1 << 32;
const DISK: u64 = (1 << 32) + 75;

fn us(n: u64) -> Time {
    Time::ns(1_000 * n)
}

fn decisions<P>(mut policy: P, events: &[(Time, P::Event)]) -> String
where
    P: Policy,
    P::Event: Clone,
    P::Action: Debug,
{
    let asked = drive(&mut policy, events, us(1_000_000));
    asked.iter().map(|d| format!("{:>7.1} {:?}\n", d.at.as_ns() / 1e3, d.action)).collect()
}

/// Leaves for a reason, so long, every 10 ms.
fn absences(list: &[(u64, u64)]) -> Vec<(Time, IdleEvent)> {
    let both = |(n, &(reason, long_us)): (usize, &(u64, u64))| {
        let at = us(10_000 * n as u64);
        [(at, IdleEvent::Left { reason }), (at + us(long_us), IdleEvent::Due)]
    };
    list.iter().enumerate().flat_map(both).collect()
}

#[test]
fn a_core_powers_down_for_reasons_that_were_long() {
    let policy = AdaptivePowerDown::new(AdaptiveParameters::new(us(10)));
    // Strangers are trusted once; reads are short, the disk is long. One long read of 500 us lifts
    // the mean of reads to 65 us: down.
    let list = [(READ, 3), (DISK, 900), (READ, 3), (DISK, 5), (DISK, 900), (READ, 500), (READ, 3)];
    insta::assert_snapshot!(decisions(policy, &absences(&list)), @r"
        0.0 PowerDown
    10000.0 PowerDown
    20000.0 StayUp
    30000.0 PowerDown
    40000.0 PowerDown
    50000.0 StayUp
    60000.0 PowerDown
    ");
}

#[test]
fn a_busy_os_core_stays_up_until_that_was_wrong() {
    let policy = RatePowerDown::new(RateParameters::new(us(50)));
    let mut events: Vec<(Time, IdleEvent)> = Vec::new();
    // 100 entries in 10 ms, then idle for 20 us; then twice for 5 ms; then quiet.
    for n in 0..100 {
        events.push((us(100 * n), IdleEvent::Entered));
    }
    for (n, long) in [20, 5_000, 5_000, 5_000, 5_000].into_iter().enumerate() {
        let at = us(10_000 + 6_000 * n as u64);
        events.push((at, IdleEvent::Left { reason: 0 }));
        events.push((at + us(long), IdleEvent::Due));
        events.push((at + us(long), IdleEvent::Entered));
    }
    insta::assert_snapshot!(decisions(policy, &events), @r"
    10000.0 StayUp
    16000.0 StayUp
    22000.0 PowerDown
    28000.0 PowerDown
    34000.0 PowerDown
    ");
}

#[test]
fn a_core_is_up_when_the_request_comes() {
    let policy = EarlyWake::new(EarlyWakeParameters {
        power_up: us(5),
        margin: us(20),
        first_round_trip: us(1_000),
    });
    let events = [
        (us(0), WakeEvent::Slept),
        (us(100), WakeEvent::Opened),
        (us(400), WakeEvent::Requested { after: us(300) }),
        (us(2_000), WakeEvent::Slept),
        (us(3_000), WakeEvent::Opened),
        (us(3_050), WakeEvent::Opened),
        (us(5_000), WakeEvent::Opened),
    ];
    // Expected after 1000 us, so at 1075; the round trip was 300, so at 3275. It is up after that.
    insta::assert_snapshot!(decisions(policy, &events), @r"
     1075.0 WakeUp
     3275.0 WakeUp
    ");
}

#[test]
fn a_thread_like_the_kernel_is_tried_kept_or_taken_back() {
    let epoch = |n: u64, floating_point, misses, progress| {
        let counters = Counters { floating_point, mispredicted: 10, misses, copied: 5 };
        (us(100_000 * n), ThreadEpoch { counters, progress })
    };
    let parameters = LikeOsParameters { rest_epochs: 2, ..LikeOsParameters::default() };
    // Numbers; like the kernel: tried; kept at 90 %; lost at 80 %; two epochs' rest; tried again.
    let events = [
        epoch(0, 50, 40, 100),
        epoch(1, 0, 40, 100),
        epoch(2, 0, 40, 90),
        epoch(3, 0, 40, 80),
        epoch(4, 0, 40, 100),
        epoch(5, 0, 40, 100),
        epoch(6, 0, 40, 100),
    ];
    insta::assert_snapshot!(decisions(LikeOs::new(parameters), &events), @r"
    100000.0 ToOsCore
    300000.0 ToAppCore
    600000.0 ToOsCore
    ");
}

proptest! {
    #[test]
    fn any_order_of_events_is_borne(list: Vec<(u8, u8, u64)>) {
        let mut adaptive = AdaptivePowerDown::new(AdaptiveParameters::new(us(1)));
        let mut rate = RatePowerDown::new(RateParameters::new(us(1)));
        let mut now = Time::ZERO;
        for (kind, step, reason) in list {
            now = now.saturating_add(us(step.into()));
            let event = match kind % 3 {
                0 => IdleEvent::Left { reason },
                1 => IdleEvent::Due,
                _ => IdleEvent::Entered,
            };
            adaptive.on_event(now, &event);
            rate.on_event(now, &event);
            let left = matches!(event, IdleEvent::Left { .. });
            prop_assert_eq!(adaptive.poll_action().is_some(), left);
            prop_assert_eq!(rate.poll_action().is_some(), left);
        }
    }
}
