//! What a newcomer would trip over: leftovers, paths of somebody's machine, files and functions
//! that have grown too long.

use std::fs;
use std::path::Path;

/// Longest source file, in lines, and longest function.
const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
/// Longest line of source.
const COLUMNS: usize = 100;

/// Words that must not stay, spelt so that this file does not hold them.
fn leftovers() -> Vec<String> {
    [("TO", "DO"), ("FIX", "ME"), ("X", "XX"), ("dbg", "!("), ("unimplemented", "!(")]
        .into_iter()
        .map(|(a, b)| format!("{a}{b}"))
        .collect()
}

/// Beginnings of paths that only one machine has.
const PATHS: [&str; 3] = ["/home/", "/root/", "/Users/"];

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let mut problems = Vec::new();
    let sources = crate::files(root, &["rs", "py", "sh", "c"]);
    for path in &sources {
        let text = fs::read_to_string(path).unwrap_or_default();
        let place = path.strip_prefix(root).unwrap_or(path).display().to_string();
        if place.ends_with("_core.pyi") || place.starts_with("xtask/src/tidy") {
            continue;
        }
        leftover_words(&text, &place, &mut problems);
        if text.lines().count() > FILE_LINES {
            let lines = text.lines().count();
            problems.push(format!("{place}: {lines} lines, expected at most {FILE_LINES}"));
        }
        if place.ends_with(".rs") {
            rust_functions(&text, &place, &mut problems);
        }
    }
    if problems.is_empty() {
        Ok(format!("{} source files", sources.len()))
    } else {
        Err(problems)
    }
}

fn leftover_words(text: &str, place: &str, problems: &mut Vec<String>) {
    let words = leftovers();
    for (n, line) in text.lines().enumerate() {
        for word in &words {
            if line.contains(word.as_str()) {
                problems.push(format!("{place}:{}: `{word}` was left behind", n + 1));
            }
        }
        let is_code = place.ends_with(".rs") || place.ends_with(".py");
        if is_code && line.chars().count() > COLUMNS {
            problems.push(format!("{place}:{}: more than {COLUMNS} columns", n + 1));
        }
        if PATHS.iter().any(|path| line.contains(path)) {
            problems.push(format!("{place}:{}: a path of one machine", n + 1));
        }
    }
}

/// Functions as rustfmt lays them out: from `fn` to the closing brace at the same depth.
fn rust_functions(text: &str, place: &str, problems: &mut Vec<String>) {
    let mut begun: Option<(usize, usize)> = None;
    for (n, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        match begun {
            None => {
                let is_fn = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "const fn "]
                    .iter()
                    .any(|start| code.starts_with(start));
                if is_fn && !code.ends_with('}') && !code.ends_with(';') {
                    begun = Some((n, indent));
                }
            }
            Some((start, depth)) => {
                if indent == depth && (code == "}" || code.starts_with("};")) {
                    let lines = n + 1 - start;
                    if lines > FUNCTION_LINES {
                        problems.push(format!(
                            "{place}:{}: a function of {lines} lines, expected at most \
                             {FUNCTION_LINES}",
                            start + 1
                        ));
                    }
                    begun = None;
                } else if indent == depth && code.ends_with(';') && n > start {
                    // A declaration without a body.
                    begun = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_function_is_found() {
        let body = "    let x = 1;\n".repeat(80);
        let text = format!("fn short() {{\n}}\n\nfn long() {{\n{body}}}\n");
        let mut problems = Vec::new();
        rust_functions(&text, "a.rs", &mut problems);
        assert_eq!(problems, ["a.rs:4: a function of 82 lines, expected at most 70"]);
    }
}
