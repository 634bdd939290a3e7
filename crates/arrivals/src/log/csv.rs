//! CSV with a header: any delimiter, any column of times.

use super::super::counts::is_grouped;
use super::super::moment::When;
use super::cells::Cells;
use super::row::{Row, Seen, Sizes, Unit};
use super::shapes::Shape;

/// Names of columns with times, the best first. A unit may follow: `arrival_ms`, `time (us)`. A
/// `time` beside a timestamp is mostly how long a request took.
const TIMES: [&str; 30] = [
    "submit_time",
    "submitted_time",
    "creation_time",
    "created_at",
    "timestamp",
    "ts",
    "@timestamp",
    "datetime",
    "date_time",
    "request_timestamp",
    "arrival",
    "arrival_time",
    "arrived_at",
    "arrived",
    "arrive",
    "start_time",
    "starttime",
    "started_at",
    "time",
    "at",
    "start",
    "relative_unix",
    "op_time",
    "started_date_time",
    "c_time",
    "unix_time",
    "epoch",
    "date",
    "_time",
    "request-start",
];
/// Names of columns with the end of a request; with a duration, it began before.
const ENDS: [&str; 3] = ["end_timestamp", "end_time", "end"];
const DURATIONS: [&str; 2] = ["duration", "elapsed"];
/// Other names of how long a request took, with its waiting.
const WAITS: [&str; 8] = [
    "response_time",
    "responsetime",
    "request_time",
    "requesttime",
    "latency",
    "time_taken",
    "time-taken",
    "total_time",
];
const BYTES: [&str; 14] = [
    "bytes",
    "body_bytes_sent",
    "bytes_sent",
    "sc-bytes",
    "response_size",
    "resp_bytes",
    "response_body_len",
    "responsesize",
    "response_body_size",
    "objectsize",
    "length",
    "sent_bytes",
    "http.response.bytes",
    "http.response.body.bytes",
];
const SIZES: [&str; 3] = ["size", "tokens", "contexttokens"];
const SERVICES: [&str; 4] = ["service", "service_time", "servicetime", "processing_time"];

/// Names of columns that only tables of values by time have: a row is a sample, no request.
const SAMPLES: [&str; 10] = [
    "requests/s",
    "rps",
    "qps",
    "trans rate",
    "value",
    "_value",
    "cpu_utilization",
    "instance_cpu_usage",
    "cpu_usage",
    "average_usage",
];

/// Number of those that are rates.
const RATES: usize = 6;

/// Says why a table with this column is no log.
pub(super) fn no_requests(name: &str) -> String {
    let about = format!("the column `{name}` says that rows are samples by time");
    if SAMPLES[..RATES].contains(&name) {
        return format!(
            "{about}, expected a row for each request; `--load counts:FILE` plays requests a second"
        );
    }
    format!("{about}, of which no request is told: expected a row for each request")
}

/// Returns the column that says that rows of a table are samples by time.
pub(super) fn samples(header: &[u8]) -> Option<&'static str> {
    let mut cells = Cells::new(delimiter(header));
    cells.split(header)?;
    let names = (0..cells.count()).filter_map(|n| cells.text(n));
    let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
    // Tables of requests may have a value of their own.
    let is_request = |name: &String| ["status", "method", "url", "uri"].contains(&name.as_str());
    let mut found = SAMPLES.iter().filter(|sample| names.iter().any(|name| name == *sample));
    found.next().filter(|_| !names.iter().any(is_request)).copied()
}

/// The columns that are read.
pub(super) struct Columns {
    cells: Cells,
    time: usize,
    /// Column of the date, of a time of day.
    date: Option<usize>,
    /// Rows say how long requests took, which is not played.
    has_duration: bool,
    /// The name of the column of times has it.
    pub(super) unit: Option<Unit>,
    size: Option<(usize, Sizes, f64)>,
    /// Seconds of each of its units, if times are ends.
    duration: Option<(usize, f64)>,
    /// Column of what a row is about, and the word for a request.
    kind: Option<(usize, &'static str)>,
    /// The known table that it is, without a header.
    shape: Option<&'static Shape>,
    /// Cells that a row has at most, of a table with a header.
    most: usize,
    /// Commas are between cells.
    has_commas: bool,
}

/// Names of a column of metrics, and of those that are requests: k6 writes a dozen rows for each.
const METRICS: (&str, &str) = ("metric_name", "http_reqs");

/// A header's name, in lower case, without the unit behind it.
fn named(cell: &[u8]) -> (String, Option<Unit>) {
    let text = String::from_utf8_lossy(cell).trim().to_ascii_lowercase();
    let bare = text.trim_end_matches([')', ']']);
    let Some(at) = bare.rfind(['_', '(', '[', ' ', '.', '-']) else { return (text, None) };
    match Unit::parse(bare[at + 1..].trim()) {
        Some(unit) => (bare[..at].trim_end().trim_end_matches('_').to_owned(), Some(unit)),
        None => (text, None),
    }
}

/// The delimiter of a header.
pub(super) fn delimiter(header: &[u8]) -> u8 {
    let count = |byte: u8| header.iter().filter(|it| **it == byte).count();
    // The first of equals wins.
    let found = b",;\t|".iter().copied().rev().max_by_key(|byte| count(*byte)).unwrap_or(b',');
    match count(found) {
        0 if count(b' ') > 0 => b' ',
        _ => found,
    }
}

/// The column, from 1, that looks like a time in a row of a table without a header.
pub(super) fn first_time(line: &[u8]) -> Option<usize> {
    let mut cells = Cells::new(delimiter(line));
    cells.split(line)?;
    let is_time = |n: &usize| cells.text(*n).is_some_and(|text| When::parse(text).is_some());
    let letters = |n: usize| cells.get(n).is_some_and(|it| it.iter().any(u8::is_ascii_alphabetic));
    if cells.count() < 2 || (0..cells.count()).filter(|n| letters(*n)).count() == cells.count() {
        return None;
    }
    (0..cells.count()).find(is_time).map(|n| n + 1)
}

impl Columns {
    /// Finds columns in a header; that of times by a name, or from 1, if one is given.
    pub(super) fn find(header: &[u8], time: Option<&str>) -> Option<Columns> {
        let delimiter = delimiter(header);
        let (mut cells, has_commas) = (Cells::new(delimiter), delimiter == b',');
        cells.split(header)?;
        let names: Vec<(String, Option<Unit>)> =
            (0..cells.count()).map(|n| named(cells.get(n).unwrap_or_default())).collect();
        // Blanks part words of other texts, too, and the first row of a table without a header may
        // be shorter than others.
        let has_header = time.is_none_or(|asked| asked.parse::<u64>().is_err());
        let most = if has_header && !cells.squeezes() { cells.count() } else { usize::MAX };
        let find = |wanted: &[&str]| {
            let place = |name: &&str| names.iter().position(|(found, _)| found == *name);
            wanted.iter().find_map(place)
        };
        let unit = |n: usize| names[n].1;
        let (time, ends) = match (time, find(&TIMES)) {
            (Some(asked), _) => (chosen(&cells, asked)?, false),
            (None, Some(n)) => (n, false),
            (None, None) => match find(&ENDS) {
                Some(n) => (n, true),
                None => return Columns::shaped(Shape::of(header)?),
            },
        };
        let kind = find(&[METRICS.0]).map(|n| (n, METRICS.1));
        // Calls between Alibaba's services (2021) are in milliseconds from the trace's begin on.
        let is_calls = find(&["traceid"]).is_some() && find(&["rpcid", "rpc_id"]).is_some();
        // Their column `service` has names.
        let service = find(&SERVICES)
            .filter(|_| !is_calls)
            .map(|n| (n, Sizes::Service, unit(n).unwrap_or(Unit::Seconds).seconds()));
        let size = service
            .or_else(|| find(&BYTES).map(|n| (n, Sizes::Bytes, 1.0)))
            .or_else(|| find(&SIZES).map(|n| (n, Sizes::Size, 1.0)))
            .filter(|(n, ..)| *n != time);
        let duration = find(&DURATIONS).filter(|_| ends);
        let duration = duration.map(|n| (n, unit(n).unwrap_or(Unit::Seconds).seconds()));
        // Azure's functions (2021): a duration is that of the execution alone.
        let is_azure = ends && find(&["app"]).is_some() && find(&["func"]).is_some();
        let executed = duration.filter(|_| is_azure).map(|(n, s)| (n, Sizes::Service, s));
        let size = executed.or(size);
        let took = || find(&DURATIONS).or_else(|| find(&WAITS)).filter(|n| *n != time);
        let is_service = size.is_some_and(|(_, sizes, _)| sizes == Sizes::Service);
        let has_duration = !is_service && took().is_some();
        let date = find(&["date"]).filter(|n| *n != time);
        // Google's cluster (2019): events of jobs and tasks, of which submissions are requests.
        let events = find(&["type"]).filter(|_| find(&["collection_id"]).is_some());
        let kind = kind.or(events.map(|n| (n, "0")));
        let unit = unit(time)
            .or(is_calls.then_some(Unit::Milliseconds))
            .or(events.map(|_| Unit::Microseconds));
        let shape = None;
        Some(Columns {
            cells,
            time,
            date,
            has_duration,
            unit,
            size,
            duration,
            kind,
            shape,
            most,
            has_commas,
        })
    }

    fn shaped(shape: &'static Shape) -> Option<Columns> {
        let size = shape.bytes.map(|n| (n, Sizes::Bytes, 1.0));
        let (cells, time) = (Cells::new(shape.delimiter), shape.time);
        let unit = shape.unit.and_then(Unit::parse);
        let (duration, kind) = (None, None);
        Some(Columns {
            cells,
            time,
            date: None,
            has_duration: false,
            unit,
            size,
            duration,
            kind,
            shape: Some(shape),
            most: usize::MAX,
            has_commas: shape.delimiter == b',',
        })
    }

    /// Name of the format.
    pub(super) fn format(&self) -> &'static str {
        self.shape.map_or("CSV", |shape| shape.name)
    }

    pub(super) fn sizes_are(&self) -> Option<Sizes> {
        self.size.map(|(_, sizes, _)| sizes)
    }

    /// Time and size of a row; none if it is bad.
    pub(super) fn row(&mut self, line: &[u8]) -> Option<Seen> {
        self.cells.split(line)?;
        // A comma within a number moves all that stands behind it.
        let is_ragged = (self.most..self.cells.count())
            .any(|n| self.cells.get(n).is_some_and(|cell| !cell.is_empty()));
        if is_ragged {
            return None;
        }
        let is_request = match (self.shape, self.kind) {
            (Some(shape), _) => shape.is_request(&self.cells)?,
            (None, Some((n, wanted))) => self.cells.text(n)? == wanted,
            (None, None) => true,
        };
        if !is_request {
            return Some(Seen::Other);
        }
        self.request().map(Seen::Request)
    }

    fn request(&self) -> Option<Row> {
        let time = self.cells.text(self.time)?;
        let date = self.date.and_then(|n| self.cells.text(n));
        let when = match date.filter(|date| is_time_of_day(time) && !date.contains(':')) {
            Some(date) => When::parse(&format!("{} {}", date.trim(), time.trim()))?,
            None => When::parse(time)?,
        };
        let mut when = Some(when).filter(|when| !when.is_before_zero())?;
        let number = |n: usize| {
            let text = self.cells.text(n)?;
            let number = text.parse::<f64>().ok();
            // A point is a comma in half of the world, but not where commas part cells.
            let whole = text.split('.').next().unwrap_or_default();
            number.or_else(|| match self.has_commas && is_grouped(whole) {
                true => text.replace(',', "").parse().ok(),
                false => text.replacen(',', ".", 1).parse().ok(),
            })
        };
        if let Some((duration, unit_s)) = self.duration {
            let s = number(duration)? * unit_s;
            let positive = (0.0..=1e9).contains(&s);
            when = match when {
                When::Number(end) if positive => When::Number(end - s),
                When::Date { s: end, .. } if positive => When::Date { s: end - s, is_exact: true },
                _ => return None,
            };
        }
        let row = |size| Row { has_duration: self.has_duration, ..Row::at(when, size) };
        let Some((size, _, factor)) = self.size else { return Some(row(None)) };
        let size = number(size)? * factor;
        (0.0..=1e15).contains(&size).then_some(row(Some(size)))
    }
}

/// Returns whether a text is a time without a date.
fn is_time_of_day(text: &str) -> bool {
    text.trim().find(':').is_some_and(|at| at <= 2) && !text.contains('/')
}

/// A column by its name in the header, or its number from 1.
fn chosen(cells: &Cells, asked: &str) -> Option<usize> {
    let is =
        |n: &usize| cells.get(*n).is_some_and(|cell| cell.eq_ignore_ascii_case(asked.as_bytes()));
    let number = || asked.parse::<usize>().ok()?.checked_sub(1).filter(|n| *n < cells.count());
    (0..cells.count()).find(is).or_else(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_units() {
        for (cell, name, unit) in [
            ("Time", "time", None),
            ("at_s", "at", Some(Unit::Seconds)),
            ("arrival_time_ms", "arrival_time", Some(Unit::Milliseconds)),
            ("Time (us)", "time", Some(Unit::Microseconds)),
            ("ts[ns]", "ts", Some(Unit::Nanoseconds)),
            ("service_s", "service", Some(Unit::Seconds)),
            ("start_time", "start_time", None),
        ] {
            assert_eq!(named(cell.as_bytes()), (name.to_owned(), unit), "{cell}");
        }
        assert_eq!(delimiter(b"a;b;c,d"), b';');
        assert_eq!(delimiter(b"time"), b',');
    }
}
