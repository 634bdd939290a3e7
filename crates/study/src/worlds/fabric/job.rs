//! One schedule of circuits between the hosts of one fabric.

use halfwink_engine::{Histogram, RunControl};
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_fabric::tcp::Algorithm;
use halfwink_fabric::world::{play, play_packets, Run, Setting, Transport, WorldError};
use halfwink_fabric::Hosts;
use halfwink_policy::circuits::host::Scheme;
use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_techniques::{Choice, CircuitsContext, Make, Parameter, Values};
use halfwink_units::Time;

use super::FabricInfo;
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::table::{integer, real, short, text, Head, Short, Table, Value};
use crate::world::{Defaults, Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::{ledger, Common, Load, COMMON, LEDGER};

/// World: racks, hosts, circuits that they use by turns.
pub struct Fabric;

/// The only traffic so far.
const ALL_TO_ALL: &str = "all-to-all";
/// Seed where none is chosen.
pub(super) const SEED: u64 = 1;
/// Day for which queues are sized where a technique has none of its own.
pub(super) const DAY_US: f64 = 123.5;

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", SEED, (0, u64::MAX))
        .about("of all random streams", "one fixed stream, so that runs repeat"),
    Parameter::number("duration_ms", "ms", 1000.0, (1e-3, 1e7))
        .about("length of a run, to the end of a slot", "halfwink"),
    Parameter::words("tokens", &["pacing", "aging", "naive"])
        .about("when a host may send while its circuit is up", "Strong 2013, Fig 4.13"),
    Parameter::words("transport", &["udp", "tcp"])
        .about("what carries data", "Strong 2013, Sec 4.5.2"),
    Parameter::words("congestion", &["cubic", "reno", "dctcp"])
        .about("congestion control of TCP", "RFC 9438, RFC 5681, RFC 8257"),
    Parameter::words("offload", &["off", "on"])
        .about("whether cards cut and join segments of TCP", "Strong 2013, Sec 4.4.2"),
];

/// Columns of a run beside the common ones.
pub(super) const OWN: [Head; 14] = [
    integer("seed"),
    text("tokens"),
    real("day_us"),
    integer("hosts"),
    integer("slots"),
    real("up_pct"),
    real("sent_packets"),
    real("loss_pct"),
    real("host_gbps"),
    real("fairness_pct"),
    real("first_arrival_us"),
    real("handed_over_us"),
    real("resent_pct"),
    integer("timeouts"),
];

const SHORT: &[Short] = &[
    short("host_gbps", "Gb/s a host", 3),
    short("loss_pct", "loss %", 3),
    short("fairness_pct", "fairness %", 2),
    short("first_arrival_us", "first us", 1),
    short("resent_pct", "resent %", 3),
    short("timeouts", "timeouts", 0),
];

/// A job whose names were found.
struct FabricJob {
    info: FabricInfo,
    choice: Choice,
    scheme: Scheme,
    transport: Transport,
    duration: Time,
    seed: u64,
}

/// Returns the transport that a job's options choose.
fn transport(options: &Values) -> Transport {
    let algorithm = match options.word("congestion") {
        "reno" => Algorithm::Reno,
        "dctcp" => Algorithm::Dctcp,
        _ => Algorithm::Cubic,
    };
    match options.word("transport") {
        "tcp" => Transport::Tcp { algorithm, offload: options.word("offload") == "on" },
        _ => Transport::Udp,
    }
}

pub(super) fn failed(error: WorldError) -> StudyError {
    match error {
        WorldError::Interrupted(_) => StudyError::Interrupted,
        other => StudyError::Model(other.to_string()),
    }
}

impl FabricInfo {
    /// Returns its hosts.
    ///
    /// # Errors
    ///
    /// If it describes none.
    pub(super) fn hosts(&self) -> Result<&Hosts, StudyError> {
        self.fabric.spec().hosts.as_ref().ok_or_else(|| {
            StudyError::Usage(format!("{}: no [hosts], so that nobody can send", self.name))
        })
    }

    /// A length of day that its switch can keep.
    ///
    /// # Errors
    /// If it is shorter than the shortest, or none.
    pub(crate) fn check_day(&self, day_us: f64) -> Result<(), StudyError> {
        let least = self.fabric.spec().switch.shortest_day_us;
        // A description may have a shortest day of 0, which is none.
        if day_us.is_finite() && day_us > 0.0 && day_us >= least {
            return Ok(());
        }
        let message = format!("day of {day_us} us: {} has days of {least} us or more", self.name);
        Err(StudyError::Usage(message))
    }

    fn policy(&self, choice: &Choice) -> Result<CircuitsPolicy, StudyError> {
        self.schedule(choice, self.hosts()?.count, 1)
    }

    /// A technique's schedule for so many hosts or racks, by so many switches.
    ///
    /// # Errors
    /// If the technique has none.
    pub(crate) fn schedule(
        &self,
        choice: &Choice,
        hosts: u16,
        planes: u8,
    ) -> Result<CircuitsPolicy, StudyError> {
        let switch = &self.fabric.spec().switch;
        let context = CircuitsContext {
            night_us: switch.reconfiguration_us,
            shortest_day_us: switch.shortest_day_us,
            port_gbps: switch.port_gbps,
            hosts,
            planes,
        };
        match choice.technique().make {
            Make::Circuits(make) => Ok(make(choice, &context)),
            _ => Err(StudyError::Usage(format!("{choice}: no schedule of circuits"))),
        }
    }
}

impl World for Fabric {
    fn name(&self) -> &'static str {
        "fabric"
    }

    fn title(&self) -> &'static str {
        "racks, hosts, circuits that they use by turns"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink circuits simulate -t {technique}")
    }

    fn workloads(&self, _library: &Library) -> Result<Vec<Named>, StudyError> {
        let title = "datagrams, as many as each host can send, to every other alike".to_owned();
        Ok(vec![Named { name: ALL_TO_ALL.to_owned(), title }])
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        let mut names = library.fabrics();
        // A fabric may describe racks alone, which are for the world `racks`.
        names.retain(|name| library.fabric(name, &[]).is_ok_and(|found| found.hosts().is_ok()));
        Named::described(names, |name| {
            Ok(library.fabric(name, &[])?.fabric.spec().description.clone())
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn defaults(&self) -> Defaults {
        Defaults { machine: Some("mordia"), workload: Some(ALL_TO_ALL), loads: None }
    }

    fn short(&self) -> &'static [Short] {
        SHORT
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![("run", [&COMMON[..], &OWN].concat()), ("ledger", LEDGER.to_vec())]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let info = library.fabric(&job.machine, &settings.machine)?;
        info.policy(&settings.choice)?;
        if let Some(day_us) = settings.choice.given_or_default("day_us") {
            info.check_day(day_us)?;
        }
        if job.workload != ALL_TO_ALL {
            return Err(StudyError::unknown("workload", &job.workload, [ALL_TO_ALL]));
        }
        let options = &settings.options;
        Ok(Box::new(FabricJob {
            info,
            scheme: Scheme::named(options.word("tokens")).unwrap_or(Scheme::Pacing),
            transport: transport(options),
            duration: Time::from_ns(1e6 * options.number("duration_ms")),
            seed: options.number("seed") as u64,
            choice: settings.choice,
        }))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        if place.family != Family::Circuits {
            return Err(nobody_at(job, place));
        }
        let info = library.fabric(&job.machine, &settings.machine)?;
        Ok(replayer(info.policy(&settings.choice)?))
    }
}

impl Prepared for FabricJob {
    fn identity(&self) -> String {
        format!("{ALL_TO_ALL}\n{}", self.info.text)
    }

    fn work(&self) -> Work {
        // The number of packets depends on the schedule, which only playing it tells.
        Work { amount: 0, unit: "packets" }
    }

    fn machine_text(&self) -> &str {
        &self.info.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let day_us = self.choice.given_or_default("day_us");
        let setting = Setting {
            switch: &self.info.fabric.spec().switch,
            hosts: self.info.hosts()?,
            scheme: self.scheme,
            transport: self.transport,
            duration: self.duration,
            day: Time::from_ns(1e3 * day_us.unwrap_or(DAY_US)),
            seed: self.seed,
        };
        let policy = logs.circuits(0, self.info.policy(&self.choice)?);
        // Without circuits there is no schedule to play: a packet switch is a closed form.
        let run = if policy.has_circuits() {
            play(&setting, policy, control)
        } else {
            play_packets(&setting)
        }
        .map_err(failed)?;
        let frame_bits = u64::from(setting.hosts.frame_bytes) * 8;
        let mut cells = Common {
            unit_of_work: "bit",
            units: run.delivered.iter().sum::<u64>() * frame_bits,
            duration_s: run.duration.as_s(),
            energy_j: run.books.energy_where(|_| true).as_j(),
            // Nobody waits for a datagram of a sender that is never done. Of TCP it is what a
            // segment takes from when it is built.
            latency_mean_us: waits(&run, Histogram::mean),
            latency_p99_us: waits(&run, |times| times.quantile(0.99)),
            load: Load::Closed,
            // Ports and transceivers draw what they draw, whatever they carry.
            idle_w: Some(run.books.energy_where(|_| true).as_j() / run.duration.as_s()),
            ..Common::default()
        }
        .cells();
        let own = cells_of(&run, &setting, day_us);
        cells.extend(OWN.iter().map(|head| head.0).zip(own));
        Ok(vec![("run", Table::row(cells)), ("ledger", ledger(&run.books))])
    }
}

fn waits(run: &Run, of: impl Fn(&Histogram) -> Option<Time>) -> Option<f64> {
    of(&run.tcp.as_ref()?.delivery).map(|time| time.as_ns() * 1e-3)
}

/// Returns the columns of [`OWN`]. Schedules that choose their days have no `day_us`.
pub(super) fn cells_of(run: &Run, setting: &Setting, day_us: Option<f64>) -> Vec<Value> {
    let hosts = setting.hosts;
    let (count, frame_bits) = (usize::from(hosts.count), f64::from(hosts.frame_bytes) * 8.0);
    let delivered: u64 = run.delivered.iter().sum();
    let seconds = run.duration.as_s();
    let us = |time: Option<Time>| time.map(|t| t.as_ns() * 1e-3);
    let sent = run.counts.sent as f64;
    vec![
        setting.seed.into(),
        setting.scheme.name().into(),
        day_us.into(),
        u64::from(hosts.count).into(),
        run.slots.into(),
        (100.0 * run.up.as_s() / seconds).into(),
        sent.into(),
        (100.0 * run.counts.lost as f64 / sent.max(1.0)).into(),
        (delivered as f64 * frame_bits / seconds / count as f64 * 1e-9).into(),
        spread_pct(&run.delivered, count).into(),
        us(run.counts.first_arrival.mean()).into(),
        us(run.counts.handed_over.mean()).into(),
        run.tcp.as_ref().map(|tcp| 100.0 * tcp.tally.again as f64 / sent.max(1.0)).into(),
        run.tcp.as_ref().map(|tcp| tcp.tally.timeouts).into(),
    ]
}

/// Standard deviation of what arrives at a host from each other, over its mean, in percent; the
/// mean over hosts.
fn spread_pct(delivered: &[u64], count: usize) -> f64 {
    let spread = |to: usize| {
        let rates = || (0..count).filter(|&n| n != to).map(|n| delivered[n * count + to] as f64);
        let others = (count - 1) as f64;
        let mean = rates().sum::<f64>() / others;
        let variance = rates().map(|rate| (rate - mean).powi(2)).sum::<f64>() / others;
        if mean > 0.0 {
            100.0 * variance.sqrt() / mean
        } else {
            0.0
        }
    };
    (0..count).map(spread).sum::<f64>() / count as f64
}
