//! The live router with the policy and the watts of a described one.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfwink_engine::Input;
use halfwink_eventlog::{Family, Header};
use halfwink_live::program::config::{exposed, plain, read_as, Read};
use halfwink_live::program::ledger::{self, Account, Balance};
use halfwink_live::program::rapl::{Measured, Meter};
use halfwink_live::program::report::{tables, Column, Run};
use halfwink_live::program::stand_in::Deciding;
use halfwink_live_router as live;
use halfwink_policy::scaling::ScalingPolicy;
use halfwink_techniques::router::{live_values, read as read_machine, CoreTimes, Model, Times};
use halfwink_techniques::{Choice, Descriptions, Error as Unmade};
use serde::Serialize;
use serde_json::Value;

use crate::log::{Log, Told};
use crate::modules::{self, InCharge};
use crate::shown::{json, shown, values};
use crate::{openmetrics, Error, Library, Program};

/// assumption: length of a frame that the model takes for the activity of memory and ports; nothing
/// here counts bytes.
pub const MEAN_BYTES: f64 = 400.0;

/// A router at work. Dropping it stops it.
pub struct Router {
    library: Descriptions,
    router: Mutex<live::Router>,
    /// Locked by a reload: one at a time.
    in_charge: Mutex<InCharge>,
    model: Model,
    set: String,
    log: Log,
    meter: Meter,
}

/// Report of a router.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Measured part of the report.
    #[serde(flatten)]
    pub live: live::Report,
    /// State of the event log.
    #[serde(flatten)]
    pub log: Told,
    /// Joules and watts of the described router.
    pub modelled: Modelled,
    /// Joules and watts of this machine, with all that runs on it, by meters that it has.
    pub measured: Measured,
    /// Energies of `modelled` by component, state and cause.
    pub ledger: Balance,
    /// `run` and `ledger`, as results of simulated runs have them.
    pub tables: std::collections::BTreeMap<&'static str, Vec<Column>>,
}

/// Joules, and watts in the mean, of the described router: modelled, whatever meters say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Modelled {
    /// Energy of the router, in joules.
    pub energy_j: f64,
    /// Energy of its cores above their deepest sleep, in joules.
    pub cores_j: f64,
    /// Energy of the router if all its cores polled, in joules.
    pub polling_j: f64,
    /// Energy of the router if all its cores slept as deeply as they can, in joules.
    pub asleep_j: f64,
    /// Power of `energy_j`, in watts.
    pub energy_w: f64,
    /// Power of `cores_j`, in watts.
    pub cores_w: f64,
    /// Power of `polling_j`, in watts.
    pub polling_w: f64,
    /// Power of `asleep_j`, in watts.
    pub asleep_w: f64,
    /// Saved, of what polling would have taken.
    pub saved_pct: f64,
}

/// A description with what it names.
struct Described {
    config: live::Config,
    /// Text of the description, for errors found later.
    input: Input,
    model: Model,
    policy: Deciding<ScalingPolicy, live::Next>,
    /// Header from which the same policy can be made again.
    header: Header,
}

/// Reads a description. That others may read the keys in it is said.
fn read(path: &Path) -> Result<Read<live::Config>, Error> {
    let read = read_as(path, live::Config::parse).map_err(Error::input)?;
    let line = exposed(path).filter(|_| read.config.app.has_keys());
    line.iter().for_each(|line| halfwink_live::say!("halfwink: {}", plain(line)));
    Ok(read)
}

fn described(library: &Descriptions, path: &Path) -> Result<Described, Error> {
    let Read { config, input } = read(path)?;
    let own = values(&config.set);
    let at_machine = |error| Error::at_machine(&input, !own.is_empty(), &error);
    let described = read_machine(library, &config.machine, &own).map_err(at_machine)?.model;
    let set = live_values(&described, config.workers, &own);
    let model = read_machine(library, &config.machine, &set).map_err(at_machine)?.model;
    let at_policy = |error| Error::at_policy(&input, "router", &config.policy, &error);
    let made = |policy: &str| -> Result<(Choice, live::Next), Unmade> {
        let technique = Choice::parse("router", policy)?.for_live();
        let policy = technique.scaling(&model)?;
        modules::begun(&technique)?;
        let header = Header::new("live router", Family::Scaling, &technique.identity())
            .on(&config.machine, "live")
            .with(set.iter().map(|(path, value)| (path.as_str(), value.as_str())));
        Ok((technique, (policy, header)))
    };
    let (technique, (policy, header)) =
        made(&modules::from_here(&config.policy, path)).map_err(at_policy)?;
    let stand_in = modules::stand_in(&technique, live::DEFAULT_POLICY, || {
        made(live::DEFAULT_POLICY).map(|(_, next)| next).map_err(at_policy)
    })?;
    let policy = Deciding { policy, stand_in };
    Ok(Described { config, input, model, policy, header })
}

/// Checks a description without touching an interface.
///
/// # Errors
/// The file, the line and what was expected.
pub fn check(library: &Library, path: &Path) -> Result<(), Error> {
    let Described { config, input, .. } = described(library.as_ref().map_err(Clone::clone)?, path)?;
    config.verify().map_err(|(key, why)| Error::at(&input, key, why))
}

impl Router {
    /// Opens the ports of a description and starts forwarding; `log`: a file for its policy's
    /// events.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub fn start(library: &Library, path: &Path, log: Option<&Path>) -> Result<Router, Error> {
        let library = library.as_ref().map_err(Clone::clone)?;
        let Described { config, model, policy, header, .. } = described(library, path)?;
        let set = shown(&values(&config.set));
        let (log, tap) = Log::begin(log, &header)?;
        let started = live::Router::start(config, policy, tap).map_err(Error::Run)?;
        let (router, in_charge) = (Mutex::new(started), Mutex::new(InCharge::new(&header, 0)));
        let (library, meter) = (library.clone(), Meter::begin());
        Ok(Router { library, router, in_charge, model, set, log, meter })
    }

    /// Returns the modelled energy of the described router: for the times of its cores in a span,
    /// with this number of packets of this mean length.
    #[must_use]
    pub fn modelled(
        &self,
        times: &[CoreTimes],
        duration_s: f64,
        packets: u64,
        bytes: f64,
    ) -> Modelled {
        let meter = self.model.virtual_meter(times, duration_s, packets, bytes);
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

    /// Returns the report up to now.
    #[must_use]
    pub fn look(&self) -> Report {
        let (live, config) = {
            let router = self.locked();
            (router.report(), router.config())
        };
        let cores: Vec<CoreTimes> = live.workers.iter().map(|w| core_times(&w.residency)).collect();
        let modelled = self.modelled(&cores, live.duration_s, live.received, MEAN_BYTES);
        let times =
            Times { cores, wall: live.length.most, packets: live.received, bytes: MEAN_BYTES };
        let accounts = self.model.accounts(&times);
        let each = accounts.components.into_iter().map(|(name, rows)| Account::of(name, rows));
        let ledger = ledger::close(live.length, each.collect(), Some(accounts.modelled_j));
        let run = Run {
            unit_of_work: "packets",
            units: live.sent,
            machine: Some(&config.machine),
            technique: &config.policy,
            set: self.set.clone(),
            latency: live.latency,
        };
        let tables = tables(&run, &ledger).into();
        let measured = self.meter.look();
        Report { live, log: self.log.told(), modelled, measured, ledger, tables }
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
        let Described { config, policy, header, .. } = described(&self.library, path)?;
        let mut in_charge = self.in_charge.lock().unwrap_or_else(PoisonError::into_inner);
        let router = self.locked();
        let faults = router.policy_faults();
        // A policy that stays keeps what it has learned, and its part of the log.
        let same = in_charge.is_still(&header, faults);
        let next = InCharge::new(&header, faults);
        let changed = router.reload(config, (!same).then_some((policy, header)));
        let changed = changed.map_err(Error::Input)?;
        *in_charge = next;
        Ok(changed)
    }

    fn stop(&self) -> Result<(), Error> {
        self.locked().stop();
        self.log.end()
    }

    fn is_running(&self) -> bool {
        self.locked().is_running()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Whoever wanted to know has stopped it.
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_makes_the_same_router_again() {
        let library = Descriptions::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.toml");
        let text = "schema = 1\npolicy = \"metronome:vacation_us=20,threads=2\"\nworkers = 3\n\
                    [set]\n\"power.c1_w\" = 1.5\n[[port]]\ninterface = \"lo\"\n";
        std::fs::write(&path, text).unwrap();
        let Described { model, header, .. } = described(&library, &path).unwrap();
        assert_eq!(header.technique, "metronome:threads=2,vacation_us=20");
        assert_eq!((&*header.set["cores.count"], &*header.set["power.c1_w"]), ("3", "1.5"));
        let set: Vec<_> = header.set.into_iter().collect();
        let again = read_machine(&library, &header.machine, &set).unwrap().model;
        assert_eq!(again.spec(), model.spec());
    }
}
