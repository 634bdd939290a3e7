//! Techniques by name: one line each.

use halfwink_chip::Machine;
use halfwink_policy::gating::{AlwaysOn, GatingPolicy, IdleGate, MapgCounter, Oracle, Tap};

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
    /// Makes its policy for a core of a machine.
    pub build: fn(&Machine) -> GatingPolicy,
}

/// Every technique, baseline first.
pub static TECHNIQUES: &[Technique] = &[
    Technique {
        name: "always-on",
        family: "gating",
        title: "never gated: the baseline",
        source: "-",
        retention: false,
        build: |_| Box::new(AlwaysOn),
    },
    Technique {
        name: "idle-gate",
        family: "gating",
        title: "gates while the OS has halted the core, as a deep C-state does",
        source: "-",
        retention: true,
        build: |_| Box::new(IdleGate::new()),
    },
    Technique {
        name: "mapg-counter",
        family: "gating",
        title: "gates long memory stalls, guesses their end from past ones",
        source: "Strong 2013, Sec 2.3.3",
        retention: true,
        build: |m| Box::new(MapgCounter::new(m.gating_costs(), m.mapg)),
    },
    Technique {
        name: "tap",
        family: "gating",
        title: "gates for as long as tokens from caches and memory promise",
        source: "Strong 2013, Sec 2.3.4",
        retention: true,
        build: |m| Box::new(Tap::new(m.gating_costs(), m.token_entries())),
    },
    Technique {
        name: "oracle",
        family: "gating",
        title: "knows every stall's end: the most that gating can save",
        source: "Strong 2013, Sec 2.4",
        retention: true,
        build: |m| Box::new(Oracle::new(m.gating_costs())),
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
