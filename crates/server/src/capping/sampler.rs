//! Random times: from an empirical distribution function, exponential, or always the same.

use halfwink_engine::Stream;
use halfwink_units::Time;
use rand::{Rng, RngExt};

/// What cannot be sampled from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CdfError {
    /// A line is not two numbers.
    #[error("line {line}: expected a value and a probability, found `{found}`")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is there.
        found: String,
    },
    /// A value or a probability falls, or is out of range.
    #[error("line {line}: expected {expected}, found {found}")]
    Order {
        /// Which, from 1.
        line: usize,
        /// What ought to be there.
        expected: &'static str,
        /// What is there.
        found: f64,
    },
    /// Nothing to sample.
    #[error("expected at least two points, the first of probability 0 and some value above 0")]
    Empty,
}

/// Cells of the unit interval that each know where to begin to look.
const CELLS: usize = 4096;

/// A distribution of times.
#[derive(Clone, Debug)]
pub struct Sampler(Law);

#[derive(Clone, Debug)]
enum Law {
    Table(Table),
    Exponential { mean_ps: f64 },
    Constant(u64),
}

/// Straight lines between the points of a distribution function; what is missing to 1 is the last
/// value.
#[derive(Clone, Debug)]
struct Table {
    rows: Vec<Row>,
    cells: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// Probability of the next point.
    until: f64,
    /// Time at probability 0 on the line to the next point, in picoseconds.
    offset: f64,
    /// Picoseconds for each probability.
    slope: f64,
}

/// Points of an empirical distribution function.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    /// Value and probability of each; both never fall.
    points: Vec<(f64, f64)>,
}

impl Cdf {
    /// Reads lines of a value and its probability, as `BigHouse`'s workloads are written.
    ///
    /// # Errors
    /// The first line that does not fit.
    pub fn parse(text: &str) -> Result<Cdf, CdfError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (n, found) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line = n + 1;
            let wrong = || CdfError::Line { line, found: found.chars().take(40).collect() };
            let mut words = found.split_whitespace().map(str::parse::<f64>);
            let (Some(Ok(x)), Some(Ok(y)), None) = (words.next(), words.next(), words.next())
            else {
                return Err(wrong());
            };
            let (last_x, last_y) = points.last().copied().unwrap_or((0.0, 0.0));
            if !(x >= last_x && x.is_finite()) {
                let expected = "a finite value no less than the one before";
                return Err(CdfError::Order { line, expected, found: x });
            }
            if !(y >= last_y && y <= 1.0) {
                let expected = "a probability up to 1, no less than the one before";
                return Err(CdfError::Order { line, expected, found: y });
            }
            points.push((x, y));
        }
        match (points.first(), points.last()) {
            (Some(&(_, 0.0)), Some(&(x, _))) if points.len() > 1 && x > 0.0 => Ok(Cdf { points }),
            _ => Err(CdfError::Empty),
        }
    }

    /// Mean as `BigHouse` computes it for scaling: every step at its upper end, and nothing for what
    /// is missing to 1. In the unit of the values.
    #[must_use]
    pub fn upper_mean(&self) -> f64 {
        self.points.windows(2).map(|pair| pair[1].0 * (pair[1].1 - pair[0].1)).sum()
    }

    /// Mean of what is drawn, in the unit of the values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let lines = self.points.windows(2).map(|p| (p[0].0 + p[1].0) / 2.0 * (p[1].1 - p[0].1));
        let last = self.points.last().map_or(0.0, |&(x, y)| x * (1.0 - y));
        lines.sum::<f64>() + last
    }

    /// Draws from it, values taken times `unit` as time.
    #[must_use]
    pub fn sampler(&self, unit: f64) -> Sampler {
        let ps = unit * 1e12;
        let mut rows: Vec<Row> = Vec::with_capacity(self.points.len());
        for pair in self.points.windows(2).filter(|pair| pair[1].1 > pair[0].1) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            let slope = (x1 - x0) / (y1 - y0) * ps;
            rows.push(Row { until: y1, offset: x0 * ps - slope * y0, slope });
        }
        let last = self.points.last().map_or(0.0, |point| point.0);
        rows.push(Row { until: f64::INFINITY, offset: last * ps, slope: 0.0 });
        let mut row = 0;
        let cells = (0..CELLS).map(|cell| {
            while rows[row].until <= cell as f64 / CELLS as f64 {
                row += 1;
            }
            row as u32
        });
        let cells = cells.collect();
        Sampler(Law::Table(Table { rows, cells }))
    }
}

impl Table {
    #[inline]
    fn draw(&self, random: &mut Stream) -> u64 {
        let bits = random.next_u64();
        let at = (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
        let mut row = self.cells[(bits >> 52) as usize] as usize;
        while self.rows[row].until <= at {
            row += 1;
        }
        let Row { offset, slope, .. } = self.rows[row];
        (offset + slope * at + 0.5) as u64
    }
}

impl Sampler {
    /// Exponential, of this mean.
    #[must_use]
    pub fn exponential(mean: Time) -> Sampler {
        Sampler(Law::Exponential { mean_ps: mean.0 as f64 })
    }

    /// Always the same.
    #[must_use]
    pub fn constant(time: Time) -> Sampler {
        Sampler(Law::Constant(time.0))
    }

    /// The next time, in picoseconds.
    #[inline]
    pub fn draw(&self, random: &mut Stream) -> u64 {
        match &self.0 {
            Law::Table(table) => table.draw(random),
            Law::Exponential { mean_ps } => {
                (-mean_ps * (1.0 - random.random::<f64>()).ln() + 0.5) as u64
            }
            Law::Constant(time) => *time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_engine::stream;

    const POINTS: &str = "0.0 0.0\n0.0 0.1\n10.0 0.3\n20.0 0.3\n40.0 0.9\n";

    #[test]
    fn means_are_those_of_the_lines_and_of_the_upper_ends() {
        let cdf = Cdf::parse(POINTS).unwrap();
        assert!((cdf.upper_mean() - (10.0 * 0.2 + 40.0 * 0.6)).abs() < 1e-12);
        assert!((cdf.mean() - (5.0 * 0.2 + 30.0 * 0.6 + 40.0 * 0.1)).abs() < 1e-12);
    }

    #[test]
    fn drawn_times_have_the_distribution() {
        let cdf = Cdf::parse(POINTS).unwrap();
        let sampler = cdf.sampler(1e-3);
        let mut random = stream(1, "test");
        let drawn: Vec<u64> = (0..200_000).map(|_| sampler.draw(&mut random)).collect();
        let share = |limit_ms: u64| {
            let below = drawn.iter().filter(|&&ps| ps <= limit_ms * 1_000_000_000).count();
            below as f64 / drawn.len() as f64
        };
        for (limit_ms, expected) in
            [(0, 0.1), (5, 0.2), (10, 0.3), (19, 0.3), (30, 0.6), (39, 0.87)]
        {
            assert!((share(limit_ms) - expected).abs() < 0.005, "{limit_ms}: {}", share(limit_ms));
        }
        assert_eq!(share(40), 1.0);
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64 * 1e-9;
        assert!((mean / cdf.mean() - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn bad_lines_are_named() {
        let found = |text| Cdf::parse(text).unwrap_err().to_string();
        assert_eq!(found("0 0\n1 x\n"), "line 2: expected a value and a probability, found `1 x`");
        assert_eq!(
            found("0 0\n2 0.5\n1 0.6\n"),
            "line 3: expected a finite value no less than the one before, found 1"
        );
        assert_eq!(
            found("0 0\n2 0.5\n3 1.5\n"),
            "line 3: expected a probability up to 1, no less than the one before, found 1.5"
        );
        for text in ["", "0 0\n", "0 0.1\n1 1\n", "0 0\n0 1\n"] {
            assert_eq!(Cdf::parse(text), Err(CdfError::Empty), "{text}");
        }
    }
}
