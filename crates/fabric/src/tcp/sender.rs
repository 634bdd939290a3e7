//! The sending end of a connection: what may be sent, what is sent again.
//!
//! Losses are found by selective acknowledgements: a segment is lost once one that was sent three
//! later has arrived (FACK, Mathis 1996; RFC 2018), a second copy once new segments behind it
//! have. What is found in no such way is found by the timer (RFC 6298).

use std::collections::VecDeque;

use halfwink_units::Time;

use super::{Ack, Algorithm, Control};

/// Segments that have to arrive behind one until it counts as lost.
const REORDERING: u64 = 3;

/// Constants of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Algorithm of congestion control.
    pub algorithm: Algorithm,
    /// First congestion window, in segments.
    pub initial: f64,
    /// Receive window, in segments.
    pub window: u64,
    /// Beyond a round trip, the shortest time until the timer fires.
    pub least_timeout: Time,
}

/// State of a segment that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Out,
    Arrived,
    Lost,
    /// Lost, and sent again.
    Again,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of retransmitted segments.
    pub again: u64,
    /// Times at which losses were found by acknowledgements.
    pub recoveries: u64,
    /// Times the timer fired.
    pub timeouts: u64,
    /// Times the queue had no room.
    pub refused: u64,
}

/// Round trips, and the timer (RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    smoothed: Option<Time>,
    varies: Time,
    doubled: u32,
    deadline: Option<Time>,
}

impl Timer {
    fn sample(&mut self, round_trip: Time) {
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.varies) = (Some(round_trip), Time(round_trip.0 / 2));
            return;
        };
        let off = smoothed.0.abs_diff(round_trip.0);
        // Before the mean changes: RFC 6298, Sec 2.3, takes the deviation from the old one.
        self.varies = Time((3 * self.varies.0 + off) / 4);
        self.smoothed = Some(Time((7 * smoothed.0 + round_trip.0) / 8));
    }

    /// Starts the timer (RFC 6298, Sec 2 and 5.5). As in Linux, the minimum applies to the variance
    /// term only: otherwise steady round trips of that length would fire the timer.
    fn start(&mut self, now: Time, least: Time) {
        let smoothed = self.smoothed.unwrap_or_default();
        let timeout = smoothed.saturating_add(Time(4 * self.varies.0).max(least));
        // 60 s at most, as Sec 2.5 allows.
        let timeout =
            Time(timeout.0.saturating_mul(1 << self.doubled)).min(Time::ns(60_000_000_000));
        self.deadline = Some(now.saturating_add(timeout));
    }
}

/// The sending end of a connection that always has more to send.
#[derive(Clone, Debug)]
pub struct Sender {
    parameters: Parameters,
    control: Control,
    /// First segment that is not acknowledged.
    una: u64,
    /// States of the segments from `una` to the first not yet sent.
    board: VecDeque<Fate>,
    /// Number of segments in flight, and of segments lost but not retransmitted.
    flight: usize,
    lost: usize,
    /// One behind the last that arrived; all before `judged` are known to have arrived or be lost.
    highest: u64,
    judged: u64,
    /// No lost segment is before it.
    hint: u64,
    /// Sent again, with the first not yet sent then.
    copies: VecDeque<(u64, u64)>,
    /// Losses up to here are one.
    recovery: Option<(u64, bool)>,
    /// The first lost segment goes at once, whatever is on its way (RFC 6675, Sec 5).
    is_urgent: bool,
    is_limited: bool,
    timer: Timer,
    tally: Tally,
}

impl Sender {
    /// A connection that is set up.
    #[must_use]
    pub fn new(parameters: Parameters) -> Sender {
        Sender {
            control: Control::new(parameters.algorithm, parameters.initial),
            parameters,
            una: 0,
            board: VecDeque::new(),
            flight: 0,
            lost: 0,
            highest: 0,
            judged: 0,
            hint: 0,
            copies: VecDeque::new(),
            recovery: None,
            is_urgent: false,
            is_limited: true,
            timer: Timer::default(),
            tally: Tally::default(),
        }
    }

    /// Returns the state of congestion control.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the counters.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// First segment that is not acknowledged, and the first not yet sent.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        (self.una, self.next())
    }

    /// Returns whether segments are in flight without a timer that would detect their loss.
    #[must_use]
    pub fn waits_for_ever(&self) -> bool {
        self.flight > 0 && self.timer.deadline.is_none()
    }

    /// First segment not yet sent.
    fn next(&self) -> u64 {
        self.una + self.board.len() as u64
    }

    /// Returns whether a segment may be sent now.
    pub fn ready(&mut self) -> bool {
        // At least one segment, or a window below one would never be probed.
        let has_window = (self.flight as f64) < self.control.window().max(1.0).floor();
        let has_more = self.lost > 0 || (self.board.len() as u64) < self.parameters.window;
        // Remembered for the next acknowledgement: a window that was not the limit must not grow
        // (RFC 7661 calls this congestion window validation).
        self.is_limited = !has_window;
        (has_window || (self.is_urgent && self.lost > 0)) && has_more
    }

    /// The segment that goes now, if it is [ready](Sender::ready).
    ///
    /// # Panics
    /// If it is not.
    pub fn take(&mut self, now: Time) -> u64 {
        self.flight += 1;
        self.is_urgent = false;
        if self.timer.deadline.is_none() {
            self.timer.start(now, self.parameters.least_timeout);
        }
        if self.lost == 0 {
            self.board.push_back(Fate::Out);
            return self.next() - 1;
        }
        let from = (self.hint.max(self.una) - self.una) as usize;
        let fates = self.board.iter().skip(from);
        debug_assert!(
            self.board.iter().skip(from).any(|fate| *fate == Fate::Lost),
            "no lost segment is before the hint"
        );
        let at = from + fates.take_while(|fate| **fate != Fate::Lost).count();
        self.board[at] = Fate::Again;
        self.lost -= 1;
        let segment = self.una + at as u64;
        self.hint = segment + 1;
        if at == 0 {
            // Its copy takes a round trip, too.
            self.timer.start(now, self.parameters.least_timeout);
        }
        // The copy is lost as well once segments that were new when it left have arrived.
        self.copies.push_back((segment, self.next()));
        self.tally.again += 1;
        segment
    }

    /// The queue has no room: the window shrinks once for all that is on its way (Linux' answer to
    /// a queue's congestion return code).
    pub fn refused(&mut self) {
        self.tally.refused += 1;
        if self.recovery.is_none() {
            self.recovery = Some((self.next(), false));
            self.control.lost();
        }
    }

    /// Processes an acknowledgement.
    pub fn acknowledged(&mut self, now: Time, ack: &Ack) {
        self.timer.sample(now.saturating_sub(ack.echo));
        let forward = self.advance(ack.next);
        for &(from, to) in ack.blocks.iter().filter(|block| block.1 > 0) {
            self.arrived(ack.next + u64::from(from), ack.next + u64::from(to));
        }
        self.judge();
        self.control.marked(self.una, self.next(), forward, ack.marked);
        // After a timeout the window grows again in slow start, although recovery is not over; in
        // a fast recovery it stays.
        let may_grow = self.recovery.is_none_or(|(_, is_timeout)| is_timeout)
            && !self.control.has_shrunk(self.una);
        if forward > 0 {
            // New data was acknowledged: the backoff ends and the timer restarts (RFC 6298, Sec
            // 5.3).
            self.timer.doubled = 0;
            self.timer.deadline = None;
            if !self.board.is_empty() {
                self.timer.start(now, self.parameters.least_timeout);
            }
            if may_grow && self.is_limited {
                let round_trip = self.timer.smoothed.unwrap_or_default();
                self.control.grow(now, forward, round_trip);
            }
        }
        if self.recovery.is_some_and(|(until, _)| self.una >= until) {
            self.recovery = None;
        }
        // Once in a window: all segments sent before `next` belong to this event, however many are
        // lost.
        if self.lost > 0 && self.recovery.is_none() {
            self.recovery = Some((self.next(), false));
            self.is_urgent = true;
            self.tally.recoveries += 1;
            self.control.lost();
        }
    }

    /// All before `next` has arrived; how many that are.
    fn advance(&mut self, next: u64) -> u64 {
        let forward = next.saturating_sub(self.una).min(self.board.len() as u64);
        for fate in self.board.drain(..forward as usize) {
            match fate {
                Fate::Out | Fate::Again => self.flight -= 1,
                Fate::Lost => self.lost -= 1,
                Fate::Arrived => (),
            }
        }
        debug_assert!(
            self.flight + self.lost <= self.board.len(),
            "segments on their way or lost are all on the board"
        );
        self.una += forward;
        forward
    }

    fn arrived(&mut self, from: u64, to: u64) {
        // Blocks beyond what was sent would index behind the board: a receiver cannot acknowledge
        // them.
        let to = to.min(self.next());
        for segment in from.max(self.una)..to {
            let fate = &mut self.board[(segment - self.una) as usize];
            match std::mem::replace(fate, Fate::Arrived) {
                Fate::Out | Fate::Again => self.flight -= 1,
                Fate::Lost => self.lost -= 1,
                Fate::Arrived => (),
            }
        }
        self.highest = self.highest.max(to);
    }

    /// Marks segments as lost that are far enough behind the highest one that arrived.
    fn judge(&mut self) {
        let until = self.highest.saturating_sub(REORDERING);
        for segment in self.judged.max(self.una)..until {
            if self.board[(segment - self.una) as usize] == Fate::Out {
                self.lose(segment);
            }
        }
        self.judged = self.judged.max(until);
        while let Some(&(segment, before)) = self.copies.front() {
            let is_out =
                segment >= self.una && self.board[(segment - self.una) as usize] == Fate::Again;
            if is_out && self.highest < before + REORDERING {
                break;
            }
            self.copies.pop_front();
            if is_out {
                self.lose(segment);
            }
        }
    }

    /// A segment that is on its way will not arrive.
    fn lose(&mut self, segment: u64) {
        debug_assert!(self.flight > 0, "only a segment on its way is lost");
        self.board[(segment - self.una) as usize] = Fate::Lost;
        self.flight -= 1;
        self.lost += 1;
        self.hint = self.hint.min(segment);
    }

    /// Returns the time at which the retransmission timer fires.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.timer.deadline
    }

    /// The timer fires, if it is time: all that has not arrived is lost. When it fired.
    pub fn expire(&mut self, now: Time) -> Option<Time> {
        let at = self.timer.deadline.filter(|at| *at <= now)?;
        self.timer.deadline = None;
        if self.board.is_empty() {
            return None;
        }
        // Bounded, since it is the exponent of a shift.
        self.timer.doubled = (self.timer.doubled + 1).min(16);
        self.tally.timeouts += 1;
        for n in 0..self.board.len() {
            if matches!(self.board[n], Fate::Out | Fate::Again) {
                self.lose(self.una + n as u64);
            }
        }
        self.copies.clear();
        // All that was out is lost now, so that nothing before `next` is left to judge.
        (self.hint, self.judged) = (self.una, self.judged.max(self.next()));
        // A second time for the same segments it is no news of the path.
        if !self.recovery.is_some_and(|(_, is_timeout)| is_timeout) {
            self.control.timed_out();
        }
        self.recovery = Some((self.next(), true));
        Some(at)
    }
}
