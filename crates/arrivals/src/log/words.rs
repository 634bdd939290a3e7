//! Words of lines: numbers, statuses and times in brackets.

use super::super::moment::{common, When};

pub(super) fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

pub(super) fn whole(word: &[u8]) -> Option<u64> {
    text(word)?.parse().ok()
}

pub(super) fn real(word: &[u8]) -> Option<f64> {
    text(word)?.parse().ok().filter(|it: &f64| it.is_finite())
}

pub(super) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    line.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty())
}

/// Returns the first time in brackets, and what follows it. Other brackets before it are addresses
/// and users.
pub(super) fn bracketed(line: &[u8]) -> Option<(When, &[u8])> {
    let mut from = 0;
    while let Some(open) = line[from..].iter().position(|&b| b == b'[').map(|at| from + at) {
        let close = open + line[open..].iter().position(|&b| b == b']')?;
        let inside = &line[open + 1..close];
        let when = common(inside).or_else(|| When::parse(text(inside)?));
        // `[12]` is a process; a number that is a time has ten digits or more.
        let is_time = |when: &When| !matches!(when, When::Number(number) if *number < 1e8);
        if let Some(when) = when.filter(is_time) {
            return Some((when, line[close + 1..].trim_ascii_start()));
        }
        from = open + 1;
    }
    None
}

pub(super) fn is_status(word: &[u8]) -> bool {
    word.len() == 3 && word.iter().all(u8::is_ascii_digit)
}
