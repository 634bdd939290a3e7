//! Sections of a job file, with comments, variables and what is global.

use super::super::{File, Host, LoadError};

/// A section as it is written, with what is global before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: u64,
    /// Key, value, line; of equal keys the last counts.
    pub(super) values: Vec<(String, String, u64)>,
}

/// A line up to a comment, as fio cuts it: at any `;` or `#`.
fn content(line: &str) -> &str {
    line.split([';', '#']).next().unwrap_or("").trim()
}

pub(super) fn read(file: &File, text: &str, host: &Host) -> Result<Vec<Section>, LoadError> {
    let (mut global, mut sections) = (Vec::new(), Vec::<Section>::new());
    let mut in_global = false;
    for (line, number) in text.lines().zip(1..) {
        let line = content(line);
        if line.is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split_once(']').filter(|(name, _)| !name.is_empty());
            let Some((name, "")) = name else {
                let message = format!("found `{line}`, expected `[name]`");
                return Err(LoadError::of(file, Some(number), message));
            };
            in_global = name == "global";
            if !in_global {
                let (name, values) = (name.to_owned(), Vec::clone(&global));
                sections.push(Section { name, line: number, values });
            }
            continue;
        }
        let wrong = |message| LoadError::of(file, Some(number), message);
        let include =
            line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t', '=']));
        if let Some(name) = include {
            let name = name.trim_start_matches('=').trim();
            let message = format!("include: expected the lines of `{name}` here");
            return Err(wrong(message));
        }
        // An option without a value is a switch that is on, as in fio (`stonewall`).
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let value = replaced(value.trim(), host).map_err(wrong)?;
        let value = (key.trim().to_owned(), value, number);
        if in_global {
            global.push(value);
        } else if let Some(section) = sections.last_mut() {
            section.values.push(value);
        } else {
            let message = format!("found `{line}`, expected a section `[name]` before");
            return Err(LoadError::of(file, Some(number), message));
        }
    }
    Ok(sections)
}

/// A value with its variables: `${NAME}` of the environment, and fio's own words, with which it
/// computes (`$ncpus*2`).
fn replaced(value: &str, host: &Host) -> Result<String, String> {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        // An open brace is left as it stands, which the option's own parser reports.
        let Some((name, after)) = after.split_once('}') else { break };
        text.push_str(before);
        let found = (host.variable)(name).ok_or_else(|| {
            format!("found `{value}`, and ${name} is not set; set it: {name}=VALUE halfwink ...")
        })?;
        text.push_str(&found);
        rest = after;
    }
    text.push_str(rest);
    let words = [
        ("$ncpus", u64::from(host.cpus)),
        ("$pagesize", host.page_bytes),
        ("$mb_memory", host.memory_mb),
    ];
    let mut computes = false;
    for (word, number) in words {
        if text.contains(word) {
            text = text.replace(word, &number.to_string());
            computes = true;
        }
    }
    match computes.then(|| calculated(&text)).flatten() {
        Some(number) => Ok(number.to_string()),
        None => Ok(text),
    }
}

/// Whole numbers joined by `+ - * /`, from left to right in their usual order.
fn calculated(text: &str) -> Option<u64> {
    let mut sum = 0_i128;
    let mut term: Option<i128> = None;
    let (mut sign, mut operator) = (1_i128, b'*');
    let mut rest = text.trim();
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i128 = rest[..end].parse().ok()?;
        // Products are finished before they are added: a term grows until a `+` or `-`.
        term = Some(match (term, operator) {
            (None, _) => number,
            (Some(term), b'*') => term.checked_mul(number)?,
            (Some(term), _) => term.checked_div(number)?,
        });
        rest = rest[end..].trim_start();
        let Some(next) = rest.bytes().next() else { break };
        if matches!(next, b'+' | b'-') {
            sum = sum.checked_add(sign * term.take()?)?;
            sign = if next == b'-' { -1 } else { 1 };
        } else if !matches!(next, b'*' | b'/') {
            return None;
        }
        operator = next;
        rest = rest[1..].trim_start();
    }
    u64::try_from(sum.checked_add(sign * term?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_computed_with() {
        let host = Host {
            cpus: 4,
            variable: |name| (name == "A").then(|| "8k".to_owned()),
            ..Host::default()
        };
        for (value, expected) in [
            ("$ncpus", "4"),
            ("$ncpus*2", "8"),
            ("2 * $ncpus + 1", "9"),
            ("$ncpus-1", "3"),
            ("$pagesize", "4096"),
            ("${A}", "8k"),
            ("x${A}y", "x8ky"),
            ("$ncpus/0", "4/0"),
            ("/dev/sd$x", "/dev/sd$x"),
        ] {
            assert_eq!(replaced(value, &host).unwrap(), expected, "{value}");
        }
        assert!(replaced("${B}", &host).unwrap_err().contains("B=VALUE halfwink"));
    }
}
