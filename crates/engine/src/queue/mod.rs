//! Future events in total order.
//!
//! Worlds hold few events or many. With few (a chip, a server), a heap of four children to a node
//! is fastest: its keys fit in a few cache lines. With thousands (a fabric), each event would move
//! through five levels of a heap, out of the nearest cache; then only the next few events are kept
//! in the heap, and the others in the unordered buckets of a [`Wheel`]. The order is the same in
//! both. `benches/queue.rs` measures this against others.

mod heap;
mod wheel;

use halfwink_units::Time;

use heap::KeyHeap;
use wheel::Wheel;

/// Order among events of the same time: lower classes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u8);

/// Sort key and storage slot of an event: from the highest bits down, 64 of time, 8 of class, 30 of
/// sequence and 26 of its slot. One number compares in two instructions; slots never decide, since
/// no two events have the same sequence.
type Key = u128;

const SLOT_BITS: u32 = 26;
/// Too few for a long run, whose numbers begin anew when they are used up: once in 2^30 events.
const SEQUENCE_BITS: u32 = 30;
const _: () = assert!(64 + 8 + SEQUENCE_BITS + SLOT_BITS == Key::BITS);
/// Number of events from which the wheel is faster than the heap.
const MANY: usize = 256;
/// Number of events below which the heap is used again. The distance to `MANY` keeps a world at the
/// limit from switching to and fro.
const FEW: usize = 64;

#[inline]
fn time_of(key: Key) -> u64 {
    (key >> 64) as u64
}

#[inline]
fn slot_of(key: Key) -> usize {
    key as usize & ((1 << SLOT_BITS) - 1)
}

/// Future events in total order: by time, then class, then the order in which they were added.
///
/// Up to a few hundred events, [`EventQueue::push`] and [`EventQueue::pop`] are O(log n); beyond,
/// O(1) on average, and O(log n) still if very many events have the same time. Times may be added
/// in any order, also before what was taken last. Nothing is ever removed but from the front: to
/// cancel an event, let its receiver ignore it, by a generation that the event carries.
///
/// # Panics
/// With more than 67 million events at a time.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// The next events, all of them before those of the wheel. Empty only if there are none.
    near: KeyHeap,
    wheel: Wheel,
    events: Vec<Option<E>>,
    /// Slots without an event; the one that was used last, which is in the cache, is used first.
    free: Vec<u32>,
    sequence: u64,
    len: usize,
    /// Events when the wheel was made, and taken since.
    fitted: usize,
    taken: usize,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue {
            near: KeyHeap::default(),
            wheel: Wheel::none(),
            events: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            len: 0,
            fitted: 0,
            taken: 0,
        }
    }
}

impl<E> EventQueue<E> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> EventQueue<E> {
        EventQueue::default()
    }

    /// Adds an event to the queue.
    #[inline]
    pub fn push(&mut self, at: Time, class: Class, event: E) {
        if self.sequence >> SEQUENCE_BITS != 0 {
            self.number_anew();
        }
        let slot = self.keep(event);
        let class = Key::from(class.0) << (SEQUENCE_BITS + SLOT_BITS);
        let sequence = Key::from(self.sequence) << SLOT_BITS;
        let key = Key::from(at.0) << 64 | class | sequence | slot as Key;
        self.sequence += 1;
        self.len += 1;
        if self.near.is_empty() {
            // What comes first is always in the heap, even if it is far away; then the wheel, which
            // is empty, is turned there, lest what comes before it goes on the wheel.
            debug_assert_eq!(self.len, 1);
            self.wheel.turn_to(key);
            self.near.push(key);
        } else if let Some(key) = self.wheel.put(key) {
            self.near.push(key);
        }
        if self.near.len() >= MANY || self.len >= 4 * self.fitted.max(MANY) {
            self.grow();
        }
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let key = self.near.pop()?;
        self.len -= 1;
        self.taken += 1;
        if self.near.is_empty() && self.len > 0 {
            self.refill();
        }
        debug_assert!(self.near.is_empty() == (self.len == 0), "the first event is in the heap");
        let slot = slot_of(key);
        self.free.push(slot as u32);
        let event = self.events[slot].take();
        debug_assert!(event.is_some(), "a key has its event");
        event.map(|event| (Time(time_of(key)), event))
    }

    /// Time of the first event.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.near.first().map(|key| Time(time_of(key)))
    }

    /// Returns the first event in the order, if any.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<&E> {
        self.near.first().and_then(|key| self.events[slot_of(key)].as_ref())
    }

    /// Number of events in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing is left to happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn keep(&mut self, event: E) -> usize {
        if let Some(slot) = self.free.pop() {
            self.events[slot as usize] = Some(event);
            return slot as usize;
        }
        self.events.push(Some(event));
        assert!(self.events.len() <= 1 << SLOT_BITS, "more than 67 million events in a queue");
        self.events.len() - 1
    }

    /// The heap holds many, or the wheel many more than it was made for. It is made anew at most
    /// once for as many events as there were last time, so that this costs O(1) for each.
    #[cold]
    fn grow(&mut self) {
        if self.wheel.is_none() || self.taken > self.fitted || self.len >= 4 * self.fitted {
            self.fit();
        }
    }

    /// Gets the next events from the wheel.
    fn refill(&mut self) {
        // Buckets that are too narrow, so that most events are beyond, or far fewer events.
        let unfit = self.wheel.moved > 8 * self.taken + self.fitted;
        if unfit || self.len < self.fitted / 8 || self.len < FEW {
            return self.fit();
        }
        self.wheel.turn(|key| self.near.push(key));
        debug_assert!(!self.near.is_empty(), "the wheel held {} events", self.len);
    }

    /// Shares all events out between heap and wheel by what they are now.
    #[cold]
    fn fit(&mut self) {
        let mut keys = self.wheel.take();
        keys.append(&mut self.near.take());
        (self.fitted, self.taken) = (keys.len(), 0);
        if keys.len() >= MANY / 2 {
            self.wheel.fit(&mut keys);
        }
        for key in keys {
            if let Some(key) = self.wheel.put(key) {
                self.near.push(key);
            }
        }
    }

    /// Sequence numbers have come to their end: those of waiting events begin again from zero, in
    /// the same order.
    #[cold]
    fn number_anew(&mut self) {
        let mut keys = self.wheel.take();
        keys.append(&mut self.near.take());
        // By sequence alone, below the class.
        let sequence = |key: &Key| key << (64 + 8) >> (64 + 8 + SLOT_BITS);
        keys.sort_unstable_by_key(sequence);
        self.sequence = 0;
        for key in &mut keys {
            let others = *key & !(((1 << SEQUENCE_BITS) - 1) << SLOT_BITS);
            *key = others | Key::from(self.sequence) << SLOT_BITS;
            self.sequence += 1;
        }
        keys.into_iter().for_each(|key| self.near.push(key));
        self.fit();
    }
}

#[cfg(test)]
mod tests;
