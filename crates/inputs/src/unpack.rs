//! Layers of packing, recognised by their first bytes.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use crate::{tar, Budget, Problem};

/// `gz` of `tar` of `xz` is three.
const MOST_LAYERS: usize = 4;
/// Bytes that tell what a layer is: a block of tar.
pub(crate) const HEAD: usize = 512;
/// Memory that an xz or zstd stream may ask for.
const MEMORY: u64 = 512 << 20;
const WINDOW_LOG: u32 = 27;

type Source<'a> = BufReader<Chain<Cursor<Vec<u8>>, Box<dyn Read + Send + 'a>>>;

/// Packing that the first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Plain,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    Tar,
    Other(&'static str, &'static str),
}

fn layer(head: &[u8]) -> Layer {
    let is = |magic: &[u8]| head.starts_with(magic);
    if is(&[0x1f, 0x8b, 8]) {
        Layer::Gzip
    } else if is(b"\xfd7zXZ\0") {
        Layer::Xz
    } else if is(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Layer::Zstd
    } else if is(b"BZh") && head.get(4..10) == Some(&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59]) {
        Layer::Bzip2
    } else if is(&[0x04, 0x22, 0x4d, 0x18]) {
        Layer::Other("lz4", "lz4 -d FILE")
    } else if is(b"PK\x03\x04") {
        Layer::Other("zip", "unzip FILE")
    } else if is(b"7z\xbc\xaf\x27\x1c") {
        Layer::Other("7z", "7z x FILE")
    } else if is(b"Rar!\x1a\x07") {
        Layer::Other("rar", "unrar x FILE")
    } else if is(b"LZIP") {
        Layer::Other("lzip", "lzip -d FILE")
    } else if is(&[0x1f, 0x9d]) {
        Layer::Other("compress", "gzip -d FILE")
    } else if tar::is_tar(head) {
        Layer::Tar
    } else {
        Layer::Plain
    }
}

/// Returns what the first bytes show to be packed, and the command that unpacks it.
pub(crate) fn packing(head: &[u8]) -> Option<(&'static str, &'static str)> {
    match layer(head) {
        Layer::Plain => None,
        Layer::Gzip => Some(("gzip", "gzip -d FILE")),
        Layer::Xz => Some(("xz", "xz -d FILE")),
        Layer::Zstd => Some(("zstd", "zstd -d FILE")),
        Layer::Bzip2 => Some(("bzip2", "bzip2 -d FILE")),
        Layer::Tar => Some(("tar", "tar -xf FILE")),
        Layer::Other(what, how) => Some((what, how)),
    }
}

/// Unpacks gzip, xz, Zstandard, bzip2 and a tar of one file, over each other, by what they hold;
/// passes on all else as it is. What comes out of each layer counts against the budget.
///
/// # Errors
/// If it cannot be read, or is packed in another way.
pub fn unpack<'a>(
    raw: impl Read + Send + 'a,
    budget: &Budget,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut reader: Box<dyn Read + Send + 'a> = Box::new(Counted::plain(raw, budget));
    for depth in 0..=MOST_LAYERS {
        let mut head = Vec::with_capacity(HEAD);
        reader.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let found = layer(&head);
        let source: Source = BufReader::new(Cursor::new(head).chain(reader));
        if found == Layer::Plain {
            return Ok(Box::new(source));
        }
        if depth == MOST_LAYERS {
            break;
        }
        // What was packed is no longer held: its bytes are given back by not being counted.
        reader = decoder(found, source, budget)?;
    }
    Err(io::Error::other(Problem::Layers(MOST_LAYERS)))
}

fn decoder<'a>(
    layer: Layer,
    source: Source<'a>,
    budget: &Budget,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    fn counted<'a>(
        reader: impl Read + Send + 'a,
        what: &'static str,
        budget: &Budget,
    ) -> Box<dyn Read + Send + 'a> {
        Box::new(Counted { reader, budget: budget.clone(), what })
    }
    Ok(match layer {
        Layer::Gzip => counted(flate2::bufread::MultiGzDecoder::new(source), "gzip", budget),
        Layer::Bzip2 => counted(bzip2::bufread::MultiBzDecoder::new(source), "bzip2", budget),
        Layer::Xz => {
            let flags = liblzma::stream::CONCATENATED;
            let stream = liblzma::stream::Stream::new_stream_decoder(MEMORY, flags)?;
            counted(liblzma::bufread::XzDecoder::new_stream(source, stream), "xz", budget)
        }
        Layer::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
            decoder.window_log_max(WINDOW_LOG)?;
            counted(decoder, "zstd", budget)
        }
        Layer::Tar => Box::new(tar::OnlyFile::new(source)),
        Layer::Other(what, how) => return Err(io::Error::other(Problem::Packed { what, how })),
        Layer::Plain => Box::new(source),
    })
}

/// Counts what comes out of a layer, and names the layer in errors.
pub(crate) struct Counted<R> {
    reader: R,
    budget: Budget,
    what: &'static str,
}

impl<R> Counted<R> {
    /// Counts what is read before any layer is taken off.
    pub(crate) fn plain(reader: R, budget: &Budget) -> Counted<R> {
        Counted { reader, budget: budget.clone(), what: "" }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(buffer) {
            Ok(read) => self.budget.take(read as u64).map(|()| read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) if self.what.is_empty() || is_ours(&error) => Err(error),
            Err(error) => {
                let why = crate::plain(&error);
                Err(io::Error::other(Problem::Damaged { what: self.what, why }))
            }
        }
    }
}

fn is_ours(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Problem>)
}

/// Skips bytes.
pub(crate) fn skip(reader: &mut impl BufRead, mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let available = reader.fill_buf()?.len() as u64;
        if available == 0 {
            return Err(io::Error::other(Problem::BadTar("it ends in the middle of a file")));
        }
        let used = available.min(bytes);
        reader.consume(used as usize);
        bytes -= used;
    }
    Ok(())
}
