//! Lines for people on standard error, which may be a full disk, a pipe that nobody reads any more,
//! or closed: no program ends because of it.

use std::collections::HashMap;
use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A span for which lines are counted, lines of one text that are printed in it, and texts.
const SPAN: Duration = Duration::from_secs(10);
const OF_A_TEXT: u32 = 10;
const TEXTS: usize = 256;

/// Writes a line on standard error, as `eprintln!` does, if that takes it.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::program::say::line(format_args!($($text)*)) };
}

/// Writes a line on standard error, if that takes it.
pub fn line(text: Arguments<'_>) {
    // There is no other place to tell of the error.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Lines that events of the outside cause, which may be many: each text is printed ten times in ten
/// seconds at most, and the number of those left out behind it.
#[derive(Debug, Default)]
pub struct Limited(Mutex<Span>);

#[derive(Debug, Default)]
struct Span {
    begun: Option<Instant>,
    texts: HashMap<String, u32>,
    left_out: u64,
}

impl Limited {
    /// Writes a line, unless its text was written often a moment ago.
    pub fn line(&self, text: &str) {
        let lines =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).take(text, Instant::now());
        lines.iter().for_each(|text| line(format_args!("halfwink: {text}")));
    }
}

impl Span {
    /// Returns the lines to write at a moment at which there is a text.
    fn take(&mut self, text: &str, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        if self.begun.is_none_or(|begun| now.duration_since(begun) >= SPAN) {
            if self.left_out > 0 {
                lines.push(format!("left out {} lines like those before", self.left_out));
            }
            *self = Span { begun: Some(now), ..Span::default() };
        }
        // Texts that differ each time must not fill the memory either.
        let is_known = self.texts.contains_key(text);
        if !is_known && self.texts.len() == TEXTS {
            self.left_out += 1;
            return lines;
        }
        let count = self.texts.entry(text.to_owned()).or_default();
        if *count == OF_A_TEXT {
            self.left_out += 1;
        } else {
            *count += 1;
            lines.push(text.to_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_comes_often_is_written_ten_times_in_each_span() {
        let (mut span, begun) = (Span::default(), Instant::now());
        let written: usize = (0..1000).map(|_| span.take("cannot sleep", begun).len()).sum();
        assert_eq!(written, 10);
        // Another text is not hidden by it.
        assert_eq!(span.take("lost", begun), ["lost"]);
        let later = span.take("cannot sleep", begun + SPAN);
        assert_eq!(later, ["left out 990 lines like those before", "cannot sleep"]);
        assert_eq!(span.take("lost", begun + 2 * SPAN), ["lost"]);
    }

    #[test]
    fn texts_that_all_differ_are_limited_in_number() {
        let (mut span, now) = (Span::default(), Instant::now());
        let written: usize = (0..1000).map(|n| span.take(&format!("{n}"), now).len()).sum();
        assert_eq!(written, TEXTS);
        let next = span.take("x", now + SPAN);
        assert_eq!(next, ["left out 744 lines like those before", "x"]);
    }
}
