//! The block device's program and its neighbours: signals that are refused never kill, and an
//! image has one server.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn kill(signal: &str, id: u32) {
    let sent = Command::new("kill").args([signal, &id.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn block_refuses_signals_and_ends_on_sigterm_without_its_socket() {
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
    for signal in ["-USR1", "-USR2"] {
        kill(signal, program.id());
        until("SIGUSR1 and SIGUSR2 change nothing; all stays as it was");
    }
    assert!(socket.exists() && program.try_wait().unwrap().is_none());
    kill("-TERM", program.id());
    assert!(program.wait().unwrap().success());
    assert!(!socket.exists());
}

/// A server of an image that listens in the folder; for a moment.
fn serves(folder: &std::path::Path, words: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_halfwink-block"))
        .args(["--no-pin", "--seconds", "0.1", "--file"])
        .arg(folder.join("image"))
        .arg("--unix")
        .arg(folder.join("second.socket"))
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn block_refuses_an_image_that_another_server_has_open() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::write(&image, vec![0; 1 << 16]).unwrap();
    for (first, second, taken) in [
        (&[][..], &[][..], true),
        (&[], &["--read-only"], true),
        (&["--read-only"], &[], true),
        (&["--read-only"], &["--read-only"], false),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_halfwink-block"))
            .args(["--no-pin", "--file"])
            .arg(&image)
            .arg("--unix")
            .arg(folder.path().join("first.socket"))
            .args(first)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("ready at")));
        let found = serves(folder.path(), second);
        let said = String::from_utf8_lossy(&found.stderr).into_owned();
        assert_eq!(found.status.code(), Some(if taken { 2 } else { 0 }), "{said}");
        assert_eq!(said.contains("image: another server "), taken, "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        // It is free once its server has ended, however that ended.
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(serves(folder.path(), second).status.success());
    }
}
