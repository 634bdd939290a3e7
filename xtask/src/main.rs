//! `cargo xtask CHECK`: the checks that are not tests of any one crate. They also run as tests.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let checks = xtask::checks();
    let chosen: Vec<_> = checks.iter().filter(|(n, _)| name == "all" || *n == name).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = checks.iter().map(|(n, _)| *n).collect();
        eprintln!("usage: cargo xtask all|{}", names.join("|"));
        eprintln!("       cargo xtask circles|prose|why --list [FOLDER]|--lower");
        return ExitCode::from(2);
    }
    let option = std::env::args().nth(2).unwrap_or_default();
    let folder = std::env::args().nth(3).unwrap_or_default();
    if option == "--list" {
        eprintln!("{}", xtask::list(&name, &xtask::root(), &folder).unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    for (name, check) in chosen {
        let lowered = (option == "--lower").then(|| xtask::lower(name, &xtask::root())).flatten();
        match lowered.unwrap_or_else(|| check(&xtask::root())) {
            Ok(found) => {
                eprintln!("{name}: {found}");
                if found.starts_with("skipped: ") {
                    tell(&format!("{name}: {found}"));
                }
            }
            Err(problems) => {
                failed.push(*name);
                for problem in problems {
                    eprintln!("{name}: {problem}");
                }
            }
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    // The last line of a long output is the one that is read.
    eprintln!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// `tools/test.sh` names at its end what was skipped on the way.
fn tell(line: &str) {
    let Some(path) = std::env::var_os("HALFWINK_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().append(true).open(path);
    // It has been printed already, where it was skipped.
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}
