//! Family `preheat`: what is loaded into cold caches before a request comes.

use std::collections::VecDeque;

use halfwink_policy::preheat::{Action, Event, Hears, Preheat, PreheatPolicy};
use halfwink_policy::record::Record;
use halfwink_techniques::{Choice, Make, Preheating};

use super::{module_of, Playable};
use crate::about::Family;
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "preheat",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &[],
    },
    needs: "build the policy into a kernel whose network announces packets",
    worlds: |_| &["preheat"],
    make: |about| {
        let [misses, packets, restarts] =
            ["missed", "received", "closed"].map(|event| about.wants(&[event]));
        Make::Preheat(Preheating { hears: Hears { misses, packets, restarts }, build })
    },
};

/// A policy of a machine, which has an answer to whatever it is asked for.
struct Machine;

impl Told for Machine {
    type Event = Event;
    type Action = Action;

    fn check(&self, action: &Action) -> Result<(), String> {
        action.check()
    }

    fn answers(&self, event: &Event, requested: &VecDeque<Action>) -> Result<(), String> {
        requested.iter().try_for_each(|action| event.takes(action))
    }
}

impl Preheat for Played<Machine> {}

fn build(choice: &Choice) -> PreheatPolicy {
    Box::new(Played::new(module_of(choice), choice, &[], Machine))
}
