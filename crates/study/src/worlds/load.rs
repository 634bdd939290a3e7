//! Arrivals as they are written on the command line and in studies.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use halfwink_arrivals::counts::Counts;
use halfwink_arrivals::log::{Log, LogOptions, Sizes};
use halfwink_arrivals::Skipped;
use halfwink_engine::Cdf;
use halfwink_server::Arrivals;

use crate::error::StudyError;
use crate::library::Library;

/// The rate of requests, in one of the units that people use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Per cent of what the machine, or both machines together, carry.
    Percent(f64),
    /// A rate in requests per second.
    PerSecond(f64),
}

/// The contents of a file of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Requests: common or combined log format, or CSV.
    Log,
    /// Requests in each minute, hour ...
    Counts,
    /// The distribution of gaps between requests.
    Gaps,
}

/// The process by which requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerLoad {
    /// Independent of each other, with exponential gaps.
    Poisson(Rate),
    /// Arrivals at equal distances.
    Constant(Rate),
    /// Poisson of two rates in turn, each for so many seconds in the mean.
    Mmpp([Rate; 2], [f64; 2]),
    /// Arrivals from a file, at this mean rate or as they were.
    File(Kind, PathBuf, Option<Rate>),
}

/// Arrivals, and what was left out of their file.
pub(crate) struct Read {
    pub(crate) arrivals: Arrivals,
    pub(crate) bad_lines: u64,
    pub(crate) bad_line: String,
}

impl Rate {
    fn parse(text: &str) -> Option<Rate> {
        let text = text.trim();
        let number = |text: &str, most: f64| {
            text.trim().parse().ok().filter(|n: &f64| (0.0..=most).contains(n))
        };
        if let Some(rate) = text.strip_suffix("/s") {
            return number(rate, 1e12).map(Rate::PerSecond);
        }
        number(text.strip_suffix('%').unwrap_or(text), 1e6).map(Rate::Percent)
    }

    /// Returns the rate in requests per second.
    #[must_use]
    pub fn per_s(self, capacity: f64) -> f64 {
        match self {
            Rate::Percent(percent) => percent / 100.0 * capacity,
            Rate::PerSecond(rate) => rate,
        }
    }
}

impl Kind {
    const ALL: [(Kind, &'static str); 3] =
        [(Kind::Log, "log:"), (Kind::Counts, "counts:"), (Kind::Gaps, "gaps:")];

    fn prefix(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, prefix)| prefix)
    }
}

impl ServerLoad {
    /// Reads `30` or `30%` (Poisson, of what is carried), `200/s`, `constant:30`,
    /// `mmpp:10,90,5,1` (two loads, and how many seconds each lasts in the mean), `log:FILE`,
    /// `counts:FILE`, `gaps:FILE@30` (a file, and at which mean rate).
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<ServerLoad, StudyError> {
        let file = Kind::ALL.iter().find_map(|(kind, p)| Some((*kind, text.strip_prefix(p)?)));
        let read = |text: &str| -> Option<ServerLoad> {
            if let Some((kind, rest)) = file {
                let (path, rate) = match rest.rsplit_once('@') {
                    Some((path, rate)) => (path, Some(Rate::parse(rate)?)),
                    None => (rest, None),
                };
                let known = rate.is_some() || kind != Kind::Gaps;
                return (known && !path.is_empty())
                    .then(|| ServerLoad::File(kind, PathBuf::from(path), rate));
            }
            if let Some(rate) = text.strip_prefix("constant:") {
                return Rate::parse(rate).map(ServerLoad::Constant);
            }
            if let Some(parts) = text.strip_prefix("mmpp:") {
                let &[low, high, first, second] = parts.split(',').collect::<Vec<_>>().as_slice()
                else {
                    return None;
                };
                let seconds = |text: &str| {
                    text.trim().parse().ok().filter(|s: &f64| (1e-9..=1e9).contains(s))
                };
                let stays = [seconds(first)?, seconds(second)?];
                return Some(ServerLoad::Mmpp([Rate::parse(low)?, Rate::parse(high)?], stays));
            }
            Rate::parse(text.strip_prefix("poisson:").unwrap_or(text)).map(ServerLoad::Poisson)
        };
        read(text).ok_or_else(|| {
            let message = "expected per cent of what is carried or requests per second \
                           (30, 200/s), constant:30, mmpp:10,90,5,1 (two loads, seconds of each), \
                           log:FILE, counts:FILE, or gaps:FILE@30 (@: the mean rate)";
            StudyError::Usage(format!("unknown load `{text}`; {message}"))
        })
    }

    /// Returns whether it ends by itself.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self, ServerLoad::File(Kind::Log | Kind::Counts, ..))
    }

    /// The arrivals, where so many requests per second are carried.
    pub(crate) fn read(&self, library: &Library, capacity: f64) -> Result<Read, StudyError> {
        let arrivals = match self {
            ServerLoad::Poisson(rate) => Arrivals::Poisson { rate: rate.per_s(capacity) },
            ServerLoad::Constant(rate) => Arrivals::Constant { rate: rate.per_s(capacity) },
            ServerLoad::Mmpp(rates, stays_s) => {
                Arrivals::Mmpp { rates: rates.map(|r| r.per_s(capacity)), stays_s: *stays_s }
            }
            ServerLoad::File(kind, path, rate) => {
                let mut read = from_file(library, *kind, path)?;
                if let Some(rate) = rate {
                    read.arrivals = read.arrivals.at_rate(rate.per_s(capacity));
                }
                return Ok(read);
            }
        };
        Ok(Read { arrivals, bad_lines: 0, bad_line: String::new() })
    }
}

/// One's own file, or one of the library's; and where it was.
pub(crate) fn open(library: &Library, path: &Path) -> Result<(File, PathBuf), StudyError> {
    // If neither is there, as it was typed.
    let shipped = library.folder(&path.display().to_string());
    let path = if path.exists() || !shipped.exists() { path.to_owned() } else { shipped };
    let wrong = |e: std::io::Error| StudyError::Usage(format!("{}: {e}", path.display()));
    let file = File::open(&path).map_err(wrong)?;
    Ok((file, path))
}

fn from_file(library: &Library, kind: Kind, path: &Path) -> Result<Read, StudyError> {
    let (file, path) = open(library, path)?;
    let wrong = |message: String| StudyError::Usage(format!("{}: {message}", path.display()));
    let read = |arrivals: Arrivals, skipped: &Skipped| Read {
        arrivals,
        bad_lines: skipped.count,
        bad_line: skipped.examples.first().map(ToString::to_string).unwrap_or_default(),
    };
    match kind {
        Kind::Log => {
            let log = Log::read(file, &LogOptions::default()).map_err(|e| wrong(e.to_string()))?;
            let skipped = log.skipped.clone();
            // The workloads of the thesis take kilobytes; other sizes mean nothing to them.
            let unit = (log.sizes_are == Some(Sizes::Bytes)).then_some(1e-3);
            Ok(read(log.arrivals(unit), &skipped))
        }
        Kind::Counts => {
            let most_bad = LogOptions::default().bad_lines;
            let counts = Counts::read(file, most_bad).map_err(|e| wrong(e.to_string()))?;
            Ok(read(counts.arrivals(), &counts.skipped))
        }
        Kind::Gaps => {
            let text = std::io::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
            let cdf = Cdf::parse(&text).map_err(|e| wrong(e.to_string()))?;
            let arrivals = Arrivals::Renewal { gaps: cdf.law(), unit_s: 1.0 };
            Ok(read(arrivals, &Skipped::default()))
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Percent(percent) => write!(f, "{percent}%"),
            Rate::PerSecond(rate) => write!(f, "{rate}/s"),
        }
    }
}

impl fmt::Display for ServerLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerLoad::Poisson(rate) => write!(f, "{rate}"),
            ServerLoad::Constant(rate) => write!(f, "constant:{rate}"),
            ServerLoad::Mmpp([low, high], [first, second]) => {
                write!(f, "mmpp:{low},{high},{first},{second}")
            }
            ServerLoad::File(kind, path, rate) => {
                write!(f, "{}{}", kind.prefix(), path.display())?;
                rate.map_or(Ok(()), |rate| write!(f, "@{rate}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read() {
        use Rate::{PerSecond, Percent};
        for (text, load) in [
            ("30", ServerLoad::Poisson(Percent(30.0))),
            ("poisson:30%", ServerLoad::Poisson(Percent(30.0))),
            ("200/s", ServerLoad::Poisson(PerSecond(200.0))),
            ("constant:5.5/s", ServerLoad::Constant(PerSecond(5.5))),
            ("mmpp:10,90%,5,0.2", ServerLoad::Mmpp([Percent(10.0), Percent(90.0)], [5.0, 0.2])),
            ("log:a@b.log@20", ServerLoad::File(Kind::Log, "a@b.log".into(), Some(Percent(20.0)))),
            ("counts:c.csv", ServerLoad::File(Kind::Counts, "c.csv".into(), None)),
        ] {
            assert_eq!(ServerLoad::parse(text).unwrap(), load, "{text}");
            assert_eq!(ServerLoad::parse(&load.to_string()).unwrap(), load, "{text}");
        }
        let wrong = ["", "-1", "mmpp:1,2", "mmpp:1,2,3,0", "nan", "constant:", "5/h", "log:"];
        for text in wrong.into_iter().chain(["gaps:a.cdf", "log:a@b", "counts:@3"]) {
            let said = ServerLoad::parse(text).unwrap_err().to_string();
            assert!(said.contains("unknown load"), "{said}");
        }
    }

    #[test]
    fn shipped_files_are_read() {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        for (text, rate) in [
            ("counts:workloads/worldcup98-1998-06-30.csv@25/s", 25.0),
            ("gaps:workloads/server/csedns.arrival.cdf@40%", 400.0),
        ] {
            let read = ServerLoad::parse(text).unwrap().read(&library, 1000.0).unwrap();
            assert!((read.arrivals.rate() / rate - 1.0).abs() < 1e-6, "{text}");
            assert_eq!(read.bad_lines, 0);
        }
        let missing = ServerLoad::parse("log:none.log").unwrap().read(&library, 1.0);
        assert!(missing.err().unwrap().to_string().starts_with("none.log: "));
    }
}
