//! Techniques by name: one line each.

use halfwink_chip::Machine;
use halfwink_policy::gating::{
    AdaptiveIdle, AlwaysOn, Fupg, GatingPolicy, IdleGate, MapgCounter, Oracle, Switching,
    SwitchingParameters, Tap, WakeFor,
};
use halfwink_policy::offload::{
    CallProfile, Feedback, FeedbackParameters, Fixed, LikeOs, LikeOsParameters, OffloadPolicy,
    Organisation, Parameters, PerCall, Predicted, PredictedParameters, Threshold,
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
    /// Moves kernel code to cores that the machine must set aside.
    pub needs_os_cores: bool,
    /// How it is run.
    pub plan: Plan,
    /// Makes its policy for a core of a machine.
    pub build: fn(&Machine, usize) -> GatingPolicy,
    /// Makes the policy that decides where a core's kernel entries run, if they do not simply run
    /// where they are; told what a first run found out of the system calls, if there was one.
    pub offload: Option<MakeOffload>,
}

/// Makes an offload policy for a machine, told what a first run found out of its system calls.
pub type MakeOffload = fn(&Machine, &[CallProfile]) -> OffloadPolicy;

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
    /// Twice: at first nothing moves, and system calls are measured.
    Profiled,
}

/// What most techniques are: gating of the machine as it is, run once.
const GATING: Technique = Technique {
    name: "",
    family: "gating",
    title: "",
    source: "-",
    retention: true,
    adapt: |machine| machine,
    needs_os_cores: false,
    plan: Plan::Once,
    build: |_, _| Box::new(AlwaysOn),
    offload: None,
};

/// What most techniques are that move kernel code to other cores.
const OFFLOAD: Technique = Technique {
    family: "offload",
    needs_os_cores: true,
    build: |m, core| {
        if m.os.power_down {
            Box::new(AdaptiveIdle::new(m.gating_costs(core)))
        } else {
            Box::new(AlwaysOn)
        }
    },
    offload: Some(|_, _| Box::new(Fixed::never())),
    ..GATING
};

/// The published run-length predictor in hardware, with the machine's threshold.
fn predicted(machine: &Machine, organisation: Organisation) -> OffloadPolicy {
    let threshold = Threshold::Fixed(machine.os.threshold);
    let parameters = Parameters::published(organisation);
    Box::new(Predicted::new(PredictedParameters::hardware(parameters, threshold)))
}

/// Epochs of the published controller are this much longer than those here, since recorded
/// workloads are some million instructions long.
const EPOCHS_SHORTENED_BY: u64 = 250;
/// A call is long if it costs this many times a move there and back (assumption).
const STATIC_MULTIPLE: u64 = 2;

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
        name: "idle-adaptive",
        title: "as idle-gate, but not for idle times expected to be too short",
        source: "Mogul 2007, Sec 5.6",
        build: |m, core| Box::new(AdaptiveIdle::new(m.gating_costs(core))),
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
    Technique {
        name: "os-profile",
        title: "moves nothing, and counts what the kernel does",
        source: "Nellans 2014, Sec 4.1",
        retention: false,
        adapt: Machine::without_os_cores,
        needs_os_cores: false,
        build: |_, _| Box::new(AlwaysOn),
        ..OFFLOAD
    },
    Technique {
        name: "os-always",
        title: "runs all kernel code on OS cores",
        source: "Nellans 2014, Sec 4.7",
        offload: Some(|_, _| Box::new(Fixed::always())),
        ..OFFLOAD
    },
    Technique {
        name: "os-enough-work",
        title: "moves the system calls that ask for enough work, and interrupts",
        source: "Mogul 2007, Sec 5.2",
        offload: Some(|m, _| Box::new(PerCall::enough_work(m.os.enough_bytes))),
        ..OFFLOAD
    },
    Technique {
        name: "os-static",
        title: "moves the system calls that a first run found long",
        source: "Nellans 2014, Sec 4.6.1",
        plan: Plan::Profiled,
        offload: Some(|m, calls| {
            Box::new(PerCall::instrumented(calls, 2 * m.os.switch, STATIC_MULTIPLE))
        }),
        ..OFFLOAD
    },
    Technique {
        name: "os-dynamic",
        title: "as os-offload, decided by software at every entry",
        source: "Nellans 2014, Sec 4.4",
        offload: Some(|m, _| {
            let parameters = Parameters::published(Organisation::PUBLISHED_ASSOCIATIVE);
            let threshold = Threshold::Fixed(m.os.threshold);
            Box::new(Predicted::new(PredictedParameters::software(parameters, threshold)))
        }),
        ..OFFLOAD
    },
    Technique {
        name: "os-offload",
        title: "moves kernel entries that are predicted to be longer than N",
        source: "Nellans 2014, Sec 4.6.2",
        offload: Some(|m, _| predicted(m, Organisation::PUBLISHED_ASSOCIATIVE)),
        ..OFFLOAD
    },
    Technique {
        name: "os-offload-direct",
        title: "as os-offload, with a direct-mapped table",
        source: "Nellans 2014, Sec 4.6.2",
        offload: Some(|m, _| predicted(m, Organisation::PUBLISHED_DIRECT)),
        ..OFFLOAD
    },
    Technique {
        name: "os-offload-unbounded",
        title: "as os-offload, with a table without end",
        source: "Nellans 2014, Sec 4.6.2",
        offload: Some(|m, _| predicted(m, Organisation::Unbounded)),
        ..OFFLOAD
    },
    Technique {
        name: "os-adaptive",
        title: "as os-offload, with N found by trying",
        source: "Nellans 2014, Sec 4.6.3",
        offload: Some(|_, _| {
            let feedback = FeedbackParameters::published().shortened(EPOCHS_SHORTENED_BY);
            let parameters = Parameters::published(Organisation::PUBLISHED_ASSOCIATIVE);
            let threshold = Threshold::Feedback(Box::new(Feedback::new(feedback)));
            Box::new(Predicted::new(PredictedParameters::hardware(parameters, threshold)))
        }),
        ..OFFLOAD
    },
    Technique {
        name: "os-like",
        title: "runs threads whose user code is like the kernel's on OS cores, if they keep up",
        source: "Mogul 2007, Sec 4.3",
        offload: Some(|_, _| {
            let mut parameters = LikeOsParameters::usual();
            parameters.epoch = Time(parameters.epoch.0 / EPOCHS_SHORTENED_BY);
            Box::new(LikeOs::new(parameters, Box::new(Fixed::never())))
        }),
        ..OFFLOAD
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
