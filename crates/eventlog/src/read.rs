//! Reading logs, whole or cut.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use halfwink_inputs::{open_input, Budget, Opened};
use halfwink_policy::{Input, Line};
use halfwink_units::Time;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::Deserialize;

use crate::format::{Ended, Family, Footer, Header, LogError, Place};

/// No line is longer: what begins so is no log.
const LONGEST: u64 = 1 << 20;

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Header of the policies that follow.
    Header(Header),
    /// One of them was called.
    Line(Raw),
}

/// A line whose family is still to be asked what its events and actions mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// Line number in the file, from 1.
    pub number: u64,
    /// Policy that the line belongs to.
    pub place: Place,
    /// Time of the line.
    pub now: Time,
    text: String,
    /// Lines before it that are in parts which are not there.
    missing: u64,
}

/// Keys that distinguish the kinds of lines.
#[derive(Deserialize)]
struct Tags {
    schema: Option<IgnoredAny>,
    now_ps: Option<u64>,
    end_ps: Option<IgnoredAny>,
    told: Option<IgnoredAny>,
    asked: Option<IgnoredAny>,
    #[serde(default)]
    stream: u32,
    family: Option<Family>,
}

/// A line with its meaning.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "E: Deserialize<'de>, A: Deserialize<'de>"))]
struct Typed<E, A> {
    now_ps: u64,
    event: Input<E>,
    #[serde(default = "Vec::new")]
    actions: Vec<A>,
    #[serde(default)]
    dropped: u64,
    #[serde(default, rename = "stream")]
    _stream: u32,
    #[serde(default, rename = "family")]
    _family: Option<Family>,
}

impl Raw {
    /// The line, of a policy with these events and actions.
    ///
    /// # Errors
    /// Reason of the refusal.
    pub fn typed<E, A>(&self) -> Result<Line<E, A>, String>
    where
        E: DeserializeOwned,
        A: DeserializeOwned,
    {
        let line: Typed<E, A> = serde_json::from_str(&self.text).map_err(|e| told(&e))?;
        let Typed { now_ps, event, actions, dropped, .. } = line;
        Ok(Line { now: Time(now_ps), input: event, actions, dropped: dropped + self.missing })
    }
}

/// Returns the message of `serde_json` without its position: it sees only one line.
fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let column = error.column();
    match text.rfind(" at line ") {
        Some(end) => format!("{} (column {column})", &text[..end]),
        None => text,
    }
}

/// Reads a log line by line.
pub struct Reader<R> {
    file: String,
    input: R,
    number: u64,
    family: Option<Family>,
    lines: u64,
    /// Lines of parts that are not there, of which the next line has not told yet.
    missing: u64,
    ended: Option<Ended>,
}

/// Most bytes of a log, packed and unpacked: 1 TiB.
const MOST_BYTES: u64 = 1 << 40;

impl Reader<BufReader<Opened>> {
    /// Opens a log, packed or not.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn open(path: &Path) -> Result<Reader<BufReader<Opened>>, LogError> {
        let file = path.display().to_string();
        let opened = open_input(path, &Budget::new(MOST_BYTES)).map_err(std::io::Error::from);
        match opened {
            Ok(input) => Ok(Reader::new(&file, BufReader::new(input))),
            Err(error) => Err(LogError { file, line: 0, message: error.to_string() }),
        }
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads from an open file; `name` stands for it in errors.
    pub fn new(name: &str, input: R) -> Reader<R> {
        let file = name.to_owned();
        Reader { file, input, number: 0, family: None, lines: 0, missing: 0, ended: None }
    }

    /// Returns how the log ended, once all lines are read.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Lines so far, headers and footer left out; those of earlier parts among them.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// An error at a line of this file.
    pub fn error(&self, line: u64, message: impl Into<String>) -> LogError {
        LogError { file: self.file.clone(), line, message: message.into() }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// If there is one that does not belong there. One that is cut in the middle is the end.
    #[expect(clippy::should_implement_trait, reason = "an iterator that can end in two ways")]
    pub fn next(&mut self) -> Result<Option<Record>, LogError> {
        if self.ended.is_some() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        // Without the limit a file without line ends would be read into memory as a whole.
        let read = (&mut self.input).take(LONGEST).read_until(b'\n', &mut bytes);
        self.number += 1;
        let at = self.number;
        if read.map_err(|e| self.error(at, e.to_string()))? == 0 {
            return self.ends_without_footer(false);
        }
        let is_whole = bytes.ends_with(b"\n");
        let tags: Result<Tags, String> = match std::str::from_utf8(&bytes) {
            Ok(text) => serde_json::from_str(text).map_err(|e| told(&e)),
            Err(_) => Err("not UTF-8".to_owned()),
        };
        match tags {
            Ok(tags) => {
                let text = String::from_utf8(bytes).unwrap_or_default();
                self.record(tags, text)
            }
            // A program that was killed leaves half a line at the end: that is the end of the log
            // and not an error. A line at the limit was cut by us, so that it is one.
            Err(_) if !is_whole && (bytes.len() as u64) < LONGEST => self.ends_without_footer(true),
            Err(message) => Err(self.error(at, format!("expected a line of JSON: {message}"))),
        }
    }

    fn ends_without_footer(&mut self, torn: bool) -> Result<Option<Record>, LogError> {
        if self.family.is_none() {
            return Err(self.error(1, "expected the header of an event log"));
        }
        self.ended = Some(Ended::Cut { torn });
        Ok(None)
    }

    fn record(&mut self, tags: Tags, text: String) -> Result<Option<Record>, LogError> {
        let number = self.number;
        if tags.schema.is_some() {
            let header: Header =
                serde_json::from_str(&text).map_err(|e| self.error(number, told(&e)))?;
            if let Some(problem) = header.problem() {
                return Err(self.error(number, problem));
            }
            // A program whose policy is replaced writes another header: lines after it are of that
            // policy.
            let begun = self.family.replace(header.family).is_some();
            if header.continues > 0 {
                // Parts are numbered by the lines before them. Fewer than that are there when old
                // parts were deleted; more mean that parts are in the wrong order.
                let Some(missing) = header.continues.checked_sub(self.lines) else {
                    let (after, found) = (header.continues, self.lines);
                    let message = format!("goes on after line {after}, found {found} before it");
                    return Err(self.error(number, message));
                };
                // Nothing is missing between two parts: the policies go on, so that the header is
                // not reported as that of new ones.
                if begun && missing == 0 {
                    return self.next();
                }
                self.missing = missing;
                self.lines = header.continues;
            } else {
                // Lines of the policies before are missing; the new ones lack nothing.
                self.missing = 0;
            }
            return Ok(Some(Record::Header(header)));
        }
        // Recognized only to say what to do: their lines have no family, so they cannot be
        // replayed.
        if tags.told.is_some() || tags.asked.is_some() {
            let message =
                "a log of an older build (`told`, `asked`), which does not say what it is \
                           of; record it again with --log";
            return Err(self.error(number, message));
        }
        let Some(family) = self.family else {
            return Err(self.error(number, "expected the header of an event log"));
        };
        if tags.end_ps.is_some() {
            let footer = serde_json::from_str(&text).map_err(|e| self.error(number, told(&e)))?;
            return self.ends_with(footer);
        }
        let Some(now_ps) = tags.now_ps else {
            return Err(self.error(number, "expected `now_ps`, or a footer with `end_ps`"));
        };
        self.lines += 1;
        // Lines name a family or stream only where it is not the header's or the first, which
        // keeps logs of a single policy short.
        let place = Place { family: tags.family.unwrap_or(family), stream: tags.stream };
        // Missing lines count as dropped before the first line that is there, so that a replay
        // knows that the policy's state is not the recorded one from here.
        let missing = std::mem::take(&mut self.missing);
        Ok(Some(Record::Line(Raw { number, place, now: Time(now_ps), text, missing })))
    }

    fn ends_with(&mut self, footer: Footer) -> Result<Option<Record>, LogError> {
        // The footer was counted by the writer: a difference means that lines were cut out of the
        // middle, which their own syntax would not show.
        if footer.lines != self.lines {
            let message = format!("says {} lines, found {}", footer.lines, self.lines);
            return Err(self.error(self.number, message));
        }
        let mut more = [0];
        // Two logs in one file (`cat`) would otherwise be read as the first alone.
        if self.input.read(&mut more).is_ok_and(|n| n > 0) {
            return Err(self.error(self.number + 1, "expected nothing after the footer"));
        }
        self.ended = Some(Ended::Whole(footer));
        Ok(None)
    }
}
