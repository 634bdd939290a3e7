//! One schedule of circuits between racks, and all flows of one workload.

use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_fabric::flows::files::Needs;
use halfwink_fabric::flows::workload::Amount;
use halfwink_fabric::flows::{self, play, FlowsError, Routes, Setting};
use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_techniques::{Choice, Parameter};
use halfwink_units::Time;

use super::results::{run_row, sizes, OWN, SIZES};
use super::source::{needs_of, Source};
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::table::Head;
use crate::world::{Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::{ledger, COMMON, LEDGER};
use crate::worlds::fabric::FabricInfo;

/// World: flows between racks that share circuits.
pub struct Racks;

/// Most racks of a fabric.
const MOST_RACKS: u32 = 1024;
/// Seed where none is chosen.
const SEED: u64 = 1;

const OPTIONS: &[Parameter] = &[
    Parameter::whole("seed", SEED, (0, u64::MAX))
        .about("of all random streams", "one fixed stream, so that runs repeat"),
    Parameter::number("duration_ms", "ms", 100.0, (1e-3, 1e9))
        .about("how long flows of an open workload come", "halfwink"),
    Parameter::number("at_most_ms", "ms", 1e5, (1e-3, 1e9))
        .about("what has not ended then has not ended", "halfwink"),
];

/// A job whose names were found.
struct RacksJob {
    info: FabricInfo,
    choice: Choice,
    workload: String,
    source: Source,
    amount: Amount,
    at_most: Time,
}

impl FabricInfo {
    /// Returns its racks.
    ///
    /// # Errors
    ///
    /// If it describes none.
    pub(super) fn racks(&self) -> Result<&flows::Racks, StudyError> {
        self.fabric.spec().racks.as_ref().ok_or_else(|| {
            StudyError::Usage(format!("{}: no [racks], so that there are no flows", self.name))
        })
    }

    /// The fabric of a job, with room for its workload.
    fn for_job(
        library: &Library,
        job: &Job,
        settings: &Settings,
    ) -> Result<FabricInfo, StudyError> {
        let info = library.fabric(&job.machine, &settings.machine)?;
        match needs_of(&job.workload)? {
            Some(needs) => info.with_room(library, &job.machine, &settings.machine, needs),
            None => Ok(info),
        }
    }

    /// The same fabric with as many racks as a file needs, if it has fewer and nothing sets them:
    /// switches have a port for each, and as many circuits share one.
    fn with_room(
        self,
        library: &Library,
        name: &str,
        values: &[(String, String)],
        needs: Needs,
    ) -> Result<FabricInfo, StudyError> {
        let racks = self.racks()?;
        let least = match needs {
            Needs::Racks(count) => count,
            Needs::Servers(count) => count.div_ceil(u32::from(racks.servers)),
        };
        let count = u32::from(racks.count);
        let is_set = values.iter().any(|(key, _)| key == "racks.count");
        // A number that the user set is kept, even if it is too small: the reader of the file then
        // says what does not fit.
        if least <= count || least > MOST_RACKS || is_set {
            return Ok(self);
        }
        // Planes have equally many matchings of an even number of racks.
        let planes = u32::from(racks.planes);
        let step = if planes % 2 == 0 { planes } else { 2 * planes };
        let more = least.next_multiple_of(step).min(MOST_RACKS);
        let switch = &self.fabric.spec().switch;
        let sharing = switch.circuits_per_port * f64::from(more) / f64::from(count);
        let more = more.to_string();
        let mut values = values.to_vec();
        values.extend([
            ("racks.count".to_owned(), more.clone()),
            ("switch.ports".to_owned(), more.clone()),
            ("switch.usable_ports".to_owned(), more),
            // `Debug` writes a whole number with its point, so that TOML has it as a float.
            ("switch.circuits_per_port".to_owned(), format!("{sharing:?}")),
        ]);
        library.fabric(name, &values)
    }

    fn rack_policy(&self, choice: &Choice) -> Result<CircuitsPolicy, StudyError> {
        if let Some(day_us) = choice.given_or_default("day_us") {
            self.check_day(day_us)?;
        }
        let racks = self.racks()?;
        self.schedule(choice, racks.count, racks.planes)
    }
}

/// Returns the ways that a technique has for flows.
pub(super) fn routes(choice: &Choice) -> Routes {
    let has = |name: &str| choice.technique().parameters.iter().any(|known| known.name == name);
    Routes {
        hops_below_bytes: choice.given_or_default("short_mb").map_or(0.0, |mb| mb * 1e6),
        relays: has("relays") && choice.word("relays") == "yes",
        even_parts: has("parts") && choice.word("parts") == "even",
    }
}

impl World for Racks {
    fn name(&self) -> &'static str {
        "racks"
    }

    fn title(&self) -> &'static str {
        "flows between racks that share circuits, packet switches, or both"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink circuits advise WORKLOAD --technique {technique}")
    }

    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError> {
        Ok(Named::described(library.flow_workloads(), |name| {
            Ok(library.flow_workload(name)?.0.title().to_owned())
        }))
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        let mut names = library.fabrics();
        names.retain(|name| library.fabric(name, &[]).is_ok_and(|found| found.racks().is_ok()));
        Named::described(names, |name| {
            Ok(library.fabric(name, &[])?.fabric.spec().description.clone())
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN].concat()),
            ("ledger", LEDGER.to_vec()),
            ("sizes", SIZES.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let info = FabricInfo::for_job(library, job, &settings)?;
        info.rack_policy(&settings.choice)?;
        let source = Source::find(library, &job.workload, info.racks()?)?;
        let options = &settings.options;
        let ms = |name| Time::from_ns(1e6 * options.number(name));
        let seed = options.number("seed") as u64;
        Ok(Box::new(RacksJob {
            workload: job.workload.clone(),
            source,
            // A described workload puts its own load here (`Source::traffic`), and files have none.
            amount: Amount { load: 1.0, duration: ms("duration_ms"), seed },
            at_most: ms("at_most_ms"),
            choice: settings.choice,
            info,
        }))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        if place.family != Family::Circuits {
            return Err(nobody_at(job, place));
        }
        let info = FabricInfo::for_job(library, job, settings)?;
        Ok(replayer(info.rack_policy(&settings.choice)?))
    }
}

fn failed(error: FlowsError) -> StudyError {
    match error {
        FlowsError::Interrupted(_) => StudyError::Interrupted,
        other => StudyError::Model(other.to_string()),
    }
}

impl Prepared for RacksJob {
    fn identity(&self) -> String {
        format!("{}\n{}\n{}", self.workload, self.source.identity(), self.info.text())
    }

    fn work(&self) -> Work {
        // The number of flows is known only once they were drawn or read.
        Work { amount: 0, unit: "flows" }
    }

    fn machine_text(&self) -> &str {
        self.info.text()
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let racks = self.info.racks()?;
        let traffic = self.source.traffic(&self.workload, racks, self.amount)?;
        if traffic.flows().is_empty() {
            let message = format!("{}: no flow came in this time", self.workload);
            return Err(StudyError::Usage(message));
        }
        let setting = Setting {
            racks,
            switch: &self.info.fabric.spec().switch,
            routes: routes(&self.choice),
            at_most: self.at_most,
            seed: self.amount.seed,
        };
        let policy = logs.circuits(0, self.info.rack_policy(&self.choice)?);
        let run = play(&setting, policy, &traffic, control).map_err(failed)?;
        Ok(vec![
            ("run", run_row(&run, &traffic, self.amount.seed, self.source.read_as())),
            ("ledger", ledger(&run.books)),
            ("sizes", sizes(&run, &traffic)),
        ])
    }
}
