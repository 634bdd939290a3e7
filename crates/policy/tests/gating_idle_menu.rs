//! Snapshots of what the idle-depth governor decides in short scenarios.

use halfwink_policy::gating::{Action, Costs, Event, IdleMenu, IdleMenuParameters, Slots};
use halfwink_policy::{drive, replay, Host, Lines, Policy};
use halfwink_units::Time;

/// Worth gating from 20 ns on, so that a nanosecond here is a microsecond of Linux' menu.
const CORE: Costs = Costs {
    entry: Time::ns(1),
    break_even: Time::ns(9),
    wake_up: Time::ns(8),
    restore: Time::ns(2),
    slots: Slots::ANY,
};

/// Idle times of so many nanoseconds, each after 50 ns of work.
fn halts(lengths_ns: &[u64]) -> Vec<(Time, Event)> {
    let mut events = Vec::new();
    let mut now = Time::ZERO;
    for &length in lengths_ns {
        let began = now + Time::ns(50);
        now = began + Time::ns(length);
        events.extend([(began, Event::IdleBegin), (now, Event::IdleEnd { began })]);
    }
    events
}

fn decisions(parameters: IdleMenuParameters, lengths_ns: &[u64]) -> String {
    let mut policy = IdleMenu::new(CORE, parameters);
    let asked = drive(&mut policy, &halts(lengths_ns), Time::ns(1_000_000));
    asked.iter().map(|d| format!("{:>7} {:?}\n", d.at.as_ns(), d.action)).collect()
}

fn linux() -> IdleMenuParameters {
    IdleMenuParameters::linux(&CORE)
}

#[test]
fn short_idle_times_stop_the_clock_and_long_ones_gate() {
    // Nothing learnt yet: the first is gated, though not worth it. Then 10 ns are expected, too
    // little. Two long ones are outliers, and waited out, too; three that are unlike each other are
    // too many for that, so the timer times its factor is expected.
    let lengths = [10, 10, 10, 10, 10, 10, 10, 10, 600, 700, 800, 900, 1000];
    insta::assert_snapshot!(decisions(linux(), &lengths), @r"
      50 Gate
      60 Wake
    2780 Gate
    3680 Wake
    3730 Gate
    4730 Wake
    ");
}

#[test]
fn a_prediction_that_proves_too_short_is_made_again_at_each_tick() {
    // A tick counts as a long idle time. As all are equal, eight of them must have pushed out what
    // was learnt before: the last at 32,000 ns. Were ticks 100 ns apart, at 1300.
    let lengths = [10, 10, 10, 10, 10, 10, 10, 10, 40_000];
    insta::assert_snapshot!(decisions(linux(), &lengths), @r"
       50 Gate
       60 Wake
    32000 Gate
    40530 Wake
    ");
    let often = IdleMenuParameters { tick: Time::ns(100), ..linux() };
    insta::assert_snapshot!(decisions(often, &lengths), @r"
       50 Gate
       60 Wake
     1300 Gate
    40530 Wake
    ");
}

#[test]
fn a_wake_up_that_may_take_too_long_is_never_needed() {
    let limited = |ns| IdleMenuParameters { latency_limit: Time::ns(ns), ..linux() };
    let lengths = [600; 9];
    assert_eq!(decisions(limited(9), &lengths), "");
    assert_eq!(decisions(limited(10), &lengths), decisions(linux(), &lengths));
}

#[test]
fn idle_times_are_alike_by_the_given_spread() {
    // 5 and 45 ns in turn, eight of them, spread by 20 ns about 25: alike, and long enough. Were
    // they alike only within 10 ns, those of 45 would be outliers of those of 5.
    let lengths = [5, 45, 5, 45, 5, 45, 5, 45, 5, 45, 5, 45];
    insta::assert_snapshot!(decisions(linux(), &lengths), @r"
     50 Gate
     55 Wake
    650 Gate
    655 Wake
    705 Gate
    750 Wake
    800 Gate
    805 Wake
    855 Gate
    900 Wake
    ");
    let strict = IdleMenuParameters { alike: Time::ns(10), ..linux() };
    insta::assert_snapshot!(decisions(strict, &lengths), @r"
    50 Gate
    55 Wake
    ");
}

#[test]
fn a_recorded_log_replays_to_the_same_actions() {
    let make = || IdleMenu::new(CORE, IdleMenuParameters { tick: Time::ns(100), ..linux() });
    let lengths: Vec<u64> = (1..200).map(|n| n * n * 7_919 % (1 + n)).collect();
    let mut logged = Host::logged(make(), Lines::unbounded());
    let first = drive(&mut logged, &halts(&lengths), Time::ns(10_000_000));
    let log: Vec<_> = (1..).zip(logged.log_mut().take()).collect();
    let summary = replay(&mut make(), log).expect("the same policy");
    assert_eq!(summary.actions, first.len() as u64);
    let gates = first.iter().filter(|d| d.action == Action::Gate).count();
    assert!((50..199).contains(&gates), "{gates} of 199 gated");
    assert_eq!(make().snapshot()[0], ("gated", 0));
}
