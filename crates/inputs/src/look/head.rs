//! First bytes of a file, as rows of the registry look at them.

use std::borrow::Cow;

/// Bytes whose text is looked at.
const LOOKED_AT: usize = 1 << 16;

/// First bytes of a file.
pub(super) struct Head<'a> {
    bytes: &'a [u8],
    text: Cow<'a, str>,
}

impl<'a> Head<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Head<'a> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Head { bytes, text: String::from_utf8_lossy(&bytes[..bytes.len().min(LOOKED_AT)]) }
    }

    /// Returns whether the file begins with these bytes.
    pub(super) fn is(&self, magic: &[u8]) -> bool {
        self.bytes.starts_with(magic)
    }

    /// Returns whether the first line has a word.
    pub(super) fn has(&self, word: &str) -> bool {
        self.text.lines().next().is_some_and(|line| line.contains(word))
    }

    /// Returns whether the text has a word.
    pub(super) fn within(&self, word: &str) -> bool {
        self.text.contains(word)
    }

    /// Returns the lines that are not blank, without blanks around them.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty())
    }

    /// Returns the first line that is not blank; empty if there is none.
    pub(super) fn first(&self) -> &str {
        self.lines().next().unwrap_or_default()
    }

    /// Returns whether the file is an object of JSON.
    pub(super) fn is_object(&self) -> bool {
        self.first().starts_with('{')
    }

    /// Returns whether the file is a list of objects of JSON.
    pub(super) fn is_list(&self) -> bool {
        let rest = self.text.strip_prefix('[').map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with('{'))
    }

    /// Returns whether the file is printable text.
    pub(super) fn is_text(&self) -> bool {
        let is_printed = |c: char| !c.is_control() && c != char::REPLACEMENT_CHARACTER;
        !self.text.is_empty() && self.text.chars().all(|c| is_printed(c) || "\t\r\n".contains(c))
    }
}

/// Returns whether a word is a number in base 16, with `0x` or without.
pub(super) fn is_hex(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
