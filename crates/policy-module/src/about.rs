//! What a module says of itself, as JSON.

use halfwink_techniques::{Default as Otherwise, Parameter, Range};
use serde::Deserialize;

use crate::block::PARAMETERS;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    family: String,
    title: String,
    events: Option<Vec<String>>,
    #[serde(default)]
    parameters: Vec<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Number {
    name: String,
    #[serde(default)]
    unit: String,
    default: f64,
    least: f64,
    most: f64,
    title: String,
}

/// A family, as modules speak of it.
pub struct Family {
    /// Name that `halfwink list techniques` has for it.
    pub name: &'static str,
    /// Names of its events, as logs have them.
    pub events: &'static [&'static str],
    /// Names of its actions, as logs have them.
    pub actions: &'static [&'static str],
    /// Events among them that are questions: each module is sent them.
    pub questions: &'static [&'static str],
}

/// The description of a module. Texts last as long as the process, as those of the listed rows do.
pub(crate) struct About {
    /// The family of its policy.
    pub family: &'static Family,
    /// A description in one line.
    pub title: &'static str,
    /// A bit for each event that it wants, by the number of the kind.
    pub wanted: u64,
    /// The parameters that users can set.
    pub parameters: &'static [Parameter],
}

/// Longest title of a module or a parameter, in bytes.
const LONGEST: usize = 200;

impl About {
    /// Reads what a module says of itself. It has to be of one of these families.
    ///
    /// # Errors
    /// One line that names the value found and the values allowed.
    pub(crate) fn read(
        text: &str,
        mut families: impl Iterator<Item = &'static Family> + Clone,
    ) -> Result<About, String> {
        let wrong = |e| format!("what it says of itself is wrong: {e}");
        let said: Said = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let known = families.clone().map(|family| family.name).collect::<Vec<_>>().join(", ");
        let family = families.find(|family| family.name == said.family);
        let family = family
            .ok_or_else(|| wrong(format!("family `{}`, expected {known}", shown(&said.family))))?;
        let mut wanted = if said.events.is_some() { 0 } else { u64::MAX };
        for name in said.events.iter().flatten() {
            let Some(kind) = family.events.iter().position(|event| event == name) else {
                let events = family.events.join(", ");
                return Err(wrong(format!("event `{}`, expected {events}", shown(name))));
            };
            wanted |= 1 << kind;
        }
        for (kind, event) in family.events.iter().enumerate() {
            wanted |= u64::from(family.questions.contains(event)) << kind;
        }
        if said.parameters.len() > PARAMETERS {
            let count = said.parameters.len();
            return Err(wrong(format!("{count} parameters, expected {PARAMETERS} at most")));
        }
        let mut parameters: Vec<Parameter> = Vec::new();
        for number in &said.parameters {
            let is_twice = parameters.iter().any(|other| other.name == number.name);
            parameters.push(number.parameter(is_twice).map_err(wrong)?);
        }
        let parameters = Box::leak(parameters.into_boxed_slice());
        Ok(About { family, title: kept(&title(&said.title).map_err(wrong)?), wanted, parameters })
    }

    /// Returns whether it names one of these events itself, by their names in logs.
    pub(crate) fn lists(&self, names: &[&str]) -> bool {
        self.wanted != u64::MAX && self.wants(names)
    }

    /// Returns whether it wants one of these events, by their names in logs.
    pub(crate) fn wants(&self, names: &[&str]) -> bool {
        let events = self.family.events.iter().enumerate();
        events.filter(|(_, name)| names.contains(name)).any(|(n, _)| self.wanted & 1 << n != 0)
    }
}

impl Number {
    fn parameter(&self, is_twice: bool) -> Result<Parameter, String> {
        let Number { name, unit, default, least, most, .. } = self;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > 40 || !name.chars().all(plain) {
            let shown = shown(name);
            return Err(format!("parameter `{shown}`, expected small letters, digits and `_`"));
        }
        if is_twice {
            return Err(format!("two parameters `{name}`"));
        }
        if !(least <= default && default <= most) {
            return Err(format!(
                "parameter `{name}`: default {default}, expected {least} to {most}"
            ));
        }
        Ok(Parameter {
            name: kept(name),
            unit: kept(&shown(unit)),
            default: Otherwise::Number(*default),
            range: Range::Number(*least, *most),
            title: kept(&title(&self.title)?),
            source: "the module",
        })
    }
}

/// A title, or what is wrong with it.
fn title(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
        let shown = shown(text);
        return Err(format!("title `{shown}`, expected one line of up to {LONGEST} bytes"));
    }
    Ok(text.to_owned())
}

/// The beginning of a text, without what would move a terminal's cursor.
fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Keeps a text as long as the process lasts. A file is read into a row once for each content.
pub(crate) fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}
