//! The time-stamp counter as a clock.

use core::arch::x86_64::{_mm_lfence, _rdtsc};
use std::time::{Duration, Instant};

/// The counter now. What comes before it in the program may still be under way.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { _rdtsc() }
}

/// The counter once everything before is done: for measuring single operations.
#[inline(always)]
#[must_use]
pub fn ticks_fenced() -> u64 {
    // SAFETY: every x86-64 has both instructions.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Duration of a tick: `ps = ticks * multiplier >> 20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

impl Rate {
    /// Compares the counter with the kernel's monotonic clock for 20 ms, and takes the best of
    /// five.
    #[must_use]
    pub fn measure() -> Rate {
        let mut best = (u64::MAX, 0);
        for _ in 0..5 {
            let (t0, c0) = (Instant::now(), ticks());
            std::thread::sleep(Duration::from_millis(4));
            let (c1, ns, c2) = (ticks(), t0.elapsed().as_nanos() as u64, ticks());
            // The shorter it took to read both clocks, the better they belong together.
            if c2 - c1 < best.0 {
                let ps = u128::from(ns) * 1_000;
                best = (c2 - c1, ((ps << 20) / u128::from((c1 - c0).max(1))) as u64);
            }
        }
        Rate(best.1.max(1))
    }

    /// Picoseconds of so many ticks.
    #[inline]
    #[must_use]
    pub const fn ps(self, ticks: u64) -> u64 {
        ((ticks as u128 * self.0 as u128) >> 20) as u64
    }

    /// Returns the ticks of a nanosecond.
    #[must_use]
    pub fn ghz(self) -> f64 {
        1e12 / self.ps(1_000_000_000) as f64
    }

    /// Nanoseconds of so many ticks, rounded down.
    #[inline]
    #[must_use]
    pub const fn ns(self, ticks: u64) -> u64 {
        self.ps(ticks) / 1_000
    }

    /// Ticks of so many nanoseconds.
    #[must_use]
    pub const fn ticks(self, ns: u64) -> u64 {
        (((ns as u128 * 1_000) << 20) / self.0 as u128) as u64
    }
}

/// Returns whether the counter runs at a constant rate in all states of the core.
#[must_use]
pub fn is_constant() -> bool {
    // CPUID 8000_0007h, EDX bit 8: invariant TSC.
    let highest = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    let invariant =
        highest >= 0x8000_0007 && core::arch::x86_64::__cpuid(0x8000_0007).edx >> 8 & 1 == 1;
    invariant || std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|name| name.trim() == "tsc")
}

/// File with the clock source that the kernel uses.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_kernel() {
        // Another program may have the CPU between two looks at the clocks: not each time.
        let mut found = Vec::new();
        let agrees = (0..20).any(|_| {
            let rate = Rate::measure();
            let (t, c) = (Instant::now(), ticks());
            std::thread::sleep(Duration::from_millis(30));
            let (ns, ticks) = (t.elapsed().as_nanos() as u64, ticks() - c);
            found.push((rate.ns(ticks), ns));
            rate.ns(ticks).abs_diff(ns) < ns / 50
        });
        assert!(agrees, "{found:?}");
        let rate = Rate::measure();
        assert!(rate.ticks(rate.ns(1_000_000)).abs_diff(1_000_000) < 10);
    }

    #[test]
    fn a_tick_of_half_a_nanosecond_is_two_gigahertz() {
        let rate = Rate(500 << 20);
        assert_eq!((rate.ps(4), rate.ghz()), (2_000, 2.0));
    }
}
