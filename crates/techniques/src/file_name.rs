//! Names of techniques that are files: `./my-gate.wasm`, or with the digest of the content that it
//! must have, `./my-gate.wasm@1f0c...`.

/// The end of names that are files with a policy.
const SUFFIX: &str = ".wasm";
/// Between a path and a digest.
const DIGEST: char = '@';

/// True if a technique's name is a file with a policy.
pub(crate) fn is_file(name: &str) -> bool {
    split(name).0.ends_with(SUFFIX)
}

/// Splits a name into its path and its digest, which is empty where none is given.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once(DIGEST).unwrap_or((name, ""))
}

/// Joins a path and a digest.
pub(crate) fn join(path: &str, digest: &str) -> String {
    format!("{path}{DIGEST}{digest}")
}
