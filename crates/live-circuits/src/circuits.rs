//! The matching of an emulated switch: which circuit is up when, and what becomes of a frame.
//!
//! A frame is judged by when it came to the switch, not by when this program saw it: the kernel
//! stamps it. What a host hands over waits for the wire, as in a network card; it is forwarded if
//! it is on the wire, to its last bit, while its circuit is up. This is the rule of the simulated
//! world too (`crates/fabric`).

use std::collections::VecDeque;

use serde::Serialize;

/// Days of an input that are remembered: frames of an earlier one may still be in a socket.
const REMEMBERED: usize = 16;

/// Begin, end and destination of an input's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Day {
    to: u16,
    begins_ns: u64,
    ends_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Input {
    days: VecDeque<Day>,
    /// Time at which the wire is free.
    free_ns: u64,
    /// End of the day in which it carried the last frame.
    ends_ns: u64,
}

/// Time during which frames of a sender's day were on the wire to a receiver.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: u16,
    day_ends_ns: u64,
    begins_ns: u64,
    ends_ns: u64,
}

/// Spans of the last days, in the order in which frames were seen: that of two inputs may not be
/// that of their times.
#[derive(Clone, Debug, Default)]
struct Output {
    spans: VecDeque<Span>,
}

impl Output {
    /// Frames are on the wire; whether another sender's are at the same time.
    fn carry(&mut self, span: Span) -> bool {
        let meets = |other: &Span| {
            let apart = span.ends_ns <= other.begins_ns || other.ends_ns <= span.begins_ns;
            other.from != span.from && !apart
        };
        let overlaps = self.spans.iter().any(meets);
        let same =
            |other: &&mut Span| (other.from, other.day_ends_ns) == (span.from, span.day_ends_ns);
        if let Some(known) = self.spans.iter_mut().find(same) {
            known.ends_ns = span.ends_ns;
            return overlaps;
        }
        if self.spans.len() == REMEMBERED {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
        overlaps
    }
}

/// Decision on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The frame passes.
    Forward {
        /// Time from the end of its transmission to the end of the day.
        left_ns: u64,
    },
    /// The frame came while its input had no circuit.
    Night,
    /// The frame came while its input's circuit went to another host.
    Elsewhere,
    /// The circuit came down while the frame waited for the wire or was on it.
    Cut,
}

/// Reason why two ends cannot be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// There is no such host.
    #[error("host {0}: there is none")]
    Unknown(u16),
    /// An input has a circuit already, or its day overlaps its last one.
    #[error("host {0} sends already")]
    Sends(u16),
    /// An output has one.
    #[error("host {0} receives already")]
    Receives(u16),
}

/// Frames that did not pass, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Violations {
    /// No circuit was up.
    pub night: u64,
    /// The circuit went elsewhere.
    pub elsewhere: u64,
    /// The circuit came down on it.
    pub cut: u64,
}

impl Violations {
    /// Counts a verdict that is a violation.
    pub fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Forward { .. } => {}
            Verdict::Night => self.night += 1,
            Verdict::Elsewhere => self.elsewhere += 1,
            Verdict::Cut => self.cut += 1,
        }
    }
}

/// All circuits of a switch with one plane.
#[derive(Clone, Debug)]
pub struct Circuits {
    ps_per_byte: u64,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// Joins that the next day has so far, by input.
    next: Vec<Option<u16>>,
    /// Frames that were on the wire to a host while another's still was. The matching rules that
    /// out; this is counted from the frames alone, so that a mistake of the matching shows.
    pub overlaps: u64,
    /// Guard times that were left on days that are over, until they are taken.
    pub guards_ns: Vec<u64>,
}

impl Circuits {
    /// No circuits yet between so many hosts, whose wires carry so many bytes in a microsecond.
    #[must_use]
    pub fn new(hosts: u16, bytes_per_us: u32) -> Circuits {
        let n = usize::from(hosts);
        Circuits {
            // Picoseconds, since a byte takes less than a nanosecond beyond 8 Gb/s.
            ps_per_byte: 1_000_000 / u64::from(bytes_per_us.max(1)),
            inputs: vec![Input::default(); n],
            outputs: vec![Output::default(); n],
            next: vec![None; n],
            overlaps: 0,
            guards_ns: Vec::new(),
        }
    }

    /// Joins `from` to `to` in the next day.
    ///
    /// # Errors
    /// If there is no such host, or one of them has a circuit for that day.
    pub fn join(&mut self, from: u16, to: u16) -> Result<(), JoinError> {
        let n = self.next.len();
        for host in [from, to] {
            if usize::from(host) >= n {
                return Err(JoinError::Unknown(host));
            }
        }
        // A matching: each end in at most one circuit of a day.
        if from == to || self.next.contains(&Some(to)) {
            return Err(JoinError::Receives(to));
        }
        let input = &mut self.next[usize::from(from)];
        if input.is_some() {
            return Err(JoinError::Sends(from));
        }
        *input = Some(to);
        Ok(())
    }

    /// Puts up the joined circuits from `begins_ns` to `ends_ns`, and returns the receivers by
    /// input.
    ///
    /// A day that begins before the last one ends is delayed: one matching follows another.
    pub fn day(&mut self, begins_ns: u64, ends_ns: u64) -> Vec<Option<u16>> {
        let joined = std::mem::replace(&mut self.next, vec![None; self.inputs.len()]);
        let last = self.inputs.iter().filter_map(|input| input.days.back()).map(|d| d.ends_ns);
        // A switch has one matching at a time: the old one comes down first, whoever is late.
        let begins_ns = begins_ns.max(last.max().unwrap_or(0));
        for (input, to) in self.inputs.iter_mut().zip(&joined) {
            let Some(to) = *to else { continue };
            if input.days.len() == REMEMBERED {
                input.days.pop_front();
            }
            debug_assert!(
                input.days.back().is_none_or(|last| last.ends_ns <= begins_ns),
                "days of an input follow each other"
            );
            input.days.push_back(Day { to, begins_ns, ends_ns: ends_ns.max(begins_ns) });
        }
        joined
    }

    /// A frame of so many bytes came from `from` at a time, for `to`.
    pub fn judge(&mut self, from: u16, to: u16, bytes: usize, at_ns: u64) -> Verdict {
        let Some(input) = self.inputs.get_mut(usize::from(from)) else { return Verdict::Night };
        let up = |day: &&Day| (day.begins_ns..day.ends_ns).contains(&at_ns);
        // The stamp decides on the day, not the time at which this program looks: the last days
        // are kept for frames that waited in a socket. From the newest, which nearly all belong
        // to.
        let Some(day) = input.days.iter().rev().find(up) else { return Verdict::Night };
        if day.to != to {
            return Verdict::Elsewhere;
        }
        // A frame waits for the wire behind the one before, as in a network card.
        let begins = at_ns.max(input.free_ns).max(day.begins_ns);
        // Rounded up: a circuit that comes down within the last bit cuts the frame.
        let free_ns = begins + (bytes as u64 * self.ps_per_byte).div_ceil(1000);
        if free_ns > day.ends_ns {
            return Verdict::Cut;
        }
        let (left_ns, ends_ns) = (day.ends_ns - free_ns, day.ends_ns);
        // The guard time of a day is known when a frame of another day passes: until then more of
        // the day may come.
        debug_assert!(free_ns <= ends_ns, "a frame passes within its day");
        if input.ends_ns != ends_ns && input.ends_ns > 0 {
            self.guards_ns.push(input.ends_ns - input.free_ns);
        }
        (input.free_ns, input.ends_ns) = (free_ns, ends_ns);
        let span = Span { from, day_ends_ns: ends_ns, begins_ns: begins, ends_ns: free_ns };
        self.overlaps += u64::from(self.outputs[usize::from(to)].carry(span));
        Verdict::Forward { left_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 1000;
    const LEFT: fn(u64) -> Verdict = |left_ns| Verdict::Forward { left_ns };

    /// 1 Gb/s: a frame of 1000 B takes 8 us. Host 0 sends to 1 from 10 us to 30 us.
    fn switch() -> Circuits {
        let mut switch = Circuits::new(3, 125);
        switch.join(0, 1).unwrap();
        assert_eq!(switch.day(10_000, 30_000), [Some(1), None, None]);
        switch
    }

    #[test]
    fn a_frame_passes_only_while_its_circuit_is_up() {
        let mut switch = switch();
        assert_eq!(switch.judge(0, 1, FRAME, 9_999), Verdict::Night);
        assert_eq!(switch.judge(0, 1, FRAME, 10_000), LEFT(12_000));
        assert_eq!(switch.judge(0, 2, FRAME, 10_001), Verdict::Elsewhere);
        assert_eq!(switch.judge(1, 0, FRAME, 10_001), Verdict::Night);
        assert_eq!(switch.judge(0, 1, FRAME, 30_000), Verdict::Night);
        assert_eq!(switch.judge(9, 1, FRAME, 10_001), Verdict::Night);
    }

    #[test]
    fn what_waits_for_the_wire_until_the_day_is_over_is_cut() {
        let mut switch = switch();
        // All at once, as a card holds them: 8 us each, and the day has room for two.
        let all = [0; 4].map(|_| switch.judge(0, 1, FRAME, 10_000));
        assert_eq!(all, [LEFT(12_000), LEFT(4_000), Verdict::Cut, Verdict::Cut]);
        let mut late = super::tests::switch();
        assert_eq!(late.judge(0, 1, FRAME, 22_000), LEFT(0));
        let mut too_late = super::tests::switch();
        assert_eq!(too_late.judge(0, 1, FRAME, 22_001), Verdict::Cut);
        let mut violations = Violations::default();
        all.into_iter().for_each(|verdict| violations.count(verdict));
        assert_eq!(violations, Violations { cut: 2, ..Violations::default() });
    }

    #[test]
    fn two_never_send_to_one() {
        let mut switch = Circuits::new(3, 125);
        switch.join(0, 1).unwrap();
        assert_eq!(switch.join(2, 1), Err(JoinError::Receives(1)));
        assert_eq!(switch.join(0, 2), Err(JoinError::Sends(0)));
        assert_eq!(switch.join(2, 2), Err(JoinError::Receives(2)));
        assert_eq!(switch.join(0, 3), Err(JoinError::Unknown(3)));
        switch.day(10_000, 30_000);
        // The next day is put off until this one is over.
        switch.join(2, 1).unwrap();
        switch.day(20_000, 50_000);
        assert_eq!(switch.judge(2, 1, FRAME, 29_999), Verdict::Night);
        assert_eq!(switch.judge(0, 1, FRAME, 10_000), LEFT(12_000));
        assert_eq!(switch.judge(2, 1, FRAME, 30_000), LEFT(12_000));
        assert_eq!(switch.overlaps, 0);
    }

    #[test]
    fn an_overlap_would_be_seen_if_the_matching_allowed_one() {
        let mut switch = switch();
        // Behind the matching's back.
        switch.inputs[2].days.push_back(Day { to: 1, begins_ns: 10_000, ends_ns: 30_000 });
        assert_eq!(switch.judge(0, 1, FRAME, 10_000), LEFT(12_000));
        assert_eq!(switch.judge(2, 1, FRAME, 17_999), LEFT(4_001));
        assert_eq!(switch.overlaps, 1);
    }

    #[test]
    fn frames_seen_out_of_the_order_of_their_times_do_not_overlap() {
        let mut switch = switch();
        switch.join(2, 1).unwrap();
        switch.day(40_000, 60_000);
        // A late look finds both days' frames, those of the later first.
        assert_eq!(switch.judge(2, 1, FRAME, 45_000), LEFT(7_000));
        assert_eq!(switch.judge(0, 1, FRAME, 15_000), LEFT(7_000));
        assert_eq!(switch.overlaps, 0);
    }

    #[test]
    fn frames_of_a_day_that_is_over_are_judged_by_when_they_came() {
        let mut switch = switch();
        for day in 1..10 {
            switch.join(0, 2).unwrap();
            switch.day(day * 40_000, day * 40_000 + 30_000);
        }
        assert_eq!(switch.judge(0, 1, FRAME, 15_000), LEFT(7_000));
        assert_eq!(switch.judge(0, 1, FRAME, 45_000), Verdict::Elsewhere);
        assert!(switch.guards_ns.is_empty(), "more may come");
        assert_eq!(switch.judge(0, 2, FRAME, 45_000), LEFT(17_000));
        assert_eq!(switch.guards_ns, [7_000]);
    }
}
