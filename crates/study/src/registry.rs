//! Techniques by name: one line each.

use halfwink_chip::Machine;
use halfwink_policy::gating::{
    AlwaysOn, Fupg, GatingPolicy, IdleGate, MapgCounter, Oracle, Switching, SwitchingParameters,
    Tap, WakeFor,
};
use halfwink_units::Time;

use crate::error::StudyError;

/// A way to save energy that can be compared with others.
pub struct Technique {
    /// Name on the command line.
    pub name: &'static str,
    /// Family, as the folder of its policy.
    pub family: &'static str,
    /// What it does, in one line.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// Needs cells that keep the state of a gated core, which leak while it is on.
    pub retention: bool,
    /// What it changes of the machine.
    pub adapt: fn(Machine) -> Machine,
    /// How it is run.
    pub plan: Plan,
    /// Makes its policy for a core of a machine.
    pub build: fn(&Machine, usize) -> GatingPolicy,
}

/// How a technique is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Once.
    Once,
    /// At every frequency of the machine; that with the least product of energy and delay counts.
    LeastEnergyDelay,
    /// At full frequency to measure how much of the time the cores run, then at the least frequency
    /// that is predicted to slow the work down no more than the machine allows.
    BoundedSlowdown,
}

/// What most techniques are: gating of the machine as it is, run once.
const GATING: Technique = Technique {
    name: "",
    family: "gating",
    title: "",
    source: "-",
    retention: true,
    adapt: |machine| machine,
    plan: Plan::Once,
    build: |_, _| Box::new(AlwaysOn),
};

/// Trials of 20 us each, every millisecond.
const SWITCHING: SwitchingParameters = SwitchingParameters { window: Time::ns(20_000), round: 50 };

/// Every technique, baseline first.
pub static TECHNIQUES: &[Technique] = &[
    Technique { name: "always-on", title: "never gated: the baseline", retention: false, ..GATING },
    Technique {
        name: "idle-gate",
        title: "gates while the OS has halted the core, as a deep C-state does",
        build: |_, _| Box::new(IdleGate::new()),
        ..GATING
    },
    Technique {
        name: "mapg-counter",
        title: "gates long memory stalls, guesses their end from past ones",
        source: "Strong 2013, Sec 2.3.3",
        build: |m, core| Box::new(MapgCounter::new(m.gating_costs(core), m.mapg)),
        ..GATING
    },
    Technique {
        name: "tap",
        title: "gates for as long as tokens from caches and memory promise",
        source: "Strong 2013, Sec 2.3.4",
        build: |m, core| Box::new(Tap::new(m.gating_costs(core), m.token_entries())),
        ..GATING
    },
    Technique {
        name: "tap-last",
        title: "as tap, but awake for the last outstanding response",
        source: "Strong 2013, ch. 5",
        build: |m, core| {
            let tap = Tap::new(m.gating_costs(core), m.token_entries());
            Box::new(tap.waking_for(WakeFor::LastResponse))
        },
        ..GATING
    },
    Technique {
        name: "tap-or-mapg",
        title: "tap or mapg-counter, whichever gains more on this workload",
        source: "Strong 2013, ch. 5",
        build: |m, core| {
            let costs = m.gating_costs(core);
            let tap = Tap::new(costs, m.token_entries());
            let mapg = MapgCounter::new(costs, m.mapg);
            Box::new(Switching::new(costs, SWITCHING, tap, mapg))
        },
        ..GATING
    },
    Technique {
        name: "fupg",
        title: "gates the execution units after an idle time, harm bounded",
        source: "Strong 2013, Sec 2.4",
        retention: false,
        adapt: Machine::with_gated_units,
        build: |m, core| Box::new(Fupg::new(m.gating_costs(core), m.fupg.parameters)),
        ..GATING
    },
    Technique {
        name: "dvfs-oracle",
        family: "dvfs",
        title: "the frequency and voltage with the least product of energy and delay",
        source: "Strong 2013, Sec 2.4",
        retention: false,
        plan: Plan::LeastEnergyDelay,
        ..GATING
    },
    Technique {
        name: "dvfs-mean",
        family: "dvfs",
        title: "the least frequency that is predicted to cost at most 5 %",
        source: "Strong 2013, Sec 2.4; Dhiman and Rosing 2007",
        retention: false,
        plan: Plan::BoundedSlowdown,
        ..GATING
    },
    Technique {
        name: "oracle",
        title: "knows every stall's end: the most that gating can save",
        source: "Strong 2013, Sec 2.4",
        build: |m, core| Box::new(Oracle::new(m.gating_costs(core))),
        ..GATING
    },
];

/// The technique with this name.
///
/// # Errors
/// If there is none; with the nearest name.
pub fn technique(name: &str) -> Result<&'static Technique, StudyError> {
    TECHNIQUES
        .iter()
        .find(|t| t.name == name)
        .ok_or_else(|| StudyError::unknown("technique", name, TECHNIQUES.iter().map(|t| t.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_technique_is_met_with_its_neighbour() {
        let error = technique("mapg-conter").err().unwrap();
        assert_eq!(
            error.to_string(),
            "unknown technique `mapg-conter`; did you mean `mapg-counter`?"
        );
        assert!(technique("tap").is_ok());
    }

    #[test]
    fn names_are_unique_and_lower_case_with_hyphens() {
        for (n, technique) in TECHNIQUES.iter().enumerate() {
            let name = technique.name;
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
            assert!(TECHNIQUES[..n].iter().all(|other| other.name != name), "{name}");
        }
    }
}
