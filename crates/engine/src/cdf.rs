//! Measured distributions, as BigHouse keeps them.
//!
//! A line holds a value and the share of values up to it, rising, from `0 0` on. BigHouse (Meisner,
//! Wu, Wenisch, "BigHouse: A simulation infrastructure for data center systems", ISPASS 2012) draws
//! a rank and goes along the line between the points around it (`EmpiricalDistribution.java`:
//! `getQuantile`); a rank above the last share, for its files end at 0.999, is the last value. So
//! does this. Its `getMean` is another thing: it takes each value for the whole step below it and
//! nothing for what is missing above, and all of its loads are scaled by that:
//! [`Cdf::bighouse_mean`].

use crate::{Law, LineError};

const PAIR: &str = "a value and the share of values up to it, 0 to 1";
const RISING: &str = "a value and a share that are not below the ones before";
const FIRST: &str = "`0 0`, as the first line";

/// A distribution: lines between points.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    points: Vec<[f64; 2]>,
}

impl Cdf {
    /// Reads lines of two numbers; empty ones and those that begin with `#` are passed over.
    /// Unlike in a log no bad line is left out: the distribution would be another one.
    ///
    /// # Errors
    /// The first line that is none, that does not rise, or does not begin with `0 0`.
    pub fn parse(text: &str) -> Result<Cdf, LineError> {
        let mut points: Vec<[f64; 2]> = Vec::new();
        let mut number = 0;
        for line in text.lines() {
            number += 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let error = |expected| LineError::new(number, line.as_bytes(), expected);
            let point = pair(line).ok_or_else(|| error(PAIR))?;
            match points.last() {
                None if point != [0.0, 0.0] => return Err(error(FIRST)),
                Some(last) if point[0] < last[0] || point[1] < last[1] => {
                    return Err(error(RISING));
                }
                _ => points.push(point),
            }
        }
        if points.last().is_none_or(|last| last[1] == 0.0) {
            return Err(LineError::new(number.max(1), b"", PAIR));
        }
        Ok(Cdf { points })
    }

    /// Returns values and cumulative shares.
    #[must_use]
    pub fn points(&self) -> &[[f64; 2]] {
        &self.points
    }

    fn last(&self) -> [f64; 2] {
        self.points.last().copied().unwrap_or([0.0, 1.0])
    }

    /// Share of values above the last point, which count as its value.
    fn above(&self) -> f64 {
        1.0 - self.last()[1]
    }

    /// The value of this rank, from 0 to 1: what BigHouse draws for a random number.
    #[must_use]
    pub fn quantile(&self, rank: f64) -> f64 {
        let after = self.points.partition_point(|p| p[1] <= rank);
        let bin = after.saturating_sub(1);
        match (self.points.get(bin), self.points.get(bin + 1)) {
            (Some([x0, y0]), Some([x1, y1])) if y1 > y0 => (x1 - x0) / (y1 - y0) * (rank - y0) + x0,
            _ => self.last()[0],
        }
    }

    /// Mean of what is drawn.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let step = |w: &[[f64; 2]]| (w[1][1] - w[0][1]) * 0.5 * (w[0][0] + w[1][0]);
        self.points.windows(2).map(step).sum::<f64>() + self.above() * self.last()[0]
    }

    /// Variance of what is drawn.
    #[must_use]
    pub fn variance(&self) -> f64 {
        let step = |w: &[[f64; 2]]| {
            let ([x0, y0], [x1, y1]) = (w[0], w[1]);
            (y1 - y0) * (x0 * x0 + x0 * x1 + x1 * x1) / 3.0
        };
        let square = self.points.windows(2).map(step).sum::<f64>();
        let last = self.last()[0];
        (square + self.above() * last * last - self.mean().powi(2)).max(0.0)
    }

    /// Standard deviation over mean.
    #[must_use]
    pub fn variation(&self) -> f64 {
        self.variance().sqrt() / self.mean()
    }

    /// Returns the value that BigHouse takes for the mean, and scales loads by.
    #[must_use]
    pub fn bighouse_mean(&self) -> f64 {
        self.points.windows(2).map(|w| (w[1][1] - w[0][1]) * w[1][0]).sum()
    }

    /// Multiplies all values by a factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Cdf {
        Cdf { points: self.points.iter().map(|p| [p[0] * factor, p[1]]).collect() }
    }

    /// Returns BigHouse's factor on gaps between arrivals that gives `cores` cores with these
    /// service times this load, 0 to 1: both files in one unit, by [`Cdf::bighouse_mean`].
    #[must_use]
    pub fn bighouse_scale(&self, service: &Cdf, cores: u32, load: f64) -> f64 {
        service.bighouse_mean() / (self.bighouse_mean() * f64::from(cores)) / load
    }

    /// Returns the distribution to draw from, with its last point at a share of 1.
    #[must_use]
    pub fn law(&self) -> Law {
        let mut points = self.points.clone();
        if self.above() > 0.0 {
            points.push([self.last()[0], 1.0]);
        }
        Law::Points { points }
    }
}

fn pair(line: &str) -> Option<[f64; 2]> {
    let mut words = line.split_whitespace();
    let (value, share) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let fits = (0.0..=1e15).contains(&value) && (0.0..=1.0).contains(&share);
    (fits && words.next().is_none()).then_some([value, share])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sampler;
    use proptest::prelude::*;

    /// Value 0 in half of the cases, 2 to 4 in 0.3, nothing between, the rest cut off.
    const TEXT: &str = "0.0 0.0\n0.0 0.5\n2.0 0.5\n# a comment\n\n4.0\t0.8\n6 0.8\n";

    #[test]
    fn ranks_go_along_the_lines() {
        let cdf = Cdf::parse(TEXT).unwrap();
        for (rank, value) in
            [(0.0, 0.0), (0.49, 0.0), (0.5, 2.0), (0.65, 3.0), (0.8, 6.0), (0.9, 6.0), (1.0, 6.0)]
        {
            let found = cdf.quantile(rank);
            assert!((found - value).abs() < 1e-12, "{rank}: {found}, {value}");
        }
        // 0.3 * 3 + 0.2 * 6; BigHouse: 0.3 * 4.
        assert!((cdf.mean() - 2.1).abs() < 1e-12);
        assert!((cdf.bighouse_mean() - 1.2).abs() < 1e-12);
        // 0.3 * (4 + 8 + 16) / 3 + 0.2 * 36 - 2.1^2.
        assert!((cdf.variance() - (2.8 + 7.2 - 4.41)).abs() < 1e-12);
        assert!((cdf.scaled(1e-3).mean() - 2.1e-3).abs() < 1e-15);
    }

    #[test]
    fn damaged_distribution_names_line_and_reason() {
        let wrong =
            ["", "0 0\n", "1 0\n", "0 0\n1\n", "0 0\n1 0.5\n0.5 0.6", "0 0\n1 2\n", "0 0 0\n"];
        let errors: Vec<String> =
            wrong.iter().map(|text| Cdf::parse(text).unwrap_err().to_string()).collect();
        insta::assert_snapshot!(errors.join("\n"), @r"
        line 1: found ``, expected a value and the share of values up to it, 0 to 1
        line 1: found ``, expected a value and the share of values up to it, 0 to 1
        line 1: found `1 0`, expected `0 0`, as the first line
        line 2: found `1`, expected a value and the share of values up to it, 0 to 1
        line 3: found `0.5 0.6`, expected a value and a share that are not below the ones before
        line 2: found `1 2`, expected a value and the share of values up to it, 0 to 1
        line 1: found `0 0 0`, expected a value and the share of values up to it, 0 to 1
        ");
    }

    #[test]
    fn the_shipped_distributions_are_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/server");
        let read = |name: &str| {
            Cdf::parse(&std::fs::read_to_string(format!("{folder}/{name}.cdf")).unwrap()).unwrap()
        };
        let mut told = String::new();
        for name in ["csedns", "newman", "search", "shell", "www"] {
            let (gaps, service) =
                (read(&format!("{name}.arrival")), read(&format!("{name}.service")));
            told += &format!(
                "{name}: {:.6} (cv {:.2}), {:.6} (cv {:.2}); BigHouse {:.6}, {:.6}\n",
                gaps.mean(),
                gaps.variation(),
                service.mean(),
                service.variation(),
                gaps.bighouse_mean(),
                service.bighouse_mean(),
            );
        }
        insta::assert_snapshot!(told, @r"
        csedns: 1105.813805 (cv 1.11), 184.994505 (cv 1.05); BigHouse 1101.319370, 188.434930
        newman: 194.796225 (cv 1.34), 79.870935 (cv 2.08); BigHouse 196.528510, 82.440590
        search: 0.000317 (cv 1.19), 0.004170 (cv 1.15); BigHouse 0.000319, 0.004220
        shell: 172.205685 (cv 2.06), 31.120645 (cv 3.58); BigHouse 171.239920, 33.803330
        www: 174.833060 (cv 1.72), 64.948920 (cv 2.40); BigHouse 176.002800, 67.870590
        ");
    }

    #[test]
    fn draws_have_the_mean_and_variance_of_the_file() {
        let cdf = Cdf::parse(TEXT).unwrap();
        let sampler = Sampler::new(&cdf.law()).unwrap();
        let mut random = crate::stream(5, "cdf");
        let drawn: Vec<f64> = (0..200_000).map(|_| sampler.draw(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let square = drawn.iter().map(|v| v * v).sum::<f64>() / drawn.len() as f64;
        assert!((mean / cdf.mean() - 1.0).abs() < 0.02, "{mean}");
        assert!(((square - mean * mean) / cdf.variance() - 1.0).abs() < 0.02, "{square}");
    }

    proptest! {
        #[test]
        fn arbitrary_distributions_never_panic(
            text in "([0-9]{1,2}|\\.| |e|-|#|\n){0,80}",
            any in ".{0,80}",
        ) {
            for text in [&text, &any] {
                if let Ok(cdf) = Cdf::parse(text) {
                    prop_assert!(cdf.mean().is_finite() && cdf.variance() >= 0.0);
                }
            }
        }

        #[test]
        fn written_distribution_reads_back_and_rises(
            steps in proptest::collection::vec((0u32..1000, 0u32..1000), 1..50),
        ) {
            let total = f64::from(steps.iter().map(|s| s.1).sum::<u32>() + 1);
            let (mut value, mut share) = (0u32, 0u32);
            let mut points = vec![[0.0, 0.0]];
            for (up, more) in steps {
                (value, share) = (value + up, share + more);
                points.push([f64::from(value), f64::from(share) / total]);
            }
            points.push([f64::from(value) + 1.0, 1.0]);
            let text: String = points.iter().map(|p| format!("{} {}\n", p[0], p[1])).collect();
            let cdf = Cdf::parse(&text).unwrap();
            prop_assert_eq!(cdf.points(), &points[..]);
            let drawn: Vec<f64> = (0..=100).map(|n| cdf.quantile(f64::from(n) / 100.0)).collect();
            prop_assert!(drawn.windows(2).all(|w| w[0] <= w[1] * (1.0 + 1e-12)));
            let sampler = Sampler::new(&cdf.law()).unwrap();
            prop_assert!((sampler.mean() - cdf.mean()).abs() <= 1e-9 * cdf.mean());
        }
    }
}
