//! Recording a stretch of a program on this machine: single steps, registers, addresses.
//!
//! The stretch lies between two marks that the program executes: no-operations with a code in their
//! displacement, as recordings in the emulator know them. Up to the first mark the program runs at
//! full speed.
//!
//! What is recorded is what this processor executes, by this binary: the same that is timed. The
//! kernel is not in it, and physical addresses are the virtual ones, as if all memory lay in one
//! piece. Lines that the stretch uses come along as its warm set: a stretch that is repeated finds
//! the caches as it left them.

mod blocks;
mod trace;

use std::io;
use std::path::Path;

use blocks::Blocks;
use halfwink_trace::{Code, CodeForm, Event, Header, TraceWriter};
use halfwink_units::Asid;
pub use trace::{Registers, Stepper};

/// Mark at which a recording begins, and ends: the low byte of the displacement.
const BEGIN: u8 = 1;
/// Mark at which a recording ends.
const END: u8 = 2;

/// Reason why a program could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordFault {
    /// The program cannot be started or stepped.
    #[error("{program}: {what}: {error}")]
    Program {
        /// Path of the program.
        program: String,
        /// Operation that failed.
        what: &'static str,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The program has no such marks.
    #[error("{0}: no {1} mark in its code (workloads/programs/mark.h)")]
    NoMark(String, &'static str),
    /// The program ended before the second mark.
    #[error("{0}: it ended ({1}) before its {2} mark was executed")]
    Ended(String, String, &'static str),
    /// The stretch is too long.
    #[error("{0}: more than {1} instructions between its marks")]
    TooLong(String, u64),
    /// The recording cannot be written.
    #[error("{0}: {1}")]
    File(String, io::Error),
}

/// Size of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Recorded {
    /// Instructions between the marks.
    pub instructions: u64,
    /// Number of their memory accesses.
    pub accesses: u64,
    /// Lines that they used.
    pub lines: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// Records what a command executes from its first begin mark to the end mark behind it.
///
/// # Errors
/// If it cannot be stepped, has no such marks, or there are more than `most` instructions between
/// them.
pub fn record(
    workload: &str,
    command: &[String],
    out: &Path,
    most: u64,
) -> Result<Recorded, RecordFault> {
    let program = command.first().cloned().unwrap_or_default();
    let mut stepper = Stepper::start(command)?;
    let begin = stepper.marks(BEGIN)?;
    let end = stepper.marks(END)?;
    if begin.is_empty() || end.is_empty() {
        let which = if begin.is_empty() { "begin" } else { "end" };
        return Err(RecordFault::NoMark(program, which));
    }
    stepper.run_to(&begin)?;
    let mut blocks = Blocks::default();
    loop {
        let registers = stepper.registers()?;
        if end.contains(&registers.rip()) {
            break;
        }
        if blocks.instructions() >= most {
            return Err(RecordFault::TooLong(program, most));
        }
        blocks.execute(&registers, |at, bytes| stepper.read(at, bytes));
        stepper.step()?;
    }
    stepper.end();
    blocks.close();
    write(workload, command, out, blocks)
        .map_err(|e| RecordFault::File(out.display().to_string(), e))
}

fn write(workload: &str, command: &[String], out: &Path, blocks: Blocks) -> io::Result<Recorded> {
    let what =
        "a stretch of a program, stepped on the machine that it was timed on: user mode only";
    let mut header = Header::new(workload, what, CodeForm::Bytes);
    header.command = command.to_vec();
    header.tools.insert("halfwink-live-calibrate".into(), env!("CARGO_PKG_VERSION").into());
    header.notes.push(
        "physical addresses are the virtual ones; the warm set is what the stretch itself uses"
            .into(),
    );
    let file = io::BufWriter::new(std::fs::File::create(out)?);
    let mut writer = TraceWriter::create(file, &header, LEVEL)?;
    let (warm, lines) = blocks.warm_set();
    writer.warm(&warm)?;
    writer.event(&Event::Cpu(0))?;
    writer.event(&Event::AddressSpace(Asid(1)))?;
    let mut ids = Vec::new();
    for block in blocks.blocks() {
        let code = Code::Bytes { bytes: &block.bytes, lengths: &block.lengths };
        ids.push(writer.define_block(&block.definition(code))?);
    }
    for (block, executed, accesses) in blocks.runs() {
        writer.run(ids[block], executed, accesses)?;
    }
    let (summary, _) = writer.finish()?;
    Ok(Recorded {
        instructions: summary.totals.instructions,
        accesses: summary.totals.accesses,
        lines,
        bytes: summary.bytes,
    })
}

/// zstd level: files to keep for a while.
const LEVEL: i32 = 6;
