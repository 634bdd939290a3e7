//! The receiving end of a connection.

use halfwink_units::Time;

use super::{Ack, BLOCKS};

/// Receiving end of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Segments in order for each acknowledgement.
    every: u32,
    next: u64,
    /// Ranges that arrived out of order, the most recently changed first.
    beyond: Vec<(u64, u64)>,
    /// Number of segments in order that are not yet acknowledged.
    held: u32,
    since: Time,
    echo: Time,
    marked: u32,
}

impl Receiver {
    /// Creates a receiver that acknowledges every `every` segments in order (RFC 5681: two).
    #[must_use]
    pub fn new(every: u32) -> Receiver {
        let (echo, since) = (Time::ZERO, Time::ZERO);
        Receiver { every, next: 0, beyond: Vec::new(), held: 0, since, echo, marked: 0 }
    }

    /// Segments that arrived in order.
    #[must_use]
    pub fn in_order(&self) -> u64 {
        self.next
    }

    /// A segment arrives. Whatever is not the next in order is answered at once.
    pub fn data(&mut self, now: Time, segment: u64, sent: Time, marked: bool) -> Option<Ack> {
        if self.held == 0 {
            // The echo is of the first of the held segments (RFC 7323, Sec 4.3): the round trip
            // includes the delay of the acknowledgement.
            (self.since, self.echo) = (now, sent);
        }
        self.marked += u32::from(marked);
        let has_gap = !self.beyond.is_empty();
        if segment == self.next {
            self.next += 1;
            self.join();
        } else if segment > self.next {
            self.echo = sent;
            self.hold(segment);
        }
        self.held += 1;
        // A segment that fills a gap is answered at once as well (RFC 5681, Sec 4.2), so that the
        // sender's recovery goes on.
        let is_plain = segment + 1 == self.next && !has_gap;
        (!is_plain || self.held >= self.every).then(|| self.answer())
    }

    /// Acknowledges segments that were held back for `longest` (RFC 1122, Sec 4.2.3.2).
    pub fn overdue(&mut self, now: Time, longest: Time) -> Option<Ack> {
        let is_due = self.held > 0 && now.saturating_sub(self.since) >= longest;
        is_due.then(|| self.answer())
    }

    /// Returns the deadline of the delayed acknowledgement; `None` if no segment is held back.
    #[must_use]
    pub fn due(&self, longest: Time) -> Option<Time> {
        (self.held > 0).then(|| self.since.saturating_add(longest))
    }

    fn answer(&mut self) -> Ack {
        debug_assert!(
            self.beyond.iter().all(|range| range.0 > self.next),
            "a range that touches what is in order was joined to it"
        );
        let mut blocks = [(0, 0); BLOCKS];
        for (block, range) in blocks.iter_mut().zip(&self.beyond) {
            *block = ((range.0 - self.next) as u32, (range.1 - self.next) as u32);
        }
        let ack = Ack { next: self.next, blocks, echo: self.echo, marked: self.marked };
        (self.held, self.marked) = (0, 0);
        ack
    }

    /// Ranges that begin where what is in order ends belong to it.
    fn join(&mut self) {
        while let Some(at) = self.beyond.iter().position(|range| range.0 <= self.next) {
            self.next = self.next.max(self.beyond.remove(at).1);
        }
    }

    fn hold(&mut self, segment: u64) {
        let mut range = (segment, segment + 1);
        self.beyond.retain(|&(from, to)| {
            let touches = from <= range.1 && range.0 <= to;
            if touches {
                range = (range.0.min(from), range.1.max(to));
            }
            !touches
        });
        // First, since acknowledgements report the range that changed last (RFC 2018, Sec 4), and
        // have room for three.
        self.beyond.insert(0, range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(receiver: &mut Receiver, segment: u64) -> Option<Ack> {
        receiver.data(Time::ns(segment), segment, Time::ns(segment), false)
    }

    #[test]
    fn every_other_segment_in_order_is_acknowledged() {
        let mut receiver = Receiver::new(2);
        assert_eq!(feed(&mut receiver, 0), None);
        assert_eq!(receiver.due(Time::ns(40)), Some(Time::ns(40)));
        let ack = feed(&mut receiver, 1).unwrap();
        assert_eq!((ack.next, ack.blocks, ack.echo), (2, [(0, 0); 3], Time::ZERO));
        assert_eq!(feed(&mut receiver, 2), None);
        assert_eq!(receiver.overdue(Time::ns(41), Time::ns(40)), None);
        assert_eq!(receiver.overdue(Time::ns(42), Time::ns(40)).unwrap().next, 3);
        assert_eq!(receiver.overdue(Time::ns(99), Time::ns(40)), None);
    }

    #[test]
    fn gaps_are_answered_at_once_with_what_changed_first() {
        let mut receiver = Receiver::new(2);
        let blocks = |ack: Option<Ack>| ack.unwrap().blocks;
        assert_eq!(blocks(feed(&mut receiver, 1)), [(1, 2), (0, 0), (0, 0)]);
        assert_eq!(blocks(feed(&mut receiver, 5)), [(5, 6), (1, 2), (0, 0)]);
        assert_eq!(blocks(feed(&mut receiver, 3)), [(3, 4), (5, 6), (1, 2)]);
        assert_eq!(blocks(feed(&mut receiver, 4)), [(3, 6), (1, 2), (0, 0)]);
        let ack = feed(&mut receiver, 0).unwrap();
        assert_eq!((ack.next, ack.blocks), (2, [(1, 4), (0, 0), (0, 0)]));
        let ack = feed(&mut receiver, 2).unwrap();
        assert_eq!((ack.next, ack.blocks, receiver.in_order()), (6, [(0, 0); 3], 6));
        assert_eq!(feed(&mut receiver, 2).unwrap().next, 6, "what has come is answered, too");
    }
}
