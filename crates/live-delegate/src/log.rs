//! The event log of a run: what each policy was told and what it asked for, in the shared file, so
//! that it outlives the program.

use core::sync::atomic::Ordering;

use halfwink_policy::offload::{Place, Sample};
use halfwink_units::Time;

use super::shared::Shared;

pub(super) const ENTER: u32 = 1;
pub(super) const EXIT: u32 = 2;
pub(super) const SAMPLE: u32 = 3;
pub(super) const HERE: u32 = 1;
pub(super) const OS_CORE: u32 = 2;
/// Bytes in memory that nobody has looked at.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Where one policy writes.
#[derive(Debug)]
pub struct Log {
    shared: Shared,
    stream: u32,
}

impl Log {
    /// A log of the policy with this number.
    #[must_use]
    pub fn new(shared: Shared, stream: u32) -> Log {
        Log { shared, stream }
    }

    /// A call was decided.
    pub fn enter(&self, now: Time, number: u32, args: &[u64; 6], bytes: Option<u64>, place: Place) {
        let place = if place == Place::OsCore { OS_CORE } else { HERE };
        self.write(ENTER, now, place, number, bytes.unwrap_or(UNKNOWN), *args);
    }

    /// The end of the call that was decided last.
    pub fn exit(&self, now: Time, ns: u64) {
        self.write(EXIT, now, 0, 0, UNKNOWN, [ns, 0, 0, 0, 0, 0]);
    }

    /// A sample.
    pub fn sample(&self, now: Time, s: &Sample) {
        let [user, os] = s.l2;
        let values =
            [s.instructions[0], s.instructions[1], user.accesses, user.hits, os.accesses, os.hits];
        self.write(SAMPLE, now, 0, 0, UNKNOWN, values);
    }

    fn write(&self, kind: u32, now: Time, place: u32, number: u32, bytes: u64, values: [u64; 6]) {
        let next = &self.shared.counts().log_next;
        let records = self.shared.records();
        // A full log stays as it is; the counter must not come round.
        if next.load(Ordering::Relaxed) >= records.len() as u64 {
            return;
        }
        let at = next.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(record) = records.get(at) else { return };
        record.stream.store(self.stream, Ordering::Relaxed);
        record.place.store(place, Ordering::Relaxed);
        record.number.store(number, Ordering::Relaxed);
        record.now_ps.store(now.as_ps(), Ordering::Relaxed);
        record.bytes.store(bytes, Ordering::Relaxed);
        for (to, from) in record.values.iter().zip(values) {
            to.store(from, Ordering::Relaxed);
        }
        record.kind.store(kind, Ordering::Release);
    }
}
