//! Sizes of files: a Pareto distribution between two bounds.

use super::Error;

/// Bounded Pareto: few files are large, and those hold most of the bytes (Niccolini 2012, Fig 3.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedPareto {
    least: f64,
    most: f64,
    shape: f64,
}

impl BoundedPareto {
    /// Bounds in bytes, and the shape.
    ///
    /// # Errors
    /// Bounds do not ascend from 1, or the shape is not a number other than 0.
    pub fn new(least: f64, most: f64, shape: f64) -> Result<BoundedPareto, Error> {
        let ascend = 1.0 <= least && least < most && most <= 1e12;
        if !(ascend && (-50.0..=50.0).contains(&shape)) {
            return Err(Error::input(format!(
                "sizes from {least} to {most} of shape {shape}: expected 1 or more, ascending"
            )));
        }
        // At a shape of 0 the formulas divide by it; the distribution itself is continuous there.
        let shape = if shape.abs() < 1e-9 { 1e-9 } else { shape };
        Ok(BoundedPareto { least, most, shape })
    }

    /// The one with this mean: the shape is searched for. 6 kB to 1.4 MB of 40 kB have 0.893.
    ///
    /// # Errors
    /// Bounds do not ascend, or the mean lies too near to a bound.
    pub fn of_mean(least: f64, most: f64, mean: f64) -> Result<BoundedPareto, Error> {
        let at = |shape| BoundedPareto::new(least, most, shape);
        let (mut low, mut high) = (at(-50.0)?, at(50.0)?);
        if !(high.mean() < mean && mean < low.mean()) {
            return Err(Error::input(format!(
                "a mean of {mean} bytes: expected one between {:.0} and {:.0}",
                high.mean(),
                low.mean()
            )));
        }
        // The larger the shape, the smaller the mean.
        for _ in 0..200 {
            let middle = at((low.shape + high.shape) / 2.0)?;
            if middle.mean() > mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(high)
    }

    /// Exponent of the tail: the smaller, the heavier.
    #[must_use]
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// Returns the mean, in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.moment(1.0)
    }

    /// Standard deviation over mean.
    #[must_use]
    pub fn variation(&self) -> f64 {
        (self.moment(2.0) / self.mean().powi(2) - 1.0).max(0.0).sqrt()
    }

    fn moment(&self, k: f64) -> f64 {
        let (l, h, a) = (self.least, self.most, self.shape);
        // a L^a / (1 - (L/H)^a) times the integral of x^(k-a-1), in powers of H / L, which stay
        // finite.
        let ratio = h / l;
        let integral =
            if (k - a).abs() < 1e-9 { ratio.ln() } else { (ratio.powf(k - a) - 1.0) / (k - a) };
        a * l.powf(k) * integral / (1.0 - ratio.powf(-a))
    }

    /// The size that a share `u` (0 to 1) of all do not exceed, in bytes.
    #[must_use]
    pub fn quantile(&self, u: f64) -> f64 {
        // (L^-a - u (L^-a - H^-a))^(-1/a), in terms of H / L.
        let (l, a) = (self.least, self.shape);
        let share = 1.0 - u * (1.0 - (self.most / l).powf(-a));
        (l * share.powf(-1.0 / a)).clamp(l, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_engine::stream;
    use rand::RngExt;

    #[test]
    fn bounded_pareto_has_moments_of_thesis() {
        let sizes = BoundedPareto::of_mean(6e3, 1.4e6, 40e3).unwrap();
        assert!((sizes.shape() - 0.893).abs() < 5e-4, "{}", sizes.shape());
        assert!((sizes.mean() - 40e3).abs() < 1e-3, "{}", sizes.mean());
        assert!((sizes.quantile(0.5) / 12.9e3 - 1.0).abs() < 0.005, "{}", sizes.quantile(0.5));
        assert!((sizes.quantile(0.99) / 554e3 - 1.0).abs() < 0.005, "{}", sizes.quantile(0.99));
        assert!((sizes.variation() - 2.6).abs() < 0.06, "{}", sizes.variation());
        assert_eq!(sizes.quantile(0.0), 6e3);
        assert!((sizes.quantile(1.0) - 1.4e6).abs() < 1e-6);
    }

    #[test]
    fn what_is_drawn_has_the_mean_and_the_quantiles() {
        for (least, most, mean) in [(6e3, 1.4e6, 40e3), (100.0, 1000.0, 700.0), (1.0, 3.0, 2.0)] {
            let sizes = BoundedPareto::of_mean(least, most, mean).unwrap();
            let mut random = stream(1, "sizes");
            let drawn: Vec<f64> =
                (0..400_000).map(|_| sizes.quantile(random.random::<f64>())).collect();
            let found = drawn.iter().sum::<f64>() / drawn.len() as f64;
            // Four standard errors.
            let error = 4.0 * sizes.variation() * mean / (drawn.len() as f64).sqrt();
            assert!((found - mean).abs() < error, "{found} for {mean}");
            for q in [0.1, 0.5, 0.9, 0.99] {
                let below = drawn.iter().filter(|&&x| x <= sizes.quantile(q)).count();
                let share = below as f64 / drawn.len() as f64;
                assert!((share - q).abs() < 0.004, "{share} for {q}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (least, most, mean) in
            [(0.0, 10.0, 5.0), (10.0, 10.0, 10.0), (1.0, f64::NAN, 2.0), (1.0, 10.0, 10.0)]
        {
            assert!(BoundedPareto::of_mean(least, most, mean).is_err(), "{least} {most} {mean}");
        }
    }
}
