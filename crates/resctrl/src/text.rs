//! Parsers of small files: what they take is exactly what the kernel writes.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, Mask};

/// Highest CPU number that is taken; a list names each, so it must be bounded.
pub const MOST_CPUS: u32 = 1 << 16;

pub(crate) fn wrong(path: &Path, line: usize, found: &str, expected: &str) -> Error {
    // An odd file may have lines of any length.
    let mut found: String = found.chars().take(60).collect::<String>().escape_debug().to_string();
    if found.is_empty() {
        found = "nothing".to_owned();
    }
    Error::Text { path: path.to_owned(), line, found, expected: expected.to_owned() }
}

/// A document that is none; what it says goes into the error, so its line ends are escaped.
pub(crate) fn not_json(path: &Path, error: &serde_json::Error, expected: &str) -> Error {
    Error::Text {
        path: path.to_owned(),
        line: error.line().max(1),
        found: error.to_string().chars().take(120).collect::<String>().escape_debug().to_string(),
        expected: expected.to_owned(),
    }
}

/// The only line of a file.
fn only<'t>(text: &'t str, path: &Path, expected: &str) -> Result<&'t str, Error> {
    let line = text.strip_suffix('\n').unwrap_or(text);
    if let Some((_, second)) = line.split_once('\n') {
        return Err(wrong(path, 2, second.lines().next().unwrap_or(""), expected));
    }
    Ok(line)
}

/// A file that is one mask.
pub fn mask(text: &str, path: &Path) -> Result<Mask, Error> {
    let expected = "a mask of up to 32 bits in hexadecimal";
    let line = only(text, path, expected)?;
    Mask::parse(line).ok_or_else(|| wrong(path, 1, line, expected))
}

/// A file that is one whole number.
pub fn count(text: &str, path: &Path) -> Result<u32, Error> {
    let expected = "a whole number";
    let line = only(text, path, expected)?;
    number(line).ok_or_else(|| wrong(path, 1, line, expected))
}

/// A file that is 0 or 1.
pub fn flag(text: &str, path: &Path) -> Result<bool, Error> {
    match only(text, path, "0 or 1")? {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(wrong(path, 1, other, "0 or 1")),
    }
}

/// Decimal digits and nothing else.
pub(crate) fn number(text: &str) -> Option<u32> {
    let is_decimal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_decimal.then(|| text.parse().ok())?
}

/// Tasks, one a line.
pub fn tasks(text: &str, path: &Path) -> Result<Vec<u32>, Error> {
    let parse = |(n, line): (usize, &str)| {
        number(line).ok_or_else(|| wrong(path, n + 1, line, "the number of a task"))
    };
    text.lines().enumerate().map(parse).collect()
}

/// A list of CPUs: `0-3,8`, or nothing.
pub fn cpus(text: &str, path: &Path) -> Result<BTreeSet<u32>, Error> {
    let expected = "a list of CPUs such as 0-3,8";
    let line = only(text, path, expected)?;
    let mut found = BTreeSet::new();
    if line.is_empty() {
        return Ok(found);
    }
    for part in line.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last && last < MOST_CPUS => {
                found.extend(first..=last);
            }
            _ => return Err(wrong(path, 1, part, expected)),
        }
    }
    Ok(found)
}

/// CPUs as the kernel lists them.
pub fn show_cpus(cpus: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let parts: Vec<String> = runs
        .into_iter()
        .map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") })
        .collect();
    parts.join(",")
}

/// The policy for kernel work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMode {
    /// Modes that the kernel offers, in its order.
    pub modes: Vec<String>,
    /// The one that holds.
    pub active: String,
    /// The group it is bound to: `CTRL/MON/`, `//` the default group; none if to none.
    pub group: Option<String>,
}

/// `info/kernel_mode` as series v3 has it: a line `MODE:group=CTRL/MON/` or `MODE:group=none` for
/// each mode, the active one in brackets ([`crate::names`]).
pub fn kernel_mode(text: &str, path: &Path) -> Result<KernelMode, Error> {
    let expected = "MODE:group=CTRL/MON/ or MODE:group=none, the active line in brackets (PLZA \
                    series v3)";
    let (mut modes, mut active) = (Vec::new(), None);
    for (n, line) in text.lines().enumerate() {
        let bad = || wrong(path, n + 1, line, expected);
        let inner = line.strip_prefix('[').map(|rest| rest.strip_suffix(']').ok_or_else(bad));
        let (is_active, entry) = match inner {
            Some(entry) => (true, entry?),
            None => (false, line),
        };
        let (mode, group) = entry.split_once(":group=").ok_or_else(bad)?;
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if mode.is_empty() || !mode.bytes().all(is_name) || modes.iter().any(|m| m == mode) {
            return Err(bad());
        }
        let group = match group {
            "none" => None,
            path if is_kernel_group(path) => Some(path.to_owned()),
            _ => return Err(bad()),
        };
        modes.push(mode.to_owned());
        if is_active {
            if active.replace((mode.to_owned(), group)).is_some() {
                return Err(wrong(path, n + 1, line, "one active mode"));
            }
        } else if group.is_some() {
            return Err(bad());
        }
    }
    let lines = text.lines().count().max(1);
    let (active, group) = active.ok_or_else(|| wrong(path, lines, "", "one active mode"))?;
    Ok(KernelMode { modes, active, group })
}

/// `CTRL/MON/`, either of which may be empty.
fn is_kernel_group(path: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_graphic() && !b"/[]".contains(&b));
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], [group, monitor, ""] if is_name(group) && is_name(monitor))
}

impl KernelMode {
    /// Returns the text that makes the active mode hold. The mode in which nothing is bound is
    /// written without a group: v3 takes either, and its review asks for none there.
    pub fn command(&self) -> String {
        match &self.group {
            Some(group) if self.active != crate::names::INHERIT => {
                format!("{}:group={group}", self.active)
            }
            _ => self.active.clone(),
        }
    }

    /// Returns the content of the file.
    pub fn show(&self) -> String {
        let line = |mode: &String| match (*mode == self.active, &self.group) {
            (true, Some(group)) => format!("[{mode}:group={group}]\n"),
            (true, None) => format!("[{mode}:group=none]\n"),
            (false, _) => format!("{mode}:group=none\n"),
        };
        self.modes.iter().map(line).collect()
    }
}
