//! Devices that are done later: one that only pretends to be a device, and a file's io_uring.

use std::cmp::Reverse;
use std::sync::Arc;

use halfwink_live::clock::ticks;

use super::{Job, Worker};
use crate::conn::Conn;
use crate::ring::Ring;

/// An I/O in a modelled device, which is done then.
pub(super) struct InDevice {
    due: u64,
    number: u32,
    job: Job,
}

impl PartialEq for InDevice {
    fn eq(&self, other: &InDevice) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for InDevice {}

impl PartialOrd for InDevice {
    fn partial_cmp(&self, other: &InDevice) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InDevice {
    fn cmp(&self, other: &InDevice) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl Worker {
    /// Completes the requests that were just read: at once, or through a modelled device that
    /// delays them.
    pub(super) fn complete(&mut self, conn: &Arc<Conn>, began: u64) -> u32 {
        for pending in self.batch.slow.drain(..) {
            self.shared.syncer.give((Arc::clone(conn), pending));
        }
        if let Some(draws) = &mut self.draws {
            for pending in self.batch.done.drain(..) {
                let ns = draws.next_ns();
                let due = began + self.shared.control.clock.rate.ticks(ns);
                self.io = self.io.wrapping_add(1);
                let job = Job { conn: Arc::clone(conn), pending };
                self.device.push(Reverse(InDevice { due, number: self.io, job }));
            }
            // The handshake's answers wait, too.
            self.flush(conn);
            self.account(began);
            return 0;
        }
        // What asking took is booked to the device.
        let began = if self.ask_ring(conn) { ticks() } else { began };
        self.place(conn, began)
    }

    /// Hands the reads of a batch to the ring, as far as it has room. A client that accepts no
    /// replies gets none of it: its reads wait in their queue. Returns whether the ring was used.
    fn ask_ring(&mut self, conn: &Arc<Conn>) -> bool {
        let Some(ring) = &mut self.batch.ring else { return false };
        if conn.out().is_stuck() {
            return false;
        }
        let begun = ticks();
        std::mem::swap(&mut self.batch.done, &mut self.asked);
        if let ([_], Some(device)) = (&self.asked[..], self.shared.backend.rings()) {
            let counters = &self.batch.ring_counters;
            let tried = self.asked.pop().map(|only| ring.at_once(only, device, counters));
            match tried {
                Some(Ok(done)) => self.batch.done.push(done),
                Some(Err(pending)) => self.asked.push(pending),
                None => {}
            }
        }
        let kept = self.asked.drain(..).filter_map(|pending| ring.read(conn, pending).err());
        self.batch.done.extend(kept);
        let stages = &self.shared.posts[usize::from(self.number)].meter.stages;
        stages.backend.add(ticks().wrapping_sub(begun));
        true
    }

    /// Tells the ring what was asked for, and completes what it is done with; how much.
    pub(super) fn ring(&mut self) -> u32 {
        let Some(ring) = &mut self.batch.ring else { return 0 };
        let begun = ticks();
        ring.turn(&*self.shared.backend, &self.batch.ring_counters);
        let Some(mut next) = ring.next() else { return 0 };
        let meter = &self.shared.posts[usize::from(self.number)].meter;
        meter.stages.backend.add(ticks().wrapping_sub(begun));
        let mut done = 0;
        loop {
            let conn = Arc::clone(&next.conn);
            // Replies of one connection leave together.
            let after = loop {
                if next.fua {
                    self.shared.syncer.give((next.conn, next.pending));
                } else {
                    self.batch.done.push(next.pending);
                }
                match self.batch.ring.as_mut().and_then(Ring::next) {
                    Some(more) if Arc::ptr_eq(&more.conn, &conn) => next = more,
                    other => break other,
                }
            };
            done += self.place(&conn, ticks()).max(1);
            match after {
                Some(more) => next = more,
                None => return done,
            }
        }
    }

    /// Waits for all that the ring has, and completes it.
    pub(super) fn settle(&mut self) {
        if let Some(ring) = &mut self.batch.ring {
            ring.settle(&*self.shared.backend, &self.batch.ring_counters);
        }
        self.ring();
    }

    /// Completes what a modelled device is done with; how much.
    pub(super) fn device(&mut self) -> u32 {
        let mut done = 0;
        let now = ticks();
        let is_due = |next: &Reverse<InDevice>| next.0.due <= now;
        while self.device.peek().is_some_and(is_due) {
            let Some(Reverse(InDevice { job: Job { conn, pending }, .. })) = self.device.pop()
            else {
                break;
            };
            self.batch.done.push(pending);
            let goes_on =
                |next: &Reverse<InDevice>| is_due(next) && Arc::ptr_eq(&next.0.job.conn, &conn);
            while self.device.peek().is_some_and(goes_on) {
                self.batch.done.extend(self.device.pop().map(|next| next.0.job.pending));
            }
            done += self.place(&conn, ticks());
        }
        done
    }

    /// Returns the time until the next completion of a modelled device, in nanoseconds, or the
    /// limit.
    pub(super) fn device_due(&self, limit: Option<u64>) -> Option<u64> {
        let Some(Reverse(next)) = self.device.peek() else { return limit };
        let clock = &self.shared.control.clock;
        let ns = clock.rate.ns(next.due.saturating_sub(ticks()));
        Some(limit.map_or(ns, |limit| limit.min(ns)))
    }
}
