//! One connection over one bottleneck, for comparison with closed forms.

use std::collections::VecDeque;

use halfwink_engine::{stream, Stream};
use halfwink_units::Time;
use rand::RngExt;

use super::{Ack, Parameters, Receiver, Sender, Tally};

/// Losses of a bottleneck, beside those of a full queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Loses no segment.
    None,
    /// One of so many, always.
    Every(u64),
    /// Each with this chance.
    Chance(f64),
}

/// A link with a queue before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipe {
    /// Time of a segment on the link.
    pub segment: Time,
    /// Round-trip delay from the link to the receiver and back.
    pub round_trip: Time,
    /// Segments that find room.
    pub room: u64,
    /// Queue length from which segments are marked.
    pub mark: u64,
    /// Segments that are lost.
    pub loss: Loss,
    /// Segments for each acknowledgement.
    pub every: u32,
}

/// Results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Segments that arrived in order.
    pub segments: u64,
    /// Length of the run.
    pub duration: Time,
    /// Mean of DCTCP's share of marks over the second half, 0 to 1.
    pub alpha: f64,
    /// Most segments in the queue in the second half.
    pub queue: u64,
    /// Counters of the sender.
    pub tally: Tally,
}

impl Report {
    /// Segments on their way, on average, at this round trip.
    #[must_use]
    pub fn window(&self, round_trip: Time) -> f64 {
        self.segments as f64 * round_trip.as_s() / self.duration.as_s()
    }
}

struct Link<'a> {
    pipe: &'a Pipe,
    free: Time,
    sent: u64,
    random: Stream,
    data: VecDeque<(Time, u64, Time, bool)>,
    acks: VecDeque<(Time, Ack)>,
}

impl Link<'_> {
    fn waiting(&self, now: Time) -> u64 {
        self.free.saturating_sub(now).0.div_ceil(self.pipe.segment.0)
    }

    fn send(&mut self, now: Time, segment: u64) {
        self.sent += 1;
        // Before this segment: the queue that it finds decides on its loss and its mark.
        let waiting = self.waiting(now);
        let is_lost = match self.pipe.loss {
            Loss::None => false,
            Loss::Every(count) => self.sent.is_multiple_of(count),
            Loss::Chance(share) => self.random.random::<f64>() < share,
        };
        if is_lost || waiting >= self.pipe.room {
            return;
        }
        self.free = self.free.max(now) + self.pipe.segment;
        let arrives = self.free + Time(self.pipe.round_trip.0 / 2);
        self.data.push_back((arrives, segment, now, waiting >= self.pipe.mark));
    }
}

impl Pipe {
    /// Plays a connection for so long.
    #[must_use]
    pub fn play(&self, parameters: Parameters, duration: Time, seed: u64) -> Report {
        let (mut sender, mut receiver) = (Sender::new(parameters), Receiver::new(self.every));
        let (data, acks) = (VecDeque::new(), VecDeque::new());
        let random = stream(seed, "pipe");
        let mut link = Link { pipe: self, free: Time::ZERO, sent: 0, random, data, acks };
        let back = Time(self.round_trip.0 / 2);
        let delayed = Time::ns(40_000_000);
        let (mut now, mut queue, mut alphas, mut samples) = (Time::ZERO, 0, 0.0, 0_u64);
        while now < duration {
            while sender.ready() {
                let segment = sender.take(now);
                link.send(now, segment);
            }
            // The first half is left out: it holds the slow start, and DCTCP's alpha falls from 1.
            if now.0 > duration.0 / 2 {
                queue = queue.max(link.waiting(now));
                alphas += sender.control().alpha();
                samples += 1;
            }
            let times = [
                link.data.front().map(|found| found.0),
                link.acks.front().map(|found| found.0),
                receiver.due(delayed),
                sender.deadline(),
            ];
            let at = |n: usize| times[n].unwrap_or(Time::NEVER);
            let first = (0..4).min_by_key(|&n| at(n)).unwrap_or(0);
            now = at(first);
            match first {
                0 => {
                    let Some((_, segment, sent, marked)) = link.data.pop_front() else { break };
                    let ack = receiver.data(now, segment, sent, marked);
                    link.acks.extend(ack.map(|ack| (now + back, ack)));
                }
                1 => {
                    let Some((_, ack)) = link.acks.pop_front() else { break };
                    sender.acknowledged(now, &ack);
                }
                2 => {
                    let ack = receiver.overdue(now, delayed);
                    link.acks.extend(ack.map(|ack| (now + back, ack)));
                }
                _ => {
                    sender.expire(now);
                }
            }
        }
        let alpha = alphas / samples.max(1) as f64;
        let (segments, tally) = (receiver.in_order(), sender.tally());
        Report { segments, duration, alpha, queue, tally }
    }
}
