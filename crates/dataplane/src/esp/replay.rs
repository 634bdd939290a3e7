//! The window of sequence numbers that have come.

/// Packets that may overtake each other (RFC 4303, 3.4.3).
const WINDOW: u64 = 64;

/// Which sequence numbers have come (RFC 4303, 3.4.3 and appendix A).
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The highest so far.
    pub(super) top: u64,
    /// Bit n: `top - n` has come.
    pub(super) seen: u64,
}

impl Replay {
    /// The window of who has forgotten which numbers came, but not how far they went: all up to
    /// `top` may have.
    pub(super) fn after(top: u64) -> Replay {
        Replay { top, seen: if top == 0 { 0 } else { u64::MAX } }
    }

    /// The whole of a sequence number whose low half is `low`, unless it cannot be new.
    pub(super) fn number(&self, low: u32, extended: bool) -> Option<u64> {
        let mut number = u64::from(low);
        if extended {
            // Appendix A2.2: the number that is nearest to a window that ends at the top.
            let bottom = self.top.saturating_sub(WINDOW - 1);
            let high = bottom >> 32;
            number |= high << 32;
            if number < bottom {
                number = number.checked_add(1 << 32)?;
            }
        }
        self.is_new(number).then_some(number)
    }

    fn is_new(&self, number: u64) -> bool {
        // A sender counts from 1 (RFC 4303, 3.3.3), so that 0 need not be told from "none yet".
        if number == 0 {
            return false;
        }
        if number > self.top {
            return true;
        }
        let age = self.top - number;
        age < WINDOW && self.seen >> age & 1 == 0
    }

    /// Notes a number; false if it is not new.
    pub(super) fn accept(&mut self, number: u64) -> bool {
        if !self.is_new(number) {
            return false;
        }
        if number > self.top {
            let by = number - self.top;
            self.seen = if by < WINDOW { self.seen << by } else { 0 };
            self.top = number;
        }
        self.seen |= 1 << (self.top - number);
        debug_assert!(self.seen & 1 == 1, "the highest has come");
        true
    }
}
