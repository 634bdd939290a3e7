//! Bounds on how often a machine sleeps, whatever the policy wants: starts wear out disks and fans,
//! and a policy without hysteresis asks for one with each burst.

use halfwink_units::Time;

const DAY: Time = Time(86_400_000_000_000_000);

/// Bounds on the sleeps of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Least time awake between two sleeps.
    pub least_awake: Time,
    /// Sleeps in a day, at most.
    pub per_day: Option<u32>,
}

/// Budget of sleeps: full at the start, refilled evenly over a day (GCRA, ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// Time at which it is full again.
    full: Time,
}

impl Rest {
    /// Returns the earliest time of the next sleep of a machine that woke at `awake`.
    #[must_use]
    pub fn earliest(&self, awake: Time, budget: Budget) -> Time {
        let spare = self.per_day.map_or(Time::NEVER, |n| Time(DAY.0 - DAY.0 / u64::from(n.max(1))));
        Time(budget.full.0.saturating_sub(spare.0)).max(awake + self.least_awake)
    }

    /// Takes a sleep from the budget.
    pub fn take(&self, budget: &mut Budget, now: Time) {
        if let Some(n) = self.per_day {
            budget.full = budget.full.max(now) + Time(DAY.0 / u64::from(n.max(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Time = Time(3_600_000_000_000_000);

    #[test]
    fn a_budget_is_spent_at_once_and_refilled_over_a_day() {
        let rest = Rest { per_day: Some(4), ..Rest::default() };
        let mut budget = Budget::default();
        for _ in 0..4 {
            assert_eq!(rest.earliest(Time::ZERO, budget), Time::ZERO);
            rest.take(&mut budget, Time::ZERO);
        }
        let mut now = Time::ZERO;
        for n in 1..=8 {
            now = rest.earliest(Time::ZERO, budget);
            assert_eq!(now, Time(6 * n * HOUR.0), "one each six hours");
            rest.take(&mut budget, now);
        }
        // Unspent for two days, it is full, and no fuller.
        now += Time(2 * DAY.0);
        for _ in 0..4 {
            assert!(rest.earliest(Time::ZERO, budget) <= now);
            rest.take(&mut budget, now);
        }
        assert_eq!(rest.earliest(Time::ZERO, budget), now + Time(6 * HOUR.0));
    }

    #[test]
    fn a_machine_stays_awake_for_a_while() {
        let rest = Rest { least_awake: HOUR, per_day: None };
        let mut budget = Budget::default();
        rest.take(&mut budget, HOUR);
        assert_eq!(rest.earliest(Time(5 * HOUR.0), budget), Time(6 * HOUR.0));
        assert_eq!(Rest::default().earliest(Time::ZERO, budget), Time::ZERO);
    }
}
