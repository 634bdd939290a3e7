//! Arrivals from logs of requests.
//!
//! * Common and combined log format (Apache httpd, "Log Files"):
//!   `host ident user [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326`, perhaps with more
//!   behind. Times are whole seconds, so requests of the same second are spread over it: at equal
//!   distances, or as Poisson arrivals of that number would be, at sorted random times.
//! * CSV with a header: a column `time`, `at_s` or `timestamp` (seconds, or dates and times), and
//!   perhaps `bytes`, `size` or `service_s`. Times are taken as they are; seconds since 1970 with a
//!   fraction are exact to a quarter of a microsecond.
//!
//! Servers log a request when it is done, with the time at which it came: lines out of order are
//! sorted, and counted.

use std::io::{BufRead, Cursor, Read};
use std::sync::Arc;

use halfwink_engine::stream;
use halfwink_engine::LineError;
use halfwink_units::Time;
use rand::RngExt;

use super::lines::{unpack, Lines, ReadError, Skipped, LONGEST_LINE};
use super::{moment, Arrivals};

/// How long arrivals may last: what fits in a run.
pub(crate) const LONGEST_S: f64 = 1.8e7;

const LINE: &str = "`host ident user [10/Oct/2000:13:55:36 -0700] \"request\" status bytes`";
const HEADER: &str = "a header with a column `time`, `at_s` or `timestamp`";
const ROW: &str = "a row with a time, and a size if the header has one";

/// Placement of requests within a second, for logs of whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Places the requests of a second at equal distances.
    Even,
    /// At random times: as a Poisson process with that many arrivals.
    Random {
        /// Seed of the random stream.
        seed: u64,
    },
}

/// Options for reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Placement within a second, for logs of whole seconds.
    pub spread: Spread,
    /// Bad lines that are left out; one more is an error.
    pub bad_lines: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { spread: Spread::Random { seed: 1 }, bad_lines: 1_000 }
    }
}

/// Meaning of the sizes in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Bytes of the response.
    Bytes,
    /// A number in an unknown unit.
    Size,
    /// Service time in seconds.
    Service,
}

/// A log that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Arrival times, since the first second of the log or its first request.
    pub times: Vec<Time>,
    /// Size of each request, if the log has sizes.
    pub sizes: Vec<f64>,
    /// Meaning of the sizes.
    pub sizes_are: Option<Sizes>,
    /// Time zero as the log writes it, in seconds (since 1970 for dates).
    pub start_s: f64,
    /// Bad lines that were skipped.
    pub skipped: Skipped,
    /// Requests that stood behind a later one.
    pub disordered: u64,
}

impl Log {
    /// Reads either format, packed or not: CSV unless the first line has a `[`.
    ///
    /// # Errors
    /// If it cannot be read, has no requests, or too many bad lines.
    pub fn read(reader: impl Read, options: &LogOptions) -> Result<Log, ReadError> {
        let mut reader = unpack(reader)?;
        let mut first = Vec::new();
        while reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut first)? > 0 {
            if !first.trim_ascii().is_empty() {
                break;
            }
        }
        let common = first.contains(&b'[');
        let whole = Cursor::new(first).chain(reader);
        if common {
            Log::common(whole, options)
        } else {
            Log::csv(whole, options)
        }
    }

    /// Reads common or combined log format.
    ///
    /// # Errors
    /// If it cannot be read, has no requests, or too many bad lines.
    pub fn common(reader: impl BufRead, options: &LogOptions) -> Result<Log, ReadError> {
        let mut lines = Lines::new(reader);
        let mut rows = Rows::default();
        while let Some((number, line)) = lines.next()? {
            let row = line.and_then(|line| match common_line(line) {
                Some(row) => Ok(Some(row)),
                None if line.is_empty() => Ok(None),
                None => Err(LineError::new(number, line, LINE)),
            });
            rows.take(row, options.bad_lines)?;
        }
        let (rows, start_s, skipped, disordered) = rows.sorted(LINE)?;
        let seconds: Vec<f64> = rows.iter().map(|row| row.0 - start_s).collect();
        Ok(Log {
            times: spread(&seconds, options.spread),
            sizes: rows.iter().map(|row| row.1).collect(),
            sizes_are: Some(Sizes::Bytes),
            start_s,
            skipped,
            disordered,
        })
    }

    /// Reads CSV with a header.
    ///
    /// # Errors
    /// If it cannot be read, has no requests or no column of times, or too many bad lines.
    pub fn csv(reader: impl BufRead, options: &LogOptions) -> Result<Log, ReadError> {
        let mut lines = Lines::new(reader);
        let mut cells = Cells::default();
        let (time, size) = loop {
            let Some((number, line)) = lines.next()? else {
                return Err(ReadError::Empty { expected: HEADER });
            };
            let line = line?;
            if !line.is_empty() {
                break columns(&mut cells, line).ok_or(LineError::new(number, line, HEADER))?;
            }
        };
        let mut rows = Rows::default();
        while let Some((number, line)) = lines.next()? {
            let row = line.and_then(|line| {
                if line.is_empty() {
                    return Ok(None);
                }
                let row = cells.split(line).and_then(|()| csv_row(&cells, time, size.map(|s| s.1)));
                row.map(Some).ok_or_else(|| LineError::new(number, line, ROW))
            });
            rows.take(row, options.bad_lines)?;
        }
        let (rows, start_s, skipped, disordered) = rows.sorted(ROW)?;
        Ok(Log {
            times: rows.iter().map(|row| at(row.0 - start_s)).collect(),
            sizes: if size.is_some() { rows.iter().map(|row| row.1).collect() } else { Vec::new() },
            sizes_are: size.map(|s| s.0),
            start_s,
            skipped,
            disordered,
        })
    }

    /// The arrivals, with sizes multiplied by `unit` (0.001 for kilobytes from bytes), or without
    /// them: then they are drawn.
    #[must_use]
    pub fn arrivals(self, unit: Option<f64>) -> Arrivals {
        let sizes =
            unit.map_or(Arc::from([]), |unit| self.sizes.iter().map(|s| s * unit).collect());
        Arrivals::Recorded { times: self.times.into(), sizes }
    }
}

/// Time (seconds) and size of requests.
type Row = (f64, f64);

#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    skipped: Skipped,
}

impl Rows {
    fn take(&mut self, row: Result<Option<Row>, LineError>, limit: u64) -> Result<(), ReadError> {
        match row {
            Ok(row) => self.rows.extend(row),
            Err(error) => self.skipped.add(error, limit)?,
        }
        Ok(())
    }

    /// Sorts the rows by time. Returns them with the first time, the bad lines, and the number of
    /// rows out of order.
    fn sorted(self, expected: &'static str) -> Result<(Vec<Row>, f64, Skipped, u64), ReadError> {
        let Rows { mut rows, skipped } = self;
        let mut latest = f64::NEG_INFINITY;
        let mut disordered = 0;
        for row in &rows {
            disordered += u64::from(row.0 < latest);
            latest = latest.max(row.0);
        }
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Err(match skipped.examples.first() {
                Some(error) => error.clone().into(),
                None => ReadError::Empty { expected },
            });
        };
        let (start_s, found) = (first.0, last.0 - first.0);
        if found > LONGEST_S {
            return Err(ReadError::Span { found, most: LONGEST_S });
        }
        Ok((rows, start_s, skipped, disordered))
    }
}

fn at(seconds: f64) -> Time {
    Time((seconds * 1e12).round() as u64)
}

/// Requests of whole seconds, rising, spread over them.
fn spread(seconds: &[f64], how: Spread) -> Vec<Time> {
    let mut random = match how {
        Spread::Even => None,
        Spread::Random { seed } => Some(stream(seed, "log")),
    };
    let mut times = Vec::with_capacity(seconds.len());
    for same in seconds.chunk_by(|a, b| a == b) {
        let first = times.len();
        for n in 0..same.len() {
            let within = match &mut random {
                None => (n as f64 + 0.5) / same.len() as f64,
                Some(random) => random.random::<f64>(),
            };
            times.push(at(same[0]) + at(within));
        }
        times[first..].sort_unstable();
    }
    times
}

/// Time and bytes of a line.
fn common_line(line: &[u8]) -> Option<Row> {
    let open = line.iter().position(|&b| b == b'[')?;
    let close = open + line[open..].iter().position(|&b| b == b']')?;
    let seconds = moment::common(&line[open + 1..close])?;
    let request = line[close + 1..].trim_ascii_start().strip_prefix(b"\"")?;
    let mut escaped = false;
    let end = request.iter().position(|&b| {
        let ends = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        ends
    })?;
    let mut rest = request[end + 1..].split(|&b| b == b' ').filter(|word| !word.is_empty());
    let status = rest.next()?;
    if status.len() != 3 || !status.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let bytes = match rest.next()? {
        b"-" => 0,
        count => std::str::from_utf8(count).ok()?.parse::<u64>().ok()?,
    };
    Some((seconds as f64, bytes as f64))
}

/// Cells of one line of CSV. Lines are taken one by one, so a quote that is never closed spoils no
/// other line; a cell of several lines does not exist in a log.
struct Cells {
    reader: csv_core::Reader,
    text: Vec<u8>,
    ends: [usize; Cells::MOST],
    count: usize,
}

impl Default for Cells {
    fn default() -> Cells {
        let text = vec![0; LONGEST_LINE as usize];
        // Lines come without what ends them; a carriage return within is a character.
        let end = csv_core::Terminator::Any(b'\n');
        let reader = csv_core::ReaderBuilder::new().terminator(end).build();
        Cells { reader, text, ends: [0; Cells::MOST], count: 0 }
    }
}

impl Cells {
    const MOST: usize = 256;

    /// Splits a line, if it is no longer than lines are, and has no more cells.
    fn split(&mut self, line: &[u8]) -> Option<()> {
        self.reader.reset();
        let (mut text, mut count) = (0, 0);
        // All of it, and then its end.
        for part in [line, b""] {
            let (out, ends) = (&mut self.text[text..], &mut self.ends[count..]);
            let (result, _, written, ended) = self.reader.read_record(part, out, ends);
            if matches!(
                result,
                csv_core::ReadRecordResult::OutputFull | csv_core::ReadRecordResult::OutputEndsFull
            ) {
                return None;
            }
            (text, count) = (text + written, count + ended);
        }
        self.count = count;
        Some(())
    }

    fn get(&self, cell: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.count].get(cell)?;
        let start = if cell == 0 { 0 } else { self.ends[cell - 1] };
        Some(self.text[start..end].trim_ascii())
    }
}

/// Finds the columns of times and sizes in a header.
fn columns(cells: &mut Cells, header: &[u8]) -> Option<(usize, Option<(Sizes, usize)>)> {
    cells.split(header)?;
    let column = |names: &[&str]| {
        let named = |cell: &[u8]| names.iter().any(|n| cell.eq_ignore_ascii_case(n.as_bytes()));
        (0..cells.count).find(|&n| cells.get(n).is_some_and(named))
    };
    let size = [(Sizes::Bytes, "bytes"), (Sizes::Size, "size"), (Sizes::Service, "service_s")]
        .into_iter()
        .find_map(|(kind, name)| Some((kind, column(&[name])?)));
    Some((column(&["time", "at_s", "timestamp"])?, size))
}

/// Time and size of a row.
fn csv_row(cells: &Cells, time: usize, size: Option<usize>) -> Option<Row> {
    let cell = |column: usize| std::str::from_utf8(cells.get(column)?).ok();
    let seconds = moment::seconds(cell(time)?)?;
    let Some(size) = size else { return Some((seconds, 0.0)) };
    let size: f64 = cell(size)?.parse().ok()?;
    (0.0..=1e15).contains(&size).then_some((seconds, size))
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
