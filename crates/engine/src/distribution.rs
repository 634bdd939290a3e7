//! Distributions that descriptions name and worlds draw from.

use rand::RngExt;
use rand_distr::{Distribution, Gamma, LogNormal};
use serde::{Deserialize, Serialize};

use crate::draw::exponential_fast as exponential;
use crate::Stream;

/// A probability distribution, as described in a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// A constant value.
    Fixed {
        /// Value of every draw.
        value: f64,
    },
    /// Any value between two.
    Uniform {
        /// Smallest value drawn.
        min: f64,
        /// Largest value drawn.
        max: f64,
    },
    /// Exponential: gaps of arrivals that know nothing of each other.
    Exponential {
        /// Mean of the distribution.
        mean: f64,
    },
    /// The sum of so many exponential ones.
    Erlang {
        /// Mean of the distribution.
        mean: f64,
        /// Number of exponential phases.
        phases: u32,
    },
    /// Two exponential ones of balanced means.
    Hyperexponential {
        /// Mean of the distribution.
        mean: f64,
        /// Coefficient of variation, above 1.
        cv: f64,
    },
    /// Log-normal: the logarithm is normal.
    LogNormal {
        /// Mean of the distribution.
        mean: f64,
        /// Coefficient of variation, above 0.
        cv: f64,
    },
    /// A power law between two values.
    BoundedPareto {
        /// Smallest value drawn.
        min: f64,
        /// Largest value drawn.
        max: f64,
        /// The exponent of its tail.
        shape: f64,
    },
    /// A file of BigHouse: lines of a value and the share of values up to it.
    Cdf {
        /// The file; looked for in the library, unless it begins with `/` or `.`.
        file: String,
        /// Factor from the file's unit to the workload's unit.
        unit: f64,
    },
    /// A measured one: points of its cumulative distribution, with lines between them.
    Points {
        /// (value, share that is no greater), rising.
        points: Vec<[f64; 2]>,
    },
}

/// A distribution, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Sampler(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Fixed(f64),
    Uniform { min: f64, span: f64 },
    Exponential { mean: f64 },
    Erlang(Gamma<f64>, f64),
    Hyperexponential { first: f64, means: [f64; 2] },
    LogNormal(LogNormal<f64>, f64),
    BoundedPareto { low: f64, span: f64, power: f64, mean: f64 },
    Points(Points),
}

/// A measured distribution: lines between points of its cumulative distribution.
#[derive(Clone, Debug)]
pub struct Points(Vec<[f64; 2]>);

impl Points {
    /// Values and shares must rise, from a share of 0 (added if it is not there) to 1.
    ///
    /// # Errors
    /// They do not.
    pub fn new(points: &[[f64; 2]]) -> Result<Points, String> {
        let finite = points.iter().flatten().all(|v| v.is_finite() && *v >= 0.0);
        let rising = points.windows(2).all(|w| w[0][0] <= w[1][0] && w[0][1] <= w[1][1]);
        let last = points.last().map_or(0.0, |p| p[1]);
        if !finite || !rising || (last - 1.0).abs() > 1e-3 {
            return Err("expected rising pairs (value, share), the last share 1".to_owned());
        }
        let mut kept: Vec<[f64; 2]> = points.iter().map(|p| [p[0], p[1] / last]).collect();
        if kept[0][1] > 0.0 {
            kept.insert(0, [kept[0][0], 0.0]);
        }
        Ok(Points(kept))
    }

    /// The value of this rank, from 0 to 1.
    #[inline]
    #[must_use]
    pub fn at(&self, rank: f64) -> f64 {
        let next = self.0.partition_point(|p| p[1] < rank).clamp(1, self.0.len() - 1);
        let ([x0, y0], [x1, y1]) = (self.0[next - 1], self.0[next]);
        if y1 > y0 {
            x0 + (x1 - x0) * ((rank - y0) / (y1 - y0)).clamp(0.0, 1.0)
        } else {
            x1
        }
    }

    /// Returns the mean of the distribution.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.windows(2).map(|w| (w[1][1] - w[0][1]) * 0.5 * (w[0][0] + w[1][0])).sum()
    }
}

impl Sampler {
    /// One that is always the same.
    #[must_use]
    pub const fn fixed(value: f64) -> Sampler {
        Sampler(Kind::Fixed(value))
    }

    /// Checks a law.
    ///
    /// # Errors
    /// What is impossible about it.
    pub fn new(law: &Law) -> Result<Sampler, String> {
        let positive = |name: &str, value: f64| {
            if value > 0.0 && value <= 1e12 {
                return Ok(value);
            }
            Err(format!("{name}: {value}, expected above 0, at most 1e12"))
        };
        Ok(Sampler(match *law {
            Law::Fixed { value } => Kind::Fixed(positive("value", value)?),
            Law::Uniform { min, max } => {
                let max = positive("max", max)?;
                if !(0.0..=max).contains(&min) {
                    return Err(format!("min: {min}, expected 0 to max"));
                }
                Kind::Uniform { min, span: max - min }
            }
            Law::Exponential { mean } => Kind::Exponential { mean: positive("mean", mean)? },
            Law::Erlang { mean, phases } => {
                let shape = positive("phases", f64::from(phases))?;
                let mean = positive("mean", mean)?;
                let law = Gamma::new(shape, mean / shape).map_err(|e| e.to_string())?;
                Kind::Erlang(law, mean)
            }
            Law::Hyperexponential { mean, cv } => {
                if !(1.0..=1e4).contains(&cv) {
                    return Err(format!("cv: {cv}, expected 1 to 10000"));
                }
                let mean = positive("mean", mean)?;
                let square = cv * cv;
                let first = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt());
                // Balanced means: both kinds make up half of the whole.
                let means = [0.5 * mean / first, 0.5 * mean / (1.0 - first)];
                Kind::Hyperexponential { first, means }
            }
            Law::LogNormal { mean, cv } => {
                let (mean, cv) = (positive("mean", mean)?, positive("cv", cv)?);
                let law = LogNormal::from_mean_cv(mean, cv).map_err(|e| e.to_string())?;
                Kind::LogNormal(law, mean)
            }
            Law::BoundedPareto { min, max, shape } => {
                let (min, shape) = (positive("min", min)?, positive("shape", shape)?);
                if max.partial_cmp(&min) != Some(std::cmp::Ordering::Greater) || max > 1e12 {
                    return Err(format!("max: {max}, expected above min"));
                }
                let (low, high) = (min.powf(-shape), max.powf(-shape));
                let mean = bounded_pareto_mean(min, max, shape);
                Kind::BoundedPareto { low, span: low - high, power: -1.0 / shape, mean }
            }
            Law::Cdf { ref file, .. } => return Err(format!("{file}: not read yet")),
            Law::Points { ref points } => Kind::Points(Points::new(points)?),
        }))
    }

    /// Draws a random value.
    #[inline]
    pub fn draw(&self, random: &mut Stream) -> f64 {
        match &self.0 {
            Kind::Fixed(value) => *value,
            Kind::Uniform { min, span } => min + span * random.random::<f64>(),
            Kind::Exponential { mean } => mean * exponential(random),
            Kind::Erlang(law, _) => law.sample(random),
            Kind::Hyperexponential { first, means } => {
                let which = usize::from(random.random::<f64>() >= *first);
                means[which] * exponential(random)
            }
            Kind::LogNormal(law, _) => law.sample(random),
            Kind::BoundedPareto { low, span, power, .. } => {
                (power * (low - span * random.random::<f64>()).ln()).exp()
            }
            Kind::Points(points) => points.at(random.random::<f64>()),
        }
    }

    /// Returns the mean of the distribution.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match &self.0 {
            Kind::Fixed(value) => *value,
            Kind::Uniform { min, span } => min + 0.5 * span,
            Kind::Exponential { mean }
            | Kind::Erlang(_, mean)
            | Kind::LogNormal(_, mean)
            | Kind::BoundedPareto { mean, .. } => *mean,
            Kind::Hyperexponential { first, means } => first * means[0] + (1.0 - first) * means[1],
            Kind::Points(points) => points.mean(),
        }
    }
}

/// Mean of a power law between two values.
fn bounded_pareto_mean(min: f64, max: f64, shape: f64) -> f64 {
    let mass = 1.0 - (min / max).powf(shape);
    if (shape - 1.0).abs() < 1e-9 {
        return min * (max / min).ln() / mass;
    }
    let power = 1.0 - shape;
    shape * min.powf(shape) * (max.powf(power) - min.powf(power)) / (power * mass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream;

    fn drawn(law: &Law) -> (f64, f64, f64) {
        let sampler = Sampler::new(law).unwrap();
        let mut random = stream(7, "law");
        let values: Vec<f64> = (0..400_000).map(|_| sampler.draw(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (sampler.mean(), mean, square.sqrt() / mean)
    }

    /// Fowler-Noll-Vo of these bits: golden values, so that no change of code changes a draw.
    fn digest(bits: impl Iterator<Item = u64>) -> u64 {
        bits.fold(0xcbf2_9ce4_8422_2325, |hash, bits| (hash ^ bits).wrapping_mul(0x100_0000_01b3))
    }

    #[test]
    fn draws_are_the_same_in_every_version() {
        let points = vec![[1.0, 0.0], [3.0, 0.5], [7.0, 1.0]];
        let found = [
            Law::Uniform { min: 1.0, max: 3.0 },
            Law::Exponential { mean: 2.0 },
            Law::Erlang { mean: 2.0, phases: 4 },
            Law::Hyperexponential { mean: 2.0, cv: 3.0 },
            Law::LogNormal { mean: 2.0, cv: 0.7 },
            Law::BoundedPareto { min: 6.0, max: 1400.0, shape: 0.893 },
            Law::Points { points },
        ]
        .map(|law| {
            let (sampler, mut random) = (Sampler::new(&law).unwrap(), stream(7, "law"));
            digest((0..2000).map(|_| sampler.draw(&mut random).to_bits()))
        });
        let expected = [
            5_780_092_368_339_081_892,
            4_292_963_135_510_220_863,
            14_477_073_709_913_225_837,
            14_834_350_118_629_755_139,
            8_762_417_277_608_864_046,
            4_936_130_598_799_270_025,
            2_878_286_250_623_067_548,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn means_and_variations_are_those_of_the_law() {
        let points = vec![[1.0, 0.0], [3.0, 0.5], [3.0, 1.0]];
        for (law, mean, cv) in [
            (Law::Fixed { value: 3.0 }, 3.0, 0.0),
            (Law::Uniform { min: 1.0, max: 3.0 }, 2.0, 0.2887),
            (Law::Exponential { mean: 2.0 }, 2.0, 1.0),
            (Law::Erlang { mean: 2.0, phases: 4 }, 2.0, 0.5),
            (Law::Hyperexponential { mean: 2.0, cv: 3.0 }, 2.0, 3.0),
            (Law::LogNormal { mean: 2.0, cv: 0.7 }, 2.0, 0.7),
            (Law::Points { points }, 2.5, 0.2582),
        ] {
            let (closed, found, variation) = drawn(&law);
            assert!((closed - mean).abs() < 1e-9, "{law:?}: {closed}");
            assert!((found / mean - 1.0).abs() < 0.02, "{law:?}: {found}");
            assert!((variation - cv).abs() < 0.05 * cv.max(0.01), "{law:?}: {variation}");
        }
    }

    #[test]
    fn the_wikipedia_data_set_has_files_of_40_kb_in_the_mean() {
        // Niccolini 2012, Sec 3.1.2: 10 GB, 250,000 files, 6 KB to 1.4 MB.
        let law = Law::BoundedPareto { min: 6.0, max: 1400.0, shape: 0.893 };
        let (closed, found, cv) = drawn(&law);
        assert!((closed - 40.0).abs() < 0.1, "{closed}");
        assert!((found / closed - 1.0).abs() < 0.02, "{found}");
        assert!((cv - 2.6).abs() < 0.1, "{cv}");
        let sampler = Sampler::new(&law).unwrap();
        let mut random = stream(3, "law");
        let mut values: Vec<f64> = (0..100_001).map(|_| sampler.draw(&mut random)).collect();
        values.sort_by(f64::total_cmp);
        assert!((values[50_000] - 12.9).abs() < 0.3, "{}", values[50_000]);
        assert!(values[0] >= 6.0 && values[100_000] <= 1400.0);
        let one = Law::BoundedPareto { min: 2.0, max: 8.0, shape: 1.0 };
        assert!((Sampler::new(&one).unwrap().mean() - 2.0 * 4f64.ln() / 0.75).abs() < 1e-12);
    }

    #[test]
    fn impossible_laws_are_refused() {
        for law in [
            Law::Fixed { value: -1.0 },
            Law::Uniform { min: 3.0, max: 2.0 },
            Law::Exponential { mean: f64::NAN },
            Law::Hyperexponential { mean: 1.0, cv: 0.5 },
            Law::BoundedPareto { min: 2.0, max: 1.0, shape: 1.0 },
            Law::BoundedPareto { min: 2.0, max: f64::NAN, shape: 1.0 },
            Law::Points { points: vec![] },
            Law::Points { points: vec![[1.0, 0.5], [2.0, 0.9]] },
            Law::Points { points: vec![[2.0, 0.5], [1.0, 1.0]] },
        ] {
            assert!(Sampler::new(&law).is_err(), "{law:?}");
        }
    }
}
