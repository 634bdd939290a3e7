//! Rates against time: a router's evaluation, a day of a web site, a file of the user's.

use halfwink_engine::stream;
use rand::RngExt;

use super::schedule::Segment;
use super::Error;

/// Requests per minute of a day of the 1998 World Cup web site.
const WORLD_CUP_DAY: &str = include_str!("../../../../workloads/worldcup98-1998-06-30.csv");

/// Loads of the evaluation of Niccolini et al., Sec 4.5 (assumption: Fig 4.15 prints no numbers):
/// a sine from 10 to 60 %, a random walk of 10 % beside it, spikes to 80 %, 35 % in the mean.
const LOW: f64 = 0.1;
const HIGH: f64 = 0.6;
const WALK: f64 = 0.1;
const SPIKE: f64 = 0.8;
const MEAN: f64 = 0.35;

/// Load against time, 1 the highest of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile(Vec<f64>);

impl Profile {
    /// The evaluation's, of so many points.
    #[must_use]
    pub fn evaluation(points: usize, seed: u64) -> Profile {
        let mut random = stream(seed, "profile");
        let count = points.max(20);
        let mut walk = 0.0;
        let mut loads: Vec<f64> = (0..count)
            .map(|n| {
                walk = 0.7 * walk + WALK * (random.random::<f64>() - 0.5);
                let turn = n as f64 / count as f64 * std::f64::consts::TAU;
                let sine = (LOW + HIGH) / 2.0 - (HIGH - LOW) / 2.0 * turn.cos();
                (sine + walk).clamp(0.02, SPIKE)
            })
            .collect();
        let spikes: Vec<usize> = [5, 11, 17].iter().map(|n| n * count / 20).collect();
        spikes.iter().for_each(|&n| loads[n] = 0.0);
        let rest = MEAN * count as f64 - SPIKE * spikes.len() as f64;
        let factor = rest / loads.iter().sum::<f64>();
        loads.iter_mut().for_each(|load| *load = (*load * factor).min(SPIKE));
        spikes.iter().for_each(|&n| loads[n] = SPIKE);
        Profile(loads)
    }

    /// 30 June 1998 at the World Cup's web site, a point per minute, 1 the busiest minute.
    #[must_use]
    pub fn world_cup_day() -> Profile {
        let rows = WORLD_CUP_DAY.lines().filter_map(|line| line.split_once(',')?.1.parse().ok());
        let counts: Vec<f64> = rows.collect();
        let most = counts.iter().copied().fold(1.0, f64::max);
        Profile(counts.into_iter().map(|c| c / most).collect())
    }

    /// Loads of the points, all equally long.
    #[must_use]
    pub fn loads(&self) -> &[f64] {
        &self.0
    }

    /// Rates of a run of so many seconds with `peak_pps` at load 1; each point has one rate.
    #[must_use]
    pub fn segments(&self, seconds: f64, peak_pps: f64) -> Vec<Segment> {
        let each = seconds / self.0.len().max(1) as f64;
        let segment = |load: &f64| {
            let pps = load * peak_pps;
            Segment { seconds: each, from_pps: pps, to_pps: pps }
        };
        self.0.iter().map(segment).collect()
    }
}

/// Reads rates against time: lines `SECONDS,PPS`, with lines between them and a heading if any;
/// `scale` rates and `stretch` times.
///
/// # Errors
/// A line is something else, or times do not ascend; names the line.
pub fn read(text: &str, stretch: f64, scale: f64) -> Result<Vec<Segment>, Error> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.split_once(',').and_then(|(a, b)| {
            Some((a.trim().parse::<f64>().ok()?, b.trim().parse::<f64>().ok()?))
        });
        let ascends = |at: f64| points.last().is_none_or(|&(last, _)| at * stretch >= last);
        match parsed {
            Some((at, pps)) if at >= 0.0 && pps >= 0.0 && ascends(at) => {
                points.push((at * stretch, pps * scale));
            }
            // A heading has no numbers.
            None if points.is_empty() && !line.starts_with(|c: char| c.is_ascii_digit()) => {}
            _ => {
                return Err(Error::input(format!(
                    "line {}: `{line}`: expected `SECONDS,FRAMES PER SECOND`, times ascending",
                    n + 1
                )))
            }
        }
    }
    if points.len() < 2 {
        return Err(Error::input("expected two lines `SECONDS,FRAMES PER SECOND` or more"));
    }
    let segment =
        |w: &[(f64, f64)]| Segment { seconds: w[1].0 - w[0].0, from_pps: w[0].1, to_pps: w[1].1 };
    Ok(points.windows(2).map(segment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evaluation_has_its_mean_and_its_spikes() {
        let profile = Profile::evaluation(60, 1);
        let loads = profile.loads();
        let mean = loads.iter().sum::<f64>() / 60.0;
        assert!((mean - MEAN).abs() < 1e-3, "{mean}");
        assert_eq!(loads.iter().filter(|&&l| l == SPIKE).count(), 3);
        assert!(loads.iter().all(|l| (0.0..=SPIKE).contains(l)));
        assert_eq!(profile, Profile::evaluation(60, 1));
        assert_ne!(profile, Profile::evaluation(60, 2));
    }

    #[test]
    fn the_day_has_its_minutes_and_its_peak() {
        let day = Profile::world_cup_day();
        assert_eq!(day.loads().len(), 1440);
        let peak = day.loads().iter().position(|&l| l == 1.0).unwrap();
        assert_eq!((peak / 60, peak % 60), (21, 42));
        let segments = day.segments(144.0, 1000.0);
        let frames: f64 = segments.iter().map(|s| s.seconds * s.from_pps).sum();
        // 75,207,657 requests, 215,241 in the busiest minute.
        assert!((frames / (75_207_657.0 / 215_241.0 * 100.0) - 1.0).abs() < 1e-9, "{frames}");
    }

    #[test]
    fn file_of_rates_is_read_or_refused_with_its_line() {
        let text = "# mine\nseconds,pps\n0,100\n1.5, 200\n\n1.5,0\n2,0\n";
        let segments = read(text, 2.0, 10.0).unwrap();
        let first = Segment { seconds: 3.0, from_pps: 1000.0, to_pps: 2000.0 };
        assert_eq!((segments.len(), segments[0]), (3, first));
        assert_eq!(segments[1].seconds, 0.0);
        for (wrong, line) in [("0,1\nx,2", 2), ("0,1\n2,1\n1,1", 3), ("0,1\n1,-1", 2), ("0 1", 1)] {
            let error = read(wrong, 1.0, 1.0).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
        assert!(read("0,1", 1.0, 1.0).is_err());
    }
}
