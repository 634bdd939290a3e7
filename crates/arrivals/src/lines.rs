//! Text that comes line by line, packed or not, with bad lines in it.

use halfwink_engine::LineError;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// Longer lines are bad.
pub(crate) const LONGEST_LINE: u64 = 1 << 16;
/// So many bad lines are kept as examples.
const EXAMPLES: usize = 5;
/// Why arrivals could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line without which the rest means nothing.
    #[error("{0}")]
    Line(#[from] LineError),
    /// More bad lines than were allowed.
    #[error("more than {limit} bad lines; the first one, {first}")]
    TooMany {
        /// Number of bad lines that are allowed.
        limit: u64,
        /// First bad line.
        first: LineError,
    },
    /// The file holds no arrivals.
    #[error("nothing to read, expected {expected}")]
    Empty {
        /// Content that was expected.
        expected: &'static str,
    },
    /// The arrivals last too long for a run.
    #[error("{found:.0} seconds from the first to the last, expected at most {most:.0}")]
    Span {
        /// Length in seconds.
        found: f64,
        /// Longest length that is allowed, in seconds.
        most: f64,
    },
}

/// Bad lines that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of lines.
    pub count: u64,
    /// The first few of them.
    pub examples: Vec<LineError>,
}

impl Skipped {
    /// One more.
    ///
    /// # Errors
    /// If that is one too many.
    pub(crate) fn add(&mut self, error: LineError, limit: u64) -> Result<(), ReadError> {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(error.clone());
        }
        if self.count <= limit {
            return Ok(());
        }
        Err(ReadError::TooMany { limit, first: self.examples.first().cloned().unwrap_or(error) })
    }
}

type Whole<'a> = BufReader<Chain<Cursor<Vec<u8>>, Box<dyn Read + 'a>>>;

/// Unpacks gzip, xz and Zstandard by their first bytes; passes on all else as it is.
///
/// # Errors
/// If it cannot be read.
pub fn unpack<'a>(reader: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut reader: Box<dyn Read + 'a> = Box::new(reader);
    let mut first = Vec::new();
    reader.by_ref().take(6).read_to_end(&mut first)?;
    let is = |magic: &[u8]| first.starts_with(magic);
    let (gzip, xz) = (is(&[0x1f, 0x8b]), is(&[0xfd, b'7', b'z', b'X', b'Z', 0]));
    let zstd = is(&[0x28, 0xb5, 0x2f, 0xfd]);
    let whole: Whole = BufReader::new(Cursor::new(first).chain(reader));
    Ok(if gzip {
        Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(whole)))
    } else if xz {
        Box::new(BufReader::new(liblzma::bufread::XzDecoder::new_multi_decoder(whole)))
    } else if zstd {
        Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(whole)?))
    } else {
        Box::new(whole)
    })
}

/// Line number, from 1, and content.
type Line<'a> = (u64, Result<&'a [u8], LineError>);

/// Lines and their numbers, without what ends them; long ones cut.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Lines<R> {
        Lines { reader, buffer: Vec::new(), number: 0 }
    }

    /// The next line, or that it is too long; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let read = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read as u64 == LONGEST_LINE && self.buffer.last() != Some(&b'\n') {
            self.skip_rest()?;
            let error = LineError::new(self.number, &self.buffer, "at most 65535 characters");
            return Ok(Some((self.number, Err(error))));
        }
        let line = &self.buffer[..];
        // A mark of UTF-8, as spreadsheets write it.
        let line = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.number == 1).unwrap_or(line);
        Ok(Some((self.number, Ok(line.trim_ascii()))))
    }

    /// Skips the rest of a line that is too long.
    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                return Ok(());
            }
            let end = available.iter().position(|&b| b == b'\n');
            let used = end.map_or(available.len(), |n| n + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> String {
        let mut text = String::new();
        unpack(bytes).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn packed_text_is_unpacked_by_what_it_is() {
        let text = "period,count\n1,2\n".repeat(100);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(text.as_bytes()).unwrap();
        let zst = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        let gz = gz.finish().unwrap();
        for packed in [&gz, &xz.finish().unwrap(), &zst, text.as_bytes()] {
            assert!(read(packed) == text, "{:?}", &packed[..4]);
        }
        // Two members, as of logs that were put together.
        assert_eq!(read(&[gz.clone(), gz].concat()).len(), 2 * text.len());
        assert_eq!(read(b""), "");
        assert_eq!(read(b"\x1f"), "\x1f");
    }

    #[test]
    fn long_lines_are_bad_and_end() {
        let text = format!("\u{feff}a\r\n{}\nb", "x".repeat(200_000));
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.next().unwrap(), Some((1, Ok(&b"a"[..]))));
        let (number, long) = lines.next().unwrap().unwrap();
        assert_eq!((number, long.unwrap_err().found.len()), (2, 60));
        assert_eq!(lines.next().unwrap(), Some((3, Ok(&b"b"[..]))));
        assert!(lines.next().unwrap().is_none());
    }
}
