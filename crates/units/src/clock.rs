use crate::Time;

/// A count of clock cycles of one component since the start of the run.
pub type Cycle = u64;

/// A clock of constant frequency whose edges fall on exact rational times.
///
/// Edge `k` is at `floor(k * period)` picoseconds, with the period kept as a fraction, so that a
/// 3.3 GHz clock (303.03.. ps) does not drift against the picosecond grid however long the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    period_num: u64,
    period_den: u64,
}

impl Clock {
    /// A clock of `hz` hertz; `None` for zero and for more than 1 THz (periods below 1 ps).
    #[must_use]
    pub fn from_hz(hz: u64) -> Option<Clock> {
        const PS_PER_S: u64 = 1_000_000_000_000;
        if hz == 0 || hz > PS_PER_S {
            return None;
        }
        let divisor = gcd(PS_PER_S, hz);
        Some(Clock { period_num: PS_PER_S / divisor, period_den: hz / divisor })
    }

    /// Time of the edge that starts cycle `cycle`.
    #[must_use]
    pub fn time_of(self, cycle: Cycle) -> Time {
        match cycle.checked_mul(self.period_num) {
            Some(product) => Time(product / self.period_den),
            None => {
                let wide = u128::from(cycle) * u128::from(self.period_num);
                Time((wide / u128::from(self.period_den)) as u64)
            }
        }
    }

    /// The first cycle that starts at or after `time`.
    #[must_use]
    pub fn cycle_at_or_after(self, time: Time) -> Cycle {
        // `time_of(k) = floor(k n / d) >= t`  <=>  `k n / d >= t`  <=>  `k >= t d / n`, t integer.
        match time.0.checked_mul(self.period_den) {
            Some(product) => product.div_ceil(self.period_num),
            None => {
                let wide = u128::from(time.0) * u128::from(self.period_den);
                wide.div_ceil(u128::from(self.period_num)) as u64
            }
        }
    }

    /// The fewest cycles that last at least `span`: how a latency in nanoseconds becomes cycles.
    #[must_use]
    pub fn cycles_covering(self, span: Time) -> Cycle {
        self.cycle_at_or_after(span)
    }

    /// Returns the frequency in hertz.
    #[must_use]
    pub fn hz(self) -> f64 {
        1e12 * self.period_den as f64 / self.period_num as f64
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_frequency_does_not_drift() {
        let ev6 = Clock::from_hz(3_300_000_000).unwrap();
        assert_eq!(ev6.time_of(0), Time(0));
        assert_eq!(ev6.time_of(1), Time(303));
        assert_eq!(ev6.time_of(33), Time(10_000));
        // One hour of cycles lands on the hour exactly.
        assert_eq!(ev6.time_of(3_300_000_000 * 3_600), Time(3_600 * 1_000_000_000_000));
    }

    #[test]
    fn cycle_at_or_after_inverts_time_of() {
        for hz in [2_000_000_000, 3_300_000_000, 750_000_000, 666_666_667] {
            let clock = Clock::from_hz(hz).unwrap();
            for cycle in (0..2_000).chain(1 << 40..(1 << 40) + 100) {
                let edge = clock.time_of(cycle);
                assert_eq!(clock.cycle_at_or_after(edge), cycle, "{hz} Hz, edge {edge}");
                assert_eq!(clock.cycle_at_or_after(Time(edge.0 + 1)), cycle + 1);
            }
        }
    }

    #[test]
    fn ten_cycles_at_3_3_ghz_are_3_03_ns() {
        // Strong 2013, Sec 2.3.6: the EV6 restore sequence.
        let ev6 = Clock::from_hz(3_300_000_000).unwrap();
        assert_eq!(ev6.time_of(10), Time(3_030));
    }

    #[test]
    fn the_fastest_clock_ticks_every_picosecond() {
        let clock = Clock::from_hz(1_000_000_000_000).unwrap();
        assert_eq!((clock.time_of(1), clock.time_of(7)), (Time(1), Time(7)));
        assert_eq!(clock.cycle_at_or_after(Time(5)), 5);
        assert!((clock.hz() - 1e12).abs() < 1e-3);
    }

    #[test]
    fn impossible_clocks_are_refused() {
        assert_eq!(Clock::from_hz(0), None);
        assert_eq!(Clock::from_hz(1_000_000_000_001), None);
    }
}
