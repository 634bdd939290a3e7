//! Traces of the kernel's block layer: blktrace's binary files, and the text of blkparse.

use super::events::{Event, What};
use super::{File, LoadError};

/// A record of blktrace (`struct blk_io_trace`, linux/blktrace_api.h) without what follows it.
const RECORD: usize = 48;
/// The first word of each, with the version in its last byte.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 0x07;
/// Categories of an action, in its upper half (`enum blktrace_cat`).
const WRITES: u32 = 1 << 1;
const NOTIFIES: u32 = 1 << 10;
const DISCARDS: u32 = 1 << 13;

/// Whether a file begins with a record, of this or of the other byte order.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let Some(first) = bytes.first_chunk() else { return false };
    // A trace may have been recorded on a machine of the other byte order; blktrace writes its own.
    [u32::from_le_bytes(*first), u32::from_be_bytes(*first)].iter().any(|it| it & !0xff == MAGIC)
}

/// A record's fields, in the order of bytes of the machine that wrote it.
struct Record<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl Record<'_> {
    fn word(&self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[at..at + 4]);
        if self.is_big {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    }

    fn long(&self, at: usize) -> u64 {
        let (first, second) = (u64::from(self.word(at)), u64::from(self.word(at + 4)));
        if self.is_big {
            first << 32 | second
        } else {
            second << 32 | first
        }
    }

    /// Bytes that follow it.
    fn payload(&self) -> usize {
        let (low, high) = (self.bytes[46], self.bytes[47]);
        // Swapped before it is read, so that one conversion serves both byte orders.
        usize::from(u16::from_be_bytes(if self.is_big { [low, high] } else { [high, low] }))
    }

    fn event(&self) -> Option<Event> {
        let action = self.word(28);
        let category = action >> 16;
        // Names of processes and messages share the numbers of actions, and their payload is no
        // I/O.
        if category & NOTIFIES != 0 {
            return None;
        }
        // Bit 8 says that a cgroup's number follows.
        let what = match action & 0xff {
            1 => What::Queue,
            2 => What::BackMerge,
            3 => What::FrontMerge,
            7 => What::Issue,
            8 => What::Complete,
            _ => return None,
        };
        Some(Event {
            at_ns: self.long(8),
            cpu: self.word(40),
            device: self.word(36),
            what,
            sector: self.long(16),
            bytes: self.word(24),
            writes: category & WRITES != 0,
            discards: category & DISCARDS != 0,
        })
    }
}

/// Reads one CPU's file, or one with all (`blkparse -d`).
pub(super) fn read_binary(file: &File) -> Result<Vec<Event>, LoadError> {
    let (mut rest, mut events) = (&file.bytes[..], Vec::new());
    while !rest.is_empty() {
        let at = (file.bytes.len() - rest.len()) as u64;
        let wrong = |message: String| LoadError::of(file, Some(at), message);
        let Some(bytes) = rest.get(..RECORD) else {
            return Err(wrong(format!(
                "found {} bytes, expected a record of {RECORD}",
                rest.len()
            )));
        };
        let is_big = bytes[0] == MAGIC.to_be_bytes()[0];
        let record = Record { bytes, is_big };
        let magic = record.word(0);
        if magic != MAGIC | VERSION {
            let expected = MAGIC | VERSION;
            return Err(wrong(format!("found {magic:#x}, expected a record's {expected:#x}")));
        }
        let follows = record.payload();
        events.extend(record.event());
        // What follows a record is skipped unread: a process's name, or a driver's data.
        let Some(next) = rest.get(RECORD + follows..) else {
            return Err(wrong(format!("a record with {follows} bytes more, which are not there")));
        };
        rest = next;
    }
    Ok(events)
}

/// Whether a line of text begins as blkparse's do: `8,0 ...`.
pub(super) fn is_event(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| device(word).is_some())
}

pub(super) fn device(word: &str) -> Option<u32> {
    let (major, minor) = word.split_once(',')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// Seconds with a fraction, as whole nanoseconds.
pub(super) fn nanoseconds(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.').unwrap_or((word, ""));
    // More digits than nanoseconds would be cut off unseen; `parse` below would accept a sign.
    if fraction.len() > 9 || !fraction.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    // By digits, not as a floating-point number: seconds since the epoch leave a double a quarter
    // of a microsecond.
    let nanoseconds: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// Reads the default lines of blkparse: `8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]`. Its
/// summary, which begins with `CPU` or `Total`, ends it.
pub(super) fn read_text(file: &File, text: &str) -> Result<Vec<Event>, LoadError> {
    let mut events = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let Some(first) = words.next().filter(|first| !first.starts_with('#')) else { continue };
        if first.starts_with("CPU") || first == "Total" {
            break;
        }
        let wrong = |what: &str, found: Option<&str>| {
            let found = found.map_or_else(|| "nothing".to_owned(), |word| format!("`{word}`"));
            LoadError::of(file, Some(number), format!("{what}: found {found}"))
        };
        let device = device(first).ok_or_else(|| wrong("a device", Some(first)))?;
        let mut next = || words.next();
        let cpu = next();
        let cpu: u32 =
            cpu.and_then(|it| it.parse().ok()).ok_or_else(|| wrong("a CPU's number", cpu))?;
        let _sequence = next();
        let at = next();
        let at_ns = at.and_then(nanoseconds).ok_or_else(|| wrong("seconds", at))?;
        let _process = next();
        let what = match next() {
            Some("Q") => What::Queue,
            Some("M") => What::BackMerge,
            Some("F") => What::FrontMerge,
            Some("D") => What::Issue,
            Some("C") => What::Complete,
            // Plugging, remapping and the like: they move no data of their own.
            Some(_) => continue,
            None => return Err(wrong("an action", None)),
        };
        let Some(kind) = next() else { return Err(wrong("what it does", None)) };
        let (sector, plus, sectors) = (next(), next(), next());
        let (writes, discards) = (kind.contains('W'), kind.contains('D'));
        if plus != Some("+") {
            // A flush, or a command of a program's own: no sectors.
            let (sector, bytes) = (0, 0);
            events.push(Event { at_ns, cpu, device, what, sector, bytes, writes, discards });
            continue;
        }
        let number_of = |what, word: Option<&str>| {
            word.and_then(|it| it.parse::<u64>().ok()).ok_or_else(|| wrong(what, word))
        };
        let (sector, count) = (number_of("a sector", sector)?, number_of("sectors", sectors)?);
        let bytes = count.checked_mul(512).and_then(|it| u32::try_from(it).ok());
        let bytes = bytes.ok_or_else(|| wrong("sectors, less than 4 GiB", sectors))?;
        events.push(Event { at_ns, cpu, device, what, sector, bytes, writes, discards });
    }
    Ok(events)
}
