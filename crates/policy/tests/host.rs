//! The host against the plainest loop that does the same, and against clocks and policies that
//! misbehave.

use std::collections::VecDeque;

use halfwink_policy::scaling::{Depth, Event as Look, Polling, PowerSave, PowerSaveParameters};
use halfwink_policy::scaling::{Rest, Scaling, ScalingPolicy};
use halfwink_policy::{
    drive, replay, Decision, Difference, Host, Input, Line, Lines, NoLog, Policy, Snapshot,
};
use halfwink_units::Time;
use proptest::prelude::*;

/// Answers with as many actions as the event says, and sets its timer to what the event says;
/// actions count up, so that a lost or doubled one shows.
#[derive(Clone, Default)]
struct Counter {
    next: u32,
    pending: VecDeque<u32>,
    timer: Option<Time>,
    /// The timer stays where it is when it rings.
    sticks: bool,
    heard: Vec<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ask {
    actions: u8,
    timer_in: Option<u8>,
}

impl Counter {
    fn add(&mut self, actions: u8) {
        for _ in 0..actions {
            self.pending.push_back(self.next);
            self.next += 1;
        }
    }
}

impl Policy for Counter {
    type Event = Ask;
    type Action = u32;

    fn on_event(&mut self, now: Time, event: &Ask) {
        self.heard.push(now);
        self.timer = event.timer_in.map(|span| now + Time(u64::from(span)));
        self.add(event.actions);
    }

    fn on_timer(&mut self, now: Time) {
        self.heard.push(now);
        // Once more a little later, every second time.
        if !self.sticks {
            self.timer = self.timer.filter(|at| at.0 % 2 == 0).map(|at| at + Time(3));
        }
        self.add(1);
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<u32> {
        self.pending.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("next", i64::from(self.next))]
    }
}

/// Everything that a host does, without one.
fn reference(mut policy: Counter, events: &[(Time, Ask)]) -> (Vec<(Time, u32)>, Vec<Time>) {
    let mut actions = Vec::new();
    let mut now = Time::ZERO;
    let mut take = |policy: &mut Counter, now| {
        while let Some(action) = policy.poll_action() {
            actions.push((now, action));
        }
    };
    for &(at, event) in events {
        now = now.max(at);
        while policy.next_timer().is_some_and(|due| due <= now) {
            policy.on_timer(now);
            take(&mut policy, now);
        }
        policy.on_event(now, &event);
        take(&mut policy, now);
    }
    (actions, policy.heard)
}

fn events() -> impl Strategy<Value = Vec<(Time, Ask)>> {
    let ask = (0u8..4, proptest::option::of(0u8..20))
        .prop_map(|(actions, timer_in)| Ask { actions, timer_in });
    // Not sorted: a clock may step back.
    proptest::collection::vec(((0u64..200).prop_map(Time), ask), 0..60)
}

proptest! {
    #[test]
    fn a_host_is_the_plain_loop(events in events(), pulls in any::<bool>()) {
        let mut host = Host::logged(Counter::default(), Lines::unbounded());
        let mut actions = Vec::new();
        for (at, event) in &events {
            host.ring(*at, |now, action| actions.push((now, action))).unwrap();
            if pulls {
                host.notify(*at, event);
                while let Some(action) = host.next_action() {
                    actions.push((host.now(), action));
                }
            } else {
                host.deliver(*at, event, |now, action| actions.push((now, action)));
            }
        }
        let (expected, heard) = reference(Counter::default(), &events);
        prop_assert_eq!(&actions, &expected);
        prop_assert_eq!(&host.policy().heard, &heard);
        prop_assert!(heard.is_sorted());
        // Its log has all of it, and says the same to a fresh policy.
        let log: Vec<_> = (1..).zip(host.log_mut().take()).collect();
        let flat: Vec<(Time, u32)> = log
            .iter()
            .flat_map(|(_, line)| line.actions.iter().map(|&action| (line.now, action)))
            .collect();
        prop_assert_eq!(flat, expected);
        let summary = replay(Counter::default(), log).unwrap();
        prop_assert_eq!(summary.lines, heard.len() as u64);
    }

    #[test]
    fn a_host_in_a_host_changes_nothing(events in events()) {
        let plain = drive(&mut Counter::default(), &sorted(&events), Time(300));
        let mut inner = Host::logged(Counter::default(), Lines::unbounded());
        prop_assert_eq!(&drive(&mut inner, &sorted(&events), Time(300)), &plain);
        let actions: usize = inner.log().iter().map(|line| line.actions.len()).sum();
        prop_assert_eq!(actions, plain.len());
    }
}

fn sorted(events: &[(Time, Ask)]) -> Vec<(Time, Ask)> {
    let mut events = events.to_vec();
    events.sort_by_key(|(at, _)| *at);
    events
}

const NOTHING: Ask = Ask { actions: 0, timer_in: None };
const ONE: Ask = Ask { actions: 1, timer_in: None };

#[test]
fn a_clock_that_steps_back_stands_still() {
    let mut host = Host::new(Counter::default());
    for at in [5, 9, 7, 3, 9, 10] {
        host.deliver(Time(at), &NOTHING, |_, _| {});
    }
    assert_eq!(host.policy().heard, [5, 9, 9, 9, 9, 10].map(Time));
    assert_eq!((host.now(), host.steps_back()), (Time(10), 2));
}

#[test]
fn a_reading_for_others_is_one_for_the_policy_too() {
    let mut host = Host::new(Counter::default());
    assert_eq!([5, 9, 7].map(|at| host.observe(Time(at))), [5, 9, 9].map(Time));
    host.deliver(Time(8), &NOTHING, |_, _| {});
    assert_eq!(host.policy().heard, [Time(9)]);
    assert_eq!((host.now(), host.steps_back()), (Time(9), 2));
}

#[test]
fn parts_that_are_apart_keep_their_own_time() {
    let mut host = Host::new(Counter::default()).unordered();
    for at in [5, 9, 7] {
        host.deliver(Time(at), &NOTHING, |_, _| {});
    }
    assert_eq!(host.policy().heard, [5, 9, 7].map(Time));
    assert_eq!(host.steps_back(), 0);
}

#[test]
fn a_timer_in_the_past_is_due_now() {
    let mut host = Host::new(Counter::default());
    assert_eq!(host.due(), Time::NEVER);
    host.deliver(Time(10), &Ask { actions: 0, timer_in: Some(4) }, |_, _| {});
    assert_eq!(host.due(), Time(14));
    assert_eq!(host.expire(Time(13)), Ok(false));
    // The clock was late: 14, then 17; it rings at 30 for both.
    let mut at = Vec::new();
    assert_eq!(host.ring(Time(30), |now, _| at.push(now)), Ok(2));
    assert_eq!(at, [Time(30), Time(30)]);
}

#[test]
fn a_timer_that_does_not_move_is_an_error_and_no_hang() {
    let mut host = Host::new(Counter { sticks: true, ..Counter::default() });
    host.deliver(Time(10), &Ask { actions: 0, timer_in: Some(4) }, |_, _| {});
    let stuck = host.ring(Time(20), |_, _| {}).unwrap_err();
    assert_eq!(stuck.due, Time(14));
    assert_eq!(
        stuck.to_string(),
        "the policy's timer rang 1048576 times at 14 ps and is still due"
    );
    // Rung one by one, by a world with other things to do at that time, it ends, too.
    let mut host = Host::new(Counter { sticks: true, ..Counter::default() });
    host.deliver(Time(10), &Ask { actions: 0, timer_in: Some(4) }, |_, _| {});
    let mut rang = 0;
    while host.expire(Time(20)) == Ok(true) {
        while host.next_action().is_some() {}
        rang += 1;
    }
    assert_eq!(rang, (1 << 20) + 1);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "debug assertions are off")]
#[should_panic(expected = "all actions are taken")]
fn actions_that_nobody_takes_are_a_mistake() {
    let mut host = Host::new(Counter::default());
    host.notify(Time(1), &ONE);
    host.notify(Time(2), &ONE);
}

#[test]
fn no_log_has_no_size() {
    assert_eq!(size_of::<NoLog>(), 0);
    assert_eq!(size_of::<Host<Counter>>(), size_of::<Host<Counter, NoLog>>());
}

#[test]
fn a_full_log_drops_whole_lines_and_says_so() {
    let mut host = Host::logged(Counter::default(), Lines::bounded(3));
    for at in 1..=5 {
        host.deliver(Time(at), &ONE, |_, _| {});
    }
    assert_eq!((host.log().written(), host.log().dropped()), (3, 2));
    let mut log: Vec<_> = host.log_mut().take().collect();
    host.deliver(Time(6), &ONE, |_, _| {});
    log.extend(host.log_mut().take());
    let gaps: Vec<_> = log.iter().map(|line| (line.now.0, line.dropped)).collect();
    assert_eq!(gaps, [(1, 0), (2, 0), (3, 0), (6, 2)]);
    // What was not heard cannot be compared: the replay ends before the gap.
    let summary = replay(Counter::default(), (1..).zip(log)).unwrap();
    assert_eq!((summary.lines, summary.unheard, summary.end), (3, 3, Time(3)));
}

fn log_of(policy: Counter, events: &[(Time, Ask)]) -> Vec<(u64, Line<Ask, u32>)> {
    let mut host = Host::logged(policy, Lines::unbounded());
    drive(&mut host, events, Time(1_000));
    (2..).zip(host.log_mut().take()).collect()
}

#[test]
fn a_forged_line_is_found_by_number_and_time() {
    let began = Counter { pending: [7].into(), ..Counter::default() };
    let events = [(Time(4), ONE), (Time(6), Ask { actions: 2, timer_in: Some(1) })];
    let log = log_of(began.clone(), &events);
    assert_eq!(log[0].1.input, Input::Start);
    assert_eq!(replay(began.clone(), log.clone()).unwrap().lines, 4);

    let mut forged = log.clone();
    forged[2].1.actions[1] = 99;
    let found = replay(began.clone(), forged).unwrap_err();
    assert_eq!((found.line, found.now), (4, Time(6)));
    assert_eq!((&found.expected[..], &found.found[..]), (&[1, 99][..], &[1, 2][..]));

    // A start that is missing, and a timer that is not due.
    assert_eq!(replay(began.clone(), log[1..].to_vec()).unwrap_err().line, 3);
    let mut early = log.clone();
    early[3].1.now = Time(6);
    let found = replay(began.clone(), early).unwrap_err();
    assert_eq!(found.to_string(), "line 5, at 6 ps, Timer: the policy's timer is due at 7 ps");
    early = vec![log[0].clone(), log[3].clone()];
    let Difference { line, not_due, .. } = replay(began.clone(), early).unwrap_err();
    assert_eq!((line, not_due), (5, Some(Time::NEVER)));
}

#[test]
fn a_logged_policy_takes_the_same_shortcuts() {
    let hosted = |policy: ScalingPolicy| -> ScalingPolicy {
        Box::new(Host::logged(policy, Lines::unbounded()))
    };
    let polling = hosted(Box::new(Polling::new()));
    assert_eq!(polling.always_rests(), Some(Rest::Spin));
    let parameters = PowerSaveParameters { c_up: 1, ..PowerSaveParameters::published(2, 1) };
    let mut power_save = hosted(Box::new(PowerSave::new(parameters)));
    assert!(power_save.hears_polls(0));
    let rest = drive(&mut power_save, &[(Time(9), Look::Empty { core: 0 })], Time(9)).pop();
    let c1 = halfwink_policy::scaling::Action::Rest { core: 0, rest: Rest::Halt(Depth::C1) };
    assert_eq!(rest, Some(Decision { at: Time(9), action: c1 }));
}
