//! The memory that programs and threads side by side share.

use halfwink_techniques::Choice;

use super::adapt::Joint;
use super::io_path;
use super::workload::{Part, Workload, WorkloadKind};
use crate::error::StudyError;

/// The memory that programs side by side share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Each has a memory of its own.
    Apart,
    /// All: they are CPUs of one recorded machine, or threads of one recorded program.
    One,
    /// Copies of a recording: what none of them ever writes.
    SharedText,
}

impl Memory {
    pub(super) const WORDS: &[&str] = &["apart", "one", "shared-text"];

    /// Reads the world's option for a workload.
    ///
    /// # Errors
    /// If its parts cannot share that, or its threads cannot run under the technique.
    pub(super) fn of(
        word: &str,
        workload: &Workload,
        (choice, joint): (&Choice, &Joint),
    ) -> Result<Memory, StudyError> {
        let by_threads = |part: &Part| matches!(part.kind, WorkloadKind::Threads(..));
        let name = &workload.name;
        if workload.parts.iter().any(by_threads) {
            if word == "shared-text" {
                let message = format!("memory=shared-text: `{name}`: threads share all memory");
                return Err(StudyError::Usage(message));
            }
            // A thread on a core for the kernel would not be seen by those that wait for it.
            if joint.offload().is_some() {
                return Err(StudyError::Usage(format!(
                    "workload `{name}`: technique `{choice}` moves threads to cores for the \
                     kernel; expected one that leaves each thread on its core"
                )));
            }
            return Ok(Memory::One);
        }
        match word {
            "one" => {
                io_path::of_one_run(workload)?;
                Ok(Memory::One)
            }
            "shared-text" => {
                workload.check_copies()?;
                Ok(Memory::SharedText)
            }
            _ => Ok(Memory::Apart),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use halfwink_engine::RunControl;
    use halfwink_trace::{
        Address, BlockDef, Code, CodeForm, Event, Header, RawAccess, Samples, TraceWriter,
    };
    use halfwink_units::{PhysAddr, VirtAddr};

    use crate::job::Job;
    use crate::logs::Logs;
    use crate::shipped::library;
    use crate::table::Value;
    use crate::world::Tables;

    /// Writes a recording of so many threads, each of which adds 40 times to one counter, in turns.
    fn recording(path: &Path, threads: u16, header: &Header) {
        let mut writer = TraceWriter::create(Vec::new(), header, 1).unwrap();
        let code = match header.code {
            CodeForm::Bytes => Code::Bytes { bytes: &[0xf0, 0xff, 0x07], lengths: &[3] },
            CodeForm::Decoded => Code::Decoded(&[halfwink_trace::Instr::nop(0, 3)]),
        };
        let place = BlockDef {
            pc: VirtAddr(0x1000),
            phys: PhysAddr(0x1000),
            phys_next_page: PhysAddr(0x2000),
            kernel: false,
            code,
        };
        let block = writer.define_block(&place).unwrap();
        let address = Address { virt: VirtAddr(0x8000), phys: PhysAddr(0x8000) };
        let accesses = [false, true].map(|write| RawAccess { instr: 0, size: 4, write, address });
        for turn in 0..40 * threads {
            writer.event(&Event::Cpu(7 + turn % threads)).unwrap();
            writer.run(block, 1, &accesses).unwrap();
        }
        fs::write(path, writer.finish().unwrap().1).unwrap();
    }

    fn header(code: CodeForm) -> Header {
        Header::new("made", "made", code)
    }

    fn job(workload: &str, machine: &str, technique: &str, memory: &str) -> Job {
        Job {
            world: "chip".into(),
            workload: workload.into(),
            machine: machine.into(),
            technique: technique.into(),
            set: Vec::new(),
            options: vec![("memory".into(), memory.into())],
        }
    }

    fn played(workload: &str, technique: &str) -> Tables {
        let job = job(workload, "ev6-4", technique, "apart").prepare(&library()).unwrap();
        job.prepared.run(&RunControl::new(), &Logs::default()).unwrap()
    }

    fn integer(tables: &Tables, column: &str) -> i64 {
        match tables[0].1.get(0, column) {
            Some(Value::Integer(value)) => *value,
            other => panic!("{column}: {other:?}"),
        }
    }

    /// The user's count of a counter of the third level.
    fn of_l3(tables: &Tables, counter: &str) -> i64 {
        let (_, table) = tables.iter().find(|(name, _)| *name == "counters").unwrap();
        let is_it = |&row: &usize| {
            let text = |column| match table.get(row, column) {
                Some(Value::Text(text)) => text.clone(),
                _ => String::new(),
            };
            text("component") == "l3" && text("counter") == counter
        };
        let row = (0..table.len()).find(is_it).unwrap();
        match table.get(row, "user") {
            Some(Value::Integer(count)) => *count,
            other => panic!("{counter}: {other:?}"),
        }
    }

    #[test]
    fn threads_of_a_recording_play_on_cores_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.hwt");
        recording(&file, 3, &header(CodeForm::Bytes));
        let own = file.to_str().unwrap();
        let alone = played(own, "tap");
        let threads = played(&format!("{own}:threads=cores"), "tap");
        assert_eq!([&alone, &threads].map(|t| integer(t, "instructions")), [120, 120]);
        assert_eq!([&alone, &threads].map(|t| integer(t, "working_cores")), [1, 3]);
        // Each addition needs the line of the thread before.
        assert_eq!([&alone, &threads].map(|t| of_l3(t, "transfers")), [0, 119]);
    }

    #[test]
    fn recording_of_one_thread_plays_as_ever() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.hwt");
        recording(&file, 1, &header(CodeForm::Bytes));
        let own = file.to_str().unwrap();
        let (alone, threads) = (played(own, "tap"), played(&format!("{own}:threads=cores"), "tap"));
        assert_eq!(alone, threads);
    }

    #[test]
    fn what_cannot_play_by_threads_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, threads, header: &Header| {
            let file = folder.path().join(name);
            recording(&file, threads, header);
            file.to_str().unwrap().to_owned()
        };
        let own = write("own.hwt", 3, &header(CodeForm::Bytes));
        let many = write("many.hwt", 65, &header(CodeForm::Bytes));
        let decoded = write("decoded.hwt", 3, &header(CodeForm::Decoded));
        let samples = Samples { of: 9_000, every: 3_000, begins: vec![0, 40] };
        let samples = Header { samples: Some(samples), ..header(CodeForm::Bytes) };
        let samples = write("samples.hwt", 3, &samples);
        for (workload, machine, technique, memory, said) in [
            (format!("{own}:threads=cores"), "ev6-2", "tap", "apart", "needs 3 cores"),
            (format!("{own}:threads=all"), "ev6-4", "tap", "apart", "expected `threads=cores`"),
            (format!("{own}:threads=cores*2"), "ev6-8", "tap", "apart", "run once and alone"),
            (format!("{own}:threads=cores+gcc"), "ev6-8", "tap", "apart", "run once and alone"),
            (format!("{own}:threads=cores"), "ev6-4", "os-always", "apart", "on its core"),
            (format!("{own}:threads=cores"), "ev6-4", "tap", "shared-text", "share all memory"),
            (format!("{many}:threads=cores"), "ev6-64", "tap", "apart", "65 threads, expected at"),
            (format!("{decoded}:threads=cores"), "ev6-4", "tap", "apart", "without the bytes"),
            (format!("{samples}:threads=cores"), "ev6-4", "tap", "apart", "2 samples do not"),
            ("chase:threads=cores".to_owned(), "ev6-4", "tap", "apart", "workload setting"),
        ] {
            let error = match job(&workload, machine, technique, memory).prepare(&library()) {
                Ok(_) => panic!("{workload} {machine} {technique} {memory}: no error"),
                Err(error) => error.to_string(),
            };
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn more_threads_than_cores_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.hwt");
        recording(&file, 5, &header(CodeForm::Bytes));
        let name = format!("{}:threads=cores", file.display());
        let mut job = job(&name, "ev6-2", "tap", "apart");
        job.set.push(("os.time_slice_us".into(), "100".into()));
        let prepared = job.prepare(&library()).unwrap().prepared;
        let tables = prepared.run(&RunControl::new(), &Logs::default()).unwrap();
        assert_eq!(["working_cores", "instructions"].map(|c| integer(&tables, c)), [2, 200]);
    }
}
