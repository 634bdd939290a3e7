//! The policies are pure: they build without the standard library, and as WebAssembly they ask
//! nothing of their host.

use std::fs;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let source = fs::read_to_string(root.join("crates/policy/src/lib.rs")).unwrap_or_default();
    if !source.contains("#![no_std]") {
        return Err(vec!["crates/policy/src/lib.rs: expected #![no_std]".to_owned()]);
    }
    if !has_target() {
        // Tests that need what is missing say so; see `required`.
        let fix = format!("rustup target add {TARGET}");
        return if required() {
            Err(vec![format!("the Rust target {TARGET} is missing; run: {fix}")])
        } else {
            Ok(format!("skipped: the Rust target {TARGET} is missing; run: {fix}"))
        };
    }
    let out = root.join("target/wasm-probe");
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--target", TARGET, "--target-dir"])
        .arg(&out)
        .arg("--manifest-path")
        .arg(root.join("xtask/wasm-probe/Cargo.toml"))
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err(vec!["halfwink-policy does not build for WebAssembly".to_owned()]);
    }
    let module = out.join(TARGET).join("release/wasm_probe.wasm");
    let bytes = fs::read(&module).map_err(|e| vec![format!("{}: {e}", module.display())])?;
    match imports(&bytes) {
        Some(0) => Ok(format!("{} bytes of WebAssembly, no imports", bytes.len())),
        Some(n) => Err(vec![format!("the policies import {n} functions from their host")]),
        None => Err(vec![format!("{}: not a WebAssembly module", module.display())]),
    }
}

/// Set by `.ci/run`: what is missing fails instead of being skipped.
fn required() -> bool {
    std::env::var_os("HALFWINK_REQUIRE_ALL").is_some()
}

fn has_target() -> bool {
    let asked =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let Ok(output) = asked else { return false };
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Number of entries in the import section (id 2); `None` if this is not a module.
fn imports(module: &[u8]) -> Option<u64> {
    let mut rest = module.strip_prefix(b"\0asm\x01\0\0\0")?;
    while let Some((&id, tail)) = rest.split_first() {
        let (size, tail) = leb128(tail)?;
        let size = usize::try_from(size).ok()?;
        if id == 2 {
            return leb128(tail).map(|(count, _)| count);
        }
        rest = tail.get(size..)?;
    }
    Some(0)
}

fn leb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut n = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        n |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((n, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::imports;

    #[test]
    fn imports_of_module_are_counted() {
        let head = b"\0asm\x01\0\0\0";
        let with = [head.as_slice(), &[1, 1, 0], &[2, 7, 3, 1, b'e', 1, b'f', 0, 0]].concat();
        assert_eq!(imports(&with), Some(3));
        assert_eq!(imports(head), Some(0));
        assert_eq!(imports(b"ELF"), None);
    }
}
