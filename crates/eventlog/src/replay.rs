//! Telling fresh policies what a log says.

use std::collections::BTreeMap;
use std::io::BufRead;

use halfwink_policy::{Difference, Input, Policy, Replay};
use halfwink_units::Time;
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;

use crate::format::{Ended, Header, LogError, Place};
use crate::read::{Raw, Reader, Record};

/// A fresh policy of whatever family, that is told lines.
pub trait Replayer {
    /// Tells one line; where the policy decides otherwise, how.
    ///
    /// # Errors
    /// If the line is not one of its family.
    fn tell(&mut self, line: &Raw) -> Result<Option<Contradiction>, String>;

    /// Returns the policy's summary after the lines replayed up to now.
    fn summary(&self) -> halfwink_policy::Summary;
}

/// A line at which the policy decides otherwise than the log says, as data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contradiction {
    /// The line in the file.
    pub line: u64,
    /// Policy that the line belongs to.
    pub place: Place,
    /// Time of the line, in picoseconds.
    pub now_ps: u64,
    /// Event of the line.
    pub event: Value,
    /// The actions in the log.
    pub expected: Vec<Value>,
    /// Actions that the policy requests.
    pub found: Vec<Value>,
    /// The log says that its timer rang; the policy's is due then (missing: it has none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_due: Option<Due>,
}

/// Deadline of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Due {
    /// Deadline in picoseconds; missing if the timer is off.
    pub due_ps: Option<u64>,
}

/// A replayer of a fresh policy.
pub fn replayer<P>(policy: P) -> Box<dyn Replayer>
where
    P: Policy + 'static,
    P::Event: DeserializeOwned + Serialize + 'static,
    P::Action: DeserializeOwned + Serialize + PartialEq + 'static,
{
    Box::new(Replay::new(policy))
}

impl<P> Replayer for Replay<P>
where
    P: Policy,
    P::Event: DeserializeOwned + Serialize,
    P::Action: DeserializeOwned + Serialize + PartialEq,
{
    fn tell(&mut self, line: &Raw) -> Result<Option<Contradiction>, String> {
        let typed = line.typed()?;
        Ok(self.line(line.number, typed).err().map(|found| contradiction(line.place, found)))
    }

    fn summary(&self) -> halfwink_policy::Summary {
        Replay::summary(self)
    }
}

fn contradiction<E, A>(place: Place, difference: Difference<E, A>) -> Contradiction
where
    E: Serialize,
    A: Serialize,
{
    let Difference { line, now, input, expected, found, not_due } = difference;
    let values = |actions: &[A]| actions.iter().map(value).collect();
    Contradiction {
        line,
        place,
        now_ps: now.0,
        event: value::<Input<E>>(&input),
        expected: values(&expected),
        found: values(&found),
        // `NEVER` is no time: JSON says that the timer is off by leaving it out.
        not_due: not_due.map(|due| Due { due_ps: (due != Time::NEVER).then_some(due.0) }),
    }
}

fn value<T: Serialize>(of: &T) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// Result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// First header of the log.
    pub header: Header,
    /// Policies that were told lines.
    pub policies: u64,
    /// Number of lines replayed.
    pub lines: u64,
    /// Number of events among them.
    pub events: u64,
    /// Number of timers among them.
    pub timers: u64,
    /// Actions that were the same.
    pub actions: u64,
    /// Lines that could not be told, because lines before them were dropped.
    pub unheard: u64,
    /// Time of the last line.
    pub last_ps: u64,
    /// State in which the log ends.
    pub ended: Ended,
    /// The first decision that differs; the replay goes no further.
    pub first_difference: Option<Contradiction>,
}

/// Tells the fresh policies that `make` makes what a log says, up to the first decision that
/// differs.
///
/// # Errors
/// What is wrong with the log, or with a policy's name in it.
pub fn replay_log<R: BufRead>(
    mut log: Reader<R>,
    mut make: impl FnMut(&Header, Place) -> Result<Box<dyn Replayer>, String>,
) -> Result<Report, LogError> {
    let mut header: Option<Header> = None;
    let mut first: Option<Header> = None;
    let mut policies: BTreeMap<Place, Box<dyn Replayer>> = BTreeMap::new();
    let mut sums = Sums::default();
    let mut last_ps = 0;
    let mut difference = None;
    while let Some(record) = log.next()? {
        let line = match record {
            Record::Header(next) => {
                sums.add_all(&policies);
                // Fresh policies follow a header: state of the replaced ones must not reach into
                // their lines.
                policies.clear();
                first.get_or_insert_with(|| next.clone());
                header = Some(next);
                continue;
            }
            Record::Line(line) => line,
        };
        // After a difference the policy's state is not the recorded one, and later differences
        // mean nothing. The log is still read to its end, to know how it ended.
        if difference.is_some() {
            continue;
        }
        debug_assert!(header.is_some(), "the reader returns no line before a header");
        let Some(header) = &header else { continue };
        let policy = match policies.entry(line.place) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let made = make(header, line.place).map_err(|message| log.error(1, message))?;
                free.insert(made)
            }
        };
        last_ps = line.now.0;
        difference = policy.tell(&line).map_err(|message| log.error(line.number, message))?;
    }
    sums.add_all(&policies);
    let ended = log.ended().unwrap_or(Ended::Cut { torn: false });
    let header = first.ok_or_else(|| log.error(1, "expected the header of an event log"))?;
    let Sums { policies, lines, events, timers, actions, unheard } = sums;
    Ok(Report {
        header,
        policies,
        lines,
        events,
        timers,
        actions,
        unheard,
        last_ps,
        ended,
        first_difference: difference,
    })
}

#[derive(Default)]
struct Sums {
    policies: u64,
    lines: u64,
    events: u64,
    timers: u64,
    actions: u64,
    unheard: u64,
}

impl Sums {
    fn add_all(&mut self, policies: &BTreeMap<Place, Box<dyn Replayer>>) {
        for policy in policies.values() {
            let summary = policy.summary();
            self.policies += 1;
            self.lines += summary.lines;
            self.events += summary.events;
            self.timers += summary.timers;
            self.actions += summary.actions;
            self.unheard += summary.unheard;
        }
    }
}
