//! Account of a reader: everything that it found, and its use.

use std::fmt;

/// Bad lines of a hundred that are left out without being asked for.
pub const MOST_BAD: f64 = 5.0;

/// Words on a last line that may lack the end of its last number.
pub const NO_END: &str = "no newline ends it: its last number may be cut";

/// Returns true if the bytes end in a number and no newline: a longer number may have been cut.
#[must_use]
pub fn may_be_cut(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|last| last.is_ascii_digit() || *last == b'.')
}

/// Something that a reader found, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word by which `--ignore` names it: `trim`, `buffered`, `bad-lines`.
    pub word: String,
    /// A few words about it.
    pub about: String,
    /// Number of times that it was found.
    pub count: u64,
}

/// The three lists of a reader: what is played, what is left out and changes nothing that was
/// asked, and what matters but cannot be played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Format of the input: `common log format`.
    pub format: String,
    /// Played.
    pub played: Vec<Entry>,
    /// Left out; changes nothing that was asked.
    pub neutral: Vec<Entry>,
    /// Matters, and is not played.
    pub matters: Vec<Entry>,
}

impl Account {
    /// An account of an input that was taken for this.
    #[must_use]
    pub fn of(format: impl Into<String>) -> Account {
        Account { format: format.into(), ..Account::default() }
    }

    /// Counts something that is played.
    pub fn play(&mut self, word: &str, count: u64) {
        count_in(&mut self.played, word, "", count);
    }

    /// Counts something that is left out and changes nothing.
    pub fn leave_out(&mut self, word: &str, about: &str, count: u64) {
        count_in(&mut self.neutral, word, about, count);
    }

    /// Counts something that matters and is not played.
    pub fn miss(&mut self, word: &str, about: &str, count: u64) {
        count_in(&mut self.matters, word, about, count);
    }

    /// Checks that everything that matters was named by `--ignore`; moves that to what is left out.
    ///
    /// # Errors
    /// A line with all that was not named, and the option that names it.
    pub fn settle(&mut self, ignored: &[String]) -> Result<(), String> {
        let named = |entry: &Entry| ignored.contains(&entry.word);
        let (left_out, missed): (Vec<_>, Vec<_>) = self.matters.drain(..).partition(named);
        self.neutral.extend(left_out);
        self.matters = missed;
        if self.matters.is_empty() {
            return Ok(());
        }
        let words: Vec<&str> = self.matters.iter().map(|entry| entry.word.as_str()).collect();
        let told: Vec<String> = self.matters.iter().map(ToString::to_string).collect();
        Err(format!(
            "matters, but is not played: {}; `--ignore {}` plays the rest",
            told.join("; "),
            words.join(",")
        ))
    }

    /// Returns the entries that are left out, a few words each.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        self.neutral.iter().map(ToString::to_string).collect()
    }
}

fn count_in(list: &mut Vec<Entry>, word: &str, about: &str, count: u64) {
    if count == 0 {
        return;
    }
    match list.iter_mut().find(|entry| entry.word == word) {
        Some(entry) => entry.count += count,
        None => list.push(Entry { word: word.to_owned(), about: about.to_owned(), count }),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}", self.word)?,
            count => write!(f, "{count} {}", self.word)?,
        }
        if self.about.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.about)
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read as {}", self.format)?;
        for entry in &self.played {
            write!(f, ", {entry}")?;
        }
        if self.neutral.is_empty() {
            return Ok(());
        }
        write!(f, "; left out: {}", self.left_out().join(", "))
    }
}

/// Bad lines that a reader accepts, as a share of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// In percent.
    pub most_pct: f64,
}

impl Default for Share {
    fn default() -> Share {
        Share { most_pct: MOST_BAD }
    }
}

impl Share {
    /// Any share.
    pub const ALL: Share = Share { most_pct: 100.0 };

    /// Accepts so many bad lines of so many.
    #[must_use]
    pub fn accepts(self, bad: u64, all: u64) -> bool {
        100.0 * bad as f64 <= self.most_pct * all as f64
    }

    /// Ends reading early: after a thousand bad lines that are more than half.
    #[must_use]
    pub fn is_lost(self, bad: u64, all: u64) -> bool {
        bad >= 1000 && self.most_pct < 50.0 && 2 * bad > all
    }
}
