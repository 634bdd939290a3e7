//! Which records a file has: ChampSim's own, or those of the CloudSuite traces.

use std::io::{self, Read};

use halfwink_inputs::{is_text, look, Family};

use super::Record;
use crate::drmemtrace::is_drmemtrace;
use crate::error::{Problem, TraceError};

/// Records that are looked at.
const LOOKED_AT: usize = 4096;
/// Of them so many of a hundred may be impossible.
const IMPOSSIBLE_PCT: usize = 1;

/// Successions that are judged, of which so many of a hundred are where code goes on.
const FEWEST: usize = 16;
const FOLLOW_PCT: usize = 20;
/// Of x86.
const LONGEST_INSTRUCTION: u64 = 15;

/// The records of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordForm {
    /// ChampSim's own (`input_instr`).
    #[default]
    Own,
    /// Of the CloudSuite traces (`cloudsuite_instr`): four results, four stores, an address space.
    Cloudsuite,
}

/// Where a record's parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) bytes: usize,
    results: usize,
    memory: usize,
}

const OWN: Layout = Layout { bytes: 64, results: 2, memory: 16 };
/// As a C compiler aligns it, and without gaps (with an address space of two bytes, or eight).
const CLOUDSUITE: [Layout; 3] = [
    Layout { bytes: 96, results: 4, memory: 24 },
    Layout { bytes: 90, results: 4, memory: 18 },
    Layout { bytes: 84, results: 4, memory: 18 },
];

impl Layout {
    /// Bytes of the longest record.
    pub(super) const LONGEST: usize = 96;

    pub(super) fn parse(self, bytes: &[u8]) -> Record {
        let word = |n: usize| {
            let mut word = [0; 8];
            let at = self.memory + 8 * n;
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let mut ip = [0; 8];
        ip.copy_from_slice(&bytes[..8]);
        let mut record = Record {
            ip: u64::from_le_bytes(ip),
            is_branch: bytes[8] != 0,
            taken: bytes[9] != 0,
            results: [0; 4],
            sources: [0; 4],
            stores: [0; 4],
            loads: [0; 4],
        };
        let sources = 10 + self.results;
        record.results[..self.results].copy_from_slice(&bytes[10..sources]);
        record.sources.copy_from_slice(&bytes[sources..sources + 4]);
        for (n, store) in record.stores[..self.results].iter_mut().enumerate() {
            *store = word(n);
        }
        for (n, load) in record.loads.iter_mut().enumerate() {
            *load = word(self.results + n);
        }
        record
    }

    /// What is impossible about a record.
    fn fault(self, bytes: &[u8]) -> Option<String> {
        // Bits from 47 on are alike in x86-64 and ARM; five-level tables are not used by programs.
        let is_canonical = |address: u64| matches!(address >> 47, 0 | 0x1_ffff);
        let record = self.parse(bytes);
        if bytes[8] > 1 || bytes[9] > 1 {
            return Some(format!("is_branch {} and taken {}, expected 0 or 1", bytes[8], bytes[9]));
        }
        if record.ip == 0 {
            return Some("an instruction at address 0".to_owned());
        }
        let mut addresses = [record.ip].into_iter().chain(record.stores).chain(record.loads);
        let wrong = addresses.find(|address| !is_canonical(*address))?;
        Some(format!("the address {wrong:#x}, which is not canonical"))
    }

    /// The first impossible record and what is wrong with it, if there are too many of these.
    fn faults(self, head: &[u8]) -> Option<(usize, String)> {
        let records = head.chunks_exact(self.bytes).take(LOOKED_AT);
        let all = records.len().max(1);
        let faults: Vec<_> =
            records.enumerate().filter_map(|(n, record)| Some((n, self.fault(record)?))).collect();
        if faults.is_empty() || 100 * faults.len() <= IMPOSSIBLE_PCT * all {
            return self.disorder(head);
        }
        faults.into_iter().next()
    }

    /// That few instructions stand behind the one before, where that is no branch: of programs
    /// nearly all do.
    fn disorder(self, head: &[u8]) -> Option<(usize, String)> {
        let records: Vec<_> = head.chunks_exact(self.bytes).take(LOOKED_AT).collect();
        let follows = |two: &&[&[u8]]| {
            let (first, second) = (self.parse(two[0]), self.parse(two[1]));
            first.is_branch || second.ip.wrapping_sub(first.ip) <= LONGEST_INSTRUCTION
        };
        let all = records.len().saturating_sub(1);
        let count = records.windows(2).filter(follows).count();
        let are_few = all >= FEWEST && 100 * count < FOLLOW_PCT * all;
        are_few.then(|| (0, format!("no successor: {count} of {all} instructions have one")))
    }

    /// Whether there is a record, and records are possible.
    fn fits(self, head: &[u8]) -> bool {
        head.len() >= self.bytes && self.faults(head).is_none()
    }
}

/// Returns the command that imports a file whose head is one of records; none if it is none.
pub(crate) fn import_of(head: &[u8]) -> Option<String> {
    let (what, option) = match head {
        _ if is_drmemtrace(head) => ("entries of drmemtrace", " --format drmemtrace"),
        _ if OWN.fits(head) => ("ChampSim's records", ""),
        _ if CLOUDSUITE.into_iter().any(|layout| layout.fits(head)) => {
            ("records of the cloudsuite form", " --format champsim-cloudsuite")
        }
        _ => return None,
    };
    Some(format!("these are {what}: `halfwink trace import{option} FILE` makes a trace of them"))
}

/// Reads the first records and chooses the layout.
///
/// # Errors
/// If records are impossible: with the form that would fit.
pub(super) fn layout(
    input: &mut impl Read,
    form: RecordForm,
) -> Result<(Layout, Vec<u8>), TraceError> {
    let mut head = Vec::new();
    let most = (LOOKED_AT * CLOUDSUITE[0].bytes) as u64;
    input.by_ref().take(most).read_to_end(&mut head).map_err(|e| unreadable(0, &e))?;
    let wrong = |at: usize, why: String| Err(TraceError::at(at as u64, Problem::Import(why)));
    if let Some(other) = look(&head, Family::Instructions) {
        return wrong(0, other.to_string());
    }
    if is_text(&head) && !OWN.fits(&head) {
        let why = "this is text and no ChampSim trace: `halfwink record -- \
                   PROGRAM` records a program itself";
        return wrong(0, why.to_owned());
    }
    if is_drmemtrace(&head) {
        return wrong(0, "these are drmemtrace entries: --format drmemtrace".to_owned());
    }
    let cloudsuite = CLOUDSUITE.into_iter().find(|layout| layout.fits(&head));
    match form {
        RecordForm::Own => match OWN.faults(&head) {
            None => Ok((OWN, head)),
            Some((n, fault)) => {
                let next = match cloudsuite {
                    Some(_) => "these are of the cloudsuite form: --format champsim-cloudsuite",
                    None => "this is no ChampSim trace",
                };
                wrong(n * OWN.bytes, format!("record {n} has {fault}; {next}"))
            }
        },
        RecordForm::Cloudsuite => match cloudsuite {
            Some(layout) => Ok((layout, head)),
            None if head.len() < CLOUDSUITE[0].bytes => Ok((CLOUDSUITE[0], head)),
            None => {
                let (n, fault) = CLOUDSUITE[0].faults(&head).unwrap_or_default();
                let next = match OWN.fits(&head) {
                    true => "these are ChampSim's own: --format champsim",
                    false => "this is no ChampSim trace",
                };
                wrong(n * CLOUDSUITE[0].bytes, format!("record {n} has {fault}; {next}"))
            }
        },
    }
}

/// An error of the file below the records.
pub(super) fn unreadable(at: u64, error: &io::Error) -> TraceError {
    TraceError::at(at, Problem::Import(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions four bytes apart, with a load each.
    fn records(layout: Layout, count: u64) -> Vec<u8> {
        let record = |n: u64| {
            let mut bytes = vec![0; layout.bytes];
            bytes[..8].copy_from_slice(&(0x40_0000 + 4 * n).to_le_bytes());
            bytes[10 + layout.results] = 7;
            let load = layout.memory + 8 * layout.results;
            bytes[load..load + 8].copy_from_slice(&(0x7f00_0000_1000 + 64 * n).to_le_bytes());
            bytes
        };
        (0..count).flat_map(record).collect()
    }

    fn refused(bytes: &[u8], form: RecordForm) -> String {
        let found = super::layout(&mut &bytes[..], form).map(|(layout, _)| layout);
        found.unwrap_err().to_string()
    }

    #[test]
    fn layouts_are_told_apart_by_what_is_possible() {
        for layout in CLOUDSUITE {
            let bytes = records(layout, 1000);
            let said = refused(&bytes, RecordForm::Own);
            assert!(said.ends_with("--format champsim-cloudsuite"), "{said}");
            let (found, _) = super::layout(&mut &bytes[..], RecordForm::Cloudsuite).unwrap();
            assert_eq!(found, layout);
            let record = found.parse(&bytes[layout.bytes..]);
            assert_eq!((record.ip, record.sources[0]), (0x40_0004, 7));
            assert_eq!((record.loads[0], record.stores), (0x7f00_0000_1040, [0; 4]));
        }
        let own = records(OWN, 1000);
        assert_eq!(super::layout(&mut &own[..], RecordForm::Own).unwrap().0, OWN);
        let said = refused(&own, RecordForm::Cloudsuite);
        assert!(said.ends_with("--format champsim"), "{said}");
    }

    #[test]
    fn other_files_are_refused() {
        let text = "a line of no format\r\n".repeat(100);
        let zeros = [0; 6400];
        for bytes in [text.as_bytes(), &zeros] {
            let said = refused(bytes, RecordForm::Own);
            assert!(said.contains("no ChampSim trace"), "{said}");
        }
    }
}
