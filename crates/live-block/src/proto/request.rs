//! Requests of the transmission phase.

use super::{u16_at, u32_at, u64_at, Errno, Export, MOST_BYTES};

/// Bytes of a request without its payload.
pub const HEAD: usize = 28;
/// First word of each.
pub const MAGIC: u32 = 0x2560_9513;

/// Bytes that do not begin a request: client and server have lost synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request magic {0:#x}: expected {MAGIC:#x}")]
pub struct Lost(pub u32);

/// A request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags of the request (`NBD_CMD_FLAG_*`).
    pub flags: u16,
    /// Command of the request (`NBD_CMD_*`).
    pub kind: u16,
    /// Value that is returned with the reply; the server does not interpret it.
    pub cookie: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

mod bit {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Command of a request; ranges lie within the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bytes of the device; `whole`: in one chunk.
    Read {
        /// Replies in one chunk.
        whole: bool,
    },
    /// Bytes that follow; `fua`: on stable storage before the reply.
    Write {
        /// On stable storage before the reply.
        fua: bool,
    },
    /// All that was answered is on stable storage before the reply.
    Flush,
    /// The bytes are not needed any more.
    Trim {
        /// On stable storage before the reply.
        fua: bool,
    },
    /// The bytes will be needed.
    Cache,
    /// The bytes are zero; `keep`: their room stays theirs; `fast`: or an error at once.
    WriteZeroes {
        /// On stable storage before the reply.
        fua: bool,
        /// Keeps the space allocated.
        keep: bool,
        /// Only if it is faster than writing them.
        fast: bool,
    },
    /// Queries which bytes are holes; only for clients that have chosen
    /// [`super::handshake::ALLOCATION`].
    Status {
        /// Asks for the first extent only.
        one: bool,
    },
    /// The client goes once all is answered.
    Disconnect,
}

impl Request {
    /// The request at the front of `bytes`; none if it is not whole.
    ///
    /// # Errors
    /// It does not begin as one.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Option<Request>, Lost> {
        let Some(head) = bytes.get(..HEAD) else { return Ok(None) };
        let magic = u32_at(head, 0);
        if magic != MAGIC {
            return Err(Lost(magic));
        }
        Ok(Some(Request {
            flags: u16_at(head, 4),
            kind: u16_at(head, 6),
            cookie: u64_at(head, 8),
            offset: u64_at(head, 16),
            length: u32_at(head, 24),
        }))
    }

    /// Bytes that follow it.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> u32 {
        if self.kind == command::WRITE {
            self.length
        } else {
            0
        }
    }

    /// Returns whether it asks for bytes of the device, or about them, so that the answer comes in
    /// chunks.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self.kind, command::READ | command::BLOCK_STATUS)
    }

    /// Returns whether its payload is longer than the server reads: the connection ends after the
    /// answer.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.payload() > MOST_BYTES
    }

    /// Parses the command of the request.
    ///
    /// # Errors
    ///
    /// The error that the client receives, if the request is invalid.
    #[inline]
    pub fn command(&self, export: &Export) -> Result<Command, Errno> {
        let fua = self.flags & bit::FUA != 0;
        let (command, allowed) = match self.kind {
            command::READ => (Command::Read { whole: self.flags & bit::DF != 0 }, bit::DF),
            command::WRITE => (Command::Write { fua }, 0),
            // No bit but FUA, which every command may have; its other fields say nothing.
            command::DISCONNECT => return Ok(Command::Disconnect),
            command::FLUSH => (Command::Flush, 0),
            command::TRIM => (Command::Trim { fua }, 0),
            command::CACHE => (Command::Cache, 0),
            command::WRITE_ZEROES => {
                let keep = self.flags & bit::NO_HOLE != 0;
                let fast = self.flags & bit::FAST_ZERO != 0;
                (Command::WriteZeroes { fua, keep, fast }, bit::NO_HOLE | bit::FAST_ZERO)
            }
            command::BLOCK_STATUS => {
                (Command::Status { one: self.flags & bit::REQ_ONE != 0 }, bit::REQ_ONE)
            }
            _ => return Err(Errno::Inval),
        };
        if self.flags & !(allowed | bit::FUA) != 0 {
            return Err(Errno::Inval);
        }
        self.check(command, export)?;
        Ok(command)
    }

    fn check(&self, command: Command, export: &Export) -> Result<(), Errno> {
        let writes = matches!(
            command,
            Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. }
        );
        if writes && export.read_only {
            return Err(Errno::Perm);
        }
        if command == Command::Flush {
            // Both are reserved, and must be zero.
            let is_plain = self.offset == 0 && self.length == 0;
            return if is_plain { Ok(()) } else { Err(Errno::Inval) };
        }
        if matches!(command, Command::Status { .. }) && self.length == 0 {
            return Err(Errno::Inval);
        }
        let moves = matches!(command, Command::Read { .. } | Command::Write { .. });
        if moves && self.length > MOST_BYTES {
            return Err(Errno::Overflow);
        }
        let beyond = if writes { Errno::NoSpc } else { Errno::Inval };
        match self.offset.checked_add(u64::from(self.length)) {
            Some(end) if end <= export.size => Ok(()),
            _ => Err(beyond),
        }
    }
}
