//! A digest of the sources that simulated results depend on, so that results are kept and shared by
//! what made them rather than by the build that happened to run.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Crates whose code decides what a run gives.
const MODELS: [&str; 18] = [
    "units",
    "policy",
    "policy-module",
    "policy-wasm",
    "power",
    "trace",
    "engine",
    "arrivals",
    "dram",
    "chip",
    "fabric",
    "router",
    "server",
    "node",
    "switching",
    "preheat",
    "storage",
    "study",
];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for model in MODELS {
        let source = crates.join(model).join("src");
        println!("cargo:rerun-if-changed={}", source.display());
        collect(&source, &mut files);
    }
    files.sort();
    let mut digest = Fnv::default();
    for file in files {
        let name = file.strip_prefix(&crates).unwrap_or(&file).display().to_string();
        digest.add(name.as_bytes());
        digest.add(&fs::read(&file).unwrap_or_default());
    }
    // Draws and hashes come from libraries: their versions count as well.
    let lock = crates.join("../Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    digest.add(&fs::read(lock).unwrap_or_default());
    println!("cargo:rustc-env=HALFWINK_MODEL_DIGEST={:016x}", digest.0);
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// FNV-1a, 64 bits: no dependency for a few lines, and nobody attacks their own sources.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        // The length keeps neighbours apart.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
