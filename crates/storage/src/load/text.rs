//! Traces of block I/O as text: blkparse, biosnoop, events of perf and ftrace, CSV of data centres.

use std::collections::HashMap;

use super::blktrace::{self, device, nanoseconds};
use super::events::{Event, What};
use super::table::{self, Shape};
use super::{File, LoadError};

/// Expectation of a file that is none of them.
pub(super) const EXPECTED: &str = "expected a job file or an I/O log of fio, a trace of blktrace, \
     or the text of blkparse, biosnoop or perf script, or CSV: of MSR Cambridge, Alibaba, Tencent, \
     SPC or FIU, or with a header such as time_us,op,offset,bytes";
const SECTOR: u64 = 512;
/// assumption: blocks of file systems, of which I/Os are whole numbers.
const BLOCK: u64 = 4096;
/// Sectors of an I/O at most, if users have not changed `max_sectors_kb`.
const LARGEST: u64 = 2560;
/// Lines that tell a format.
const LOOKED_AT: usize = 64;
/// Times before the first one: an I/O begins its latency earlier.
pub(super) const BASE_NS: u64 = 1_000_000_000_000;

/// A format of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The default lines of blkparse.
    Blkparse,
    /// blkparse with `-f` of a user's own.
    Columns,
    /// biosnoop of bcc and of libbpf-tools.
    Biosnoop,
    /// `block:` events of perf script, or of ftrace.
    Events,
    /// MSR Cambridge: FILETIME, host, disk, type, offset, size, response time.
    Msr,
    /// Alibaba's block traces: device, operation, offset, length, microseconds.
    Alibaba,
    /// A table with a header.
    Table,
    /// A public trace without one.
    Shape(Shape),
}

impl Form {
    /// Tells it by the first lines.
    pub(super) fn of(text: &str) -> Option<Form> {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LOOKED_AT);
        let first = lines().find(|line| !line.starts_with('#'))?;
        // Any of the first lines, since perf and ftrace put other events and a header between them;
        // all other formats are told by their first.
        if lines().any(|line| event_of(line).is_some()) {
            return Some(Form::Events);
        }
        // iosnoop of perf-tools says first what it does.
        if lines().find(|line| !is_words(line)).and_then(heads).is_some() {
            return Some(Form::Biosnoop);
        }
        // Six words at least: `8,0` begins lines of other formats as well, which come below. The
        // default lines have a plus before sectors; a format of a user's own may begin as they do.
        let own = || lines().filter(|line| columns(line).is_some()).count() >= 2;
        let has_plus = || lines().any(|line| line.contains(" + "));
        if blktrace::is_event(first)
            && first.split_whitespace().count() >= 6
            && (has_plus() || !own())
        {
            return Some(Form::Blkparse);
        }
        let known = |read: fn(&str) -> Option<Event>| lines().take(3).any(|it| read(it).is_some());
        let header = table::columns(first);
        if known(msr) {
            Some(Form::Msr)
        } else if known(alibaba) && header.as_ref().is_none_or(table::Columns::is_alibaba) {
            Some(Form::Alibaba)
        } else if table::is_tencent(first) {
            Some(Form::Shape(Shape::Tencent))
        } else if header.is_some() {
            Some(Form::Table)
        } else if let Some(shape) = Shape::ALL.into_iter().find(|shape| {
            // Three lines and all of them: tables without a header are told by numbers in their
            // usual range alone.
            lines().filter(|line| !line.starts_with('#')).take(3).all(|it| shape.row(it).is_some())
        }) {
            Some(Form::Shape(shape))
        } else if blktrace::is_event(first) && !own() {
            Some(Form::Blkparse)
        // Last, as it accepts the most: an order of one's own has no mark but its looks.
        } else if own() {
            Some(Form::Columns)
        } else {
            None
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Form::Blkparse => "text of blkparse",
            Form::Columns => "text of blkparse in a format of its own",
            Form::Biosnoop => "text of biosnoop",
            Form::Events => "block events of perf or ftrace",
            Form::Msr => "CSV of MSR Cambridge",
            Form::Alibaba => "CSV of Alibaba's block traces",
            Form::Table => "table of block I/Os",
            Form::Shape(shape) => shape.name(),
        }
    }

    pub(super) fn read(self, file: &File, text: &str) -> Result<Vec<Event>, LoadError> {
        match self {
            Form::Blkparse => blktrace::read_text(file, text),
            Form::Columns => own_columns(file, text),
            Form::Biosnoop => biosnoop(file, text),
            Form::Events => by_line(file, text, event_of, "an event of the block layer"),
            Form::Msr => by_line(file, text, msr, "time,host,disk,Read,offset,bytes,time"),
            Form::Alibaba => by_line(file, text, alibaba, "device,R,offset,bytes,microseconds"),
            Form::Table => {
                let columns = text.lines().find_map(table::columns);
                columns.map_or(Ok(Vec::new()), |columns| table::read(file, text, &columns))
            }
            Form::Shape(shape) => shaped(file, text, shape),
        }
    }
}

/// Rows of a public trace.
fn shaped(file: &File, text: &str, shape: Shape) -> Result<Vec<Event>, LoadError> {
    let mut events = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || number == 1 && table::is_tencent(line) {
            continue;
        }
        events.extend(shape.row(line).ok_or_else(|| {
            let start: String = line.chars().take(60).collect();
            let message = format!("found `{start}`, expected {}", shape.expected());
            LoadError::of(file, Some(number), message)
        })?);
    }
    Ok(table::spread(events))
}

/// Events of lines that stand for themselves. Of other programs' events lines are left out; of a
/// CSV all must be right but the first, which may be a header.
fn by_line(
    file: &File,
    text: &str,
    read: fn(&str) -> Option<Event>,
    expected: &str,
) -> Result<Vec<Event>, LoadError> {
    let (mut events, mut devices) = (Vec::new(), HashMap::new());
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if is_summary(line) {
            break;
        }
        if line.is_empty() || line.starts_with('#') || is_other(line) {
            continue;
        }
        match read(line) {
            Some(event) => events.extend(completed(event, line, &mut devices)),
            None if number == 1 && !line.contains("block_") => {}
            None => {
                let start: String = line.chars().take(60).collect();
                let message = format!("found `{start}`, expected {expected}");
                return Err(LoadError::of(file, Some(number), message));
            }
        }
    }
    Ok(events)
}

/// Returns whether a line begins the summary at the end of blkparse's output: `CPU0 (sda):` or
/// `Total (sda):`.
fn is_summary(line: &str) -> bool {
    let of =
        line.strip_prefix("CPU").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    of.or(line.strip_prefix("Total"))
        .is_some_and(|rest| rest.starts_with(" (") && rest.ends_with("):"))
}

/// Returns whether a line of blkparse is a step of an I/O that moves no data: remapped, bounced,
/// inserted, plugged, split, queued again. It may have a kind and sectors, as the steps that move
/// data have.
fn is_step(line: &str) -> bool {
    let words = || {
        let words = line.split(|c: char| c.is_whitespace() || c == ',');
        words.filter(|word| !word.is_empty())
    };
    let is_one_of = |actions: &str, word: &str| word.len() == 1 && actions.contains(word);
    let moves = words().position(|word| is_one_of("QMFDC", word));
    let stands = words().any(|word| is_one_of("ABGIPSTUXm", word)) && moves.is_none();
    // `R` is an action and a kind: an action has a kind behind it, and none that moves data before
    // it. What follows may be a letter of both, too: `R D` queues a discard again.
    let again = words().zip(words().skip(1)).position(|(a, b)| a == "R" && kind(b).is_some());
    words().any(|word| word.contains('.') && nanoseconds(word).is_some())
        && (stands || again.is_some_and(|at| moves.is_none_or(|moves| moves > at)))
        && !line.contains("block_")
}

/// Returns whether a line holds nothing that is read, but another event or a word of the recorder.
fn is_other(line: &str) -> bool {
    let is_event = line.contains(": ") && line.contains('[') && event_of(line).is_none();
    line.starts_with("CPU")
        || is_step(line)
        || (is_event && !is_read(line) && columns(line).is_none())
        // A terminal shows Ctrl-C, which ends a recorder.
        || line == "^C"
        || is_header_of_trace_cmd(line)
        || lost(line).is_some()
        || is_frame(line)
}

/// Returns whether a line is of an event that is read; what it says of it may be wrong.
fn is_read(line: &str) -> bool {
    let names = line.match_indices("block_").filter_map(|(at, _)| line[at..].split(':').next());
    names.into_iter().any(|name| what_of(name).is_some())
}

/// Words of iosnoop about what it does.
fn is_words(line: &str) -> bool {
    line.starts_with("Tracing block I/O") || line == "Ending tracing..."
}

fn is_header_of_trace_cmd(line: &str) -> bool {
    line.starts_with("cpus=") || line.starts_with("version = ")
}

/// A function of the calls that led to an event (`perf record -g`):
/// `ffffffff9d4a1b2c blk_mq_start_request+0x11c ([kernel.kallsyms])`.
fn is_frame(line: &str) -> bool {
    let address = line.split_whitespace().next().unwrap_or_default();
    let is_address = address.len() >= 4 && address.bytes().all(|it| it.is_ascii_hexdigit());
    is_address && line.ends_with(')')
}

/// Events that a recorder could not keep, by its own lines: `CPU:1 [LOST 53 EVENTS]` of ftrace and
/// `[53 EVENTS DROPPED]` of trace-cmd, `Possibly lost 5 samples` of bcc, `Lost 5 events` of
/// bpftrace, `PERF_RECORD_LOST lost 5` of perf.
pub(super) fn lost_events(text: &str) -> u64 {
    text.lines().filter_map(lost).sum()
}

fn lost(line: &str) -> Option<u64> {
    let line = line.trim();
    let is_lost = (line.contains('[') && line.ends_with(" EVENTS DROPPED]"))
        || (line.contains("[LOST ") && line.ends_with(" EVENTS]"))
        || line.contains("PERF_RECORD_LOST")
        || line.starts_with("Possibly lost ")
        || line.starts_with("Lost ");
    let number = |word: &str| word.trim_matches(['[', ']']).parse::<u64>().ok();
    is_lost.then(|| line.split_whitespace().rev().find_map(number).unwrap_or(1))
}

/// The event, and the one that it ended with if its line says how long it took: then its bytes hold
/// the time until `with_latency` has both.
fn completed(event: Event, line: &str, devices: &mut HashMap<String, u32>) -> Vec<Event> {
    let mut words = line.split(',');
    if msr(line).is_some() {
        // Devices of a host are numbered as they come.
        let device = [words.nth(1), words.next()].map(Option::unwrap_or_default).join(" ");
        let next = devices.len() as u32;
        let device = *devices.entry(device).or_insert(next);
        let took = line.split(',').nth(6).and_then(|it| it.trim().parse::<u64>().ok());
        return with_latency(Event { device, ..event }, took.unwrap_or(0).saturating_mul(100));
    }
    vec![event]
}

/// An I/O that begins at its time and ends so much later.
pub(super) fn with_latency(event: Event, took_ns: u64) -> Vec<Event> {
    let issue = Event { what: What::Issue, ..event };
    let end = Event { what: What::Complete, at_ns: event.at_ns.saturating_add(took_ns), ..event };
    vec![event, issue, end]
}

pub(super) fn kind(word: &str) -> Option<(bool, bool)> {
    // A zone append (`ZA`) writes.
    if let Some(more) = word.strip_prefix("ZA") {
        return more.bytes().all(|it| b"FSAMU".contains(&it)).then_some((true, false));
    }
    let is_kind = !word.is_empty()
        && word.len() <= 6
        && word.bytes().all(|it| b"RWDFSAMNEU".contains(&it))
        // `A`, `M`, `N`, `S`, `E` and `U` only qualify a direction; alone they are another column.
        && word.bytes().any(|it| b"RWDF".contains(&it));
    // An `F` alone is a flush.
    is_kind.then(|| (word.contains('W') || word == "F", word.contains('D')))
}

fn what_of(name: &str) -> Option<What> {
    match name {
        "block_bio_queue" => Some(What::Queue),
        "block_bio_backmerge" => Some(What::BackMerge),
        "block_bio_frontmerge" => Some(What::FrontMerge),
        "block_rq_insert" => Some(What::Insert),
        "block_rq_issue" => Some(What::Issue),
        "block_rq_complete" => Some(What::Complete),
        _ => None,
    }
}

/// `fio 1000 [001] 100.000196: block:block_rq_issue: 259,0 R 4096 () 52992312 + 8 [fio]`, of perf;
/// of ftrace without the event's group.
fn event_of(line: &str) -> Option<Event> {
    let at = line.find("block_")?;
    let name = line[at..].split(':').next()?;
    let what = what_of(name)?;
    // Read backwards from the event: a program's name, which stands first, may have blanks and
    // brackets.
    let before = line[..at].trim_end().trim_end_matches("block:").trim_end();
    // perf prints the event's period, a number, between its time and its name.
    let is_period = |word: &&str| word.bytes().all(|it| it.is_ascii_digit());
    let mut before = before.split_whitespace().rev().skip_while(is_period);
    let at_ns = nanoseconds(before.next()?.strip_suffix(':')?)?;
    let cpu = before.find_map(|word| word.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    let mut words = line[at + name.len() + 1..].split_whitespace();
    let device = device(words.next()?)?;
    let word = words.next()?;
    // A command of a program's own, or for a zone, moves no blocks, whatever its size.
    let is_other = word.starts_with('N') || word.starts_with('Z') && kind(word).is_none();
    let (writes, discards) = if is_other { (false, false) } else { kind(word)? };
    let rest: Vec<&str> = words.collect();
    // By the plus: kernels differ in what stands between the kind and the sector (bytes, a
    // command).
    let plus = rest.iter().position(|word| *word == "+")?;
    let sector = rest.get(plus.checked_sub(1)?)?.parse().ok()?;
    let sectors: u64 = rest.get(plus + 1)?.parse().ok()?;
    let bytes = u32::try_from(sectors.checked_mul(512)?).ok()?;
    let (cpu, bytes) = (cpu.unwrap_or(0), if is_other { 0 } else { bytes });
    Some(Event { at_ns, cpu, device, what, sector, bytes, writes, discards })
}

/// Where biosnoop has what, by its head.
struct Heads {
    time: usize,
    disk: Option<usize>,
    kind: usize,
    sector: Option<usize>,
    bytes: usize,
    latency: Option<usize>,
    count: usize,
    /// Words that stand before a program's name, which may have blanks.
    before: usize,
}

fn heads(line: &str) -> Option<Heads> {
    let names: Vec<&str> = line.split_whitespace().collect();
    let place = |name: &str| names.iter().position(|it| *it == name);
    Some(Heads {
        // iosnoop of perf-tools has begin and end.
        time: place("TIME(s)").or(place("ENDs"))?,
        disk: place("DISK").or(place("DEV")),
        kind: place("T").or(place("TYPE"))?,
        sector: place("SECTOR").or(place("BLOCK")),
        bytes: place("BYTES")?,
        latency: place("LAT(ms)").or(place("LATms")),
        count: names.len(),
        before: place("COMM").unwrap_or(names.len()),
    })
}

/// Lines of biosnoop. Times are of the end; names of programs may have blanks.
fn biosnoop(file: &File, text: &str) -> Result<Vec<Event>, LoadError> {
    let (mut events, mut devices) = (Vec::new(), HashMap::<&str, u32>::new());
    let mut heads_found = None;
    for (line, number) in text.lines().zip(1..) {
        // A terminal shows Ctrl-C, which ends biosnoop.
        let is_end = line.trim() == "^C" || lost(line).is_some() || is_words(line.trim());
        if line.trim().is_empty() || line.starts_with('#') || is_end {
            continue;
        }
        if let Some(found) = heads(line) {
            heads_found = Some(found);
            continue;
        }
        let Some(heads) = &heads_found else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        let row = (|| {
            // Extra words are of a program's name, behind the time.
            let extra = words.len().checked_sub(heads.count)?;
            let place = |at: usize| if at < heads.before { at } else { at + extra };
            let word = |at: usize| words.get(place(at)).copied();
            let end_ns = BASE_NS.checked_add(nanoseconds(word(heads.time)?)?)?;
            let latency: f64 = match heads.latency {
                Some(at) => word(at)?.parse().ok().filter(|ms| (0.0..1e6).contains(ms))?,
                None => 0.0,
            };
            let disk = heads.disk.and_then(word).unwrap_or_default();
            let (writes, discards) = kind(word(heads.kind)?)?;
            let sector = match heads.sector {
                // biosnoop prints -1 where a request has no sector.
                Some(at) => word(at)?.parse::<i64>().ok()?.max(0) as u64,
                None => number,
            };
            let bytes = word(heads.bytes)?.parse().ok()?;
            let next = devices.len() as u32;
            let device = *devices.entry(disk).or_insert(next);
            let took_ns = (latency * 1e6) as u64;
            let (cpu, what, at_ns) = (0, What::Queue, end_ns.saturating_sub(took_ns));
            let event = Event { at_ns, cpu, device, what, sector, bytes, writes, discards };
            Some(with_latency(event, took_ns))
        })();
        events.extend(row.ok_or_else(|| {
            let message = "expected a time, a disk, R or W, a sector, bytes and milliseconds";
            LoadError::of(file, Some(number), message)
        })?);
    }
    Ok(events)
}

/// `128166372003063584,web,0,Read,27132063744,4096,952` (Narayanan 2008): 100 ns since 1601.
fn msr(line: &str) -> Option<Event> {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let [time, _host, _disk, kind, offset, bytes, took] = words[..] else { return None };
    let writes = match kind.to_ascii_lowercase().as_str() {
        "read" => false,
        "write" => true,
        _ => return None,
    };
    let (time, _took): (u64, u64) = (time.parse().ok()?, took.parse().ok()?);
    let offset: u64 = offset.parse().ok()?;
    // Of 2007 on; whole days are taken off, so that 64 bits hold nanoseconds.
    let at_ns = time.checked_sub(100_000_000_000_000_000)?.checked_mul(100)?;
    let (cpu, device, what, discards) = (0, 0, What::Queue, false);
    let (sector, bytes) = (offset / 512, bytes.parse().ok()?);
    Some(Event { at_ns, cpu, device, what, sector, bytes, writes, discards })
}

/// `419,W,8792731648,16384,1577808144360767` (Li 2020).
fn alibaba(line: &str) -> Option<Event> {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let [device, kind, offset, bytes, time] = words[..] else { return None };
    let writes = match kind {
        "R" => false,
        "W" => true,
        _ => return None,
    };
    let at_ns = time.parse::<u64>().ok()?.checked_mul(1000)?;
    let (device, offset): (u32, u64) = (device.parse().ok()?, offset.parse().ok()?);
    let (cpu, what, discards) = (0, What::Queue, false);
    let (sector, bytes) = (offset / 512, bytes.parse().ok()?);
    Some(Event { at_ns, cpu, device, what, sector, bytes, writes, discards })
}

/// Lines of blkparse in a format of a user's own, whose sizes are sectors (`%n`) or bytes (`%N`).
fn own_columns(file: &File, text: &str) -> Result<Vec<Event>, LoadError> {
    let mut events = by_line(file, text, columns, "a time, an action, a kind and sectors")?;
    if text.lines().any(|line| line.contains(" + ") && columns(line).is_some()) {
        return Ok(events);
    }
    let sizes = || events.iter().map(|it| u64::from(it.bytes)).filter(|size| *size > 0);
    // I/Os that begin where the one before ends tell the unit.
    let asked = events.iter().filter(|it| it.bytes > 0 && it.what != What::Complete);
    let asked: Vec<&Event> = asked.collect();
    let follows = |unit: u64| {
        let end = |it: &Event| it.sector.saturating_add(u64::from(it.bytes) * unit / SECTOR);
        asked.windows(2).filter(|pair| end(pair[0]) == pair[1].sector).count()
    };
    // Bytes of a block device are whole sectors, and most file systems' blocks have 4 KiB.
    let (as_sectors, as_bytes) = (follows(SECTOR), follows(1));
    let unit = if sizes().any(|size| size % SECTOR != 0) || as_sectors > as_bytes {
        SECTOR
    } else if as_bytes > as_sectors
        || sizes().all(|size| size % BLOCK == 0)
        || sizes().any(|size| size > LARGEST)
    {
        1
    } else {
        let message = "sizes may be bytes or sectors; expected sectors behind a plus \
             (blkparse -f \"%T.%9t %a %d %S + %n\\n\")";
        return Err(LoadError::of(file, None, message));
    };
    for event in &mut events {
        let bytes = u32::try_from(u64::from(event.bytes) * unit);
        event.bytes = bytes.map_err(|_| {
            let message = format!("found {} sectors, expected a size below 4 GiB", event.bytes);
            LoadError::of(file, None, message)
        })?;
    }
    Ok(events)
}

/// Fields of blkparse in an order of a user's own, told by their looks: seconds with a fraction, an
/// action of one letter, a kind, a sector and `+ sectors`, or a size alone, as it stands there.
fn columns(line: &str) -> Option<Event> {
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || c == ',').collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let seconds = |word: &&str| nanoseconds(word).filter(|_| word.contains('.') && word.len() > 3);
    // `nsecs` of bpftrace: nanoseconds since the machine began.
    let nsecs = |word: &&str| word.parse().ok().filter(|_| word.len() >= 12);
    let first_nsecs = words.first().and_then(nsecs);
    let at_ns = words.iter().find_map(seconds).or(first_nsecs)?;
    let is_action = |word: &&str| word.len() == 1 && b"QMFDC".contains(&word.as_bytes()[0]);
    let action = words.iter().position(is_action);
    let what = match action.map(|at| words[at]) {
        Some("M") => What::BackMerge,
        Some("F") => What::FrontMerge,
        Some("D") => What::Issue,
        Some("C") => What::Complete,
        _ => What::Queue,
    };
    let after = action.map_or(0, |at| at + 1);
    let (writes, discards) = words[after..].iter().find_map(|word| kind(word))?;
    let whole = |word: &&str| word.parse::<u64>().ok();
    let (sector, bytes) = match words.iter().position(|word| *word == "+") {
        Some(plus) => {
            let sectors = words.get(plus + 1).and_then(whole)?;
            (words.get(plus.checked_sub(1)?).and_then(whole)?, sectors.checked_mul(512)?)
        }
        // The whole file tells the unit.
        None => {
            let kind_at = words.iter().rposition(|word| kind(word).is_some())?;
            let numbers: Vec<u64> = words[kind_at..].iter().filter_map(whole).collect();
            let [sector, size] = numbers[..] else { return None };
            (sector, size)
        }
    };
    let bytes = u32::try_from(bytes).ok()?;
    let (cpu, device) = (0, 0);
    Some(Event { at_ns, cpu, device, what, sector, bytes, writes, discards })
}
