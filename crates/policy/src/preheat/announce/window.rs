//! Which announcements of a source are new, and whether they are too many.

use core::fmt;

use halfwink_units::Time;

/// An announcement that was received before, or is too old to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Sequence number of the announcement.
    pub sequence: u64,
    /// The highest that was heard.
    pub highest: u64,
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "number {} was heard, or is far below {}", self.sequence, self.highest)
    }
}

impl core::error::Error for Replayed {}

/// The last numbers of one source: each is heard once, and up to 63 may overtake one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    highest: u64,
    /// Bit n: highest - n was heard. None before the first.
    heard: u64,
}

impl Window {
    /// Numbers that it remembers.
    pub const WIDTH: u64 = 64;

    /// Creates a window before the first announcement.
    #[must_use]
    pub const fn new() -> Window {
        Window { highest: 0, heard: 0 }
    }

    /// Hears a number.
    ///
    /// # Errors
    /// If it was heard, or is below all that the window remembers.
    pub fn hear(&mut self, sequence: u64) -> Result<(), Replayed> {
        if self.heard == 0 {
            *self = Window { highest: sequence, heard: 1 };
            return Ok(());
        }
        if sequence > self.highest {
            let by = sequence - self.highest;
            self.heard = if by < Window::WIDTH { self.heard << by | 1 } else { 1 };
            self.highest = sequence;
            return Ok(());
        }
        let back = self.highest - sequence;
        let bit = if back < Window::WIDTH { 1 << back } else { 0 };
        if bit == 0 || self.heard & bit != 0 {
            return Err(Replayed { sequence, highest: self.highest });
        }
        self.heard |= bit;
        Ok(())
    }
}

/// Lets so many through in a second, and so many at once after a pause (a token bucket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time that one takes.
    each: Time,
    /// The most that may be saved.
    full: Time,
    saved: Time,
    last: Time,
}

impl Rate {
    /// Both at least 1; saved up at the start.
    #[must_use]
    pub fn new(per_second: u32, at_once: u32) -> Rate {
        let each = Time(1_000_000_000_000 / u64::from(per_second.max(1)));
        let full = Time(each.0.saturating_mul(u64::from(at_once.max(1))));
        Rate { each, full, saved: full, last: Time::ZERO }
    }

    /// Returns whether one more is allowed at `now`, and counts it.
    pub fn pass(&mut self, now: Time) -> bool {
        let since = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        self.saved = self.saved.saturating_add(since).min(self.full);
        match self.saved.checked_sub(self.each) {
            Some(left) => {
                self.saved = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn sequence_number_is_accepted_once() {
        let mut window = Window::new();
        assert_eq!(window.hear(100), Ok(()));
        assert_eq!(window.hear(100), Err(Replayed { sequence: 100, highest: 100 }));
        assert_eq!(window.hear(103), Ok(()));
        // 101 was overtaken: once.
        assert_eq!(window.hear(101), Ok(()));
        assert_eq!(window.hear(101), Err(Replayed { sequence: 101, highest: 103 }));
        assert_eq!(window.hear(100), Err(Replayed { sequence: 100, highest: 103 }));
        // Far ahead: what is 64 below is forgotten, and refused.
        assert_eq!(window.hear(166), Ok(()));
        assert_eq!(window.hear(102), Err(Replayed { sequence: 102, highest: 166 }));
        assert_eq!(window.hear(104), Ok(()));
        assert_eq!(window.hear(103), Err(Replayed { sequence: 103, highest: 166 }));
        assert_eq!(window.hear(u64::MAX), Ok(()));
        assert_eq!(window.hear(0), Err(Replayed { sequence: 0, highest: u64::MAX }));
    }

    #[test]
    fn as_many_as_the_rate() {
        let mut rate = Rate::new(1_000, 3);
        let mut passed =
            |at_us: u64| (0..10).filter(|_| rate.pass(Time::ns(1_000 * at_us))).count();
        assert_eq!(passed(5_000), 3);
        assert_eq!(passed(5_000), 0);
        assert_eq!(passed(5_999), 0);
        assert_eq!(passed(6_000), 1);
        assert_eq!(passed(8_500), 2);
        assert_eq!(passed(9_000), 1, "the half was saved");
        assert_eq!(passed(1_000_000), 3);
    }

    proptest! {
        /// No number is heard twice; one that is not far below is heard.
        #[test]
        fn window_accepts_no_number_twice(numbers in prop::collection::vec(0u64..300, 0..200)) {
            let (mut window, mut heard) = (Window::new(), BTreeSet::new());
            for number in numbers {
                let highest = heard.last().copied();
                let fresh = !heard.contains(&number)
                    && highest.is_none_or(|highest: u64| number + Window::WIDTH > highest);
                prop_assert_eq!(window.hear(number).is_ok(), fresh);
                if fresh {
                    heard.insert(number);
                }
            }
        }

        #[test]
        fn never_above_the_rate(gaps in prop::collection::vec(0u64..3_000_000, 1..300)) {
            let (mut rate, mut now) = (Rate::new(1_000_000, 5), Time::ZERO);
            let passed: Vec<Time> = gaps
                .iter()
                .filter_map(|&gap| {
                    now += Time(gap);
                    rate.pass(now).then_some(now)
                })
                .collect();
            for (n, &from) in passed.iter().enumerate() {
                for (m, &to) in passed.iter().enumerate().skip(n) {
                    let most = 5 + (to - from).0 / 1_000_000 + 1;
                    prop_assert!((m - n + 1) as u64 <= most);
                }
            }
        }
    }
}
