//! Signals of the block device's program: SIGHUP is refused and never kills.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn kill(signal: &str, id: u32) {
    let sent = Command::new("kill").args([signal, &id.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn block_refuses_sighup_and_ends_on_sigterm_without_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("block.socket");
    let mut program = Command::new(env!("CARGO_BIN_EXE_halfwink-block"))
        .args(["--ram", "64K", "--no-pin", "--unix"])
        .arg(&socket)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |what: &str| {
        let found = lines.find(|line| line.contains(what));
        assert!(found.is_some(), "it ended before it said `{what}`");
    };
    until("ready at");
    for _ in 0..2 {
        kill("-HUP", program.id());
        until("no description to read again; all stays as it was");
    }
    assert!(socket.exists() && program.try_wait().unwrap().is_none());
    kill("-TERM", program.id());
    assert!(program.wait().unwrap().success());
    assert!(!socket.exists());
}
