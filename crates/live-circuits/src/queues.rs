//! What waits at a host, by destination: queues that drop their tail, and the tokens of the circuit
//! that is up.

use std::collections::VecDeque;

use halfwink_policy::circuits::host::{HostAction, HostEvent, Tokens};
use halfwink_policy::{Host, Policy};
use halfwink_units::Time;

/// Frames for one host.
#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: u64,
}

/// Queues of a host.
#[derive(Debug)]
pub struct Queues {
    queues: Vec<Queue>,
    /// Bytes of one queue, at most.
    most_bytes: u64,
    /// Frames that did not fit.
    pub overflowed: u64,
    spare: Vec<Vec<u8>>,
}

impl Queues {
    /// Empty ones for so many hosts.
    #[must_use]
    pub fn new(hosts: u16, most_bytes: u64) -> Queues {
        let queues = (0..hosts).map(|_| Queue::default()).collect();
        Queues { queues, most_bytes, overflowed: 0, spare: Vec::new() }
    }

    /// A frame for a host; false if it does not fit, or there is no such host.
    pub fn push(&mut self, to: u16, frame: &[u8]) -> bool {
        let Some(queue) = self.queues.get_mut(usize::from(to)) else { return false };
        if queue.bytes + frame.len() as u64 > self.most_bytes {
            self.overflowed += 1;
            return false;
        }
        // Memory of sent frames is used again: no allocation for each frame on the hot path.
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(frame);
        queue.bytes += frame.len() as u64;
        queue.frames.push_back(kept);
        true
    }

    /// Bytes that wait for a host.
    #[must_use]
    pub fn bytes(&self, to: u16) -> u64 {
        self.queues.get(usize::from(to)).map_or(0, |queue| queue.bytes)
    }

    /// Bytes of the frame that is next for a host.
    #[must_use]
    pub fn head(&self, to: u16) -> u64 {
        let queue = self.queues.get(usize::from(to));
        queue.and_then(|queue| queue.frames.front()).map_or(0, |frame| frame.len() as u64)
    }

    /// Bytes that wait for each host.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.queues.iter().map(|queue| queue.bytes)
    }

    /// Returns whether all queues are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.frames.is_empty())
    }

    /// Frames for `to` that the tokens let go now, up to `most`; and when to ask again, if tokens
    /// said so.
    pub fn take(
        &mut self,
        tokens: &mut Host<Tokens>,
        to: u16,
        clock: impl Fn() -> Time,
        most: usize,
        into: &mut Vec<Vec<u8>>,
    ) -> Option<Time> {
        let queue = self.queues.get_mut(usize::from(to))?;
        for _ in 0..most {
            let head = queue.frames.front()?;
            let event = HostEvent::Head { bytes: head.len() as u32 };
            match tokens.decide(clock(), &event)? {
                HostAction::Send => {
                    debug_assert!(
                        queue.bytes >= head.len() as u64,
                        "a queue's bytes are those of its frames"
                    );
                    queue.bytes -= head.len() as u64;
                    into.extend(queue.frames.pop_front());
                }
                HostAction::Again { at } => return Some(at),
                // The next day is told.
                HostAction::Hold => return Some(Time::NEVER),
            }
        }
        None
    }

    /// Room of frames that were sent.
    pub fn give_back(&mut self, frames: &mut Vec<Vec<u8>>) {
        self.spare.append(frames);
    }

    /// Returns the tokens that are left of a day, for tests and views.
    #[must_use]
    pub fn tokens_left(tokens: &Host<Tokens>) -> i64 {
        tokens.policy().snapshot().first().map_or(0, |(_, left)| *left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_policy::circuits::host::{Scheme, TokenParameters};

    fn paced() -> Host<Tokens> {
        let parameters = TokenParameters {
            bytes_per_us: 125,
            margin: Time::ns(0),
            backlog_bytes: 2_000,
            ..TokenParameters::published(Scheme::Pacing)
        };
        Host::new(Tokens::new(parameters))
    }

    #[test]
    fn a_queue_drops_its_tail_and_no_other() {
        let mut queues = Queues::new(3, 2_500);
        let pushed = [0; 3].map(|_| queues.push(1, &[0; 1000]));
        assert_eq!(pushed, [true, true, false]);
        assert!(queues.push(2, &[0; 1000]) && !queues.push(3, &[0; 10]));
        assert_eq!(queues.all().collect::<Vec<_>>(), [0, 2000, 1000]);
        assert_eq!((queues.overflowed, queues.is_empty()), (1, false));
    }

    #[test]
    fn frames_go_in_order_as_tokens_let_them_and_only_by_day() {
        let mut queues = Queues::new(2, 100_000);
        for n in 0..10 {
            queues.push(1, &[n; 1000]);
        }
        let (mut tokens, mut sent) = (paced(), Vec::new());
        let us = |us: u64| Time::ns(1000 * us);
        let at_night = queues.take(&mut tokens, 1, || us(1), 99, &mut sent);
        assert_eq!((at_night, sent.len()), (Some(Time::NEVER), 0));
        tokens.decide(us(10), &HostEvent::Day { peer: 1, length: us(40) });
        // The card holds 2000 B and the frame that made it so many; 24 us later, no more than 3.
        assert_eq!(queues.take(&mut tokens, 1, || us(10), 99, &mut sent), Some(us(18)));
        assert_eq!(sent.iter().map(|f| f[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(queues.take(&mut tokens, 1, || us(18), 1, &mut sent), None, "no more asked for");
        // 40 us carry five frames.
        assert_eq!(queues.take(&mut tokens, 1, || us(48), 99, &mut sent), Some(Time::NEVER));
        assert_eq!((sent.len(), queues.bytes(1)), (4, 6_000), "and the rest is too late");
        queues.give_back(&mut sent);
        assert_eq!((queues.spare.len(), Queues::tokens_left(&tokens)), (4, 250));
    }
}
