//! Decides from timed loads whether this machine can tell a cached line from another.
//!
//! A single time is of little use: the clock, the system call around a load and, in a guest, the
//! walk of nested page tables can each take longer than memory does. So a load comes after one of
//! another line of the same page, which brings the translation, and is compared with a second load
//! of the same line, which pays for all the rest alike.

/// How much longer the first load of a line takes than the second. A first load that failed stays
/// `u32::MAX`.
#[must_use]
pub fn beyond(first: u32, again: u32) -> u32 {
    match first {
        u32::MAX => u32::MAX,
        _ => first.saturating_sub(again),
    }
}

/// What loads take beyond a repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Nine in ten of the cached lines take at most this.
    pub warm: u32,
    /// Nine in ten of the lines that are not cached take at least this.
    pub cold: u32,
}

impl Calibration {
    /// Summarizes loads of lines that are cached, and of lines that are not.
    #[must_use]
    pub fn new(mut warm: Vec<u32>, mut cold: Vec<u32>) -> Calibration {
        warm.sort_unstable();
        cold.sort_unstable();
        let (high, low) = (warm.len() * 9 / 10, cold.len() / 10);
        let at = |all: &[u32], n: usize| all.get(n).copied().unwrap_or(0);
        Calibration { warm: at(&warm, high), cold: at(&cold, low) }
    }

    /// Whether the two kinds are far enough apart: otherwise a limit between them sorts noise.
    #[must_use]
    pub fn is_clear(self) -> bool {
        self.cold > 0 && self.cold != u32::MAX && self.cold / 2 >= self.warm
    }

    /// Loads that take less count as cached.
    #[must_use]
    pub fn limit(self) -> u32 {
        self.warm.midpoint(self.cold).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and second loads of 512 lines; each takes up to so much longer than its number.
    fn loads(first: (u32, u32), again: (u32, u32)) -> Vec<(u32, u32)> {
        let mixed = |n: u32| (n ^ n >> 15).wrapping_mul(0x2c1b_3c6d);
        let draw = |n: u32| mixed(mixed(n.wrapping_mul(0x9e37_79b9))) >> 12;
        let noisy = |(least, noise): (u32, u32), n: u32| least + draw(n) % (noise + 1);
        (0..512).map(|n| (noisy(first, n), noisy(again, n + 7_919))).collect()
    }

    fn judged(warm: &[(u32, u32)], cold: &[(u32, u32)]) -> Calibration {
        let beyond = |all: &[(u32, u32)]| all.iter().map(|(a, b)| beyond(*a, *b)).collect();
        Calibration::new(beyond(warm), beyond(cold))
    }

    /// An older EPYC as a guest with nested paging: a plain load takes 90 ticks cached and 428
    /// flushed, but in the server each load stands in a system call of 765 ticks. The quick tenth
    /// of what was flushed takes 1057, less than half more than 855.
    #[test]
    fn loads_in_slow_system_calls_are_told_by_differences() {
        let (cached, flushed) = ((845, 20), (1_035, 220));
        let (warm, cold) = (loads(cached, cached), loads(flushed, cached));
        let rank = |all: &[(u32, u32)], part: usize| {
            let mut firsts: Vec<u32> = all.iter().map(|(first, _)| *first).collect();
            firsts.sort_unstable();
            firsts[firsts.len() / part]
        };
        let (plain_warm, plain_cold) = (rank(&warm, 2), rank(&cold, 10));
        assert!((854..=856).contains(&plain_warm), "{plain_warm}");
        assert!((1_052..=1_062).contains(&plain_cold), "{plain_cold}");
        assert!(plain_cold < plain_warm + plain_warm / 2, "times alone do not tell them");
        let told = judged(&warm, &cold);
        assert!(told.is_clear(), "{told:?}");
        assert!(told.warm < told.limit() && told.limit() < told.cold, "{told:?}");
    }

    #[test]
    fn plain_loads_are_told() {
        let cached = (85, 10);
        let told = judged(&loads(cached, cached), &loads((400, 60), cached));
        assert!(told.is_clear(), "{told:?}");
        assert!((100..300).contains(&told.limit()), "{told:?}");
    }

    #[test]
    fn what_does_not_differ_is_refused() {
        for noise in [0, 1, 20, 400] {
            let all = loads((855, noise), (855, noise));
            let same = judged(&all, &all);
            assert!(!same.is_clear(), "noise {noise}: {same:?}");
        }
        let cached = loads((85, 10), (85, 10));
        // Emptied caches that were not emptied: one line in five is slow.
        let mut few = cached.clone();
        few.iter_mut().step_by(5).for_each(|(first, _)| *first += 338);
        assert!(!judged(&cached, &few).is_clear());
        // A clock of 279 ns: a load is one tick or none.
        let coarse = |n: u32| (n % 3 / 2 * 279, 0);
        let (warm, cold): (Vec<_>, Vec<_>) = (0..512).map(|n| (coarse(n), coarse(n + 1))).unzip();
        assert!(!judged(&warm, &cold).is_clear());
        // Noise as large as what memory takes.
        assert!(!judged(&loads((90, 600), (90, 600)), &loads((428, 600), (90, 600))).is_clear());
        assert!(!Calibration::new(vec![], vec![]).is_clear());
    }

    #[test]
    fn loads_that_fail_are_never_quick() {
        assert_eq!(beyond(u32::MAX, 90), u32::MAX);
        assert_eq!(beyond(90, u32::MAX), 0);
        let nothing = Calibration::new(vec![u32::MAX; 9], vec![u32::MAX; 9]);
        assert!(!nothing.is_clear());
    }
}
