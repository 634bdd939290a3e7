//! Finds every policy, so that nobody need name a new one here.

use std::path::Path;
use std::{env, fs};

fn main() {
    let families = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/policy/src");
    println!("cargo:rerun-if-changed={}", families.display());
    let mut policies = Vec::new();
    for family in fs::read_dir(&families).expect("the policies are beside").flatten() {
        for file in fs::read_dir(family.path()).into_iter().flatten().flatten() {
            let source = fs::read_to_string(file.path()).unwrap_or_default();
            let family = family.file_name().into_string().expect("a name of letters");
            policies.extend(
                source.lines().filter_map(policy).map(|name| {
                    format!("    kept += keep::<halfwink_policy::{family}::{name}>();\n")
                }),
            );
        }
    }
    policies.sort();
    assert!(policies.len() > 30, "found {} policies", policies.len());
    let code =
        format!("fn all() -> usize {{\n    let mut kept = 0;\n{}    kept\n}}\n", policies.concat());
    let out = env::var("OUT_DIR").expect("cargo says where to");
    fs::write(Path::new(&out).join("policies.rs"), code).expect("it can be written");
}

/// The policy that a line of source makes, if it makes one: by itself, or as a kind of those whose
/// cores have nothing to do with each other.
fn policy(line: &str) -> Option<&str> {
    if let Some(rest) = line.strip_prefix("impl Policy for ") {
        return rest.split([' ', '{']).next();
    }
    let (name, kind) = line.strip_prefix("pub type ")?.split_once(" = ")?;
    kind.starts_with("Apart<").then_some(name)
}
