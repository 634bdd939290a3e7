//! A policy that fails while requests wait and a machine sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use halfwink_eventlog::{Family, Header};
use halfwink_live::program::stand_in::StandIn;
use halfwink_policy::steering::{
    Action, Event, Side, Steering, SteeringPolicy, Threshold, ThresholdParameters,
};
use halfwink_policy::{Policy, Snapshot};
use halfwink_units::Time;

use super::dispatch::{Dispatch, Place};
use super::machine::Machine;
use super::meter::{State, Watts};
use super::power::Wanted;
use super::Decides;

/// A policy that sends two requests to the big machine while the small one sleeps, and then fails.
struct Failing {
    answers: u32,
    next: Option<Action>,
    has_failed: Arc<AtomicBool>,
}

impl Policy for Failing {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        if *event != Event::Arrive {
            return;
        }
        if self.answers == 0 {
            self.has_failed.store(true, Ordering::Relaxed);
            return;
        }
        self.answers -= 1;
        self.next = Some(Action::Send { side: Side::Big });
    }

    fn on_timer(&mut self, _now: Time) {}

    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.next.take()
    }

    fn snapshot(&self) -> Snapshot {
        Vec::new()
    }
}

impl Steering for Failing {}

#[test]
fn another_policy_places_all_that_wait_and_what_comes() {
    let has_failed = Arc::<AtomicBool>::default();
    let sleep = Some(Action::Sleep { side: Side::Small });
    let failing = Failing { answers: 2, next: sleep, has_failed: has_failed.clone() };
    let threshold: SteeringPolicy = Box::new(Threshold::new(ThresholdParameters::published(4)));
    let header = Header::new("live steer", Family::Steering, "hybrid");
    let fault = move || has_failed.load(Ordering::Relaxed).then(|| "it trapped".to_owned());
    let stand_in = Some(StandIn::new(fault, "hybrid", (threshold, header)));
    let machines = Side::BOTH.map(|side| Machine::new(side, 1, 8, Watts::default()));
    let decides = Decides { policy: Box::new(failing), stand_in };
    let dispatch = Dispatch::new(decides, None, machines.into(), 2);
    dispatch.asleep(Side::Small, true);
    let Place::Now(first) = dispatch.arrive() else { panic!("the big machine is free") };
    assert_eq!(first.side, Side::Big);
    let Place::Later(second) = dispatch.arrive() else { panic!("it is not free any more") };
    // The policy fails at the third: the next one sends both to the small machine, which wakes.
    let Place::Later(third) = dispatch.arrive() else { panic!("the small machine wakes") };
    assert_eq!(dispatch.state(Side::Small), (State::Waking, Wanted::Awake));
    let faults = dispatch.with(|inner, _| inner.watch.faults());
    assert_eq!((faults.policy_faults, faults.policy_fault.as_deref()), (1, Some("it trapped")));
    dispatch.awake(Side::Small);
    let served = |waiting: super::dispatch::Waiting| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ticket = runtime.block_on(waiting.verdict()).unwrap();
        assert_eq!(ticket.side, Side::Small);
        ticket.finish(true);
    };
    served(second);
    served(third);
    // A request that the failed policy had placed ends, and the other one does not hear of it.
    first.finish(true);
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Asleep));
}
