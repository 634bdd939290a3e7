//! Family `offload`: which kernel entries of a core move to a core that is set aside for them.

use std::collections::VecDeque;

use halfwink_policy::gating::{AdaptiveIdle, AlwaysOn};
use halfwink_policy::offload::{Action, CallProfile, Event, Offload, OffloadPolicy};
use halfwink_policy::record::Record;
use halfwink_techniques::{Change, Choice, Delays, Gating as Row, Make, Plan, Slot};

use super::{module_of, Playable};
use crate::about::Family;
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "offload",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &["enter"],
    },
    needs: "build the policy into a kernel that moves system calls",
    worlds: |_| &["chip"],
    make: |_| Make::Gating(ROW),
};

/// Cores without a thread power down where the machine does so, as under listed policies.
const ROW: Row = Row {
    slots: &[Slot::Kernel],
    retention: true,
    change: Change::None,
    needs_os_cores: true,
    plan: Plan::Once,
    delays: |_| Delays::Anywhere,
    build: |_, core| match core.power_down {
        true => Box::new(AdaptiveIdle::new(core.costs)),
        false => Box::new(AlwaysOn),
    },
    delegation: None,
    offload: Some(build),
    segregation: None,
    idle: None,
};

/// A policy of a core. What it does not answer stays where it is.
struct Core;

impl Told for Core {
    type Event = Event;
    type Action = Action;

    fn answers(&self, event: &Event, requested: &VecDeque<Action>) -> Result<(), String> {
        match (event, requested.len()) {
            (Event::Enter(entry), 1) => requested[0].check(entry),
            (Event::Enter(_), n) => {
                Err(format!("answered {n} times, expected one `here`, `os-core` or `beside`"))
            }
            (_, 0 | 1) => Ok(()),
            (_, n) => Err(format!("requested {n} places, expected one at most")),
        }
    }
}

impl Offload for Played<Core> {}

fn build(choice: &Choice, move_cycles: u64, _calls: &[CallProfile]) -> OffloadPolicy {
    Box::new(Played::new(module_of(choice), choice, &[move_cycles], Core))
}
