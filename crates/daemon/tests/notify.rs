//! What a program tells the service manager that runs it.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A service manager, and a proxy that it has started.
struct Bed {
    folder: tempfile::TempDir,
    manager: UnixDatagram,
    proxy: Child,
}

const DESCRIPTION: &str = "schema = 1\nlisten = \"127.0.0.1:0\"\n\
     [health]\ninterval_ms = 0\n\
     [small]\naddress = \"127.0.0.1:1\"\n\
     [big]\naddress = \"127.0.0.1:2\"\n";

impl Bed {
    fn start(watchdog: &[(&str, &str)]) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let config = folder.path().join("steer.toml");
        std::fs::write(&config, DESCRIPTION).unwrap();
        let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let proxy = Command::new(env!("CARGO_BIN_EXE_halfwink-steer"))
            .arg("--config")
            .arg(&config)
            .args(["--library", library, "-q"])
            .env("NOTIFY_SOCKET", &socket)
            .env_remove("WATCHDOG_PID")
            .envs(watchdog.iter().copied())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Bed { folder, manager, proxy }
    }

    /// The next message that is no sign of life.
    fn next(&self) -> String {
        loop {
            let mut bytes = [0; 4096];
            let count = self.manager.recv(&mut bytes).unwrap();
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if text != "WATCHDOG=1" {
                return text;
            }
        }
    }

    fn kill(&self, signal: &str) {
        // The shell's own: a bare Debian has no such program.
        let line = format!("kill {signal} {}", self.proxy.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

#[test]
fn a_manager_hears_of_the_start_a_reload_and_the_end() {
    let mut bed = Bed::start(&[]);
    let ready = bed.next();
    assert!(ready.starts_with("READY=1\nSTATUS=listening at 127.0.0.1:"), "{ready}");
    std::fs::write(bed.folder.path().join("steer.toml"), format!("{DESCRIPTION}workers = 9\n"))
        .unwrap();
    bed.kill("-HUP");
    assert_eq!(bed.next(), "RELOADING=1");
    let ready = bed.next();
    assert!(ready.starts_with("READY=1\nSTATUS=read ") && ready.ends_with(" changed"), "{ready}");
    bed.kill("-TERM");
    assert_eq!(bed.next(), "STOPPING=1");
    assert!(bed.proxy.wait().unwrap().success());
}

#[test]
fn a_manager_with_a_watchdog_gets_signs_of_life() {
    let bed = Bed::start(&[("WATCHDOG_USEC", "200000")]);
    assert!(bed.next().starts_with("READY=1"));
    for _ in 0..3 {
        let mut bytes = [0; 64];
        let count = bed.manager.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"WATCHDOG=1");
    }
}

#[test]
fn a_watchdog_of_another_process_is_left_alone() {
    let mut bed = Bed::start(&[("WATCHDOG_USEC", "200000"), ("WATCHDOG_PID", "1")]);
    assert!(bed.next().starts_with("READY=1"));
    bed.manager.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(bed.manager.recv(&mut [0; 64]).is_err());
    assert!(bed.proxy.try_wait().unwrap().is_none());
}
