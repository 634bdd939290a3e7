//! The live steering proxy with the policy and the watts of a described server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use halfwink_engine::Input;
use halfwink_eventlog::{Family, Header};
use halfwink_live::program::config::{read_as, Read};
use halfwink_live::program::rapl::{Measured, Meter};
use halfwink_live::program::report::{tables, Column, Run};
use halfwink_live_steer as live;
use halfwink_policy::steering::Side;
use halfwink_techniques::server::{read, Model};
use halfwink_techniques::Choice;
use serde::Serialize;
use serde_json::Value;

use crate::log::{Log, Told};
use crate::modules::{self, InCharge};
use crate::shown::{json, shown, values};
use crate::{openmetrics, Error, Library, Program};

/// A proxy at work. Dropping it stops it.
pub struct Steer {
    library: Library,
    steer: live::Steer,
    /// Locked by a reload: one at a time. A report never waits for it, nor for a drain.
    in_charge: Mutex<InCharge>,
    log: Log,
    meter: Meter,
}

/// Report of a proxy.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Measured, and joules and watts of the described server.
    #[serde(flatten)]
    pub live: live::Report,
    /// State of the event log.
    #[serde(flatten)]
    pub log: Told,
    /// Joules and watts of the machine that the proxy runs on, by meters that it has.
    pub measured: Measured,
    /// `run` and `ledger`, as results of simulated runs have them.
    pub tables: BTreeMap<&'static str, Vec<Column>>,
}

/// A description with what it names.
struct Described {
    config: live::Config,
    /// Text of the file, for errors that name a line of it.
    input: Input,
    policy: live::Decides,
    /// Header from which the same policy can be made again.
    header: Header,
    /// Watts of each machine, if the description names a machine.
    watts: Option<Vec<live::Watts>>,
}

/// Workload that requests resemble where a description names none, if the machine has it.
const WORKLOAD: &str = "readfile";

/// Policies of sets take values of their machines.
const NO_SET: &str = "found none, expected the name of a set of as many machines, whose values \
                      policies of sets take";

fn described(library: &Library, path: &Path) -> Result<Described, Error> {
    let Read { config, input } = read_as(path, live::Config::parse_here).map_err(Error::input)?;
    let at_policy = |error| Error::at_policy(&input, "server", &config.policy, &error);
    let technique = Choice::parse("server", &modules::from_here(&config.policy, path));
    let technique = technique.map_err(at_policy)?.for_live();
    let deepest = config.machines().map(|machine| machine.count_levels()).max().unwrap_or(1);
    if technique.given("level").is_some_and(|level| level > deepest as f64) {
        let message = format!("found {technique}, expected level 1 to {deepest}, as is here");
        return Err(Error::at(&input, "policy", message));
    }
    let header = Header::new("live steer", Family::Steering, &technique.identity());
    let Some(machine) = &config.machine else {
        if !config.is_pair() {
            return Err(Error::at(&input, "machine", NO_SET));
        }
        let policy = technique.steering_alone().map_err(at_policy)?.into();
        return Ok(Described { config, input, policy, header, watts: None });
    };
    let library = library.as_ref().map_err(Clone::clone)?;
    let set = values(&config.set);
    let model = read(library, machine, &set);
    let model = model.map_err(|e| Error::at_machine(&input, !set.is_empty(), &e))?.model;
    fits(&config, machine, &model).map_err(|why| Error::at(&input, "machine", why))?;
    let known = &model.spec().workloads;
    let first = || known.keys().next().map_or(WORKLOAD, String::as_str);
    let by_default = if known.contains_key(WORKLOAD) { WORKLOAD } else { first() };
    let workload = config.workload.as_deref().unwrap_or(by_default);
    let service = model.named_service(workload);
    let service = service.map_err(|e| Error::at(&input, "workload", e))?;
    let policy = technique.steering(&model, &service).map_err(at_policy)?;
    modules::begun(&technique).map_err(at_policy)?;
    let header = header
        .on(machine, workload)
        .with(set.iter().map(|(path, value)| (path.as_str(), value.as_str())));
    let stand_in = modules::stand_in(&technique, live::DEFAULT_POLICY, || {
        let policy = Choice::parse("server", live::DEFAULT_POLICY)?.steering(&model, &service)?;
        let mut header = header.clone();
        header.technique = live::DEFAULT_POLICY.to_owned();
        Ok((policy, header))
    });
    let policy = live::Decides { policy, stand_in: stand_in.map_err(at_policy)? };
    let watts = |side| watts(&model, side, config.machine(side).workers);
    let watts = config.sides().map(watts).collect();
    Ok(Described { config, input, policy, header, watts: Some(watts) })
}

/// Checks that a described set has as many machines, with as many levels of sleep.
fn fits(config: &live::Config, name: &str, model: &Model) -> Result<(), String> {
    let set = |is_pair, count: usize| match is_pair {
        true => "a pair".to_owned(),
        false => format!("a set of {count}"),
    };
    let found = set(model.set().is_pair(), model.set().machines().len());
    let expected = set(config.is_pair(), config.machines().count());
    if found != expected {
        return Err(format!("found {name}, {found}; expected {expected}, as is here"));
    }
    for (side, described) in config.sides().zip(model.set().machines()) {
        let (found, expected) =
            (usize::from(described.levels), config.machine(side).count_levels());
        if found != expected {
            let machine = config.name(side);
            return Err(format!(
                "found {name}, where the {machine} machine has {found} levels of sleep; \
                 expected {expected}, as is here"
            ));
        }
    }
    Ok(())
}

fn watts(model: &Model, side: Side, workers: usize) -> live::Watts {
    let w = model.watts(side, workers);
    live::Watts { idle: w.idle, request: w.request, changing: w.changing, asleep: w.asleep }
}

/// Checks a description without listening, and that interfaces of its machines' power answer.
///
/// # Errors
/// The file, the line and what was expected.
pub fn check(library: &Library, path: &Path) -> Result<(), Error> {
    let Described { config, input, .. } = described(library, path)?;
    config.verify(&input).map_err(Error::input)
}

impl Steer {
    /// Listens and serves as a description says; `log`: a file for its policy's events.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub fn start(library: &Library, path: &Path, log: Option<&Path>) -> Result<Steer, Error> {
        let Described { config, policy, header, watts, .. } = described(library, path)?;
        let (log, tap) = Log::begin(log, &header)?;
        let steer = live::Steer::start(config, policy, watts, tap).map_err(Error::Run)?;
        let (library, meter) = (library.clone(), Meter::begin());
        let in_charge = Mutex::new(InCharge::new(&header, 0));
        Ok(Steer { library, steer, in_charge, log, meter })
    }

    /// Returns the address that it listens on: `ADDRESS:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        self.steer.address().to_string()
    }

    /// Returns the report up to now.
    #[must_use]
    pub fn look(&self) -> Report {
        let (live, config) = (self.steer.report(), self.steer.config());
        let run = Run {
            unit_of_work: "requests",
            units: live.machines.values().map(|machine| machine.counts.served).sum(),
            machine: config.machine.as_deref(),
            technique: &config.policy,
            set: shown(&values(&config.set)),
            latency: live.total,
        };
        let tables = tables(&run, &live.ledger).into();
        let measured = self.meter.look();
        Report { live, log: self.log.told(), measured, tables }
    }
}

impl Program for Steer {
    fn report(&self) -> Value {
        json(&self.look())
    }

    fn metrics(&self) -> String {
        openmetrics::steer(&self.look())
    }

    fn reload(&self, path: &Path) -> Result<Vec<String>, Error> {
        let Described { config, policy, header, watts, .. } = described(&self.library, path)?;
        let mut in_charge = self.in_charge.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.steer.config();
        let faults = self.steer.policy_faults();
        // A policy that stays keeps what it has learned, and its part of the log.
        let same = in_charge.is_still(&header, faults)
            && before.machine == config.machine
            && before.workload == config.workload
            && before.set == config.set;
        let next = InCharge::new(&header, faults);
        let changed = self.steer.reload(config, watts, (!same).then_some((policy, header)));
        let changed = changed.map_err(Error::Input)?;
        *in_charge = next;
        Ok(changed)
    }

    fn reopen(&self) -> Result<Option<String>, Error> {
        let config = self.steer.config();
        let file = config.access_log.iter().map(|log| log.file.display()).next();
        let opened = self.steer.reopen().map_err(Error::Run)?;
        Ok(file.filter(|_| opened).map(|file| format!("opened access log {file} again")))
    }

    fn stop(&self) -> Result<(), Error> {
        self.steer.stop();
        self.log.end()
    }

    fn is_running(&self) -> bool {
        self.steer.is_running()
    }
}

impl Drop for Steer {
    fn drop(&mut self) {
        // Whoever wanted to know has stopped it.
        let _ = self.stop();
    }
}
