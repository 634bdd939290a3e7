//! All kept inputs once more, without a fuzzer: each target has some, and none breaks it.

#[cfg(all(
    feature = "fabric",
    feature = "inputs",
    feature = "node",
    feature = "server",
    feature = "storage",
    feature = "testbed",
    feature = "trace"
))]
mod corpus;

use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use halfwink_fuzz_targets::TARGETS;

/// The largest file that is kept, in bytes: a corpus is small.
const MOST_BYTES: u64 = 16 << 10;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/kept").join(target)
}

fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = folder(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn kept_inputs_break_no_target() {
    let mut broken = Vec::new();
    for (name, run) in TARGETS {
        let files = inputs(name);
        assert!(!files.is_empty(), "fuzz/kept/{name} is empty");
        for path in files {
            let size = path.metadata().unwrap().len();
            assert!(size <= MOST_BYTES, "{}: {size} bytes, at most {MOST_BYTES}", path.display());
            let bytes = fs::read(&path).unwrap();
            if catch_unwind(AssertUnwindSafe(|| run(&bytes))).is_err() {
                broken.push(format!("{name}: {}", path.display()));
            }
        }
        // No bytes at all, and each one.
        run(&[]);
        (0..=255_u8).for_each(|byte| run(&[byte]));
    }
    assert!(broken.is_empty(), "broken by what is kept:\n{}", broken.join("\n"));
}

/// A target that refuses all that is kept for it tests no more than that: the segment had outgrown
/// the files that this one made.
#[cfg(feature = "delegate")]
#[test]
fn of_kept_segments_some_are_taken() {
    use halfwink_fuzz_targets::delegation::opened;
    let kept = |name: &str| fs::read(folder("delegation").join(name)).unwrap();
    for (name, records) in [("whole", 3), ("records", u64::MAX), ("kind", u64::MAX)] {
        let found = opened(&kept(name)).map(|(_, options)| options.log_records);
        assert_eq!(found.unwrap_or(u64::MAX), records, "{name}");
    }
    assert!(opened(&kept("not-ours")).is_none() && opened(&kept("short")).is_none());
}

#[cfg(feature = "default")]
#[test]
fn nothing_is_kept_for_targets_that_are_not_there() {
    let root = folder("");
    for entry in fs::read_dir(root).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|(target, _)| *target == name), "fuzz/kept/{name}: no target");
    }
}

/// Every target is built for the fuzzer, too, and nothing else is.
#[cfg(feature = "default")]
#[test]
fn the_fuzzer_has_every_target() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let text = fs::read_to_string(manifest.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(text.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml: no {name}");
        let source = fs::read_to_string(manifest.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(source.contains(&format!("::{name}::run(")), "{source}");
    }
    assert_eq!(text.matches("[[bin]]").count(), TARGETS.len());
}
