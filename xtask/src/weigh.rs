//! What programs are made of stays small: the crates of each live program, and of each library that
//! is preloaded into other programs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A program or a preloaded library, and its ceiling.
struct Built {
    name: &'static str,
    package: &'static str,
    /// The feature of the package that is this program, if it has several.
    feature: Option<&'static str>,
    /// Most crates that it may be made of, itself among them.
    most: usize,
    /// Crates that it must not link whatever the count.
    never: &'static [&'static str],
}

/// Live programs link no simulator: names of policies are below the worlds, in crates/techniques.
const SIMULATORS: &[&str] = &[
    "halfwink-study",
    "halfwink-chip",
    "halfwink-dram",
    "halfwink-router",
    "halfwink-server",
    "halfwink-fabric",
    "halfwink-storage",
    "halfwink-switching",
    "halfwink-preheat",
];
/// What is preloaded runs inside of a program that never asked for it.
const OF_PROGRAMS: &[&str] =
    &["tokio", "async-std", "smol", "rustls", "openssl", "ring", "hyper", "http"];

const fn program(name: &'static str, feature: &'static str) -> Built {
    let (package, feature) = ("halfwink-daemon", Some(feature));
    Built { name, package, feature, most: 100, never: SIMULATORS }
}

const fn preloaded(package: &'static str) -> Built {
    Built { name: package, package, feature: None, most: 20, never: OF_PROGRAMS }
}

const ALL: [Built; 8] = [
    program("halfwink-block", "block"),
    program("halfwink-circuits", "circuits"),
    program("halfwink-delegate", "delegate"),
    program("halfwink-preheat", "preheat"),
    program("halfwink-router", "router"),
    program("halfwink-steer", "steer"),
    preloaded("halfwink-delegate"),
    preloaded("halfwink-preheat-preload"),
];

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for built in &ALL {
        match made_of(root, built).and_then(|tree| judge(built, &tree)) {
            Ok(line) => found.push(line),
            Err(more) => problems.extend(more),
        }
    }
    if problems.is_empty() {
        Ok(found.join("; "))
    } else {
        Err(problems)
    }
}

fn made_of(root: &Path, built: &Built) -> Result<String, Vec<String>> {
    let mut words = vec!["-e", "normal", "-p", built.package];
    if let Some(feature) = built.feature {
        words.extend(["--no-default-features", "--features", feature]);
    }
    tree(root, &words)
}

/// Runs `cargo tree` with these words: a line for each crate, without its place in the tree.
pub(crate) fn tree(root: &Path, words: &[&str]) -> Result<String, Vec<String>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--prefix", "none"]).args(words).current_dir(root);
    let listed = command.output().map_err(|e| vec![format!("cargo tree: {e}")])?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr);
        return Err(vec![format!("cargo tree {}: {}", words.join(" "), said.trim())]);
    }
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Judges the lines of `cargo tree`: a name and a version each. Two versions are two crates.
fn judge(built: &Built, tree: &str) -> Result<String, Vec<String>> {
    let parts = |line| {
        let mut words = str::split_whitespace(line);
        Some((words.next()?, words.next().unwrap_or_default()))
    };
    let crates: BTreeSet<(&str, &str)> = tree.lines().filter_map(parts).collect();
    let Built { name, most, never, .. } = *built;
    let linked = |what: &&&str| crates.iter().any(|(found, _)| found == *what);
    let mut problems: Vec<String> = never
        .iter()
        .filter(linked)
        .map(|what| format!("{name} links {what}, which has no place in it"))
        .collect();
    let count = crates.len();
    if count > most {
        let names: Vec<&str> = crates.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        problems
            .push(format!("{name} is made of {count} crates, expected {most} at most: {names}"));
    }
    if problems.is_empty() {
        Ok(format!("{name} is made of {count} crates"))
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::{judge, preloaded, program};

    #[test]
    fn a_crate_counts_once_for_each_version_however_often_it_is_named() {
        let tree = "a v1.0.0 (/there)\nb v2.0.0\nb v1.0.0\na v1.0.0 (/there) (*)\n";
        let found = judge(&preloaded("p"), tree).unwrap();
        assert!(found.ends_with("3 crates"), "{found}");
    }

    #[test]
    fn runtimes_simulators_and_crowds_are_refused() {
        let problems = judge(&preloaded("p"), "a v1.0.0\ntokio v1.0.0\n").unwrap_err();
        assert!(problems[0].contains("tokio"), "{problems:?}");
        let problems = judge(&program("p", "f"), "halfwink-study v0.1.0\n").unwrap_err();
        assert!(problems[0].contains("halfwink-study"), "{problems:?}");
        let crowd: String = (0..101).map(|n| format!("c{n} v1.0.0\n")).collect();
        assert!(judge(&program("p", "f"), &crowd).unwrap_err()[0].contains("101 crates"));
        assert!(judge(&preloaded("p"), &crowd).unwrap_err()[0].contains("expected 20"));
    }
}
