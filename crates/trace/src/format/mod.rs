//! The halfwink trace format, version 1: layout on disk. See `docs/trace-format.md`.
//!
//! ```text
//! magic 8 | major u16 | minor u16 | length u32 | xxh3 u64 | header JSON
//! section*                     kind u8, 0 u8, 0 u16, length u32, xxh3 u64, body
//!   dictionary                 the blocks and templates that the next chunk needs
//!   chunk                      4 Mi instructions, self-contained given the dictionaries before it
//!   warm                       cache lines touched before the first chunk
//!   footer JSON                index of all sections, totals
//! footer offset u64 | magic 8
//! ```
//!
//! All integers are little-endian. Every column is one zstd frame.

pub(crate) mod bytes;
pub(crate) mod chunk;
pub(crate) mod dictionary;
mod header;
pub(crate) mod model;
mod read_at;
mod reader;
mod section;
mod warm;
mod writer;

pub use header::{
    ChunkInfo, CodeForm, DirectMap, Footer, Header, Load, LoadKind, Package, Samples, SectionInfo,
    Totals,
};
pub use read_at::ReadAt;
pub use reader::{Stream, TraceFile};
pub use warm::{WarmLine, WarmSet};
pub use writer::{BlockDef, Code, RawAccess, Summary, TraceWriter};

/// First bytes of every trace: a non-ASCII byte, a name, and both line ends, so that a transfer in
/// text mode is noticed.
pub const MAGIC: [u8; 8] = *b"\x89HWT\r\n\x1a\n";
/// Last bytes of every complete trace.
pub const END_MAGIC: [u8; 8] = *b"HWTEND\r\n";
/// Version that this crate writes. A reader accepts every minor of its own major.
pub const VERSION: (u16, u16) = (1, 0);

/// Instructions in a full chunk: large enough that learning the code again costs little, small
/// enough to seek.
pub const CHUNK_INSTRS: u32 = 4 << 20;
/// A chunk ends with the run that reaches any of these: so the work that a few bytes can ask for is
/// bounded.
pub(crate) const MAX_CHUNK_RUNS: u32 = 4 << 20;
pub(crate) const CHUNK_ACCESSES: u32 = 8 << 20;
pub(crate) const CHUNK_EVENTS: u32 = 8 << 20;
/// Upper bound of instructions, accesses and events in a chunk.
pub(crate) const MAX_CHUNK_ITEMS: u32 = 16 << 20;
