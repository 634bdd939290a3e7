//! Sets of lines in a file (`.hws`), bound to what they are addresses of.
//!
//! ```text
//!   "HWLS" │ version u16 │ parts u16 │ part │ part │ ... │ checksum u64         little-endian
//!   part:    space u8 │ bytes of id u8 │ bytes of name u16 │ words u32 │ id │ name │ words u64 ...
//! ```
//!
//! Addresses of one run mean nothing in another: what a part is about has a name, and an id that
//! changes with its contents. Numbers of lines count from its beginning, wherever it is mapped, and
//! are run-length coded ([`super::rle`]). The checksum finds a file that was cut or went bad; it
//! keeps nobody from writing one, so words are checked, and who loads a set still asks where the
//! thing is mapped now.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::lines::LineSet;
use super::rle::{self, RleError, TooHigh};

/// Version of the layout.
pub const VERSION: u16 = 1;
/// Most bytes of an id.
pub const MAX_ID: usize = 32;
/// Most bytes of a name.
pub const MAX_NAME: usize = 4096;

const MAGIC: [u8; 4] = *b"HWLS";
const HEAD: usize = 8;
const PART_HEAD: usize = 8;
const CHECKSUM: usize = 8;
/// The checksum is no secret: what it guards against has no will.
const CHECKSUM_KEY: [u8; 16] = *b"halfwink-set-hws";

/// Address space of line numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[repr(u8)]
pub enum Space {
    /// Physical memory: true until the next start of the machine, whose boot id is the id.
    Physical = 0,
    /// An executable or a library, by offset in its image; the id is its build id.
    Image = 1,
    /// The kernel's text, by offset from its beginning; the id is the kernel's build id.
    KernelText = 2,
    /// A file's contents; the id is whatever changes with them, as device, inode, size and time.
    File = 3,
    /// The memory of a program, by address: true until it stops. The id is of that one start.
    Process = 4,
}

impl Space {
    /// All address spaces.
    pub const ALL: [Space; 5] =
        [Space::Physical, Space::Image, Space::KernelText, Space::File, Space::Process];
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Physical => "physical memory",
            Space::Image => "image",
            Space::KernelText => "kernel text",
            Space::File => "file",
            Space::Process => "memory of a program",
        })
    }
}

/// Lines of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Address space of the line numbers.
    pub space: Space,
    /// Changes with the contents: 1 to [`MAX_ID`] bytes.
    pub id: Vec<u8>,
    /// A path, or nothing: up to [`MAX_NAME`] bytes.
    pub name: String,
    /// Lines of the part.
    pub lines: LineSet,
}

/// Content of a set file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetFile {
    /// Parts of the set, one for each object that the service uses.
    pub parts: Vec<Part>,
}

/// Reason why bytes are not a set file. Places are offsets in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetFileError {
    /// The bytes do not begin with the magic number.
    Magic,
    /// The file has another version.
    Version {
        /// Version that was found.
        found: u16,
    },
    /// The file ends before its announced end.
    Cut {
        /// Begin of the incomplete field.
        at: usize,
    },
    /// Bytes follow the last part.
    Rest {
        /// Offset of the first of them.
        at: usize,
    },
    /// The checksum does not match.
    Checksum,
    /// The address space is unknown.
    Space {
        /// Offset of the byte.
        at: usize,
        /// Byte that was found.
        found: u8,
    },
    /// No id, or too long a one.
    Id {
        /// Offset of the field.
        at: usize,
        /// Number of bytes found.
        found: usize,
    },
    /// Too long a name, or not of UTF-8.
    Name {
        /// Offset of the field.
        at: usize,
    },
    /// Words are no set.
    Words {
        /// Offset of the first word.
        at: usize,
        /// Error in the words.
        error: RleError,
    },
}

impl fmt::Display for SetFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetFileError::Magic => f.write_str("expected a set of lines, found something else"),
            SetFileError::Version { found } => {
                write!(f, "expected version {VERSION} of a set of lines, found {found}")
            }
            SetFileError::Cut { at } => write!(f, "byte {at}: the file ends too early"),
            SetFileError::Rest { at } => write!(f, "byte {at}: expected the end of the file"),
            SetFileError::Checksum => f.write_str("the checksum is wrong: the file went bad"),
            SetFileError::Space { at, found } => {
                write!(f, "byte {at}: expected an address space up to 4, found {found}")
            }
            SetFileError::Id { at, found } => {
                write!(f, "byte {at}: expected an id of 1 to {MAX_ID} bytes, found {found}")
            }
            SetFileError::Name { at } => {
                write!(f, "byte {at}: expected a name of up to {MAX_NAME} bytes of UTF-8")
            }
            SetFileError::Words { at, error } => write!(f, "byte {at}: {error}"),
        }
    }
}

impl core::error::Error for SetFileError {}

/// The thing is another one than the set was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongBuild {
    /// Address space of the line numbers.
    pub space: Space,
    /// Name of the object.
    pub name: String,
    /// The id in the file.
    pub expected: Vec<u8>,
    /// The id of what is there; `None` if nothing is.
    pub found: Option<Vec<u8>>,
}

impl fmt::Display for WrongBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongBuild { space, name, expected, found } = self;
        let gap = if name.is_empty() { "" } else { " " };
        write!(f, "{space}{gap}{name}: expected build {}, found ", Hex(expected))?;
        match found {
            Some(found) => Hex(found).fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl core::error::Error for WrongBuild {}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Reason why a set cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// A line above all addresses.
    Line(TooHigh),
    /// More parts than 65535, or a part with too long an id or name, or too many words.
    TooLong {
        /// Number of the part.
        part: usize,
    },
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwritable::Line(error) => error.fmt(f),
            Unwritable::TooLong { part } => write!(f, "part {part} of the set is too long"),
        }
    }
}

impl core::error::Error for Unwritable {}

impl SetFile {
    /// The bytes of the file.
    ///
    /// # Errors
    /// If it has something that the layout has no room for.
    pub fn encode(&self) -> Result<Vec<u8>, Unwritable> {
        let mut bytes = Vec::new();
        let parts = u16::try_from(self.parts.len())
            // The first part that the field has no room for.
            .map_err(|_| Unwritable::TooLong { part: usize::from(u16::MAX) })?;
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(parts.to_le_bytes());
        for (number, part) in self.parts.iter().enumerate() {
            let words = rle::encode64(&part.lines).map_err(Unwritable::Line)?;
            let too_long = || Unwritable::TooLong { part: number };
            if !(1..=MAX_ID).contains(&part.id.len()) || part.name.len() > MAX_NAME {
                return Err(too_long());
            }
            bytes.extend([part.space as u8, part.id.len() as u8]);
            bytes.extend((part.name.len() as u16).to_le_bytes());
            bytes.extend(u32::try_from(words.len()).map_err(|_| too_long())?.to_le_bytes());
            bytes.extend(&part.id);
            bytes.extend(part.name.as_bytes());
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        let checksum = checksum(&bytes);
        bytes.extend(checksum.to_le_bytes());
        Ok(bytes)
    }

    /// Decodes bytes from an untrusted source.
    ///
    /// # Errors
    ///
    /// If they are not a set file, with the place of the error.
    pub fn decode(bytes: &[u8]) -> Result<SetFile, SetFileError> {
        if bytes.len() < HEAD + CHECKSUM {
            return Err(SetFileError::Cut { at: bytes.len() });
        }
        if bytes[..4] != MAGIC {
            return Err(SetFileError::Magic);
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        // Before the checksum: another version may have another one, and its files would be called
        // damaged.
        if version != VERSION {
            return Err(SetFileError::Version { found: version });
        }
        let (body, found) = bytes.split_at(bytes.len() - CHECKSUM);
        if checksum(body).to_le_bytes() != found {
            return Err(SetFileError::Checksum);
        }
        let mut cursor = Cursor { bytes: body, at: HEAD };
        let count = u16::from_le_bytes([bytes[6], bytes[7]]);
        // Not by the count: it is not to be believed before its parts are there.
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(cursor.part()?);
        }
        if cursor.at < body.len() {
            return Err(SetFileError::Rest { at: cursor.at });
        }
        Ok(SetFile { parts })
    }

    /// Checks that each part is of what is there now: `id_of` says the id of a thing, by space and
    /// name.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(
        &self,
        mut id_of: impl FnMut(Space, &str) -> Option<Vec<u8>>,
    ) -> Result<(), WrongBuild> {
        for Part { space, id, name, .. } in &self.parts {
            let found = id_of(*space, name);
            if found.as_ref() != Some(id) {
                let (name, expected) = (name.clone(), id.clone());
                return Err(WrongBuild { space: *space, name, expected, found });
            }
        }
        Ok(())
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], SetFileError> {
        let at = self.at;
        let end = at.checked_add(length).ok_or(SetFileError::Cut { at })?;
        let taken = self.bytes.get(at..end).ok_or(SetFileError::Cut { at })?;
        self.at = end;
        Ok(taken)
    }

    fn part(&mut self) -> Result<Part, SetFileError> {
        let at = self.at;
        let head = self.take(PART_HEAD)?;
        let space = Space::ALL.get(usize::from(head[0])).copied();
        let space = space.ok_or(SetFileError::Space { at, found: head[0] })?;
        let id_length = usize::from(head[1]);
        if !(1..=MAX_ID).contains(&id_length) {
            return Err(SetFileError::Id { at: at + 1, found: id_length });
        }
        let name_length = usize::from(u16::from_le_bytes([head[2], head[3]]));
        if name_length > MAX_NAME {
            return Err(SetFileError::Name { at: at + 2 });
        }
        let words = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let id = self.take(id_length)?.to_vec();
        let name_at = self.at;
        let name = core::str::from_utf8(self.take(name_length)?)
            .map_err(|_| SetFileError::Name { at: name_at })?;
        let words_at = self.at;
        // Where addresses have 32 bits, as in WebAssembly, a count that the file made up overflows.
        let length = words.checked_mul(8).ok_or(SetFileError::Cut { at: words_at })?;
        let words: Vec<u64> = self
            .take(length)?
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let lines =
            rle::decode64(&words).map_err(|error| SetFileError::Words { at: words_at, error })?;
        Ok(Part { space, id, name: String::from(name), lines })
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(&CHECKSUM_KEY);
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests;
