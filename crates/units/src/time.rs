use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// A point in simulated time, or a span of it, in whole picoseconds.
///
/// `u64` picoseconds last for 213 days, far beyond any run here.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(pub u64);

impl Time {
    /// The start of every run.
    pub const ZERO: Time = Time(0);
    /// Later than anything: "no event".
    pub const NEVER: Time = Time(u64::MAX);

    /// Converts from nanoseconds, rounded to the nearest picosecond. Negative and NaN values become
    /// zero.
    #[must_use]
    pub fn from_ns(ns: f64) -> Time {
        // `as` saturates, and maps NaN to zero.
        Time((ns * 1e3 + 0.5) as u64)
    }

    /// Converts from whole nanoseconds, without rounding.
    #[must_use]
    pub const fn ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }

    /// Returns the time in picoseconds.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns the time in nanoseconds, for reports.
    #[must_use]
    pub fn as_ns(self) -> f64 {
        self.0 as f64 * 1e-3
    }

    /// Returns the time in seconds, for reports.
    #[must_use]
    pub fn as_s(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// `self - other`, or zero if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }

    /// `self + other`, or [`Time::NEVER`] past the end of time.
    #[must_use]
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }

    /// `self - other`, or `None` if `other` is later.
    #[must_use]
    pub const fn checked_sub(self, other: Time) -> Option<Time> {
        match self.0.checked_sub(other.0) {
            Some(t) => Some(Time(t)),
            None => None,
        }
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl SubAssign for Time {
    fn sub_assign(&mut self, other: Time) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, n: u64) -> Time {
        Time(self.0 * n)
    }
}

impl fmt::Display for Time {
    /// The shortest of ps, ns, us, ms, s that keeps the number above one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0;
        let (value, unit) = match ps {
            0..=999 => return write!(f, "{ps} ps"),
            1_000..=999_999 => (ps as f64 / 1e3, "ns"),
            1_000_000..=999_999_999 => (ps as f64 / 1e6, "us"),
            1_000_000_000..=999_999_999_999 => (ps as f64 / 1e9, "ms"),
            _ => (ps as f64 / 1e12, "s"),
        };
        match f.precision() {
            Some(digits) => write!(f, "{value:.digits$} {unit}"),
            None => write!(f, "{value} {unit}"),
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Time::NEVER {
            return f.write_str("never");
        }
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    #[test]
    fn nanoseconds_round_to_the_nearest_picosecond() {
        assert_eq!(Time::from_ns(10.2), Time(10_200));
        assert_eq!(Time::from_ns(0.0004), Time(0));
        assert_eq!(Time::from_ns(0.0006), Time(1));
        assert_eq!(Time::from_ns(-1.0), Time::ZERO);
        assert_eq!(Time::from_ns(f64::NAN), Time::ZERO);
    }

    #[test]
    fn units_change_at_their_thousands() {
        for (ps, shown) in [
            (1_000, "1.0 ns"),
            (999_900, "999.9 ns"),
            (1_000_000, "1.0 us"),
            (999_900_000, "999.9 us"),
            (1_000_000_000, "1.0 ms"),
            (999_900_000_000, "999.9 ms"),
            (1_000_000_000_000, "1.0 s"),
        ] {
            assert_eq!(format!("{:.1}", Time(ps)), shown);
        }
        assert_eq!(format!("{:.1}", Time(999)), "999 ps");
    }

    #[test]
    fn prints_in_the_unit_that_fits() {
        assert_eq!(format!("{}", Time(999)), "999 ps");
        assert_eq!(format!("{}", Time(20_124_118_000)), "20.124118 ms");
        assert_eq!(format!("{:.1}", Time(17_170)), "17.2 ns");
        assert_eq!(format!("{:.2}", Time::ns(1_500)), "1.50 us");
        assert_eq!(format!("{:?}", Time::NEVER), "never");
    }
}
