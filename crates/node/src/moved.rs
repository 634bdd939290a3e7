//! Kernel code of requests on cores of its own: a request visits them between parts of its work.

use halfwink_units::Time;

use crate::profile::Profile;
use crate::source::{mix, rank, Item, Kind};

/// Cores of the kernel, and how a request's work is cut by its visits to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offload {
    /// The first core of the kernel; all cores before it serve requests.
    pub(crate) first: usize,
    /// Visits of a request, in the mean.
    visits: f64,
    /// Time of a visit for each unit of the request's own work.
    per_work: f64,
    /// Requests that a core may have begun and not finished.
    pub(crate) workers: u32,
}

/// A request in service, with what remains of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) item: Item,
    /// Time at which its first part began.
    pub(crate) start: Time,
    /// The number of visits that it has still to make.
    left: u32,
    part: Time,
    visit: Time,
}

impl Offload {
    /// Returns none if the kernel code of this profile stays where it is.
    pub(crate) fn new(
        profile: &Profile,
        slowdown: f64,
        first: usize,
        workers: u32,
    ) -> Option<Offload> {
        let moved = profile.variant.moved?;
        let per_work = profile.visit_share()? * slowdown;
        Some(Offload { first, visits: moved.visits, per_work, workers })
    }

    /// Cuts a request by its visits: all parts are as long as each other, and so are all visits.
    /// The number of visits is the mean, rounded up as often as it must be.
    pub(crate) fn cut(&self, item: Item, start: Time) -> (Job, Time) {
        let whole = self.visits.floor();
        let more = rank(mix(!item.id)) < self.visits - whole;
        let left = whole as u32 + u32::from(more);
        let part = Time(item.work.0 / u64::from(left + 1));
        let visit = Time((item.work.0 as f64 * self.per_work) as u64);
        // The first one takes what the division leaves, so that the parts are the work to the
        // picosecond.
        let first = item.work - Time(part.0 * u64::from(left));
        (Job { item, start, left, part, visit }, first)
    }
}

impl Job {
    /// The visit that follows the part that is done now, if one is left.
    pub(crate) fn leave(&mut self, home: usize, place: u16, now: Time) -> Option<Item> {
        self.left = self.left.checked_sub(1)?;
        let (work, core) = (self.visit, home as u32);
        // A number of its own for what is drawn when it wakes a core.
        let id = self.item.id ^ (2 * u64::from(self.left) + 1) << 32;
        Some(Item { at: now, work, core, kind: Kind::Visit, is_told: false, place, id })
    }

    /// The part that follows the visit that is done now.
    pub(crate) fn come_back(&self, place: u16, now: Time) -> Item {
        // Even, where those of visits are odd: no two parts of a request draw the same.
        let id = self.item.id ^ (2 * u64::from(self.left) + 2) << 32;
        let (work, kind) = (self.part, Kind::Return);
        Item { at: now, work, kind, is_told: false, place, id, ..self.item }
    }
}
