//! Random lengths.

use halfwink_engine::draw::{above_zero, by_inversion};
use halfwink_engine::{stream, Stream};

/// Draws lengths of one component.
#[derive(Debug)]
pub(crate) struct Draws(Stream);

impl Draws {
    pub(crate) fn new(seed: u64, name: &str) -> Draws {
        Draws(stream(seed, name))
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        mean * by_inversion(above_zero(&mut self.0))
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
        let radius = (2.0 * by_inversion(above_zero(&mut self.0))).sqrt();
        median * (sigma * radius * (std::f64::consts::TAU * above_zero(&mut self.0)).cos()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_the_same_in_every_version() {
        let mut draws = Draws::new(1, "test");
        let drawn = [draws.exponential(2.0), draws.around(3.0, 0.5), draws.lognormal(1.0, 1.0)];
        assert_eq!(
            drawn.map(f64::to_bits),
            [4_610_388_860_022_740_658, 4_612_287_030_107_160_177, 4_603_920_338_898_140_069]
        );
    }
}
