//! Opening a file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Cursor, IsTerminal, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::unpack::{packing, unpack, Counted, HEAD};
use crate::{decoded, Budget, InputError, Problem};

/// A longer file with less than one byte in so many on disk is sparse. File systems that compress
/// store logs at a fiftieth at best.
const SPARSE: u64 = 1000;
const SPARSE_FROM: u64 = 1 << 20;

/// A packed file with more bytes than these may unpack to at most so many times its size. Logs of
/// the same line over and over reach a thousand, of far fewer bytes.
const BOMB_FROM: u64 = 1 << 28;
const BOMB: u64 = 256;

/// Bytes in which a text has the end of a line, mostly.
const LOOKED_AT: u64 = 1 << 12;

/// Returns whether lines end as those of old Macs: all of them would be taken for one.
fn has_old_lines(head: &[u8]) -> bool {
    let inner = head.trim_ascii();
    inner.contains(&b'\r') && !head.contains(&b'\n') && !head.contains(&0)
}

/// An input, unpacked.
pub struct Opened {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
}

impl Opened {
    /// The file that was opened; `-` for standard input.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Converts the input to UTF-8 without a byte order mark; UTF-16 is converted at once.
    ///
    /// # Errors
    /// If UTF-16 is damaged, or more than the budget allows.
    pub fn text(mut self) -> Result<Opened, InputError> {
        let mut head = Vec::new();
        let wrong = |error| InputError::at(&self.path, error);
        self.reader.by_ref().take(LOOKED_AT).read_to_end(&mut head).map_err(wrong)?;
        if has_old_lines(&head) {
            let why = "has lines that end in a carriage return alone; `tr '\\r' '\\n' < FILE > \
                       lines.txt` mends them";
            return Err(InputError::at(&self.path, Problem::Encoding(why.to_owned())));
        }
        let rest = self.reader;
        let reader: Box<dyn Read + Send> = match head[..] {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                let mut bytes = head;
                let mut rest = rest;
                rest.read_to_end(&mut bytes).map_err(|e| InputError::at(&self.path, e))?;
                let text = decoded(bytes);
                let text =
                    text.map_err(|why| InputError::at(&self.path, Problem::Encoding(why)))?;
                Box::new(Cursor::new(text))
            }
            [0xef, 0xbb, 0xbf, ..] => {
                head.drain(..3);
                Box::new(Cursor::new(head).chain(rest))
            }
            _ => Box::new(Cursor::new(head).chain(rest)),
        };
        Ok(Opened { path: self.path, reader })
    }

    /// All bytes.
    ///
    /// # Errors
    /// If they cannot be read, are damaged, or more than the budget allows.
    pub fn bytes(mut self) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(InputError::at(&self.path, error)),
        }
    }
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// Reader of an unpacked file that ends with an error where it is a bomb.
pub(crate) struct Bounded {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) left: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(Problem::Bomb(BOMB))),
        }
        Ok(read)
    }
}

/// The path with a leading `~` as the home folder, unless a file has that very name.
#[must_use]
pub fn expand(path: &Path) -> PathBuf {
    let Ok(rest) = path.strip_prefix("~") else { return path.to_owned() };
    match std::env::var_os("HOME") {
        Some(home) if !home.is_empty() && fs::symlink_metadata(path).is_err() => {
            Path::new(&home).join(rest)
        }
        _ => path.to_owned(),
    }
}

/// Opens a regular file, or standard input as `-`, and unpacks it by what it holds.
///
/// # Errors
/// If it is not there, no regular file, sparse, larger than the budget, or packed in a way that is
/// not unpacked here.
pub fn open_input(path: &Path, budget: &Budget) -> Result<Opened, InputError> {
    let (path, raw) = raw(path, budget)?;
    // Standard input of a pipe has no size.
    let size = fs::metadata(&path).map_or(u64::MAX, |meta| meta.len());
    let reader = unpack(raw, budget).map_err(|error| InputError::at(&path, error))?;
    let left = size.saturating_mul(BOMB).max(BOMB_FROM);
    Ok(Opened { path, reader: Box::new(Bounded { reader, left }) })
}

/// Reads a short text, such as a description or a configuration: of a regular file, or of standard
/// input as `-`. A program that reads nothing else links no decompressor.
///
/// # Errors
/// If it is not there, no regular file, sparse, larger than the budget, packed, or damaged UTF-16.
pub fn read_text(path: &Path, budget: &Budget) -> Result<Vec<u8>, InputError> {
    let (path, raw) = raw(path, budget)?;
    let at = |problem| InputError::at(&path, problem);
    let mut reader = Counted::plain(raw, budget);
    let mut head = Vec::with_capacity(HEAD);
    reader.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(|e| at(e.into()))?;
    if let Some((what, how)) = packing(&head) {
        return Err(at(Problem::PackedText { what, how }));
    }
    let reader = Box::new(Cursor::new(head).chain(reader));
    Opened { path, reader }.text()?.bytes()
}

/// Reads a text of at most so many bytes, as [`read_text`] does, that has to be UTF-8.
///
/// # Errors
/// As of [`read_text`], or if it is in another encoding.
pub fn read_string(path: &Path, most: u64) -> Result<String, InputError> {
    let bytes = read_text(path, &Budget::new(most))?;
    let wrong = || Problem::Encoding("is no text, expected UTF-8".to_owned());
    String::from_utf8(bytes).map_err(|_| InputError::at(path, wrong()))
}

/// The path, expanded, and what it holds as it is.
fn raw(path: &Path, budget: &Budget) -> Result<(PathBuf, Box<dyn Read + Send>), InputError> {
    let path = expand(path);
    if path.as_os_str() != "-" {
        let file = regular(&path, budget).map_err(|problem| InputError::at(&path, problem))?;
        return Ok((path, Box::new(file)));
    }
    let input = io::stdin();
    if input.is_terminal() {
        return Err(InputError::at(&path, Problem::Terminal));
    }
    Ok((path, Box::new(input)))
}

/// Opens an input and reads all of it.
///
/// # Errors
/// As of [`open_input`], or if it is damaged.
pub fn read_input(path: &Path, budget: &Budget) -> Result<Vec<u8>, InputError> {
    open_input(path, budget)?.bytes()
}

/// Reads all of an input as it is, whatever it is packed in, and links no decompressor.
///
/// # Errors
/// If it is not there, no regular file, sparse, or larger than the budget.
pub fn read_plain(path: &Path, budget: &Budget) -> Result<Vec<u8>, InputError> {
    let (path, raw) = raw(path, budget)?;
    Opened { path, reader: Box::new(Counted::plain(raw, budget)) }.bytes()
}

/// Opens a regular file as it is, for readers that go back and forth in it; `~` is expanded.
///
/// # Errors
/// If it is not there, or no regular file; not if it is large.
pub fn open_regular(path: &Path) -> Result<File, InputError> {
    let path = expand(path);
    regular(&path, &Budget::new(u64::MAX)).map_err(|problem| InputError::at(&path, problem))
}

fn regular(path: &Path, budget: &Budget) -> Result<File, Problem> {
    // A device may do something when it is opened: looked at before.
    check(&fs::metadata(path)?, budget)?;
    // A FIFO that took its place since then must not wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?, budget)?;
    Ok(file)
}

fn check(meta: &Metadata, budget: &Budget) -> Result<(), Problem> {
    let kind = meta.file_type();
    let found = if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else if kind.is_socket() {
        "a socket"
    } else {
        let (bytes, stored) = (meta.len(), meta.blocks().saturating_mul(512));
        if bytes >= SPARSE_FROM && stored < bytes / SPARSE {
            return Err(Problem::Sparse { stored, bytes });
        }
        if bytes > budget.left() {
            return Err(Problem::Budget(budget.all()));
        }
        return Ok(());
    };
    Err(Problem::Kind(found))
}
