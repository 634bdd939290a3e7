//! How well power follows load.
//!
//! ```text
//!   power / peak  1 ┤            ╱   A: area below the curve, loads from 0 to 1
//!                   │   curve ╱╱
//!          idle ────┤  ╱ ╱   ╱       linear deviation: A over that of the line from idle to peak
//!                   │   ╱ ideal      proportionality gap: curve - ideal, at each load
//!                 0 └───────────
//!                   0    load    1
//! ```
//!
//! Definitions after Wong, Annavaram, "KnightShift: Scaling the Energy Proportionality Wall Through
//! Server-Level Heterogeneity" (MICRO 2012, Sec 2), and, of EP, Ryckbosch, Polfliet, Eeckhout,
//! "Trends in Server Energy Proportionality" (IEEE Computer 44(9), 2011). Between points of a curve
//! lie lines.

/// A curve that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// The curve has too few points.
    #[error("{found} points, expected two or more")]
    Few {
        /// Number of points.
        found: usize,
    },
    /// The first load is not zero.
    #[error("the first load is {found}, expected 0: the power of an idle server")]
    NotIdle {
        /// Value that was found.
        found: f64,
    },
    /// A load is not above the one before it.
    #[error("point {point}: a load of {found}, expected above {after}")]
    Order {
        /// Number of the point, from 0.
        point: usize,
        /// Load of the point.
        found: f64,
        /// The one before it.
        after: f64,
    },
    /// A power is negative or not a number, or that of the highest load is zero.
    #[error("point {point}: {found} W, expected {expected}")]
    Power {
        /// Number of the point, from 0.
        point: usize,
        /// Power of the point, in watts.
        found: f64,
        /// Values that are allowed.
        expected: &'static str,
    },
}

/// Power against load, both over their peak.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<(f64, f64)>,
    peak_w: f64,
}

impl Curve {
    /// Creates a curve from (load, power in watts), by rising load from 0 in any unit. The highest
    /// load is the peak, and its power the peak power, which other points may exceed.
    ///
    /// # Errors
    ///
    /// The points are too few or out of range or order.
    pub fn new(points: &[(f64, f64)]) -> Result<Curve, CurveError> {
        let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
            return Err(CurveError::Few { found: 0 });
        };
        if points.len() < 2 {
            return Err(CurveError::Few { found: points.len() });
        }
        // All measures begin at the idle power; a line drawn on from two other loads would invent
        // it.
        if first.0 != 0.0 {
            return Err(CurveError::NotIdle { found: first.0 });
        }
        for (n, pair) in points.windows(2).enumerate() {
            let (after, found) = (pair[0].0, pair[1].0);
            let rises = found > after && found.is_finite();
            if !rises {
                return Err(CurveError::Order { point: n + 1, found, after });
            }
        }
        for (point, &(_, found)) in points.iter().enumerate() {
            if !(0.0..f64::INFINITY).contains(&found) {
                return Err(CurveError::Power { point, found, expected: "0 or more" });
            }
        }
        if last.1 == 0.0 {
            let point = points.len() - 1;
            return Err(CurveError::Power { point, found: 0.0, expected: "more than 0" });
        }
        let points = points.iter().map(|&(load, w)| (load / last.0, w / last.1)).collect();
        Ok(Curve { points, peak_w: last.1 })
    }

    /// Power at the highest load, in watts.
    #[must_use]
    pub fn peak_w(&self) -> f64 {
        self.peak_w
    }

    /// Power over peak power at a load of 0 to 1.
    #[must_use]
    pub fn at(&self, load: f64) -> f64 {
        let next = self.points.partition_point(|p| p.0 < load).clamp(1, self.points.len() - 1);
        let ((x0, y0), (x1, y1)) = (self.points[next - 1], self.points[next]);
        y0 + (y1 - y0) * ((load - x0) / (x1 - x0)).clamp(0.0, 1.0)
    }

    /// Mean power over peak power, all loads being as frequent: the area below the curve.
    #[must_use]
    pub fn area(&self) -> f64 {
        self.points.windows(2).map(|w| (w[1].0 - w[0].0) * 0.5 * (w[0].1 + w[1].1)).sum()
    }

    /// IPR: idle power over peak power; 0 for a proportional server.
    #[must_use]
    pub fn idle_to_peak(&self) -> f64 {
        self.points[0].1
    }

    /// DR: (peak - idle) / peak power; 1 for a proportional server.
    #[must_use]
    pub fn dynamic_range(&self) -> f64 {
        1.0 - self.idle_to_peak()
    }

    /// LD: area below the curve over that below the line from idle to peak, less 1. Above 0: power
    /// rises early; below 0: late.
    #[must_use]
    pub fn linear_deviation(&self) -> f64 {
        self.area() / (0.5 * (1.0 + self.idle_to_peak())) - 1.0
    }

    /// PG: power beyond that of a proportional server, over peak power, at a load of 0 to 1.
    #[must_use]
    pub fn gap(&self, load: f64) -> f64 {
        self.at(load) - load
    }

    /// Mean of the gap over all loads: half of 1 - EP.
    #[must_use]
    pub fn mean_gap(&self) -> f64 {
        self.area() - 0.5
    }

    /// EP: 1 less the area between the curve and the ideal over that below the ideal. 1 for a
    /// proportional server, 0 for one of constant power; also 2 - (2 - DR)(1 + LD).
    #[must_use]
    pub fn energy_proportionality(&self) -> f64 {
        2.0 - 2.0 * self.area()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn straight_curve_is_proportional_up_to_its_idle_power() {
        let ideal = Curve::new(&[(0.0, 0.0), (80.0, 200.0)]).unwrap();
        near(ideal.energy_proportionality(), 1.0);
        near(ideal.linear_deviation(), 0.0);
        near(ideal.gap(0.3), 0.0);
        near(ideal.peak_w(), 200.0);
        let flat = Curve::new(&[(0.0, 50.0), (1.0, 50.0)]).unwrap();
        near(flat.energy_proportionality(), 0.0);
        near(flat.dynamic_range(), 0.0);
        near(flat.gap(0.1), 0.9);
        // 228 W idle, 268 W peak: the prototype of Niccolini 2012, Sec 3.1.1.
        let prototype = Curve::new(&[(0.0, 228.0), (1.0, 268.0)]).unwrap();
        near(prototype.dynamic_range(), 40.0 / 268.0);
        near(prototype.energy_proportionality(), 40.0 / 268.0);
        near(prototype.mean_gap(), 0.5 * 228.0 / 268.0);
    }

    #[test]
    fn bent_curve_has_the_area_of_its_parts() {
        // A knight serves half of the loads at 10 W: 10 W until 0.5, then 60 to 100 W.
        let shift = [(0.0, 10.0), (0.5, 10.0), (0.5 + 1e-12, 60.0), (1.0, 100.0)];
        let hybrid = Curve::new(&shift).unwrap();
        let area = 0.5 * 0.1 + 0.5 * 0.8;
        assert!((hybrid.area() - area).abs() < 1e-9);
        assert!((hybrid.linear_deviation() - (area / 0.55 - 1.0)).abs() < 1e-9);
        assert!((hybrid.energy_proportionality() - (2.0 - 2.0 * area)).abs() < 1e-9);
        near(hybrid.gap(0.25), 0.1 - 0.25);
        near(hybrid.at(1.0), 1.0);
        // Wong and Annavaram's relation between the three.
        let (dr, ld) = (hybrid.dynamic_range(), hybrid.linear_deviation());
        near(hybrid.energy_proportionality(), 2.0 - (2.0 - dr) * (1.0 + ld));
    }

    #[test]
    fn curves_that_cannot_be() {
        let wrong: [&[(f64, f64)]; 7] = [
            &[],
            &[(0.0, 1.0)],
            &[(0.1, 1.0), (1.0, 2.0)],
            &[(0.0, 1.0), (0.0, 2.0)],
            &[(0.0, 1.0), (f64::NAN, 2.0)],
            &[(0.0, -1.0), (1.0, 2.0)],
            &[(0.0, 0.0), (1.0, 0.0)],
        ];
        let errors: Vec<String> =
            wrong.iter().map(|points| Curve::new(points).unwrap_err().to_string()).collect();
        insta::assert_snapshot!(errors.join("\n"), @r"
        0 points, expected two or more
        1 points, expected two or more
        the first load is 0.1, expected 0: the power of an idle server
        point 1: a load of 0, expected above 0
        point 1: a load of NaN, expected above 0
        point 0: -1 W, expected 0 or more
        point 1: 0 W, expected more than 0
        ");
    }
}
