//! One rule for programs that are run with patience, and for what they print.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::health::Unwell;

/// Bytes of a program's output that are read, at most.
const MOST_OUTPUT: u64 = 64 << 10;

/// A program that runs, and leads the group of all that it starts. Dropping it ends them, so that
/// no query outlives the one who asked.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // SAFETY: plain numbers. The group is the child's: it has not been waited for.
            unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
            let _ = self.0.wait();
        }
    }
}

/// Runs a program to its end; its standard error is that of this process.
///
/// # Errors
/// It cannot be run, does not succeed, or is not done in time.
pub async fn run(words: &[String], patience: Duration) -> Result<(), Unwell> {
    let [program, ..] = words else { return Err("no program is named".to_owned().into()) };
    let mut command = command(words);
    match wait(program, command.stdout(Stdio::null()), patience).await? {
        status if status.success() => Ok(()),
        status => Err(format!("{program}: {status}").into()),
    }
}

/// Runs a program to its end, and returns what it printed.
///
/// # Errors
/// As of [`run`], with the last line of its standard error.
pub async fn ask(words: &[String], patience: Duration) -> Result<String, Unwell> {
    let [program, ..] = words else { return Err("no program is named".to_owned().into()) };
    let file = || memory().map_err(|e| Unwell::at(program, e));
    let (mut out, mut err) = (file()?, file()?);
    let copy = |file: &File| file.try_clone().map_err(|e| Unwell::at(program, e));
    let mut command = command(words);
    // Words of states are compared, and programs translate them.
    command.env("LC_ALL", "C").stdout(copy(&out)?).stderr(copy(&err)?);
    let status = wait(program, &mut command, patience).await?;
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.take(MOST_OUTPUT).read_to_end(&mut bytes))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let said = read(&mut out).map_err(|e| Unwell::at(program, e))?;
    if status.success() {
        return Ok(said);
    }
    let errors = read(&mut err).map_err(|e| Unwell::at(program, e))?;
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let last = last.trim();
    Err(if last.is_empty() {
        format!("{program}: {status}").into()
    } else {
        format!("{program}: {status}: {last}").into()
    })
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
    command
}

/// Polls, so that no signal handler of the host program is touched.
async fn wait(
    program: &str,
    command: &mut Command,
    patience: Duration,
) -> Result<ExitStatus, Unwell> {
    let child = command.spawn().map_err(|e| Unwell::at(&program, e))?;
    let mut running = Running(child);
    let until = Instant::now() + patience;
    loop {
        match running.0.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok(None) => return Err(format!("{program}: not done in time").into()),
            Err(error) => return Err(Unwell::at(&program, error)),
        }
    }
}

/// Opens a file in memory. A pipe would have to be read while the program runs, and would stay open
/// with a program that its child leaves behind.
fn memory() -> io::Result<File> {
    // SAFETY: a name that ends with a zero, and a flag.
    let descriptor = unsafe { libc::memfd_create(c"halfwink".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for this call alone.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str], patience_ms: u64) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = runtime.block_on(ask(&words, Duration::from_millis(patience_ms)));
        done.map_err(|why| why.to_string())
    }

    #[test]
    fn program_that_takes_too_long_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("held");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        // It holds the write end until it ends: the reader then sees the end of the file.
        let held = fifo.display();
        let script = format!("(exec 3>{held}; sleep 600; true) & wait");
        let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
        assert_eq!(asked(&["sh", "-c", &script], 200).unwrap_err(), "sh: not done in time");
        assert_eq!(reader.join().unwrap(), b"");
    }

    #[test]
    fn output_is_read_and_errors_end_with_the_last_line_of_the_program() {
        assert_eq!(
            asked(&["sh", "-c", "echo on; echo no >&2; echo $LC_ALL"], 60_000).unwrap(),
            "on\nC\n"
        );
        let error = asked(&["sh", "-c", "echo a >&2; echo 'b c' >&2; echo >&2; exit 3"], 60_000);
        assert_eq!(error.unwrap_err(), "sh: exit status: 3: b c");
        assert_eq!(asked(&["false"], 60_000).unwrap_err(), "false: exit status: 1");
        assert_eq!(asked(&["sleep", "600"], 20).unwrap_err(), "sleep: not done in time");
        // More than a pipe holds.
        let long = asked(&["sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x"], 60_000).unwrap();
        assert_eq!(long.len() as u64, MOST_OUTPUT);
    }
}
