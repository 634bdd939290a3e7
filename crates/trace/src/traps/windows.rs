//! Register windows of SPARC V9: how many are free, and when one must be written to memory or read
//! back (D. L. Weaver, T. Germond, *The SPARC Architecture Manual, Version 9*, 1994, Ch. 5 and 6).

/// Owner of the window that a spill writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The mode that runs: counted by CANRESTORE.
    Own,
    /// The user, while the kernel runs: counted by OTHERWIN.
    Other,
}

/// Traps that a `save` had to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// No window was free: one was written, a trap each.
    pub spilled: Option<Owner>,
    /// The window held what another mode left in it.
    pub cleaned: bool,
}

/// The registers that count windows. CANSAVE + CANRESTORE + OTHERWIN are always the number of
/// windows less two: the current one, and the one that overlaps with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    all: u8,
    can_save: u8,
    can_restore: u8,
    other: u8,
    /// CLEANWIN: windows that may be entered without showing what others left in them.
    clean: u8,
}

impl Windows {
    /// Creates windows of which none is saved.
    ///
    /// `windows` is at least 3, as the architecture has it.
    #[must_use]
    pub fn new(windows: u8) -> Windows {
        let all = windows.saturating_sub(2).max(1);
        Windows { all, can_save: all, can_restore: 0, other: 0, clean: all + 1 }
    }

    /// Returns CANSAVE, CANRESTORE and OTHERWIN.
    #[must_use]
    pub fn counts(&self) -> [u8; 3] {
        [self.can_save, self.can_restore, self.other]
    }

    /// Executes a `save` instruction.
    pub fn save(&mut self) -> Saved {
        let spilled = (self.can_save == 0).then(|| self.spill());
        let cleaned = self.clean == self.can_restore;
        self.clean += u8::from(cleaned);
        self.can_save -= 1;
        self.can_restore += 1;
        Saved { spilled, cleaned }
    }

    fn spill(&mut self) -> Owner {
        self.can_save += 1;
        if self.other > 0 {
            self.other -= 1;
            Owner::Other
        } else {
            self.can_restore -= 1;
            Owner::Own
        }
    }

    /// A `restore`. True if the window had to be filled first.
    pub fn restore(&mut self) -> bool {
        let filled = self.can_restore == 0;
        if filled {
            // RESTORED: the window is taken from the user's, where the kernel runs beside them.
            self.can_restore = 1;
            self.clean = (self.clean + 1).min(self.all + 1);
            if self.other > 0 {
                self.other -= 1;
            } else {
                self.can_save -= 1;
            }
        }
        self.can_restore -= 1;
        self.can_save += 1;
        filled
    }

    /// Enters the kernel from user mode: the kernel takes a window for itself, and the user's
    /// windows become the other ones. The kernel need not check clean windows (Linux,
    /// arch/sparc/kernel/etrap_64.S). Returns true if a window had to be spilled.
    pub fn enter(&mut self) -> bool {
        self.clean = self.all + 1;
        let spilled = self.save().spilled.is_some();
        self.other += self.can_restore;
        self.can_restore = 0;
        spilled
    }

    /// Back to user mode, whatever frames the kernel has left: only the user's windows stay, and
    /// no others are clean (arch/sparc/kernel/rtrap_64.S). True if the one to return to had to be
    /// filled.
    pub fn leave(&mut self) -> bool {
        self.can_restore = self.other;
        self.other = 0;
        self.can_save = self.all - self.can_restore;
        let filled = self.restore();
        self.clean = self.can_restore;
        filled
    }

    /// `flushw`, as at a switch of threads: writes all windows but the current one. How many were
    /// written, of the mode that runs and of the other one.
    pub fn flush(&mut self) -> [u8; 2] {
        let written = [self.can_restore, self.other];
        *self = Windows { can_save: self.all, can_restore: 0, other: 0, ..*self };
        written
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Traps (spills, fills) of a recursion to a depth and back.
    fn recursion(windows: &mut Windows, depth: u32) -> (u32, u32) {
        let spills = (0..depth).filter(|_| windows.save().spilled.is_some()).count();
        let fills = (0..depth).filter(|_| windows.restore()).count();
        (spills as u32, fills as u32)
    }

    #[test]
    fn eight_windows_hold_six_calls() {
        let mut windows = Windows::new(8);
        assert_eq!(windows.counts(), [6, 0, 0]);
        assert_eq!(recursion(&mut windows, 6), (0, 0));
        // By hand: the seventh call spills the window of the first.
        assert_eq!(recursion(&mut windows, 7), (1, 1));
        assert_eq!(recursion(&mut windows, 20), (14, 14));
        assert_eq!(windows.counts(), [6, 0, 0]);
    }

    #[test]
    fn up_and_down_at_the_edge_traps_once() {
        let mut windows = Windows::new(8);
        (0..10).for_each(|_| {
            windows.save();
        });
        // Six frames are held: five of returns and calls again need nothing.
        for _ in 0..3 {
            assert_eq!((0..5).filter(|_| windows.restore()).count(), 0);
            assert_eq!((0..5).filter(|_| windows.save().spilled.is_some()).count(), 0);
        }
        // One deeper in both directions, each time.
        assert_eq!((0..7).filter(|_| windows.restore()).count(), 1);
        assert_eq!((0..7).filter(|_| windows.save().spilled.is_some()).count(), 1);
    }

    #[test]
    fn the_kernel_finds_the_users_windows() {
        let mut windows = Windows::new(8);
        (0..3).for_each(|_| {
            windows.save();
        });
        assert!(!windows.enter());
        assert_eq!(windows.counts(), [2, 0, 4]);
        // Two calls fit; each further one writes a window of the user's.
        let spills: Vec<_> = (0..4).map(|_| windows.save().spilled).collect();
        assert_eq!(spills, [None, None, Some(Owner::Other), Some(Owner::Other)]);
        assert_eq!((0..4).filter(|_| windows.restore()).count(), 0);
        assert!(!windows.leave());
        // Two of the user's are still there: the current one, and one below it.
        assert_eq!(windows.counts(), [5, 1, 0]);
        // A deep kernel leaves none: the return fills the user's current window itself.
        assert!(!windows.enter());
        (0..9).for_each(|_| {
            windows.save();
        });
        assert!(windows.leave());
        assert_eq!(windows.counts(), [6, 0, 0]);
        // A user at the edge: the entry spills.
        (0..6).for_each(|_| {
            windows.save();
        });
        assert!(windows.enter());
        assert_eq!(windows.counts(), [0, 0, 6]);
        assert_eq!(windows.flush(), [0, 6]);
        assert!(windows.leave());
    }

    #[test]
    fn after_the_kernel_windows_are_cleaned_once() {
        let mut windows = Windows::new(8);
        let cleaned = |windows: &mut Windows, calls: usize| {
            (0..calls).filter(|_| windows.save().cleaned).count()
        };
        assert_eq!(cleaned(&mut windows, 2), 0);
        windows.enter();
        assert_eq!(cleaned(&mut windows, 9), 0);
        windows.leave();
        // The kernel wrote all of the user's windows: nothing but the filled one is the user's.
        assert_eq!(windows.counts(), [6, 0, 0]);
        assert_eq!(cleaned(&mut windows, 3), 3);
        (0..3).for_each(|_| {
            windows.restore();
        });
        assert_eq!(cleaned(&mut windows, 5), 2);
    }

    proptest! {
        /// A recursion of depth d spills and fills d - (n - 2) windows of n.
        #[test]
        fn recursion_has_a_closed_form(n in 3u8..33, depth in 0u32..200) {
            let traps = depth.saturating_sub(u32::from(n) - 2);
            prop_assert_eq!(recursion(&mut Windows::new(n), depth), (traps, traps));
        }

        /// Against a naive model: frames on a stack, of which the newest ones are in registers.
        #[test]
        fn as_a_stack_of_frames(
            n in 3u8..12, calls in prop::collection::vec(any::<bool>(), 0..400),
        ) {
            let mut windows = Windows::new(n);
            let most = usize::from(n) - 2;
            // Depth below which all frames are in memory, and the depth: both may go below zero.
            let (mut floor, mut depth) = (0_i64, 0_i64);
            for call in calls {
                if call {
                    depth += 1;
                    let spills = depth - floor > most as i64;
                    floor += i64::from(spills);
                    prop_assert_eq!(windows.save().spilled, spills.then_some(Owner::Own));
                } else {
                    depth -= 1;
                    let fills = depth < floor;
                    floor -= i64::from(fills);
                    prop_assert_eq!(windows.restore(), fills);
                }
            }
        }

        /// Whatever comes, the registers add up and nothing overflows.
        #[test]
        fn always_as_many_windows(n in 3u8..33, steps in prop::collection::vec(0u8..5, 0..500)) {
            let mut windows = Windows::new(n);
            for step in steps {
                match step {
                    0 => { windows.save(); }
                    1 => { windows.restore(); }
                    2 => { windows.enter(); }
                    3 => { windows.leave(); }
                    _ => prop_assert!(windows.flush().iter().sum::<u8>() <= n - 2),
                }
                prop_assert_eq!(windows.counts().iter().sum::<u8>(), n - 2);
                prop_assert!((windows.can_restore..n).contains(&windows.clean));
            }
        }

        /// Entering and leaving the kernel around shallow work changes nothing.
        #[test]
        fn a_shallow_kernel_leaves_no_trace(depth in 0usize..5, inside in 0usize..2) {
            let mut windows = Windows::new(8);
            (0..depth).for_each(|_| { windows.save(); });
            let before = windows;
            windows.enter();
            let inside = inside.min(5 - depth);
            (0..inside).for_each(|_| { windows.save(); });
            (0..inside).for_each(|_| { windows.restore(); });
            windows.leave();
            prop_assert_eq!(windows.counts(), before.counts());
        }
    }
}
