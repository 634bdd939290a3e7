//! The nodes of a live fabric, with the schedule that the switch's description names.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfwink_daemon::log::{Log, Told};
use halfwink_daemon::shown::json;
use halfwink_daemon::{Error, Library, Program};
use halfwink_engine::Input;
use halfwink_eventlog::{Family, Header};
use halfwink_live::program::config::{changes, read_as, refuse, Read};
use halfwink_live_circuits::config::{Config, FabricConfig, HostConfig, SwitchConfig};
use halfwink_live_circuits::nodes::{Nodes, Report as Counted};
use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_techniques::circuits::{LiveFabric, LIVE_CIRCUITS, MACHINE, WORKLOAD, WORLD};
use serde::Serialize;
use serde_json::Value;
use signal_hook::consts::SIGUSR1;

use crate::metrics;

/// Nodes of a fabric at work. Dropping it stops them.
pub(crate) struct Circuits {
    config: Config,
    /// Descriptions that the one of a fabric names.
    named: Vec<Config>,
    policy: Option<String>,
    state: Mutex<State>,
    /// Log of the schedule, if the switch is here.
    log: Option<Log>,
}

struct State {
    /// Nodes at work, until they have stopped.
    nodes: Option<Nodes>,
    /// Last report of nodes that have stopped.
    last: Counted,
}

/// Report of the nodes of a process.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Measured part of the report.
    #[serde(flatten)]
    pub(crate) counted: Counted,
    /// Schedule of circuits, with parameters, if the switch is here.
    pub(crate) policy: Option<String>,
    /// State of the event log.
    #[serde(flatten)]
    pub(crate) log: Told,
}

/// A switch with the schedule that its description names.
struct Scheduled {
    config: SwitchConfig,
    policy: CircuitsPolicy,
    technique: String,
    /// Header from which the same schedule can be made again.
    header: Header,
}

/// A description with what it names.
struct Described {
    config: Config,
    named: Vec<Config>,
    switch: Option<Scheduled>,
    hosts: Vec<HostConfig>,
}

fn described(path: &Path) -> Result<Described, Error> {
    let Read { config, input } = read_as(path, Config::parse).map_err(Error::input)?;
    let mut found = Described { config, named: Vec::new(), switch: None, hosts: Vec::new() };
    match found.config.clone() {
        Config::Switch(config) => found.switch = Some(scheduled(config, &input)?),
        Config::Host(config) => found.hosts.push(config),
        Config::Fabric(config) => name_nodes(&mut found, &config, &input)?,
    }
    Ok(found)
}

/// Finds the schedule of a switch.
fn scheduled(config: SwitchConfig, input: &Input) -> Result<Scheduled, Error> {
    let fabric = LiveFabric {
        hosts: config.interfaces.len() as u16,
        slot_us: config.slot_us,
        night_us: config.night_us,
        gbps: f64::from(config.bytes_per_us) / 125.0,
    };
    let (policy, technique) = fabric
        .schedule(&config.policy)
        .map_err(|error| Error::at_policy(input, WORLD, &config.policy, &error))?;
    let values = fabric.values();
    let header = Header::new(LIVE_CIRCUITS, Family::Circuits, &technique)
        .on(MACHINE, WORKLOAD)
        .with(values.iter().map(|(path, value)| (path.as_str(), value.as_str())));
    Ok(Scheduled { config, policy, technique, header })
}

/// Reads the descriptions that the one of a fabric names.
fn name_nodes(found: &mut Described, config: &FabricConfig, input: &Input) -> Result<(), Error> {
    for (n, path) in config.nodes.iter().enumerate() {
        let Read { config: node, input: own } =
            read_as(path, Config::parse).map_err(|e| Error::at(input, "nodes", e))?;
        let wrong = |expected: &str| Err(Error::at(&own, "role", format!("expected {expected}")));
        match &node {
            Config::Switch(switch) if n == 0 => {
                let hosts = switch.interfaces.len();
                if hosts != config.nodes.len() - 1 {
                    let message = format!("found {hosts} interfaces, expected one for each host");
                    return Err(Error::at(&own, "interfaces", message));
                }
                found.switch = Some(scheduled(switch.clone(), &own)?);
            }
            Config::Host(host) if n > 0 => {
                let expected = ((n - 1) as u16, (config.nodes.len() - 1) as u16);
                if (host.host, host.hosts) != expected {
                    let (host, hosts) = (host.host, host.hosts);
                    let message = format!(
                        "found host {host} of {hosts}, expected {} of {}",
                        expected.0, expected.1
                    );
                    return Err(Error::at(&own, "host", message));
                }
                found.hosts.push(host.clone());
            }
            _ if n == 0 => return wrong("the switch first of a fabric's nodes"),
            _ => return wrong("a host behind the switch in a fabric's nodes"),
        }
        found.named.push(node);
    }
    Ok(())
}

/// Checks a description without touching an interface.
///
/// # Errors
/// The file, the line and what was expected.
pub(crate) fn check(_: &Library, path: &Path) -> Result<(), Error> {
    described(path).map(drop)
}

impl Circuits {
    /// Starts the nodes of a description; `log`: a file for the schedule's events.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub(crate) fn start(path: &Path, log: Option<&Path>) -> Result<Circuits, Error> {
        let Described { config, named, switch, hosts } = described(path)?;
        let (mut policy, mut begun, mut nodes) = (None, None, Nodes::default());
        if log.is_some() && switch.is_none() {
            return Err(Error::Input("--log: a host has no schedule to log".to_owned()));
        }
        let settings = switch.as_ref().map(|switch| switch.config.clone());
        if let Some(Scheduled { config, policy: schedule, technique, header }) = switch {
            let (log, tap) = Log::begin(log, &header)?;
            nodes = Nodes::switch(&config, schedule, tap).map_err(Error::Run)?;
            (policy, begun) = (Some(technique), Some(log));
        }
        nodes = match (&config, &settings) {
            (Config::Fabric(fabric), Some(settings)) => nodes.fabric(fabric, settings, &hosts),
            (Config::Host(host), _) => Nodes::host(host),
            _ => Ok(nodes),
        }
        .map_err(Error::Run)?;
        let state = Mutex::new(State { nodes: Some(nodes), last: Counted::default() });
        Ok(Circuits { config, named, policy, state, log: begun })
    }

    /// Returns the report up to now, or the last one.
    pub(crate) fn look(&self) -> Report {
        let counted = {
            let state = self.locked();
            state.nodes.as_ref().map_or_else(|| state.last.clone(), |nodes| nodes.report(false))
        };
        let log = self.log.as_ref().map_or_else(Told::default, Log::told);
        Report { counted, policy: self.policy.clone(), log }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program for Circuits {
    fn report(&self) -> Value {
        json(&self.look())
    }

    fn metrics(&self) -> String {
        metrics::circuits(&self.look())
    }

    fn reload(&self, path: &Path) -> Result<Vec<String>, Error> {
        // Nodes of other processes have the same rates, nights and numbers of hosts.
        let Described { config, named, .. } = described(path)?;
        let mut found = changes(&self.config, &config);
        if named.len() == self.named.len() {
            found.extend(changes(&self.named, &named));
        }
        let fixed: Vec<&str> = found.iter().map(String::as_str).collect();
        refuse(&found, &fixed).map_err(Error::Input)?;
        Ok(found)
    }

    fn stop(&self) -> Result<(), Error> {
        let stopped = {
            let mut state = self.locked();
            state.nodes.take().map_or(Ok(()), |nodes| {
                // Read before: what is on the wires while nodes end is no part of the run.
                state.last = nodes.report(false);
                nodes.stop()
            })
        };
        self.log.as_ref().map_or(Ok(()), Log::end)?;
        stopped.map_err(Error::Run)
    }

    fn is_running(&self) -> bool {
        self.locked().nodes.as_ref().is_some_and(Nodes::is_running)
    }

    fn signal(&self, number: i32) -> bool {
        if number != SIGUSR1 {
            return false;
        }
        if let Some(nodes) = &self.locked().nodes {
            drop(nodes.report(true));
        }
        // Always printed, since the sender of SIGUSR1 waits for it.
        halfwink_live::say!("halfwink-circuits: counts from zero");
        true
    }
}

impl Drop for Circuits {
    fn drop(&mut self) {
        // An error is for the caller of `stop`; dropping has no way to tell of one.
        let _ = self.stop();
    }
}
