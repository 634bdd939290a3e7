//! The checks behind `cargo xtask`.

mod floors;
mod preload;
mod tidy;
mod wasm;

use std::path::{Path, PathBuf};

/// A check of the repository: what it found to be well, or all that is not.
pub type Check = fn(&Path) -> Result<String, Vec<String>>;

/// All checks, by name.
#[must_use]
pub fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("floors", floors::check),
        ("preload", preload::check),
        ("wasm", wasm::check),
        ("tidy", tidy::check),
    ]
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
