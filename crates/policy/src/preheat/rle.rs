//! Run-length code of line sets: what a preheater walks (Gottschlag 2016, Sec 4.1.1 and 5.3).
//!
//! ```text
//!   32 bits:  31                       6 5        0
//!            ┌──────────────────────────┬──────────┐
//!            │ number of the first line │ length-1 │
//!            └──────────────────────────┴──────────┘
//! ```
//!
//! A word is the address of a run's first line with the length of the run, less one, in the six
//! bits that are zero in such an address (assumption: less one; the text says the six low bits hold
//! the length, and that a run has up to 64 lines). Longer runs take several words. Words of 32 bits
//! reach 4 GiB; beyond that, words of 64 bits are laid out likewise.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::lines::{LineSet, Run};

/// Bits of the length.
pub const LENGTH_BITS: u32 = 6;
/// Most lines of a word.
pub const MOST_LINES: u64 = 1 << LENGTH_BITS;
/// Lines that words of 32 bits can name: those of 4 GiB.
pub const LINES_32: u64 = 1 << (32 - LENGTH_BITS);
/// Lines that words of 64 bits can name: all.
pub const LINES_64: u64 = 1 << (64 - LENGTH_BITS);

/// Lines that are decoded at once.
const SHORT: usize = 8;

/// A line that words of this width cannot name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooHigh {
    /// Number of the line.
    pub line: u64,
    /// Numbers must be below.
    pub limit: u64,
}

impl fmt::Display for TooHigh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {:#x} of the set: expected a number below {:#x}", self.line, self.limit)
    }
}

impl core::error::Error for TooHigh {}

/// Reason why a word is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RleError {
    /// The word begins before the one in front of it.
    Unsorted {
        /// Index of the word.
        index: usize,
    },
    /// The word begins inside of the run in front of it.
    Overlapping {
        /// Index of the word.
        index: usize,
    },
    /// The word ends after the last line that exists.
    Overflow {
        /// Index of the word.
        index: usize,
    },
}

impl fmt::Display for RleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RleError::Unsorted { index } => {
                write!(f, "word {index}: expected a run above the one before, found one below")
            }
            RleError::Overlapping { index } => {
                write!(f, "word {index}: expected a run above the one before, they overlap")
            }
            RleError::Overflow { index } => {
                write!(f, "word {index}: its run goes beyond the last line")
            }
        }
    }
}

impl core::error::Error for RleError {}

/// Words of 32 bits for a set of lines below 4 GiB.
///
/// # Errors
/// If a line is above.
pub fn encode32(lines: &LineSet) -> Result<Vec<u32>, TooHigh> {
    encode(lines.as_slice(), LINES_32, |word| word as u32)
}

/// Words of 64 bits for a set of lines.
///
/// # Errors
/// If a line has a number that no address has: 2^58 or more.
pub fn encode64(lines: &LineSet) -> Result<Vec<u64>, TooHigh> {
    encode(lines.as_slice(), LINES_64, |word| word)
}

/// Decodes words of 32 bits from an untrusted source.
///
/// # Errors
/// If they are out of order, overlap, or end beyond 4 GiB.
pub fn decode32(words: &[u32]) -> Result<LineSet, RleError> {
    decode(words, |&word| u64::from(word), LINES_32)
}

/// Decodes words of 64 bits from an untrusted source.
///
/// # Errors
/// If they are out of order, overlap, or end beyond the last line.
pub fn decode64(words: &[u64]) -> Result<LineSet, RleError> {
    decode(words, |&word| word, LINES_64)
}

/// The run of a word; those of 32 bits are widened.
#[inline]
#[must_use]
pub const fn run(word: u64) -> Run {
    Run { first: word >> LENGTH_BITS, lines: (word & (MOST_LINES - 1)) + 1 }
}

/// Lines of one word after the other, in the order of the words, which need not be ascending.
pub fn lines(words: &[u64]) -> impl Iterator<Item = u64> + '_ {
    words.iter().flat_map(|&word| {
        let Run { first, lines } = run(word);
        (0..lines).map(move |n| first + n)
    })
}

/// One word for each piece of consecutive, ascending lines; lines need not be ascending otherwise.
/// For orders that are not by address (Gottschlag 2016, Sec 6.6).
///
/// # Errors
/// If a line has a number that no address has.
pub fn encode64_in_order(lines: &[u64]) -> Result<Vec<u64>, TooHigh> {
    encode(lines, LINES_64, |word| word)
}

fn encode<W>(lines: &[u64], limit: u64, word: impl Fn(u64) -> W) -> Result<Vec<W>, TooHigh> {
    // Mean runs are longer than this (Sec 4.1.1: 3.3 lines).
    let mut words = Vec::with_capacity(lines.len() / 2);
    let mut i = 0;
    while i < lines.len() {
        let first = lines[i];
        let rest = lines[i..].iter().zip(0..MOST_LINES);
        let n = rest.take_while(|&(&line, n)| line.checked_sub(first) == Some(n)).count();
        let last = lines[i + n - 1];
        if last >= limit {
            return Err(TooHigh { line: last, limit });
        }
        words.push(word(first << LENGTH_BITS | (n as u64 - 1)));
        i += n;
    }
    Ok(words)
}

fn decode<W>(words: &[W], wide: impl Fn(&W) -> u64, limit: u64) -> Result<LineSet, RleError> {
    let (mut end, mut begin, mut total) = (0, 0, 0);
    for (index, word) in words.iter().enumerate() {
        let Run { first, lines } = run(wide(word));
        if first < begin {
            return Err(RleError::Unsorted { index });
        }
        if first < end {
            return Err(RleError::Overlapping { index });
        }
        (begin, end) = (first, first + lines);
        if end > limit {
            return Err(RleError::Overflow { index });
        }
        total += lines as usize;
    }
    // A branch at the end of each short run is often mispredicted: as many lines as most have are
    // written at once.
    let mut all = vec![0; total + SHORT];
    let mut at = 0;
    for word in words {
        let Run { first, lines } = run(wide(word));
        let lines = lines as usize;
        let room = if lines <= SHORT { SHORT } else { lines };
        all[at..at + room].iter_mut().zip(first..).for_each(|(line, number)| *line = number);
        at += lines;
    }
    all.truncate(total);
    Ok(LineSet::of_ascending(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(lines: impl IntoIterator<Item = u64>) -> LineSet {
        lines.into_iter().collect()
    }

    #[test]
    fn adjacent_lines_become_one_word() {
        // Lines at 0x40, 0x80, 0xc0 and at 0x10000: a run of three and one of one.
        let lines = set([1, 2, 3, 0x400]);
        assert_eq!(encode32(&lines), Ok(vec![0x42, 0x1_0000]));
        assert_eq!(decode32(&[0x42, 0x1_0000]), Ok(lines.clone()));
        assert_eq!(encode64(&lines), Ok(vec![0x42, 0x1_0000]));
        assert_eq!(encode32(&LineSet::new()), Ok(vec![]));
        assert_eq!(decode32(&[]), Ok(LineSet::new()));
    }

    #[test]
    fn a_run_of_a_word_has_64_lines() {
        // 130 lines from 0x1000: 64, 64 and 2.
        let lines = set(0x40..0x40 + 130);
        assert_eq!(encode32(&lines), Ok(vec![0x1000 | 63, 0x2000 | 63, 0x3000 | 1]));
        assert_eq!(decode32(&encode32(&lines).unwrap()), Ok(lines));
    }

    #[test]
    fn four_gib_are_the_end_of_32_bits() {
        let last = set([LINES_32 - 2, LINES_32 - 1]);
        assert_eq!(encode32(&last), Ok(vec![0xffff_ff81]));
        assert_eq!(decode32(&[0xffff_ff81]), Ok(last));
        let beyond = set([LINES_32 - 1, LINES_32]);
        assert_eq!(encode32(&beyond), Err(TooHigh { line: LINES_32, limit: LINES_32 }));
        assert_eq!(encode64(&beyond), Ok(vec![0xffff_ffc1]));
        assert_eq!(encode64(&set([LINES_64])), Err(TooHigh { line: LINES_64, limit: LINES_64 }));
        let edge = set([LINES_64 - 1]);
        assert_eq!(decode64(&encode64(&edge).unwrap()), Ok(edge));
    }

    #[test]
    fn words_of_others_are_checked() {
        assert_eq!(decode32(&[0x80, 0x40]), Err(RleError::Unsorted { index: 1 }));
        assert_eq!(decode32(&[0x41, 0x80]), Err(RleError::Overlapping { index: 1 }));
        assert_eq!(decode32(&[0x40, 0x40]), Err(RleError::Overlapping { index: 1 }));
        assert_eq!(decode32(&[0xffff_ffc1]), Err(RleError::Overflow { index: 0 }));
        assert_eq!(decode64(&[u64::MAX]), Err(RleError::Overflow { index: 0 }));
        // Two words that could be one are as good.
        assert_eq!(decode32(&[0x40, 0x80]), Ok(set([1, 2])));
    }

    #[test]
    fn other_orders_keep_theirs() {
        let order = [5, 6, 1, 2, 3, 9];
        let words = encode64_in_order(&order).unwrap();
        assert_eq!(words, [5 << 6 | 1, 1 << 6 | 2, 9 << 6]);
        assert!(lines(&words).eq(order));
        assert_eq!(encode64_in_order(&[u64::MAX, 0]).map_err(|e| e.line), Err(u64::MAX));
    }

    proptest! {
        #[test]
        fn encoded_set_decodes_equal(
            starts in prop::collection::vec((0u64..LINES_32 - 200, 1u64..200), 0..60),
        ) {
            let lines = set(starts.iter().flat_map(|&(first, n)| first..first + n));
            let words = encode32(&lines).unwrap();
            let decoded = decode32(&words).unwrap();
            prop_assert_eq!(&decoded, &lines);
            // As few words as runs cut at 64 lines take.
            let fewest: u64 = lines.runs().map(|run| run.lines.div_ceil(MOST_LINES)).sum();
            prop_assert_eq!(words.len() as u64, fewest);
            prop_assert_eq!(decode64(&encode64(&lines).unwrap()), Ok(lines));
        }

        /// Checks that accepted words from any source form one set.
        #[test]
        fn decoded_words_encode_to_the_same_lines(
            words in prop::collection::vec(any::<u32>(), 0..20),
        ) {
            if let Ok(lines) = decode32(&words) {
                let again = encode32(&lines).unwrap();
                prop_assert!(again.len() <= words.len());
                prop_assert_eq!(decode32(&again), Ok(lines));
            }
        }
    }
}
