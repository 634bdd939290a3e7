use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub};

use crate::Time;

/// Energy in whole attojoules (1e-18 J).
///
/// One microwatt for one picosecond is exactly one attojoule, so power times time and every sum of
/// it is exact, in any order. `u128` attojoules hold more than the sun.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Energy(pub u128);

impl Energy {
    /// Zero energy, the neutral value of sums.
    pub const ZERO: Energy = Energy(0);

    /// Converts from picojoules, rounded to the nearest attojoule. Negative and NaN values become
    /// zero.
    #[must_use]
    pub fn from_pj(pj: f64) -> Energy {
        Energy((pj * 1e6 + 0.5) as u128)
    }

    /// Returns the energy in joules, for reports.
    #[must_use]
    pub fn as_j(self) -> f64 {
        self.0 as f64 * 1e-18
    }

    /// `self - other`, or `None` if that were negative.
    #[must_use]
    pub fn checked_sub(self, other: Energy) -> Option<Energy> {
        self.0.checked_sub(other.0).map(Energy)
    }
}

/// Power in whole microwatts.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Power(pub u64);

impl Power {
    /// Zero power, the neutral value of sums.
    pub const ZERO: Power = Power(0);

    /// Converts from watts, rounded to the nearest microwatt. Negative and NaN values become zero.
    #[must_use]
    pub fn from_w(w: f64) -> Power {
        Power((w * 1e6 + 0.5) as u64)
    }

    /// Returns the power in watts, for reports.
    #[must_use]
    pub fn as_w(self) -> f64 {
        self.0 as f64 * 1e-6
    }
}

impl Add for Energy {
    type Output = Energy;
    fn add(self, other: Energy) -> Energy {
        Energy(self.0 + other.0)
    }
}

impl AddAssign for Energy {
    fn add_assign(&mut self, other: Energy) {
        self.0 += other.0;
    }
}

impl Sub for Energy {
    type Output = Energy;
    fn sub(self, other: Energy) -> Energy {
        Energy(self.0 - other.0)
    }
}

impl Sum for Energy {
    fn sum<I: Iterator<Item = Energy>>(items: I) -> Energy {
        items.fold(Energy::ZERO, Add::add)
    }
}

impl Mul<u64> for Energy {
    type Output = Energy;
    fn mul(self, n: u64) -> Energy {
        Energy(self.0 * u128::from(n))
    }
}

impl Mul<Time> for Power {
    type Output = Energy;
    /// Exact: 1 uW * 1 ps = 1 aJ.
    fn mul(self, span: Time) -> Energy {
        Energy(u128::from(self.0) * u128::from(span.0))
    }
}

impl Add for Power {
    type Output = Power;
    fn add(self, other: Power) -> Power {
        Power(self.0 + other.0)
    }
}

impl fmt::Debug for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} J", self.as_j())
    }
}

impl fmt::Debug for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} W", self.as_w())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watts_times_picoseconds_are_exact() {
        // EV6 leakage for the break-even time pays for the wake-up (Strong 2013, Table 2.3).
        let leakage = Power::from_w(0.916);
        assert_eq!(leakage * Time(1_000), Energy(916_000_000));
        assert_eq!(Energy::from_pj(15_358.0).as_j(), 15_358.0e-12);
    }

    #[test]
    fn sums_do_not_depend_on_the_order() {
        let parts = [Energy(1), Energy(u128::from(u64::MAX)), Energy(7)];
        let forward: Energy = parts.iter().copied().sum();
        let backward: Energy = parts.iter().rev().copied().sum();
        assert_eq!(forward, backward);
    }
}
