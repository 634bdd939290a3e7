//! Family `gating`: when a core sleeps.

use halfwink_policy::gating::{Action, Estimate, Event, Gating, GatingPolicy};
use halfwink_policy::record::Record;
use halfwink_techniques::{Change, Choice, Delays, Gating as Row, GatingContext, Make, Plan, Slot};

use super::{module_of, Playable};
use crate::about::{About, Family};
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "gating",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &[],
    },
    needs: "build the policy into hardware or a kernel",
    // A server of today has what the policy changes within requests, from a profile. Halts are its
    // governor's.
    worlds: |about| if in_stalls(about) { &["chip", "node", "toy"] } else { &["chip", "toy"] },
    make: |about| Make::Gating(row(about)),
};

fn in_stalls(about: &About) -> bool {
    about.wants(&["stall-begin", "stall-end", "token"])
}

/// Gates the machine as it is. It takes the slots in which it hears of waits.
fn row(about: &About) -> Row {
    let in_halts = about.wants(&["idle-begin", "idle-end"]);
    let slots: &[Slot] = match (in_stalls(about), in_halts) {
        (true, false) => &[Slot::Stalls],
        (false, true) => &[Slot::Idle],
        _ => &[Slot::Stalls, Slot::Idle],
    };
    Row {
        slots,
        retention: true,
        change: Change::None,
        needs_os_cores: false,
        plan: Plan::Once,
        delays: |_| Delays::Anywhere,
        build,
        delegation: None,
        offload: None,
        segregation: None,
    }
}

/// A policy of a core. The core itself rejects what it cannot follow.
struct Core {
    hears_tokens: bool,
}

impl Told for Core {
    type Event = Event;
    type Action = Action;

    fn impossible(&self) -> Option<Action> {
        Some(Action::Rest { state: u8::MAX })
    }
}

impl Gating for Played<Core> {
    fn hears(&self) -> Option<Estimate> {
        self.told().hears_tokens.then_some(Estimate::Scheduled)
    }
}

fn build(choice: &Choice, core: &GatingContext) -> GatingPolicy {
    let costs = &core.costs;
    let [cache, memory] = core.memory;
    let times = [costs.entry, costs.break_even, costs.wake_up, costs.restore];
    let [entry, break_even, wake_up, restore] = times.map(|time| time.0);
    let start = [
        entry,
        break_even,
        wake_up,
        restore,
        costs.slots.period.0,
        costs.slots.offset.0,
        core.token_entries as u64,
        cache.0,
        memory.0,
    ];
    let module = module_of(choice);
    let told = Core { hears_tokens: module.about.wants(&["token", "response"]) };
    Box::new(Played::new(module, choice, &start, told))
}
