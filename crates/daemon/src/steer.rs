//! The live steering proxy with the policy and the watts of a described server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfwink_live::program::report::{tables, Column, Run};
use halfwink_live_steer as live;
use halfwink_policy::steering::{Side, SteeringPolicy};
use halfwink_study::{Library, ServerInfo};
use serde::Serialize;
use serde_json::Value;

use crate::{json, openmetrics, shown, values, Error, Program};

/// A proxy at work. Dropping it stops it.
pub struct Steer {
    library: Library,
    steer: Mutex<live::Steer>,
}

/// What it has done.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Measured, and joules and watts of the described server.
    #[serde(flatten)]
    pub live: live::Report,
    /// `run` and `ledger`, as results of simulated runs have them.
    pub tables: BTreeMap<&'static str, Vec<Column>>,
}

/// A description with what it names.
struct Described {
    config: live::Config,
    policy: SteeringPolicy,
    watts: [live::Watts; 2],
}

fn described(library: &Library, path: &Path) -> Result<Described, Error> {
    let config = live::Config::read(path).map_err(Error::input)?;
    let info = library.server(&config.machine, &values(&config.set)).map_err(Error::input)?;
    let policy = info.policy(&config.policy, &config.workload).map_err(Error::input)?;
    let watts = [(Side::Small, config.small.workers), (Side::Big, config.big.workers)]
        .map(|(side, workers)| watts(&info, side, workers));
    Ok(Described { config, policy, watts })
}

fn watts(info: &ServerInfo, side: Side, workers: usize) -> live::Watts {
    let w = info.watts(side, workers);
    live::Watts { idle: w.idle, request: w.request, changing: w.changing, asleep: w.asleep }
}

/// Checks a description without listening.
///
/// # Errors
/// The file, the line and what was expected.
pub fn check(library: &Library, path: &Path) -> Result<(), Error> {
    described(library, path).map(drop)
}

impl Steer {
    /// Listens and serves as a description says; keeps so many lines of a log.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub fn start(library: &Library, path: &Path, log_lines: usize) -> Result<Steer, Error> {
        let Described { config, policy, watts } = described(library, path)?;
        let steer = live::Steer::start(config, policy, watts, log_lines).map_err(Error::Run)?;
        Ok(Steer { library: library.clone(), steer: Mutex::new(steer) })
    }

    /// Where it listens: `ADDRESS:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        self.locked().address().to_string()
    }

    /// What has happened so far.
    #[must_use]
    pub fn look(&self) -> Report {
        let (live, config) = {
            let steer = self.locked();
            (steer.report(), steer.config())
        };
        let run = Run {
            unit_of_work: "requests",
            units: live.machines.values().map(|machine| machine.counts.served).sum(),
            machine: &config.machine,
            technique: &config.policy,
            set: shown(&values(&config.set)),
            latency: live.total,
        };
        let tables = tables(&run, &live.ledger).into();
        Report { live, tables }
    }

    fn locked(&self) -> MutexGuard<'_, live::Steer> {
        self.steer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program for Steer {
    fn report(&self) -> Value {
        json(&self.look())
    }

    fn metrics(&self) -> String {
        openmetrics::steer(&self.look().live)
    }

    fn reload(&self, path: &Path) -> Result<Vec<String>, Error> {
        let Described { config, policy, watts } = described(&self.library, path)?;
        let steer = self.locked();
        let before = steer.config();
        // A policy that stays keeps what it has learned, and its log.
        let same = before.policy == config.policy
            && before.machine == config.machine
            && before.workload == config.workload
            && before.set == config.set;
        steer.reload(config, watts, (!same).then_some(policy)).map_err(Error::Input)
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
    let Described { policy, .. } = described(library, path)?;
    let lines: Vec<live::Line> = crate::run::log_lines(lines)?;
    let found = live::replay(&lines, policy);
    Ok(found.map(|(n, actions)| (n, json(&actions).to_string())))
}
