//! Workload inputs: full-system instruction traces, their importers and exporters, and synthetic
//! generators.
//!
//! ```text
//!  capture ──▶ TraceWriter ──▶ .hwt file ──▶ TraceFile ──▶ Stream ─┐
//!  ChampSim, drmemtrace ─▶ import ┘                                ├─▶ Source ──▶ chip
//!  generator ──────────────────────────────────────────────────────┘
//! ```
//!
//! A trace is a [`Program`] (static: blocks of decoded instructions, and the templates by which
//! they were executed) and a stream of [`Item`]s (dynamic: which template, with which addresses,
//! and the [`Event`]s between).

mod builder;
mod champsim;
mod check;
mod decode;
mod drmemtrace;
mod error;
mod event;
mod fill;
mod format;
mod io_path;
mod kernel_abi;
mod kernel_run;
mod listing;
mod program;
mod record;
mod repeat;
mod samples;
mod script;
mod service;
mod slice;
mod source;
mod synthetic;
mod traps;

pub use champsim::{
    export_champsim, import_champsim, Compression, ExportOptions, ImportOptions, RecordForm,
    RECORD_BYTES,
};
pub use check::{check, CheckReport};
pub use decode::{decode_block, mnemonic};
pub use drmemtrace::{
    export_drmemtrace, import_drmemtrace, DrmemtraceCounts, DrmemtraceInput, DrmemtraceOptions,
};
pub use error::{Problem, TraceError};
pub use event::Event;
pub use format::{
    BlockDef, ChunkInfo, Code, CodeForm, DirectMap, Footer, Header, Load, LoadKind, Package,
    RawAccess, ReadAt, Samples, SectionInfo, Stream, Summary, Totals, TraceFile, TraceWriter,
    WarmLine, WarmSet, CHUNK_INSTRS, MAGIC, VERSION,
};
pub use io_path::{io_path, IoCounts, IoPath, KernelLines};
pub use kernel_abi::{exception_name, interrupt_name, syscall_name};
pub use kernel_run::{KernelRun, KernelRuns};
pub use listing::listing;
pub use program::{Block, BlockId, Program, Site, Template, TemplateId, GROUPS};
pub use record::{Branch, Instr, InstrFlags, Kind, RegSet};
pub use repeat::RepeatFold;
pub use samples::{keep_samples, Kept, SAMPLE_MARK};
pub use script::Script;
pub use service::{
    Cause, Class, Regions, Service, ServiceModel, ServiceSource, Side, WorkingSet, SERVICES,
};
pub use slice::{slice, Slice};
pub use source::{Address, Item, Source};
pub use synthetic::{Duty, Kernel, Synthetic, SyntheticSource};
pub use traps::{
    HandlerLengths, Owner, Saved, TlbModel, TlbShape, Trap, TrapCounts, TrapModel, Traps,
    WindowModel, Windows,
};
