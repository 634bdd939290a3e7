//! Two logs side by side: where they first decide differently, and why.
//!
//! A live run and a simulated one are never alike line by line: a poll that finds nine packets here
//! finds eight there. What is compared is the sequence of decisions, lines with actions; the lines
//! before the first decision that differs say why it does.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Serialize;
use serde_json::Value;

use crate::format::{Ended, Header, LogError, Place};
use crate::read::{Raw, Reader, Record};

/// Comparison of two logs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// Headers and lengths of the two logs.
    pub logs: [Side; 2],
    /// Keys of the headers whose values differ.
    pub headers_differ: Vec<&'static str>,
    /// Policies that only one of them has, with that one's index.
    pub alone: Vec<(usize, Place)>,
    /// Decisions that are alike before the first that differs, or in all.
    pub alike: u64,
    /// The earliest of all policies' first decisions that differ.
    pub first: Option<Divergence>,
}

/// One of two logs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// First header of the log.
    pub header: Header,
    /// Lines, and those with actions.
    pub lines: u64,
    /// Number of lines with actions.
    pub decisions: u64,
    /// Time of its last line.
    pub last_ps: u64,
    /// State in which the log ends.
    pub ended: Ended,
}

/// The first decision of a policy that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// Policy whose decisions differ.
    pub place: Place,
    /// Kind of the first difference: time, event or actions.
    pub why: Why,
    /// The decisions, as they stand in the logs; none where a log is over.
    pub decisions: [Option<Shown>; 2],
    /// Explanation of the decisions: the first lines that differ in event or in time.
    pub cause: [Option<Shown>; 2],
}

/// Reason why two logs decide differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Events and times are equal: the technique, its parameters or the machine differ.
    Action,
    /// Events are equal, but their times differ.
    Time,
    /// Another event came before.
    Event,
    /// One of them is over.
    End,
}

/// A line of a log, for display.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// Line number in the file.
    pub line: u64,
    /// Time of the line, in picoseconds.
    pub now_ps: u64,
    /// Event of the line.
    pub event: Value,
    /// Actions of the line.
    pub actions: Vec<Value>,
}

struct Log {
    side: Side,
    policies: BTreeMap<Place, Vec<Raw>>,
}

/// Lays two logs side by side.
///
/// # Errors
/// What is wrong with one of them.
pub fn beside<R: BufRead, S: BufRead>(a: Reader<R>, b: Reader<S>) -> Result<Beside, LogError> {
    let (a, b) = (read(a)?, read(b)?);
    let mut alone = Vec::new();
    let mut alike = 0;
    let mut first: Option<Divergence> = None;
    for (log, (here, there)) in [(&a, &b), (&b, &a)].into_iter().enumerate() {
        let only = here.policies.keys().filter(|place| !there.policies.contains_key(place));
        alone.extend(only.map(|&place| (log, place)));
    }
    for (&place, left) in &a.policies {
        // Policies of one log alone cannot be compared; `alone` lists them.
        let Some(right) = b.policies.get(&place) else { continue };
        let (same, divergence) = compare(place, left, right);
        alike += same;
        let Some(divergence) = divergence else { continue };
        // The earliest over all policies: what one decides changes what the others see later, so
        // that only the first difference has a cause of its own.
        if first.as_ref().is_none_or(|first| time_of(&divergence) < time_of(first)) {
            first = Some(divergence);
        }
    }
    let headers_differ = differing(&a.side.header, &b.side.header);
    Ok(Beside { logs: [a.side, b.side], headers_differ, alone, alike, first })
}

fn time_of(divergence: &Divergence) -> u64 {
    divergence.decisions.iter().flatten().map(|shown| shown.now_ps).min().unwrap_or(u64::MAX)
}

fn read<R: BufRead>(mut log: Reader<R>) -> Result<Log, LogError> {
    let mut header = None;
    let mut policies: BTreeMap<Place, Vec<Raw>> = BTreeMap::new();
    let (mut decisions, mut last_ps) = (0, 0);
    while let Some(record) = log.next()? {
        match record {
            Record::Header(next) => {
                header.get_or_insert(next);
            }
            Record::Line(line) => {
                last_ps = line.now.0;
                decisions += u64::from(is_decision(&line));
                // So that whatever is shown later can be.
                line.typed::<Value, Value>().map_err(|m| log.error(line.number, m))?;
                policies.entry(line.place).or_default().push(line);
            }
        }
    }
    let header = header.ok_or_else(|| log.error(1, "expected the header of an event log"))?;
    let ended = log.ended().unwrap_or(Ended::Cut { torn: false });
    Ok(Log { side: Side { header, lines: log.lines(), decisions, last_ps, ended }, policies })
}

fn shown(line: &Raw) -> Shown {
    let (event, actions) = match line.typed::<Value, Value>() {
        Ok(typed) => (serde_json::to_value(&typed.input).unwrap_or_default(), typed.actions),
        Err(_) => (Value::Null, Vec::new()),
    };
    Shown { line: line.number, now_ps: line.now.0, event, actions }
}

fn is_decision(line: &Raw) -> bool {
    line.typed::<Value, Value>().is_ok_and(|typed| !typed.actions.is_empty())
}

/// Lines of one policy from one decision to the next, the latter included.
fn blocks(lines: &[Raw]) -> Vec<&[Raw]> {
    lines.split_inclusive(is_decision).collect()
}

/// Returns the number of equal decisions, and the first one that differs.
fn compare(place: Place, left: &[Raw], right: &[Raw]) -> (u64, Option<Divergence>) {
    let (mut a, mut b) = (blocks(left).into_iter(), blocks(right).into_iter());
    let mut reasons = Reasons::default();
    let mut alike = 0;
    loop {
        let (x, y) = match (a.next(), b.next()) {
            (None, None) => return (alike, None),
            pair => pair,
        };
        let last = [x, y].map(|block| block.and_then(<[Raw]>::last).map(shown));
        // Lines without a decision after the last one: the run went on for a while.
        let decisions = last.clone().map(|line| line.filter(|line| !line.actions.is_empty()));
        if decisions == [None, None] {
            return (alike, None);
        }
        reasons.look(x.unwrap_or_default(), y.unwrap_or_default());
        if let [Some(p), Some(q)] = &decisions {
            if p.actions == q.actions {
                alike += 1;
                continue;
            }
        }
        let (why, cause) = match (&decisions, reasons) {
            ([Some(_), None] | [None, Some(_)], _) => (Why::End, last),
            (_, Reasons { event: Some(cause), .. }) => (Why::Event, cause),
            (_, Reasons { time: Some(cause), .. }) => (Why::Time, cause),
            _ => (Why::Action, decisions.clone()),
        };
        return (alike, Some(Divergence { place, why, decisions, cause }));
    }
}

type Pair = [Option<Shown>; 2];

/// First differences in event and in time, apart from actions.
#[derive(Default)]
struct Reasons {
    event: Option<Pair>,
    time: Option<Pair>,
    /// The first times: logs begin when they begin.
    began: Option<[u64; 2]>,
}

impl Reasons {
    fn look(&mut self, a: &[Raw], b: &[Raw]) {
        for n in 0..a.len().max(b.len()) {
            let pair = [a.get(n), b.get(n)].map(|line| line.map(shown));
            let [Some(x), Some(y)] = &pair else {
                self.event.get_or_insert(pair);
                return;
            };
            let began = *self.began.get_or_insert([x.now_ps, y.now_ps]);
            let [p, q] = [x, y].map(|line| line.now_ps);
            if p.wrapping_sub(began[0]) != q.wrapping_sub(began[1]) && self.time.is_none() {
                self.time = Some(pair.clone());
            }
            if x.event != y.event {
                self.event.get_or_insert(pair);
                return;
            }
        }
    }
}

fn differing(a: &Header, b: &Header) -> Vec<&'static str> {
    let keys = [
        ("world", a.world != b.world),
        ("technique", a.technique != b.technique),
        ("machine", a.machine != b.machine),
        ("workload", a.workload != b.workload),
        ("set", a.set != b.set),
        ("build", a.build != b.build),
        ("family", a.family != b.family),
    ];
    keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}
