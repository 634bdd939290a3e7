//! DynamoRIO's drmemtrace traces, in and out: its final form, as its analysis tools read it.
//!
//! Entries of 12 bytes, `type u16 | size u16 | value u64`, little-endian
//! (`clients/drcachesim/common/trace_entry.h`, version 7), raw or in gzip. An exported file is what
//! one CPU of the recorded machine did: all its address spaces in turns (`CORE_SHARDED`) and,
//! unless only user code is asked for, its kernel (`WHOLE_SYSTEM`), whose code stands between
//! hardware markers.
//!
//! A recording has no threads. They are told by where they go on: a return to user code at a place
//! that the address space's last one did not leave is another thread. So a signal handler's
//! beginning looks like one.
//!
//! An imported file is a thread's or a core's, with or without encodings, of a program alone or
//! with its kernel; chunks of a zip, too.

mod entries;
mod export;
mod flow;
mod import;
#[cfg(test)]
mod import_tests;
mod input;
mod regdeps;
#[cfg(test)]
mod tests;
mod threads;

pub(crate) use entries::is_drmemtrace;
pub use export::export_drmemtrace;
pub use import::import_drmemtrace;
pub use input::DrmemtraceInput;

/// Options of an export.
#[derive(Clone, Copy, Debug)]
pub struct DrmemtraceOptions {
    /// Writes kernel instructions, too.
    pub kernel: bool,
    /// CPU of the recorded machine; may be omitted if it used one.
    pub cpu: Option<u16>,
    /// Instructions to write at most.
    pub limit: Option<u64>,
}

/// Counters of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrmemtraceCounts {
    /// Instructions of user code, and of the kernel, each with the repetitions of string
    /// instructions, which drmemtrace calls instructions that are not fetched.
    pub instructions: [u64; 2],
    /// Number of repetitions among them.
    pub repeats: u64,
    /// Number of loads.
    pub loads: u64,
    /// Number of stores.
    pub stores: u64,
    /// Conditional branches that were taken.
    pub taken: u64,
    /// Threads that were told apart.
    pub threads: u64,
    /// Places where code goes on elsewhere and nothing recorded says why.
    pub gaps: u64,
}

/// A record of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: u16,
    size: u16,
    value: u64,
}

impl Entry {
    fn parse(bytes: &[u8; ENTRY_BYTES]) -> Entry {
        let [k0, k1, s0, s1, value @ ..] = *bytes;
        let (kind, size) = (u16::from_le_bytes([k0, k1]), u16::from_le_bytes([s0, s1]));
        Entry { kind, size, value: u64::from_le_bytes(value) }
    }

    fn bytes(self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..2].copy_from_slice(&self.kind.to_le_bytes());
        out[2..4].copy_from_slice(&self.size.to_le_bytes());
        out[4..].copy_from_slice(&self.value.to_le_bytes());
        out
    }
}

/// Size of a record: the struct is packed.
const ENTRY_BYTES: usize = 12;
/// Value of `TRACE_ENTRY_VERSION_RETIRED_INSTRUCTIONS_ONLY`.
const FORMAT_VERSION: u64 = 7;

/// Values of `trace_type_t`, by name.
mod kind {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const INSTR: u16 = 10;
    pub(super) const DIRECT_JUMP: u16 = 11;
    pub(super) const INDIRECT_JUMP: u16 = 12;
    pub(super) const CONDITIONAL_JUMP: u16 = 13;
    pub(super) const DIRECT_CALL: u16 = 14;
    pub(super) const INDIRECT_CALL: u16 = 15;
    pub(super) const RETURN: u16 = 16;
    pub(super) const BUNDLE: u16 = 17;
    pub(super) const THREAD: u16 = 22;
    pub(super) const THREAD_EXIT: u16 = 23;
    pub(super) const PID: u16 = 24;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const MARKER: u16 = 28;
    pub(super) const NO_FETCH: u16 = 29;
    pub(super) const SYSENTER: u16 = 31;
    pub(super) const ENCODING: u16 = 47;
    pub(super) const TAKEN_JUMP: u16 = 48;
    pub(super) const UNTAKEN_JUMP: u16 = 49;
}

/// Values of `trace_marker_type_t`, by name.
mod marker {
    pub(super) const TIMESTAMP: u16 = 2;
    pub(super) const CPU_ID: u16 = 3;
    pub(super) const FILETYPE: u16 = 9;
    pub(super) const CACHE_LINE_SIZE: u16 = 10;
    pub(super) const VERSION: u16 = 12;
    pub(super) const PHYSICAL_ADDRESS: u16 = 15;
    pub(super) const VIRTUAL_ADDRESS: u16 = 17;
    pub(super) const PAGE_SIZE: u16 = 18;
    pub(super) const SYSCALL: u16 = 25;
    pub(super) const SYSCALL_TRACE_START: u16 = 27;
    pub(super) const SYSCALL_TRACE_END: u16 = 28;
    pub(super) const BRANCH_TARGET: u16 = 29;
    pub(super) const CONTEXT_SWITCH_START: u16 = 34;
    pub(super) const CONTEXT_SWITCH_END: u16 = 35;
    pub(super) const HARDWARE_EVENT: u16 = 43;
    pub(super) const HARDWARE_CONTEXT_RETURN: u16 = 44;
}

/// Values of `offline_file_type_t`, by name.
mod file_type {
    pub(super) const FILTERED: u64 = 0x01;
    pub(super) const AARCH64: u64 = 0x08;
    pub(super) const ARM32: u64 = 0x10;
    pub(super) const X86_32: u64 = 0x20;
    pub(super) const X86_64: u64 = 0x40;
    pub(super) const IFILTERED: u64 = 0x80;
    pub(super) const DFILTERED: u64 = 0x100;
    pub(super) const ENCODINGS: u64 = 0x200;
    pub(super) const SYSCALL_NUMBERS: u64 = 0x400;
    pub(super) const BIMODAL_FILTERED_WARMUP: u64 = 0x2000;
    pub(super) const CORE_SHARDED: u64 = 0x1_0000;
    pub(super) const REGDEPS: u64 = 0x2_0000;
    pub(super) const WHOLE_SYSTEM: u64 = 0x4_0000;
}
