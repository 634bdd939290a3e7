//! What this machine really draws: the energy counters of its processors (RAPL), where Linux shows
//! them under `class/powercap` (Documentation/power/powercap/powercap.rst).
//!
//! A counter is in microjoules and begins again at zero behind its largest value, so it is read
//! more often than it can come round. It counts all that runs on the machine, not the program
//! alone.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Variable with the folder that holds `class/powercap`, instead of `/sys`: a container may see the
/// host's elsewhere.
pub const SYSFS: &str = "HALFWINK_SYSFS";

/// Between two readings. The smallest counters hold 65 kJ (2^32 units of 15.3 uJ, Intel SDM volume
/// 3, 15.10.1), which takes a minute at a kilowatt.
const BETWEEN: Duration = Duration::from_secs(20);

/// Readings since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// A meter for each domain that can be read. Packages hold their `core` and `uncore`; `psys`
    /// holds all: they are not to be added up.
    pub meters: Vec<Reading>,
    /// Domains that cannot be read, with reasons; null if none is missing.
    pub missing: Option<String>,
}

/// Readings of a meter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// `RAPL package-0`, `RAPL package-0 core`.
    pub meter: String,
    /// Between the first reading and the last.
    pub energy_j: f64,
    /// Time between the readings, in seconds.
    pub duration_s: f64,
    /// Mean power; null before the second reading.
    pub energy_w: Option<f64>,
    /// Reason why it is no longer read; null if it is.
    pub ended: Option<String>,
}

/// Counter of a domain.
#[derive(Debug)]
struct Domain {
    meter: String,
    folder: PathBuf,
    /// Largest value of the counter, in microjoules.
    range_uj: u64,
    last_uj: u64,
    sum_uj: u64,
    began: Instant,
    read: Instant,
    ended: Option<String>,
}

/// The counters of a machine.
#[derive(Debug, Default)]
struct Domains {
    readable: Vec<Domain>,
    missing: Option<String>,
}

/// Reads the counters of this machine until it is dropped.
#[derive(Debug)]
pub struct Meter {
    domains: Arc<Mutex<Domains>>,
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Meter {
    /// Begins to read what there is; that there is nothing is no error.
    #[must_use]
    pub fn begin() -> Meter {
        Meter::of(&sysfs())
    }

    /// Creates a meter whose system files are in `sysfs`.
    #[must_use]
    pub fn of(sysfs: &Path) -> Meter {
        let domains = Domains::find(sysfs);
        let is_worth_it = !domains.readable.is_empty();
        let domains = Arc::new(Mutex::new(domains));
        let reader = is_worth_it.then(|| read_on(Arc::clone(&domains))).flatten();
        Meter { domains, reader }
    }

    /// Returns the readings up to now.
    #[must_use]
    pub fn look(&self) -> Measured {
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.read();
        domains.measured()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.reader.take() {
            // The thread waits for this end of the channel to go.
            drop(end);
            // It has nothing to say: a domain that fails is marked, not a panic.
            let _ = thread.join();
        }
    }
}

fn sysfs() -> PathBuf {
    std::env::var_os(SYSFS).map_or_else(|| PathBuf::from("/sys"), PathBuf::from)
}

/// Meters of this machine that can be read, and what cannot, and why.
#[must_use]
pub fn probe() -> (Vec<String>, Option<String>) {
    let Domains { readable, missing } = Domains::find(&sysfs());
    (readable.into_iter().map(|domain| domain.meter).collect(), missing)
}

/// Starts a thread that reads before a counter can wrap twice. Without it, callers must read that
/// often.
fn read_on(domains: Arc<Mutex<Domains>>) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (end, ended) = mpsc::channel::<()>();
    let body = move || {
        while ended.recv_timeout(BETWEEN) == Err(RecvTimeoutError::Timeout) {
            domains.lock().unwrap_or_else(PoisonError::into_inner).read();
        }
    };
    let thread = std::thread::Builder::new().name("meter".to_owned()).spawn(body).ok()?;
    Some((end, thread))
}

impl Domains {
    fn find(sysfs: &Path) -> Domains {
        let folder = sysfs.join("class/powercap");
        let mut names: Vec<String> = match fs::read_dir(&folder) {
            Ok(entries) => {
                let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                // The control types themselves (`intel-rapl`) have no counters.
                names.filter(|name| name.contains(':')).collect()
            }
            Err(e) => return Domains { missing: Some(wrong(&folder, e)), ..Domains::default() },
        };
        // The same counters may be there twice, by register and by memory (`intel-rapl-mmio`).
        let prefix = ["intel-rapl:", "intel-rapl-mmio:"];
        let shown = prefix.iter().find(|p| names.iter().any(|name| name.starts_with(**p)));
        let Some(shown) = shown else {
            let missing = Some(format!("{}: no intel-rapl domain", folder.display()));
            return Domains { missing, ..Domains::default() };
        };
        names.retain(|name| name.starts_with(shown));
        // As text, `intel-rapl:10` would stand before `intel-rapl:2`.
        names.sort_by_key(|name| numbers(name));
        let mut found = Domains::default();
        let mut missing = Vec::new();
        for name in &names {
            match Domain::open(&folder, name) {
                Ok(domain) => found.readable.push(domain),
                Err(why) => missing.push(why),
            }
        }
        found.missing = (!missing.is_empty()).then(|| missing.join("; "));
        found
    }

    fn read(&mut self) {
        self.readable.iter_mut().for_each(Domain::read);
    }

    fn measured(&self) -> Measured {
        let meters = self.readable.iter().map(Domain::reading).collect();
        Measured { meters, missing: self.missing.clone() }
    }
}

/// `intel-rapl:1:0` is the first part of the second package: 1, 0.
fn numbers(name: &str) -> Vec<u32> {
    name.split(':').skip(1).filter_map(|number| number.parse().ok()).collect()
}

impl Domain {
    fn open(folder: &Path, name: &str) -> Result<Domain, String> {
        let own = folder.join(name);
        let title = |folder: &Path| text(&folder.join("name"));
        let meter = match name.matches(':').count() {
            1 => format!("RAPL {}", title(&own)?),
            // Parts of two packages have the same names.
            _ => {
                let package = name.rsplit_once(':').map_or(name, |(package, _)| package);
                format!("RAPL {} {}", title(&folder.join(package))?, title(&own)?)
            }
        };
        let range_uj = count(&own.join("max_energy_range_uj"))?;
        let last_uj = count(&own.join("energy_uj"))?;
        let now = Instant::now();
        Ok(Domain {
            meter,
            folder: own,
            range_uj,
            last_uj,
            sum_uj: 0,
            began: now,
            read: now,
            ended: None,
        })
    }

    /// Reads the counter. A domain that cannot be read any more keeps its energy, and is not read
    /// again, since its count in between is unknown.
    fn read(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let next = count(&self.folder.join("energy_uj")).and_then(|now_uj| {
            let beyond = || format!("{}: beyond its range: {now_uj} uJ", self.meter);
            let gone_uj = gone(self.last_uj, now_uj, self.range_uj).ok_or_else(beyond)?;
            Ok((now_uj, gone_uj))
        });
        match next {
            Ok((now_uj, gone_uj)) => {
                (self.last_uj, self.read) = (now_uj, Instant::now());
                self.sum_uj += gone_uj;
            }
            Err(why) => self.ended = Some(why),
        }
    }

    fn reading(&self) -> Reading {
        let duration_s = (self.read - self.began).as_secs_f64();
        let energy_j = self.sum_uj as f64 * 1e-6;
        Reading {
            meter: self.meter.clone(),
            energy_j,
            duration_s,
            energy_w: (duration_s > 0.0).then(|| energy_j / duration_s),
            ended: self.ended.clone(),
        }
    }
}

/// Microjoules from one value of a counter to the next; none if a value cannot be.
fn gone(last_uj: u64, now_uj: u64, range_uj: u64) -> Option<u64> {
    // A value beyond the range is no reading: the sum would be wrong for good.
    let rest = range_uj.checked_sub(last_uj)?;
    match now_uj.checked_sub(last_uj) {
        Some(gone) => (gone <= rest).then_some(gone),
        None => rest.checked_add(now_uj),
    }
}

fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|e| wrong(path, e))
}

fn count(path: &Path) -> Result<u64, String> {
    let text = text(path)?;
    text.parse().map_err(|_| wrong(path, format!("found {text:?}, expected microjoules")))
}

fn wrong(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with two packages, as Linux shows them.
    fn host() -> tempfile::TempDir {
        let sysfs = tempfile::tempdir().unwrap();
        let folder = sysfs.path().join("class/powercap");
        // The control type itself, and the same counter by memory.
        for (name, title) in [("intel-rapl", None), ("intel-rapl-mmio:0", Some("package-0"))] {
            fs::create_dir_all(folder.join(name)).unwrap();
            title.iter().for_each(|t| fs::write(folder.join(name).join("name"), t).unwrap());
        }
        let domains = [
            ("intel-rapl:1", "package-1", 500),
            ("intel-rapl:0", "package-0", 1_000_000),
            ("intel-rapl:0:0", "core", 7),
            ("intel-rapl:1:0", "core", 9),
            ("intel-rapl:10", "psys", 3),
        ];
        for (name, title, energy_uj) in domains {
            let own = folder.join(name);
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("name"), format!("{title}\n")).unwrap();
            fs::write(own.join("max_energy_range_uj"), "65532610987\n").unwrap();
            set(sysfs.path(), name, energy_uj);
        }
        sysfs
    }

    fn set(sysfs: &Path, name: &str, energy_uj: u64) {
        let file = sysfs.join("class/powercap").join(name).join("energy_uj");
        fs::write(file, format!("{energy_uj}\n")).unwrap();
    }

    fn joules(measured: &Measured, meter: &str) -> f64 {
        measured.meters.iter().find(|m| m.meter == meter).unwrap().energy_j
    }

    #[test]
    fn every_domain_is_a_meter_in_order() {
        let host = host();
        let meter = Meter::of(host.path());
        set(host.path(), "intel-rapl:0", 3_500_000);
        set(host.path(), "intel-rapl:0:0", 1_000_007);
        let found = meter.look();
        assert_eq!(found.missing, None);
        let names: Vec<_> = found.meters.iter().map(|m| m.meter.as_str()).collect();
        let expected = [
            "RAPL package-0",
            "RAPL package-0 core",
            "RAPL package-1",
            "RAPL package-1 core",
            "RAPL psys",
        ];
        assert_eq!(names, expected);
        assert_eq!((joules(&found, expected[0]), joules(&found, expected[1])), (2.5, 1.0));
        assert_eq!(joules(&found, expected[2]), 0.0);
        let first = &found.meters[0];
        assert!((first.energy_w.unwrap() * first.duration_s - 2.5).abs() < 1e-9);
    }

    #[test]
    fn counters_that_come_round_go_on() {
        let host = host();
        let range = 65_532_610_987;
        set(host.path(), "intel-rapl:0", range - 1_000_000);
        let meter = Meter::of(host.path());
        set(host.path(), "intel-rapl:0", 500_000);
        assert_eq!(joules(&meter.look(), "RAPL package-0"), 1.5);
        set(host.path(), "intel-rapl:0", range);
        let _ = meter.look();
        set(host.path(), "intel-rapl:0", 0);
        assert_eq!(joules(&meter.look(), "RAPL package-0"), 1.5 + (range - 500_000) as f64 * 1e-6);
        set(host.path(), "intel-rapl:0", range + 1);
        let ended = meter.look().meters[0].ended.clone().unwrap();
        assert!(ended.contains("beyond its range"), "{ended}");
    }

    #[test]
    fn a_domain_that_vanishes_keeps_what_it_had() {
        let host = host();
        let meter = Meter::of(host.path());
        set(host.path(), "intel-rapl:1", 2_000_500);
        let _ = meter.look();
        fs::remove_dir_all(host.path().join("class/powercap/intel-rapl:1")).unwrap();
        let found = meter.look();
        let gone = found.meters.iter().find(|m| m.meter == "RAPL package-1").unwrap();
        assert_eq!(gone.energy_j, 2.0);
        assert!(gone.ended.as_ref().unwrap().contains("intel-rapl:1/energy_uj"));
        // What it counted while it was away is not known.
        fs::create_dir(host.path().join("class/powercap/intel-rapl:1")).unwrap();
        set(host.path(), "intel-rapl:1", 9_000_500);
        assert_eq!(joules(&meter.look(), "RAPL package-1"), 2.0);
        assert!(meter.look().meters[0].ended.is_none());
    }

    #[test]
    fn what_cannot_be_read_is_said_and_the_rest_is_read() {
        let host = host();
        let package = host.path().join("class/powercap/intel-rapl:0");
        // A folder in its place: root, who runs tests too, may read every file.
        fs::remove_file(package.join("energy_uj")).unwrap();
        fs::create_dir(package.join("energy_uj")).unwrap();
        set(host.path(), "intel-rapl:1", 0);
        fs::write(host.path().join("class/powercap/intel-rapl:1/energy_uj"), "many").unwrap();
        let found = Meter::of(host.path()).look();
        let missing = found.missing.unwrap();
        assert!(missing.contains("intel-rapl:0/energy_uj: "), "{missing}");
        assert!(missing.contains("found \"many\", expected microjoules"), "{missing}");
        assert_eq!(found.meters.len(), 3);
    }

    #[test]
    fn a_machine_without_meters_has_none() {
        let empty = tempfile::tempdir().unwrap();
        let found = Meter::of(empty.path()).look();
        assert!(found.meters.is_empty());
        assert!(found.missing.unwrap().contains("class/powercap: No such file"));
        fs::create_dir_all(empty.path().join("class/powercap/dtpm:0")).unwrap();
        let found = Meter::of(empty.path()).look();
        assert!(found.missing.unwrap().ends_with("no intel-rapl domain"));
    }
}
