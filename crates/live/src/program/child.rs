//! A command that a live program starts: its end, its exit status, and signals for it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::sys::{self, CpuSet};

/// A running command, or one that has ended.
#[derive(Debug)]
pub struct Child {
    /// Descriptor of the process. Its number may be another's once the process has been waited for.
    handle: OwnedFd,
    child: Mutex<process::Child>,
}

impl Child {
    /// Starts a command, with the default actions of signals that Python ignores. `cpus`: the CPUs
    /// that it may use, if not all; `die_with_us`: it is killed when this thread ends.
    ///
    /// # Errors
    /// The command cannot be executed, or the kernel has no descriptors of processes (before 5.3).
    pub fn start(
        mut command: Command,
        cpus: Option<CpuSet>,
        die_with_us: bool,
    ) -> io::Result<Child> {
        let prepare = move || {
            // SAFETY: plain numbers.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
            if die_with_us {
                sys::die_with_parent();
            }
            let pinned = cpus.map_or(Ok(()), |cpus| cpus.pin());
            pinned.map_err(|number| io::Error::from_raw_os_error(number as i32))
        };
        // SAFETY: the closure makes three system calls on values of its own, which is safe between
        // fork and exec.
        let mut child = unsafe { command.pre_exec(prepare) }.spawn()?;
        // SAFETY: plain numbers. The child has not been waited for, so the number is its own.
        let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
        if handle < 0 {
            let error = io::Error::last_os_error();
            // It has only begun, and nothing could pass signals on to it.
            let _ = child.kill().and_then(|()| child.wait());
            return Err(error);
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let handle = unsafe { OwnedFd::from_raw_fd(handle as i32) };
        Ok(Child { handle, child: Mutex::new(child) })
    }

    /// Passes a signal on, unless the command has ended. SIGINT and SIGQUIT of a terminal are not
    /// passed on: the terminal sends them to the command itself.
    pub fn signal(&self, number: i32) {
        if !(matches!(number, libc::SIGINT | libc::SIGQUIT) && is_in_foreground()) {
            self.send(number);
        }
    }

    fn send(&self, number: i32) {
        let handle = self.handle.as_raw_fd();
        let information = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: an open descriptor, plain numbers, and a null pointer, which the call allows.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, number, information, 0) };
    }

    /// Returns the exit status, or `None` while the command runs: 128 and the signal's number if a
    /// signal ended it.
    #[must_use]
    pub fn status(&self) -> Option<u8> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // An error would mean that another part of this process has waited for the child.
        child.try_wait().map_or(Some(u8::MAX), |status| status.map(number))
    }

    /// Waits for the end, at most so long, and returns the exit status if the command has ended. A
    /// signal to this thread ends the wait early.
    #[must_use]
    pub fn wait(&self, most: Duration) -> Option<u8> {
        let mut set =
            libc::pollfd { fd: self.handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one structure of ours.
        unsafe { libc::poll(&raw mut set, 1, most) };
        self.status()
    }

    /// Ends the command by SIGTERM, and by SIGKILL if it has not ended after `patience`.
    pub fn stop(&self, patience: Duration) {
        let until = std::time::Instant::now() + patience;
        let mut asked = false;
        while self.status().is_none() {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if !asked || left.is_zero() {
                self.send(if asked { libc::SIGKILL } else { libc::SIGTERM });
            }
            asked = true;
            // After SIGKILL the kernel takes its own time.
            let _ = self.wait(if left.is_zero() { patience } else { left });
        }
    }
}

/// Returns whether a program is there and may be run: a path, or a name that is looked for in PATH.
#[must_use]
pub fn can_run(program: impl AsRef<OsStr>) -> bool {
    let program = program.as_ref();
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.as_encoded_bytes().contains(&b'/') {
        return is_program(Path::new(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_program(&folder.join(program)))
}

fn number(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    number.map_or(u8::MAX, |number| number as u8)
}

/// Returns whether this process is in the foreground of its terminal.
fn is_in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|terminal| {
        // SAFETY: an open descriptor; the calls take plain numbers.
        unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    const LONG: Duration = Duration::from_secs(600);

    /// Starts a shell, and waits until it has printed a line.
    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let child = Child::start(command, None, false).unwrap();
        let out = child.child.lock().unwrap().stdout.take().unwrap();
        BufReader::new(out).read_line(&mut String::new()).unwrap();
        child
    }

    #[test]
    fn programs_are_found_where_they_are_named_or_in_the_path() {
        assert!(can_run("sh") && can_run("/bin/sh"));
        assert!(!can_run("no-such-program") && !can_run("/no/such"));
        // A folder, and a file that nobody may run.
        assert!(!can_run("/etc") && !can_run("/etc/passwd"));
    }

    #[test]
    fn command_ends_with_its_status_or_with_that_of_its_signal() {
        for (script, status) in [("echo; exit 7", 7), ("echo; kill -9 $$", 137)] {
            assert_eq!(shell(script).wait(LONG), Some(status), "{script}");
        }
        assert!(Child::start(Command::new("/no/such/program"), None, false).is_err());
    }

    #[test]
    fn signal_is_passed_on_while_the_command_runs() {
        let child = shell("trap 'exit 9' TERM; echo; while :; do sleep 0.01; done");
        assert_eq!(child.wait(Duration::ZERO), None);
        child.signal(libc::SIGTERM);
        assert_eq!(child.wait(LONG), Some(9));
        child.signal(libc::SIGTERM);
        assert_eq!(child.status(), Some(9));
    }

    #[test]
    fn command_that_ignores_sigterm_is_killed() {
        let child = shell("trap '' TERM; echo; while :; do sleep 0.01; done");
        child.stop(Duration::from_millis(50));
        assert_eq!(child.status(), Some(137));
    }
}
