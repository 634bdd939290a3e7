//! Family `completion`: which CPU completes a block I/O.

use std::collections::VecDeque;

use halfwink_policy::completion::{Action, Completion, CompletionPolicy, Event, Group};
use halfwink_policy::record::Record;
use halfwink_techniques::{Choice, CompletionContext, Make};
use halfwink_units::Time;

use super::{module_of, Playable};
use crate::about::Family;
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "completion",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &["done", "empty"],
    },
    needs: "a driver that plays modules between its two phases, as halfwink live block does",
    worlds: |_| &["storage"],
    make: |_| Make::Completion(build),
};

/// Time between two looks at how busy CPUs are, as `cache-aware` has it.
const PERIOD: Time = Time::ns(10_000_000);

/// A policy of a device and the CPUs that use it.
struct Device {
    cpus: u16,
    hears_polls: bool,
    period: Option<Time>,
}

impl Told for Device {
    type Event = Event;
    type Action = Action;

    fn check(&self, action: &Action) -> Result<(), String> {
        action.check(self.cpus)
    }

    fn answers(&self, event: &Event, requested: &VecDeque<Action>) -> Result<(), String> {
        let answers = requested.iter().filter(|action| event.is_answered_by(action)).count();
        match event {
            Event::Done(done) if answers != 1 => {
                let io = done.io;
                Err(format!("answered {answers} times, expected one `here` or `give` of I/O {io}"))
            }
            Event::Empty { cpu } if answers != 1 => {
                Err(format!("answered {answers} times, expected one `rest` of CPU {cpu}"))
            }
            _ => Ok(()),
        }
    }
}

impl Completion for Played<Device> {
    fn period(&self) -> Option<Time> {
        self.told().period
    }

    fn hears_polls(&self) -> bool {
        self.told().hears_polls
    }
}

fn build(choice: &Choice, machine: &CompletionContext) -> CompletionPolicy {
    let topology = &machine.topology;
    let cpus = topology.cpus();
    let each = |group| u64::from(cpus) / topology.groups(group).len() as u64;
    let start = [cpus.into(), machine.hears.into(), each(Group::Socket), each(Group::Cache)];
    let module = module_of(choice);
    let told = Device {
        cpus,
        // A world asks a policy of polls how CPUs rest before they have anything to do.
        hears_polls: module.about.lists(&["poll"]),
        period: module.about.wants(&["used"]).then_some(PERIOD),
    };
    Box::new(Played::new(module, choice, &start, told))
}
