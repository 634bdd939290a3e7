//! Machines whose sleep is put off, without sockets and clocks.

use std::time::Duration;

use halfwink_policy::steering::{Rest, Side, SteeringPolicy, Threshold, ThresholdParameters};
use halfwink_units::Time;

use super::dispatch::{Dispatch, Place};
use super::machine::Machine;
use super::meter::{State, Watts};
use super::power::{Seen, Wanted};
use super::steps::{Inner, Placed};

fn s(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000_000)
}

/// A pair whose big machine is asked to sleep at time zero, and whenever it has nothing.
fn pair(rest: Rest) -> Inner {
    let policy: SteeringPolicy = Box::new(Threshold::new(ThresholdParameters::published(1)));
    let machines = Side::BOTH.map(|side| Machine::new(side, 1, 8, Watts::default()).resting(rest));
    let mut inner = Inner::new(policy.into(), None, machines.into(), 2);
    inner.begin(Time::ZERO);
    inner
}

fn big(inner: &mut Inner) -> &mut Machine {
    inner.of(Side::Big)
}

/// A request on each machine; that of the big one wakes it if it has to.
fn two(inner: &mut Inner, now: Time) -> [Placed; 2] {
    [(); 2].map(|()| inner.arrive(now, now))
}

#[test]
fn a_held_machine_serves_at_once_and_was_on_all_the_time() {
    let mut inner = pair(Rest { least_awake: s(10), per_day: None });
    assert_eq!(big(&mut inner).state, State::GoingDown);
    assert!(big(&mut inner).is_held(s(5)) && !big(&mut inner).is_held(s(10)));
    let [small, second] = two(&mut inner, s(5));
    assert!(matches!(small, Placed::Now(Side::Small, _)));
    assert!(matches!(second, Placed::Now(Side::Big, _)), "it is on");
    assert_eq!((big(&mut inner).counts.spared, big(&mut inner).on_since), (1, Time::ZERO));
    // It has nothing again, and goes down ten seconds after it woke.
    inner.leave(Side::Big, 0, s(5), s(6));
    assert_eq!((big(&mut inner).state, big(&mut inner).held), (State::GoingDown, s(10)));
    big(&mut inner).book(s(11));
    let spent = big(&mut inner).meter.residency(1);
    assert_eq!((spent.on_s, spent.going_down_s), (vec![9.0, 1.0], 1.0));
    // Asked to wake now, it goes down first.
    inner.leave(Side::Small, 0, s(5), s(11));
    two(&mut inner, s(11));
    assert_eq!((big(&mut inner).state, big(&mut inner).counts.spared), (State::GoingDown, 1));
}

#[test]
fn without_bounds_no_sleep_is_put_off() {
    let mut inner = pair(Rest::default());
    assert_eq!(big(&mut inner).state, State::GoingDown);
    assert!(!big(&mut inner).is_held(Time::ZERO));
    two(&mut inner, s(1));
    assert_eq!((big(&mut inner).state, big(&mut inner).counts.spared), (State::GoingDown, 0));
}

/// A pair whose big machine goes down, and is asked whether it may.
fn asked() -> std::sync::Arc<Dispatch> {
    let policy: SteeringPolicy = Box::new(Threshold::new(ThresholdParameters::published(1)));
    let machine = |side| Machine::new(side, 1, 8, Watts::default());
    let dispatch = Dispatch::new(policy, None, Side::BOTH.map(machine).into(), 2);
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Asleep));
    dispatch
}

#[test]
fn a_machine_that_may_not_sleep_stays_on_and_is_asked_about_again() {
    let dispatch = asked();
    assert!(dispatch.stay(Side::Big, Duration::from_secs(3600)), "this is said");
    assert_eq!(dispatch.state(Side::Big).0, State::Asleep, "its keeper waits");
    assert!(dispatch.held(Side::Big).unwrap() > Duration::from_secs(3500));
    assert!(!dispatch.stay(Side::Big, Duration::from_nanos(1)), "and not said again");
    // Its time is over: it is asked about again.
    while dispatch.held(Side::Big).is_some() {
        std::hint::spin_loop();
    }
    assert_eq!(dispatch.state(Side::Big).0, State::GoingDown);
    dispatch.asleep(Side::Big, true);
    assert_eq!(dispatch.state(Side::Big).0, State::Asleep);
    assert!(!dispatch.stay(Side::Big, Duration::ZERO), "it sleeps");
    dispatch.with(|inner, _| assert_eq!(inner.of(Side::Big).counts.declined, 2));
}

#[test]
fn a_request_that_comes_while_a_machine_is_asked_about_is_served_at_once() {
    let dispatch = asked();
    let Place::Now(_small) = dispatch.arrive() else { panic!("the small machine is on") };
    let Place::Later(waiting) = dispatch.arrive() else { panic!("the big machine goes down") };
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Awake));
    dispatch.stay(Side::Big, Duration::from_secs(3600));
    assert_eq!(dispatch.state(Side::Big).0, State::On);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(waiting.verdict()).unwrap().side, Side::Big);
    dispatch.with(|inner, _| assert_eq!(inner.of(Side::Big).counts.spared, 1));
}

fn overridden(dispatch: &Dispatch) -> (u64, bool, State) {
    dispatch.with(|inner, _| {
        let machine = inner.of(Side::Big);
        (machine.counts.overridden, machine.insomniac, machine.state)
    })
}

#[test]
fn a_machine_that_another_switched_on_is_booked_as_on() {
    let dispatch = asked();
    dispatch.asleep(Side::Big, true);
    let moment = dispatch.moment(Side::Big);
    assert!(!dispatch.seen(Side::Big, moment, Seen::Asleep), "as it should be");
    assert!(!dispatch.seen(Side::Big, moment, Seen::Changing), "not known yet");
    assert_eq!(overridden(&dispatch), (0, false, State::Asleep));
    assert!(dispatch.seen(Side::Big, moment, Seen::Awake));
    assert!(!dispatch.seen(Side::Big, moment, Seen::Awake), "it is said once");
    assert_eq!(overridden(&dispatch), (1, true, State::Asleep));
    assert!(!dispatch.seen(Side::Big, moment, Seen::Asleep), "it is asleep again");
    assert_eq!(overridden(&dispatch), (1, false, State::Asleep));
}

#[test]
fn a_machine_that_another_switched_off_is_lost_until_it_is_on() {
    let dispatch = asked();
    let moment = dispatch.moment(Side::Small);
    assert!(dispatch.seen(Side::Small, moment, Seen::Asleep));
    assert!(dispatch.is_lost(Side::Small) && dispatch.is_taken(Side::Small));
    assert!(!dispatch.seen(Side::Small, dispatch.moment(Side::Small), Seen::Awake));
    assert!(dispatch.is_lost(Side::Small), "its server has to answer first");
    assert!(!dispatch.is_taken(Side::Small));
}

#[test]
fn what_was_seen_before_a_change_counts_for_nothing() {
    let dispatch = asked();
    let before = dispatch.moment(Side::Big);
    dispatch.asleep(Side::Big, true);
    assert!(!dispatch.seen(Side::Big, before, Seen::Awake), "it was seen on its way down");
    assert_eq!(overridden(&dispatch), (0, false, State::Asleep));
}
