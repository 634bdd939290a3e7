//! A tar with one file in it (POSIX.1-1988 ustar, pax and GNU headers).

use std::io::{self, BufRead, Read};

use crate::unpack::{skip, HEAD};
use crate::Problem;

/// Names that are told of a tar of several.
const TOLD: usize = 4;
/// Longest header of an extension: names and times.
const LONGEST_EXTENSION: u64 = 1 << 20;

/// Returns whether these bytes are the first header of a tar.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    head.len() == HEAD && head.get(257..262) == Some(b"ustar") && Header(head).is_whole()
}

/// A header's block.
struct Header<'a>(&'a [u8]);

impl Header<'_> {
    /// The sum of its bytes, with spaces for the sum itself.
    fn is_whole(&self) -> bool {
        let sum = |(at, byte): (usize, &u8)| match at {
            148..=155 => u64::from(b' '),
            _ => u64::from(*byte),
        };
        self.number(148..156) == Some(self.0.iter().enumerate().map(sum).sum())
    }

    /// In octal digits, or for large ones as binary (GNU).
    fn number(&self, at: std::ops::Range<usize>) -> Option<u64> {
        let field = &self.0[at];
        if field[0] & 0x80 != 0 {
            let low = field.last_chunk::<8>()?;
            return Some(u64::from_be_bytes(*low) & (u64::MAX >> 1));
        }
        let text = std::str::from_utf8(field).ok()?;
        let text = text.trim_matches([' ', '\0']);
        if text.is_empty() {
            Some(0)
        } else {
            u64::from_str_radix(text, 8).ok()
        }
    }

    fn name(&self) -> String {
        let text = |at: std::ops::Range<usize>| {
            let field = self.0[at].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(field).into_owned()
        };
        match text(345..500) {
            prefix if prefix.is_empty() || self.0[262] != 0 => text(0..100),
            prefix => format!("{prefix}/{}", text(0..100)),
        }
    }
}

/// Reads the only file of a tar. That there is another one is known when the first one ends, and is
/// an error then.
pub(crate) struct OnlyFile<R> {
    reader: R,
    /// Bytes of the file that are left, and zeros behind it.
    left: u64,
    padding: u64,
    /// Names of files that were found.
    names: Vec<String>,
    more: usize,
    /// No header is left.
    ended: bool,
}

impl<R: BufRead> OnlyFile<R> {
    pub(crate) fn new(reader: R) -> OnlyFile<R> {
        OnlyFile { reader, left: 0, padding: 0, names: Vec::new(), more: 0, ended: false }
    }

    /// The size of the next file with a content, and its name; none at the end.
    fn next_file(&mut self) -> io::Result<Option<(u64, String)>> {
        let bad = |why| io::Error::other(Problem::BadTar(why));
        let mut long_name = None;
        loop {
            let mut block = Vec::with_capacity(HEAD);
            self.reader.by_ref().take(HEAD as u64).read_to_end(&mut block)?;
            if block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            if block.len() < HEAD {
                return Err(bad("it ends in the middle of a header"));
            }
            let header = Header(&block);
            let size = header.number(124..136).filter(|_| header.is_whole());
            let size = size.ok_or_else(|| bad("a header's sum is wrong"))?;
            let padded = size.checked_next_multiple_of(HEAD as u64);
            let padded = padded.ok_or_else(|| bad("a file's size is impossible"))?;
            match block[156] {
                // GNU's long name: the next header's.
                b'L' if size <= LONGEST_EXTENSION => {
                    let mut name = Vec::new();
                    self.reader.by_ref().take(size).read_to_end(&mut name)?;
                    skip(&mut self.reader, padded - size)?;
                    let name = String::from_utf8_lossy(&name);
                    long_name = Some(name.trim_matches('\0').to_owned());
                }
                b'x' | b'g' | b'K' | b'L' if size > LONGEST_EXTENSION => {
                    return Err(bad("an extension's size is impossible"));
                }
                b'0' | b'\0' | b'7' => {
                    let name = long_name.take().unwrap_or_else(|| header.name());
                    self.padding = padded - size;
                    let is_shadow = name.rsplit('/').next().is_some_and(|n| n.starts_with("._"));
                    // macOS keeps attributes beside each file.
                    if !is_shadow {
                        return Ok(Some((size, name)));
                    }
                    skip(&mut self.reader, padded)?;
                }
                _ => skip(&mut self.reader, padded)?,
            }
        }
    }

    /// Finds the first file, or that there is no other.
    fn step(&mut self) -> io::Result<()> {
        skip(&mut self.reader, std::mem::take(&mut self.padding))?;
        let found = self.next_file()?;
        if let (Some((size, name)), true) = (&found, self.names.is_empty()) {
            self.left = *size;
            self.names.push(name.clone());
            return Ok(());
        }
        self.ended = true;
        let mut next = found;
        while let Some((size, name)) = next {
            if self.names.len() < TOLD {
                self.names.push(name);
            } else {
                self.more += 1;
            }
            skip(&mut self.reader, size + std::mem::take(&mut self.padding))?;
            next = self.next_file()?;
        }
        if self.names.len() == 1 {
            return Ok(());
        }
        let mut names = self.names.clone();
        if self.more > 0 {
            names.push(format!("{} more", self.more));
        }
        Err(io::Error::other(Problem::Tar(names)))
    }
}

impl<R: BufRead> Read for OnlyFile<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 && !self.ended {
            self.step()?;
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let read = self.reader.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::Error::other(Problem::BadTar("it ends in the middle of a file")));
        }
        self.left -= read as u64;
        Ok(read)
    }
}
