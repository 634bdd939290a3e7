//! Family `steering`: which of two machines serves a request, and which sleeps.

use std::collections::VecDeque;

use halfwink_policy::below;
use halfwink_policy::record::Record;
use halfwink_policy::steering::{Action, Event, Side, Steering, SteeringPolicy};
use halfwink_techniques::server::{Model, Service};
use halfwink_techniques::{Choice, Make, Steering as Row};
use halfwink_units::Time;

use super::{module_of, Playable};
use crate::about::Family;
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "steering",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &["arrive"],
    },
    needs: "a proxy before two machines that plays modules, as halfwink live steer does",
    worlds: |_| &["server"],
    make: |_| Make::Steering(Row::Of(build)),
};

/// A policy of a pair of machines, which follow whatever they are asked for.
struct Pair;

impl Told for Pair {
    type Event = Event;
    type Action = Action;

    fn check(&self, action: &Action) -> Result<(), String> {
        let (Action::Send { side } | Action::Wake { side } | Action::Sleep { side }) = action;
        below("machine", side.index(), Side::BOTH.len())
    }

    fn answers(&self, event: &Event, requested: &VecDeque<Action>) -> Result<(), String> {
        let sends = requested.iter().filter(|action| matches!(action, Action::Send { .. }));
        match (event, sends.count()) {
            (Event::Arrive, 1) => Ok(()),
            (Event::Arrive, n) => Err(format!("sent the request {n} times, expected one `send`")),
            (_, 0) => Ok(()),
            (_, n) => Err(format!("sent {n} requests that did not come")),
        }
    }
}

impl Steering for Played<Pair> {}

fn build(choice: &Choice, server: &Model, service: &Service) -> SteeringPolicy {
    let of =
        |value: fn(&Model, &Service, Side) -> u64| Side::BOTH.map(|s| value(server, service, s));
    let workers = of(|server, _, side| server.machine(side).workers.into());
    let alone = of(|_, service, side| seconds(service.mean_s(side, 1)));
    let busy =
        of(|server, service, side| seconds(service.mean_s(side, server.machine(side).workers)));
    let wake = of(|server, _, side| server.set().machines()[side.index()].sleep[0].wake.0);
    let down = of(|server, _, side| server.set().machines()[side.index()].sleep[0].down.0);
    let start = [workers, alone, busy, wake, down].concat();
    Box::new(Played::new(module_of(choice), choice, &start, Pair))
}

fn seconds(seconds: f64) -> u64 {
    Time::from_ns(1e9 * seconds).0
}
