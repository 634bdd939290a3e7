//! Locks whose line moves between caches.
//!
//! A holder first gets the lock's line and those that it protects from the last holder. While
//! others spin, each of its writes to that line takes it from them first, and from the farthest it
//! takes longest: that is why one CPU of another socket slows all. Waiters of the holder's own
//! socket see a release earlier and so are favoured.

use std::collections::VecDeque;

use halfwink_engine::Stream;
use rand::Rng;

use crate::coherence::Distances;
use crate::description::{LockKind, LockSpec};

/// Two readers that wait for each other to leave, so that they may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CPUs {first} and {second} hold the ring's lock to read and wait for each other to write")]
pub struct Deadlock {
    /// CPU that waited.
    pub first: u16,
    /// CPU that arrived.
    pub second: u16,
}

/// Request of a CPU for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// CPU that requests the lock.
    pub cpu: u16,
    /// I/Os for which it is taken at once.
    pub ios: u32,
    /// Takes the lock to read first, and then upgrades; for [`LockKind::Upgrade`].
    pub reads: bool,
}

/// A CPU got the lock, and is done with it in so many picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Request that was granted.
    pub wanted: Wanted,
    /// Time for which the lock is held, in picoseconds.
    pub hold_ps: u64,
}

/// Hold time of a lock, in picoseconds and thousandths of lines.
#[derive(Clone, Copy, Debug)]
struct Costs {
    hold_ps: u64,
    lines: u64,
    writes: u64,
    /// Probability of the own socket, in units of 2^-32.
    own_socket: u64,
}

/// A lock and its queue of waiters.
#[derive(Clone, Debug)]
pub struct Lock {
    kind: LockKind,
    costs: Costs,
    holder: Option<u16>,
    last: u16,
    readers: Vec<u16>,
    upgrading: Option<u16>,
    waiting: VecDeque<Wanted>,
    /// Number of spinning CPUs by socket.
    spinning: Vec<u32>,
    /// Number of grants.
    pub grants: u64,
    /// Number of grants to another socket than the last holder's.
    pub crossings: u64,
}

impl Lock {
    /// Creates a free lock, whose line is at CPU `home`.
    #[must_use]
    pub fn new(spec: &LockSpec, sockets: u16, home: u16) -> Lock {
        // Fractions of lines and of writes are means over many holds; whole thousandths keep the
        // later arithmetic in integers, as for all times.
        let thousandths = |of: f64| (of * 1e3 + 0.5) as u64;
        let costs = Costs {
            hold_ps: thousandths(spec.hold_ns),
            // The lock's own line always comes along with those that it protects.
            lines: 1000 + thousandths(spec.lines),
            writes: thousandths(spec.writes),
            own_socket: (spec.own_socket * 4_294_967_296.0) as u64,
        };
        Lock {
            kind: spec.kind,
            costs,
            holder: None,
            last: home,
            readers: Vec::new(),
            upgrading: None,
            waiting: VecDeque::new(),
            spinning: vec![0; usize::from(sockets)],
            grants: 0,
            crossings: 0,
        }
    }

    /// Returns whether CPUs that take from the ring read before they write.
    #[must_use]
    pub fn upgrades(&self) -> bool {
        self.kind == LockKind::Upgrade
    }

    /// Returns the hold time of a lone CPU that also held it last.
    #[must_use]
    pub fn alone_ps(&self, distances: &Distances) -> u64 {
        self.costs.hold_ps + self.costs.lines * distances.line(0, 0) / 1000
    }

    /// A CPU wants it: how long it has it, if it has it at once. Else it waits.
    pub fn request(&mut self, wanted: Wanted, distances: &Distances) -> Option<u64> {
        // A reader is let in beside other readers, but not past one that waits to upgrade: with it
        // the count of readers could never fall to one.
        let is_free = self.holder.is_none()
            && self.upgrading.is_none()
            && (wanted.reads || self.readers.is_empty());
        if is_free {
            return Some(self.grant(wanted, distances));
        }
        self.spinning[usize::from(distances.socket(wanted.cpu))] += 1;
        self.waiting.push_back(wanted);
        None
    }

    /// A reader is done reading and wants to write: how long it then has the lock; nothing if it
    /// has to wait for another reader to leave, which will never be.
    ///
    /// # Errors
    /// If another reader waits for the same.
    pub fn upgrade(
        &mut self,
        wanted: Wanted,
        distances: &Distances,
    ) -> Result<Option<u64>, Deadlock> {
        // Each waits for the other to leave, and neither leaves before it has written: the deadlock
        // that the upgraded lock of the published driver allows (Sec 6.2.2).
        if let Some(first) = self.upgrading {
            return Err(Deadlock { first, second: wanted.cpu });
        }
        if self.readers == [wanted.cpu] {
            self.readers.clear();
            return Ok(Some(self.grant(Wanted { reads: false, ..wanted }, distances)));
        }
        self.upgrading = Some(wanted.cpu);
        Ok(None)
    }

    /// Releases the lock and grants it to the next waiter, or to several readers.
    pub fn release(
        &mut self,
        distances: &Distances,
        random: &mut Stream,
        mut granted: impl FnMut(Grant),
    ) {
        let Some(holder) = self.holder.take() else { return };
        if self.waiting.is_empty() {
            return;
        }
        debug_assert!(self.readers.is_empty(), "a writer held the lock beside readers");
        let at = self.choose(distances.socket(holder), distances, random);
        let Some(wanted) = self.waiting.remove(at) else { return };
        self.let_in(wanted, distances, &mut granted);
        // Only readers at the front follow: one behind a writer must not overtake it.
        while wanted.reads && self.waiting.front().is_some_and(|next| next.reads) {
            let Some(next) = self.waiting.pop_front() else { return };
            self.let_in(next, distances, &mut granted);
        }
    }

    fn let_in(&mut self, wanted: Wanted, distances: &Distances, granted: &mut impl FnMut(Grant)) {
        // Before the grant, whose cost counts those who still spin: the next holder is none of
        // them.
        debug_assert_eq!(
            self.spinning.iter().sum::<u32>() as usize,
            self.waiting.len() + 1,
            "exactly the waiting CPUs spin"
        );
        self.spinning[usize::from(distances.socket(wanted.cpu))] -= 1;
        let hold_ps = self.grant(wanted, distances);
        granted(Grant { wanted, hold_ps });
    }

    /// Which waiter comes next: the oldest, or the oldest of the holder's socket.
    fn choose(&self, socket: u16, distances: &Distances, random: &mut Stream) -> usize {
        let here = self.spinning[usize::from(socket)] as usize;
        // Where all or none share the holder's socket, the oldest waiter is both the favoured one
        // and the other.
        if self.kind != LockKind::Unfair || here == 0 || here == self.waiting.len() {
            return 0;
        }
        let favoured = u64::from(random.next_u32()) < self.costs.own_socket;
        let is_wanted = |w: &Wanted| (distances.socket(w.cpu) == socket) == favoured;
        self.waiting.iter().position(is_wanted).unwrap_or(0)
    }

    fn grant(&mut self, wanted: Wanted, distances: &Distances) -> u64 {
        debug_assert!(self.holder.is_none(), "a lock was granted while it was held");
        let (cpu, last) = (wanted.cpu, self.last);
        let transfer = self.costs.lines * distances.line(last, cpu) / 1000;
        self.grants += 1;
        self.crossings += u64::from(distances.socket(last) != distances.socket(cpu));
        self.last = cpu;
        // A reader's hold costs only the transfer: what it does under the lock is charged to the
        // write that follows, since all readers here upgrade.
        if wanted.reads {
            self.readers.push(cpu);
            return transfer;
        }
        self.holder = Some(cpu);
        // A write needs the line alone, so it waits for the slowest of the invalidations: the
        // farthest spinning socket counts, not the number of those who spin.
        let from_spinners = match self.waiting.len() {
            0 => 0,
            _ => self.costs.writes * self.farthest(distances.socket(cpu), distances) / 1000,
        };
        transfer + self.costs.hold_ps * u64::from(wanted.ios) + from_spinners
    }

    /// Returns the distance of the farthest spinning CPU.
    fn farthest(&self, socket: u16, distances: &Distances) -> u64 {
        let sockets = (0u16..).zip(&self.spinning).filter(|(_, &count)| count > 0);
        sockets.map(|(other, _)| distances.sockets_apart(other, socket)).max().unwrap_or(0)
    }
}
