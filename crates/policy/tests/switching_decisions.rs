//! Snapshots of what the policies around core switching decide in short scenarios.

use std::fmt::Debug;

use halfwink_policy::switching::{IdleEvent, RateParameters, RatePowerDown};
use halfwink_policy::{drive, Policy};
use halfwink_units::Time;
use proptest::prelude::*;

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
        events.push((at, IdleEvent::Left));
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

proptest! {
    #[test]
    fn any_order_of_events_is_borne(list: Vec<(u8, u8)>) {
        let mut rate = RatePowerDown::new(RateParameters::new(us(1)));
        let mut now = Time::ZERO;
        for (kind, step) in list {
            now = now.saturating_add(us(step.into()));
            let event = match kind % 3 {
                0 => IdleEvent::Left,
                1 => IdleEvent::Due,
                _ => IdleEvent::Entered,
            };
            rate.on_event(now, &event);
            let left = event == IdleEvent::Left;
            prop_assert_eq!(rate.poll_action().is_some(), left);
        }
    }
}
