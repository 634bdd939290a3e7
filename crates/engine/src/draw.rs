//! Draws that worlds share.
//!
//! There are two ways to draw an exponential number, and both stay: what a seed draws never
//! changes, so whoever began with one keeps it.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1};

/// An exponential number of mean 1, by inversion of one even number: a larger draw is a larger
/// number, so runs that differ in their mean alone stay in step.
#[inline]
pub fn exponential<R: Rng + ?Sized>(random: &mut R) -> f64 {
    // Of 1 less an even number in [0, 1), which is never 0.
    by_inversion(1.0 - random.random::<f64>())
}

/// An exponential number of mean 1 by the ziggurat: four times as fast, but it takes one draw
/// mostly, and sometimes more.
#[inline]
pub fn exponential_fast<R: Rng + ?Sized>(random: &mut R) -> f64 {
    Exp1.sample(random)
}

/// Returns the value that an exponential variable of mean 1 exceeds with this probability, which is
/// above 0.
#[inline]
#[must_use]
pub fn by_inversion(probability: f64) -> f64 {
    debug_assert!(probability > 0.0 && probability <= 1.0, "{probability}");
    -probability.ln()
}

/// Draws whether an event of probability `share` happens. A share of 0 draws nothing, so that an
/// event that never happens changes no other draw.
#[inline]
pub fn comes<R: Rng + ?Sized>(random: &mut R, share: f64) -> bool {
    share > 0.0 && random.random::<f64>() < share
}

/// An even number in (0, 1], of 53 bits.
#[inline]
pub fn above_zero<R: Rng + ?Sized>(random: &mut R) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream;

    /// Checks inversion against the numbers that `random.rs` guarantees; the golden values of the
    /// ziggurat are those of the exponential distribution.
    #[test]
    fn inversion_takes_one_draw() {
        let (mut random, unit) = (stream(42, "core0"), 1.0 / (1_u64 << 53) as f64);
        let first = (10_543_821_012_902_262_573_u64 >> 11) as f64 * unit;
        assert_eq!(exponential(&mut random), -(1.0 - first).ln());
        let second = ((5_057_169_756_882_606_677_u64 >> 11) + 1) as f64 * unit;
        assert_eq!(above_zero(&mut random), second);
    }

    #[test]
    fn exponential_numbers_have_their_moments() {
        let mut random = stream(1, "draw");
        let mut draw: [Box<dyn FnMut() -> f64>; 2] = [
            Box::new(move || exponential(&mut random)),
            Box::new({
                let mut random = stream(2, "draw");
                move || exponential_fast(&mut random)
            }),
        ];
        for draw in &mut draw {
            let drawn: Vec<f64> = (0..200_000).map(|_| draw()).collect();
            let mean = drawn.iter().sum::<f64>() / 200_000.0;
            let square = drawn.iter().map(|x| x * x).sum::<f64>() / 200_000.0;
            // Moments are 1 and 2; four standard errors.
            assert!((mean - 1.0).abs() < 0.009 && (square - 2.0).abs() < 0.04, "{mean} {square}");
        }
    }
}
