//! The event log of a run: what each policy was told and what it asked for, in the shared file, so
//! that it outlives the program. `events` makes lines of JSON of it at the end: what is preloaded
//! into strangers writes no text.

use core::sync::atomic::Ordering;

use halfwink_policy::offload::{Action, Cause, Event, Place};
use halfwink_policy::Input;
use halfwink_units::Time;

use super::shared::Shared;

pub(super) const ENTER: u32 = 1;
pub(super) const EXIT: u32 = 2;
pub(super) const SAMPLE: u32 = 3;
pub(super) const HERE: u32 = 1;
pub(super) const OS_CORE: u32 = 2;
pub(super) const BESIDE: u32 = 3;
/// Marks a number of bytes in memory that was not read.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Log of one policy.
#[derive(Debug)]
pub struct Log {
    shared: Shared,
    stream: u32,
    open: Option<Open>,
}

/// Present call of the policy, as far as it is complete.
#[derive(Debug)]
struct Open {
    now: Time,
    kind: u32,
    number: u32,
    bytes: u64,
    values: [u64; 6],
    place: u32,
    cycles: u32,
}

impl Log {
    /// A log of the policy with this number.
    #[must_use]
    pub fn new(shared: Shared, stream: u32) -> Log {
        Log { shared, stream, open: None }
    }

    fn write(&self, line: &Open) {
        let next = &self.shared.counts().log_next;
        let records = self.shared.records();
        // It goes on counting when the log is full: those were dropped.
        let at = next.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(record) = records.get(at) else { return };
        record.stream.store(self.stream, Ordering::Relaxed);
        record.place.store(line.place, Ordering::Relaxed);
        record.cycles.store(line.cycles, Ordering::Relaxed);
        record.number.store(line.number, Ordering::Relaxed);
        record.now_ps.store(line.now.as_ps(), Ordering::Relaxed);
        record.bytes.store(line.bytes, Ordering::Relaxed);
        for (to, from) in record.values.iter().zip(line.values) {
            to.store(from, Ordering::Relaxed);
        }
        record.kind.store(line.kind, Ordering::Release);
    }
}

/// Never inlined: without a log, a call of a program should find no more of it than a test.
impl halfwink_policy::Log<Event, Action> for Log {
    #[cold]
    fn begin(&mut self, now: Time, input: Input<&Event>) {
        // These policies ask for nothing at their start and have no timers.
        let Input::Event(event) = input else { return };
        let (kind, number, bytes, values) = match event {
            Event::Enter(entry) => {
                let number = match entry.cause {
                    Cause::SystemCall { number } => number,
                    Cause::Interrupt { vector } | Cause::Exception { vector } => u32::from(vector),
                };
                (ENTER, number, entry.bytes_in_memory.unwrap_or(UNKNOWN), entry.args)
            }
            Event::Exit { instructions } => (EXIT, 0, UNKNOWN, [*instructions, 0, 0, 0, 0, 0]),
            Event::Sample(s) => {
                let ([user, os], [here, there]) = (s.l2, s.instructions);
                let values = [here, there, user.accesses, user.hits, os.accesses, os.hits];
                (SAMPLE, 0, UNKNOWN, values)
            }
        };
        self.open = Some(Open { now, kind, number, bytes, values, place: 0, cycles: 0 });
    }

    #[cold]
    fn action(&mut self, _now: Time, action: &Action) {
        let Some(open) = &mut self.open else { return };
        open.cycles = action.decision_cycles;
        open.place = match action.place {
            Place::Here => HERE,
            Place::OsCore => OS_CORE,
            Place::Beside => BESIDE,
        };
    }

    #[cold]
    fn end(&mut self) {
        if let Some(line) = self.open.take() {
            self.write(&line);
        }
    }
}
