//! Reading a trace.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use halfwink_inputs::{look, Family};
use halfwink_units::Asid;
use xxhash_rust::xxh3::xxh3_64;

use super::chunk::{Columns, Decoded, Decoder};
use super::dictionary::DictionaryDecoder;
use super::header::{Footer, Header, SectionInfo, SectionKindName};
use super::read_at::{ReadAt, WholeFile};
use super::section::{read_exact, read_section, SectionKind};
use super::warm::WarmSet;
use super::{END_MAGIC, MAGIC, VERSION};
use crate::champsim::import_of;
use crate::error::{corrupt, Problem, TraceError};
use crate::event::Event;
use crate::program::Program;
use crate::source::{Address, Item, Source};

/// Bytes that tell what another file is.
const LOOKED_AT: u64 = 1 << 14;

/// An open trace: its provenance, index and static tables.
pub struct TraceFile {
    path: Option<PathBuf>,
    file: Arc<dyn ReadAt>,
    header: Header,
    footer: Footer,
    program: Arc<Program>,
    code: Vec<Vec<u8>>,
    in_memory: Arc<InMemory>,
}

impl std::fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl TraceFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it is not a complete, undamaged trace of a version that this crate reads. Chunks are
    /// checked when they are read.
    pub fn open(path: &Path) -> Result<TraceFile, TraceError> {
        let open = || -> io::Result<WholeFile> {
            let file = halfwink_inputs::open_regular(path)?;
            let size = file.metadata()?.len();
            Ok(WholeFile { file, size })
        };
        let mut opened = open()
            .map_err(|e| TraceError::at(0, Problem::Io(e)))
            .and_then(|file| TraceFile::read(Arc::new(file)))
            .map_err(|e| e.in_file(path))?;
        opened.path = Some(path.to_owned());
        Ok(opened)
    }

    /// Opens a trace that is in memory.
    ///
    /// # Errors
    /// As [`TraceFile::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<TraceFile, TraceError> {
        TraceFile::read(Arc::new(bytes))
    }

    fn read(file: Arc<dyn ReadAt>) -> Result<TraceFile, TraceError> {
        let header = read_header(&*file)?;
        let footer = read_footer(&*file)?;
        // All dictionaries at once, though a chunk needs only those before it: streams share one
        // program, which never changes under them.
        let mut program = Program::default();
        let mut dictionary = DictionaryDecoder::new(header.code);
        for section in &footer.sections {
            if section.kind == SectionKindName::Dictionary {
                let body = body_of(&*file, section, SectionKind::Dictionary)?;
                dictionary.decode(&body, section.offset, &mut program)?;
            }
        }
        let (program, code) = (Arc::new(program), dictionary.bytes);
        let in_memory = Arc::default();
        Ok(TraceFile { path: None, file, header, footer, program, code, in_memory })
    }

    /// Returns origin and form of the trace.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns index and counts.
    #[must_use]
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.file.size()
    }

    /// Returns the static tables.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Instruction bytes of each block; empty if the file holds decoded records.
    #[must_use]
    pub fn code(&self) -> &[Vec<u8>] {
        &self.code
    }

    /// Returns the path of the file, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Cache lines in use before the first instruction; empty if the file does not tell.
    ///
    /// # Errors
    /// If the section is damaged.
    pub fn warm(&self) -> Result<WarmSet, TraceError> {
        let section = self.footer.sections.iter().find(|s| s.kind == SectionKindName::Warm);
        match section {
            None => Ok(WarmSet::default()),
            Some(section) => body_of(&*self.file, section, SectionKind::Warm)
                .and_then(|body| WarmSet::decode(&body, section.offset))
                .map_err(|e| self.named(e)),
        }
    }

    /// All items from the first instruction on.
    #[must_use]
    pub fn stream(&self) -> Stream {
        let chunks: Vec<SectionInfo> =
            self.footer.sections.iter().filter(|s| s.chunk.is_some()).copied().collect();
        Stream {
            path: self.path.clone(),
            file: Arc::clone(&self.file),
            program: Arc::clone(&self.program),
            decoder: Decoder::new(self.header.direct_map),
            in_memory: Arc::clone(&self.in_memory),
            present: None,
            chunks,
            next_chunk: 0,
            phase: Phase::Between,
            state: None,
            pending: [None; 2],
            addresses: Vec::new(),
        }
    }

    /// All items from the chunk on that holds instruction number `instruction`. The stream starts
    /// at the head of that chunk, at most 4 Mi instructions early.
    #[must_use]
    pub fn stream_from(&self, instruction: u64) -> Stream {
        let mut stream = self.stream();
        stream.next_chunk = stream
            .chunks
            .partition_point(|s| s.chunk.is_some_and(|c| c.first_instruction <= instruction))
            .saturating_sub(1);
        stream
    }

    fn named(&self, error: TraceError) -> TraceError {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

fn read_header(file: &dyn ReadAt) -> Result<Header, TraceError> {
    let size = file.size();
    if size == 0 {
        return Err(TraceError::at(0, Problem::Empty));
    }
    let mut head = [0; 24];
    let present = size.min(24) as usize;
    read_exact(file, &mut head[..present], 0, "the header")?;
    // As far as it goes: a short file of another kind is called foreign, not cut short.
    let compared = present.min(MAGIC.len());
    if head[..compared] != MAGIC[..compared] {
        let mut head = vec![0; size.min(LOOKED_AT) as usize];
        read_exact(file, &mut head, 0, "the header")?;
        return Err(TraceError::at(0, Problem::Foreign(name_of(&head))));
    }
    if present < head.len() {
        return Err(TraceError::at(size, Problem::Truncated("the header")));
    }
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (major, minor) = (word(8), word(10));
    if major > VERSION.0 {
        return Err(TraceError::at(8, Problem::Newer(major, minor, VERSION.0)));
    }
    // No format before the first: not an old file but a damaged one.
    if major < VERSION.0 {
        return Err(corrupt(8, "the header", format!("there is no format {major}.{minor}")));
    }
    let length = u32::from_le_bytes(head[12..16].try_into().expect("four bytes"));
    let checksum = u64::from_le_bytes(head[16..24].try_into().expect("eight bytes"));
    if 24 + u64::from(length) > size {
        return Err(TraceError::at(size, Problem::Truncated("the header")));
    }
    let mut json = vec![0; length as usize];
    read_exact(file, &mut json, 24, "the header")?;
    if xxh3_64(&json) != checksum {
        return Err(TraceError::at(24, Problem::Checksum("the header")));
    }
    serde_json::from_slice(&json).map_err(|e| corrupt(24, "the header", e.to_string()))
}

/// Describes a file of another format by its first bytes: a user with the wrong file mostly has the
/// right one at hand.
fn name_of(head: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 6] = [
        (b"\x1f\x8b", "it looks like gzip; `halfwink trace import` reads ChampSim traces"),
        (b"\xfd7zXZ", "it looks like xz; `halfwink trace import` reads ChampSim traces"),
        (b"BZh", "it looks like bzip2; `halfwink trace import` reads ChampSim traces"),
        (b"PK", "it looks like a zip archive"),
        (b"(\xb5/\xfd", "it looks like zstd"),
        (b"HWT", "its first byte was lost, as in a transfer as text"),
    ];
    let found = KNOWN.iter().find(|(magic, _)| head.starts_with(magic));
    let found = found.map(|&(_, name)| name.to_owned());
    let found = found.or_else(|| look(head, Family::Instructions).map(|other| other.to_string()));
    let found = found.or_else(|| import_of(head));
    found.unwrap_or_else(|| "its first bytes are unknown".to_owned())
}

fn read_footer(file: &dyn ReadAt) -> Result<Footer, TraceError> {
    let size = file.size();
    let truncated = || TraceError::at(size, Problem::Truncated("the body"));
    // From the end: a writer that was interrupted leaves no trailer, whatever else it has written.
    let tail_offset = size.checked_sub(16).ok_or_else(truncated)?;
    let mut tail = [0; 16];
    read_exact(file, &mut tail, tail_offset, "the trailer")?;
    if tail[8..] != END_MAGIC {
        return Err(truncated());
    }
    let offset = u64::from_le_bytes(tail[..8].try_into().expect("eight bytes"));
    if offset >= tail_offset {
        return Err(corrupt(tail_offset, "the trailer", "it points outside the file"));
    }
    let (kind, body) = read_section(file, offset)?;
    if kind != SectionKind::Footer {
        return Err(corrupt(tail_offset, "the trailer", "it does not point to a footer"));
    }
    serde_json::from_slice(&body).map_err(|e| corrupt(offset, "the footer", e.to_string()))
}

fn body_of(
    file: &dyn ReadAt,
    section: &SectionInfo,
    expected: SectionKind,
) -> Result<Vec<u8>, TraceError> {
    if section.offset >= file.size() {
        return Err(corrupt(file.size(), "the footer", "it points outside the file"));
    }
    let (kind, body) = read_section(file, section.offset)?;
    if kind != expected {
        return Err(corrupt(section.offset, "a section", "its kind is not what the footer says"));
    }
    Ok(body)
}

#[derive(Clone, Copy)]
enum Phase {
    /// No chunk is open.
    Between,
    /// Telling the consumer where the chunk starts.
    Opening,
    /// The reader is within a chunk.
    Inside,
}

/// Decompressed chunks, by number, for as long as a stream is in them: copies of a program are
/// mostly in the same one, and hold it once.
#[derive(Debug, Default)]
struct InMemory(Mutex<Vec<Weak<Columns>>>);

impl InMemory {
    fn columns(
        &self,
        number: usize,
        file: &dyn ReadAt,
        section: &SectionInfo,
    ) -> Result<Arc<Columns>, TraceError> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(columns) = known().get(number).and_then(Weak::upgrade) {
            return Ok(columns);
        }
        // Without the lock: two threads may read the same, and none waits for another.
        let body = body_of(file, section, SectionKind::Chunk)?;
        let columns = Arc::new(Columns::read(&body, section.offset)?);
        let mut known = known();
        let length = known.len().max(number + 1);
        known.resize(length, Weak::new());
        known[number] = Arc::downgrade(&columns);
        Ok(columns)
    }
}

/// Plays a trace file back.
pub struct Stream {
    path: Option<PathBuf>,
    file: Arc<dyn ReadAt>,
    program: Arc<Program>,
    decoder: Decoder,
    in_memory: Arc<InMemory>,
    /// The chunk that it is in.
    present: Option<Arc<Columns>>,
    chunks: Vec<SectionInfo>,
    next_chunk: usize,
    phase: Phase,
    /// CPU and address space as the consumer knows them.
    state: Option<(u16, Asid)>,
    /// Events that tell it where a chunk starts elsewhere.
    pending: [Option<Event>; 2],
    addresses: Vec<Address>,
}

impl Stream {
    /// Reads ahead to the next chunk; false behind the last.
    fn open_chunk(&mut self) -> Result<bool, TraceError> {
        let Some(section) = self.chunks.get(self.next_chunk) else {
            return Ok(false);
        };
        let columns = self.in_memory.columns(self.next_chunk, &*self.file, section)?;
        let head = self.decoder.begin(&columns, &self.program)?;
        self.present = Some(columns);
        self.next_chunk += 1;
        self.phase = Phase::Opening;
        // Chunks hold their state so that a stream may start at any; who comes from the chunk
        // before knows it already and must not hear of a switch that never was.
        let (cpu, asid) = (head.cpu, head.asid);
        if self.state.map(|s| s.0) != Some(cpu) {
            self.pending[0] = Some(Event::Cpu(cpu));
        }
        if self.state.map(|s| s.1) != Some(asid) {
            self.pending[1] = Some(Event::AddressSpace(asid));
        }
        Ok(true)
    }

    #[inline]
    fn advance(&mut self) -> Result<Item, TraceError> {
        loop {
            match self.phase {
                Phase::Inside => match self.decoder.next(&self.program, &mut self.addresses)? {
                    Decoded::Run(template) => return Ok(Item::Run(template)),
                    Decoded::Event(event) => return Ok(self.seen(event)),
                    Decoded::End => self.phase = Phase::Between,
                },
                Phase::Opening => match self.pending[0].take().or_else(|| self.pending[1].take()) {
                    Some(event) => return Ok(self.seen(event)),
                    None => self.phase = Phase::Inside,
                },
                Phase::Between => {
                    if !self.open_chunk()? {
                        return Ok(Item::End);
                    }
                }
            }
        }
    }

    fn seen(&mut self, event: Event) -> Item {
        let state = self.state.get_or_insert((0, Asid(0)));
        match event {
            Event::Cpu(cpu) => state.0 = cpu,
            Event::AddressSpace(asid) => state.1 = asid,
            _ => {}
        }
        Item::Event(event)
    }
}

impl Source for Stream {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    #[inline]
    fn next_item(&mut self) -> Result<Item, TraceError> {
        self.advance().map_err(|e| match &self.path {
            Some(path) => e.in_file(path),
            None => e,
        })
    }

    fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All items of a stream, each with its addresses, as text.
    fn next(stream: &mut Stream) -> String {
        let item = stream.next_item().unwrap();
        format!("{item:?} {:?}", stream.addresses())
    }

    #[test]
    fn copies_hold_a_chunk_once_and_each_plays_it_for_itself() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/glpk.hwt");
        let file = TraceFile::open(&path).unwrap();
        let alone: Vec<String> = {
            let mut stream = file.stream();
            (0..30_000).map(|_| next(&mut stream)).collect()
        };
        let (mut ahead, mut behind) = (file.stream(), file.stream());
        for (n, expected) in alone.iter().enumerate() {
            assert_eq!(&next(&mut ahead), expected, "item {n}");
            if let Some(before) = n.checked_sub(1_000) {
                assert_eq!(next(&mut behind), alone[before], "item {before}");
                let [one, other] = [&ahead, &behind].map(|s| s.present.as_ref().unwrap());
                assert!(Arc::ptr_eq(one, other), "a copy has a chunk of its own");
            }
        }
        let held = Arc::downgrade(ahead.present.as_ref().unwrap());
        drop((ahead, behind));
        assert!(held.upgrade().is_none(), "nobody is in it, and it is still in memory");
    }
}
