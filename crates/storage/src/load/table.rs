//! Tables of block I/Os: CSV with a header of anybody's own, and public traces without one.
//!
//! | table | row |
//! |---|---|
//! | Tencent (Zhang 2020) | seconds, sector, sectors, 0 or 1, volume |
//! | SPC (UMass) | unit, sector, bytes, R or W, seconds |
//! | FIU | nanoseconds, process, name, sector, sectors, R or W, major, minor, digest |
//! | latency log of fio | milliseconds, nanoseconds, 0 or 1 or 2, bytes, ... |

use std::borrow::Cow;
use std::collections::HashMap;

use jiff::civil::DateTime;

use super::blktrace::nanoseconds;
use super::events::{Event, What};
use super::text::{kind, with_latency, BASE_NS};
use super::{File, LoadError};

const SECTOR: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;

/// A table without a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Tencent,
    Spc,
    Fiu,
    FioLatency,
}

impl Shape {
    pub(super) const ALL: [Shape; 4] = [Shape::Tencent, Shape::Spc, Shape::Fiu, Shape::FioLatency];

    pub(super) fn name(self) -> &'static str {
        match self {
            Shape::Tencent => "CSV of Tencent's block traces",
            Shape::Spc => "trace of the Storage Performance Council",
            Shape::Fiu => "trace of FIU",
            Shape::FioLatency => "latency log of fio",
        }
    }

    pub(super) fn expected(self) -> &'static str {
        match self {
            Shape::Tencent => "seconds,sector,sectors,0 or 1,volume",
            Shape::Spc => "unit,sector,bytes,R or W,seconds",
            Shape::Fiu => "nanoseconds process name sector sectors R or W major minor digest",
            Shape::FioLatency => "milliseconds, nanoseconds, direction, bytes",
        }
    }

    /// Events of a row; none if it is of another table.
    pub(super) fn row(self, line: &str) -> Option<Vec<Event>> {
        let words: Vec<&str> = match self {
            Shape::Fiu => line.split_whitespace().collect(),
            _ => line.split(',').map(str::trim).collect(),
        };
        let whole = |n: usize| words.get(n)?.parse::<u64>().ok();
        let (cpu, what, discards) = (0, What::Queue, false);
        let event = |at_ns, device: u64, sector, bytes: u64, writes| {
            let (device, bytes) = (u32::try_from(device).ok()?, u32::try_from(bytes).ok()?);
            Some(Event { at_ns, cpu, device, what, sector, bytes, writes, discards })
        };
        match (self, words.len()) {
            (Shape::Tencent, 5) => {
                // Dates from 1985 to 2128: five numbers alone are many another table.
                let at_s = whole(0).filter(|s| (500_000_000..5_000_000_000).contains(s))?;
                let (sector, sectors, writes) = (whole(1)?, whole(2)?, whole(3)?);
                let bytes = sectors.checked_mul(SECTOR)?;
                let event = event(at_s * SECOND_NS, whole(4)?, sector, bytes, writes == 1)?;
                (writes < 2).then(|| vec![event])
            }
            (Shape::Spc, 5..=8) => {
                let writes = direction(words[3])?;
                // Only seconds with a fraction: whole numbers there are of another format.
                let at_ns = words[4].contains('.').then(|| nanoseconds(words[4])).flatten()?;
                event(at_ns, whole(0)?, whole(1)?, whole(2)?, writes).map(|event| vec![event])
            }
            (Shape::Fiu, 9) => {
                let (at_ns, _process, writes) = (whole(0)?, whole(1)?, direction(words[5])?);
                // As in the kernel's `dev_t`: 20 bits of minor number.
                let device = whole(6)?.checked_mul(1 << 20)?.checked_add(whole(7)?)?;
                let bytes = whole(4)?.checked_mul(SECTOR)?;
                event(at_ns, device, whole(3)?, bytes, writes).map(|event| vec![event])
            }
            (Shape::FioLatency, 4..=7) => {
                let (ms, took_ns) = (whole(0).filter(|ms| *ms < 500_000_000)?, whole(1)?);
                let (direction, bytes) = (whole(2).filter(|it| *it < 3)?, whole(3)?);
                // Averages (`log_avg_msec`) have no bytes.
                let bytes = Some(bytes).filter(|it| *it > 0)?;
                let end_ns = BASE_NS.checked_add(ms * 1_000_000)?;
                let sector = whole(4).unwrap_or(0) / SECTOR;
                let at_ns = end_ns.saturating_sub(took_ns);
                let mut event = event(at_ns, 0, sector, bytes, direction == 1)?;
                event.discards = direction == 2;
                Some(with_latency(event, took_ns))
            }
            _ => None,
        }
    }
}

fn direction(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "r" | "read" | "rd" => Some(false),
        "w" | "write" | "wr" => Some(true),
        _ => None,
    }
}

/// Columns of a table with a header.
pub(super) struct Columns {
    delimiter: char,
    /// Column, and nanoseconds of its unit; none if the size of the first one tells it.
    time: (usize, Option<f64>),
    kind: usize,
    /// Column, and bytes of its unit.
    size: (usize, u64),
    offset: Option<(usize, u64)>,
    latency: Option<(usize, f64)>,
    device: Option<usize>,
    cpu: Option<usize>,
    /// Columns of the header.
    all: usize,
}

const TIMES: [&str; 12] = [
    "time",
    "timestamp",
    "ts",
    "start_time",
    "starttime",
    "issue_time",
    "start",
    "issued",
    "at",
    "time_stamp",
    "nsecs",
    "elapsed",
];
const KINDS: [&str; 15] = [
    "op",
    "operation",
    "type",
    "iotype",
    "io_type",
    "rw",
    "rwbs",
    "opcode",
    "op_type",
    "optype",
    "t",
    "action",
    "direction",
    "io",
    "read_write",
];
const SIZES: [&str; 10] = [
    "bytes",
    "size",
    "length",
    "len",
    "io_size",
    "iosize",
    "size_bytes",
    "nr_bytes",
    "request_io_size_bytes",
    "request_size",
];
const SECTORS: [&str; 4] = ["nr_sector", "nr_sectors", "sectors", "blocks"];
/// Sizes of blocks in kB are powers of two.
const KIBIBYTES: [&str; 6] = ["size_kb", "size_kib", "kb", "kib", "kbytes", "length_kb"];
const OFFSETS: [&str; 4] = ["offset", "file_offset", "byte_offset", "address"];
const FIRST_SECTORS: [&str; 5] = ["sector", "lba", "lbn", "block", "start_sector"];
const LATENCIES: [&str; 6] = ["latency", "lat", "response", "response_time", "duration", "rt"];
const DEVICES: [&str; 8] =
    ["device", "dev", "disk", "device_id", "volume", "volume_id", "volumeid", "lun"];

/// A header's name in lower case, and the nanoseconds of a unit behind it.
fn named(cell: &str) -> (String, Option<f64>) {
    let name = cell.trim().trim_matches('"').trim().to_ascii_lowercase();
    let bare = name.trim_end_matches([')', ']']);
    let Some((before, unit)) = bare.rsplit_once(['_', '(', '[', ' ', '.']) else {
        // `nsecs` of bpftrace.
        let unit = (name == "nsecs").then_some(1.0);
        return (name, unit);
    };
    let ns = match unit.trim() {
        "s" | "sec" | "seconds" => 1e9,
        "ms" | "msec" | "milliseconds" => 1e6,
        "us" | "usec" | "microseconds" => 1e3,
        "ns" | "nsec" | "nanoseconds" => 1.0,
        _ => return (name, None),
    };
    (before.trim_end_matches(['_', ' ']).to_owned(), Some(ns))
}

/// The columns of a header; none if it has no time, no kind or no size.
pub(super) fn columns(line: &str) -> Option<Columns> {
    // The commonest one: a comma may stand inside a quoted name of a file that is separated by
    // semicolons.
    let delimiter = [',', ';', '\t'].into_iter().max_by_key(|it| line.matches(*it).count())?;
    let names: Vec<_> = line.trim_start_matches('#').split(delimiter).map(named).collect();
    let find = |wanted: &[&str]| {
        // In the order of the wanted names, not of the columns: `time` is meant before `elapsed`.
        wanted.iter().find_map(|name| names.iter().position(|(found, _)| found == name))
    };
    let (time, kind) = (find(&TIMES)?, find(&KINDS)?);
    let size = find(&SIZES).map(|n| (n, 1)).or(find(&SECTORS).map(|n| (n, SECTOR)));
    let size = size.or(find(&KIBIBYTES).map(|n| (n, 1024)))?;
    let offset = find(&OFFSETS).map(|n| (n, 1)).or(find(&FIRST_SECTORS).map(|n| (n, SECTOR)));
    let latency = find(&LATENCIES).map(|n| (n, names[n].1.unwrap_or(1e9)));
    let time = (time, names[time].1);
    let (device, cpu) = (find(&DEVICES), find(&["cpu"]));
    let all = names.len();
    Some(Columns { delimiter, time, kind, size, offset, latency, device, cpu, all })
}

impl Columns {
    /// Returns whether they stand where Alibaba's block traces have them.
    pub(super) fn is_alibaba(&self) -> bool {
        let (time, size) = (self.time.0, self.size.0);
        (self.device, self.kind, size, time, self.all) == (Some(0), 1, 3, 4, 5)
    }
}

/// Returns whether a line is the header of Tencent's block traces, whose sizes are sectors.
pub(super) fn is_tencent(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("Timestamp,Offset,Size,IOType,VolumeID")
}

/// Nanoseconds of a time: by its unit, or as a date of its size, or as seconds with a fraction.
fn time_ns(word: &str, unit_ns: Option<f64>) -> Option<u64> {
    // Where semicolons or tabs separate columns, a comma begins a fraction.
    let word = &*decimal(word);
    if let Some(unit) = unit_ns {
        return match word.parse::<u64>() {
            Ok(whole) => whole.checked_mul(unit as u64),
            Err(_) => {
                let ns = word.parse::<f64>().ok()? * unit;
                (0.0..1.8e19).contains(&ns).then_some(ns as u64)
            }
        };
    }
    if let Some(date_ns) = date_ns(word) {
        return Some(date_ns);
    }
    if word.contains('.') {
        return nanoseconds(word);
    }
    // Dates from 1985 on, in seconds and less.
    match word.parse::<u64>().ok()? {
        whole @ 500_000_000..5_000_000_000 => whole.checked_mul(SECOND_NS),
        whole @ 500_000_000_000..5_000_000_000_000 => whole.checked_mul(1_000_000),
        whole @ 500_000_000_000_000..5_000_000_000_000_000 => whole.checked_mul(1000),
        whole @ 500_000_000_000_000_000.. => Some(whole),
        _ => None,
    }
}

/// A number with a point for the comma that it may have.
fn decimal(word: &str) -> Cow<'_, str> {
    match word.split_once(',') {
        Some((whole, fraction)) => format!("{whole}.{fraction}").into(),
        None => word.into(),
    }
}

/// Nanoseconds of a date, `2025-11-03T10:00:00.123Z`, or with a blank for the `T`. All rows of a
/// table are of one zone, which is left out.
fn date_ns(word: &str) -> Option<u64> {
    // Without dashes a date would be any number of eight digits; and jiff describes each failure on
    // the heap, which rows of numbers need not pay for.
    if word.as_bytes().get(4) != Some(&b'-') {
        return None;
    }
    let word = word.trim_end_matches('Z');
    // Behind the time of day alone, since a date has dashes, too.
    let zone = word.rfind(['+', '-']).filter(|at| *at > 10);
    let date: DateTime = word[..zone.unwrap_or(word.len())].parse().ok()?;
    let since = date.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    u64::try_from(since.as_nanos()).ok()
}

/// Reads a table by its header.
pub(super) fn read(file: &File, text: &str, columns: &Columns) -> Result<Vec<Event>, LoadError> {
    let (mut events, mut devices) = (Vec::new(), HashMap::<&str, u32>::new());
    for (line, number) in text.lines().zip(1..).skip_while(|(line, _)| !is_header(line)).skip(1) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> =
            line.split(columns.delimiter).map(|it| it.trim().trim_matches('"')).collect();
        let wrong = |what: &str, at: usize| {
            let found = words.get(at).copied().unwrap_or_default();
            LoadError::of(file, Some(number), format!("{what}: found `{found}`"))
        };
        let word = |at: usize| words.get(at).copied();
        // A comma within a number moves all that stands behind it.
        if let Some(at) = (columns.all..words.len()).find(|at| !words[*at].is_empty()) {
            let expected = format!("expected {} cells, as the header has", columns.all);
            return Err(wrong(&expected, at));
        }
        let (time, unit) = columns.time;
        let at_ns = word(time).and_then(|word| time_ns(word, unit)).ok_or_else(|| {
            wrong("expected a time, with its unit in the column's name (time_us)", time)
        })?;
        let kind = word(columns.kind)
            .and_then(what_is)
            .ok_or_else(|| wrong("expected R, W, D, F, or a word for them", columns.kind))?;
        let (size, unit) = columns.size;
        let bytes = word(size).and_then(|it| it.parse::<u64>().ok()?.checked_mul(unit));
        let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| wrong("expected a size below 4 GiB", size))?;
        let sector = columns.offset.and_then(|(at, unit)| {
            Some(word(at)?.parse::<u64>().ok()?.checked_mul(unit)? / SECTOR)
        });
        let next = devices.len() as u32;
        let name = columns.device.and_then(word).unwrap_or_default();
        let device = *devices.entry(name).or_insert(next);
        let cpu = columns.cpu.and_then(word).and_then(|it| it.parse().ok()).unwrap_or(0);
        let (writes, discards, is_flush) = kind;
        let event = Event {
            at_ns,
            cpu,
            device,
            what: What::Queue,
            // A place of its own for each line without one: equal sectors would be taken for merges
            // and completions of each other.
            sector: sector.unwrap_or(number),
            bytes: if is_flush { 0 } else { bytes },
            writes,
            discards,
        };
        let took_ns = columns.latency.and_then(|(at, unit)| {
            let ns = decimal(word(at)?).parse::<f64>().ok()? * unit;
            (0.0..1e15).contains(&ns).then_some(ns as u64)
        });
        match took_ns {
            Some(took_ns) => events.extend(with_latency(event, took_ns)),
            None => events.push(event),
        }
    }
    Ok(spread(events))
}

pub(super) fn is_header(line: &str) -> bool {
    columns(line).is_some()
}

/// Returns whether an I/O writes, discards or flushes.
fn what_is(word: &str) -> Option<(bool, bool, bool)> {
    if let Some(writes) = direction(word) {
        return Some((writes, false, false));
    }
    match word.to_ascii_lowercase().as_str() {
        "0" | "randread" => return Some((false, false, false)),
        "1" | "randwrite" => return Some((true, false, false)),
        "discard" | "trim" | "unmap" => return Some((false, true, false)),
        "flush" | "sync" | "f" => return Some((true, false, true)),
        _ => {}
    }
    kind(word).map(|(writes, discards)| (writes, discards, false))
}

/// Requests of traces with whole seconds, spread evenly over them.
pub(super) fn spread(mut events: Vec<Event>) -> Vec<Event> {
    let is_whole =
        |event: &Event| event.at_ns.is_multiple_of(SECOND_NS) && event.what == What::Queue;
    // One time within a second says that the clock is finer: then equal times are bursts, and stay.
    if !events.iter().all(is_whole) {
        return events;
    }
    events.sort_by_key(|event| event.at_ns);
    for same in events.chunk_by_mut(|a, b| a.at_ns == b.at_ns) {
        let count = same.len() as u64;
        for (event, n) in same.iter_mut().zip(0..) {
            event.at_ns += SECOND_NS / count * n;
        }
    }
    events
}
