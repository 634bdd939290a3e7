use std::cmp::Ordering;
use std::collections::BinaryHeap;

use halfwink_units::Time;

/// Order among events of the same time: lower classes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u8);

/// Future events in total order: by time, then class, then the order in which they were added.
///
/// Both [`EventQueue::push`] and [`EventQueue::pop`] are O(log n). Nothing is ever removed but from
/// the front: to cancel an event, let its receiver ignore it.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    key: (Time, Class, u64),
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap yields its greatest element; the earliest event comes first.
        other.key.cmp(&self.key)
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<E> EventQueue<E> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> EventQueue<E> {
        EventQueue::default()
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Time, class: Class, event: E) {
        let key = (at, class, self.sequence);
        self.sequence += 1;
        self.heap.push(Entry { key, event });
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.key.0, entry.event))
    }

    /// Time of the first event.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.key.0)
    }

    /// The first event.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<&E> {
        self.heap.peek().map(|entry| &entry.event)
    }

    /// Number of events in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True if nothing is left to happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_is_time_then_class_then_sequence() {
        let mut queue = EventQueue::new();
        queue.push(Time(5), Class(1), "later class");
        queue.push(Time(5), Class(0), "first of its class");
        queue.push(Time(5), Class(0), "second of its class");
        queue.push(Time(4), Class(9), "earlier time");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, e)| e).collect();
        assert_eq!(
            order,
            ["earlier time", "first of its class", "second of its class", "later class"]
        );
    }

    proptest! {
        #[test]
        fn order_is_that_of_a_stable_sort(events: Vec<(u8, u8)>) {
            let mut queue = EventQueue::new();
            for (n, &(at, class)) in events.iter().enumerate() {
                queue.push(Time(at.into()), Class(class), n);
            }
            let mut expected: Vec<_> = events.iter().copied().enumerate().collect();
            expected.sort_by_key(|&(_, key)| key);
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, n)| n).collect();
            prop_assert_eq!(popped, expected.into_iter().map(|(n, _)| n).collect::<Vec<_>>());
        }
    }
}
