//! Reads recordings of idle CPUs: the kernel's own events as text, or a table of gaps.
//!
//! | format | line |
//! |---|---|
//! | perf script | `swapper 0 [003] 12.345678: power:cpu_idle: state=1 cpu_id=3` |
//! | ftrace, trace-cmd, idlestat | `<idle>-0 [003] d..1 12.345678: cpu_idle: state=1 cpu_id=3` |
//! | CSV | `cpu,begin_us,end_us,state`, times in s, ms, us or ns, the state if it is known |
//!
//! `power:cpu_idle_miss` gives the kernel's own verdicts, `sched:sched_switch` what followed a gap.

mod words;

use std::io::{self, BufRead};

use halfwink_engine::LineError;
use halfwink_inputs::{look, Family, Share, MOST_BAD};
use halfwink_units::Time;
use memchr::memmem::Finder;

use self::words::{bare, cpu_of, field, nanoseconds, number, number_of_cpu, stamp, state_and_cpu};
use super::{Cpu, Gap, Recording};

/// `PWR_EVENT_EXIT`: the CPU leaves its idle state.
const EXIT: u64 = u32::MAX as u64;
/// Longest line that is read, in bytes; of a longer one its beginning is.
const LONGEST_LINE: usize = 1 << 16;
/// Longest recording, in nanoseconds: about a hundred days, which picoseconds hold.
const LONGEST_NS: u64 = 9_000_000_000_000_000;
/// Bytes that tell what another file is.
const LOOKED_AT: usize = 1 << 14;
/// A clock steps back in one event of so many at most; else lines are not in the order of time.
const MOST_BACK: u64 = 20;
const REVERSED: &str =
    "the latest events come first, expected the earliest: `tac FILE > idle.txt` turns them round";
/// CPUs of a recording at most.
const MOST_CPUS: u64 = 65_536;

/// A recording that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has no gaps.
    #[error("{0}")]
    Empty(String),
    /// More lines cannot be read than may be left out.
    #[error(
        "{bad} of {lines} lines are bad, expected at most {MOST_BAD} %; the first one, {first}"
    )]
    TooMany {
        /// Lines that cannot be read.
        bad: u64,
        /// Lines with an idle time or an event of one.
        lines: u64,
        /// The first of them.
        first: LineError,
    },
    /// The table's first line or a time is not as expected.
    #[error("line {line}: {message}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// Found value, and what is expected.
        message: String,
    },
}

/// Reads a recording, of whose lines so few may be bad as those of any file.
///
/// # Errors
/// If it cannot be read, or holds no gap.
pub fn read(input: impl BufRead) -> Result<Recording, ReadError> {
    read_with(input, Share::default())
}

/// Reads a recording of which this share of lines may be bad.
///
/// # Errors
/// As [`read`].
pub fn read_with(mut input: impl BufRead, accepted: Share) -> Result<Recording, ReadError> {
    read_lines(&mut input, accepted)
}

/// Reads without a type parameter, so that it is compiled here, where loops are optimised, and not
/// in the crate that calls it.
fn read_lines(input: &mut dyn BufRead, accepted: Share) -> Result<Recording, ReadError> {
    let mut reader = Reader::default();
    // The beginning of a line whose end is not in the buffer.
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            found => found?,
        };
        if buffer.is_empty() {
            break;
        }
        if reader.head.is_empty() {
            reader.head.extend_from_slice(&buffer[..buffer.len().min(LOOKED_AT)]);
        }
        let (read, mut rest) = (buffer.len(), buffer);
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if begun.is_empty() {
                reader.line(&rest[..end])?;
            } else {
                begin(&mut begun, &rest[..end]);
                reader.line(&begun)?;
                begun.clear();
            }
            rest = &rest[end + 1..];
        }
        begin(&mut begun, rest);
        input.consume(read);
    }
    if !begun.is_empty() {
        reader.last_line(&begun)?;
    }
    reader.finish(accepted)
}

/// Adds to the beginning of a line, of which no more is kept than is read.
fn begin(begun: &mut Vec<u8>, part: &[u8]) {
    let room = LONGEST_LINE.saturating_sub(begun.len());
    begun.extend_from_slice(&part[..part.len().min(room)]);
}

/// Searches that every line is read by. Preparing one costs as much as searching a line.
struct Words {
    idle: Finder<'static>,
    switch: Finder<'static>,
    lost: Finder<'static>,
    dropped: Finder<'static>,
}

impl Default for Words {
    fn default() -> Words {
        Words {
            idle: Finder::new(b"cpu_idle"),
            switch: Finder::new(b"sched_switch:"),
            lost: Finder::new(b"LOST"),
            dropped: Finder::new(b"EVENTS DROPPED"),
        }
    }
}

/// A gap in nanoseconds since the first line with a time, and its state. CPUs that stand one after
/// another may begin before that.
type Raw = (i64, i64, Option<u8>);

/// A CPU while its events are read.
#[derive(Default)]
struct Open {
    gaps: Vec<Raw>,
    entered: Option<(i64, u8)>,
    /// Time of its last event.
    last: Option<i64>,
    /// True once an exit was seen.
    has_left: bool,
    /// True between an exit and what follows it.
    is_awake: bool,
}

/// CPUs in the order in which they came.
#[derive(Default)]
struct Cpus {
    all: Vec<(u32, Open)>,
    /// Place of each CPU by its number, from 1; 0 of those that have not come.
    places: Vec<u32>,
}

impl Cpus {
    fn get(&mut self, cpu: u32) -> &mut Open {
        let number = cpu as usize;
        if number >= self.places.len() {
            self.places.resize(number + 1, 0);
        }
        let place = &mut self.places[number];
        if *place == 0 {
            self.all.push((cpu, Open::default()));
            *place = self.all.len() as u32;
        }
        &mut self.all[*place as usize - 1].1
    }
}

/// Columns of a table of gaps.
struct Columns {
    /// Places of cpu, begin, end and state; the last is none of a line if no column has it.
    places: [usize; 4],
    /// Nanoseconds of a unit of begin and end.
    scales: [u64; 2],
    /// Columns of a line that are looked at, and all that the header has.
    count: usize,
    all: usize,
    delimiter: u8,
}

#[derive(Default)]
struct Reader {
    words: Words,
    /// First bytes, which tell what another file is.
    head: Vec<u8>,
    line: u64,
    format: Option<&'static str>,
    columns: Option<Columns>,
    cpus: Cpus,
    /// Time of the first line with one.
    origin: Option<u64>,
    /// Earliest and latest time since then.
    span: [i64; 2],
    to_task: Option<u64>,
    kernel: Option<[u64; 2]>,
    other: u64,
    bad: u64,
    first_bad: Option<LineError>,
    lost: u64,
    broken: u64,
    cut: u64,
    events: u64,
    /// Events whose time is before that of the line above, of the same CPU.
    back: u64,
}

impl Reader {
    fn line(&mut self, line: &[u8]) -> Result<(), ReadError> {
        self.line += 1;
        self.take(line[..line.len().min(LONGEST_LINE)].trim_ascii())
    }

    /// Reads the last line, which no newline ends. Recorders end each line: a number at the very
    /// end of a file may be the begin of a longer one.
    fn last_line(&mut self, line: &[u8]) -> Result<(), ReadError> {
        let is_event = self.columns.is_none() && self.words.idle.find(line).is_some();
        if !is_event || !line.last().is_some_and(u8::is_ascii_digit) {
            return self.line(line);
        }
        self.line += 1;
        self.events += 1;
        self.bad(line, "a newline behind it: its last number may be cut");
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<(), ReadError> {
        if let Some(columns) = self.columns.take() {
            self.row(&columns, line);
            self.columns = Some(columns);
            return Ok(());
        }
        if let Some(at) = self.words.idle.find(line) {
            let rest = &line[at + b"cpu_idle".len()..];
            if let Some(fields) = rest.strip_prefix(b":") {
                self.events += 1;
                if self.idle(&line[..at], fields).is_none() {
                    self.bad(line, "a time as 12.345678, state= and cpu_id=");
                }
                return Ok(());
            }
            if let Some(fields) = rest.strip_prefix(b"_miss:") {
                self.miss(fields);
                return Ok(());
            }
        } else if let Some(at) = self.words.switch.find(line) {
            self.switched(&line[..at], &line[at..]);
            return Ok(());
        } else if self.words.lost.find(line).is_some() || self.words.dropped.find(line).is_some() {
            self.lost(line);
            return Ok(());
        }
        self.header(line)
    }

    /// A line before or between events.
    fn header(&mut self, line: &[u8]) -> Result<(), ReadError> {
        self.other += 1;
        if self.events > 0 {
            return Ok(());
        }
        if line.starts_with(b"# tracer:") {
            self.format = Some("ftrace");
        } else if line.starts_with(b"idlestat version") {
            self.format = Some("idlestat");
        } else if line.starts_with(b"cpus=") && self.format.is_none() {
            self.format = Some("trace-cmd report");
        } else if let Some(columns) = columns(line) {
            self.columns = Some(columns.map_err(|message| self.wrong(message))?);
            self.format = Some("a table of gaps");
            self.other -= 1;
        }
        Ok(())
    }

    fn wrong(&self, message: String) -> ReadError {
        ReadError::Line { line: self.line, message }
    }

    /// `power:cpu_idle`; nothing if it cannot be read.
    fn idle(&mut self, before: &[u8], fields: &[u8]) -> Option<()> {
        if self.format.is_none() {
            let by_perf = before.ends_with(b"power:");
            self.format = Some(if by_perf { "perf script" } else { "ftrace" });
        }
        let at = self.since(stamp(before)?)?;
        let (state, cpu) = match state_and_cpu(fields) {
            Some(both) => both,
            None => (field(fields, b"state=")?, field(fields, b"cpu_id=")?),
        };
        if cpu >= MOST_CPUS {
            return None;
        }
        let open = self.cpus.get(cpu as u32);
        if open.last.is_some_and(|last| at < last) {
            self.back += 1;
            // The clock stepped back, or the lines are not in order.
            self.broken += u64::from(open.entered.take().is_some());
            open.last = Some(at);
            if state == EXIT {
                return Some(());
            }
        }
        open.last = Some(at);
        if state != EXIT {
            let state = u8::try_from(state).ok()?;
            self.broken += u64::from(open.entered.is_some());
            open.entered = Some((at, state));
            open.is_awake = false; // It went back to its rest without a task.
            return Some(());
        }
        match open.entered.take() {
            Some((begin, state)) if begin < at => {
                push(open, (begin, at, Some(state)), &mut self.broken);
            }
            // Within the clock's step.
            Some(_) => {}
            None if open.has_left => self.broken += 1,
            None => self.cut += 1,
        }
        open.has_left = true;
        open.is_awake = true;
        Some(())
    }

    /// Counts an event of `power:cpu_idle_miss`.
    fn miss(&mut self, fields: &[u8]) {
        let [below, above] = self.kernel.get_or_insert([0, 0]);
        if memchr::memmem::find(fields, b"type=below").is_some() {
            *below += 1;
        } else if memchr::memmem::find(fields, b"type=above").is_some() {
            *above += 1;
        } else {
            self.events += 1;
            self.bad(fields, "type=below or type=above");
        }
    }

    /// `sched:sched_switch`: from the idle task it ends a gap for a task.
    fn switched(&mut self, before: &[u8], fields: &[u8]) {
        let to_task = self.to_task.get_or_insert(0);
        let Some(cpu) = cpu_of(before).filter(|&cpu| u64::from(cpu) < MOST_CPUS) else { return };
        let open = self.cpus.get(cpu);
        if field(fields, b"prev_pid=") == Some(0) {
            *to_task += u64::from(std::mem::take(&mut open.is_awake));
        }
    }

    /// The recorder says that events are missing: no gap that is open is sure, on the CPU that it
    /// names, or on any.
    fn lost(&mut self, line: &[u8]) {
        let count = field(line, b"LOST ").or_else(|| field(line, b"lost ")).or_else(|| {
            // `[53 EVENTS DROPPED]`
            let at = memchr::memrchr(b'[', line)? + 1;
            field(&line[at - 1..], b"[")
        });
        self.lost += count.unwrap_or(1).max(1);
        let of = field(line, b"CPU:");
        for (_, open) in
            self.cpus.all.iter_mut().filter(|(cpu, _)| of.is_none_or(|n| n == u64::from(*cpu)))
        {
            self.broken += u64::from(open.entered.take().is_some());
            open.has_left = false; // Its next exit has no entry because of the loss: it is cut.
        }
    }

    /// A line of a table of gaps.
    fn row(&mut self, columns: &Columns, line: &[u8]) {
        if line.starts_with(b"# LOST ") {
            self.lost(line);
            return;
        }
        if line.is_empty() || line.starts_with(b"#") {
            self.other += 1;
            return;
        }
        self.events += 1;
        if self.gap_of_row(columns, line).is_none() {
            self.bad(line, "a CPU, and a begin before its end");
        }
    }

    /// Counts a line that cannot be read, and keeps the first one.
    fn bad(&mut self, line: &[u8], expected: &'static str) {
        self.bad += 1;
        let number = self.line;
        self.first_bad.get_or_insert_with(|| LineError::new(number, line, expected));
    }

    fn gap_of_row(&mut self, columns: &Columns, line: &[u8]) -> Option<()> {
        let mut cells = [None; 4];
        for (n, cell) in
            line.split(|&byte| byte == columns.delimiter).take(columns.count).enumerate()
        {
            for (place, _) in cells.iter_mut().zip(columns.places).filter(|(_, at)| *at == n) {
                *place = Some(bare(cell));
            }
        }
        let [cpu, begin, end, state] = cells;
        let cpu = number_of_cpu(cpu?).filter(|&cpu| cpu < MOST_CPUS)?;
        let begin = self.since(nanoseconds(begin?, columns.scales[0])?)?;
        let end = self.since(nanoseconds(end?, columns.scales[1])?)?;
        let state = match state {
            Some(cell) if !cell.is_empty() => Some(u8::try_from(number(cell)?).ok()?),
            _ => None,
        };
        if begin >= end {
            return None;
        }
        // A comma within a number moves all that stands behind it.
        let row = line.strip_suffix(&[columns.delimiter]).unwrap_or(line);
        if memchr::memchr_iter(columns.delimiter, row).count() >= columns.all {
            return None;
        }
        self.cpus.get(cpu as u32).gaps.push((begin, end, state));
        Some(())
    }

    /// Time since the origin; nothing if it is further from that than is held.
    fn since(&mut self, ns: u64) -> Option<i64> {
        let origin = *self.origin.get_or_insert(ns);
        let since = i64::try_from(i128::from(ns) - i128::from(origin)).ok()?; // Of either sign.
        let [earliest, latest] = self.span;
        let span = [earliest.min(since), latest.max(since)];
        if span[1].abs_diff(span[0]) >= LONGEST_NS {
            return None;
        }
        self.span = span;
        Some(since)
    }

    /// Sorts rows of a table, which may be in any order, and leaves out those that overlap.
    fn sort(&mut self) {
        for (_, open) in &mut self.cpus.all {
            if !open.gaps.is_sorted() {
                open.gaps.sort_unstable();
            }
            let (count, mut last) = (open.gaps.len(), i64::MIN);
            open.gaps.retain(|gap| {
                let fits = gap.0 >= last;
                last = if fits { gap.1 } else { last };
                fits
            });
            self.broken += (count - open.gaps.len()) as u64;
        }
    }

    /// Returns whether lines are not in the order of time; one step of a clock is none of that.
    fn is_disordered(&self) -> bool {
        self.back > 1 && MOST_BACK * self.back > self.events
    }

    /// Says why the file has no gap.
    fn nothing(&self) -> String {
        let other = look(&self.head, Family::Idle).filter(|_| self.columns.is_none());
        match (self.events, other) {
            (events, _) if 2 * self.back > events => REVERSED.to_owned(),
            (events, _) if self.is_disordered() => format!(
                "{} of {events} events of idle CPUs are before the line above, expected the order \
                 of time, as recorders write it",
                self.back
            ),
            // Also where its events look like ours, and none can be read.
            (events, Some(other)) if events == self.bad => other.to_string(),
            _ if self.columns.is_some() && self.bad == 0 => {
                "the table of idle times has no rows: no CPU was idle".to_owned()
            }
            (0, _) if self.to_task.is_some() => "switches of tasks, but no `power:cpu_idle`: no \
                CPU was idle, or that event was not recorded; `perf record -a -e power:cpu_idle \
                sleep 20`, and `perf script > idle.txt`, record it"
                .to_owned(),
            (0, _) => format!(
                "no idle times among its lines ({}); expected text of `power:cpu_idle` (perf \
                 script, trace-cmd report, ftrace, idlestat), or a table with the columns \
                 cpu,begin_us,end_us",
                self.line
            ),
            (events, _) => {
                let first = self.first_bad.as_ref();
                let first = first.map_or_else(String::new, |it| format!("; the first one, {it}"));
                format!(
                    "no idle time has a beginning and an end (events of idle CPUs: {events}, of \
                     which cannot be read: {}{first})",
                    self.bad
                )
            }
        }
    }

    fn finish(mut self, accepted: Share) -> Result<Recording, ReadError> {
        let is_open = |(_, open): &&(u32, Open)| open.entered.is_some();
        self.cut += self.cpus.all.iter().filter(is_open).count() as u64;
        let earliest = self.span[0];
        let time = |ns: i64| Time::ns(ns.abs_diff(earliest));
        let gap = |(begin, end, state): Raw| Gap { begin: time(begin), end: time(end), state };
        let cpu = |(number, open): (u32, Open)| Cpu {
            number,
            gaps: open.gaps.into_iter().map(gap).collect(),
        };
        // CPUs without a gap, too: while they run, not all are idle.
        if self.columns.is_some() {
            self.sort();
        }
        self.cpus.all.sort_unstable_by_key(|(number, _)| *number);
        let cpus = std::mem::take(&mut self.cpus.all);
        let cpus: Vec<Cpu> = cpus.into_iter().map(cpu).collect();
        if self.is_disordered() || cpus.iter().all(|cpu| cpu.gaps.is_empty()) {
            return Err(ReadError::Empty(self.nothing()));
        }
        if let Some(first) = self.first_bad.take() {
            let (bad, lines) = (self.bad, self.events);
            if !accepted.accepts(bad, lines) {
                return Err(ReadError::TooMany { bad, lines, first });
            }
        }
        Ok(Recording {
            format: self.format.unwrap_or("ftrace"),
            cpus,
            length: Time::ns(self.span[1].abs_diff(earliest)),
            other_lines: self.other,
            bad_lines: self.bad,
            lost_events: self.lost,
            broken: self.broken,
            cut: self.cut,
            to_task: self.to_task,
            kernel: self.kernel,
        })
    }
}

/// Adds a gap, unless it overlaps the one before.
fn push(open: &mut Open, gap: Raw, broken: &mut u64) {
    if open.gaps.last().is_some_and(|last| gap.0 < last.1) {
        *broken += 1;
    } else {
        open.gaps.push(gap);
    }
}

/// Columns of a table, if the line is its first one.
fn columns(line: &[u8]) -> Option<Result<Columns, String>> {
    let text = std::str::from_utf8(line).ok()?.to_ascii_lowercase();
    let delimiter = [b',', b';', b'\t'].into_iter().find(|it| line.contains(it)).unwrap_or(b',');
    let names: Vec<&str> =
        text.split(char::from(delimiter)).map(|name| name.trim().trim_matches('"')).collect();
    let cpu = names.iter().position(|name| *name == "cpu")?;
    let find = |what: &str| {
        names.iter().enumerate().find_map(|(n, name)| {
            let unit = name.strip_prefix(what)?.strip_prefix('_')?;
            let ns = match unit {
                "s" => 1_000_000_000,
                "ms" => 1_000_000,
                "us" => 1_000,
                "ns" => 1,
                _ => return None,
            };
            Some((n, ns))
        })
    };
    let state = names.iter().position(|name| *name == "state");
    match (find("begin"), find("end")) {
        (Some((begin, first)), Some((end, second))) => {
            let count = 1 + cpu.max(begin).max(end).max(state.unwrap_or(0));
            let places = [cpu, begin, end, state.unwrap_or(usize::MAX)];
            Some(Ok(Columns {
                places,
                scales: [first, second],
                count,
                all: names.len(),
                delimiter,
            }))
        }
        (None, None) => None,
        _ => Some(Err(format!(
            "`{text}`, expected the columns cpu, begin_UNIT, end_UNIT and perhaps state, with s, \
             ms, us or ns as UNIT"
        ))),
    }
}

#[cfg(test)]
mod tests;
