//! Framing: every part of a trace file has a length and a checksum.

use std::io::{self, Write};

use xxhash_rust::xxh3::xxh3_64;

use super::bytes::Column;
use super::read_at::ReadAt;
use crate::error::{corrupt, Problem, TraceError};

/// Upper bound of one decompressed column. Larger claims are refused before memory is reserved: a
/// frame of a few bytes may announce gigabytes.
pub(crate) const MAX_COLUMN: usize = 64 << 20;

pub(crate) const HEADER_BYTES: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SectionKind {
    Dictionary = 1,
    Chunk = 2,
    Warm = 3,
    Footer = 4,
}

impl SectionKind {
    fn from_u8(n: u8) -> Option<SectionKind> {
        use SectionKind::{Chunk, Dictionary, Footer, Warm};
        [Dictionary, Chunk, Warm, Footer].into_iter().find(|&kind| kind as u8 == n)
    }
}

/// Writes a section and returns its size on disk.
pub(crate) fn write_section(
    out: &mut impl Write,
    kind: SectionKind,
    body: &[u8],
) -> io::Result<u64> {
    let mut header = [0; HEADER_BYTES as usize];
    header[0] = kind as u8;
    header[4..8].copy_from_slice(&u32_len(body.len())?.to_le_bytes());
    header[8..].copy_from_slice(&xxh3_64(body).to_le_bytes());
    out.write_all(&header)?;
    out.write_all(body)?;
    Ok(HEADER_BYTES + body.len() as u64)
}

/// Reads the section at `offset`, checks it, and returns its kind and body.
pub(crate) fn read_section(
    file: &dyn ReadAt,
    offset: u64,
) -> Result<(SectionKind, Vec<u8>), TraceError> {
    let mut header = [0; HEADER_BYTES as usize];
    read_exact(file, &mut header, offset, "a section header")?;
    let kind = SectionKind::from_u8(header[0]).filter(|_| header[1..4] == [0; 3]);
    let Some(kind) = kind else {
        return Err(corrupt(offset, "a section header", format!("unknown kind {}", header[0])));
    };
    let length = u32::from_le_bytes(header[4..8].try_into().expect("four bytes"));
    let checksum = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
    let start = offset + HEADER_BYTES;
    // Before memory is reserved for it: a file cannot claim more than it has.
    if start + u64::from(length) > file.size() {
        return Err(TraceError::at(file.size(), Problem::Truncated("a section")));
    }
    let mut body = vec![0; length as usize];
    read_exact(file, &mut body, start, "a section")?;
    if xxh3_64(&body) != checksum {
        return Err(TraceError::at(offset, Problem::Checksum("a section")));
    }
    Ok((kind, body))
}

pub(crate) fn read_exact(
    file: &dyn ReadAt,
    buf: &mut [u8],
    offset: u64,
    what: &'static str,
) -> Result<(), TraceError> {
    file.read_exact_at(buf, offset).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => TraceError::at(file.size(), Problem::Truncated(what)),
        _ => TraceError::at(offset, Problem::Io(e)),
    })
}

/// Appends a compressed column to a section body.
pub(crate) fn put_column(body: &mut Vec<u8>, column: &[u8], level: i32) -> io::Result<()> {
    debug_assert!(column.len() <= MAX_COLUMN, "no reader would take it");
    let packed = zstd::bulk::compress(column, level)?;
    body.extend_from_slice(&u32_len(column.len())?.to_le_bytes());
    body.extend_from_slice(&u32_len(packed.len())?.to_le_bytes());
    body.extend_from_slice(&packed);
    Ok(())
}

/// Takes the next compressed column off the front of `body`.
pub(crate) fn take_column(
    body: &mut &[u8],
    name: &'static str,
    offset: u64,
) -> Result<Column, TraceError> {
    let length = take_u32(body, name, offset)? as usize;
    let packed_length = take_u32(body, name, offset)? as usize;
    if length > MAX_COLUMN || packed_length > body.len() {
        return Err(corrupt(offset, name, "its announced length is impossible"));
    }
    let (packed, rest) = body.split_at(packed_length);
    *body = rest;
    let bytes = zstd::bulk::decompress(packed, length)
        .map_err(|e| corrupt(offset, name, format!("it does not decompress ({e})")))?;
    if bytes.len() != length {
        return Err(corrupt(offset, name, "it decompresses to another length than announced"));
    }
    Ok(Column::new(bytes, name, offset))
}

pub(crate) fn take_u32(
    body: &mut &[u8],
    name: &'static str,
    offset: u64,
) -> Result<u32, TraceError> {
    let Some((head, rest)) = body.split_first_chunk::<4>() else {
        return Err(corrupt(offset, name, "it is cut short"));
    };
    *body = rest;
    Ok(u32::from_le_bytes(*head))
}

fn u32_len(len: usize) -> io::Result<u32> {
    u32::try_from(len).map_err(|_| io::Error::other("a trace section would exceed 4 GiB"))
}
