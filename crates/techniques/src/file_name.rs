//! Names of techniques that are policies of the user's own: the file of a module
//! (`./my-gate.wasm`) or of a class (`./my_gate.py`), or a class itself (`MyGate()`); or with the
//! digest of the content that it must have, `./my-gate.wasm@1f0c...`.

/// The ends of names that are policies of the user's own.
const SUFFIXES: [&str; 3] = [".wasm", ".py", "()"];
/// Between a path and a digest.
const DIGEST: char = '@';

/// True if a technique's name is a policy of the user's own.
pub(crate) fn is_file(name: &str) -> bool {
    let path = split(name).0;
    SUFFIXES.into_iter().any(|suffix| path.ends_with(suffix))
}

/// Splits a name into its path and its digest, which is empty where none is given.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once(DIGEST).unwrap_or((name, ""))
}

/// Joins a path and a digest.
pub(crate) fn join(path: &str, digest: &str) -> String {
    format!("{path}{DIGEST}{digest}")
}
