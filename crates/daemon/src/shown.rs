//! Values and reports as text.

use serde_json::Value;

/// Values that a description sets in its machine, as the library takes them.
pub(crate) fn values<'a, V: std::fmt::Display + 'a>(
    set: impl IntoIterator<Item = (&'a String, &'a V)>,
) -> Vec<(String, String)> {
    set.into_iter().map(|(path, value)| (path.clone(), value.to_string())).collect()
}

/// Formats set values as results show them: `path=value path=value`.
pub(crate) fn shown(values: &[(String, String)]) -> String {
    let all: Vec<String> = values.iter().map(|(path, value)| format!("{path}={value}")).collect();
    all.join(" ")
}

/// Things that can always be written down as JSON: reports and log lines of this crate's programs.
#[must_use]
pub fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
