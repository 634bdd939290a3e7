//! Arrivals of requests: drawn from a process, or read from a log, counts or a distribution.

pub mod counts;
mod exports;
mod lines;
pub mod log;
mod moment;

pub use lines::{ReadError, Skipped};

use std::sync::Arc;

use halfwink_engine::draw::exponential_fast as exponential;
use halfwink_engine::{stream, Law, Sampler, Stream};
use halfwink_units::Time;
use rand::RngExt;

/// A stream of arrivals.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson {
        /// Rate in requests per second.
        rate: f64,
    },
    /// Arrivals at equal distances.
    Constant {
        /// Rate in requests per second.
        rate: f64,
    },
    /// Poisson of one rate or another, for an exponential time each.
    Mmpp {
        /// Rates in requests per second.
        rates: [f64; 2],
        /// Mean duration of each rate, in seconds.
        stays_s: [f64; 2],
    },
    /// At distances of this distribution, independent of each other.
    Renewal {
        /// Distribution of the gaps.
        gaps: Law,
        /// Seconds for each unit of it.
        unit_s: f64,
    },
    /// Poisson whose rate changes in steps, from the first one on; none after the last one.
    Rates {
        /// Length of each step.
        step: Time,
        /// Rate of each step, in requests per second.
        per_s: Arc<[f64]>,
    },
    /// At these times, rising, perhaps with their sizes.
    Recorded {
        /// Times since the start.
        times: Arc<[Time]>,
        /// Size of each request; empty if sizes are drawn as the workload says.
        sizes: Arc<[f64]>,
    },
}

/// Arrivals later than this come after any run: their time would overflow.
const LATEST_PS: f64 = 1e12 * log::LONGEST_S;

impl Arrivals {
    /// Checks it.
    ///
    /// # Errors
    /// What is impossible about it.
    pub fn check(&self) -> Result<(), String> {
        let rate = |rate: f64| {
            let fits = (0.0..=1e12).contains(&rate);
            if fits {
                Ok(())
            } else {
                Err(format!("a rate of {rate}, expected 0 to 1e12"))
            }
        };
        match self {
            Arrivals::Poisson { rate: r } | Arrivals::Constant { rate: r } => rate(*r),
            Arrivals::Mmpp { rates, stays_s } => {
                rates.iter().try_for_each(|r| rate(*r))?;
                let stay = |s: &f64| (1e-9..=1e9).contains(s);
                let fits = stays_s.iter().all(stay);
                if fits {
                    Ok(())
                } else {
                    Err("stays: expected 1e-9 to 1e9 seconds".to_owned())
                }
            }
            Arrivals::Renewal { gaps, unit_s } => {
                let unit = (1e-15..=1e9).contains(unit_s);
                Sampler::new(gaps)?;
                if unit {
                    Ok(())
                } else {
                    Err(format!("a unit of {unit_s} seconds"))
                }
            }
            Arrivals::Rates { step, per_s } => {
                if *step == Time::ZERO || per_s.is_empty() {
                    return Err("expected one rate or more, for more than no time".to_owned());
                }
                per_s.iter().try_for_each(|r| rate(*r))
            }
            Arrivals::Recorded { times, sizes } => {
                if times.windows(2).any(|w| w[0] > w[1]) {
                    return Err("expected times that rise".to_owned());
                }
                if !sizes.is_empty() && sizes.len() != times.len() {
                    return Err("expected as many sizes as times".to_owned());
                }
                Ok(())
            }
        }
    }

    /// Mean rate, in requests per second; of recorded ones, until the last.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self {
            Arrivals::Poisson { rate } | Arrivals::Constant { rate } => *rate,
            Arrivals::Mmpp { rates, stays_s } => {
                (rates[0] * stays_s[0] + rates[1] * stays_s[1]) / (stays_s[0] + stays_s[1])
            }
            Arrivals::Renewal { gaps, unit_s } => {
                Sampler::new(gaps).map_or(0.0, |gaps| 1.0 / (gaps.mean() * unit_s))
            }
            Arrivals::Rates { per_s, .. } => per_s.iter().sum::<f64>() / per_s.len() as f64,
            Arrivals::Recorded { times, .. } => {
                // All may come at time zero: a picosecond keeps the rate finite.
                times.last().map_or(0.0, |last| times.len() as f64 / last.as_s().max(1e-12))
            }
        }
    }

    /// Returns requests per second in steps: those of counts, or whole steps of `step` for recorded
    /// times, without what is left behind the last one. None for arrivals without an end.
    #[must_use]
    pub fn in_steps(&self, step: Time) -> Option<(Time, Vec<f64>)> {
        match self {
            Arrivals::Rates { step, per_s } => Some((*step, per_s.to_vec())),
            Arrivals::Recorded { times, .. } => {
                // A step that the recording cuts off would look like one with few requests.
                let whole = times.last().map_or(0, |last| last.0 / step.0);
                let mut per_s = vec![0.0; whole as usize];
                for time in times.iter() {
                    if let Some(rate) = per_s.get_mut((time.0 / step.0) as usize) {
                        *rate += 1.0 / step.as_s();
                    }
                }
                Some((step, per_s))
            }
            _ => None,
        }
    }

    /// Changes the mean rate by scaling all gaps.
    #[must_use]
    pub fn at_rate(&self, rate: f64) -> Arrivals {
        let factor = rate / self.rate();
        // Each time is scaled from the start and rounded once, so that errors do not add up.
        let slower = |t: Time| Time((t.0 as f64 / factor).round() as u64);
        match self.clone() {
            Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
            Arrivals::Constant { .. } => Arrivals::Constant { rate },
            Arrivals::Mmpp { rates, stays_s } => {
                Arrivals::Mmpp { rates: rates.map(|r| r * factor), stays_s }
            }
            Arrivals::Renewal { gaps, unit_s } => {
                Arrivals::Renewal { gaps, unit_s: unit_s / factor }
            }
            Arrivals::Rates { step, per_s } => {
                Arrivals::Rates { step, per_s: per_s.iter().map(|r| r * factor).collect() }
            }
            Arrivals::Recorded { times, sizes } => {
                Arrivals::Recorded { times: times.iter().map(|&t| slower(t)).collect(), sizes }
            }
        }
    }

    /// The arrivals one by one.
    pub fn draw(&self, seed: u64, name: &str) -> Draw {
        let random = stream(seed, &format!("{name}arrivals"));
        let kind = match self {
            Arrivals::Poisson { rate } => Kind::Poisson { mean_ps: 1e12 / rate },
            Arrivals::Constant { rate } => Kind::Constant { gap_ps: 1e12 / rate },
            Arrivals::Mmpp { rates, stays_s } => Kind::Mmpp {
                means_ps: rates.map(|r| 1e12 / r),
                stays_ps: stays_s.map(|s| s * 1e12),
                now: 0,
                left_ps: None,
            },
            Arrivals::Renewal { gaps, unit_s } => Kind::Renewal {
                // Checked before.
                gaps: Sampler::new(gaps).unwrap_or(Sampler::fixed(1.0)),
                unit_ps: unit_s * 1e12,
            },
            Arrivals::Rates { step, per_s } => {
                Kind::Rates { step_ps: step.0 as f64, per_s: per_s.clone(), now: 0, into_ps: 0.0 }
            }
            Arrivals::Recorded { times, sizes } => {
                Kind::Recorded { times: times.clone(), sizes: sizes.clone(), now: 0 }
            }
        };
        Draw { kind, random, at_ps: 0.0 }
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Poisson { mean_ps: f64 },
    Constant { gap_ps: f64 },
    Mmpp { means_ps: [f64; 2], stays_ps: [f64; 2], now: usize, left_ps: Option<f64> },
    Renewal { gaps: Sampler, unit_ps: f64 },
    Rates { step_ps: f64, per_s: Arc<[f64]>, now: usize, into_ps: f64 },
    Recorded { times: Arc<[Time]>, sizes: Arc<[f64]>, now: usize },
}

/// Arrivals that are being drawn.
#[derive(Clone, Debug)]
pub struct Draw {
    kind: Kind,
    random: Stream,
    /// Time of the last one. Gaps are rounded once each, so that equal ones do not drift.
    at_ps: f64,
}

/// An arrival: its time, and its size if that was recorded.
pub type Arrival = (Time, Option<f64>);

impl Iterator for Draw {
    type Item = Arrival;

    /// The next one; none if there are no more.
    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        let random = &mut self.random;
        let gap_ps = match &mut self.kind {
            Kind::Poisson { mean_ps } => exponential(random) * *mean_ps,
            Kind::Constant { gap_ps } => *gap_ps,
            Kind::Mmpp { means_ps, stays_ps, now, left_ps } => {
                mmpp(random, *means_ps, *stays_ps, now, left_ps)
            }
            Kind::Renewal { gaps, unit_ps } => gaps.draw(random) * *unit_ps,
            Kind::Rates { step_ps, per_s, now, into_ps } => {
                steps(random, *step_ps, per_s, now, into_ps)?
            }
            Kind::Recorded { times, sizes, now } => {
                let at = *times.get(*now)?;
                let size = sizes.get(*now).copied();
                *now += 1;
                return Some((at, size));
            }
        };
        let at_ps = self.at_ps + gap_ps;
        // Also of an endless gap, and of none that is a number.
        if !(0.0..=LATEST_PS).contains(&at_ps) {
            return None;
        }
        self.at_ps = at_ps;
        // The sum stays unrounded, so that rounding moves single arrivals and not the rate.
        Some((Time((self.at_ps + 0.5) as u64), None))
    }
}

/// Gap until the next arrival of a process that changes its rate meanwhile.
fn mmpp(
    random: &mut Stream,
    means_ps: [f64; 2],
    stays_ps: [f64; 2],
    now: &mut usize,
    left_ps: &mut Option<f64>,
) -> f64 {
    let mut waited = 0.0;
    // With both rates 0 the loop below would never find a gap.
    if means_ps.iter().all(|m| m.is_infinite()) {
        return f64::INFINITY;
    }
    // The process begins in its steady state: in each rate with the share of time that it has.
    let mut left = left_ps.unwrap_or_else(|| {
        *now = usize::from(random.random::<f64>() * (stays_ps[0] + stays_ps[1]) >= stays_ps[0]);
        exponential(random) * stays_ps[*now]
    });
    loop {
        let gap = exponential(random) * means_ps[*now];
        if gap < left {
            // The rest of the stay is kept and not drawn anew, so that a stay lasts as long as was
            // drawn, whatever comes in it.
            *left_ps = Some(left - gap);
            return waited + gap;
        }
        waited += left;
        *now = 1 - *now;
        left = exponential(random) * stays_ps[*now];
    }
}

/// Gap until the next arrival of a Poisson process whose rate changes in steps.
fn steps(
    random: &mut Stream,
    step_ps: f64,
    per_s: &[f64],
    now: &mut usize,
    into_ps: &mut f64,
) -> Option<f64> {
    // The gap is exponential in expected requests; each step uses up as many as it brings in the
    // mean. A step with a rate of 0 uses up none and never reaches the division.
    let mut work = exponential(random);
    let mut waited = 0.0;
    loop {
        let rate = per_s.get(*now)? * 1e-12;
        let left = step_ps - *into_ps;
        if work < rate * left {
            let gap = work / rate;
            *into_ps += gap;
            return Some(waited + gap);
        }
        work -= rate * left;
        waited += left;
        *now += 1;
        *into_ps = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(arrivals: &Arrivals, count: usize) -> Vec<f64> {
        arrivals.check().unwrap();
        let mut draw = arrivals.draw(5, "");
        std::iter::from_fn(|| draw.next()).take(count).map(|(at, _)| at.as_s()).collect()
    }

    /// Fowler-Noll-Vo of these bits: golden values, so that no change of code changes a draw.
    fn digest(bits: impl Iterator<Item = u64>) -> u64 {
        bits.fold(0xcbf2_9ce4_8422_2325, |hash, bits| (hash ^ bits).wrapping_mul(0x100_0000_01b3))
    }

    #[test]
    fn arrivals_are_the_same_in_every_version() {
        let gaps = Law::BoundedPareto { min: 0.1, max: 100.0, shape: 1.1 };
        let found = [
            Arrivals::Poisson { rate: 50.0 },
            Arrivals::Mmpp { rates: [10.0, 100.0], stays_s: [0.2, 0.1] },
            Arrivals::Renewal { gaps, unit_s: 0.1 },
            Arrivals::Rates { step: Time::ns(10_000_000_000), per_s: Arc::new([50.0; 99]) },
        ]
        .map(|arrivals| digest(drawn(&arrivals, 2000).into_iter().map(f64::to_bits)));
        let expected = [
            15_889_925_770_717_695_163,
            6_141_755_842_086_746_508,
            1_885_978_786_057_515_132,
            3_904_632_014_733_713_455,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn rates_are_those_asked_for() {
        let gaps = Law::Uniform { min: 0.0, max: 2.0 };
        for (arrivals, rate) in [
            (Arrivals::Poisson { rate: 50.0 }, 50.0),
            (Arrivals::Constant { rate: 3.0 }, 3.0),
            (Arrivals::Mmpp { rates: [10.0, 100.0], stays_s: [0.2, 0.1] }, 40.0),
            (Arrivals::Renewal { gaps, unit_s: 0.1 }, 10.0),
        ] {
            assert!((arrivals.rate() - rate).abs() < 1e-9, "{arrivals:?}");
            for arrivals in [arrivals.clone(), arrivals.at_rate(1000.0)] {
                let times = drawn(&arrivals, 300_000);
                let found = times.len() as f64 / times.last().unwrap();
                assert!((found / arrivals.rate() - 1.0).abs() < 0.02, "{arrivals:?}: {found}");
            }
        }
    }

    #[test]
    fn an_mmpp_is_burstier_than_its_mean_rate() {
        let dispersion = |arrivals: &Arrivals| {
            let mut counts = vec![0.0f64; 2000];
            for at in drawn(arrivals, 200_000) {
                if let Some(count) = counts.get_mut(at as usize) {
                    *count += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / 2000.0;
            counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 2000.0 / mean
        };
        let poisson = dispersion(&Arrivals::Poisson { rate: 60.0 });
        let bursty = dispersion(&Arrivals::Mmpp { rates: [10.0, 110.0], stays_s: [5.0, 5.0] });
        assert!((poisson - 1.0).abs() < 0.15, "{poisson}");
        assert!(bursty > 10.0, "{bursty}");
    }

    #[test]
    fn steps_hold_their_counts_and_end() {
        let per_s: Arc<[f64]> = Arc::new([100.0, 0.0, 400.0]);
        let times = drawn(&Arrivals::Rates { step: Time::ns(10_000_000_000), per_s }, 1 << 20);
        let within =
            |low: f64, high: f64| times.iter().filter(|&&t| (low..high).contains(&t)).count();
        assert_eq!(within(10.0, 20.0), 0);
        assert!((within(0.0, 10.0) as f64 - 1000.0).abs() < 130.0);
        assert!((within(20.0, 30.0) as f64 - 4000.0).abs() < 260.0);
        assert_eq!(times.len(), within(0.0, 30.0));
    }

    /// A gap of two days was played as one of a day, and all that followed came too early.
    #[test]
    fn days_without_requests_keep_their_length() {
        let day = Time::ns(86_400_000_000_000);
        let per_s: Arc<[f64]> = Arc::new([0.0, 0.0, 0.0, 0.01]);
        let times = drawn(&Arrivals::Rates { step: day, per_s }, 5);
        assert!(times[0] >= 3.0 * 86_400.0 && times[4] < 4.0 * 86_400.0, "{times:?}");
        let rare = drawn(&Arrivals::Constant { rate: 1.0 / 864_000.0 }, 100);
        assert!((rare[1] - 1_728_000.0).abs() < 1e-3, "{rare:?}");
        // Arrivals that would come after any run are left out.
        assert_eq!(rare.len(), 20);
    }

    #[test]
    fn recorded_times_are_counted_in_whole_steps() {
        let times: Arc<[Time]> = [0, 1, 9, 10, 25, 31].map(|s| Time::ns(s * 1_000_000_000)).into();
        let recorded = Arrivals::Recorded { times, sizes: Arc::new([]) };
        let step = Time::ns(10_000_000_000);
        let (found, per_s) = recorded.in_steps(step).unwrap();
        assert_eq!(found, step);
        assert!(per_s.iter().zip([0.3, 0.1, 0.1]).all(|(a, b)| (a - b).abs() < 1e-12), "{per_s:?}");
        assert_eq!(per_s.len(), 3);
        let counts = Arrivals::Rates { step, per_s: Arc::new([2.0, 0.0]) };
        assert_eq!(counts.in_steps(Time::ns(1)), Some((step, vec![2.0, 0.0])));
        assert_eq!(Arrivals::Poisson { rate: 1.0 }.in_steps(step), None);
    }

    #[test]
    fn equal_gaps_do_not_drift() {
        let times = drawn(&Arrivals::Constant { rate: 3.0 }, 300_000);
        assert!((times[299_999] - 100_000.0).abs() < 1e-6, "{}", times[299_999]);
    }

    #[test]
    fn impossible_arrivals_are_refused_and_silent_ones_are_silent() {
        let wrong = [
            Arrivals::Poisson { rate: -1.0 },
            Arrivals::Mmpp { rates: [1.0, f64::NAN], stays_s: [1.0, 1.0] },
            Arrivals::Mmpp { rates: [1.0, 1.0], stays_s: [0.0, 1.0] },
            Arrivals::Rates { step: Time::ZERO, per_s: Arc::new([1.0]) },
            Arrivals::Recorded { times: Arc::new([Time(2), Time(1)]), sizes: Arc::new([]) },
            Arrivals::Recorded { times: Arc::new([Time(2)]), sizes: Arc::new([1.0, 2.0]) },
        ];
        assert!(wrong.iter().all(|a| a.check().is_err()));
        assert_eq!(Arrivals::Poisson { rate: 0.0 }.draw(1, "").next(), None);
        let silent = Arrivals::Mmpp { rates: [0.0, 0.0], stays_s: [1.0, 1.0] };
        assert_eq!(silent.draw(1, "").next(), None);
    }
}
