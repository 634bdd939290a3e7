//! What is kept of an association's numbers beyond the end of a process, as a small text.

use std::fmt;

use ring::digest::{digest, Context, SHA256};

use crate::settings::AeadKey;

const FIRST: &str = "halfwink esp numbers 1";
/// Longest text that can be a record.
const MOST_BYTES: usize = 512;

/// Which way packets of an association go, as seen by this router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The association encrypts packets.
    Outbound,
    /// The association decrypts packets.
    Inbound,
}

impl Direction {
    /// Returns the name that records and reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Direction::Outbound => "outbound",
            Direction::Inbound => "inbound",
        }
    }
}

/// Names an association without giving its key away: a digest of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AssociationId([u8; 32]);

impl AssociationId {
    /// Derives the identifier of a key with its salt. Inbound with the SPI, which is authenticated,
    /// so that under another one no earlier packet comes back; outbound without, since nonces are
    /// the key's.
    #[must_use]
    pub fn new(direction: Direction, spi: u32, key: &AeadKey) -> AssociationId {
        let mut context = Context::new(&SHA256);
        context.update(FIRST.as_bytes());
        context.update(direction.name().as_bytes());
        if direction == Direction::Inbound {
            context.update(&spi.to_be_bytes());
        }
        context.update(key.key());
        context.update(&key.salt());
        let mut id = [0; 32];
        id.copy_from_slice(context.finish().as_ref());
        AssociationId(id)
    }
}

impl fmt::Display for AssociationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AssociationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AssociationId({self})")
    }
}

/// Persistent state of the sequence numbers of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRecord {
    /// Direction of the association.
    pub direction: Direction,
    /// Identifier of the key, a digest.
    pub id: AssociationId,
    /// Initialisation vectors are this far ahead of sequence numbers; 0 inbound.
    pub iv_base: u64,
    /// Any number up to this one may have been used, none above.
    pub reserved: u64,
}

/// A text that is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}")]
pub struct RecordError {
    /// Line number, from 1.
    pub line: usize,
    /// Content that the line should have.
    pub expected: &'static str,
}

impl NumberRecord {
    /// Returns the record as text, whose last line is a digest of the others.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (way, id) = (self.direction.name(), self.id);
        let (base, reserved) = (self.iv_base, self.reserved);
        let text = format!("{FIRST}\n{way}\nkey {id}\niv_base {base}\nreserved {reserved}\n");
        let sum = sum(&text);
        format!("{text}sum {sum}\n")
    }

    /// Reads a text of [`NumberRecord::to_text`]: that, byte for byte, and nothing else.
    ///
    /// # Errors
    ///
    /// The first line that is not as it should be. A changed byte is found, wherever it is.
    pub fn parse(text: &str) -> Result<NumberRecord, RecordError> {
        let wrong = |line, expected| RecordError { line, expected };
        if text.len() > MOST_BYTES {
            return Err(wrong(1, "at most 512 bytes"));
        }
        let mut lines = text.split('\n');
        let mut next = || lines.next().unwrap_or_default();
        if next() != FIRST {
            return Err(wrong(1, "`halfwink esp numbers 1`"));
        }
        let direction = match next() {
            "outbound" => Direction::Outbound,
            "inbound" => Direction::Inbound,
            _ => return Err(wrong(2, "`outbound` or `inbound`")),
        };
        let id = next().strip_prefix("key ").and_then(digest_of);
        let id = id.ok_or(wrong(3, "`key` and 64 hexadecimal digits"))?;
        let iv_base = next().strip_prefix("iv_base ").and_then(number);
        let iv_base = iv_base.ok_or(wrong(4, "`iv_base` and a number"))?;
        let reserved = next().strip_prefix("reserved ").and_then(number);
        let reserved = reserved.ok_or(wrong(5, "`reserved` and a number"))?;
        let record = NumberRecord { direction, id, iv_base, reserved };
        if record.to_text() != text {
            return Err(wrong(6, "the digest of the lines before, and the end"));
        }
        Ok(record)
    }
}

/// Returns a checksum against accidental damage. It is no protection from an attacker, who can
/// compute it too.
fn sum(text: &str) -> String {
    let whole = digest(&SHA256, text.as_bytes());
    whole.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(text: &str) -> Option<u64> {
    // `parse` takes a plus sign; leading zeros are found by the comparison of the whole.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn digest_of(text: &str) -> Option<AssociationId> {
    let mut id = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (n, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[n * 2..n * 2 + 2], 16).ok()?;
    }
    Some(AssociationId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> AeadKey {
        AeadKey::new(&[byte; 20]).expect("a length")
    }

    fn record() -> NumberRecord {
        let id = AssociationId::new(Direction::Outbound, 256, &key(1));
        NumberRecord { direction: Direction::Outbound, id, iv_base: u64::MAX, reserved: 262_144 }
    }

    #[test]
    fn what_is_written_is_read_and_every_damage_is_found() {
        let text = record().to_text();
        assert_eq!(NumberRecord::parse(&text), Ok(record()));
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let changed = String::from_utf8(bytes).expect("ASCII");
                assert!(NumberRecord::parse(&changed).is_err(), "{changed}");
            }
            assert!(NumberRecord::parse(&text[..at]).is_err(), "cut at {at}");
        }
        assert!(NumberRecord::parse(&format!("{text}\n")).is_err());
        let other = text.replace("reserved 262144", "reserved 1");
        assert_eq!(NumberRecord::parse(&other).map_err(|e| e.line), Err(6));
        assert_eq!(NumberRecord::parse("").map_err(|e| e.line), Err(1));
    }

    #[test]
    fn a_digest_tells_keys_apart_and_does_not_hold_them() {
        let id = |way, spi, byte| AssociationId::new(way, spi, &key(byte));
        let (out, into) = (Direction::Outbound, Direction::Inbound);
        assert_eq!(id(out, 256, 1), id(out, 257, 1), "nonces are the key's");
        assert_ne!(id(into, 256, 1), id(into, 257, 1), "SPIs are authenticated");
        assert_ne!(id(out, 256, 1), id(out, 256, 2));
        assert_ne!(id(out, 256, 1), id(into, 256, 1));
        assert!(!record().to_text().contains("0101010101"));
    }
}
