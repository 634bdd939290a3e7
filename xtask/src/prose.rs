//! Plain English in documentation: counts the blocks that are fragments, that have at most three
//! words, or that speak of somebody, in Rust doc comments and in Python docstrings.

use std::collections::BTreeMap;
use std::path::Path;

use crate::ceilings::{self, Counts};

/// First words of blocks that are fragments: no subject, or a relative clause without its noun.
const FRAGMENTS: &str = "It Its They Them Their What Who Whom Whose So That Those These How Where \
    When Whether Why Of By In To From For If As With Until Up None Nothing Somebody Nobody \
    Something";
/// Words that hide which component is meant.
const FORBIDDEN: &str = "somebody nobody anybody whoever whom everybody";
/// Blocks of at most so many words repeat the name of their item.
const SHORT: usize = 3;

/// A block of documentation.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// First line, from 1.
    line: usize,
    text: String,
    /// Describes a parameter of a docstring, where few words may do.
    parameter: bool,
}

/// The counters that a block adds to.
fn faults(block: &Block) -> Vec<&'static str> {
    let words: Vec<&str> = block.text.split_whitespace().collect();
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let first = words.first().map(|w| letters(w)).unwrap_or_default();
    // By the first word alone: a parser of English would be larger than what it checks, and the
    // few good sentences that begin so can be turned round.
    let fragment = FRAGMENTS.split(' ').any(|f| f.eq_ignore_ascii_case(first))
        || block.text.starts_with("The same");
    let is_forbidden = |word: &&str| FORBIDDEN.split(' ').any(|f| f == plain(word));
    let found = [
        ("forbidden", words.iter().any(is_forbidden)),
        ("fragments", fragment),
        ("short", words.len() <= SHORT && !block.parameter),
    ];
    found.into_iter().filter_map(|(name, is)| is.then_some(name)).collect()
}

/// The leading letters of a word.
fn letters(word: &str) -> &str {
    let end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
    &word[..end]
}

/// Blocks of `///` lines.
fn rust_blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (n, line) in text.lines().enumerate() {
        let Some(words) = line.trim().strip_prefix("///") else {
            open = false;
            continue;
        };
        // Adjacent lines are one block: a sentence may break anywhere.
        if let (true, Some(block)) = (open, blocks.last_mut()) {
            block.text.push(' ');
            block.text.push_str(words.trim());
        } else {
            let text = words.trim().to_owned();
            blocks.push(Block { line: n + 1, text, parameter: false });
        }
        open = true;
    }
    blocks
}

/// Docstrings, and the parameters and attributes that they describe.
fn python_blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = Vec::new();
    let mut before = ":";
    let mut i = 0;
    while i < lines.len() {
        let line = lines[i].trim();
        // A string is a docstring only as the first statement of a module, a class or a function.
        if line.starts_with("\"\"\"") && before.ends_with(':') {
            let closes = |l: &&str| l.contains("\"\"\"");
            let one = line[3..].contains("\"\"\"");
            let rest =
                lines[i + 1..].iter().position(closes).map_or(lines.len() - 1, |k| i + 1 + k);
            let last = if one { i } else { rest };
            docstring(&lines[i..=last], i + 1, &mut blocks);
            i = last;
        }
        if !line.is_empty() && !line.starts_with('#') {
            before = line;
        }
        i += 1;
    }
    blocks
}

fn docstring(lines: &[&str], first: usize, blocks: &mut Vec<Block>) {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let base = indent(lines[0]);
    let clean = |line: &str| line.trim().trim_matches('"').trim().to_owned();
    let mut section = false;
    // The opening paragraphs are a block; each entry of a section is one.
    let mut block = Block { line: first, text: clean(lines[0]), parameter: false };
    for (k, line) in lines.iter().enumerate().skip(1) {
        let words = clean(line);
        if words.is_empty() || words.starts_with("---") {
            continue;
        }
        let google = ["Attributes:", "Args:", "Raises:", "Returns:", "Yields:"];
        if matches!(&*words, "Parameters" | "Attributes") || google.contains(&words.as_str()) {
            section = true;
            let empty = Block { line: first + k, text: String::new(), parameter: true };
            blocks.push(std::mem::replace(&mut block, empty));
            continue;
        }
        // Both styles are read: Google's `name: text` in a line, and NumPy's name with the text
        // below.
        let entry = words.split_once(": ").filter(|(name, _)| name.split(' ').count() <= 2);
        let text = match entry {
            Some((_, text)) if section && indent(line) == base + 4 => Some(text.to_owned()),
            _ if section && indent(line) == base => Some(String::new()),
            _ => None,
        };
        if let Some(text) = text {
            let next = Block { line: first + k, text, parameter: true };
            blocks.push(std::mem::replace(&mut block, next));
        } else {
            block.text.push(' ');
            block.text.push_str(&words);
        }
    }
    blocks.push(block);
    blocks.retain(|block| !block.text.trim().is_empty());
}

/// Calls `each` with the folder, the path and the blocks of each file of production code.
fn visit(root: &Path, mut each: impl FnMut(&str, &str, Vec<Block>)) {
    for source in crate::sources(root) {
        let blocks = if source.is_rust() { rust_blocks } else { python_blocks };
        each(&source.folder, &source.place, blocks(&source.text));
    }
}

fn count(root: &Path) -> (Counts, BTreeMap<String, u64>) {
    let mut counts = Counts::new();
    let mut blocks = BTreeMap::new();
    visit(root, |folder, _, found| {
        *blocks.entry(folder.to_owned()).or_default() += found.len() as u64;
        for fault in found.iter().flat_map(faults) {
            let counters = counts.entry(folder.to_owned()).or_default();
            *counters.entry(fault.to_owned()).or_default() += 1;
        }
    });
    (counts, blocks)
}

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let (counts, blocks) = count(root);
    ceilings::above(root, "prose", &counts).map_err(|mut problems| {
        problems.push("`cargo xtask prose --list FOLDER` shows where".to_owned());
        problems
    })?;
    let total: u64 = blocks.values().sum();
    let of = |counter: &str| counts.values().filter_map(|c| c.get(counter)).sum::<u64>();
    let (fragments, short, forbidden) = (of("fragments"), of("short"), of("forbidden"));
    Ok(format!(
        "{total} blocks: {fragments} fragments, {short} of at most {SHORT} words, {forbidden} \
         with a forbidden word"
    ))
}

pub(crate) fn lower(root: &Path) -> Result<String, Vec<String>> {
    ceilings::lower(root, "prose", &count(root).0)
}

/// Shows each block at fault below `folder`, and the percentages of each folder without one.
pub(crate) fn list(root: &Path, folder: &str) -> String {
    let mut lines = Vec::new();
    if folder.is_empty() {
        let (counts, blocks) = count(root);
        for (folder, total) in blocks.iter().filter(|(_, n)| **n > 0) {
            let of = |counter: &str| {
                let n = counts.get(folder).and_then(|c| c.get(counter)).copied().unwrap_or(0);
                100.0 * n as f64 / *total as f64
            };
            let (a, b, c) = (of("fragments"), of("short"), of("forbidden"));
            lines.push(format!(
                "{folder:28} {total:6} blocks {a:5.1} % fragments {b:5.1} % short {c:5.1} % \
                 forbidden"
            ));
        }
        return lines.join("\n");
    }
    visit(root, |_, place, found| {
        for block in found.iter().filter(|_| place.starts_with(folder)) {
            let faults = faults(block);
            if !faults.is_empty() {
                let (line, text) = (block.line, &block.text);
                lines.push(format!("{place}:{line}: {}: {text}", faults.join(", ")));
            }
        }
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        Block { line: 1, text: text.to_owned(), parameter: false }
    }

    #[test]
    fn fragment_is_found_by_its_first_word() {
        assert_eq!(faults(&block("What could not be done.")), ["fragments"]);
        assert_eq!(faults(&block("The same, but for a single core.")), ["fragments"]);
        assert_eq!(faults(&block("Returns what could not be done.")), [""; 0]);
        assert_eq!(faults(&block("Inner joins of both tables.")), [""; 0]);
    }

    #[test]
    fn block_of_three_words_is_short() {
        assert_eq!(faults(&block("Length in bytes.")), ["short"]);
        assert_eq!(faults(&block("Length of the queue.")), [""; 0]);
        let parameter = Block { parameter: true, ..block("Length in bytes.") };
        assert_eq!(faults(&parameter), [""; 0]);
    }

    #[test]
    fn forbidden_word_is_found_anywhere() {
        assert_eq!(faults(&block("Counts it, if nobody, ever, waits.")), ["forbidden"]);
    }

    #[test]
    fn adjacent_comment_lines_are_one_block() {
        let blocks = rust_blocks("/// One\n/// two.\nfn a() {}\n    /// Three.\n// four\n");
        assert_eq!(blocks[0], block("One two."));
        assert_eq!(blocks[1], Block { line: 4, ..block("Three.") });
    }

    #[test]
    fn docstrings_are_found_and_other_strings_are_not() {
        let text =
            "\"\"\"Module.\"\"\"\n\ndef a():\n    \"\"\"Does.\n\n    More.\n    \"\"\"\n    \
                    b = \"\"\"\nWhat\n\"\"\"\n";
        let blocks = python_blocks(text);
        assert_eq!(blocks[0], block("Module."));
        assert_eq!(blocks[1], Block { line: 4, ..block("Does. More.") });
        assert_eq!(blocks.len(), 2);
    }

    #[test]
    fn parameters_and_attributes_are_blocks() {
        let text = "def a():\n    \"\"\"Does.\n\n    Parameters\n    ----------\n    io\n        \
                    How it\n        is.\n    \"\"\"\n\
                    class B:\n    \"\"\"Is.\n\n    Attributes:\n        at: of that.\n    \"\"\"\n";
        let blocks: Vec<(usize, String)> =
            python_blocks(text).into_iter().map(|b| (b.line, b.text)).collect();
        let text = |text: &str| text.to_owned();
        assert_eq!(blocks[0], (2, text("Does.")));
        assert_eq!(blocks[1], (6, text(" How it is.")));
        assert_eq!(blocks[2], (11, text("Is.")));
        assert_eq!(blocks[3], (14, text("of that.")));
    }
}
