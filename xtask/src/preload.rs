//! What `halfwink live delegate` preloads into strangers stays small: everything that it links runs
//! inside of a program that never asked for it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const PACKAGE: &str = "halfwink-delegate";
/// Crates that it may be made of, itself among them.
const MOST: usize = 20;
/// What has no place in a stranger whatever the count: runtimes, TLS, HTTP.
const NEVER: [&str; 8] =
    ["tokio", "async-std", "smol", "rustls", "openssl", "ring", "hyper", "http"];

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let listed = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "-p", PACKAGE, "-e", "normal", "--prefix", "none"])
        .current_dir(root)
        .output()
        .map_err(|e| vec![format!("cargo tree: {e}")])?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr);
        return Err(vec![format!("cargo tree -p {PACKAGE}: {}", said.trim())]);
    }
    judge(&String::from_utf8_lossy(&listed.stdout))
}

/// Judges the lines of `cargo tree`: a name and a version each.
fn judge(tree: &str) -> Result<String, Vec<String>> {
    let crates: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut problems: Vec<String> = NEVER
        .iter()
        .filter(|name| crates.contains(*name))
        .map(|name| format!("{PACKAGE} links {name}, which has no place in a stranger's process"))
        .collect();
    if crates.len() > MOST {
        let names: Vec<&str> = crates.iter().copied().collect();
        problems.push(format!(
            "{PACKAGE} is made of {} crates, expected {MOST} at most: {}",
            crates.len(),
            names.join(", ")
        ));
    }
    if problems.is_empty() {
        Ok(format!("{PACKAGE} is made of {} crates", crates.len()))
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn a_crate_counts_once_however_often_it_is_named() {
        let found = judge("a v1.0.0 (/there)\nb v2.0.0\na v1.0.0 (/there) (*)\n").unwrap();
        assert!(found.ends_with("2 crates"), "{found}");
    }

    #[test]
    fn runtimes_and_crowds_are_refused() {
        let problems = judge("a v1.0.0\ntokio v1.0.0\n").unwrap_err();
        assert!(problems[0].contains("tokio"), "{problems:?}");
        let crowd: String = (0..21).map(|n| format!("c{n} v1.0.0\n")).collect();
        assert!(judge(&crowd).unwrap_err()[0].contains("21 crates"));
    }
}
