//! The checks behind `cargo xtask`.

mod ceilings;
mod circles;
mod floors;
mod once;
mod prose;
mod tidy;
mod wasm;
mod weigh;
mod why;

use std::path::{Path, PathBuf};

/// A check of the repository: what it found to be well, or all that is not.
pub type Check = fn(&Path) -> Result<String, Vec<String>>;

/// All checks, by name.
#[must_use]
pub fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("floors", floors::check),
        ("weigh", weigh::check),
        ("once", once::check),
        ("circles", circles::check),
        ("prose", prose::check),
        ("why", why::check),
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
        "why" => Some(why::lower(root)),
        _ => None,
    }
}

/// Lists where a check counts, below `folder` or, if that is empty, a total for each folder.
#[must_use]
pub fn list(name: &str, root: &Path, folder: &str) -> Option<String> {
    match name {
        "circles" => Some(circles::list(root, folder)),
        "prose" => Some(prose::list(root, folder)),
        "why" => Some(why::list(root, folder)),
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

/// A file of production code.
pub(crate) struct Source {
    /// Crate, or folder of the Python package, that counts it.
    pub folder: String,
    /// Path below the root.
    pub place: String,
    pub text: String,
}

impl Source {
    pub fn is_rust(&self) -> bool {
        self.place.ends_with(".rs")
    }
}

/// Rust of all crates and Python of the package, without tests.
pub(crate) fn sources(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for path in files(root, &["rs", "py"]) {
        let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let is_rust = place.ends_with(".rs");
        let is_test = place.contains("/tests") || place.ends_with("tests.rs");
        let is_of_use = if is_rust {
            !is_test && !place.starts_with("fuzz")
        } else {
            place.starts_with("python/halfwink/")
        };
        if !is_of_use {
            continue;
        }
        let depth = if is_rust { 2 } else { 3 };
        let parts: Vec<&str> = place.split('/').collect();
        let folder = parts[..depth.min(parts.len() - 1)].join("/");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        found.push(Source { folder, place, text });
    }
    found
}
