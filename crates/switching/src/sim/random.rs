//! Random lengths.

use halfwink_engine::{stream, Stream};
use rand::Rng;

/// Draws lengths of one component.
#[derive(Debug)]
pub(crate) struct Draws(Stream);

impl Draws {
    pub(crate) fn new(seed: u64, name: &str) -> Draws {
        Draws(stream(seed, name))
    }

    /// Even in (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// A mean with a coefficient of variation of `spread`, 0 to 1: part constant, part exponential.
    pub(crate) fn around(&mut self, mean: f64, spread: f64) -> f64 {
        if spread == 0.0 {
            return mean;
        }
        mean * (1.0 - spread) + self.exponential(mean * spread)
    }

    /// Lognormal with this median and standard deviation of the logarithm.
    #[cfg(test)]
    pub(crate) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        median * (sigma * radius * (std::f64::consts::TAU * self.uniform()).cos()).exp()
    }
}
