//! Sizes with a heavy tail that ends.

/// A Pareto distribution between two values (Harchol-Balter, Ch. 10).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedPareto {
    /// Least value, above 0.
    pub min: f64,
    /// Largest value, the upper bound.
    pub max: f64,
    /// Shape: the smaller, the heavier the tail.
    pub shape: f64,
}

impl BoundedPareto {
    /// Share of values that are not cut off by the largest one.
    fn mass(&self) -> f64 {
        1.0 - (self.min / self.max).powf(self.shape)
    }

    /// Mean of the value to this power.
    #[must_use]
    pub fn moment(&self, power: f64) -> f64 {
        let BoundedPareto { min, max, shape } = *self;
        let rest = power - shape;
        let ratio = (max / min).ln();
        // Integral of x^(rest-1) from min to max, over min^rest; ln where rest is 0.
        let area =
            if (rest * ratio).abs() < 1e-12 { ratio } else { (rest * ratio).exp_m1() / rest };
        shape * min.powf(power) * area / self.mass()
    }

    /// Returns the mean, in the unit of the bounds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.moment(1.0)
    }

    /// Standard deviation over mean.
    #[must_use]
    pub fn variation(&self) -> f64 {
        (self.moment(2.0) / self.mean().powi(2) - 1.0).max(0.0).sqrt()
    }

    /// The value that this share, 0 to 1, does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        self.min * (1.0 - share * self.mass()).powf(-1.0 / self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_pareto_moments_equal_hand_values() {
        // Shape 1 on [1, 2]: density 2 / x^2.
        let one = BoundedPareto { min: 1.0, max: 2.0, shape: 1.0 };
        assert!((one.mean() - 2.0 * 2f64.ln()).abs() < 1e-12);
        assert!((one.moment(2.0) - 2.0).abs() < 1e-12);
        assert!((one.moment(0.0) - 1.0).abs() < 1e-12);
        assert!((one.quantile(0.5) - 4.0 / 3.0).abs() < 1e-12);
        // Shape 2 on [1, 2]: density 8/3 / x^3, so E[x^2] = 8/3 ln 2.
        let two = BoundedPareto { shape: 2.0, ..one };
        assert!((two.mean() - 4.0 / 3.0).abs() < 1e-12);
        assert!((two.moment(2.0) - 8.0 / 3.0 * 2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_wikipedia_data_set() {
        // Niccolini 2012, Sec 3.1.2: 6 KB to 1.4 MB, 10 GB of 250,000 files.
        let files = BoundedPareto { min: 6.0, max: 1400.0, shape: 0.893 };
        assert!((files.mean() - 40.0).abs() < 0.1, "{}", files.mean());
        assert!((files.variation() - 2.6).abs() < 0.1, "{}", files.variation());
        assert!((files.quantile(0.5) - 12.9).abs() < 0.1);
        assert!((files.quantile(0.99) - 554.0).abs() < 2.0);
        assert!((files.quantile(1.0) - 1400.0).abs() < 1e-6);
    }
}
