//! A fabric of network namespaces, played to its end: `halfwink-circuits FILE`, a description in
//! JSON, prints what was counted, in JSON. `halfwink live circuits --virtual` runs it in a guest.

use std::process::ExitCode;

use halfwink_live_circuits::guest;

const HELP: &str = "\
Plays a fabric of network namespaces to its end, and prints what was counted, in JSON.

Usage: halfwink-circuits FILE

Arguments:
  FILE           Description in JSON, as `halfwink live circuits --virtual` writes it

Options:
  -h, --help     Print help
  -V, --version  Print version";

fn run() -> Result<String, String> {
    let path = std::env::args().nth(1).ok_or("expected the path of a description")?;
    match path.as_str() {
        "-h" | "--help" => return Ok(HELP.to_owned()),
        "-V" | "--version" => {
            return Ok(format!("halfwink-circuits {}", env!("CARGO_PKG_VERSION")));
        }
        _ => {}
    }
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let fabric = serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))?;
    let report = guest::play(&fabric)?;
    serde_json::to_string(&report).map_err(|e| e.to_string())
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "it answers on its standard output")]
fn main() -> ExitCode {
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("halfwink-circuits: {why}");
            ExitCode::FAILURE
        }
    }
}
