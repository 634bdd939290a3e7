//! I/O logs that fio writes (`write_iolog`), version 2 and 3 (HOWTO, "Trace file format").
//!
//! Version 3 has the microsecond of each I/O, and is a trace. Version 2 has the order alone, and
//! waits between: one I/O after the other.

use halfwink_inputs::Account;

use super::events::{Event, What};
use super::fio::{Job, Jobs};
use super::{File, Load, LoadError, Trace};

/// What a line does.
enum Line {
    Moves { at_us: u64, writes: bool, offset: u64, bytes: u32 },
    Waits(u64),
    Other(Other),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    Opens,
    Flushes,
    Trims,
}

/// Reads a log by the version in its first line.
pub(super) fn read(file: &File, text: &str) -> Result<Load, LoadError> {
    let first = text.lines().next().unwrap_or_default();
    let version: u32 = match first.trim() {
        "fio version 2 iolog" => 2,
        "fio version 3 iolog" => 3,
        _ => {
            let message = format!("found `{first}`, expected `fio version 2 iolog`, or 3");
            return Err(LoadError::of(file, Some(1), message));
        }
    };
    let mut lines = Vec::new();
    for (line, number) in text.lines().zip(1..).skip(1) {
        if !line.trim().is_empty() {
            let found = parse(line, version);
            lines.push(found.map_err(|message| LoadError::of(file, Some(number), message))?);
        }
    }
    let mut account = Account::of(format!("I/O log of fio, version {version}"));
    let count = |other: Other| {
        lines.iter().filter(|line| matches!(line, Line::Other(it) if *it == other)).count() as u64
    };
    account.leave_out("flushes without bytes", "", count(Other::Flushes));
    account.leave_out("trim", "", count(Other::Trims));
    let whole = |message| LoadError::of(file, None, message);
    if version == 2 {
        return job(&lines, account).map(Load::Jobs).map_err(whole);
    }
    let events = lines.iter().filter_map(event).collect::<Option<Vec<_>>>();
    let events = events.ok_or_else(|| whole("times of more than 584 years".to_owned()))?;
    let format = account.format.clone();
    let mut trace = Trace::of(events, &format).map_err(whole)?;
    trace.account.neutral.extend(account.neutral);
    Ok(Load::Trace(trace))
}

fn parse(line: &str, version: u32) -> Result<Line, String> {
    let mut words = line.split_whitespace();
    let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
    let number = |word: &str, what: &str| {
        word.parse::<u64>().map_err(|_| format!("{what}: found `{word}`, expected a whole number"))
    };
    let at_us = if version == 3 { number(next("a timestamp")?, "timestamp")? } else { 0 };
    let _name = next("a file's name")?;
    let action = next("an action")?;
    let writes = match action {
        "read" => false,
        "write" => true,
        "wait" if version == 2 => return Ok(Line::Waits(number(next("a time")?, "wait")?)),
        "add" | "open" | "close" => return Ok(Line::Other(Other::Opens)),
        "sync" | "datasync" => return Ok(Line::Other(Other::Flushes)),
        "trim" => return Ok(Line::Other(Other::Trims)),
        _ => {
            let expected = "read, write, trim, sync, datasync, wait, add, open or close";
            return Err(format!("action: found `{action}`, expected {expected}"));
        }
    };
    let offset = number(next("an offset")?, "offset")?;
    let word = next("a length")?;
    let bytes = word.parse::<u32>().ok().filter(|bytes| *bytes > 0);
    let bytes = bytes.ok_or_else(|| format!("length: found `{word}`, expected 1 to 4294967295"))?;
    Ok(Line::Moves { at_us, writes, offset, bytes })
}

/// A request as it was issued; the log does not say by which CPU.
fn event(line: &Line) -> Option<Option<Event>> {
    let Line::Moves { at_us, writes, offset, bytes } = *line else { return None };
    let at_ns = at_us.checked_mul(1000);
    let (sector, what) = (offset / 512, What::Queue);
    let (cpu, device, discards) = (0, 0, false);
    Some(at_ns.map(|at_ns| Event { at_ns, cpu, device, what, sector, bytes, writes, discards }))
}

/// One I/O after the other, with the mean wait between them.
fn job(lines: &[Line], mut account: Account) -> Result<Jobs, String> {
    let (mut count, mut sum, mut reads, mut waits_us) = (0_u64, 0.0, 0_u64, 0.0);
    for line in lines {
        match line {
            Line::Moves { writes, bytes, .. } => {
                count += 1;
                sum += f64::from(*bytes);
                reads += u64::from(!writes);
            }
            Line::Waits(us) => waits_us += *us as f64,
            Line::Other(_) => {}
        }
    }
    if count == 0 {
        return Err("found no reads and no writes".to_owned());
    }
    account.play("requests", count);
    let of = count as f64;
    let think_us = waits_us / of;
    if think_us > 1e9 {
        return Err(format!("waits of {think_us} us in the mean, expected up to 1000 s"));
    }
    let job = Job {
        name: "iolog".to_owned(),
        copies: 1,
        depth: 1,
        bytes: sum / of,
        reads: reads as f64 / of,
        rate: None,
        poisson: false,
        think_us,
    };
    Ok(Jobs { phases: vec![vec![job]], account })
}
