//! Family `segregation`: whose lines a second level keeps where.

use halfwink_policy::gating::AlwaysOn;
use halfwink_policy::record::Record;
use halfwink_policy::segregation::{
    Action, Event, Replacement, Rule, Segregation, SegregationPolicy, Split,
};
use halfwink_techniques::{
    Change, Choice, Delays, Gating as Row, Make, Plan, Segregation as Ruling, Slot,
};

use super::{module_of, Playable};
use crate::about::{About, Family};
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "segregation",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &[],
    },
    needs: "build the policy into the controller of a second-level cache",
    worlds: |_| &["chip"],
    make: |about| Make::Gating(row(about)),
};

/// Rules the second level of each core. Monitors are there for a policy that names their event:
/// they are hardware of their own.
fn row(about: &About) -> Row {
    Row {
        slots: &[Slot::Cache],
        retention: false,
        change: Change::None,
        needs_os_cores: false,
        plan: Plan::Once,
        delays: |_| Delays::Never,
        build: |_, _| Box::new(AlwaysOn),
        delegation: None,
        offload: None,
        segregation: Some(Ruling {
            replacement: Replacement::Lru,
            monitors: about.lists(&["utility"]),
            build,
        }),
        idle: None,
    }
}

/// A policy of a cache.
struct Cache {
    ways: u8,
}

impl Told for Cache {
    type Event = Event;
    type Action = Action;

    fn check(&self, action: &Action) -> Result<(), String> {
        action.check(self.ways)
    }

    fn impossible(&self) -> Option<Action> {
        Some(Action::Set(Rule { split: Split::Ways(u8::MAX), ..Rule::LRU }))
    }
}

impl Segregation for Played<Cache> {}

fn build(choice: &Choice, ways: u8) -> SegregationPolicy {
    Box::new(Played::new(module_of(choice), choice, &[ways.into()], Cache { ways }))
}
