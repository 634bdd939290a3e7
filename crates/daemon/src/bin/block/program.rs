//! The live block device with the policy that its description names.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfwink_daemon::log::{Log, Told};
use halfwink_daemon::modules::{self, InCharge};
use halfwink_daemon::shown::json;
use halfwink_daemon::{Error, Library, Program};
use halfwink_engine::Input;
use halfwink_eventlog::{Family, Header};
use halfwink_live::program::config::{changes, read_as, refuse, Read};
use halfwink_live::program::rapl::{Measured, Meter};
use halfwink_live::program::report::{tables, Column, Run};
use halfwink_live_block as live;
use halfwink_live_block::config::{Config, DEFAULT_POLICY, FIXED};
use halfwink_live_block::topology::Machine;
use halfwink_live_block::vhost::Served;
use halfwink_live_block::{Decides, Done, Front, Next};
use halfwink_techniques::block::{make, Made, LIVE_BLOCK, WORLD};
use halfwink_techniques::Choice;
use serde::Serialize;
use serde_json::Value;

use crate::metrics;

/// A block device at work. Dropping it stops it.
pub(crate) struct Block {
    state: Mutex<State>,
    machine: Machine,
    log: Log,
    meter: Meter,
}

struct State {
    config: Config,
    in_charge: InCharge,
    /// None once it has stopped.
    front: Option<Front>,
    /// Last report of a device that has stopped.
    last: Option<Done>,
}

/// Counts and times of a device, as its report has them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Looked {
    /// I/Os of clients or of the kernel, which passed a policy.
    Policed(Box<Report>),
    /// Requests of virtual machines.
    Guests(Served),
}

/// Report of a device whose requests pass a policy.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Measured part of the report.
    #[serde(flatten)]
    pub(crate) live: live::report::Report,
    /// Completion policy, with parameters.
    pub(crate) policy: String,
    /// Rest of a thread without work.
    pub(crate) rest: String,
    /// State of the event log.
    #[serde(flatten)]
    pub(crate) log: Told,
    /// Joules and watts of this machine, with all that runs on it, by meters that it has.
    pub(crate) measured: Measured,
    /// CPUs that serve.
    pub(crate) machine: Machine,
    /// `run` and `ledger`, as results of simulated runs have them.
    pub(crate) tables: BTreeMap<&'static str, Vec<Column>>,
}

/// A description with what it names.
struct Described {
    config: Config,
    /// Text of the description, for errors found later.
    input: Input,
    machine: Machine,
    policy: Decides,
    /// Header from which the same policy can be made again.
    header: Header,
}

fn described(path: &Path) -> Result<Described, Error> {
    let Read { config, input } = read_as(path, Config::parse).map_err(Error::input)?;
    let machine = Machine::serving(config.cpus.as_deref());
    let machine = machine.map_err(|why| Error::at(&input, "cpus", why))?;
    let made = |name: &str| -> Result<(Choice, Next), Error> {
        let choice = Choice::parse(WORLD, name);
        let choice = choice.map_err(|e| Error::at_policy(&input, WORLD, name, &e))?.for_live();
        let made = make(&choice, &config.rest, &machine.topology());
        let Made { policy, technique, values } =
            made.map_err(|(key, error)| Error::at(&input, key, error))?;
        modules::begun(&choice).map_err(|fault| Error::at(&input, "policy", fault))?;
        let header = Header::new(LIVE_BLOCK, Family::Completion, &technique)
            .on("", "live")
            .with(values.iter().map(|(key, value)| (*key, value.as_str())));
        Ok((choice, (policy, header)))
    };
    let (choice, (policy, header)) = made(&modules::from_here(&config.policy, path))?;
    let stand_in =
        modules::stand_in(&choice, DEFAULT_POLICY, || made(DEFAULT_POLICY).map(|(_, next)| next))?;
    let policy = Decides { policy, stand_in };
    Ok(Described { config, input, machine, policy, header })
}

/// Checks a description, and that what holds the bytes is there. It is not held: another server may
/// have it open.
///
/// # Errors
/// The file, the line and what was expected.
pub(crate) fn check(_: &Library, path: &Path) -> Result<(), Error> {
    let Described { config, input, .. } = described(path)?;
    config.verify().map_err(|(key, why)| Error::at(&input, key, why))
}

impl Block {
    /// Serves a device as its description says; `log`: a file for its policy's events. Also returns
    /// lines about what differs from the description.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub(crate) fn start(path: &Path, log: Option<&Path>) -> Result<(Block, Vec<String>), Error> {
        let Described { config, machine, policy, header, .. } = described(path)?;
        if config.vhost.is_some() && log.is_some() {
            let why = "--log: a disk of virtual machines asks no policy";
            return Err(Error::Input(why.to_owned()));
        }
        if config.ublk.is_some() {
            live::ublk::missing().map_or(Ok(()), |why| Err(Error::Run(why)))?;
        }
        live::raise_descriptor_limit();
        let backend = config.backend().map_err(Error::Input)?;
        let said = backend.way().fell_back.into_iter().collect();
        let (log, tap) = Log::begin(log, &header)?;
        let front = Front::start(&config, &machine, backend, policy, tap).map_err(Error::Run)?;
        let (in_charge, front) = (InCharge::new(&header, 0), Some(front));
        let state = Mutex::new(State { config, in_charge, front, last: None });
        Ok((Block { state, machine, log, meter: Meter::begin() }, said))
    }

    /// Returns the place at which it serves: an NBD URI, a disk, a socket.
    pub(crate) fn address(&self) -> String {
        self.locked().front.as_ref().map(Front::address).unwrap_or_default()
    }

    /// Returns the report up to now, or the last one.
    pub(crate) fn look(&self) -> Looked {
        let (done, policy, rest) = {
            let state = self.locked();
            let done = state.front.as_ref().map(Front::report).or_else(|| state.last.clone());
            (done, state.config.policy.clone(), state.config.rest.clone())
        };
        let live = match done.unwrap_or(Done::Guests(Served::default())) {
            Done::Policed(report) => *report,
            Done::Guests(served) => return Looked::Guests(served),
        };
        let run = Run {
            unit_of_work: "I/Os",
            units: live.workers.iter().map(|worker| worker.here + worker.given).sum(),
            machine: None,
            technique: &policy,
            set: String::new(),
            latency: live.latency,
        };
        let tables = tables(&run, &live.ledger).into();
        let (log, measured) = (self.log.told(), self.meter.look());
        let machine = self.machine.clone();
        let report = Report { live, policy, rest, log, measured, machine, tables };
        Looked::Policed(Box::new(report))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program for Block {
    fn report(&self) -> Value {
        json(&self.look())
    }

    fn metrics(&self) -> String {
        metrics::block(&self.look())
    }

    fn reload(&self, path: &Path) -> Result<Vec<String>, Error> {
        let Described { config, policy, header, .. } = described(path)?;
        let mut state = self.locked();
        let found = changes(&state.config, &config);
        refuse(&found, &FIXED).map_err(Error::Input)?;
        // A policy that stays keeps what it has learned, and its part of the log.
        let faults = state.front.as_ref().map_or(0, Front::policy_faults);
        let is_other =
            !state.in_charge.is_still(&header, faults) || state.config.rest != config.rest;
        let in_charge = InCharge::new(&header, faults);
        if let Some(front) = &state.front {
            let policy = is_other.then_some((policy, header));
            front.reload(&config, policy).map_err(Error::Input)?;
        }
        (state.config, state.in_charge) = (config, in_charge);
        Ok(found)
    }

    fn stop(&self) -> Result<(), Error> {
        let stopped = {
            let mut state = self.locked();
            let front = state.front.take();
            // Read before: threads that have ended book no time.
            state.last = front.as_ref().map(Front::report).or_else(|| state.last.take());
            front.map_or(Ok(()), Front::stop)
        };
        self.log.end()?;
        stopped.map_err(Error::Run)
    }

    fn is_running(&self) -> bool {
        self.locked().front.as_ref().is_some_and(Front::is_running)
    }

    fn ended(&self) -> &'static str {
        match self.locked().config.ublk {
            Some(_) => "the disk was taken away, or a thread has died; what it said is above",
            None => "a thread has died; what it said is above",
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // An error is for the caller of `stop`; dropping has no way to tell of one.
        let _ = self.stop();
    }
}
