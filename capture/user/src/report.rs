// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages of the plugin to the program that started QEMU: lines of JSON at the end of a file.
//!
//! The file is opened for each line: the program may close any descriptor that it has not opened.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use halfwink_trace::Summary;
use serde_json::{json, Value};

fn say(path: &Path, value: &Value) {
    // A message that cannot be written has no other way out: the program owns standard error.
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(format!("{value}\n").as_bytes());
    }
}

/// Reports the number of recorded instructions.
pub fn progress(path: &Path, instructions: u64) {
    say(path, &json!({ "recorded": instructions }));
}

/// Recording cannot go on.
pub fn error(path: &Path, message: &str) {
    say(path, &json!({ "error": message }));
}

/// The program becomes another one, which is recorded in its place.
pub fn became(path: &Path, program: &str) {
    say(path, &json!({ "became": program }));
}

/// Counts of a recording beside those of its trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Instructions that the program executed, up to the end of the window.
    pub executed: u64,
    /// Threads that were started, the first included.
    pub threads: u64,
    /// Processes that were started and not recorded.
    pub processes: u64,
    /// Continuations that the code before does not explain: deliveries of signals.
    pub signals: u64,
    /// System calls in the window.
    pub system_calls: u64,
    /// Turns that a thread took from one that did not go on.
    pub taken: u64,
}

/// The trace is complete; or nothing was recorded, and there is none. Of samples, each that begins
/// at a multiple of `every` of their size belongs to those that were kept.
pub fn done(
    path: &Path,
    reason: &str,
    seconds: f64,
    counts: &Counts,
    every: u64,
    summary: Option<&Summary>,
) {
    let totals = summary.map(|summary| summary.totals.clone()).unwrap_or_default();
    say(
        path,
        &json!({ "done": {
            "reason": reason,
            "seconds": seconds,
            "instructions": totals.instructions,
            "repeats": totals.repeats,
            "accesses": totals.accesses,
            "bytes": summary.map_or(0, |summary| summary.bytes),
            "executed": counts.executed,
            "threads": counts.threads,
            "processes": counts.processes,
            "signals": counts.signals,
            "system_calls": counts.system_calls,
            "taken_turns": counts.taken,
            "every": every,
        }}),
    );
}
