//! Arrivals as they are written on the command line and in studies.

use std::fmt;
use std::path::{Path, PathBuf};

use halfwink_arrivals::counts::{CountOptions, Counts, Values};
use halfwink_arrivals::log::{Log, LogOptions, Sizes, Unit};
use halfwink_arrivals::Arrivals;
use halfwink_engine::Cdf;
use halfwink_inputs::{expand, open_input, Budget, Opened, Share};
use halfwink_units::Time;

use crate::error::StudyError;
use crate::library::Library;
use crate::requests::Read;

/// Most bytes of a file of arrivals, unpacked.
const MOST_BYTES: u64 = 1 << 36;

/// Beginning of a load of clients that wait for their answers, which only a server of today has.
pub(crate) const CLIENTS: &str = "clients:";

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
    File(Kind, Reading, PathBuf, Option<Rate>),
}

/// How to read a file, where it does not say so itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The column of times of a CSV, by name or number.
    pub time_column: Option<String>,
    /// The unit of times that are numbers.
    pub time_unit: Option<Unit>,
    /// Whether any share of lines may be bad.
    pub any_bad_lines: bool,
    /// The meaning of the values of counts.
    pub values: Option<Values>,
}

impl Reading {
    /// Reads `time-unit=ms:`, `time-column=NAME:`, `values=rates:` and `ignore=bad-lines:` before a
    /// file's name.
    fn parse(mut text: &str) -> Option<(Reading, &str)> {
        let mut reading = Reading::default();
        while let Some((option, rest)) = text.split_once(':') {
            match option.split_once('=') {
                Some(("time-unit", unit)) => reading.time_unit = Some(Unit::parse(unit)?),
                Some(("time-column", name)) => reading.time_column = Some(name.to_owned()),
                Some(("values", "rates")) => reading.values = Some(Values::Rates),
                Some(("values", "counts")) => reading.values = Some(Values::Counts),
                Some(("ignore", "bad-lines")) => reading.any_bad_lines = true,
                // A part that is no option begins the file's name, which may have a colon of its
                // own.
                _ => break,
            }
            text = rest;
        }
        Some((reading, text))
    }

    fn share(&self) -> Share {
        if self.any_bad_lines {
            Share::ALL
        } else {
            Share::default()
        }
    }
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
        // The bounds also keep NaN and infinity out, which `parse` accepts.
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
    /// Reads `30` or `30%` (Poisson, of what both machines carry), `200/s`, `constant:30`,
    /// `mmpp:10,90,5,1` (two loads, and how many seconds each lasts in the mean), `log:FILE`,
    /// `counts:FILE`, `gaps:FILE@30` (a file, and at which mean rate); before a file's name perhaps
    /// how to read it (`log:time-unit=ms:FILE`).
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<ServerLoad, StudyError> {
        let file = Kind::ALL.iter().find_map(|(kind, p)| Some((*kind, text.strip_prefix(p)?)));
        let read = |text: &str| -> Option<ServerLoad> {
            if let Some((kind, rest)) = file {
                // From the right, since a path may contain an `@`; one in the name itself needs a
                // rate behind it.
                let (path, rate) = match rest.rsplit_once('@') {
                    Some((path, rate)) => (path, Some(Rate::parse(rate)?)),
                    None => (rest, None),
                };
                // A distribution of gaps says a shape, and only the rate its scale.
                let known = rate.is_some() || kind != Kind::Gaps;
                let (reading, path) = Reading::parse(path)?;
                return (known && !path.is_empty())
                    .then(|| ServerLoad::File(kind, reading, PathBuf::from(path), rate));
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
        if text.starts_with(CLIENTS) {
            return Err(StudyError::Usage(format!(
                "`{text}`: clients that wait for their answers are a load of a server of today \
                 (-w node); here requests come at their own times"
            )));
        }
        read(text).ok_or_else(|| {
            let message = "expected per cent of what the machines carry or requests per second \
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

    /// Reads the arrivals. `capacity` says how many requests per second are carried: of the
    /// workload, or if the file has times of service, of these in the mean.
    pub(crate) fn read(
        &self,
        library: &Library,
        capacity: impl Fn(Option<f64>) -> f64,
    ) -> Result<Read, StudyError> {
        let full = capacity(None);
        let arrivals = match self {
            ServerLoad::Poisson(rate) => Arrivals::Poisson { rate: rate.per_s(full) },
            ServerLoad::Constant(rate) => Arrivals::Constant { rate: rate.per_s(full) },
            ServerLoad::Mmpp(rates, stays_s) => {
                Arrivals::Mmpp { rates: rates.map(|r| r.per_s(full)), stays_s: *stays_s }
            }
            ServerLoad::File(kind, reading, path, rate) => {
                let mut read = from_file(library, *kind, reading, path)?;
                read.full = capacity(read.served_s);
                if let Some(rate) = rate {
                    read.arrivals = read.arrivals.at_rate(rate.per_s(read.full));
                }
                return Ok(read);
            }
        };
        Ok(Read { full, ..Read::of(arrivals) })
    }
}

/// Rates of a file, by steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Day {
    /// Length of each step, in seconds.
    pub step_s: f64,
    /// Requests per second in each step.
    pub per_s: Vec<f64>,
    /// Format of the file, and what was played and left out.
    pub read_as: String,
    /// Lines that were left out.
    pub bad_lines: u64,
    /// Steps that are not in the file, and hold no requests.
    pub missing: u64,
}

impl Day {
    /// Reads `counts:FILE`, or `log:FILE` in whole steps of `step`; `@RATE` behind it scales it to
    /// that mean rate, in requests per second.
    ///
    /// # Errors
    /// If the text is no such load, or the file cannot be read as one.
    pub fn read(library: &Library, text: &str, step: Time) -> Result<Day, StudyError> {
        let load = ServerLoad::parse(text)?;
        let wrong = || StudyError::Usage(format!("`{text}`: expected counts:FILE or log:FILE"));
        if !load.ends() {
            return Err(wrong());
        }
        if let ServerLoad::File(.., Some(Rate::Percent(_))) = load {
            return Err(StudyError::Usage(format!(
                "`{text}`: expected requests per second behind @"
            )));
        }
        // No machine is known here; the check above leaves no rate that would need its capacity.
        let read = load.read(library, |_| 1.0)?;
        let (step, per_s) = read.arrivals.in_steps(step).ok_or_else(wrong)?;
        let Read { read_as, bad_lines, missing, .. } = read;
        Ok(Day { step_s: step.as_s(), per_s, read_as, bad_lines, missing })
    }
}

/// One's own file, or one of the library's.
pub(crate) fn open(library: &Library, path: &Path) -> Result<Opened, StudyError> {
    open_found(&found(library, path))
}

fn open_found(path: &Path) -> Result<Opened, StudyError> {
    let opened = open_input(path, &Budget::new(MOST_BYTES)).and_then(Opened::text);
    opened.map_err(|error| StudyError::Usage(error.to_string()))
}

/// Returns the path of one's own file, or of one of the library's.
fn found(library: &Library, path: &Path) -> PathBuf {
    // If neither is there, as it was typed.
    let own = expand(path);
    let shipped = library.folder(&path.display().to_string());
    if own.exists() || !shipped.exists() {
        own
    } else {
        shipped
    }
}

fn from_file(
    library: &Library,
    kind: Kind,
    reading: &Reading,
    path: &Path,
) -> Result<Read, StudyError> {
    let path = found(library, path);
    let load = ServerLoad::File(kind, reading.clone(), path.clone(), None);
    library.requests(load.to_string(), &path, || read_file(kind, reading, &path))
}

fn read_file(kind: Kind, reading: &Reading, path: &Path) -> Result<Read, StudyError> {
    let mut file = open_found(path)?;
    let name = file.path().to_owned();
    let wrong = |message: String| StudyError::Usage(format!("{}: {message}", name.display()));
    match kind {
        Kind::Log => {
            let options = LogOptions {
                bad: reading.share(),
                time_column: reading.time_column.clone(),
                time_unit: reading.time_unit,
                ..LogOptions::default()
            };
            let log = Log::read(file, &options).map_err(|e| wrong(e.to_string()))?;
            let (skipped, mut account) = (log.skipped.clone(), log.account.clone());
            let mut served_s = None;
            let unit = match log.sizes_are {
                // The workloads of the thesis take kilobytes.
                Some(Sizes::Bytes) => Some(1e-3),
                Some(Sizes::Service) => {
                    served_s = Some(log.sizes.iter().sum::<f64>() / log.sizes.len() as f64);
                    account.play("times of service", log.sizes.len() as u64);
                    Some(1.0)
                }
                // Sizes in another unit mean nothing to them.
                Some(Sizes::Size) => {
                    let why = "in no unit that is known: sizes are drawn";
                    account.leave_out("sizes", why, log.sizes.len() as u64);
                    None
                }
                None => None,
            };
            let read = Read::of(log.arrivals(unit)).without(&skipped);
            Ok(Read { served_s, read_as: account.to_string(), ..read })
        }
        Kind::Counts => {
            let options = CountOptions { bad: reading.share(), values: reading.values };
            let counts = Counts::read(file, options).map_err(|e| wrong(e.to_string()))?;
            let read = Read::of(counts.arrivals()).without(&counts.skipped);
            let read_as = counts.account.to_string();
            Ok(Read { missing: counts.missing, read_as, ..read })
        }
        Kind::Gaps => {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut file, &mut text)
                .map_err(|e| wrong(e.to_string()))?;
            let cdf = Cdf::parse(&text).map_err(|e| wrong(e.to_string()))?;
            // In seconds, though any unit would do: `@RATE` scales it.
            Ok(Read::of(Arrivals::Renewal { gaps: cdf.law(), unit_s: 1.0 }))
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(unit) = self.time_unit {
            write!(f, "time-unit={}:", unit.name())?;
        }
        if let Some(column) = &self.time_column {
            write!(f, "time-column={column}:")?;
        }
        match self.values {
            Some(Values::Rates) => write!(f, "values=rates:")?,
            Some(Values::Counts) => write!(f, "values=counts:")?,
            None => {}
        }
        if self.any_bad_lines {
            write!(f, "ignore=bad-lines:")?;
        }
        Ok(())
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
            ServerLoad::File(kind, reading, path, rate) => {
                write!(f, "{}{reading}{}", kind.prefix(), path.display())?;
                rate.map_or(Ok(()), |rate| write!(f, "@{rate}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_texts_parse_to_their_loads() {
        use Rate::{PerSecond, Percent};
        let plain = Reading::default;
        for (text, load) in [
            ("30", ServerLoad::Poisson(Percent(30.0))),
            ("poisson:30%", ServerLoad::Poisson(Percent(30.0))),
            ("200/s", ServerLoad::Poisson(PerSecond(200.0))),
            ("constant:5.5/s", ServerLoad::Constant(PerSecond(5.5))),
            ("mmpp:10,90%,5,0.2", ServerLoad::Mmpp([Percent(10.0), Percent(90.0)], [5.0, 0.2])),
            (
                "log:a@b.log@20",
                ServerLoad::File(Kind::Log, plain(), "a@b.log".into(), Some(Percent(20.0))),
            ),
            (
                "counts:values=rates:c.csv",
                ServerLoad::File(
                    Kind::Counts,
                    Reading { values: Some(Values::Rates), ..plain() },
                    "c.csv".into(),
                    None,
                ),
            ),
            ("counts:c.csv", ServerLoad::File(Kind::Counts, plain(), "c.csv".into(), None)),
            (
                "log:time-unit=ms:time-column=t:ignore=bad-lines:c:d.csv",
                ServerLoad::File(
                    Kind::Log,
                    Reading {
                        time_column: Some("t".to_owned()),
                        time_unit: Some(Unit::Milliseconds),
                        any_bad_lines: true,
                        values: None,
                    },
                    "c:d.csv".into(),
                    None,
                ),
            ),
        ] {
            assert_eq!(ServerLoad::parse(text).unwrap(), load, "{text}");
            assert_eq!(ServerLoad::parse(&load.to_string()).unwrap(), load, "{text}");
        }
        let wrong = ["", "-1", "mmpp:1,2", "mmpp:1,2,3,0", "nan", "constant:", "5/h", "log:"];
        for text in
            wrong.into_iter().chain(["gaps:a.cdf", "log:a@b", "counts:@3", "log:time-unit=h:a"])
        {
            let said = ServerLoad::parse(text).unwrap_err().to_string();
            assert!(said.contains("unknown load"), "{said}");
        }
    }

    #[test]
    fn file_is_read_once_as_long_as_it_is_the_same() {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let read = |load: &str| {
            let load = format!("{load}{}", path.display());
            match ServerLoad::parse(&load).unwrap().read(&library, |_| 1000.0).unwrap().arrivals {
                Arrivals::Recorded { times, .. } => times,
                other => panic!("{other:?}"),
            }
        };
        std::fs::write(&path, "time_s,bytes\n0,1\n1,2\n3,1\n").unwrap();
        let once = read("log:");
        // Jobs that ask at the same time wait for the first of them.
        let both = std::thread::scope(|scope| {
            [(); 2].map(|()| scope.spawn(|| read("log:"))).map(|thread| thread.join().unwrap())
        });
        assert!(both.iter().all(|it| std::sync::Arc::ptr_eq(it, &once)));
        // Other options read other times.
        assert_eq!(read("log:time-unit=ms:").last(), Some(&Time::ns(3_000_000)));
        std::fs::write(&path, "time_s,bytes\n0,1\n1,2\n3,1\n8,1\n").unwrap();
        assert_eq!((once.len(), read("log:").len()), (3, 4));
        std::fs::remove_file(&path).unwrap();
        let load = ServerLoad::parse(&format!("log:{}", path.display())).unwrap();
        assert!(load.read(&library, |_| 1000.0).is_err());
    }

    #[test]
    fn shipped_files_are_read() {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        for (text, rate) in [
            ("counts:workloads/worldcup98-1998-06-30.csv@25/s", 25.0),
            ("gaps:workloads/server/csedns.arrival.cdf@40%", 0.4),
        ] {
            let read = ServerLoad::parse(text).unwrap().read(&library, |_| 1000.0).unwrap();
            let rate = if rate < 1.0 { rate * read.full } else { rate };
            assert!((read.arrivals.rate() / rate - 1.0).abs() < 1e-6, "{text}");
            assert_eq!(read.bad_lines, 0);
        }
        let missing = ServerLoad::parse("log:none.log").unwrap().read(&library, |_| 1000.0);
        assert!(missing.err().unwrap().to_string().starts_with("none.log: "));
    }
}
