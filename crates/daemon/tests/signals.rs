//! The block device's program and its neighbours: signals that mean nothing never kill, and an
//! image has one server.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn kill(signal: &str, id: u32) {
    // The shell's own: a bare Debian has no such program.
    let sent = Command::new("sh").args(["-c", &format!("kill {signal} {id}")]).status().unwrap();
    assert!(sent.success());
}

/// Writes a description in the folder; its path.
fn describe(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, format!("schema = 1\npin = false\n{text}\n")).unwrap();
    path
}

fn program(description: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_halfwink-block"));
    program.arg("--config").arg(description);
    program
}

#[test]
fn block_without_a_log_to_open_ignores_usr_signals() {
    let folder = tempfile::tempdir().unwrap();
    let path = describe(folder.path(), "b", "unix = \"socket\"\nram = \"64K\"");
    let mut program = program(&path).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |what: &str| {
        let found = lines.find(|line| line.contains(what));
        assert!(found.is_some(), "it ended before it said `{what}`");
    };
    until("block: ready");
    for (signal, said) in [
        ("-USR1", "SIGUSR1 changes nothing without an access log"),
        ("-USR2", "SIGUSR2 changes nothing without --report"),
    ] {
        kill(signal, program.id());
        until(said);
    }
    let socket = folder.path().join("socket");
    assert!(socket.exists() && program.try_wait().unwrap().is_none());
    kill("-TERM", program.id());
    assert!(program.wait().unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn usr2_replaces_the_report_of_a_running_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = describe(folder.path(), "b", "unix = \"socket\"\nram = \"64K\"");
    let (report, linked) = (folder.path().join("report.json"), folder.path().join("linked.json"));
    std::os::unix::fs::symlink("report.json", &linked).unwrap();
    let mut program = program(&path);
    let started = program.arg("--report").arg(&linked).stderr(Stdio::piped()).spawn();
    let mut program = started.unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("block: ready")));
    for _ in 0..2 {
        // A reader that has the last report open keeps it whole.
        std::fs::write(&report, "the last one").unwrap();
        let mut last = std::fs::File::open(&report).unwrap();
        kill("-USR2", program.id());
        let expected = format!("report written to {}", linked.display());
        assert!(lines.any(|line| line.ends_with(&expected)), "it ended before it said so");
        let mut text = String::new();
        last.read_to_string(&mut text).unwrap();
        assert_eq!(text, "the last one");
        let text = std::fs::read_to_string(&report).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().get("policy").is_some());
    }
    assert!(linked.is_symlink());
    std::fs::create_dir(folder.path().join("report.json.new")).unwrap();
    kill("-USR2", program.id());
    assert!(lines.any(|line| line.contains("report not written: ")), "it ended without a word");
    kill("-TERM", program.id());
    assert!(program.wait().unwrap().success());
}

/// A server of an image that listens in the folder; for a moment.
fn serves(folder: &Path, keys: &str) -> std::process::Output {
    let text = format!("unix = \"second.socket\"\nfile = \"image\"\n{keys}");
    let path = describe(folder, "second", &text);
    program(&path).args(["-q", "--seconds", "0.1"]).output().unwrap()
}

#[test]
fn block_refuses_an_image_that_another_server_has_open() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    std::fs::write(&image, vec![0; 1 << 16]).unwrap();
    for (first, second, taken) in [
        ("", "", true),
        ("", "read_only = true", true),
        ("read_only = true", "", true),
        ("read_only = true", "read_only = true", false),
    ] {
        let text = format!("unix = \"first.socket\"\nfile = \"image\"\n{first}");
        let path = describe(folder.path(), "first", &text);
        let mut program = program(&path).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("block: ready")));
        let found = serves(folder.path(), second);
        let said = String::from_utf8_lossy(&found.stderr).into_owned();
        assert_eq!(found.status.code(), Some(if taken { 2 } else { 0 }), "{said}");
        assert_eq!(said.contains("image: another server "), taken, "{said}");
        assert_eq!(said.lines().count(), usize::from(taken), "{said}");
        // It is free once its server has ended, however that ended.
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(serves(folder.path(), second).status.success());
    }
}
