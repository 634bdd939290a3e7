//! Arrivals from logs of requests.
//!
//! * Lines of servers and proxies ([`Form`]), told by their look: common and combined log format
//!   and their kin, JSON, HAProxy, envoy, AWS load balancers and S3, squid, uWSGI, IIS, W3C
//!   extended, LTSV and logfmt, Redis, PostgreSQL, MySQL, Rails, BIND, dnsmasq, unbound; and
//!   formats of one's own, if they have a request, a status and a time.
//! * CSV with a header: a column of times with any usual name, or one that is named; perhaps
//!   `bytes`, `size` or a time of service. Seconds since 1970 with a fraction are exact to a
//!   quarter of a microsecond; milliseconds, microseconds and nanoseconds since 1970 are told by
//!   their size. Tables without a header are known by their cells ([`shapes`]).
//!
//! Where a log has whole seconds, requests of the same second are spread over it: at equal
//! distances, or as Poisson arrivals of that number would be, at sorted random times.
//!
//! Servers log a request when it is done, with the time at which it came: lines out of order are
//! sorted, and counted.

mod cells;
mod csv;
mod forms;
mod json;
mod options;
mod own;
mod programs;
mod row;
mod rows;
mod shapes;
mod words;

pub use forms::Form;
pub use options::{LogOptions, Spread};
pub use row::{Sizes, Unit};

use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

use halfwink_engine::LineError;
use halfwink_inputs::{look, Account, Family, NO_END};
use halfwink_units::Time;

use self::csv::Columns;
use self::forms::Reader;
use self::row::{Row, Seen};
use self::rows::Rows;
use super::lines::{Lines, ReadError, Skipped};
use super::Arrivals;

/// Longest span of arrivals, in seconds: it must fit in a run.
pub(super) const LONGEST_S: f64 = 1.8e7;
/// Bytes and lines that tell the form of a log.
const LOOKED_AT: u64 = 1 << 18;
const LOOKED_AT_LINES: usize = 64;

const HEADER: &str = "a header with a column of times (time, timestamp, ts, arrival, start_time \
                      ...), or its name (log:time-column=NAME:FILE)";
const WAITED: &str = "they include waiting: sizes say how long requests take";
const NO_SIZES: &str = "the log has none: they are drawn";
const ROW: &str = "a row with a time from 0 on, and a size if the header has one";

/// A log that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Times of requests, since the first second of the log or its first request.
    pub times: Vec<Time>,
    /// Their sizes, if it has them.
    pub sizes: Vec<f64>,
    /// Meaning of the sizes.
    pub sizes_are: Option<Sizes>,
    /// Time zero as the log writes it, in seconds (since 1970 for dates).
    pub start_s: f64,
    /// Bad lines.
    pub skipped: Skipped,
    /// Requests that stood behind a later one.
    pub disordered: u64,
    /// Account of everything that was read or left out.
    pub account: Account,
}

impl Log {
    /// Reads a log of any form, or CSV.
    ///
    /// # Errors
    /// If it cannot be read, is of no known form, has no requests, too many bad lines, or times
    /// whose unit is not known.
    pub fn read(mut reader: impl Read, options: &LogOptions) -> Result<Log, ReadError> {
        let mut head = Vec::new();
        reader.by_ref().take(LOOKED_AT).read_to_end(&mut head)?;
        let form = form_of(&head);
        if let (Err(_), Some(other)) = (&form, look(&head, Family::Requests)) {
            return Err(ReadError::Other(other.to_string()));
        }
        let form = form.unwrap_or_else(|guessed| guessed);
        let whole = BufReader::new(Cursor::new(head).chain(reader));
        match form {
            Some(form) if options.time_column.is_none() => Log::of(form, whole, options),
            _ => Log::csv(whole, options),
        }
    }

    /// Reads a log of this form.
    ///
    /// # Errors
    /// As of [`Log::read`].
    pub fn of(form: Form, reader: impl BufRead, options: &LogOptions) -> Result<Log, ReadError> {
        let mut lines = Lines::new(reader);
        let (mut rows, mut reader) = (Rows::new(options), Reader::new(form));
        let (mut comments, mut others, mut durations, mut served) = (0, 0, 0, 0_u64);
        while let Some((number, line)) = lines.next()? {
            let found = line.and_then(|line| match reader.line(line) {
                _ if line.is_empty() => Ok(None),
                None => Err(LineError::new(number, line, form.expected())),
                Some(Seen::Comment) => {
                    comments += 1;
                    Ok(None)
                }
                Some(Seen::Other) => {
                    others += 1;
                    Ok(None)
                }
                Some(Seen::Request(row)) => Ok(Some(row)),
                Some(Seen::Served(row)) => {
                    served += 1;
                    Ok(Some(row))
                }
            });
            durations += u64::from(matches!(&found, Ok(Some(row)) if row.has_duration));
            rows.take(found)?;
        }
        // Servers end each line: a number at the very end of a file may be the begin of a longer
        // one.
        let cut = lines.unended().and_then(|line| open_request(line, |line| reader.line(line)));
        let cut = cut.filter(|row| rows.forget_last(row));
        durations -= u64::from(cut.is_some_and(|row| row.has_duration));
        let mut log = rows.log(form.name(), form.expected(), None)?;
        let count = log.times.len() as u64;
        log.sizes_are = match log.sizes.is_empty() {
            true => None,
            false if served == count => Some(Sizes::Service),
            false => Some(Sizes::Bytes),
        };
        if served > 0 && served < count {
            let message = format!("{served} of {count} lines have a time of service, expected all");
            return Err(ReadError::Other(message));
        }
        if log.sizes_are.is_none() {
            log.account.leave_out("sizes", NO_SIZES, 1);
        }
        log.account.leave_out("last line", NO_END, u64::from(cut.is_some()));
        log.account.leave_out("comment lines", "", comments);
        log.account.leave_out("other lines", "no requests", others);
        log.account.leave_out("response times", WAITED, durations);
        Ok(log)
    }

    /// Reads CSV with a header.
    ///
    /// # Errors
    /// As of [`Log::read`].
    pub fn csv(reader: impl BufRead, options: &LogOptions) -> Result<Log, ReadError> {
        let mut lines = Lines::new(reader);
        let (mut rows, mut others, mut durations) = (Rows::new(options), 0, 0);
        rows.is_table = true;
        let mut columns = loop {
            let Some((number, line)) = lines.next()? else {
                return Err(ReadError::Empty { expected: HEADER });
            };
            let line = line?;
            // Zeek's tables have their header among comments.
            let line = line.strip_prefix(b"#fields\t").unwrap_or(line);
            if !line.is_empty() && !line.starts_with(b"#") && !is_mark(line) {
                if let (Some(name), None) = (csv::samples(line), &options.time_column) {
                    return Err(ReadError::Other(csv::no_requests(name)));
                }
                let found = Columns::find(line, options.time_column.as_deref());
                let mut found = found.ok_or_else(|| unknown(number, line))?;
                // Without a header the first line is a request.
                match found.row(line) {
                    Some(Seen::Request(row) | Seen::Served(row)) => rows.take(Ok(Some(row)))?,
                    Some(_) => others += 1,
                    None => {}
                }
                break found;
            }
        };
        while let Some((number, line)) = lines.next()? {
            let row = line.and_then(|line| {
                if line.is_empty() || line.starts_with(b"#") {
                    return Ok(None);
                }
                match columns.row(line) {
                    Some(Seen::Request(row) | Seen::Served(row)) => Ok(Some(row)),
                    Some(_) => {
                        others += 1;
                        Ok(None)
                    }
                    None => Err(LineError::new(number, line, ROW)),
                }
            });
            durations += u64::from(matches!(&row, Ok(Some(row)) if row.has_duration));
            rows.take(row)?;
        }
        let may_be_cut = lines.unended().and_then(|line| open_request(line, |it| columns.row(it)));
        let mut log = rows.log(columns.format(), ROW, columns.unit)?;
        log.sizes_are = columns.sizes_are().filter(|_| !log.sizes.is_empty());
        // Tables need no newline at their end (RFC 4180, 2).
        log.account.leave_out("check of the end", NO_END, u64::from(may_be_cut.is_some()));
        if log.sizes_are.is_none() {
            log.account.leave_out("sizes", NO_SIZES, 1);
        }
        log.account.leave_out("other lines", "no requests", others);
        log.account.leave_out("response times", WAITED, durations);
        Ok(log)
    }

    /// The arrivals, with sizes multiplied by `unit` (0.001 for kilobytes from bytes), or without
    /// them: then they are drawn.
    #[must_use]
    pub fn arrivals(self, unit: Option<f64>) -> Arrivals {
        // The sizes are freed before the times are copied.
        let read = self.sizes.into_iter();
        let sizes = unit.map_or(Arc::from([]), |unit| read.map(|s| s * unit).collect());
        Arrivals::Recorded { times: self.times.into(), sizes }
    }
}

/// Returns the request of a file's last line without a newline, if the time or the size that was
/// read ends where the file does. A shorter number is a number, too.
fn open_request(line: &[u8], mut read: impl FnMut(&[u8]) -> Option<Seen>) -> Option<Row> {
    let mut request = |line: &[u8]| match read(line)? {
        Seen::Request(row) | Seen::Served(row) => Some(row),
        Seen::Comment | Seen::Other => None,
    };
    let whole = request(line)?;
    let shorter = request(&line[..line.len() - 1])?;
    (whole.when != shorter.when || whole.size != shorter.size).then_some(whole)
}

/// A line that spreadsheets write before the header (`sep=;`), or a comment of other tables.
fn is_mark(line: &[u8]) -> bool {
    line.starts_with(b"sep=") || line.starts_with(b";")
}

/// Why a first line is no header.
fn unknown(number: u64, line: &[u8]) -> ReadError {
    if let Some(other) = look(line, Family::Requests) {
        return ReadError::Other(other.to_string());
    }
    if let Some(column) = csv::first_time(line) {
        let about = "found a row without a header, expected names of columns";
        return ReadError::Other(format!(
            "line {number}: {about}, or the number of that with times: \
             log:time-column={column}:FILE"
        ));
    }
    LineError::new(number, line, HEADER).into()
}

/// The form that knows most of the first lines; an error with a guess if none knows any.
fn form_of(head: &[u8]) -> Result<Option<Form>, Option<Form>> {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let lines = text.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).take(LOOKED_AT_LINES).collect();
    let known = |form: Form| {
        let mut reader = Reader::new(form);
        let is_request =
            |line: &&&[u8]| matches!(reader.line(line), Some(Seen::Request(_) | Seen::Served(_)));
        lines.iter().filter(is_request).count()
    };
    let (forms, [last]) = Form::ALL.split_at(Form::ALL.len() - 1) else { unreachable!() };
    let counts = forms.iter().map(|form| (*form, known(*form)));
    let best = counts.rev().max_by_key(|(_, count)| *count);
    match best {
        Some((form, count)) if count > 0 => Ok(Some(form)),
        _ if known(*last) > 0 => Ok(Some(*last)),
        // No line is right: what is expected of one is told best by the form that it has.
        _ => Err(guessed(&lines)),
    }
}

/// Guesses the intended form of lines of which none can be read.
fn guessed(lines: &[&[u8]]) -> Option<Form> {
    let first = lines.first()?;
    if first.starts_with(b"#Fields:") || first.starts_with(b"#Version:") {
        return Some(Form::W3c);
    }
    if first.starts_with(b"{") {
        return Some(Form::Json);
    }
    let quoted = first.contains(&b'"') && first.contains(&b'[') && first.contains(&b']');
    (quoted && !first.starts_with(b"[")).then_some(Form::Common)
}

#[cfg(test)]
mod form_tests;
#[cfg(test)]
mod tests;
