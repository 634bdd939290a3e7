//! One technique against one load on one server that loses its caches.

use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_preheat::{simulate, Run, Traffic};
use halfwink_techniques::{Choice, Parameter};
use halfwink_units::Time;

use super::{failed, policy, PreheatInfo, SEED};
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::table::{integer, real, Head, Table, Value};
use crate::world::{Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::{ledger, slices, Common, COMMON, LEDGER, SLICES};

/// World: a server that sleeps, loses its caches, and has them loaded before the next packet.
pub struct Preheat;

struct PreheatJob {
    workload: String,
    info: PreheatInfo,
    choice: Choice,
    traffic: Traffic,
}

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", SEED, (0, u64::MAX))
        .about("of all random streams", "one fixed stream, so that runs repeat"),
    Parameter::whole("requests", 1000, (1, 100_000_000)).about("to play", "halfwink"),
    Parameter::number("lead_us", "us", 0.0, (0.0, 10_000.0))
        .or_else("the network's")
        .about("from announcement to packet", "Gottschlag 2016, Sec 4.1.3"),
    Parameter::number("lost_pct", "%", 0.0, (0.0, 100.0))
        .about("requests that nobody announces", "assumption"),
    Parameter::number("false_pct", "%", 0.0, (0.0, 1000.0))
        .about("announcements of what does not come, over requests", "assumption"),
    Parameter::whole("restart_after", 0, (0, u64::MAX))
        .or_else("never")
        .about("requests after which services restart", "Gottschlag 2016, Sec 3.3.4"),
];
/// Requests a second where a workload does not say.
const RATE: f64 = 100.0;

/// Columns of a run beside the common ones.
const OWN: [Head; 19] = [
    real("rate_per_s"),
    real("lead_us"),
    integer("seed"),
    real("latency_p50_us"),
    real("latency_p95_us"),
    real("latency_max_us"),
    real("power_w"),
    real("asleep_pct"),
    real("missed_per_request"),
    real("refills_per_request"),
    integer("after_sleep"),
    integer("wakes"),
    integer("loads"),
    real("lines_per_load"),
    real("load_us"),
    real("load_core_us_per_request"),
    integer("held"),
    integer("shams"),
    integer("dumps"),
];

impl World for Preheat {
    fn name(&self) -> &'static str {
        "preheat"
    }

    fn title(&self) -> &'static str {
        "a server that sleeps, loses its caches, and has them loaded before the next packet"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink compare nginx-2016@100 --world preheat --technique {technique}")
    }

    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError> {
        let mut list: Vec<Named> = Vec::new();
        for name in library.preheat_machines() {
            let spec = library.preheat_machine(&name, &[])?.spec;
            let services = spec.services.iter().map(|(n, s)| (n.clone(), s.title.clone()));
            let mixes = spec.mixes.iter().map(|(name, shares)| {
                let of: Vec<&str> = shares.keys().map(String::as_str).collect();
                (name.clone(), format!("requests to {}", of.join(", ")))
            });
            for (name, title) in services.chain(mixes) {
                // Several machines may have it; the first one stands for all.
                if list.iter().all(|known| known.name != name) {
                    list.push(Named { name, title });
                }
            }
        }
        Ok(list)
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        Named::described(library.preheat_machines(), |name| {
            Ok(library.preheat_machine(name, &[])?.spec.description)
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN].concat()),
            ("ledger", LEDGER.to_vec()),
            ("slices", SLICES.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let info = library.preheat_machine(&job.machine, &settings.machine)?;
        let (name, rate) = match job.workload.split_once('@') {
            Some((name, rate)) => (name, Some(rate)),
            None => (job.workload.as_str(), None),
        };
        let services = info.load(name)?;
        let known = rate.map_or(Some(RATE), |rate| rate.parse().ok());
        // `nan` and `inf` are numbers to `parse`, and in no range.
        let Some(rate) = known.filter(|rate| (1e-3..=1e6).contains(rate)) else {
            let message = format!(
                "workload `{}`: expected {name}@100, in requests a second, from 0.001 to 1000000",
                job.workload
            );
            return Err(StudyError::Usage(message));
        };
        // A technique of another world fails here, before anything is played.
        policy(&settings.choice)?;
        let options = &settings.options;
        let lead_us = options.given("lead_us").unwrap_or(info.spec.network.lead_us);
        let traffic = Traffic {
            services,
            rate,
            requests: options.number("requests") as u64,
            lead: Time::from_ns(1e3 * lead_us),
            lost: 0.01 * options.number("lost_pct"),
            false_alarms: 0.01 * options.number("false_pct"),
            restart_after: options.given("restart_after").map_or(0, |n| n as u64),
            seed: options.number("seed") as u64,
        };
        let workload = name.to_owned();
        Ok(Box::new(PreheatJob { workload, info, choice: settings.choice, traffic }))
    }

    fn replayer(
        &self,
        _: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        if place.family != Family::Preheat {
            return Err(nobody_at(job, place));
        }
        // Policies of this world read nothing of a machine, so none is looked up.
        Ok(replayer(policy(&settings.choice)?.0))
    }
}

impl Prepared for PreheatJob {
    fn identity(&self) -> String {
        // Options, such as the seed, are in the job's key beside this (`PreparedJob::key`).
        format!("{}@{}\n{}", self.workload, self.traffic.rate, self.info.text)
    }

    fn work(&self) -> Work {
        Work { amount: self.traffic.requests, unit: "requests" }
    }

    fn machine_text(&self) -> &str {
        &self.info.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let (made, hears) = policy(&self.choice)?;
        let made = logs.preheat(0, made);
        let run = simulate(&self.info.spec, &self.traffic, made, hears, control)
            .map_err(|error| failed(&error))?;
        Ok(vec![
            ("run", self.row(&run)),
            ("ledger", ledger(&run.books)),
            ("slices", slices(&run.pieces)),
        ])
    }
}

impl PreheatJob {
    fn row(&self, run: &Run) -> Table {
        let (tally, traffic) = (&run.tally, &self.traffic);
        let us = |time: Option<Time>| time.map(|t| t.as_ns() * 1e-3);
        let at = |quantile: f64| us(tally.latency.quantile(quantile));
        let units = tally.latency.count();
        let seconds = run.books.duration.as_s();
        let energy_j = run.books.energy_where(|_| true).as_j();
        let rows = run.books.named_rows();
        let asleep = rows.filter(|(name, state, ..)| *name == "core0" && state.0 == "asleep");
        let asleep_s: f64 = asleep.map(|(.., row)| row.time.as_s()).sum();
        // A run without loads has no lines in the mean: 0, and not a division by 0.
        let each = |sum: f64, of: u64| sum / of.max(1) as f64;
        let mut cells = Common {
            unit_of_work: "request",
            units,
            duration_s: seconds,
            energy_j,
            latency_mean_us: us(tally.latency.mean()),
            latency_p99_us: at(0.99),
            ..Common::default()
        }
        .cells();
        let own: [Value; 19] = [
            traffic.rate.into(),
            (traffic.lead.as_ns() * 1e-3).into(),
            traffic.seed.into(),
            at(0.5).into(),
            at(0.95).into(),
            us(tally.latency.max()).into(),
            (energy_j / seconds).into(),
            (100.0 * asleep_s / seconds).into(),
            each(tally.missed as f64, units).into(),
            each(tally.refills as f64, units).into(),
            tally.after_sleep.into(),
            tally.wakes.into(),
            tally.loads.into(),
            each(tally.lines as f64, tally.loads).into(),
            each(tally.load_time.as_ns() * 1e-3, tally.loads).into(),
            each(tally.load_core_time.as_ns() * 1e-3, units).into(),
            tally.held.into(),
            tally.shams.into(),
            tally.dumps.into(),
        ];
        cells.extend(OWN.iter().map(|head| head.0).zip(own));
        Table::row(cells)
    }
}
