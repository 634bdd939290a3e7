//! Entries of a file, one by one, and what its head says.

use std::io::{BufReader, Read};

use super::{file_type, kind, marker, Entry, ENTRY_BYTES, FORMAT_VERSION};
use crate::error::{Problem, TraceError};
use crate::fill::fill;

/// Entries before the first instruction, at most.
const LONGEST_HEAD: usize = 4096;

/// Returns whether these bytes begin as the final form does.
pub(crate) fn is_drmemtrace(head: &[u8]) -> bool {
    let (entries, _) = head.as_chunks::<ENTRY_BYTES>();
    let Some([first, second]) = entries.get(..2) else { return false };
    let (first, second) = (Entry::parse(first), Entry::parse(second));
    let is_header = first.kind == kind::HEADER && first.value < 1 << 16;
    is_header && matches!(second.kind, kind::MARKER | kind::THREAD)
}

/// Reads entries one by one, however they are packed.
pub(super) struct Entries<R> {
    input: BufReader<R>,
    /// Entries that are read once more, before the rest.
    again: std::vec::IntoIter<Entry>,
    /// Bytes before the next entry.
    pub(super) at: u64,
}

impl<R: Read> Entries<R> {
    pub(super) fn new(input: R) -> Entries<R> {
        let again = Vec::new().into_iter();
        Entries { input: BufReader::with_capacity(1 << 16, input), again, at: 0 }
    }

    /// Goes back to the beginning, given all entries that were read.
    fn rewind(&mut self, entries: Vec<Entry>) {
        self.at = 0;
        self.again = entries.into_iter();
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>, TraceError> {
        let mut next = self.again.next();
        if next.is_none() {
            let mut bytes = [0; ENTRY_BYTES];
            next = match fill(&mut self.input, &mut bytes) {
                Ok(0) => None,
                Ok(ENTRY_BYTES) => Some(Entry::parse(&bytes)),
                Ok(_) => {
                    let why = format!("the trace ends inside an entry of {ENTRY_BYTES} bytes");
                    return Err(TraceError::at(self.at, Problem::Import(why)));
                }
                Err(e) => return Err(TraceError::at(self.at, Problem::Io(e))),
            };
        }
        self.at += next.map_or(0, |_| ENTRY_BYTES as u64);
        Ok(next)
    }
}

/// Tells what instructions of a file say beside their address, length and effect on the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encodings {
    /// No more than that.
    Absent,
    /// Machine code of x86-64.
    X86,
    /// Registers and categories (`DR_ISA_REGDEPS`).
    Registers,
}

/// What the entries before the first instruction say.
pub(super) struct Head {
    pub(super) version: u64,
    pub(super) encodings: Encodings,
}

impl Head {
    /// Reads ahead, and goes back to the beginning.
    pub(super) fn read<R: Read>(from: &mut Entries<R>) -> Result<Head, TraceError> {
        let wrong = |at, why: String| Err(TraceError::at(at, Problem::Import(why)));
        let mut entries = Vec::new();
        let (mut version, mut found) = (0, None);
        while let Some(entry) = from.next()? {
            let at = from.at - ENTRY_BYTES as u64;
            match (entry.kind, entry.size) {
                (kind::HEADER, _) if entries.is_empty() => version = entry.value,
                _ if entries.is_empty() => {
                    let why = format!(
                        "begins with an entry of type {}, expected a drmemtrace header (type {}); \
                         raw traces are made final by drraw2trace",
                        entry.kind,
                        kind::HEADER
                    );
                    return wrong(at, why);
                }
                (kind::MARKER, marker::VERSION) => version = entry.value,
                (kind::MARKER, marker::FILETYPE) => {
                    // Parts of some writers repeat it, without what only the first one knows.
                    found.get_or_insert(entry.value);
                }
                _ => {}
            }
            if version > FORMAT_VERSION {
                let why =
                    format!("drmemtrace version {version}, expected at most {FORMAT_VERSION}");
                return wrong(at, why);
            }
            let is_head = matches!(
                entry.kind,
                kind::HEADER | kind::THREAD | kind::PID | kind::MARKER | kind::THREAD_EXIT
            );
            entries.push(entry);
            if !is_head || entries.len() == LONGEST_HEAD {
                break;
            }
        }
        // Traces before version 2 say nothing; public ones of these are of x86-64.
        match encodings(found.unwrap_or(file_type::X86_64)) {
            Ok(encodings) => {
                from.rewind(entries);
                Ok(Head { version, encodings })
            }
            Err(why) => wrong(0, why.to_owned()),
        }
    }
}

fn encodings(found: u64) -> Result<Encodings, &'static str> {
    let is = |bits: u64| found & bits != 0;
    if is(file_type::FILTERED | file_type::IFILTERED | file_type::DFILTERED)
        || is(file_type::BIMODAL_FILTERED_WARMUP)
    {
        return Err("the trace was filtered by a cache: it lacks most instructions or accesses");
    }
    if is(file_type::AARCH64 | file_type::ARM32 | file_type::X86_32) {
        return Err("the trace is of another architecture, expected x86-64 or REGDEPS");
    }
    Ok(match (is(file_type::ENCODINGS), is(file_type::REGDEPS)) {
        (false, _) => Encodings::Absent,
        (true, true) => Encodings::Registers,
        (true, false) => Encodings::X86,
    })
}
