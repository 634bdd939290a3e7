//! Machines that wake together and sleep together, without sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use halfwink_policy::steering::{Action, Event, Side, Steering, SteeringPolicy};
use halfwink_policy::{Policy, Snapshot};
use halfwink_units::Time;

use super::dispatch::Dispatch;
use super::machine::Machine;
use super::meter::{State, Watts};
use super::power::Wanted;

const FIRST: Side = Side::Place(0);
const SECOND: Side = Side::Place(1);
const THIRD: Side = Side::Place(2);

/// A policy that keeps what it was told, and takes the actions that are laid down for its next
/// event.
#[derive(Clone, Debug, Default)]
struct Script(Arc<Mutex<(Vec<Event>, Vec<Action>)>>);

impl Script {
    /// Has the policy take an action, by a request that arrives and leaves.
    fn act(&self, dispatch: &Arc<Dispatch>, action: Action) {
        self.0.lock().unwrap().1 = vec![Action::Send { side: FIRST }, action];
        drop(dispatch.arrive());
    }

    fn sleep(&self, dispatch: &Arc<Dispatch>, side: Side) {
        self.act(dispatch, Action::Sleep { side });
    }

    fn wake(&self, dispatch: &Arc<Dispatch>, side: Side) {
        self.act(dispatch, Action::Wake { side });
    }

    /// Returns the changes of power that it was told since the last call.
    fn told(&self) -> Vec<Event> {
        let told = std::mem::take(&mut self.0.lock().unwrap().0);
        told.into_iter().filter(|event| event.side().is_some_and(|side| side != FIRST)).collect()
    }
}

impl Policy for Script {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _: Time, event: &Event) {
        self.0.lock().unwrap().0.push(*event);
    }

    fn on_timer(&mut self, _: Time) {}

    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn poll_action(&mut self) -> Option<Action> {
        let actions = &mut self.0.lock().unwrap().1;
        (!actions.is_empty()).then(|| actions.remove(0))
    }

    fn snapshot(&self) -> Snapshot {
        Vec::new()
    }
}

impl Steering for Script {}

/// A machine for itself and two that are a group, which were sent to sleep.
fn group() -> (Script, Arc<Dispatch>) {
    let script = Script::default();
    let policy: SteeringPolicy = Box::new(script.clone());
    let machine = |side: Side| {
        let group = (side != FIRST).then_some(1);
        Machine { group, ..Machine::new(side, 8, 8, Watts::default()) }
    };
    let machines = [FIRST, SECOND, THIRD].map(machine);
    let dispatch = Dispatch::new(policy, None, machines.into(), 2);
    script.sleep(&dispatch, SECOND);
    script.sleep(&dispatch, THIRD);
    (script, dispatch)
}

/// Machines of [`group`] once they sleep.
fn asleep() -> (Script, Arc<Dispatch>) {
    let (script, dispatch) = group();
    assert!(!dispatch.leave(SECOND) && dispatch.leave(THIRD) && dispatch.leave(SECOND));
    dispatch.asleep(SECOND, true);
    dispatch.asleep(THIRD, true);
    assert_eq!(script.told(), [SECOND, THIRD].map(|side| Event::Asleep { side }));
    (script, dispatch)
}

fn state(dispatch: &Dispatch, side: Side) -> State {
    dispatch.with(|inner, _| inner.of(side).state)
}

/// Returns the seconds that a machine was booked as on and as going down.
fn booked(dispatch: &Dispatch, side: Side) -> [f64; 2] {
    dispatch.with(|inner, now| {
        inner.of(side).book(now);
        let spent = inner.of(side).meter.residency(1);
        [spent.on_s.iter().sum(), spent.going_down_s]
    })
}

#[test]
fn a_group_sleeps_once_all_of_it_may() {
    let (script, dispatch) = group();
    assert!(!dispatch.leave(SECOND), "the third machine has not been asked");
    assert_eq!(dispatch.state(SECOND).0, State::Asleep, "its keeper waits");
    let [on_s, going_down_s] = booked(&dispatch, SECOND);
    assert!(on_s > 0.0 && going_down_s == 0.0, "{on_s} s on, {going_down_s} s going down");
    assert!(dispatch.leave(THIRD), "it is the last one");
    assert_eq!(dispatch.state(SECOND).0, State::GoingDown, "its keeper goes on");
    assert!(dispatch.leave(SECOND));
    assert_eq!(script.told(), []);
}

#[test]
fn a_machine_that_is_wanted_keeps_its_group_on() {
    let (script, dispatch) = group();
    script.wake(&dispatch, SECOND);
    assert_eq!(state(&dispatch, SECOND), State::GoingDown, "it may be asked just now");
    assert!(!dispatch.leave(SECOND), "it serves");
    assert_eq!(script.told(), [Event::Awake { side: SECOND }]);
    assert!(!dispatch.leave(THIRD), "its group is needed");
    assert_eq!(dispatch.state(THIRD).0, State::Asleep, "its keeper waits");
    // It has been on, and serves at once.
    script.wake(&dispatch, THIRD);
    assert_eq!(state(&dispatch, THIRD), State::On);
    assert_eq!(script.told(), [Event::Awake { side: THIRD }]);
    assert_eq!(booked(&dispatch, THIRD)[1], 0.0);
}

#[test]
fn a_group_wakes_with_one_of_its_machines() {
    let (script, dispatch) = asleep();
    script.wake(&dispatch, THIRD);
    assert_eq!(dispatch.state(SECOND), (State::Waking, Wanted::Asleep));
    dispatch.awake(SECOND);
    assert_eq!(dispatch.state(SECOND).0, State::Asleep, "its keeper waits");
    assert_eq!(script.told(), [], "the policy takes it for asleep");
    dispatch.awake(THIRD);
    assert_eq!(script.told(), [Event::Awake { side: THIRD }]);
    dispatch.with(|inner, now| {
        let [second, third] = [1, 2].map(|place| &inner.machines[place]);
        assert_eq!([second.counts.followed, third.counts.followed], [1, 0]);
        assert!(second.is_held(now), "reports say that it is on");
    });
    // All of them sleep again. Of the machine that followed, the policy knows that already.
    script.sleep(&dispatch, THIRD);
    assert!(!dispatch.leave(SECOND) && dispatch.leave(THIRD) && dispatch.leave(SECOND));
    dispatch.asleep(SECOND, true);
    dispatch.asleep(THIRD, true);
    assert_eq!(script.told(), [Event::Asleep { side: THIRD }]);
}

#[test]
fn a_machine_that_followed_its_group_serves_when_it_is_wanted() {
    let (script, dispatch) = asleep();
    script.wake(&dispatch, THIRD);
    // Wanted on its way, and wanted once it is there.
    script.wake(&dispatch, SECOND);
    dispatch.awake(SECOND);
    assert_eq!(script.told(), [Event::Awake { side: SECOND }]);
    script.sleep(&dispatch, SECOND);
    script.wake(&dispatch, SECOND);
    assert_eq!(script.told(), [Event::Awake { side: SECOND }]);
    assert_eq!(state(&dispatch, SECOND), State::On);
}

#[test]
fn a_machine_that_followed_its_group_has_slept() {
    let (script, dispatch) = asleep();
    script.wake(&dispatch, THIRD);
    dispatch.awake(SECOND);
    script.wake(&dispatch, SECOND);
    assert_eq!(state(&dispatch, SECOND), State::On);
    dispatch.with(|inner, _| {
        let counts = inner.of(SECOND).counts;
        assert_eq!([counts.sleeps, counts.spared, counts.followed, counts.wakes], [1, 0, 1, 1]);
    });
}

#[test]
fn a_machine_that_may_not_sleep_keeps_its_group_on() {
    let (_, dispatch) = group();
    assert!(!dispatch.leave(SECOND));
    assert!(dispatch.stay(THIRD, Duration::from_secs(3600)));
    assert!(!dispatch.is_allowed(SECOND), "all are asked again, at one time");
    for side in [SECOND, THIRD] {
        assert!(dispatch.held(side).unwrap() > Duration::from_secs(3500));
    }
    // An answer that comes too late counts for nothing.
    assert!(!dispatch.leave(SECOND) && !dispatch.is_allowed(SECOND));
}

#[test]
fn a_group_wakes_while_one_of_it_goes_down() {
    let (script, dispatch) = group();
    assert!(!dispatch.leave(SECOND) && dispatch.leave(THIRD));
    // The command of the third machine has been given, that of the second one has not.
    script.wake(&dispatch, SECOND);
    assert_eq!(state(&dispatch, SECOND), State::On);
    assert_eq!(dispatch.state(THIRD), (State::GoingDown, Wanted::Asleep));
    dispatch.asleep(THIRD, true);
    assert_eq!(dispatch.state(THIRD), (State::Waking, Wanted::Asleep));
    assert_eq!(script.told(), [Event::Awake { side: SECOND }, Event::Asleep { side: THIRD }]);
}

#[test]
fn a_machine_that_cannot_be_reached_is_not_waited_for() {
    let (_, dispatch) = group();
    assert!(!dispatch.leave(SECOND));
    dispatch.lost(THIRD);
    assert!(dispatch.leave(SECOND));
    dispatch.asleep(SECOND, true);
    // It is back, and serves: its group is needed.
    dispatch.back(THIRD);
    assert_eq!(dispatch.state(SECOND), (State::Waking, Wanted::Asleep));
}

#[test]
fn a_machine_that_fails_to_follow_is_lost_to_the_policy_too() {
    let (script, dispatch) = asleep();
    script.wake(&dispatch, THIRD);
    dispatch.lost(SECOND);
    assert_eq!(script.told(), [Event::Lost { side: SECOND }]);
    dispatch.back(SECOND);
    assert_eq!(script.told(), [Event::Back { side: SECOND }]);
    assert_eq!(state(&dispatch, SECOND), State::On);
}
