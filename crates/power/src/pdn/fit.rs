//! The safe wake-up equation and its coefficients (Strong 2013, Sec 2.2.3, Eq 2.1, Table 2.2).

use super::dense::{BandCholesky, Matrix};
use super::grid::Surroundings;

/// `T = T0 (w + beta x + gamma y + delta z)^alpha`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equation {
    /// Coefficient `T0`, in nanoseconds.
    pub t0_ns: f64,
    /// Exponent of the equation.
    pub alpha: f64,
    /// Weight of cores that wake diagonally beside the critical one.
    pub beta: f64,
    /// Weight of others that wake.
    pub gamma: f64,
    /// Weight of edge cores.
    pub delta: f64,
}

/// Shortest safe wake-up of the circuit in given surroundings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Surroundings, as Eq 2.1 counts them.
    pub at: Surroundings,
    /// Shortest safe wake-up, in nanoseconds.
    pub wake_ns: f64,
    /// Sets of cores that this point stands for.
    pub weight: f64,
}

/// Coefficients that may move in a fit, in the order of [`Equation`].
pub type Free = [bool; 5];

/// A fitted equation and how well it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Coefficients that were fitted.
    pub equation: Equation,
    /// Coefficients that the points could tell: others stay as they were given.
    pub told: Free,
    /// Points, each set of cores counted.
    pub points: f64,
    /// Mean of the errors, each as a share of the circuit's value, in percent.
    pub error_mean_pct: f64,
    /// Largest error as a share of the circuit's value, in percent.
    pub error_max_pct: f64,
    /// Largest error, in nanoseconds.
    pub error_max_ns: f64,
}

/// Steps of the least-squares search, at most.
const STEPS: usize = 400;

impl Equation {
    /// Shortest safe wake-up, in nanoseconds (Eq 2.1).
    #[must_use]
    pub fn wake_ns(&self, at: Surroundings) -> f64 {
        self.t0_ns * self.sum(at).max(0.0).powf(self.alpha)
    }

    fn sum(&self, at: Surroundings) -> f64 {
        at.w as f64 + self.beta * at.x as f64 + self.gamma * at.y as f64 + self.delta * at.z as f64
    }

    fn coefficients(&self) -> [f64; 5] {
        [self.t0_ns, self.alpha, self.beta, self.gamma, self.delta]
    }

    fn of([t0_ns, alpha, beta, gamma, delta]: [f64; 5]) -> Equation {
        Equation { t0_ns, alpha, beta, gamma, delta }
    }

    /// Sum of squared logarithmic errors; infinite where the equation has no value.
    fn cost(&self, points: &[Point]) -> f64 {
        let error = |p: &Point| (self.wake_ns(p.at) / p.wake_ns).ln();
        let cost: f64 = points.iter().map(|p| p.weight * error(p) * error(p)).sum();
        if cost.is_finite() && self.t0_ns > 0.0 {
            cost
        } else {
            f64::INFINITY
        }
    }

    /// Derivatives of the logarithm by each coefficient.
    fn slopes(&self, at: Surroundings) -> [f64; 5] {
        let sum = self.sum(at);
        let by = |count: usize| self.alpha * count as f64 / sum;
        [1.0 / self.t0_ns, sum.ln(), by(at.x), by(at.y), by(at.z)]
    }
}

/// Least squares of relative errors (of the logarithms) from a first guess, by Levenberg and
/// Marquardt's method. `None` if there are no points.
#[must_use]
pub fn fit(points: &[Point], guess: Equation, free: Free) -> Option<Fit> {
    if points.is_empty() {
        return None;
    }
    let counts = [
        true,
        points.iter().any(|p| p.at != points[0].at),
        points.iter().any(|p| p.at.x > 0),
        points.iter().any(|p| p.at.y > 0),
        points.iter().any(|p| p.at.z > 0),
    ];
    let told: Free = std::array::from_fn(|n| free[n] && counts[n]);
    let mut equation = guess;
    let mut cost = equation.cost(points);
    let mut damping = 1e-3;
    for _ in 0..STEPS {
        let Some(next) = step(points, &equation, &told, damping) else { break };
        let next_cost = next.cost(points);
        if next_cost < cost {
            let settled = cost - next_cost < 1e-13 * cost;
            (equation, cost) = (next, next_cost);
            damping = (damping * 0.3).max(1e-12);
            if settled {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    Some(judge(points, equation, told))
}

/// Measures how well an equation fits.
#[must_use]
pub fn judge(points: &[Point], equation: Equation, told: Free) -> Fit {
    let weight: f64 = points.iter().map(|p| p.weight).sum();
    let error = |p: &Point| (equation.wake_ns(p.at) - p.wake_ns).abs();
    let share = |p: &Point| 100.0 * error(p) / p.wake_ns;
    Fit {
        equation,
        told,
        points: weight,
        error_mean_pct: points.iter().map(|p| p.weight * share(p)).sum::<f64>() / weight,
        error_max_pct: points.iter().map(share).fold(0.0, f64::max),
        error_max_ns: points.iter().map(error).fold(0.0, f64::max),
    }
}

fn step(points: &[Point], equation: &Equation, told: &Free, damping: f64) -> Option<Equation> {
    let moving: Vec<usize> = (0..5).filter(|&n| told[n]).collect();
    let mut normal = Matrix::zero(moving.len(), moving.len());
    let mut side = vec![0.0; moving.len()];
    for point in points {
        let slopes = equation.slopes(point.at);
        let error = (equation.wake_ns(point.at) / point.wake_ns).ln();
        for (row, &m) in moving.iter().enumerate() {
            side[row] -= point.weight * slopes[m] * error;
            for (column, &n) in moving.iter().enumerate() {
                normal[(row, column)] += point.weight * slopes[m] * slopes[n];
            }
        }
    }
    for n in 0..moving.len() {
        normal[(n, n)] += damping * normal[(n, n)].max(1e-12);
    }
    BandCholesky::new(&normal, moving.len())?.solve(&mut side);
    let mut next = equation.coefficients();
    for (row, &n) in moving.iter().enumerate() {
        next[n] += side[row];
    }
    Some(Equation::of(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strong 2013, Table 2.2, 16 cores.
    const SIXTEEN: Equation =
        Equation { t0_ns: 7.9, alpha: 0.5, beta: 0.2, gamma: 0.1, delta: 0.1 };

    #[test]
    fn the_anchors_of_eq_2_1() {
        let at = |w, x, y, z| SIXTEEN.wake_ns(Surroundings { w, x, y, z });
        for (w, expected) in [(1, 7.9), (2, 11.17), (3, 13.68), (4, 15.8)] {
            assert!((at(w, 0, 0, 0) - expected).abs() < 0.005);
        }
        assert!((at(4, 4, 7, 0) - 18.53).abs() < 0.005);
        let four = Equation { beta: 0.35, gamma: 0.15, delta: 0.15, ..SIXTEEN };
        assert!((four.wake_ns(Surroundings { w: 1, x: 1, y: 0, z: 2 }) - 10.15).abs() < 0.005);
    }

    #[test]
    fn coefficients_are_found_again() {
        let mut points = Vec::new();
        for n in 0..200usize {
            let at = Surroundings { w: n % 5, x: n / 3 % 5, y: n / 7 % 8, z: n / 11 % 4 };
            if at.w + at.x > 0 {
                points.push(Point { at, wake_ns: SIXTEEN.wake_ns(at), weight: 1.0 });
            }
        }
        let guess = Equation { t0_ns: 5.0, alpha: 0.8, beta: 0.5, gamma: 0.5, delta: 0.3 };
        let found = fit(&points, guess, [true; 5]).unwrap();
        for (ours, theirs) in found.equation.coefficients().iter().zip(SIXTEEN.coefficients()) {
            assert!((ours - theirs).abs() < 1e-6, "{found:?}");
        }
        assert!(found.error_mean_pct < 1e-6);
    }
}
