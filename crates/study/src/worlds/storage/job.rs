//! One policy of completions under one load on one machine.

use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_storage::load::Issues;
use halfwink_storage::world::{play, Parts, Path, Run, Setting, WorldError};
use halfwink_techniques::{Choice, Parameter, Values};
use halfwink_units::Time;

use super::loads::{Own, SOURCE};
use super::StorageInfo;
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::table::{integer, real, short, Head, Short, Table, Value};
use crate::world::{Defaults, Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::Load as Arrival;
use crate::worlds::common::{ledger, slices, Common, COMMON, LEDGER, SLICES};

/// World: block I/Os on machines of several sockets.
pub struct Storage;

/// The generated pattern of I/O: what it reads makes no difference to the driver.
const READ: &str = "random-read";
/// The user's own I/Os, as `file@job.fio`.
const FILE: &str = "file";
/// Seed where none is chosen.
pub(super) const SEED: u64 = 1;

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", SEED, (0, u64::MAX))
        .about("of all random streams", "one fixed stream, so that runs repeat"),
    Parameter::whole("ios", 100_000, (1, 1_000_000_000)).about("to count", "halfwink"),
    Parameter::whole("warm_up", 100_000, (0, 1_000_000_000))
        .about("I/Os before any is counted", "halfwink"),
    Parameter::whole("depth", 32, (1, 4096))
        .about("I/Os that each issuing CPU has in flight", "assumption: libaio, as fio has it"),
    Parameter::whole("bytes", 512, (1, 1 << 24))
        .about("of each I/O", "assumption: 3 GB/s allow 1 M of them"),
    Parameter::number("rate_kiops", "k/s", 0.0, (0.0, 1e6))
        .or_else("as fast as they come back")
        .about("I/Os a second of all together, at most", "Nellans 2014, Fig 6.6"),
    Parameter::words("arrivals", &["even", "poisson"])
        .about("times between I/Os where a rate is limited", "fio: rate_process"),
    Parameter::whole("first_cpu", 0, (0, 4095)).about("that issues", "Nellans 2014, Fig 6.10"),
    Parameter::words("through", &["driver", "queue-and-driver", "queue"])
        .about("what lies between issuers and device", "Nellans 2014, Sec 6.1, 6.2"),
    Parameter::words("leave_out", &["nothing", "structures", "completion"])
        .about("parts of a completion, from which on", "Nellans 2014, Sec 6.2.1"),
    Parameter::number("part", "", 0.0, (0.0, 1.0))
        .about("where to begin in a trace that is too long to be played as a whole", "halfwink"),
    Parameter::text("ignore", "words of messages, separated by commas", "nothing")
        .about("parts of a file of I/Os to leave out although they matter", "halfwink"),
];

/// Columns of a run beside the common ones. `socket_full_at` is the number of issuing CPUs with
/// which the last socket that issues is full.
pub(super) const OWN: [Head; 18] = [
    integer("seed"),
    integer("issuers"),
    integer("socket_full_at"),
    integer("depth"),
    real("iops"),
    real("driver_cpus"),
    real("driver_us_per_io"),
    real("busy_cpus"),
    real("polling_cpus"),
    real("latency_p50_us"),
    integer("handlers"),
    real("spinning_pct"),
    real("hears_busy_pct"),
    real("interrupts_per_io"),
    real("ipis_per_io"),
    real("queue_crossings_pct"),
    real("map_crossings_pct"),
    real("power_w"),
];

const SHORT: &[Short] = &[
    short("iops", "I/Os/s", 0),
    short("driver_us_per_io", "CPU us/I/O", 1),
    short("busy_cpus", "CPUs awake", 1),
    short("spinning_pct", "spinning %", 1),
    short("handlers", "handlers", 0),
];

/// The load that is played, apart from machine and technique.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub path: Path,
    pub parts: Parts,
    pub issuers: u16,
    pub first: u16,
    /// I/Os in flight of each CPU, at most; 0 for requests that come at their times.
    pub depth: u32,
    pub bytes: u32,
    pub rate: Option<f64>,
    pub poisson: bool,
    pub warm_up: u64,
    pub ios: u64,
    pub seed: u64,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            path: Path::Driver,
            parts: Parts::All,
            issuers: 1,
            first: 0,
            depth: 32,
            bytes: 512,
            rate: None,
            poisson: false,
            warm_up: 100_000,
            ios: 100_000,
            seed: SEED,
        }
    }
}

impl Load {
    fn of(issuers: u16, options: &Values) -> Load {
        Load {
            path: path(options.word("through")),
            parts: match options.word("leave_out") {
                "structures" => Parts::InterruptOnly,
                "completion" => Parts::NoCompletion,
                _ => Parts::All,
            },
            issuers,
            first: options.number("first_cpu") as u16,
            depth: options.number("depth") as u32,
            bytes: options.number("bytes") as u32,
            rate: options.given("rate_kiops").filter(|rate| *rate > 0.0).map(|rate| 1e3 * rate),
            poisson: options.word("arrivals") == "poisson",
            warm_up: options.number("warm_up") as u64,
            ios: options.number("ios") as u64,
            seed: options.number("seed") as u64,
        }
    }

    /// Returns the load of a file's I/Os. Of a trace all are counted, and a tenth goes before; jobs
    /// that wait for what they issued have no end.
    fn of_file(own: &Own, options: &Values) -> Load {
        let load = Load::of(own.issues.len() as u16, options);
        let (warm_up, ios) = own.requests().map_or((load.warm_up, load.ios), |all| (all / 10, all));
        let depth = |issues: &Issues| match issues {
            Issues::Closed(closed) => closed.depth,
            Issues::Open { .. } => 0,
        };
        let depth = own.issues.iter().map(depth).max().unwrap_or_default();
        // Slow jobs are counted for so long at most, or they would take hours of simulated time.
        let rate = |issues: &Issues| match issues {
            Issues::Closed(closed) => closed.rate,
            Issues::Open { .. } => None,
        };
        let rate: Option<f64> = own.issues.iter().map(rate).sum();
        let within = |count: u64, seconds: f64| {
            rate.map_or(count, |rate| count.min((rate * seconds).max(1.0) as u64))
        };
        let (warm_up, ios) = (within(warm_up, MOST_S / 10.0), within(ios, MOST_S));
        // The file says which CPUs issue and how fast; options of the generated load must not
        // change that.
        Load { first: 0, depth, rate: None, warm_up, ios, ..load }
    }
}

/// Seconds for which jobs with a limited rate are counted at most.
const MOST_S: f64 = 600.0;
/// The latency of the device: what a trace says, unless it was set.
const LATENCY: &str = "device.latency_us";

/// Returns the path between issuer and device, by its word.
fn path(word: &str) -> Path {
    match word {
        "queue" => Path::Queue,
        "queue-and-driver" => Path::QueueAndDriver,
        _ => Path::Driver,
    }
}

struct StorageJob {
    info: StorageInfo,
    choice: Choice,
    load: Load,
    /// The user's own I/Os, which replace depth, size and rate of the load.
    own: Option<Own>,
}

pub(super) fn failed(error: WorldError) -> StudyError {
    match error {
        WorldError::Interrupted(_) => StudyError::Interrupted,
        WorldError::Setting(message) => StudyError::Usage(message),
        other => StudyError::Model(other.to_string()),
    }
}

impl StorageInfo {
    /// Plays a load under a technique.
    pub(super) fn play(
        &self,
        choice: &Choice,
        load: &Load,
        control: &RunControl,
    ) -> Result<Run, StudyError> {
        self.play_own(choice, (load, None), control, &Logs::default())
    }

    /// Plays a load under a technique, with these I/Os of each CPU if there are any.
    fn play_own(
        &self,
        choice: &Choice,
        (load, own): (&Load, Option<&Own>),
        control: &RunControl,
        logs: &Logs,
    ) -> Result<Run, StudyError> {
        let setting = Setting {
            machine: &self.machine,
            path: load.path,
            parts: load.parts,
            issuers: load.issuers,
            first: load.first,
            // Open loads have a depth of 0, which the world does not read there but refuses.
            depth: load.depth.max(1),
            bytes: load.bytes,
            rate: load.rate,
            poisson: load.poisson,
            load: own.map(|own| &own.issues[..]),
            warm_up: load.warm_up,
            ios: load.ios,
            seed: load.seed,
        };
        let policy = logs.completion(0, self.policy(choice)?);
        play(&setting, policy, control).map_err(failed)
    }

    /// Returns the columns of [`OWN`].
    pub(super) fn own(&self, run: &Run, load: &Load) -> Vec<Value> {
        use halfwink_storage::world::{Stage, State, HEARS};
        let (_, cores) = self.sockets();
        let full_at = (load.first + load.issuers).next_multiple_of(cores) - load.first;
        let seconds = run.duration.as_s();
        let completed = run.completed as f64;
        let spinning: f64 =
            run.cpus.iter().map(|cpu| cpu.of(|s| s.state() == State::Spinning).as_s()).sum();
        let polling: f64 =
            run.cpus.iter().map(|cpu| cpu.of(|stage| stage == Stage::Polling).as_s()).sum();
        let hears = run.cpus[usize::from(HEARS)].of(Stage::is_driver).as_s();
        let crossings = |lock: usize| {
            let counts = run.locks[lock];
            (counts.grants > 0).then(|| 100.0 * counts.crossings as f64 / counts.grants as f64)
        };
        vec![
            load.seed.into(),
            u64::from(load.issuers).into(),
            u64::from(full_at).into(),
            Some(u64::from(load.depth)).filter(|&depth| depth > 0).into(),
            run.iops().into(),
            run.driver_cpus().into(),
            (1e6 * run.driver_cpus() / run.iops()).into(),
            run.busy_cpus().into(),
            (polling / seconds).into(),
            us(run.latency.quantile(0.5)).into(),
            u64::from(run.handlers).into(),
            (100.0 * spinning / seconds / run.busy_cpus().max(1e-9)).into(),
            (100.0 * hears / seconds).into(),
            (run.interrupts[0] as f64 / completed).into(),
            (run.interrupts[1] as f64 / completed).into(),
            // By their places in `Run::locks`: the request queue is 0 and the map 2.
            crossings(0).into(),
            crossings(2).into(),
            (run.books.energy_where(|_| true).as_j() / seconds).into(),
        ]
    }
}

/// `random-read@17`: how many CPUs issue.
fn issuers(workload: &str) -> Result<u16, StudyError> {
    let (name, issuers) = workload.split_once('@').unwrap_or((workload, "1"));
    if name != READ {
        return Err(StudyError::unknown("workload", name, [READ, FILE]));
    }
    issuers.parse().ok().filter(|&count| count > 0).ok_or_else(|| {
        let message = format!("workload `{workload}`: expected `{READ}@CPUS`, as `{READ}@17`");
        StudyError::Usage(message)
    })
}

impl World for Storage {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn title(&self) -> &'static str {
        "block I/Os, the locks they take, the CPUs of several sockets that complete them"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink storage simulate -t {technique}")
    }

    fn workloads(&self, _library: &Library) -> Result<Vec<Named>, StudyError> {
        let read = format!("CPUs that each have I/Os in flight all the time, 17 of {READ}@17");
        let file = format!("I/Os of your own: jobs of fio or a block trace, as {FILE}@job.fio");
        let titles = [(READ, read), (FILE, file)];
        Ok(titles.map(|(name, title)| Named { name: name.to_owned(), title }).to_vec())
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        Named::described(library.storages(), |name| {
            Ok(library.storage(name, &[])?.machine.spec().description.clone())
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn defaults(&self) -> Defaults {
        Defaults { machine: Some("westmere-ex"), workload: Some(READ), loads: Some(&["10"]) }
    }

    fn short(&self) -> &'static [Short] {
        SHORT
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN].concat()),
            ("ledger", LEDGER.to_vec()),
            ("slices", SLICES.to_vec()),
            ("source", SOURCE.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let mut info = library.storage(&job.machine, &settings.machine)?;
        // A technique of another world fails here, before a file is read.
        info.policy(&settings.choice)?;
        let cpus = info.machine.spec().topology.cpus();
        let (load, own) = match job.workload.split_once('@') {
            Some((FILE, path)) => {
                let options = &settings.options;
                let left = (options.text("ignore").unwrap_or_default(), options.number("part"));
                let own = Own::read(library, path, cpus, left)?;
                let is_said = settings.machine.iter().any(|(path, _)| path == LATENCY);
                if let Some(us) = own.traced_us().filter(|_| !is_said) {
                    // A traced latency is from issue to completion: the way over PCIe is in it.
                    let more = [(LATENCY, us), ("device.pcie_us", 0.0)];
                    // `Debug` writes a whole number with its point, so that TOML has it as a float.
                    let more = more.map(|(path, us)| (path.to_owned(), format!("{us:?}")));
                    info =
                        library.storage(&job.machine, &[&settings.machine[..], &more].concat())?;
                }
                (Load::of_file(&own, options), Some(own))
            }
            _ => (Load::of(issuers(&job.workload)?, &settings.options), None),
        };
        // The sum is in 32 bits: a workload may name up to 65,535 issuers, and with the first it
        // would overflow 16.
        if u32::from(load.first) + u32::from(load.issuers) > u32::from(cpus) {
            let message = format!("workload `{}`: {} has {cpus} CPUs", job.workload, job.machine);
            return Err(StudyError::Usage(message));
        }
        Ok(Box::new(StorageJob { info, choice: settings.choice, load, own }))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        if place.family != Family::Completion {
            return Err(nobody_at(job, place));
        }
        let info = library.storage(&job.machine, &settings.machine)?;
        Ok(replayer(info.policy(&settings.choice)?))
    }
}

impl Prepared for StorageJob {
    fn identity(&self) -> String {
        match &self.own {
            Some(own) => format!("{FILE}@{}\n{}", own.identity(), self.info.text),
            None => format!("{READ}@{}\n{}", self.load.issuers, self.info.text),
        }
    }

    fn work(&self) -> Work {
        Work { amount: self.load.warm_up + self.load.ios, unit: "I/Os" }
    }

    fn machine_text(&self) -> &str {
        &self.info.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let own = self.own.as_ref();
        let run = self.info.play_own(&self.choice, (&self.load, own), control, logs)?;
        let mut common = common(&run);
        let is_open = self.load.rate.is_some() || own.is_some_and(|own| own.requests().is_some());
        common.load = if is_open { Arrival::Open } else { Arrival::Closed };
        // No idle floor: at a lower rate each I/O is completed alone and costs more, so that work
        // at full speed and idle time after it say nothing of that rate. A run at the rate does.
        let mut cells = common.cells();
        cells.extend(OWN.iter().map(|head| head.0).zip(self.info.own(&run, &self.load)));
        Ok(vec![
            ("run", Table::row(cells)),
            ("ledger", ledger(&run.books)),
            ("slices", slices(&run.pieces)),
            ("source", own.map_or_else(|| Table::new(&SOURCE), |own| own.table(&self.info))),
        ])
    }
}

fn us(time: Option<Time>) -> Option<f64> {
    time.map(|time| time.as_ns() * 1e-3)
}

fn common(run: &Run) -> Common {
    Common {
        unit_of_work: "I/O",
        units: run.completed,
        duration_s: run.duration.as_s(),
        energy_j: run.books.energy_where(|_| true).as_j(),
        latency_mean_us: us(run.latency.mean()),
        latency_p99_us: us(run.latency.quantile(0.99)),
        ..Common::default()
    }
}
