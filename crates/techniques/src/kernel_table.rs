//! Idle states as Linux' command line overrides them: `intel_idle.table=C1:2:2,C6:150:600`.

use crate::Error;

/// The kernel parameter, which stands for values of a machine's `idle_states`. Its format is that
/// of the module parameter `table` of `intel_idle` (Linux 7.0): for each state its name, exit
/// latency and target residency in microseconds; an empty field leaves a value as it is.
pub(crate) const PARAMETER: &str = "intel_idle.table";

/// Values of a state, in the order in which the parameter has them.
const FIELDS: [&str; 2] = ["exit_us", "residency_us"];

/// Returns the values that a setting stands for: itself, unless it is the kernel parameter.
///
/// # Errors
/// The parameter's text is not as Linux reads it.
pub(crate) fn expanded(path: &str, value: &str) -> Result<Vec<(String, String)>, Error> {
    if path != PARAMETER {
        return Ok(vec![(path.to_owned(), value.to_owned())]);
    }
    let mut named: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for state in value.trim_matches(['"', '\'']).split(',') {
        let (name, numbers) = numbers(state.trim()).ok_or_else(|| {
            wrong(value, state, "expected NAME:EXIT_US:RESIDENCY_US,..., as C1E:5:20,C6::400")
        })?;
        if named.contains(&name) {
            return Err(wrong(value, &name, "expected each state once"));
        }
        let given = FIELDS.iter().zip(numbers).filter(|(_, number)| !number.is_empty());
        found.extend(
            given.map(|(field, us)| (format!("idle_states.{name}.{field}"), us.to_owned())),
        );
        named.push(name);
    }
    Ok(found)
}

fn wrong(value: &str, state: &str, expected: &str) -> Error {
    Error::Usage(format!("{PARAMETER}={value}: `{}`: {expected}", state.trim()))
}

/// Takes one state apart: its name as machines have it, and its two numbers, of which one may be
/// empty.
fn numbers(state: &str) -> Option<(String, [&str; 2])> {
    let (name, numbers) = state.split_once(':')?;
    let (exit, residency) = numbers.split_once(':')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_state = is_name && is_number(exit) && is_number(residency) && numbers != ":";
    is_state.then(|| (name.to_ascii_lowercase(), [exit, residency]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Result<Vec<String>, String> {
        let found = expanded(PARAMETER, text).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|(path, value)| format!("{path}={value}")).collect())
    }

    #[test]
    fn kernel_parameter_stands_for_the_values_that_it_names() {
        let all = [
            "idle_states.c1.exit_us=2",
            "idle_states.c1.residency_us=3",
            "idle_states.c1e.exit_us=5",
            "idle_states.c1e.residency_us=20",
            "idle_states.c6.residency_us=600",
        ];
        let text = "C1:2:3,C1E:5:20,C6::600";
        assert_eq!(values(text).unwrap(), all);
        assert_eq!(values(&format!("\"{text}\"")).unwrap(), all);
        let other = expanded("gating.wake_up_ns", "16").unwrap();
        assert_eq!(other, [("gating.wake_up_ns".to_owned(), "16".to_owned())]);
    }

    #[test]
    fn text_that_linux_would_not_read_is_refused_with_its_state() {
        let bad =
            ["C6", "C6:1", "C6:1:2:3", "C6::", "C6:1:x", "C6:-1:2", ":1:2", "C1:1:1,", "C6:1:²"];
        for text in bad {
            let said = values(text).unwrap_err();
            assert!(said.contains("expected NAME:EXIT_US:RESIDENCY_US"), "{text}: {said}");
        }
        let said = values("C6:1:2,c6:1:2").unwrap_err();
        assert_eq!(said, "intel_idle.table=C6:1:2,c6:1:2: `c6`: expected each state once");
    }
}
