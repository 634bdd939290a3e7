//! Message bodies of HTTP/1.1 (RFC 9112, sections 6 and 7): where they end, strictly, and how they
//! are written. Nothing that is not exactly as the RFC says is taken: what two parsers read
//! differently is how requests are smuggled.

use super::stream::Buffer;

/// Framing of a body, which marks its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The message has no body.
    None,
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// The end of the connection ends the body; responses only.
    Close,
}

/// A body is not as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBody;

/// Position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// Within the size; value and number of digits.
    Size(u64, u8),
    /// Within an extension.
    Extension,
    /// Before the line feed after a size; the size.
    SizeEnd(u64),
    /// Within data, with the bytes left.
    Data(u64),
    /// At the line end after data.
    DataEnd,
    DataLineFeed,
    /// At the start of a line of the trailers.
    Line,
    /// Within the name of a trailer field.
    TrailerName,
    /// Within the value of a trailer field.
    Trailer,
    TrailerLineFeed,
    /// Before the line feed of the last line.
    LastLineFeed,
}

/// Finds the end of a body, and gives what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoder {
    framing: Framing,
    left: u64,
    chunk: Chunk,
    size: u64,
    /// Bytes of extensions and trailers.
    beside: usize,
    done: bool,
}

impl Decoder {
    /// Extensions and trailers of one body, in bytes, at most.
    const MOST_BESIDE: usize = 8 << 10;

    /// At the start of a body.
    #[must_use]
    pub fn new(framing: Framing) -> Decoder {
        let left = if let Framing::Length(length) = framing { length } else { 0 };
        let done = matches!(framing, Framing::None | Framing::Length(0));
        Decoder { framing, left, chunk: Chunk::Size(0, 0), size: 0, beside: 0, done }
    }

    /// The end has been found.
    #[inline]
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns the number of the `there` bytes at hand that are data without framing in between;
    /// none in a chunked body.
    #[inline]
    #[must_use]
    pub fn straight(&self, there: usize) -> usize {
        match self.framing {
            Framing::Length(_) => there.min(usize::try_from(self.left).unwrap_or(there)),
            Framing::Close if !self.done => there,
            _ => 0,
        }
    }

    /// Marks `count` of these bytes as taken.
    #[inline]
    pub fn pass(&mut self, count: usize) {
        debug_assert!(self.straight(count) == count);
        self.passed(count as u64);
    }

    /// The connection has ended: the end of a body, or a mistake.
    ///
    /// # Errors
    /// The body is cut off.
    pub fn close(&mut self) -> Result<(), BadBody> {
        self.done |= self.framing == Framing::Close;
        if self.done {
            Ok(())
        } else {
            Err(BadBody)
        }
    }

    /// Takes what it can, and gives the data in it to `give`; stops once `most` bytes were given.
    ///
    /// # Errors
    /// It is no body.
    #[inline]
    pub fn take(
        &mut self,
        input: &mut Buffer,
        most: usize,
        mut give: impl FnMut(&[u8]),
    ) -> Result<usize, BadBody> {
        let mut given = 0;
        while !self.done && !input.is_empty() && given < most {
            let there = input.get();
            let room = (most - given).min(there.len());
            let count = match self.framing {
                Framing::Close => room,
                Framing::Length(_) => room.min(usize::try_from(self.left).unwrap_or(room)),
                _ => match self.chunk {
                    Chunk::Data(left) => room.min(usize::try_from(left).unwrap_or(room)),
                    _ => {
                        let byte = there[0];
                        input.take(1);
                        self.beside(byte)?;
                        continue;
                    }
                },
            };
            give(&there[..count]);
            given += count;
            input.take(count);
            self.passed(count as u64);
        }
        Ok(given)
    }

    fn passed(&mut self, count: u64) {
        match (self.framing, self.chunk) {
            (Framing::Length(_), _) => {
                self.left -= count;
                self.done = self.left == 0;
            }
            (Framing::Chunked, Chunk::Data(left)) if left == count => self.chunk = Chunk::DataEnd,
            (Framing::Chunked, Chunk::Data(left)) => self.chunk = Chunk::Data(left - count),
            _ => {}
        }
    }

    /// A byte of a chunked body that is no data.
    fn beside(&mut self, byte: u8) -> Result<(), BadBody> {
        self.chunk = match (self.chunk, byte) {
            (Chunk::Size(size, digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).ok_or(BadBody)?;
                // Sixteen digits would overflow what others count with.
                if digits >= 15 {
                    return Err(BadBody);
                }
                Chunk::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (Chunk::Size(_, 0), _) => return Err(BadBody),
            (Chunk::Size(size, _), b'\r') => Chunk::SizeEnd(size),
            (Chunk::Size(size, _), b';') => {
                self.size = size;
                Chunk::Extension
            }
            (Chunk::Extension, b'\r') => Chunk::SizeEnd(self.size),
            (Chunk::Extension | Chunk::Trailer, b'\t' | 0x20..=0x7e | 0x80..) => self.count()?,
            (Chunk::SizeEnd(0), b'\n') => Chunk::Line,
            (Chunk::SizeEnd(size), b'\n') => Chunk::Data(size),
            (Chunk::DataEnd, b'\r') => Chunk::DataLineFeed,
            (Chunk::DataLineFeed, b'\n') => Chunk::Size(0, 0),
            (Chunk::Line, b'\r') => Chunk::LastLineFeed,
            (Chunk::Line | Chunk::TrailerName, byte) if is_token(byte) => {
                self.count()?;
                Chunk::TrailerName
            }
            (Chunk::TrailerName, b':') => Chunk::Trailer,
            (Chunk::Trailer, b'\r') => Chunk::TrailerLineFeed,
            (Chunk::TrailerLineFeed, b'\n') => Chunk::Line,
            (Chunk::LastLineFeed, b'\n') => {
                self.done = true;
                Chunk::Line
            }
            _ => return Err(BadBody),
        };
        Ok(())
    }

    fn count(&mut self) -> Result<Chunk, BadBody> {
        self.beside += 1;
        if self.beside > Decoder::MOST_BESIDE {
            return Err(BadBody);
        }
        Ok(self.chunk)
    }
}

/// Returns whether a byte may be part of a field name (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Writer of a body's framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// Writes data without framing.
    Plain,
    /// Writes data in chunks.
    Chunked,
}

impl Encoder {
    /// Returns the encoder for this framing.
    #[must_use]
    pub fn of(framing: Framing) -> Encoder {
        if framing == Framing::Chunked {
            Encoder::Chunked
        } else {
            Encoder::Plain
        }
    }

    /// Writes a piece of the body.
    #[inline]
    pub fn piece(self, data: &[u8], out: &mut Vec<u8>) {
        if self == Encoder::Plain {
            out.extend_from_slice(data);
        } else if !data.is_empty() {
            use std::io::Write;
            // Writing to memory cannot fail.
            let _ = write!(out, "{:x}\r\n", data.len());
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes the end of the body.
    #[inline]
    pub fn end(self, out: &mut Vec<u8>) {
        if self == Encoder::Chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All at once, or byte by byte.
    fn decode(
        framing: Framing,
        text: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, bool, usize), BadBody> {
        let (mut decoder, mut input) = (Decoder::new(framing), Buffer::default());
        let mut data = Vec::new();
        for part in text.chunks(step) {
            input.end().extend(part);
            decoder.take(&mut input, usize::MAX, |piece| data.extend(piece))?;
        }
        Ok((data, decoder.is_done(), input.len()))
    }

    #[test]
    fn bodies_end_where_they_end() {
        for step in [1, 2, 1000] {
            let chunked = b"4\r\nWiki\r\n5;a=\"b\"\r\npedia\r\n0\r\nX: y\r\n\r\nGET";
            let found = decode(Framing::Chunked, chunked, step).unwrap();
            assert_eq!(found, (b"Wikipedia".to_vec(), true, 3), "{step}");
            assert_eq!(decode(Framing::Length(3), b"abcde", step).unwrap().2, 2);
            assert_eq!(decode(Framing::None, b"abc", step).unwrap(), (vec![], true, 3));
            assert!(!decode(Framing::Close, b"abc", step).unwrap().1);
        }
        assert_eq!(Decoder::new(Framing::Length(1)).close(), Err(BadBody));
        assert_eq!(Decoder::new(Framing::Close).close(), Ok(()));
    }

    #[test]
    fn what_is_nearly_a_chunk_is_none() {
        for bad in [
            &b"\r\n"[..],
            b"4\nWiki\r\n0\r\n\r\n",
            b"4\r\nWiki\n0\r\n\r\n",
            b"4\r\nWikix\r\n0\r\n\r\n",
            b"+4\r\nWiki\r\n",
            b"-1\r\n",
            b" 4\r\nWiki\r\n",
            b"4 \r\nWiki\r\n",
            b"0x4\r\nWiki\r\n",
            b"fffffffffffffffff\r\n",
            b"00000000000000004\r\nWiki\r\n",
            b"4;a\nWiki\r\n",
            b"4;a\rb\r\nWiki\r\n",
            b"4;\0\r\nWiki\r\n",
            b"0\r\n\n",
            b"0\r\nX: y\n\r\n",
            b"0\r\n X: y\r\n\r\n",
            b"0\r\nX y\r\n\r\n",
            b"0\r\nno colon\r\n\r\n",
            b"0\r\nX\r\n\r\n",
            b"0\r\n: y\r\n\r\n",
            b"0\r\nX : y\r\n\r\n",
            b"0\r\nX(: y\r\n\r\n",
            b"0\r\nX: y\r\n y\r\n\r\n",
            b"0\r\n\rX",
            b"g\r\n",
        ] {
            let found = decode(Framing::Chunked, bad, 1);
            assert_eq!(found, Err(BadBody), "{:?}", String::from_utf8_lossy(bad));
        }
        let long = [b"1;".to_vec(), vec![b'a'; 9000]].concat();
        assert_eq!(decode(Framing::Chunked, &long, 4096), Err(BadBody));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        for piece in [&b"one"[..], b"", b"seventeen letters"] {
            Encoder::Chunked.piece(piece, &mut out);
        }
        Encoder::Chunked.end(&mut out);
        let (data, done, left) = decode(Framing::Chunked, &out, 7).unwrap();
        assert_eq!((data, done, left), (b"oneseventeen letters".to_vec(), true, 0));
    }
}
