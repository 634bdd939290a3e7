//! Family `gating`: when a core sleeps.

use halfwink_policy::gating::{Action, Estimate, Event, Gating, GatingPolicy};
use halfwink_policy::record::Record;
use halfwink_policy::scaling::{Depth, IdleState, IdleStates};
use halfwink_techniques::node::machine::{us, POLL};
use halfwink_techniques::node::{Idler, Machine};
use halfwink_techniques::{Change, Choice, Delays, Gating as Row, GatingContext, Make, Plan, Slot};
use halfwink_units::Time;

use super::{module_of, Playable};
use crate::about::{About, Family};
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "gating",
        events: &EVENTS,
        actions: <Action as Record>::KINDS,
        questions: &[],
    },
    needs: "build the policy into hardware or a kernel",
    // A server of today has what the policy changes within requests from a profile. Halts are
    // simulated there.
    worlds: |_| &["chip", "node", "toy"],
    make: |about| Make::Gating(row(about)),
};

/// Events of the world, and the one of each idle state behind the start.
const EVENTS: [&str; STATE + 1] = {
    let mut events = [STATE_NAME; STATE + 1];
    let mut n = 0;
    while n < STATE {
        events[n] = <Event as Record>::KINDS[n];
        n += 1;
    }
    events
};
const STATE: usize = <Event as Record>::KINDS.len();
const STATE_NAME: &str = "idle-state";

fn in_stalls(about: &About) -> bool {
    about.wants(&["stall-begin", "stall-end", "token"])
}

/// Gates the machine as it is, or has it use its idle states if it lists them. It takes the slots
/// in which it hears of waits.
fn row(about: &About) -> Row {
    let in_states = about.lists(&[STATE_NAME]);
    let in_halts = in_states || about.wants(&["idle-begin", "idle-end"]);
    let slots: &[Slot] = match (in_stalls(about), in_halts) {
        (true, false) => &[Slot::Stalls],
        (false, true) => &[Slot::Idle],
        _ => &[Slot::Stalls, Slot::Idle],
    };
    Row {
        slots,
        // Idle states have what keeps a core's state, if they keep it.
        retention: !in_states || in_stalls(about),
        change: if in_states { Change::IdleStates } else { Change::None },
        needs_os_cores: false,
        plan: Plan::Once,
        delays: match (in_states, in_stalls(about)) {
            (true, false) => |_| Delays::AfterSomeHalts,
            _ => |_| Delays::Anywhere,
        },
        build,
        delegation: None,
        offload: None,
        segregation: None,
        idle: in_halts.then_some(idle),
    }
}

/// The governor of a core of a server of today. A gated core is in the deepest state on sale.
fn idle(choice: &Choice, machine: &Machine) -> Idler {
    let on_sale = machine.on_sale();
    let (halted, gated) = match on_sale[..] {
        [] => (POLL, POLL),
        [first, ..] => (first, on_sale[on_sale.len() - 1]),
    };
    let rests: Vec<usize> = [POLL].into_iter().chain(on_sale).collect();
    let told = |&number: &usize| {
        let times = machine.told(number).map_or([0.0; 2], |s| [s.exit_us, s.residency_us]);
        let [exit, residency] = times.map(us);
        let depth = if number > halted { Depth::C6 } else { Depth::C1 };
        IdleState { depth, exit, residency, polls: number == POLL }
    };
    let kernel = &machine.spec().kernel;
    let context = GatingContext {
        costs: machine.gating_costs(gated),
        token_entries: 0,
        memory: [Time::ZERO; 2],
        idle_states: Some(IdleStates::new(&rests.iter().map(told).collect::<Vec<_>>())),
        power_down: false,
        tick: us(kernel.tick_us),
        timer: us(kernel.next_timer_us),
    };
    Idler::Gate { policy: build(choice, &context), halted, gated, rests }
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
        core.tick.0,
        core.timer.0,
    ];
    let module = module_of(choice);
    let told = Core { hears_tokens: module.about.wants(&["token", "response"]) };
    let mut policy = Played::new(module, choice, &start, told);
    for (place, state) in core.idle_states.iter().flat_map(|states| states.iter()).enumerate() {
        let depth = match (state.polls, state.depth) {
            (true, _) => 0,
            (false, Depth::C1) => 1,
            (false, Depth::C3 | Depth::C6) => 2,
        };
        policy.tell(STATE, &[place as u64, state.exit.0, state.residency.0, depth]);
    }
    Box::new(policy)
}
