//! The event log as lines of JSON, for files, and its replay. Told again, the same policy asks for
//! the same.

use core::sync::atomic::{AtomicU64, Ordering};

use halfwink_policy::offload::{Counts, Event, Place, Sample, Traits};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use super::chooser::{self, Choice, Chooser};
use super::log::{ENTER, EXIT, HERE, OS_CORE, SAMPLE, UNKNOWN};
use super::shared::{Record, Shared};

/// One event as it stands in a log file: a line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Which policy object.
    pub stream: u32,
    /// When, in picoseconds since the policy began.
    pub now_ps: u64,
    /// What it was told.
    pub told: Told,
    /// Where it wanted a call to run: `here` or `os-core`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<Asked>,
}

/// See [`Line::told`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// A call began.
    Enter {
        /// System-call number.
        number: u32,
        /// Its arguments.
        args: [u64; 6],
        /// Bytes that it asks for in memory, if somebody has looked.
        bytes: Option<u64>,
    },
    /// It ended after so many nanoseconds.
    Exit {
        /// How many.
        ns: u64,
    },
    /// Time of the program itself and in calls since the last sample.
    Sample {
        /// Nanoseconds outside of calls, and in calls.
        ns: [u64; 2],
        /// Accesses and hits that stand for the objective, of both caches.
        counts: [u64; 4],
    },
}

/// See [`Line::asked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// In place.
    Here,
    /// On the OS CPU.
    OsCore,
}

/// The log of a run, in the order of writing; per stream that is the order of events.
#[must_use]
pub fn lines(shared: &Shared) -> Vec<Line> {
    shared.records().iter().filter_map(line).collect()
}

fn line(record: &Record) -> Option<Line> {
    let kind = record.kind.load(Ordering::Acquire);
    let values: [u64; 6] = core::array::from_fn(|i| read(&record.values[i]));
    let bytes = read(&record.bytes);
    let told = match kind {
        ENTER => Told::Enter {
            number: record.number.load(Ordering::Relaxed),
            args: values,
            bytes: (bytes != UNKNOWN).then_some(bytes),
        },
        EXIT => Told::Exit { ns: values[0] },
        SAMPLE => Told::Sample {
            ns: [values[0], values[1]],
            counts: [values[2], values[3], values[4], values[5]],
        },
        _ => return None,
    };
    let asked = match record.place.load(Ordering::Relaxed) {
        HERE => Some(Asked::Here),
        OS_CORE => Some(Asked::OsCore),
        _ => None,
    };
    let stream = record.stream.load(Ordering::Relaxed);
    Some(Line { stream, now_ps: read(&record.now_ps), told, asked })
}

fn read(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Tells a fresh policy of each stream what the log says; the lines at which it asks for something
/// else than the log has, with what it asks for.
#[must_use]
pub fn replay(lines: &[Line], choice: &Choice) -> Vec<(usize, Option<Asked>)> {
    let mut choosers = std::collections::BTreeMap::new();
    let mut differ = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let chooser = choosers.entry(line.stream).or_insert_with(|| Chooser::new(choice));
        let action = chooser.tell(Time(line.now_ps), &event(&line.told));
        let asked = action.map(|action| match action.place {
            // A system call is never served beside the thread that waits for it.
            Place::Here | Place::Beside => Asked::Here,
            Place::OsCore => Asked::OsCore,
        });
        if asked != line.asked {
            differ.push((at, asked));
        }
    }
    differ
}

fn event(told: &Told) -> Event {
    match *told {
        Told::Enter { number, args, bytes } => chooser::enter(number, args, bytes),
        Told::Exit { ns } => Event::Exit { instructions: ns },
        Told::Sample { ns, counts: [accesses, hits, os_accesses, os_hits] } => {
            Event::Sample(Sample {
                user: Traits::default(),
                instructions: ns,
                l2: [Counts { accesses, hits }, Counts { accesses: os_accesses, hits: os_hits }],
            })
        }
    }
}
