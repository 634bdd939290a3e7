//! The state of caches before the first instruction, independent of their size and shape.
//!
//! A slice cut from a long recording would start with cold caches. A warm set lists the lines that
//! the recording touched before the slice, least recently used first, so that any cache with LRU
//! replacement can be filled as it would have been (a memory timestamp record: Barr et al., ISPASS
//! 2005).

use halfwink_units::LineAddr;

use super::bytes::{put_varint, unzigzag, zigzag};
use super::section::{put_column, take_column, take_u32};
use super::MAX_CHUNK_ITEMS;
use crate::error::{corrupt, TraceError};

/// A line that was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmLine {
    /// Physical, in the recorded machine's memory.
    pub line: LineAddr,
    /// Last touched by an instruction fetch rather than by data.
    pub code: bool,
    /// Written since it came from memory, as far as the record reaches.
    pub dirty: bool,
    /// Last touched with kernel privilege.
    pub kernel: bool,
}

/// Lines in the order of their last use, least recent first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmSet {
    /// The lines; each at most once.
    pub lines: Vec<WarmLine>,
}

impl WarmSet {
    pub(crate) fn encode(&self, level: i32) -> std::io::Result<Vec<u8>> {
        let mut distances = Vec::new();
        let mut flags = Vec::new();
        // Code and data are two interleaved streams, each with its own neighbourhood.
        let mut last = [0u64; 2];
        for entry in &self.lines {
            let stream = &mut last[usize::from(entry.code)];
            put_varint(&mut distances, zigzag(entry.line.0.wrapping_sub(*stream)));
            *stream = entry.line.0;
            flags.push(
                u8::from(entry.code) | u8::from(entry.dirty) << 1 | u8::from(entry.kernel) << 2,
            );
        }
        let mut body = (self.lines.len() as u32).to_le_bytes().to_vec();
        put_column(&mut body, &flags, level)?;
        put_column(&mut body, &distances, level)?;
        Ok(body)
    }

    pub(crate) fn decode(mut body: &[u8], offset: u64) -> Result<WarmSet, TraceError> {
        let count = take_u32(&mut body, "a warm set", offset)?;
        let flags = take_column(&mut body, "the flag column", offset)?;
        let mut distances = take_column(&mut body, "the line column", offset)?;
        if count > MAX_CHUNK_ITEMS || flags.bytes.len() != count as usize || !body.is_empty() {
            return Err(corrupt(offset, "a warm set", "its lengths do not agree"));
        }
        let mut last = [0u64; 2];
        let mut lines = Vec::with_capacity(count as usize);
        for &bits in flags.bytes.iter() {
            let code = bits & 1 != 0;
            let stream = &mut last[usize::from(code)];
            *stream = stream.wrapping_add(unzigzag(distances.varint()?));
            lines.push(WarmLine {
                line: LineAddr(*stream),
                code,
                dirty: bits & 2 != 0,
                kernel: bits & 4 != 0,
            });
        }
        if !distances.is_done() {
            return Err(distances.fail("it holds more lines than announced"));
        }
        Ok(WarmSet { lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoded_warm_set_decodes_equal(entries: Vec<(u64, bool, bool, bool)>) {
            let lines = entries.iter().map(|&(n, code, dirty, kernel)| WarmLine {
                line: LineAddr(n), code, dirty, kernel,
            }).collect();
            let set = WarmSet { lines };
            prop_assert_eq!(WarmSet::decode(&set.encode(1).unwrap(), 0).unwrap(), set);
        }
    }
}
