// SPDX-License-Identifier: GPL-2.0-or-later
//! What the plugin tells the program that started QEMU: lines of JSON on standard error.

use std::io::Write;

use halfwink_trace::Summary;
use serde_json::{json, Value};

use crate::clock::ClockReport;

/// Every line starts with this.
const PREFIX: &str = "@halfwink ";

fn say(value: &Value) {
    // If nobody listens, there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{PREFIX}{value}");
}

/// Reports that the recording begins.
pub fn started() {
    say(&json!({ "started": true }));
}

/// Reports the number of recorded instructions.
pub fn progress(instructions: u64) {
    say(&json!({ "recorded": instructions }));
}

/// Recording cannot go on.
pub fn error(message: &str) {
    say(&json!({ "error": message }));
}

/// Quality of the recording.
#[derive(Clone, Debug, Default)]
pub struct RecorderReport {
    /// Continuations that the code before does not explain.
    pub unexplained: u64,
    /// Some of them, as `from -> to`.
    pub examples: Vec<String>,
    /// Instructions that other CPUs executed.
    pub other_instructions: u64,
    /// Times that could not be completed by a reading of the guest's clock.
    pub guessed_times: u64,
    /// Executions that ended early.
    pub partial_runs: u64,
    /// Virtual time at the first and the last recorded instruction, in ns.
    pub time_ns: (u64, u64),
    /// Reason of the recording's end.
    pub reason: &'static str,
    /// Host seconds between the first and the last recorded instruction.
    pub seconds: f64,
}

/// The trace is complete; the program's exit status, as shells count it, if that ended it.
pub fn done(
    summary: &Summary,
    recorder: &RecorderReport,
    clock: &ClockReport,
    exit_status: Option<u64>,
) {
    let totals = &summary.totals;
    say(&json!({ "done": {
        "reason": recorder.reason,
        "exit_status": exit_status,
        "bytes": summary.bytes,
        "instructions": totals.instructions,
        "kernel_instructions": totals.kernel_instructions,
        "repeats": totals.repeats,
        "runs": totals.runs,
        "accesses": totals.accesses,
        "requests": totals.requests,
        "idle_ns": totals.idle_ns,
        "events": totals.events,
        "seconds": recorder.seconds,
        "from_ns": recorder.time_ns.0,
        "to_ns": recorder.time_ns.1,
        "unexplained": recorder.unexplained,
        "unexplained_examples": recorder.examples,
        "partial_runs": recorder.partial_runs,
        "other_instructions": recorder.other_instructions,
        "guessed_times": recorder.guessed_times,
        "clock": {
            "readings": clock.readings,
            "surprises": clock.surprises,
            "worst_ns": clock.worst_ns,
            "jumps": clock.jumps,
            "jumped_ns": clock.jumped_ns,
            "stolen_ns": clock.stolen_ns,
        },
    }}));
}
