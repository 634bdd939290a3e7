//! Descriptions of programs, and what may change in them while a program runs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use halfwink_engine::{Input, InputError};
use serde::Serialize;
use serde_json::Value;

/// Most bytes of a description.
const MOST_BYTES: u64 = 1 << 24;

/// Reads a regular file of at most 16 MiB.
fn read(path: &Path) -> Result<Input, InputError> {
    let name = path.display().to_string();
    match halfwink_inputs::read_string(path, MOST_BYTES) {
        Ok(text) => Ok(Input::new(name, text)),
        Err(e) => Err(InputError { name, line: None, message: e.problem.to_string() }),
    }
}

/// A description that was read, beside its text: what proves wrong only later names its line too.
#[derive(Clone, Debug)]
pub struct Read<C> {
    /// The description, with paths that start at the file's folder.
    pub config: C,
    /// Text of the file.
    pub input: Input,
}

/// Reads the file of a description; `parse` also takes the file's folder, where its paths start.
///
/// # Errors
/// The file, the line, the value found, and what was expected.
pub fn read_as<C>(
    path: &Path,
    parse: impl FnOnce(&Input, &Path) -> Result<C, InputError>,
) -> Result<Read<C>, InputError> {
    let input = read(path)?;
    let config = parse(&input, path.parent().unwrap_or(Path::new("")))?;
    Ok(Read { config, input })
}

/// A text that may hold what others wrote, in one line that commands no terminal: control
/// characters, and those that turn the direction of writing, as `\u{1b}`.
#[must_use]
pub fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().fold(String::with_capacity(text.len()), |mut all, c| {
        if c.is_control() || turns(c) {
            all.extend(c.escape_unicode());
        } else {
            all.push(c);
        }
        all
    })
}

/// Returns a line on other users who may read a file with a secret, if it is readable by more than
/// its owner. Returns `None` if the file does not exist.
#[must_use]
pub fn exposed(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let who = match (mode & 0o040, mode & 0o004) {
        (0, 0) => return None,
        (_, 0) => "its group",
        _ => "everybody",
    };
    Some(format!("{}: a secret that {who} may read (mode {mode:03o})", path.display()))
}

/// Paths of all values in which two descriptions differ, sorted: `big.workers`, `port.addresses`.
/// Elements of a list go without their number; a list that grew or shrank is named itself, and so
/// is a part that came or went as a whole. Defaults are values like others, so writing one down
/// changes nothing.
#[must_use]
pub fn changes(before: &impl Serialize, after: &impl Serialize) -> Vec<String> {
    let mut found = Vec::new();
    compare("", &value(before), &value(after), &mut found);
    found.sort();
    found.dedup();
    found
}

/// Refuses changes that only a restart can make. A name in `fixed` stands for itself, one with a
/// dot at its end for all that is below it.
///
/// # Errors
/// One line with what cannot change.
pub fn refuse(changes: &[String], fixed: &[&str]) -> Result<(), String> {
    let is_fixed = |path: &&String| {
        fixed.iter().any(|f| path.as_str() == *f || (f.ends_with('.') && path.starts_with(f)))
    };
    let refused: Vec<&str> = changes.iter().filter(is_fixed).map(String::as_str).collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(format!("{}: can only change by a restart", refused.join(", ")))
}

/// A description that cannot be written down differs from every other one at its root.
fn value(description: &impl Serialize) -> Value {
    serde_json::to_value(description).unwrap_or(Value::Null)
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
                let (a, b) = (of(a).unwrap_or_default(), of(b).unwrap_or_default());
                compare(&below, &a, &b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| compare(path, a, b, found));
        }
        _ if before == after => {}
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_named_where_they_are() {
        let before = json!({
            "workers": 2, "tls": null, "set": {"a": 1},
            "port": [{"interface": "a", "addresses": ["10.0.0.1/24"]}, {"interface": "b"}],
        });
        let mut after = before.clone();
        assert!(changes(&before, &after).is_empty());
        after["workers"] = json!(3);
        after["tls"] = json!({"cert": "c"});
        after["set"] = json!({"b": 1});
        after["port"][0]["addresses"] = json!([]);
        after["port"][1]["interface"] = json!("c");
        let found = changes(&before, &after);
        assert_eq!(found, ["port.addresses", "port.interface", "set.a", "set.b", "tls", "workers"]);
        after["port"] = json!([]);
        assert_eq!(changes(&before, &after), ["port", "set.a", "set.b", "tls", "workers"]);
    }

    #[test]
    fn foreign_texts_stay_in_their_line() {
        assert_eq!(plain("h\u{e4} \u{1b}[2J\n\u{202e}x"), "h\u{e4} \\u{1b}[2J\\u{a}\\u{202e}x");
    }

    #[test]
    fn secrets_that_others_may_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert_eq!(exposed(&path), None);
        std::fs::write(&path, "secret").unwrap();
        for (mode, said) in [(0o600, None), (0o640, Some("its group")), (0o604, Some("everybody"))]
        {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let found = exposed(&path);
            assert_eq!(found.is_some(), said.is_some(), "{mode:o}");
            assert!(found.is_none_or(|text| text.contains(said.unwrap())), "{mode:o}");
        }
    }

    #[test]
    fn what_needs_a_restart_is_refused_by_name() {
        let all = ["port.addresses", "set.a", "workers"].map(str::to_owned);
        assert_eq!(refuse(&all, &["policy", "port"]), Ok(()));
        let refused = refuse(&all, &["workers", "set."]).unwrap_err();
        assert_eq!(refused, "set.a, workers: can only change by a restart");
    }
}
