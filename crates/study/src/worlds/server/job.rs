//! One technique against one load on one hybrid server, or on a fleet of them.

use std::sync::Arc;

use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_server::{simulate_controlled, simulate_fleet, Dispatch, Goal, Options};
use halfwink_techniques::server::Service;
use halfwink_techniques::{Choice, Parameter, Values};
use halfwink_units::Time;

use super::steady::{cells as walked_cells, Found, Walked};
use super::{
    big_share, failed, last_kind_s, read_load, RunView, ServerInfo, ServerLoad, KEEPS_UP, SEED,
};
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::requests::Read;
use crate::table::{integer, real, short, text, Head, Kind, Short, Table, Value};
use crate::world::{Defaults, Named, Prepared, Settings, Tables, Work, World, USUAL_LOADS};
use crate::worlds::common::{
    ends, holding, interval, ledger, slices, Common, Intervals, Load, COMMON, LEDGER, SLICES,
};

/// World: requests, queues, an ordered set of machines.
pub struct Server;

/// A job whose names were found.
struct ServerJob {
    workload: String,
    info: Arc<ServerInfo>,
    choice: Choice,
    service: Service,
    read: Read,
    load: ServerLoad,
    options: Options,
    /// True if the run is to end at an accuracy.
    is_to_be_accurate: bool,
    fleet: Option<(u32, Dispatch)>,
    /// Steady loads to walk through counts on, where not every request is to be played.
    walked: Option<Walked>,
}

/// Requests of a run, if no number is given.
const REQUESTS: u64 = 200_000;
/// Requests of a run that ends at an accuracy, at most, if no number is given.
const MOST: u64 = 20_000_000;
/// Length of a run without requests.
const SILENCE: Time = Time::ns(100_000_000_000);

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", SEED, (0, u64::MAX))
        .about("of all random streams", "one fixed stream, so that runs repeat"),
    Parameter::whole("requests", REQUESTS, (1, u64::MAX))
        .or_else("200000; of logs and counts all; with an accuracy 20 million at most")
        .about("of a run, the first tenth of which is left out", "halfwink"),
    Parameter::number("accuracy", "", 0.02, (5e-4, 0.5))
        .or_else("none")
        .about("half width of 95 % intervals at which a run ends, as a share", "halfwink"),
    Parameter::whole("servers", 1, (1, 1_000_000))
        .or_else("one, which is no fleet")
        .about("a fleet of so many", "halfwink"),
    Parameter::text("dispatch", "random, round-robin, least:2, pack:6", "random")
        .about("how requests are spread over a fleet", "halfwink"),
    Parameter::number("slot_s", "s", 60.0, (1e-6, 1e9))
        .or_else("none")
        .about("what happened is kept for spans of so long", "halfwink"),
    Parameter::whole("steady_loads", 33, (2, 1000))
        .or_else("none: every request is played")
        .about("of counts: so many loads are simulated, and steps are walked through", "halfwink"),
    Parameter::number("days", "d", 365.0, (1e-3, 1e6))
        .or_else("once through the counts")
        .about("with steady_loads: counts are repeated or cut off", "halfwink"),
];

/// Columns of a run beside the common ones.
const OWN: [Head; 31] = [
    real("load_pct"),
    integer("seed"),
    integer("servers"),
    integer("offered"),
    text("read_as"),
    integer("bad_lines"),
    text("bad_line"),
    text("power_basis"),
    real("power_low"),
    real("power_high"),
    real("per_s"),
    real("power_w"),
    real("power_low_w"),
    real("power_high_w"),
    real("latency_p50_us"),
    real("latency_p999_us"),
    real("latency_max_us"),
    real("queued_us"),
    real("queued_p99_us"),
    real("big_share"),
    real("big_asleep_pct"),
    real("wakes_per_s"),
    real("finished_pct"),
    real("refused_pct"),
    real("lost_pct"),
    text("keeps_up"),
    text("known"),
    real("peak_pct"),
    real("highest_pct"),
    real("above_minutes"),
    integer("simulated"),
];

const SLOTS: [Head; 8] = [
    integer("slot"),
    real("start_s"),
    real("per_s"),
    real("power_w"),
    real("latency_mean_us"),
    real("latency_p99_us"),
    real("big_share"),
    real("big_asleep_pct"),
];

/// Columns of the short table.
const SHORT: &[Short] = &[
    short("lost_pct", "lost %", 3),
    short("keeps_up", "keeps up", 0),
    short("known", "known", 0),
    short("refused_pct", "refused %", 3),
    short("above_minutes", "minutes above", 0),
    short("big_asleep_pct", "big asleep %", 1),
    short("big_share", "big share", 3),
    short("wakes_per_s", "wakes/s", 2),
    short("latency_p50_us", "p50 us", 1),
];

impl World for Server {
    fn name(&self) -> &'static str {
        "server"
    }

    fn title(&self) -> &'static str {
        "requests, queues, a small and a big machine or a set of several, alone or a fleet"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink hybrid -t {technique}")
    }

    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError> {
        let mut list: Vec<Named> = Vec::new();
        for name in library.servers() {
            let info = library.server(&name, &[])?;
            for workload in info.model.spec().workloads.keys() {
                // Several machines have it; the first one stands for all.
                if list.iter().any(|known| known.name == *workload) {
                    continue;
                }
                let full = info.service(workload)?.whole_capacity();
                let title = format!("all machines of {name} carry {full:.0} a second");
                list.push(Named { name: workload.clone(), title });
            }
        }
        Ok(list)
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        Named::described(library.servers(), |name| {
            Ok(library.server(name, &[])?.model.spec().description.clone())
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn moved(&self) -> &'static [(&'static str, &'static str)] {
        halfwink_techniques::server::MOVED
    }

    fn short(&self) -> &'static [Short] {
        SHORT
    }

    fn defaults(&self) -> Defaults {
        Defaults { machine: Some("niccolini"), workload: Some("count"), loads: Some(USUAL_LOADS) }
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN].concat()),
            ("ledger", LEDGER.to_vec()),
            ("slots", SLOTS.to_vec()),
            ("slices", SLICES.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let info = library.server(&job.machine, &settings.machine)?;
        let (name, load) = job.workload.split_once('@').unwrap_or((&job.workload, "30"));
        let service = info.service(name)?;
        // Whether the technique decides for these machines.
        settings.choice.steering(&info.model, &service)?;
        let load = ServerLoad::parse(load)?;
        let fleet = fleet(&settings.options)?;
        let servers = fleet.map_or(1.0, |(n, _)| f64::from(n));
        let (read, service) = read_load(&load, library, &service, servers)?;
        let walked = Walked::read(&settings.options, &read.arrivals, fleet)?;
        Ok(Box::new(ServerJob {
            walked,
            workload: job.workload.clone(),
            info,
            choice: settings.choice,
            service,
            options: options(&settings.options, &load, read.arrivals.rate()),
            is_to_be_accurate: settings.options.given("accuracy").is_some(),
            read,
            load,
            fleet,
        }))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        if place.family != Family::Steering {
            return Err(nobody_at(job, place));
        }
        let info = library.server(&job.machine, &settings.machine)?;
        let name = job.workload.split_once('@').map_or(job.workload.as_str(), |(name, _)| name);
        let made = settings.choice.steering(&info.model, &info.service(name)?)?;
        Ok(replayer(made))
    }
}

/// Returns how long a load is played, from which seed, and in which slots.
fn options(values: &Values, load: &ServerLoad, per_s: f64) -> Options {
    let seed = values.number("seed") as u64;
    let requests = values.given("requests").map(|n| n as u64);
    // A fleet is simulated without estimates, so it could never reach an accuracy.
    let accuracy = values.given("accuracy").filter(|_| values.given("servers").is_none());
    let goal = accuracy.map(|relative| Goal { relative, confidence: 0.95 });
    // Without arrivals no number of requests is ever reached: the run ends by time.
    let options = if per_s == 0.0 {
        Options { until: SILENCE, ..Options::all(seed) }
    } else if load.ends() {
        Options { requests: requests.unwrap_or(u64::MAX), ..Options::all(seed) }
    } else {
        let most = if goal.is_some() { MOST } else { REQUESTS };
        Options { goal, ..Options::requests(requests.unwrap_or(most), seed) }
    };
    Options { slot: values.given("slot_s").map(|s| Time::from_ns(s * 1e9)), ..options }
}

/// Reads how requests are spread over a fleet: `random`, `round-robin`, `least` or `least:2`
/// (the emptiest of so many), `pack:6` (the first one with fewer unfinished requests).
///
/// # Errors
/// If it is none of these.
fn dispatch(text: &str) -> Result<Dispatch, StudyError> {
    let (name, number) = text.split_once(':').map_or((text, None), |(n, m)| (n, Some(m)));
    let number = number.map(|n| n.parse().ok().filter(|n: &u32| *n > 0));
    match (name, number) {
        ("random", None) => Ok(Dispatch::Random),
        ("round-robin", None) => Ok(Dispatch::RoundRobin),
        ("least", None) => Ok(Dispatch::Least { of: 2 }),
        ("least", Some(Some(of))) => Ok(Dispatch::Least { of }),
        ("pack", Some(Some(below))) => Ok(Dispatch::Pack { below }),
        _ => {
            let expected =
                "expected random, round-robin, least:2 (the emptiest of so many), pack:6";
            Err(StudyError::Usage(format!("unknown dispatch `{text}`; {expected}")))
        }
    }
}

/// Returns the number of servers, and how requests are spread over them.
fn fleet(options: &Values) -> Result<Option<(u32, Dispatch)>, StudyError> {
    let dispatch = dispatch(options.text("dispatch").unwrap_or("random"))?;
    Ok(options.given("servers").map(|servers| (servers as u32, dispatch)))
}

impl Prepared for ServerJob {
    fn identity(&self) -> String {
        // A file of arrivals is what it holds, not what it is called.
        let arrivals = xxhash_rust::xxh3::xxh3_64(format!("{:?}", self.read.arrivals).as_bytes());
        format!("{}\n{arrivals:016x}\n{}", self.workload, self.info.text)
    }

    fn work(&self) -> Work {
        if let Some(walked) = &self.walked {
            return Work { amount: walked.most(), unit: "requests" };
        }
        let total = self.options.warm_up.saturating_add(self.options.requests);
        // Of arrivals from a file as many as it holds, which only playing it tells.
        let amount = if self.load.ends() || total == u64::MAX { 0 } else { total };
        Work { amount, unit: "requests" }
    }

    fn machine_text(&self) -> &str {
        &self.info.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let (model, service) = (&self.info.model, &self.service);
        if let Some(walked) = &self.walked {
            let found = walked.run((model, service), &self.choice, control, logs)?;
            return Ok(vec![
                ("run", self.walked_table(walked, &found)),
                ("ledger", Table::new(&LEDGER)),
                ("slots", Table::new(&SLOTS)),
                ("slices", slices(&[])),
            ]);
        }
        if let Some((servers, dispatch)) = self.fleet {
            self.choice.steering(model, service)?;
            // Whether there is such a policy was asked just now.
            let make = |server: u32| {
                let made = self.choice.steering(model, service);
                logs.steering(server as usize, made.expect("its technique is of servers"))
            };
            let fleet = (servers, dispatch);
            let run =
                simulate_fleet(model, service, &self.read.arrivals, &make, fleet, self.options)
                    .map_err(|error| failed(&error, self.options.seed))?;
            // A fleet keeps no books and no pieces: both tables stay empty.
            let view = RunView::of_fleet(&run, model.set(), servers);
            return Ok(vec![
                ("run", self.run_table(&view, None)),
                ("ledger", Table::new(&LEDGER)),
                ("slots", slots(&view)),
                ("slices", slices(&[])),
            ]);
        }
        let made = logs.steering(0, self.choice.steering(model, service)?);
        let run =
            simulate_controlled(model, service, &self.read.arrivals, made, self.options, control)
                .map_err(|error| failed(&error, self.options.seed))?;
        let view = RunView::of(&run, model.set());
        Ok(vec![
            ("run", self.run_table(&view, run.precision)),
            ("ledger", ledger(&run.books)),
            ("slots", slots(&view)),
            ("slices", slices(&run.pieces)),
        ])
    }
}

impl ServerJob {
    fn run_table(&self, run: &RunView, precision: Option<halfwink_server::Precision>) -> Table {
        let (tally, seconds) = (run.tally, run.duration_s);
        let us = |time: Option<Time>| time.map(|t| t.as_ns() * 1e-3);
        let at = |quantile: f64| us(tally.latency.quantile(quantile));
        let done: u64 = tally.finished.iter().sum();
        let energy_j = run.machines.iter().map(|m| m.energy_j).sum::<f64>();
        // A server without arrivals has left nothing undone.
        let finished = if tally.arrived == 0 { 1.0 } else { done as f64 / tally.arrived as f64 };
        let waited_ps: u128 = tally.waited_ps.iter().sum();
        let mut cells = Common {
            unit_of_work: "request",
            units: done,
            duration_s: seconds,
            energy_j,
            latency_mean_us: us(tally.latency.mean()),
            latency_p99_us: at(0.99),
            load: Load::Open,
            idle_w: None,
            intervals: Intervals {
                energy_j_per_unit: None,
                latency_mean_us: precision.and_then(|p| interval(p.mean_s, 1e6)),
                latency_p99_us: precision.and_then(|p| holding(interval(p.p99_s, 1e6), at(0.99))),
            },
        }
        .cells();
        let [power_low, power_high] = ends(precision.and_then(|p| interval(p.power_w, 1.0)));
        let known = self.is_to_be_accurate && self.read.arrivals.rate() > 0.0;
        let known = known.then(|| word(precision.is_some_and(|p| p.reached)));
        let own: [Value; 17] = [
            (done as f64 / seconds).into(),
            (energy_j / seconds).into(),
            power_low,
            power_high,
            at(0.5).into(),
            at(0.999).into(),
            us(tally.latency.max()).into(),
            (waited_ps as f64 * 1e-6 / tally.arrived.max(1) as f64).into(),
            us(tally.waits.quantile(0.99)).into(),
            big_share(tally, run.set).into(),
            run.big_asleep_pct().into(),
            run.wakes_per_s().into(),
            (100.0 * finished).into(),
            run.refused_pct().into(),
            run.lost_pct().into(),
            word(run.keeps_up()).into(),
            known.map_or(Value::Missing(Kind::Text), Value::from),
        ];
        let asked = self.asked(run.servers, tally.arrived).into_iter();
        let own = asked.chain(own).chain(walked_cells(None));
        cells.extend(OWN.iter().map(|head| head.0).zip(own));
        Table::row(cells)
    }

    /// Cells of the columns from `load_pct` to `power_high`: what is asked of so many servers, and
    /// whose watts they have.
    fn asked(&self, servers: f64, offered: u64) -> [Value; 10] {
        let full = self.service.whole_capacity() * servers;
        let power = self.info.model.spec().power;
        [
            (100.0 * self.read.arrivals.rate() / full).into(),
            self.options.seed.into(),
            (servers as u64).into(),
            offered.into(),
            self.read.read_as.as_str().into(),
            self.read.bad_lines.into(),
            self.read.bad_line.as_str().into(),
            power.basis.to_string().into(),
            power.factor[0].into(),
            power.factor[1].into(),
        ]
    }

    /// The row of a walk, whose requests are as many as the counts say. What machines did between
    /// steady loads is not known.
    fn walked_table(&self, walked: &Walked, found: &Found) -> Table {
        let year = &found.year;
        let us = |s: Option<f64>| s.map(|s| 1e6 * s);
        let at = |quantile: f64| us(year.quantile_s(quantile));
        let offered = year.requests + year.above_requests;
        let finished = if offered > 0.0 { year.requests / offered } else { 1.0 };
        let mut cells = Common {
            unit_of_work: "request",
            units: year.requests.round() as u64,
            duration_s: year.duration_s,
            energy_j: year.energy_j,
            latency_mean_us: us(year.mean_s),
            latency_p99_us: at(0.99),
            ..Common::default()
        }
        .cells();
        let real = || Value::Missing(Kind::Real);
        let own: [Value; 17] = [
            (year.requests / year.duration_s).into(),
            year.power_w().into(),
            real(),
            real(),
            at(0.5).into(),
            at(0.999).into(),
            at(1.0).into(),
            real(),
            real(),
            real(),
            real(),
            real(),
            (100.0 * finished).into(),
            real(),
            real(),
            word(finished >= KEEPS_UP).into(),
            Value::Missing(Kind::Text),
        ];
        let asked = self.asked(walked.servers(), offered.round() as u64).into_iter();
        let own = asked.chain(own).chain(walked_cells(Some(found)));
        cells.extend(OWN.iter().map(|head| head.0).zip(own));
        Table::row(cells)
    }
}

fn word(is_so: bool) -> &'static str {
    if is_so {
        "yes"
    } else {
        "no"
    }
}

fn slots(run: &RunView) -> Table {
    let mut table = Table::new(&SLOTS);
    let us = |t: Option<Time>| t.map(|t| t.as_ns() * 1e-3);
    for (n, slot) in run.slots.iter().enumerate() {
        let seconds = slot.span.as_s();
        let energy_j: f64 = slot.machines.iter().map(|m| m.energy_j).sum();
        let (asleep_s, all_s, _) = last_kind_s(&slot.machines, run.set);
        table.push(vec![
            n.into(),
            slot.start.as_s().into(),
            (slot.tally.arrived as f64 / seconds).into(),
            (energy_j / seconds).into(),
            us(slot.tally.latency.mean()).into(),
            us(slot.tally.latency.quantile(0.99)).into(),
            big_share(&slot.tally, run.set).into(),
            (100.0 * asleep_s / all_s).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_spread_are_read() {
        assert_eq!(dispatch("least:3").unwrap(), Dispatch::Least { of: 3 });
        assert_eq!(dispatch("pack:6").unwrap(), Dispatch::Pack { below: 6 });
        for text in ["pack", "pack:0", "least:x", "randm", "random:2"] {
            assert!(dispatch(text).unwrap_err().to_string().contains("unknown dispatch"), "{text}");
        }
    }
}
