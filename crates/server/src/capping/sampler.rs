//! Random times: from an empirical distribution function, exponential, or always the same.

use halfwink_engine::draw::exponential;
use halfwink_engine::Stream;
use halfwink_units::Time;
use rand::Rng;

use halfwink_engine::Cdf;

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

impl Table {
    fn new(points: &[[f64; 2]], unit: f64) -> Table {
        let ps = unit * 1e12;
        let mut rows: Vec<Row> = Vec::with_capacity(points.len());
        // Points of one probability are a jump: no draw falls between them, and their slope would
        // be infinite.
        for pair in points.windows(2).filter(|pair| pair[1][1] > pair[0][1]) {
            let ([x0, y0], [x1, y1]) = (pair[0], pair[1]);
            let slope = (x1 - x0) / (y1 - y0) * ps;
            rows.push(Row { until: y1, offset: x0 * ps - slope * y0, slope });
        }
        let last = points.last().map_or(0.0, |point| point[0]);
        rows.push(Row { until: f64::INFINITY, offset: last * ps, slope: 0.0 });
        let mut row = 0;
        let cells = (0..CELLS).map(|cell| {
            while rows[row].until <= cell as f64 / CELLS as f64 {
                row += 1;
            }
            row as u32
        });
        let cells = cells.collect();
        Table { rows, cells }
    }

    #[inline]
    fn draw(&self, random: &mut Stream) -> u64 {
        let bits = random.next_u64();
        // 53 bits fill a mantissa: the draw is exact, and never 1.
        let at = (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64);
        // The upper twelve bits of the same draw: 4096 cells.
        let mut row = self.cells[(bits >> 52) as usize] as usize;
        while self.rows[row].until <= at {
            row += 1;
        }
        let Row { offset, slope, .. } = self.rows[row];
        (offset + slope * at + 0.5) as u64
    }
}

impl Sampler {
    /// An empirical distribution, its values taken times `unit` as seconds. Draws what
    /// [`Cdf::quantile`] says, in constant time.
    #[must_use]
    pub fn empirical(cdf: &Cdf, unit: f64) -> Sampler {
        Sampler(Law::Table(Table::new(cdf.points(), unit)))
    }

    /// Exponential, of this mean.
    #[must_use]
    pub fn exponential(mean: Time) -> Sampler {
        Sampler(Law::Exponential { mean_ps: mean.0 as f64 })
    }

    /// Creates a sampler of a constant value.
    #[must_use]
    pub fn constant(time: Time) -> Sampler {
        Sampler(Law::Constant(time.0))
    }

    /// Returns whether every draw is zero.
    pub(super) fn is_zero(&self) -> bool {
        match &self.0 {
            Law::Table(table) => table.rows.iter().all(|r| r.slope == 0.0 && r.offset < 1.0),
            Law::Exponential { mean_ps } => *mean_ps < 1.0,
            Law::Constant(time) => *time == 0,
        }
    }

    /// The next time, in picoseconds.
    #[inline]
    pub fn draw(&self, random: &mut Stream) -> u64 {
        match &self.0 {
            Law::Table(table) => table.draw(random),
            Law::Exponential { mean_ps } => (mean_ps * exponential(random) + 0.5) as u64,
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
    fn exponential_times_are_the_same_in_every_version() {
        let (sampler, mut random) = (Sampler::exponential(Time::ns(1000)), stream(1, "test"));
        let drawn = [sampler.draw(&mut random), sampler.draw(&mut random)];
        assert_eq!(drawn, [553_149, 915_627]);
    }

    #[test]
    fn drawn_times_have_the_distribution() {
        let cdf = Cdf::parse(POINTS).unwrap();
        let sampler = Sampler::empirical(&cdf, 1e-3);
        let mut random = stream(1, "test");
        let mut same = stream(1, "test");
        for _ in 0..1_000 {
            let rank = (same.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let found = sampler.draw(&mut random) as f64 * 1e-9;
            assert!((found - cdf.quantile(rank)).abs() < 1e-8, "{rank}");
        }
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
}
