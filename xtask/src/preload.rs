//! What `halfwink live delegate` and `preheat` preload into strangers stays small: everything that
//! it links runs inside of a program that never asked for it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const PACKAGES: [&str; 2] = ["halfwink-delegate", "halfwink-preheat-preload"];
/// Crates that each may be made of, itself among them.
const MOST: usize = 20;
/// Crates that must not be preloaded, whatever the count: runtimes, TLS, HTTP.
const NEVER: [&str; 8] =
    ["tokio", "async-std", "smol", "rustls", "openssl", "ring", "hyper", "http"];

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for package in PACKAGES {
        match made_of(root, package).and_then(|tree| judge(package, &tree)) {
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

fn made_of(root: &Path, package: &str) -> Result<String, Vec<String>> {
    let listed = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "-p", package, "-e", "normal", "--prefix", "none"])
        .current_dir(root)
        .output()
        .map_err(|e| vec![format!("cargo tree: {e}")])?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr);
        return Err(vec![format!("cargo tree -p {package}: {}", said.trim())]);
    }
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Judges the lines of `cargo tree`: a name and a version each.
fn judge(package: &str, tree: &str) -> Result<String, Vec<String>> {
    let crates: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut problems: Vec<String> = NEVER
        .iter()
        .filter(|name| crates.contains(*name))
        .map(|name| format!("{package} links {name}, which has no place in a stranger's process"))
        .collect();
    if crates.len() > MOST {
        let names: Vec<&str> = crates.iter().copied().collect();
        problems.push(format!(
            "{package} is made of {} crates, expected {MOST} at most: {}",
            crates.len(),
            names.join(", ")
        ));
    }
    if problems.is_empty() {
        Ok(format!("{package} is made of {} crates", crates.len()))
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn a_crate_counts_once_however_often_it_is_named() {
        let found = judge("p", "a v1.0.0 (/there)\nb v2.0.0\na v1.0.0 (/there) (*)\n").unwrap();
        assert!(found.ends_with("2 crates"), "{found}");
    }

    #[test]
    fn runtimes_and_crowds_are_refused() {
        let problems = judge("p", "a v1.0.0\ntokio v1.0.0\n").unwrap_err();
        assert!(problems[0].contains("tokio"), "{problems:?}");
        let crowd: String = (0..21).map(|n| format!("c{n} v1.0.0\n")).collect();
        assert!(judge("p", &crowd).unwrap_err()[0].contains("21 crates"));
    }
}
