//! Who gets how much power, and how fast that is.

use super::server::Pace;

/// Effect of a lower frequency on a request's finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The request finishes earlier, as `BigHouse`'s source has it.
    Published,
    /// The request finishes later.
    Slower,
}

/// A cap over all servers, in watts for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Watts that each server may draw on the mean.
    pub cap_w: f64,
    /// Part of the power that is not divided.
    pub floor_w: f64,
    /// Power that a server is assumed to draw at most when its speed is set.
    pub rated_w: f64,
    /// Part of that power that follows the cube of its speed.
    pub scaled_w: f64,
    /// The lowest speed, as a share of full speed.
    pub slowest: f64,
    /// Share of a request's time that follows frequency.
    pub bound: f64,
    /// Effect of speed on requests.
    pub rule: Rule,
}

impl Budget {
    /// The constants of `PowerCappingExperiment`, `Server` and `Core`.
    #[must_use]
    pub const fn bighouse(rule: Rule) -> Budget {
        Budget {
            cap_w: 65.0,
            floor_w: 59.0,
            rated_w: 100.0,
            scaled_w: 25.0,
            slowest: 0.5,
            bound: 0.9,
            rule,
        }
    }

    /// Watts for each unit of use, where `used` is the sum of all servers' shares of busy cores.
    pub(super) fn rate_w(&self, servers: usize, used: f64) -> f64 {
        // What `BigHouse` has: without use there is nothing to divide by, and all shares are 0
        // whatever the rate.
        if used == 0.0 {
            return 1.0;
        }
        (self.cap_w - self.floor_w) * servers as f64 / used
    }

    /// Speed of a server that may draw so much.
    #[must_use]
    pub fn speed(&self, allowed_w: f64) -> f64 {
        let fixed = self.rated_w - self.scaled_w;
        // Clamped before the root: below the fixed part the cube is negative, and more than the
        // rated power makes no core faster.
        let cube = ((allowed_w - fixed) / self.scaled_w).clamp(0.0, 1.0);
        cube.cbrt().max(self.slowest)
    }

    pub(super) fn pace(&self, speed: f64) -> Pace {
        let factor = (1.0 - self.bound) + self.bound / speed;
        match self.rule {
            // The published plan divides where it should multiply; the work done is counted alike
            // under both rules.
            Rule::Published => Pace { span: 1.0 / factor, credit: 1.0 / factor },
            Rule::Slower => Pace { span: factor, credit: 1.0 / factor },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_the_cube_root_of_what_is_above_the_fixed_part() {
        let budget = Budget::bighouse(Rule::Slower);
        assert_eq!(budget.speed(74.0), 0.5);
        assert_eq!(budget.speed(75.0 + 25.0 / 8.0), 0.5);
        assert!((budget.speed(75.0 + 25.0 * 0.729) - 0.9).abs() < 1e-12);
        assert_eq!(budget.speed(120.0), 1.0);
    }

    #[test]
    fn half_speed_makes_requests_longer_by_nine_tenths_or_as_much_shorter() {
        let slower = Budget::bighouse(Rule::Slower).pace(0.5);
        assert!((slower.span - 1.9).abs() < 1e-12 && (slower.credit * 1.9 - 1.0).abs() < 1e-12);
        let published = Budget::bighouse(Rule::Published).pace(0.5);
        assert!((published.span * 1.9 - 1.0).abs() < 1e-12);
        assert_eq!(Budget::bighouse(Rule::Published).pace(1.0), Pace::FULL);
    }
}
