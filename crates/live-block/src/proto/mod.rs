//! The NBD protocol, as bytes to bytes: no sockets, no clocks, no device.
//!
//! ```text
//!  client ──▶ Handshake: options, their limits ──▶ Session ──▶ Request ──▶ Command
//!         ◀── answers                                     ◀── heads of replies
//! ```
//!
//! Source of every number: the protocol's description, `doc/proto.md` of the NetworkBlockDevice
//! project. Written here because no library fits: `nbd` (2024) owns the stream and knows no
//! structured replies, `tokio-nbd` is GPL and bound to a runtime, `nbd-async` is a kernel's client.

pub mod handshake;
pub mod reply;
pub mod request;

pub use handshake::{Handshake, Refused, Session, Step};
pub use request::{Command, Request};

/// Bytes that one request may carry or ask for.
pub const MOST_BYTES: u32 = 32 << 20;
/// Preferred block size, which clients are told.
pub const PREFERRED_BYTES: u32 = 4096;

/// Properties of an export, which clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name of the export. A client that names none gets it too.
    pub name: String,
    /// Size of the export in bytes.
    pub size: u64,
    /// Whether writes are rejected.
    pub read_only: bool,
}

/// `NBD_FLAG_*` of the transmission phase.
pub mod flag {
    /// Marks the other flags as valid.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Rejects all writes.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Supports the command `NBD_CMD_FLUSH`.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Supports the flag `NBD_CMD_FLAG_FUA`.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Supports the command `NBD_CMD_TRIM`.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Supports the command `NBD_CMD_WRITE_ZEROES`.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Supports the flag `NBD_CMD_FLAG_DF`.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush covers all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Supports the command `NBD_CMD_CACHE`.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// Supports the flag `NBD_CMD_FLAG_FAST_ZERO`.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

impl Export {
    /// The flags of its transmission phase.
    #[must_use]
    pub fn flags(&self, structured: bool) -> u16 {
        let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::CAN_MULTI_CONN;
        flags |= flag::SEND_FUA | flag::SEND_CACHE;
        if structured {
            flags |= flag::SEND_DF;
        }
        if self.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        }
        flags
    }
}

/// Errors as they go over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not allowed: a write to what is read-only.
    Perm = 1,
    /// The device reported an error.
    Io = 5,
    /// No memory is left.
    NoMem = 12,
    /// The request cannot be.
    Inval = 22,
    /// No room, or beyond the end.
    NoSpc = 28,
    /// More than the protocol lets one request have.
    Overflow = 75,
    /// The request is not supported.
    NotSup = 95,
}

impl Errno {
    /// Converts an error of the system to that of the protocol.
    #[must_use]
    pub fn of(error: &std::io::Error) -> Errno {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EROFS) => Errno::Perm,
            Some(libc::ENOMEM) => Errno::NoMem,
            Some(libc::EINVAL) => Errno::Inval,
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Errno::NoSpc,
            Some(libc::EOPNOTSUPP) => Errno::NotSup,
            _ => Errno::Io,
        }
    }
}

/// Big-endian numbers at the front of `bytes`; the caller has looked at the length.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
