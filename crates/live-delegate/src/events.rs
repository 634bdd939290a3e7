//! The event log of a run as a file, in the format of all event logs: one stream for each policy.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::path::Path;

use halfwink_eventlog::{Family, Footer, Header, LogError, Place as Stream, Writer};
use halfwink_policy::offload::{Action, Counts, Event, Place, Sample, Traits};
use halfwink_policy::{Input, Log};
use halfwink_units::Time;

use super::chooser;
use super::log::{BESIDE, ENTER, EXIT, HERE, OS_CORE, SAMPLE, UNKNOWN};
use super::shared::{Mapped, Record};

/// The header of such a log: its technique is all that it takes to make the same policies again.
#[must_use]
pub fn header(technique: &str) -> Header {
    Header::new("live delegate", Family::Offload, technique).on("", "live")
}

/// Writes the log of a run in the order in which its lines came; for each stream that is the order
/// of its events. Each stream has its own clock, from its thread's first call.
///
/// # Errors
/// Those of the file.
pub(super) fn write(shared: &Mapped, technique: &str, path: &Path) -> Result<Footer, LogError> {
    let writer = Writer::create(path, &header(technique))?;
    let mut streams = BTreeMap::new();
    let mut end = Time::ZERO;
    for record in shared.records() {
        let Some((now, event, action)) = line(record) else { continue };
        let number = record.stream.load(Ordering::Relaxed);
        let stream = streams
            .entry(number)
            .or_insert_with(|| writer.stream(Stream { family: Family::Offload, stream: number }));
        Log::<Event, Action>::begin(stream, now, Input::Event(&event));
        if let Some(action) = action {
            Log::<Event, Action>::action(stream, now, &action);
        }
        Log::<Event, Action>::end(stream);
        end = end.max(now);
    }
    let written = read(&shared.counts().log_next);
    writer.end(end, written.saturating_sub(shared.records().len() as u64))
}

/// One call of a policy; `None` of a record that was never finished: its thread was killed.
fn line(record: &Record) -> Option<(Time, Event, Option<Action>)> {
    let kind = record.kind.load(Ordering::Acquire);
    let values: [u64; 6] = core::array::from_fn(|i| read(&record.values[i]));
    let event = match kind {
        ENTER => {
            let bytes = read(&record.bytes);
            let number = record.number.load(Ordering::Relaxed);
            chooser::enter(number, values, (bytes != UNKNOWN).then_some(bytes))
        }
        EXIT => Event::Exit { instructions: values[0] },
        SAMPLE => {
            let [here, there, accesses, hits, os_accesses, os_hits] = values;
            Event::Sample(Sample {
                user: Traits::default(),
                instructions: [here, there],
                l2: [Counts { accesses, hits }, Counts { accesses: os_accesses, hits: os_hits }],
            })
        }
        _ => return None,
    };
    let place = match record.place.load(Ordering::Relaxed) {
        HERE => Some(Place::Here),
        OS_CORE => Some(Place::OsCore),
        BESIDE => Some(Place::Beside),
        _ => None,
    };
    let decision_cycles = record.cycles.load(Ordering::Relaxed);
    let action = place.map(|place| Action { place, decision_cycles });
    Some((Time(read(&record.now_ps)), event, action))
}

fn read(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}
