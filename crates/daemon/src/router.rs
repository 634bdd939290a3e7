//! The live router with the policy and the watts of a described one.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfwink_live::program::ledger::{self, Account, Balance};
use halfwink_live::program::report::{tables, Column, Run};
use halfwink_live_router as live;
use halfwink_study::{CoreTimes, Library, RouterInfo, RouterTimes};
use halfwink_units::Time;
use serde::Serialize;
use serde_json::Value;

use crate::{json, openmetrics, shown, values, Error, Program};

/// assumption: length of a frame that the model takes for the activity of memory and ports; nothing
/// here counts bytes.
pub const MEAN_BYTES: f64 = 400.0;

/// A router at work. Dropping it stops it.
pub struct Router {
    router: Mutex<live::Router>,
    info: RouterInfo,
    set: String,
}

/// What it has done.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Measured.
    #[serde(flatten)]
    pub live: live::Report,
    /// Joules and watts of the described router.
    pub modelled: Modelled,
    /// The same by component, state and cause.
    pub ledger: Balance,
    /// `run` and `ledger`, as results of simulated runs have them.
    pub tables: std::collections::BTreeMap<&'static str, Vec<Column>>,
}

/// Joules, and watts in the mean: modelled, nothing reads a meter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Modelled {
    /// Of the router.
    pub energy_j: f64,
    /// Of its cores, above their deepest sleep.
    pub cores_j: f64,
    /// Of the same router, had all its cores polled.
    pub polling_j: f64,
    /// Of the same router, had all its cores slept as deep as they can.
    pub asleep_j: f64,
    /// `energy_j` in watts.
    pub energy_w: f64,
    /// `cores_j` in watts.
    pub cores_w: f64,
    /// `polling_j` in watts.
    pub polling_w: f64,
    /// `asleep_j` in watts.
    pub asleep_w: f64,
    /// Saved, of what polling would have taken.
    pub saved_pct: f64,
}

/// A description, and the router that it names.
fn described(library: &Library, path: &Path) -> Result<(live::Config, RouterInfo), Error> {
    let config = live::Config::read(path).map_err(Error::input)?;
    let info = library
        .live_router(&config.machine, config.workers, &values(&config.set))
        .map_err(Error::input)?;
    info.policy(&config.policy).map_err(Error::input)?;
    Ok((config, info))
}

/// Checks a description without touching an interface.
///
/// # Errors
/// The file, the line and what was expected.
pub fn check(library: &Library, path: &Path) -> Result<(), Error> {
    described(library, path).map(drop)
}

impl Router {
    /// Opens the ports of a description and starts forwarding; keeps so many lines of a log.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub fn start(library: &Library, path: &Path, log_lines: usize) -> Result<Router, Error> {
        let (config, info) = described(library, path)?;
        let policy = info.policy(&config.policy).map_err(Error::input)?;
        let set = shown(&values(&config.set));
        let started = live::Router::start(config, policy, log_lines).map_err(Error::Run)?;
        Ok(Router { router: Mutex::new(started), info, set })
    }

    /// What the described router would have drawn: `times` of its cores, in a span, with so many
    /// packets of so many bytes in the mean.
    #[must_use]
    pub fn modelled(
        &self,
        times: &[CoreTimes],
        duration_s: f64,
        packets: u64,
        bytes: f64,
    ) -> Modelled {
        let meter = self.info.virtual_meter(times, duration_s, packets, bytes);
        Modelled {
            energy_j: meter.energy_j,
            cores_j: meter.cores_j,
            polling_j: meter.polling_j,
            asleep_j: meter.asleep_j,
            energy_w: meter.energy_j / duration_s,
            cores_w: meter.cores_j / duration_s,
            polling_w: meter.polling_j / duration_s,
            asleep_w: meter.asleep_j / duration_s,
            saved_pct: 100.0 * (1.0 - meter.energy_j / meter.polling_j),
        }
    }

    /// What has happened so far.
    #[must_use]
    pub fn look(&self) -> Report {
        let (live, config) = {
            let router = self.locked();
            (router.report(), router.config())
        };
        let cores: Vec<CoreTimes> = live.workers.iter().map(|w| core_times(&w.residency)).collect();
        let modelled = self.modelled(&cores, live.duration_s, live.received, MEAN_BYTES);
        let wall = Time::from_ns(live.duration_s * 1e9);
        let times = RouterTimes { cores, wall, packets: live.received, bytes: MEAN_BYTES };
        let accounts = self.info.accounts(&times);
        let each = accounts.components.into_iter().map(|(name, rows)| Account::of(name, rows));
        let ledger = ledger::close(wall, each.collect(), Some(accounts.modelled_j));
        let run = Run {
            unit_of_work: "packets",
            units: live.sent,
            machine: &config.machine,
            technique: &config.policy,
            set: self.set.clone(),
            latency: live.sojourn,
        };
        let tables = tables(&run, &ledger).into();
        Report { live, modelled, ledger, tables }
    }

    fn locked(&self) -> MutexGuard<'_, live::Router> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn core_times(r: &live::Residency) -> CoreTimes {
    CoreTimes { busy_s: r.busy_s, spin_s: r.spin_s, c1_s: r.c1_s, c3_s: r.c3_s, c6_s: r.c6_s }
}

impl Program for Router {
    fn report(&self) -> Value {
        json(&self.look())
    }

    fn metrics(&self) -> String {
        openmetrics::router(&self.look())
    }

    fn reload(&self, path: &Path) -> Result<Vec<String>, Error> {
        let config = live::Config::read(path).map_err(Error::input)?;
        self.locked().reload(config).map_err(Error::Input)
    }

    fn stop(&self) {
        self.locked().stop();
    }

    fn is_running(&self) -> bool {
        self.locked().is_running()
    }

    fn log(&self) -> Vec<String> {
        self.locked().log().iter().map(|line| json(line).to_string()).collect()
    }
}

/// Tells a fresh policy of a description what the lines of a log say: the first line, from 0, at
/// which it asks for something else, and for what; none if it asks for the same.
///
/// # Errors
/// The description or a line is wrong.
pub fn replay(
    library: &Library,
    path: &Path,
    lines: &[String],
) -> Result<Option<(usize, String)>, Error> {
    let (config, info) = described(library, path)?;
    let policy = info.policy(&config.policy).map_err(Error::input)?;
    let lines: Vec<live::Line> = crate::run::log_lines(lines)?;
    let found = live::replay(&lines, policy);
    Ok(found.map(|(n, actions)| (n, json(&actions).to_string())))
}
