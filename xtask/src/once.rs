//! Each crate is compiled once: the native module, which `make demo` builds alone, asks the same
//! features of every crate as it does when the live programs are built beside it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::weigh::tree;

/// The package that is built alone first.
const MODULE: &str = "halfwink-py";
/// The line of the Makefile that names the other packages.
const OTHERS: &str = "LIVE_CRATES := $(addprefix -p halfwink-,";

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let makefile = std::fs::read_to_string(root.join("Makefile"));
    let makefile = makefile.map_err(|e| vec![format!("Makefile: {e}")])?;
    let Some(others) = others(&makefile) else {
        return Err(vec![format!("Makefile: expected a line `{OTHERS}NAMES)`")]);
    };
    let alone = features(root, &[])?;
    let found = judge(&alone, &features(root, &others)?);
    if found.is_empty() {
        return Ok(format!(
            "{} crates are compiled once for both native modules",
            lines(&alone).len()
        ));
    }
    Err(found)
}

/// The packages of the live programs.
fn others(makefile: &str) -> Option<Vec<String>> {
    let line = makefile.lines().find_map(|line| line.strip_prefix(OTHERS))?;
    let names = line.strip_suffix(')')?.split_whitespace();
    Some(names.map(|name| format!("halfwink-{name}")).collect())
}

fn features(root: &Path, others: &[String]) -> Result<String, Vec<String>> {
    let mut words = vec!["-e", "normal,build", "-f", "{p} {f}"];
    words.extend(["--features", "halfwink-py/extension-module", "-p", MODULE]);
    words.extend(others.iter().flat_map(|package| ["-p", package]));
    tree(root, &words)
}

/// Crates with a version and features, as `name v1.0.0 a,b`. A crate may stand in a tree with
/// several sets of features, those of what runs at build time apart.
fn lines(tree: &str) -> BTreeSet<String> {
    let plain = |line: &str| {
        let words = line.split_whitespace().filter(|word| !word.starts_with('('));
        words.collect::<Vec<_>>().join(" ")
    };
    tree.lines().map(plain).filter(|line| !line.is_empty()).collect()
}

/// Returns a line for each crate that is compiled once more when the live programs are built.
fn judge(alone: &str, together: &str) -> Vec<String> {
    let (alone, together) = (lines(alone), lines(together));
    let again = alone.difference(&together);
    again
        .map(|line| {
            let name = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
            let other: Vec<&str> =
                together.iter().filter_map(|other| other.strip_prefix(&name)).collect();
            format!(
                "{line}: with the live programs its features are{}, so that it and all above it \
                 are compiled twice: name them in crates/py/Cargo.toml",
                other.join(" or")
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_with_other_features_is_named_with_both() {
        let alone = "rand v0.10.3 alloc\nserde v1.0.0 (proc-macro) std\n";
        let together = "rand v0.10.3 alloc,std\nserde v1.0.0 std (*)\nclap v4.0.0\n";
        let found = judge(alone, together);
        assert_eq!(found.len(), 1, "{found:?}");
        let begin = "rand v0.10.3 alloc: with the live programs its features are alloc,std,";
        assert!(found[0].starts_with(begin), "{found:?}");
        assert_eq!(judge(together, together), [] as [String; 0]);
    }

    #[test]
    fn packages_are_those_of_the_makefile() {
        let line = format!("A := b\n{OTHERS}daemon live-wasm)\n");
        assert_eq!(others(&line).unwrap(), ["halfwink-daemon", "halfwink-live-wasm"]);
        assert_eq!(others("A := b\n"), None);
    }
}
