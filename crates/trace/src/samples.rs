//! Samples of a run: keeping those of a recording that are at one distance.
//!
//! A recorder that does not know how long a run will be begins with samples that lie close
//! together, and gives up each second one whenever there are too many. What it gave up is still in
//! its file; here the rest is written to another one.

use std::io::Write;

use crate::error::{Problem, TraceError};
use crate::event::Event;
use crate::format::{Samples, Summary, TraceFile, TraceWriter};
use crate::repeat::RepeatFold;
use crate::slice::Copier;
use crate::source::{Item, Source};

/// Code of the mark before the first instruction of a sample. Its argument is the number of
/// instructions of the run before it, less than a block more or less.
pub const SAMPLE_MARK: u32 = 5;

/// The samples that are to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Instructions of a sample, to within two blocks. The last one may be shorter, if the run
    /// ended in it; then it is left out, unless it is the only one.
    pub size: u64,
    /// Distance of samples in instructions of the run: others are left out.
    pub every: u64,
    /// Instructions of the whole run.
    pub of: u64,
    /// Level of zstd compression.
    pub level: i32,
}

/// Writes the samples of a recording that lie at one distance to `out`; returns how many they are,
/// too.
///
/// # Errors
/// If `file` is damaged or holds no such sample, or `out` cannot be written to.
pub fn keep_samples<W: Write>(
    file: &TraceFile,
    kept: Kept,
    out: W,
) -> Result<(Summary, usize, W), TraceError> {
    let wanted = wanted(file, kept)?;
    let begins: Vec<u64> = wanted
        .iter()
        .flatten()
        .scan(0, |before, &instructions| Some(std::mem::replace(before, *before + instructions)))
        .collect();
    let count = begins.len();
    if count == 0 {
        return Err(TraceError::at(file.bytes(), Problem::NoInstructions));
    }
    let mut header = file.header().clone();
    header.samples = Some(Samples { of: kept.of, every: kept.every, begins });
    let io = |e| TraceError::at(0, Problem::Io(e));
    let mut writer = TraceWriter::create(out, &header, kept.level).map_err(io)?;
    let mut copy = Copier::new(file, false);
    let (mut samples, mut open) = (wanted.iter(), false);
    // On which CPU and in which address space the recording is, and what was written of that.
    let (mut now, mut told) = ([None; 2], [None; 2]);
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    loop {
        match stream.next_item()? {
            Item::Run(_) if !open => {}
            Item::Run(id) => {
                for (now, told) in now.iter().zip(&mut told) {
                    if let Some(event) = now.filter(|_| now != told) {
                        writer.event(&event).map_err(io)?;
                    }
                    *told = *now;
                }
                copy.run(&program, id, stream.addresses(), &mut writer).map_err(io)?;
            }
            Item::Event(event @ Event::Cpu(_)) => now[0] = Some(event),
            Item::Event(event @ Event::AddressSpace(_)) => now[1] = Some(event),
            Item::Event(event) => {
                if matches!(event, Event::Mark { code: SAMPLE_MARK, .. }) {
                    open = samples.next().is_some_and(Option::is_some);
                }
                if open {
                    writer.event(&event).map_err(io)?;
                }
            }
            Item::End => break,
        }
    }
    let (summary, out) = writer.finish().map_err(io)?;
    Ok((summary, count, out))
}

/// The instructions of each sample of the recording that is kept, in their order.
fn wanted(file: &TraceFile, kept: Kept) -> Result<Vec<Option<u64>>, TraceError> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut fold = RepeatFold::default();
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    loop {
        match stream.next_item()? {
            Item::Run(id) => {
                let repeat = fold.is_repeat(&program, id);
                let executed = u64::from(program.template(id).executed) - u64::from(repeat);
                if let Some((_, instructions)) = found.last_mut() {
                    *instructions += executed;
                }
            }
            Item::Event(Event::Mark { code: SAMPLE_MARK, arg }) => found.push((arg, 0)),
            Item::Event(_) => {}
            Item::End => break,
        }
    }
    let least = if found.len() == 1 { 1 } else { kept.size - kept.size / 50 };
    let is_kept = |begin: u64, length| begin.is_multiple_of(kept.every) && length >= least;
    Ok(found.iter().map(|&(begin, n)| is_kept(begin, n).then_some(n)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDef, Code, CodeForm, Header};
    use halfwink_units::{Asid, PhysAddr, VirtAddr};

    /// Samples that begin after so many instructions of the run and have so many pairs of them, on
    /// the CPU of their number.
    fn recording(samples: &[(u64, u64)]) -> TraceFile {
        let header = Header::new("made", "made", CodeForm::Bytes);
        let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
        let block = writer
            .define_block(&BlockDef {
                pc: VirtAddr(0x1000),
                phys: PhysAddr(0x1000),
                phys_next_page: PhysAddr(0x2000),
                kernel: false,
                code: Code::Bytes { bytes: &[0x90, 0x90], lengths: &[1, 1] },
            })
            .unwrap();
        for (cpu, &(begin, pairs)) in (0..).zip(samples) {
            writer.event(&Event::Cpu(cpu)).unwrap();
            writer.event(&Event::Mark { code: SAMPLE_MARK, arg: begin }).unwrap();
            for _ in 0..pairs {
                writer.run(block, 2, &[]).unwrap();
            }
        }
        TraceFile::from_bytes(writer.finish().unwrap().1).unwrap()
    }

    fn kept(every: u64, samples: &[(u64, u64)]) -> (Samples, Vec<Event>, u64) {
        let file = recording(samples);
        let kept = Kept { size: 100, every, of: 1_000, level: 1 };
        let (summary, count, bytes) = keep_samples(&file, kept, Vec::new()).unwrap();
        let file = TraceFile::from_bytes(bytes).unwrap();
        let found = file.header().samples.clone().unwrap();
        assert_eq!(found.begins.len(), count);
        let (mut stream, mut events) = (file.stream(), Vec::new());
        loop {
            match stream.next_item().unwrap() {
                Item::Event(event) => events.push(event),
                Item::Run(_) => {}
                Item::End => break,
            }
        }
        (found, events, summary.totals.instructions)
    }

    fn mark(arg: u64) -> Event {
        Event::Mark { code: SAMPLE_MARK, arg }
    }

    #[test]
    fn samples_between_those_at_one_distance_are_left_out() {
        let all = [(0, 50), (100, 50), (200, 51), (300, 50), (400, 50)];
        let (samples, events, instructions) = kept(200, &all);
        assert_eq!(samples, Samples { of: 1_000, every: 200, begins: vec![0, 100, 202] });
        assert_eq!(instructions, 302);
        let cpu = Event::Cpu;
        let space = Event::AddressSpace(Asid(0));
        let expected = [mark(0), cpu(0), space, mark(200), cpu(2), mark(400), cpu(4)];
        assert_eq!(events[2..], expected, "behind what each chunk says of its begin");
    }

    #[test]
    fn sample_in_which_the_run_ends_is_left_out_unless_it_is_alone() {
        assert_eq!(kept(100, &[(0, 50), (100, 48)]).0.begins, [0]);
        assert_eq!(kept(100, &[(0, 50), (100, 49)]).0.begins, [0, 100]);
        assert_eq!(kept(100, &[(0, 7)]).2, 14);
    }

    #[test]
    fn recording_without_samples_is_refused() {
        let kept = Kept { size: 100, every: 100, of: 0, level: 1 };
        assert!(keep_samples(&recording(&[]), kept, Vec::new()).is_err());
    }
}
