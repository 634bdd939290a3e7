//! The machine under a technique: what rows of the list change of a chip.

use halfwink_chip::{IdleState, Machine, WakeUpKind};
use halfwink_policy::gating::{GatingPolicy, Joined};
use halfwink_policy::segregation::SegregationPolicy;
use halfwink_techniques::{
    Change, Choice, Delays, Gating, GatingContext, Make, MakeOffload, Modifier, Plan, Segregation,
    Slot,
};

use crate::error::StudyError;

const NO_STATE: &str = "this machine names no such state; expected it among [[idle_states]]";
const NO_STATES: &str =
    "this machine names no idle states deeper than C1; expected [[idle_states]]";
const NO_PACKAGE: &str = "this machine names no state of its package; expected [package.sleep]";

/// A technique, and what it is for a chip.
type Part = (Choice, Gating);

/// The techniques of a run: one for each slot that is taken.
#[derive(Clone)]
pub(super) struct Joint {
    parts: Vec<Part>,
    modifiers: Vec<Change>,
}

impl Joint {
    /// Reads what was chosen; none if it is no technique of a chip.
    pub(super) fn of(choice: &Choice) -> Option<Joint> {
        let mut joint = Joint { parts: Vec::new(), modifiers: Vec::new() };
        for part in choice.parts() {
            match part.technique().make {
                Make::Gating(gating) => joint.parts.push((part.clone(), gating)),
                Make::Modifier(Modifier::Chip(change)) => joint.modifiers.push(change(part)),
                _ => return None,
            }
        }
        (!joint.parts.is_empty()).then_some(joint)
    }

    /// Returns whether it is a single technique.
    pub(super) fn is_single(&self) -> bool {
        self.parts.len() == 1
    }

    fn part(&self, slot: Slot) -> Option<&Part> {
        self.parts.iter().find(|(_, gating)| gating.slots.contains(&slot))
    }

    /// Returns the parts that decide when a core sleeps: one for stalls and halts, or one for each.
    /// If the slots for that are free, it is the part that places kernel code, whose cores are
    /// vacant between kernel entries, or else the first one.
    fn sleeping(&self) -> (&Part, Option<&Part>) {
        match (self.part(Slot::Stalls), self.part(Slot::Idle)) {
            // By identity: one technique may take both slots, and then one policy decides in both.
            (Some(stalls), Some(idle)) if !std::ptr::eq(stalls, idle) => (stalls, Some(idle)),
            (one, other) => {
                let decides = one.or(other).or_else(|| self.part(Slot::Kernel));
                // There is one at least, by construction.
                (decides.unwrap_or(&self.parts[0]), None)
            }
        }
    }

    /// Returns the machine as the techniques have it.
    pub(super) fn adapted(&self, machine: Machine) -> Machine {
        let changes = self.parts.iter().map(|(_, gating)| gating.change);
        changes.chain(self.modifiers.iter().copied()).fold(machine, changed)
    }

    /// Says what a machine lacks that the techniques need, if it lacks something.
    pub(super) fn lacking(&self, machine: &Machine) -> Option<&'static str> {
        self.parts.iter().find_map(|(_, gating)| lacking(gating.change, machine))
    }

    /// Makes the policy that decides when a core sleeps.
    pub(super) fn policy(&self, machine: &Machine, core: usize) -> GatingPolicy {
        let core = GatingContext {
            costs: machine.gating_costs(core),
            token_entries: machine.token_entries(),
            memory: [machine.mapg.t_llc, machine.mapg.t_mem],
            idle_states: machine.told_idle_states(),
            power_down: machine.os.power_down,
            tick: GatingContext::TICK,
            timer: GatingContext::TIMER,
        };
        let make = |(choice, gating): &Part| (gating.build)(choice, &core);
        match self.sleeping() {
            (stalls, Some(halts)) => Box::new(Joined::new(make(stalls), make(halts))),
            (one, None) => make(one),
        }
    }

    /// Returns whether a core has cells that keep its state while it is gated.
    pub(super) fn retention(&self) -> bool {
        let has = |part: &Part| part.1.retention;
        let (one, other) = self.sleeping();
        has(one) || other.is_some_and(has)
    }

    /// Returns when a core that has something to do is delayed.
    pub(super) fn delays(&self) -> Delays {
        let all = self.parts.iter().map(|(choice, gating)| (gating.delays)(choice));
        all.max().unwrap_or(Delays::Never)
    }

    /// Returns whether it needs cores that the machine sets aside for the kernel.
    pub(super) fn needs_os_cores(&self) -> bool {
        self.parts.iter().any(|(_, gating)| gating.needs_os_cores)
    }

    /// The ways in which its parts are run, beside the usual.
    fn plans(&self) -> impl Iterator<Item = (&Choice, Plan)> {
        let plans = self.parts.iter().map(|(choice, gating)| (choice, gating.plan));
        plans.filter(|(_, plan)| *plan != Plan::Once)
    }

    /// Returns the way in which it is run, and the part that wants it.
    pub(super) fn plan(&self) -> (&Choice, Plan) {
        self.plans().next().unwrap_or((&self.parts[0].0, Plan::Once))
    }

    /// Refuses techniques that need runs of different kinds.
    pub(super) fn check(&self) -> Result<(), StudyError> {
        let plans: Vec<_> = self.plans().collect();
        let [(one, _), (two, _), ..] = plans[..] else { return Ok(()) };
        let message = format!(
            "`{one}` and `{two}` each decide by runs of their own: they cannot be played together"
        );
        Err(StudyError::Usage(message))
    }

    /// The rule that places kernel code, and the technique that has it.
    pub(super) fn offload(&self) -> Option<(&Choice, MakeOffload)> {
        self.parts.iter().find_map(|(choice, gating)| Some((choice, gating.offload?)))
    }

    /// The rule that divides second levels, and the technique that has it.
    pub(super) fn segregation(&self) -> Option<(&Choice, Segregation)> {
        self.parts.iter().find_map(|(choice, gating)| Some((choice, gating.segregation?)))
    }
}

fn changed(machine: Machine, change: Change) -> Machine {
    match change {
        Change::None => machine,
        Change::GatedClock => machine.with_gated_clock(),
        Change::GatedUnits => machine.with_gated_units(),
        Change::WithoutOsCores => machine.without_os_cores(),
        Change::IdleState(name) => machine.resting_in(|state| state.name == name),
        Change::IdleStates => machine.resting_in(|state| !state.proposed),
        Change::PackageSleep => machine.with_package_sleep(),
        Change::FixedWakeUp => controlled(machine, WakeUpKind::Fixed),
        Change::DistributedWakeUp => controlled(machine, WakeUpKind::Distributed),
        Change::CentralWakeUp { delay } => {
            let mut machine = controlled(machine, WakeUpKind::Central);
            machine.wake_up.delay = delay.unwrap_or(machine.wake_up.delay);
            machine
        }
    }
}

fn controlled(mut machine: Machine, controller: WakeUpKind) -> Machine {
    machine.wake_up.controller = controller;
    machine
}

/// Says what a machine lacks that a technique changes, if it lacks something.
fn lacking(change: Change, machine: &Machine) -> Option<&'static str> {
    match change {
        Change::IdleState(name) => machine.idle_state(name).is_none().then_some(NO_STATE),
        Change::IdleStates => {
            let deep = |state: &IdleState| !state.proposed && state.is_deep();
            (!machine.idle_states.iter().any(deep)).then_some(NO_STATES)
        }
        Change::PackageSleep => {
            let sleeps = machine.package.as_ref().is_some_and(|package| package.sleep.is_some());
            (!sleeps).then_some(NO_PACKAGE)
        }
        _ => None,
    }
}

/// Makes the policy of a second level.
pub(super) fn segregation_policy(
    how: &Segregation,
    choice: &Choice,
    machine: &Machine,
) -> SegregationPolicy {
    (how.build)(choice, machine.l2.geometry.ways as u8)
}

#[cfg(test)]
mod tests {
    use crate::job::Job;
    use crate::shipped::library;
    use crate::table::{Table, Value};
    use crate::world::{Control, Tables};

    fn job(technique: &str, machine: &str) -> Job {
        Job {
            world: "chip".into(),
            workload: "nginx-10pct".into(),
            machine: machine.into(),
            technique: technique.into(),
            set: Vec::new(),
            options: [("instructions".into(), "200000".into())].to_vec(),
        }
    }

    fn play(technique: &str, machine: &str) -> Result<Tables, String> {
        play_with(technique, machine, &[])
    }

    fn play_with(technique: &str, machine: &str, set: &[(&str, &str)]) -> Result<Tables, String> {
        let set = set.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        run(&Job { set, ..job(technique, machine) })
    }

    fn run(job: &Job) -> Result<Tables, String> {
        let prepared = job.prepare(&library()).map_err(|error| error.to_string())?;
        prepared.run(&Control::default()).map_err(|error| error.to_string())
    }

    fn table<'a>(tables: &'a Tables, name: &str) -> &'a Table {
        &tables.iter().find(|(other, _)| *other == name).unwrap().1
    }

    fn joules(tables: &Tables) -> f64 {
        match table(tables, "run").get(0, "energy_j") {
            Some(Value::Real(joules)) => *joules,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn profile_beside_a_technique_changes_no_bit() {
        for technique in ["tap", "c6a", "idle-gate", "mapg-counter", "menu"] {
            let alone = play(technique, "golden-cove-4").unwrap();
            let both = play(&format!("{technique}+os-profile"), "golden-cove-4").unwrap();
            // A watched thread that ends leaves a core that sleeps on: in C6 it flushes once more.
            let loses = technique == "menu";
            let same =
                if loses { &["histograms"][..] } else { &["histograms", "ledger", "counters"] };
            for name in same {
                assert_eq!(table(&alone, name), table(&both, name), "{technique}: {name}");
            }
        }
    }

    #[test]
    fn vacant_core_sleeps_as_the_part_that_places_kernel_code_says() {
        // A package that never sleeps and a speed that never changes do nothing.
        let set = [("package.sleep.enter_ns", "1e9"), ("dvfs.frequencies", "[1.0]")];
        for (technique, other) in [("os-offload", "pc1a"), ("os-enough-work", "dvfs-mean")] {
            let alone = play_with(technique, "golden-cove-4", &set).unwrap();
            let both = play_with(&format!("{other}+{technique}"), "golden-cove-4", &set).unwrap();
            for name in ["histograms", "ledger", "counters"] {
                assert_eq!(table(&alone, name), table(&both, name), "{other}+{technique}: {name}");
            }
        }
    }

    #[test]
    fn each_of_two_techniques_does_its_part() {
        let of = |technique| play(technique, "golden-cove-4").unwrap();
        let [tap, c6a, both] = ["tap", "c6a", "tap+c6a"].map(of);
        for (run, gates, rests) in [(&tap, true, false), (&c6a, false, true), (&both, true, true)] {
            let ledger = format!("{:?}", table(run, "ledger"));
            assert_eq!(ledger.contains("charging"), gates, "{ledger}");
            assert_eq!(ledger.contains("c6a"), rests, "{ledger}");
        }
        let [tap, c6a, both] = [tap, c6a, both].map(|run| joules(&run));
        // By itself tap gates halts too, and wakes faster from them than any idle state.
        assert!(tap < both && both < c6a, "{both}: {tap} {c6a}");
    }

    #[test]
    fn frequency_is_chosen_beside_another_technique_as_alone() {
        let on = |technique: &str| {
            let job = Job { workload: "redis".into(), ..job(technique, "golden-cove-1") };
            let tables = run(&job).unwrap();
            match table(&tables, "run").get(0, "frequency") {
                Some(Value::Real(share)) => *share,
                other => panic!("{other:?}"),
            }
        };
        let alone = on("dvfs-mean");
        assert!(alone < 1.0, "{alone}");
        assert_eq!(on("tap+dvfs-mean"), alone);
        assert_eq!(on("menu+dvfs-mean"), alone);
        assert!(on("tap+dvfs-mean:max_slowdown=0.5") < alone);
    }

    /// A technique beside one of each other slot: played with balanced books, or refused in a line.
    #[test]
    fn every_technique_plays_beside_one_of_each_slot() {
        let ones = ["tap", "c6a", "package-sleep", "dvfs-mean", "os-offload", "way-partition"];
        let mut played = 0;
        for choice in halfwink_techniques::choices("chip", &[]).unwrap() {
            for other in ones {
                let technique = format!("{choice}+{other}");
                let short = [("instructions".into(), "20000".into())].to_vec();
                match run(&Job { options: short, ..job(&technique, "golden-cove-4") }) {
                    Ok(tables) => played += usize::from(joules(&tables) > 0.0),
                    Err(error) => assert!(!error.contains('\n'), "{technique}: {error}"),
                }
            }
        }
        assert!(played > 120, "{played}");
    }

    #[test]
    fn what_cannot_be_together_is_refused_with_the_reason() {
        for (technique, said) in [
            ("dvfs-mean+os-static", "each decide by runs of their own"),
            ("tap+c6z", "unknown technique"),
            ("c6a+menu", "both decide how an idle core sleeps"),
        ] {
            let error = play(technique, "golden-cove-4").map(|_| technique).unwrap_err();
            assert!(error.contains(said), "{technique}: {error}");
        }
    }
}
