//! Variable-length integers and the columns they live in.

use std::sync::Arc;

use crate::error::{corrupt, TraceError};

/// Maps small magnitudes of either sign to small numbers.
pub(crate) const fn zigzag(delta: u64) -> u64 {
    (delta << 1) ^ (((delta as i64) >> 63) as u64)
}

/// Returns the inverse of [`zigzag`].
pub(crate) const fn unzigzag(n: u64) -> u64 {
    (n >> 1) ^ (n & 1).wrapping_neg()
}

/// Appends `n` in LEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// A decompressed column that is read front to back. Copies share the bytes, and each reads for
/// itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    pub(crate) bytes: Arc<[u8]>,
    pos: usize,
    name: &'static str,
    offset: u64,
}

impl Column {
    /// `name` and file `offset` appear in errors.
    pub(crate) fn new(bytes: Vec<u8>, name: &'static str, offset: u64) -> Column {
        Column { bytes: bytes.into(), pos: 0, name, offset }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.pos >= self.bytes.len()
    }

    pub(crate) fn fail(&self, why: impl Into<String>) -> TraceError {
        corrupt(self.offset, self.name, why)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, TraceError> {
        match self.bytes.get(self.pos) {
            Some(&b) => {
                self.pos += 1;
                Ok(b)
            }
            None => Err(self.fail("it holds fewer values than announced")),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, TraceError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.varint_rest(first)
    }

    fn varint_rest(&mut self, first: u8) -> Result<u64, TraceError> {
        let mut n = u64::from(first & 0x7f);
        // Bits of the tenth byte beyond the 64th fall off: no writer sets them, and a number is all
        // that a reader can be misled about.
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(self.fail("a number is longer than 64 bits"))
    }

    /// A varint that must fit and lie below `limit`.
    pub(crate) fn varint_below(&mut self, limit: u64, what: &str) -> Result<u64, TraceError> {
        let n = self.varint()?;
        if n < limit {
            Ok(n)
        } else {
            Err(self.fail(format!("{what} is {n}, expected less than {limit}")))
        }
    }

    /// `count` (1..=8) bytes, little-endian.
    #[inline]
    pub(crate) fn le_bytes(&mut self, count: usize) -> Result<u64, TraceError> {
        debug_assert!((1..=8).contains(&count), "a shift by 64 is none");
        // One load and a mask where eight bytes are left; a loop over `count` mispredicts with it.
        if let Some(window) = self.bytes.get(self.pos..self.pos + 8) {
            let word = u64::from_le_bytes(window.try_into().expect("a window of eight bytes"));
            self.pos += count;
            return Ok(word & (u64::MAX >> (64 - 8 * count)));
        }
        let mut n = 0;
        for i in 0..count {
            n |= u64::from(self.byte()?) << (8 * i);
        }
        Ok(n)
    }

    pub(crate) fn slice(&mut self, len: usize) -> Result<&[u8], TraceError> {
        let end = self.pos.checked_add(len).filter(|&end| end <= self.bytes.len());
        match end {
            Some(end) => {
                let start = std::mem::replace(&mut self.pos, end);
                Ok(&self.bytes[start..end])
            }
            None => Err(self.fail("it holds fewer bytes than announced")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_decode_to_encoded_value(numbers: Vec<u64>) {
            let mut bytes = Vec::new();
            for &n in &numbers {
                put_varint(&mut bytes, n);
            }
            let mut column = Column::new(bytes, "test", 0);
            for &n in &numbers {
                prop_assert_eq!(column.varint().unwrap(), n);
            }
            prop_assert!(column.is_done() && column.byte().is_err());
        }

        #[test]
        fn zigzag_decodes_to_encoded_value(n: u64) {
            prop_assert_eq!(unzigzag(zigzag(n)), n);
        }

        #[test]
        fn le_bytes_reads_what_was_written(n: u64, count in 1usize..=8) {
            let kept = n & (u64::MAX >> (64 - 8 * count));
            let bytes = n.to_le_bytes()[..count].to_vec();
            prop_assert_eq!(Column::new(bytes, "test", 0).le_bytes(count).unwrap(), kept);
        }
    }

    #[test]
    fn an_endless_varint_is_an_error() {
        assert!(Column::new(vec![0xff; 20], "test", 0).varint().is_err());
    }
}
