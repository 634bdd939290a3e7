//! Receive-side scaling in software: which worker's queue a frame goes to, and in which order moved
//! flows are served.
//!
//! One thread, the receiver, puts frames into the workers' queues under the redirect table; each
//! worker takes from its own. When an entry moves, frames that arrive at the new queue name how
//! far the old queue must be served before them, as in the simulated router.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use halfwink_policy::scaling::ENTRIES;
use halfwink_units::Time;
use rtrb::{Consumer, Producer, RingBuffer};

use super::pool::Slot;
pub use super::standing::Standing;

/// A frame on its way to a worker.
#[derive(Debug)]
pub struct Item {
    /// Frame in its chunk.
    pub slot: Slot,
    /// Port it came from.
    pub port: u16,
    /// Time at which it was taken off its socket.
    pub came: Time,
    /// Queue and number of served frames that it has to wait for.
    pub after: Option<(u8, u64)>,
}

/// The receiver's side of all queues.
#[derive(Debug)]
pub struct Redirect {
    entries: [u8; ENTRIES],
    /// Queue and number of served frames that frames of a moved entry must wait for.
    after: [Option<(u8, u64)>; ENTRIES],
    queues: Vec<Producer<Item>>,
    standings: Vec<Arc<Standing>>,
    /// Frames that found their queue full.
    pub lost: u64,
}

/// Makes queues of so many frames; the table names the first of them.
#[must_use]
pub fn queues(workers: u8, frames: usize) -> (Redirect, Vec<Consumer<Item>>, Vec<Arc<Standing>>) {
    let (queues, takers) = (0..workers).map(|_| RingBuffer::new(frames)).unzip();
    let standings: Vec<_> = (0..workers).map(|_| Arc::new(Standing::default())).collect();
    let redirect = Redirect {
        entries: [0; ENTRIES],
        after: [None; ENTRIES],
        queues,
        standings: standings.clone(),
        lost: 0,
    };
    (redirect, takers, standings)
}

impl Redirect {
    /// Puts a frame; gives it back if its queue is full.
    ///
    /// # Errors
    /// The frame.
    pub fn put(&mut self, hash: u32, port: u16, came: Time, slot: Slot) -> Result<u8, Slot> {
        let entry = hash as usize % ENTRIES;
        let to = self.entries[entry];
        if let Some((from, until)) = self.after[entry] {
            if self.standings[usize::from(from)].done.load(Ordering::Acquire) >= until {
                self.after[entry] = None;
            }
        }
        let item = Item { slot, port, came, after: self.after[entry] };
        match self.queues[usize::from(to)].push(item) {
            Ok(()) => {
                self.standings[usize::from(to)].put.fetch_add(1, Ordering::Relaxed);
                Ok(to)
            }
            Err(rtrb::PushError::Full(item)) => {
                self.lost += 1;
                Err(item.slot)
            }
        }
    }

    /// Points an entry at another queue; if `in_order`, what arrives there waits for what waits in
    /// the old one.
    pub fn redirect(&mut self, entry: u8, to: u8, in_order: bool) {
        let slot = &mut self.entries[usize::from(entry)];
        let from = std::mem::replace(slot, to);
        if from == to || !in_order {
            return;
        }
        let standing = &self.standings[usize::from(from)];
        let until = standing.put.load(Ordering::Relaxed);
        let open = standing.done.load(Ordering::Acquire) < until;
        // An entry that moves on before its own wait is over keeps it: frames in the queue that it
        // leaves wait there in order, so the last queue is all that needs to be waited for.
        self.after[usize::from(entry)] = open.then_some((from, until));
    }

    /// Entries that name each queue.
    #[cfg(test)]
    fn shares(&self) -> Vec<u32> {
        let mut shares = vec![0; self.queues.len()];
        self.entries.iter().for_each(|&q| shares[usize::from(q)] += 1);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    fn slots(pool: &Pool, n: usize) -> Vec<Slot> {
        let mut all = Vec::new();
        pool.take(n, &mut all);
        all
    }

    #[test]
    fn a_moved_flow_waits_for_what_is_before_it() {
        let pool = Pool::new(64).unwrap();
        let (mut redirect, mut takers, standings) = queues(2, 8);
        let mut slots = slots(&pool, 6).into_iter();
        let mut put = |redirect: &mut Redirect, hash| {
            redirect.put(hash, 0, Time::ZERO, slots.next().unwrap()).unwrap()
        };
        assert_eq!((put(&mut redirect, 5), put(&mut redirect, 6)), (0, 0));
        redirect.redirect(5, 1, true);
        redirect.redirect(6, 1, false);
        assert_eq!((put(&mut redirect, 5), put(&mut redirect, 6)), (1, 1));
        assert_eq!(takers[1].pop().unwrap().after, Some((0, 2)));
        assert_eq!(takers[1].pop().unwrap().after, None);
        standings[0].done.store(2, Ordering::Release);
        put(&mut redirect, 5);
        assert_eq!(takers[1].pop().unwrap().after, None, "the old queue is served");
        assert_eq!(redirect.shares(), [126, 2]);
    }

    #[test]
    fn a_queue_that_was_empty_is_not_waited_for() {
        let (mut redirect, _takers, standings) = queues(2, 8);
        standings[0].put.store(7, Ordering::Relaxed);
        standings[0].done.store(7, Ordering::Relaxed);
        redirect.redirect(3, 1, true);
        assert_eq!(redirect.after[3], None);
    }

    #[test]
    fn a_full_queue_gives_back() {
        let pool = Pool::new(64).unwrap();
        let (mut redirect, _takers, _) = queues(1, 2);
        let results: Vec<bool> = slots(&pool, 3)
            .into_iter()
            .map(|slot| redirect.put(0, 0, Time::ZERO, slot).is_ok())
            .collect();
        assert_eq!((results, redirect.lost), (vec![true, true, false], 1));
    }

    #[test]
    fn sleeping_worker_wakes_when_rung() {
        let standing = Arc::new(Standing::default());
        let other = standing.clone();
        let sleeper = std::thread::spawn(move || other.sleep(60_000_000_000, || false));
        while !standing.ring() {
            std::thread::yield_now();
        }
        sleeper.join().unwrap();
        standing.sleep(60_000_000_000, || true);
    }
}
