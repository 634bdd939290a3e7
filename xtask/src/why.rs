//! Reasons in code: counts the long files of each crate with fewer comments that say why, and
//! fewer debug assertions, than their length asks for.

use std::collections::BTreeMap;
use std::path::Path;

use crate::ceilings::{self, Counts};

/// Files of fewer lines of code are read as a whole: their names and documentation may do.
const LONG: usize = 200;
/// Lines of code for each of which a long file has a reason, in the mean.
const LINES_PER_REASON: usize = 50;

/// Lines of code, and reasons: blocks of `//` comments and debug assertions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    lines: usize,
    reasons: usize,
}

impl Size {
    fn is_bare(self) -> bool {
        self.lines > LONG && self.reasons * LINES_PER_REASON < self.lines
    }
}

/// Counts a file up to its module of tests.
fn size(text: &str) -> Size {
    // rustfmt and the lints put the module of tests at the end of a file.
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let (mut size, mut in_comment) = (Size::default(), false);
    for line in code.lines().map(str::trim) {
        let is_doc = line.starts_with("///") || line.starts_with("//!");
        let is_comment = line.starts_with("//") && !is_doc;
        // Adjacent lines are one comment; one behind code counts as well.
        size.reasons += usize::from(is_comment && !in_comment);
        if !is_doc && !is_comment && !line.is_empty() {
            size.lines += 1;
            size.reasons += usize::from(line.contains(" // ") || line.contains("debug_assert"));
        }
        in_comment = is_comment;
    }
    size
}

fn count(root: &Path) -> (Counts, BTreeMap<String, Size>) {
    let (mut counts, mut sums) = (Counts::new(), BTreeMap::<String, Size>::new());
    for source in crate::sources(root).iter().filter(|source| source.is_rust()) {
        let size = size(&source.text);
        let sum = sums.entry(source.folder.clone()).or_default();
        (sum.lines, sum.reasons) = (sum.lines + size.lines, sum.reasons + size.reasons);
        if size.is_bare() {
            let counters = counts.entry(source.folder.clone()).or_default();
            *counters.entry("bare".to_owned()).or_default() += 1;
        }
    }
    (counts, sums)
}

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let (counts, sums) = count(root);
    ceilings::above(root, "why", &counts).map_err(|mut problems| {
        problems.push(format!(
            "a file of more than {LONG} lines of code has a reason for every {LINES_PER_REASON}: a \
             `//` comment that says why, or a debug assertion; `cargo xtask why --list FOLDER` \
             shows where"
        ));
        problems
    })?;
    let bare = counts.values().filter_map(|c| c.get("bare")).sum::<u64>();
    let lines: usize = sums.values().map(|size| size.lines).sum();
    let reasons: usize = sums.values().map(|size| size.reasons).sum();
    Ok(format!("{:.2} reasons in 100 lines; {bare} long files are bare", per_100(lines, reasons)))
}

fn per_100(lines: usize, reasons: usize) -> f64 {
    100.0 * reasons as f64 / lines.max(1) as f64
}

pub(crate) fn lower(root: &Path) -> Result<String, Vec<String>> {
    ceilings::lower(root, "why", &count(root).0)
}

/// Shows each bare file below `folder`, and the reasons of each folder without one.
pub(crate) fn list(root: &Path, folder: &str) -> String {
    let row = |place: &str, size: Size| {
        let of = per_100(size.lines, size.reasons);
        format!("{place:44} {:6} lines {:4} reasons {of:6.2} in 100", size.lines, size.reasons)
    };
    if folder.is_empty() {
        let rows = count(root).1.into_iter().filter(|(_, size)| size.lines > 0);
        return rows.map(|(place, size)| row(&place, size)).collect::<Vec<_>>().join("\n");
    }
    let below = |source: &&crate::Source| source.is_rust() && source.place.starts_with(folder);
    let sources = crate::sources(root);
    let sizes = sources.iter().filter(below).map(|source| (&source.place, size(&source.text)));
    let bare = sizes.filter(|(_, size)| size.is_bare());
    bare.map(|(place, size)| row(place, size)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_comment_lines_are_one_reason() {
        let text =
            "//! Module.\n/// Does.\nfn a() {\n    // One\n    // two.\n    b(); // Three.\n}\n";
        assert_eq!(size(text), Size { lines: 3, reasons: 2 });
    }

    #[test]
    fn assertion_is_a_reason_and_tests_are_left_out() {
        let text = "debug_assert!(a);\n\n#[cfg(test)]\nmod tests {\n    // Reason.\n}\n";
        assert_eq!(size(text), Size { lines: 1, reasons: 1 });
    }

    #[test]
    fn long_file_with_few_reasons_is_bare() {
        assert!(Size { lines: 201, reasons: 4 }.is_bare());
        assert!(!Size { lines: 200, reasons: 4 }.is_bare());
        assert!(!Size { lines: 200, reasons: 0 }.is_bare());
        assert!(!Size { lines: 250, reasons: 5 }.is_bare());
    }
}
