//! Applications above the driver, as closed networks (Nellans 2014, Sec 6.2, 6.4).

use halfwink_engine::RunControl;
use halfwink_storage::application::{Application, Solved};

use super::figures::{Bench, MANY_SOCKETS};
use super::job::Load;
use super::StorageInfo;
use crate::error::StudyError;
use crate::table::{real, text, Table};

/// Latencies of Table 6.1, in microseconds.
const LATENCIES_US: [f64; 5] = [1000.0, 100.0, 50.0, 10.0, 1.0];
/// The application of Table 6.1.
const SWEPT: &str = "latency-sweep";
/// The applications of Sec 6.4.
const APPLICATIONS: [&str; 4] = ["specjbb2005", "specweb2009", "tpc-c", "tpc-h"];
/// Rates at which the driver is simulated below applications, in I/Os a second; what it takes in
/// between is interpolated.
const RATES: [f64; 5] = [60e3, 110e3, 180e3, 250e3, 340e3];
/// Rounds in which a rate and what the driver takes at it settle.
const ROUNDS: usize = 30;

/// The costs of the driver at one rate.
#[derive(Clone, Copy)]
struct At {
    iops: f64,
    us_per_io: f64,
    handlers: f64,
}

/// The costs of one driver, by rate.
struct Costs(Vec<At>);

impl Costs {
    fn at(&self, iops: f64) -> At {
        let all = &self.0;
        // At least 1 and at most the last, so that a rate outside is held at the nearest end by the
        // clamp below.
        let above = all.iter().position(|at| at.iops >= iops).unwrap_or(all.len() - 1).max(1);
        let (a, b) = (all[above - 1], all[above]);
        let share = ((iops - a.iops) / (b.iops - a.iops)).clamp(0.0, 1.0);
        let between = |x: f64, y: f64| x + share * (y - x);
        At {
            iops,
            us_per_io: between(a.us_per_io, b.us_per_io),
            handlers: between(a.handlers, b.handlers),
        }
    }
}

/// An application on a driver.
struct Found {
    solved: Solved,
    ios: f64,
    round_us: f64,
    busy_cpus: f64,
    handlers: f64,
}

impl Bench {
    /// Throughput and the driver's share by the device's latency (Table 6.1).
    pub(super) fn latencies(&self) -> Table {
        let heads = [
            real("latency_us"),
            real("rounds_per_s"),
            real("throughput"),
            real("driver_pct"),
            real("driver_busy_pct"),
        ];
        let mut table = Table::new(&heads);
        let info = self.machine("westmere-ep");
        let Some(application) = info.machine.spec().applications.0.get(SWEPT) else {
            return table;
        };
        let driver_us = driver_us(info);
        let cpus = f64::from(info.machine.spec().topology.cpus());
        let mut first = None;
        for latency_us in LATENCIES_US {
            let solved = application.on_one_cpu(cpus, driver_us, latency_us);
            let rate = solved.rounds_per_us;
            let first = *first.get_or_insert(rate);
            let round_us = f64::from(application.threads) / rate;
            table.push(vec![
                latency_us.into(),
                (1e6 * rate).into(),
                (rate / first).into(),
                (100.0 * solved.stay_us[0] / round_us).into(),
                (100.0 * rate * application.ios * driver_us).into(),
            ]);
        }
        table
    }

    /// The four applications on the three drivers (Figs 6.12 to 6.15).
    pub(super) fn applications(&self) -> Result<Table, StudyError> {
        let heads = [
            text("application"),
            text("driver"),
            real("iops"),
            real("ratio"),
            real("gain_pct"),
            real("stay_us"),
            real("busy_cpus"),
            real("handlers"),
        ];
        let mut table = Table::new(&heads);
        let info = self.machine(MANY_SOCKETS);
        let naive = costs(info, "issuer")?;
        let aware = costs(info, "cache-aware")?;
        for name in APPLICATIONS {
            let Some(application) = info.machine.spec().applications.0.get(name) else { continue };
            let single = on_one_cpu(info, application);
            let threaded = [
                ("mt-naive", on_all_cpus(info, application, &naive, false)),
                ("mt-cache-aware", on_all_cpus(info, application, &aware, true)),
            ];
            let first = single.solved.rounds_per_us;
            for (driver, found) in [("st", single)].into_iter().chain(threaded) {
                let rate = found.solved.rounds_per_us;
                table.push(vec![
                    name.into(),
                    driver.into(),
                    (1e6 * rate * found.ios).into(),
                    (rate / first).into(),
                    (100.0 * (rate / first - 1.0)).into(),
                    found.round_us.into(),
                    found.busy_cpus.into(),
                    found.handlers.into(),
                ]);
            }
        }
        Ok(table)
    }
}

/// Returns the time that the single-threaded driver takes of its CPU for an I/O.
fn driver_us(info: &StorageInfo) -> f64 {
    let driver = &info.machine.spec().driver;
    let software = info.machine.slower() * driver.completion_us;
    driver.interrupt_us + driver.structures_us + software
}

fn latency_us(info: &StorageInfo) -> f64 {
    info.machine.spec().device.latency_us + info.machine.spec().device.pcie_us
}

fn on_one_cpu(info: &StorageInfo, application: &Application) -> Found {
    let (sockets, cores) = info.sockets();
    let cpus = f64::from(sockets * cores);
    let taken = driver_us(info);
    let solved = application.on_one_cpu(cpus, taken, latency_us(info));
    let rate = solved.rounds_per_us;
    Found {
        ios: application.ios,
        round_us: f64::from(application.threads) / rate - application.think_us,
        busy_cpus: rate * (application.cpu_us + application.ios * taken),
        handlers: 1.0,
        solved,
    }
}

/// Finds the rate of a two-phase driver on the CPUs of the application: what it takes depends on
/// the rate, and the rate on what it takes. A CPU on which the driver is all the time has no cache
/// of an application to use up.
fn on_all_cpus(
    info: &StorageInfo,
    application: &Application,
    costs: &Costs,
    is_aware: bool,
) -> Found {
    let (sockets, cores) = info.sockets();
    let cpus = f64::from(sockets * cores);
    let driver = &info.machine.spec().driver;
    let first_phase = driver.interrupt_us + driver.ipi_send_us;
    let mut rate = 0.5 / driver_us(info) / application.ios;
    let mut found = None;
    for _ in 0..ROUNDS {
        let at = costs.at(1e6 * rate * application.ios);
        let handlers = if is_aware { at.handlers.max(1.0) } else { cpus };
        let used = (1e-6 * at.iops * at.us_per_io / handlers).min(1.0);
        let refill = driver.refill_us * (1.0 - used);
        let latency = latency_us(info);
        let solved = application.on_all_cpus(cpus, at.us_per_io, refill, first_phase, latency);
        rate = 0.5 * (rate + solved.rounds_per_us);
        let taken = application.cpu_us + application.ios * (at.us_per_io + refill);
        found = Some((solved, taken, at.handlers));
    }
    let (solved, taken, handlers) =
        found.unwrap_or((application.on_one_cpu(cpus, 0.0, 0.0), 0.0, 0.0));
    let rate = solved.rounds_per_us;
    Found {
        ios: application.ios,
        round_us: f64::from(application.threads) / rate - application.think_us,
        busy_cpus: rate * taken,
        handlers,
        solved,
    }
}

/// Returns the costs of a policy by rate, with all CPUs issuing.
fn costs(info: &StorageInfo, policy: &str) -> Result<Costs, StudyError> {
    let choice = info.choice(policy)?;
    let (sockets, cores) = info.sockets();
    let played = RATES.iter().map(|&rate| {
        let load = Load {
            issuers: sockets * cores,
            rate: Some(rate),
            // Applications do not issue in the order of CPUs, as even rates do.
            poisson: true,
            warm_up: 30_000,
            ios: 30_000,
            ..Load::default()
        };
        let run = info.play(&choice, &load, &RunControl::new())?;
        Ok(At {
            iops: run.iops(),
            us_per_io: 1e6 * run.driver_cpus() / run.iops(),
            handlers: f64::from(run.handlers),
        })
    });
    let mut all = played.collect::<Result<Vec<At>, StudyError>>()?;
    all.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    Ok(Costs(all))
}
