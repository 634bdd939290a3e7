//! Heads of replies.

use super::Errno;

/// The longest head: a chunk of data with its offset.
pub const MOST: usize = 28;

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;
const DONE: u16 = 1;
const KIND_NONE: u16 = 0;
const KIND_DATA: u16 = 1;
const KIND_STATUS: u16 = 5;
const KIND_ERROR: u16 = 1 << 15 | 1;

/// A head and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; MOST],
    length: u8,
}

impl Head {
    /// Returns the bytes of the header.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    #[inline]
    fn of<const N: usize>(parts: [&[u8]; N]) -> Head {
        let mut bytes = [0; MOST];
        let mut length = 0;
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        Head { bytes, length: length as u8 }
    }

    fn chunk(is_last: bool, kind: u16, cookie: u64, length: u32, more: &[u8]) -> Head {
        let flags = if is_last { DONE } else { 0 };
        Head::of([
            &CHUNK_MAGIC.to_be_bytes(),
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &cookie.to_be_bytes(),
            &length.to_be_bytes(),
            more,
        ])
    }
}

/// A simple reply, which data follows if it is to a read that went well.
#[inline]
#[must_use]
pub fn simple(cookie: u64, error: Option<Errno>) -> Head {
    let error = error.map_or(0, |e| e as u32);
    Head::of([&SIMPLE_MAGIC.to_be_bytes(), &error.to_be_bytes(), &cookie.to_be_bytes()])
}

/// A chunk of so many bytes of the device, which follow.
#[inline]
#[must_use]
pub fn data(cookie: u64, offset: u64, length: u32, is_last: bool) -> Head {
    Head::chunk(is_last, KIND_DATA, cookie, length + 8, &offset.to_be_bytes())
}

/// Bytes of one extent of a status.
pub const EXTENT: usize = 8;

/// The chunk of a status of so many extents, which follow.
#[must_use]
pub fn status(cookie: u64, context: u32, extents: u32) -> Head {
    let length = 4 + extents * EXTENT as u32;
    Head::chunk(true, KIND_STATUS, cookie, length, &context.to_be_bytes())
}

/// An extent: its length, and whether it is a hole, which reads as zero.
#[must_use]
pub fn extent(length: u32, hole: bool) -> [u8; EXTENT] {
    // NBD_STATE_HOLE and NBD_STATE_ZERO.
    let state = if hole { 3u32 } else { 0 };
    let mut bytes = [0; EXTENT];
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes[4..].copy_from_slice(&state.to_be_bytes());
    bytes
}

/// The last chunk of a reply that has nothing (more) to say.
#[must_use]
pub fn end(cookie: u64) -> Head {
    Head::chunk(true, KIND_NONE, cookie, 0, &[])
}

/// The last chunk of a read, or a status, that failed.
#[must_use]
pub fn error(cookie: u64, error: Errno) -> Head {
    let mut more = [0; 6];
    more[..4].copy_from_slice(&(error as u32).to_be_bytes());
    Head::chunk(true, KIND_ERROR, cookie, 6, &more)
}
