//! Policies for the system calls of real programs: techniques of the chip that move kernel code.
//! One nanosecond stands for one instruction of their thresholds.

use halfwink_policy::offload::DelegationParameters;

use crate::{techniques, Choice, Error, Make, Technique};

/// Name of the live world in logs.
pub const LIVE_DELEGATE: &str = "live delegate";
/// The simulated world whose techniques decide in it.
pub const WORLD: &str = "chip";

/// Reads a technique by name; returns its parameters for a program, and its one spelling.
///
/// # Errors
/// There is no such technique or parameter, or the technique moves no calls of a program.
pub fn parameters(text: &str) -> Result<(DelegationParameters, String), Error> {
    let choice = Choice::parse(WORLD, text).map_err(|error| match error {
        Error::Unknown { what: "technique", nearest: None, .. } => {
            Error::Usage(format!("{error}, expected one of {}", known()))
        }
        other => other,
    })?;
    match rule(choice.technique()) {
        Some(delegation) if choice.parts().count() == 1 && choice.modifiers().is_empty() => {
            Ok((delegation(&choice), choice.identity()))
        }
        _ => Err(Error::Usage(format!("found {choice}, expected one of {}", known()))),
    }
}

fn rule(technique: &Technique) -> Option<fn(&Choice) -> DelegationParameters> {
    match &technique.make {
        Make::Gating(gating) => gating.delegation,
        _ => None,
    }
}

fn known() -> String {
    let all = techniques().filter(|technique| rule(technique).is_some());
    all.map(|technique| technique.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use halfwink_policy::offload::DelegationKind;

    use super::*;

    const KNOWN: &str = "expected one of os-profile, os-always, os-enough-work, os-dynamic, \
                         os-adaptive";

    #[test]
    fn technique_of_the_list_gives_the_parameters_of_its_kind() {
        use DelegationKind::{Always, EnoughWork, Never, Predicted};
        for (text, kind, n_ns, least_bytes) in [
            ("os-profile", Never, None, 4096),
            ("os-always", Always, None, 4096),
            ("os-enough-work:bytes=512", EnoughWork, None, 512),
            ("os-dynamic:threshold=7", Predicted, Some(7), 4096),
            ("os-adaptive", Predicted, None, 4096),
        ] {
            let (found, technique) = parameters(text).unwrap();
            assert_eq!(found, DelegationParameters { kind, n_ns, least_bytes });
            assert_eq!(technique, text);
        }
        assert_eq!(parameters("os-dynamic").unwrap().0.n_ns, Some(1000));
    }

    #[test]
    fn technique_that_moves_no_calls_of_a_program_is_refused_with_those_that_do() {
        for (text, found) in [
            ("xyz", "unknown technique `xyz`"),
            ("tap", "found tap"),
            ("os-offload", "found os-offload"),
            ("os-always+tap", "found "),
        ] {
            let error = parameters(text).unwrap_err().to_string();
            assert!(error.starts_with(found) && error.ends_with(KNOWN), "{error}");
        }
    }
}
