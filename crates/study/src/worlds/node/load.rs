//! Loads of a server of today as they are written: open ones, and clients that wait.

use std::io::Read as _;
use std::path::Path;

use halfwink_arrivals::Arrivals;
use halfwink_engine::{Cdf, Law, Sampler};
use halfwink_node::{Clients, Load};

use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::requests::Read;
use crate::worlds::load::{open, ServerLoad, CLIENTS};

/// A load, read for a machine that carries so much.
pub(super) struct Asked {
    pub(super) load: Load,
    /// True if its arrivals end by themselves.
    pub(super) ends: bool,
    pub(super) bad_lines: u64,
    /// Format of its file, and what was played and left out; empty without a file.
    pub(super) read_as: String,
}

impl Asked {
    /// Reads a load. `capacity` is the rate that the cores carry.
    pub(super) fn read(
        library: &Library,
        (job, text): (&Job, &str),
        capacity: f64,
    ) -> Result<Asked, StudyError> {
        if text.starts_with(CLIENTS) {
            let load = Load::Closed(clients(library, text)?);
            return Ok(Asked { load, ends: false, bad_lines: 0, read_as: String::new() });
        }
        let load = ServerLoad::parse(text)?;
        let read = load.read(library, |_| capacity)?;
        let Read { arrivals, served_s, bad_lines, read_as, .. } = read;
        if served_s.is_some() {
            return Err(StudyError::Usage(format!(
                "`{}`: the file has times of service, and here a profile says how long requests \
                 take; expected a file without them, or -w server",
                job.workload
            )));
        }
        carries(job, &arrivals, capacity)?;
        Ok(Asked { load: Load::Open(arrivals), ends: load.ends(), bad_lines, read_as })
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.load, Load::Closed(_))
    }
}

/// Checks that an open load can be served.
fn carries(job: &Job, arrivals: &Arrivals, capacity: f64) -> Result<(), StudyError> {
    let rate = arrivals.rate();
    // At the capacity itself the queue grows without bound, and any result would be one of the
    // run's length.
    if rate >= capacity {
        return Err(StudyError::Usage(format!(
            "`{}`: {rate:.0} requests a second, and {} carries {capacity:.0} at most; nothing is \
             saved by not serving them",
            job.workload, job.machine
        )));
    }
    if rate <= 0.0 {
        let message = format!("`{}`: no request comes at this load", job.workload);
        return Err(StudyError::Usage(message));
    }
    Ok(())
}

/// Reads `clients:64:think=1ms`, perhaps with `:law=constant` or `:law=FILE` behind it.
fn clients(library: &Library, text: &str) -> Result<Clients, StudyError> {
    let wrong = |what: String| {
        let expected = "expected clients:64:think=1ms (clients, mean time from an answer to the \
                        next request: us, ms or s), perhaps :law=constant or :law=FILE behind it \
                        (a distribution of think times)";
        StudyError::Usage(format!("`{text}`: {what}; {expected}"))
    };
    // Three at most: a file behind `law=` may have a colon in its name.
    let mut parts = text.trim_start_matches(CLIENTS).splitn(3, ':');
    let count = parts.next().unwrap_or_default();
    let count = count.trim().parse().map_err(|_| wrong(format!("`{count}` clients")))?;
    let think = parts.next().and_then(|part| part.trim().strip_prefix("think="));
    let think = think.ok_or_else(|| wrong("no think time".to_owned()))?;
    let mean_us = microseconds(think).ok_or_else(|| wrong(format!("a think time of `{think}`")))?;
    let think_us = match parts.next().map(|part| part.trim().strip_prefix("law=").ok_or(part)) {
        None | Some(Ok("exponential")) => Law::Exponential { mean: mean_us },
        Some(Ok("constant")) => Law::Fixed { value: mean_us },
        Some(Ok(file)) => distribution(library, file, mean_us)?,
        Some(Err(part)) => return Err(wrong(format!("`{part}`"))),
    };
    let clients = Clients { count, think_us };
    Load::Closed(clients.clone()).check().map_err(wrong)?;
    Ok(clients)
}

fn microseconds(text: &str) -> Option<f64> {
    // `ms` and `us` end in `s` too.
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, unit) =
        units.iter().find_map(|(name, us)| Some((text.strip_suffix(name)?, us)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number * unit).is_finite().then_some(number * unit)
}

/// A distribution of BigHouse's format, scaled to this mean.
fn distribution(library: &Library, file: &str, mean_us: f64) -> Result<Law, StudyError> {
    let wrong = |message: String| StudyError::Usage(format!("{file}: {message}"));
    let mut text = String::new();
    open(library, Path::new(file))?.read_to_string(&mut text).map_err(|e| wrong(e.to_string()))?;
    let cdf = Cdf::parse(&text).map_err(|e| wrong(e.to_string()))?;
    let mean = Sampler::new(&cdf.clone().law()).map_err(wrong)?.mean();
    Ok(cdf.scaled(mean_us / mean).law())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::library;

    #[test]
    fn client_loads_parse_to_their_clients() {
        let file = "workloads/server/csedns.arrival.cdf";
        for (text, count, mean_us) in [
            ("clients:64:think=1ms", 64, 1000.0),
            ("clients: 1 :think= 20us", 1, 20.0),
            ("clients:8:think=0.5s:law=constant", 8, 5e5),
            (&format!("clients:8:think=3ms:law={file}"), 8, 3000.0),
        ] {
            let found = clients(&library(), text).unwrap();
            assert_eq!(found.count, count, "{text}");
            let mean = Sampler::new(&found.think_us).unwrap().mean();
            assert!((mean / mean_us - 1.0).abs() < 1e-9, "{text}: {mean}");
        }
    }

    #[test]
    fn what_are_no_clients_is_said() {
        for (text, said) in [
            ("clients:", "`` clients"),
            ("clients:0:think=1ms", "0 clients"),
            ("clients:64", "no think time"),
            ("clients:64:1ms", "no think time"),
            ("clients:64:think=1", "a think time of `1`"),
            ("clients:64:think=0ms", "think time: "),
            ("clients:64:think=-1ms", "think time: "),
            ("clients:64:think=nanms", "a think time of `nanms`"),
            ("clients:64:think=1ms:often", "`often`"),
        ] {
            let found = clients(&library(), text).unwrap_err().to_string();
            assert!(found.contains(said) && found.contains("expected clients:64:"), "{found}");
        }
        let none = clients(&library(), "clients:64:think=1ms:law=none.cdf").unwrap_err();
        assert!(none.to_string().contains("none.cdf"), "{none}");
    }
}
