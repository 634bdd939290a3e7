//! The checks behind `cargo xtask`.

mod ceilings;
mod circles;
mod floors;
mod prose;
mod tidy;
mod wasm;
mod weigh;

use std::path::{Path, PathBuf};

/// A check of the repository: what it found to be well, or all that is not.
pub type Check = fn(&Path) -> Result<String, Vec<String>>;

/// All checks, by name.
#[must_use]
pub fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("floors", floors::check),
        ("weigh", weigh::check),
        ("circles", circles::check),
        ("prose", prose::check),
        ("wasm", wasm::check),
        ("tidy", tidy::check),
    ]
}

/// Writes the counts of a check as its ceilings, where they are lower; none if it has no ceilings.
#[must_use]
pub fn lower(name: &str, root: &Path) -> Option<Result<String, Vec<String>>> {
    match name {
        "circles" => Some(circles::lower(root)),
        "prose" => Some(prose::lower(root)),
        _ => None,
    }
}

/// Lists where a check counts, below `folder` or, if that is empty, a total for each folder.
#[must_use]
pub fn list(name: &str, root: &Path, folder: &str) -> Option<String> {
    match name {
        "circles" => Some(circles::list(root, folder)),
        "prose" => Some(prose::list(root, folder)),
        _ => None,
    }
}

/// Root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

/// Files below `folder` that git knows or would take, with one of these endings.
pub(crate) fn files(root: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let listed = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let Ok(listed) = listed else { return Vec::new() };
    String::from_utf8_lossy(&listed.stdout)
        .lines()
        .map(|line| root.join(line))
        .filter(|path| path.is_file())
        .filter(|path| {
            let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
            endings.contains(&ending)
        })
        .collect()
}
