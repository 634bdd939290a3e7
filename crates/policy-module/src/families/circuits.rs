//! Family `circuits`: which circuits an optical switch sets up next, and for how long.

use std::collections::VecDeque;

use halfwink_policy::circuits::{Action, Circuits, CircuitsPolicy, Event};
use halfwink_policy::record::Record;
use halfwink_techniques::{Choice, CircuitsContext, Make};
use halfwink_units::Time;

use super::{module_of, Playable};
use crate::about::Family;
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "circuits",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &["next"],
    },
    needs: "build the policy into the controller of an optical switch",
    worlds: |_| &["fabric", "racks"],
    make: |_| Make::Circuits(build),
};

/// A policy of a switch, whose planes are joined alike.
struct Switch {
    hosts: u16,
    shortest: Time,
    wants_demand: bool,
}

impl Told for Switch {
    type Event = Event;
    type Action = Action;

    fn check(&self, action: &Action) -> Result<(), String> {
        action.check(self.hosts, self.shortest)
    }

    fn answers(&self, event: &Event, requested: &VecDeque<Action>) -> Result<(), String> {
        event.is_answered_by(requested.iter())
    }
}

impl Circuits for Played<Switch> {
    fn wants_demand(&self) -> bool {
        self.told().wants_demand
    }
}

fn build(choice: &Choice, fabric: &CircuitsContext) -> CircuitsPolicy {
    let us = |us: f64| Time::from_ns(1e3 * us);
    let shortest = us(fabric.shortest_day_us);
    // Gb/s are 125,000 B/ms.
    let bytes_per_ms = (fabric.port_gbps * f64::from(fabric.planes) * 125e3) as u64;
    let start = [fabric.hosts.into(), us(fabric.night_us).0, shortest.0, bytes_per_ms];
    let module = module_of(choice);
    let wants_demand = module.about.wants(&["demand"]);
    let told = Switch { hosts: fabric.hosts, shortest, wants_demand };
    Box::new(Played::new(module, choice, &start, told))
}
