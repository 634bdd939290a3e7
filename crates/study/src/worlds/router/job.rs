//! One technique on one application under one load profile.

use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_router::simulate_controlled;
use halfwink_techniques::{Choice, Parameter};

use super::evaluation::evaluation_options;
use super::{slot_table, slot_values, RouterInfo, RouterProfile, SEED, SLOT_COLUMNS};
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::table::{integer, real, short, Head, Short, Table, Value};
use crate::world::{Defaults, Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::{
    ends, holding, interval, ledger, slices, Common, Intervals, Load, COMMON, LEDGER, SLICES,
};

/// World: packets, receive queues, cores that forward, nap and sleep.
pub struct Router;

/// A job whose names were found.
struct RouterJob {
    workload: String,
    router: RouterInfo,
    choice: Choice,
    app: String,
    profile: RouterProfile,
    seed: u64,
    /// True if packets are counted that leave after any later one.
    overall_order: bool,
}

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", SEED, (0, u64::MAX))
        .about("of all random streams", "one fixed stream, so that runs repeat"),
    Parameter::words("order", &["flow", "all"]).about(
        "which packets that leave after a later one are counted: of a flow, or of all as well",
        "counting all takes a fifth longer",
    ),
];

/// Columns of a run beside the common ones.
const OWN: [Head; 18] = [
    integer("seed"),
    integer("offered"),
    real("cores"),
    real("lost_pct"),
    real("uj_per_packet"),
    real("mpps"),
    real("power_w"),
    real("power_low_w"),
    real("power_high_w"),
    real("latency_p50_us"),
    real("latency_max_us"),
    integer("lost"),
    integer("reordered"),
    integer("reordered_overall"),
    real("interrupts_per_s"),
    integer("changes"),
    real("c0_pct"),
    integer("queued"),
];

/// Columns of the short table.
const SHORT: &[Short] = &[
    short("lost_pct", "lost %", 3),
    short("cores", "cores", 2),
    short("latency_p50_us", "p50 us", 1),
    short("latency_max_us", "max us", 1),
    short("reordered", "reordered", 0),
    short("changes", "changes", 0),
];

impl World for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    fn title(&self) -> &'static str {
        "packets, receive queues, cores that forward, nap and sleep"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink router -t {technique}")
    }

    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError> {
        let mut list: Vec<Named> = Vec::new();
        for name in library.routers() {
            let info = library.router(&name, &[])?;
            for (app, spec) in &info.model.spec().apps {
                let title = format!("frames of {} bytes in the mean; of {name}", spec.bytes);
                match list.iter_mut().find(|n| n.name == *app) {
                    Some(known) => known.title = format!("{}, {name}", known.title),
                    None => list.push(Named { name: app.clone(), title }),
                }
            }
        }
        Ok(list)
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        Named::described(library.routers(), |name| {
            Ok(library.router(name, &[])?.model.spec().description.clone())
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn moved(&self) -> &'static [(&'static str, &'static str)] {
        halfwink_techniques::router::MOVED
    }

    fn short(&self) -> &'static [Short] {
        SHORT
    }

    fn defaults(&self) -> Defaults {
        Defaults { machine: Some("westmere"), workload: Some("ipv4"), loads: None }
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN].concat()),
            ("ledger", LEDGER.to_vec()),
            ("slots", SLOT_COLUMNS.to_vec()),
            ("slices", SLICES.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let seed = settings.options.number("seed") as u64;
        let router = library.router(&job.machine, &settings.machine)?;
        let (app, profile) = job.workload.split_once('@').unwrap_or((&job.workload, "evaluation"));
        // From here on `apps` is indexed by this name.
        router.app(app)?;
        Ok(Box::new(RouterJob {
            workload: job.workload.clone(),
            app: app.to_owned(),
            router,
            choice: settings.choice,
            profile: RouterProfile::parse(profile)?,
            seed,
            overall_order: settings.options.word("order") == "all",
        }))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        // One policy decides for all cores, so there is one stream.
        if (place.family, place.stream) != (Family::Scaling, 0) {
            return Err(nobody_at(job, place));
        }
        let router = library.router(&job.machine, &settings.machine)?;
        Ok(replayer(settings.choice.scaling(&router.model)?))
    }
}

impl RouterJob {
    fn traffic(&self) -> halfwink_router::Traffic {
        let app = &self.router.model.spec().apps[&self.app];
        self.router.traffic(app, &self.profile, self.seed)
    }
}

impl Prepared for RouterJob {
    fn identity(&self) -> String {
        // The seed is an option, and as such in the job's key beside this (`PreparedJob::key`).
        format!("{}\n{}", self.workload, self.router.text)
    }

    fn work(&self) -> Work {
        let app = &self.router.model.spec().apps[&self.app];
        let full_pps = 1e6 * self.router.model.rate_mpps(app, self.router.model.fastest());
        let profile = self.traffic().profile;
        let mean = profile.loads.iter().sum::<f64>() / profile.loads.len().max(1) as f64;
        // This is the expected number, for showing progress: packets are drawn at random.
        let packets = mean * full_pps * profile.length().as_s();
        Work { amount: packets.round() as u64, unit: "packets" }
    }

    fn machine_text(&self) -> &str {
        &self.router.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let model = &self.router.model;
        let traffic = self.traffic();
        let options = evaluation_options(model, self.seed, self.overall_order);
        let app = &model.spec().apps[&self.app];
        let policy = logs.scaling(0, self.choice.scaling(model)?);
        let run = simulate_controlled(model, app, &traffic, policy, options, control)
            .map_err(|error| super::failed(&error))?;
        let p99_us = run.latency.quantile_us(0.99);
        let mut cells = Common {
            unit_of_work: "packet",
            units: run.forwarded,
            duration_s: run.duration.as_s(),
            energy_j: run.energy_j(),
            latency_mean_us: run.latency.mean_us(),
            latency_p99_us: p99_us,
            load: Load::Open,
            idle_w: None,
            intervals: Intervals {
                energy_j_per_unit: None,
                latency_mean_us: interval(run.precision.mean_s, 1e6),
                latency_p99_us: holding(interval(run.precision.p99_s, 1e6), p99_us),
            },
        }
        .cells();
        let [power_low, power_high] = ends(interval(run.precision.power_w, 1.0));
        let cores = run.slots.iter().map(|slot| slot.cores).sum::<f64>() / run.slots.len() as f64;
        let latency = &run.latency;
        let own: [Value; 18] = [
            self.seed.into(),
            run.received.into(),
            cores.into(),
            (100.0 * run.lost as f64 / run.received.max(1) as f64).into(),
            // Packets that were lost are no work: with all that came, losing more would look like
            // saving.
            (1e6 * run.energy_j() / run.forwarded.max(1) as f64).into(),
            run.forwarded_mpps().into(),
            run.power_w().into(),
            power_low,
            power_high,
            latency.quantile_us(0.5).into(),
            latency.max_us().into(),
            run.lost.into(),
            run.reordered.into(),
            run.reordered_overall.into(),
            (run.interrupts as f64 / run.duration.as_s()).into(),
            run.changes.into(),
            (100.0 * run.residency("c0")).into(),
            run.queued.into(),
        ];
        cells.extend(OWN.iter().map(|head| head.0).zip(own));
        let mut slots = slot_table(&[]);
        for (n, slot) in run.slots.iter().enumerate() {
            slots.push(slot_values(n, slot));
        }
        Ok(vec![
            ("run", Table::row(cells)),
            ("ledger", ledger(&run.books)),
            ("slots", slots),
            ("slices", slices(&run.pieces)),
        ])
    }
}
