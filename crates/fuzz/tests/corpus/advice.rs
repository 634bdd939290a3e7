//! Follows what a refusal says to do, as its reader would.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use halfwink_arrivals::log::{LogOptions, Unit};
use halfwink_inputs::Share;
use halfwink_trace::RecordForm;

use super::read::{
    blocks, counts, drmemtrace, flows, frames, instructions, read, requests, text_of, Found,
    CLOUDSUITE, VALUE,
};
use super::Entry;

/// Error of a step whose program is not installed.
pub const NO_PROGRAM: &str = "its program is not installed";

/// Text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// Follows the advice of a message; none if it names no step that a program can take.
///
/// # Errors
/// [`NO_PROGRAM`], or why the file does not load after the step either.
pub fn follow(entry: &Entry, path: &Path, said: &str) -> Option<Result<Found, String>> {
    let is_written = |command: &&str| command.contains("FILE") && command.contains(" > ");
    let command = between(said, "`", "`").filter(is_written);
    if let Some((command, _)) = command.and_then(|it| it.rsplit_once(" > ")) {
        let options = entry.column.clone().or_else(|| column_of(said));
        let options = LogOptions { time_column: options, ..LogOptions::default() };
        let family = &*entry.family;
        return shell(path, &format!("{command} > out"), "out", |path| match family {
            "requests" => requests(path, &options),
            family => read(family, path),
        });
    }
    match &*entry.family {
        "requests" => of_requests(entry, path, said),
        "blocks" => of_blocks(entry, path, said),
        "flows" => {
            let command = said.split_once("leave them out: ").map(|(_, command)| command);
            let command = command.map(|command| format!("{command} > out"));
            let rename = said
                .contains("start_us")
                .then(|| "sed '1s/start$/start_us/' FILE > out".to_owned());
            shell(path, &command.or(rename)?, "out", flows)
        }
        // Not what captures frames anew.
        "frames" => {
            let command = between(said, "`", "`").filter(|command| command.ends_with("WHOLE"));
            shell(path, command?, "WHOLE", frames)
        }
        _ if said.contains("--format champsim-cloudsuite") => {
            Some(instructions(path, RecordForm::Cloudsuite, CLOUDSUITE))
        }
        _ if said.ends_with("--format drmemtrace") => Some(drmemtrace(path)),
        _ => None,
    }
}

/// Column of times that a message names.
fn column_of(said: &str) -> Option<String> {
    between(said, "log:time-column=", ":").map(str::to_owned)
}

fn of_requests(entry: &Entry, path: &Path, said: &str) -> Option<Result<Found, String>> {
    let mut options = LogOptions::default();
    let column = column_of(said).map(|name| match &*name {
        "NAME" => entry.column.clone().expect("a column for the advice"),
        _ => name,
    });
    options.time_column.clone_from(&column);
    if said.contains("log:time-unit=ms:") {
        options.time_unit = Some(Unit::Milliseconds);
    } else if said.contains("ignore=bad-lines") {
        options.bad = Share::ALL;
    } else if said.contains("live block --advise") {
        return Some(text_of(path).and_then(|bytes| blocks(path, bytes, &[])));
    } else if said.contains("counts:FILE") {
        return Some(counts(path));
    } else if said.contains("generate --replay") {
        return Some(frames(path));
    } else if said.contains("(tar -xf)") {
        return shell(path, "tar -xf FILE", "a.log", |path| requests(path, &options));
    } else if said.contains("lz4 -d FILE") {
        return shell(path, "lz4 -dc FILE > plain", "plain", |path| requests(path, &options));
    } else if column.is_none() {
        return None;
    }
    Some(requests(path, &options))
}

fn of_blocks(entry: &Entry, path: &Path, said: &str) -> Option<Result<Found, String>> {
    let bytes = match text_of(path) {
        Ok(bytes) => bytes,
        Err(error) => return Some(Err(error)),
    };
    if let Some(words) = between(said, "`--ignore ", "`") {
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        return Some(blocks(path, bytes, &words));
    }
    if let (Some(wrong), Some(right)) =
        (between(said, "unknown option `", "`"), between(said, "did you mean `", "`"))
    {
        let text = String::from_utf8_lossy(&bytes).replace(wrong, right);
        return Some(blocks(path, text.into_bytes(), &[]));
    }
    if said.contains("=VALUE halfwink") {
        let value = entry.value.as_deref().expect("a value for the advice");
        VALUE.with_borrow_mut(|it| value.clone_into(it));
        let found = blocks(path, bytes, &[]);
        VALUE.with_borrow_mut(String::clear);
        return Some(found);
    }
    if said.contains("(time_us)") {
        let text = String::from_utf8_lossy(&bytes).replacen("time,", "time_us,", 1);
        return Some(blocks(path, text.into_bytes(), &[]));
    }
    let named = said.split_once("name that file: ").map(|(_, name)| Path::new(name));
    named.map(|name| text_of(name).and_then(|bytes| blocks(name, bytes, &[])))
}

/// Runs a command on the file in a folder of its own, and reads what it left there.
fn shell(
    path: &Path,
    command: &str,
    out: &str,
    read: impl Fn(&Path) -> Result<Found, String>,
) -> Option<Result<Found, String>> {
    let program = command.split(' ').next().unwrap_or_default();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |folder: PathBuf| folder.join(program).is_file();
    if !std::env::split_paths(&paths).any(is_there) {
        return Some(Err(NO_PROGRAM.to_owned()));
    }
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::canonicalize(path).unwrap();
    let command = command.replace("FILE", "\"$1\"");
    let words = [OsStr::new("-c"), OsStr::new(&command), OsStr::new("sh"), whole.as_os_str()];
    let mut shell = Command::new("sh");
    shell.args(words).current_dir(&folder).stdin(Stdio::null()).stderr(Stdio::null());
    // A program may end badly and leave what was asked for, such as tcpdump of a cut file.
    shell.status().unwrap();
    Some(read(&folder.path().join(out)))
}
