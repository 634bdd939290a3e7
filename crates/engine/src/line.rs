//! Errors at a line of a text that is no TOML.

/// Longest part of a line that is shown, in characters.
const SHOWN: usize = 60;

/// A line that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: found `{found}`, expected {expected}")]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: u64,
    /// The line, or its beginning.
    pub found: String,
    /// Description of a valid line.
    pub expected: &'static str,
}

impl LineError {
    /// An error at a line, of which the first 60 printable characters are kept.
    #[must_use]
    pub fn new(line: u64, found: &[u8], expected: &'static str) -> LineError {
        let text = String::from_utf8_lossy(&found[..found.len().min(4 * SHOWN)]).into_owned();
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        LineError { line, found: text.chars().take(SHOWN).map(printable).collect(), expected }
    }
}
