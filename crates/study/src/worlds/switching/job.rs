//! One kernel on one configuration of cores, running one program.

use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_switching::{policies, run_with, CorePolicies, Kernel, SleepPolicy};
use halfwink_techniques::{Choice, Make, Modifier, Parameter};

use super::programs::{core_values, CORES};
use super::{SwitchingInfo, SEED};
use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::{nobody_at, Logs};
use crate::table::{real, text, Head, Table, Value};
use crate::world::{Defaults, Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::{
    ends, interval, ledger, slices, Common, Intervals, Load, COMMON, LEDGER, SLICES,
};

/// World: threads that move to another core inside system calls, at the scale of microseconds.
pub struct Switching;

/// A job whose names were found.
struct SwitchingJob {
    info: SwitchingInfo,
    text: String,
    configuration: String,
    workload: usize,
    kernel: &'static str,
    seed: u64,
}

const OPTIONS: &[Parameter] = &[Parameter::whole("seed", SEED, (0, u64::MAX))
    .about("of all random streams", "one fixed stream, so that runs repeat")];

/// Columns of a run beside the common ones.
const OWN: [Head; 6] = [
    real("amount"),
    text("amount_unit"),
    real("power_w"),
    real("power_low_w"),
    real("power_high_w"),
    real("amount_per_joule"),
];

/// Name of a workload with its variant: `web@1g`.
fn full_name(workload: &halfwink_switching::Workload) -> String {
    if workload.variant.is_empty() {
        workload.name.clone()
    } else {
        format!("{}@{}", workload.name, workload.variant)
    }
}

impl World for Switching {
    fn name(&self) -> &'static str {
        "switching"
    }

    fn title(&self) -> &'static str {
        "threads that move to another core inside system calls, at the scale of microseconds"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink run STUDY.toml` with `world = \"switching\"` and `{technique}")
    }

    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError> {
        let mut list: Vec<Named> = Vec::new();
        for name in library.switchings() {
            let info = library.switching(&name, &[])?;
            for workload in &info.model.spec().workloads {
                let title = format!("on {}; counted in {}", name, workload.amount_unit);
                list.push(Named { name: full_name(workload), title });
            }
        }
        Ok(list)
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        let mut list = Vec::new();
        for model in library.switchings() {
            let Ok(info) = library.switching(&model, &[]) else { continue };
            for configuration in &info.model.spec().configurations {
                let kinds = |cores: &[String]| cores.join(", ");
                let os = if configuration.os.is_empty() {
                    "none".into()
                } else {
                    kinds(&configuration.os)
                };
                let title =
                    format!("application cores: {}; OS cores: {os}", kinds(&configuration.app));
                list.push(Named { name: format!("{model}@{}", configuration.name), title });
            }
        }
        list
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn defaults(&self) -> Defaults {
        Defaults { machine: Some("alpha@sim-cs"), workload: None, loads: None }
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN].concat()),
            ("ledger", LEDGER.to_vec()),
            ("cores", CORES.to_vec()),
            ("slices", SLICES.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        Ok(Box::new(SwitchingJob::find(library, job, &settings)?))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        let found = SwitchingJob::find(library, job, settings)?;
        // Streams of a log have the numbers of cores, as `logged` gives them.
        let core = found.policies()?.into_iter().nth(place.stream as usize);
        match (place.family, core) {
            (Family::Offload, Some(core)) => Ok(replayer(core.offload)),
            (Family::Gating, Some(CorePolicies { sleep: SleepPolicy::Times(policy), .. })) => {
                Ok(replayer(policy))
            }
            (Family::Switching, Some(CorePolicies { sleep: SleepPolicy::Rate(policy), .. })) => {
                Ok(replayer(policy))
            }
            _ => Err(nobody_at(job, place)),
        }
    }
}

impl SwitchingJob {
    fn find(library: &Library, job: &Job, settings: &Settings) -> Result<SwitchingJob, StudyError> {
        let Some((model, configuration)) = job.machine.split_once('@') else {
            let message = format!(
                "machine `{}`: expected MODEL@CONFIGURATION, such as `alpha@sim-cs`",
                job.machine
            );
            return Err(StudyError::Usage(message));
        };
        let mut values = settings.machine.clone();
        let Make::Kernel(kernel) = settings.choice.technique().make else {
            let message = format!("{}: no kernel of core switching", settings.choice);
            return Err(StudyError::Usage(message));
        };
        // This comes behind values that were set, so that the technique decides.
        values.extend(power_down(&settings.choice));
        let info = library.switching(model, &values)?;
        let spec = info.model.spec();
        let configurations = || spec.configurations.iter();
        if !configurations().any(|c| c.name == configuration) {
            let known = configurations().map(|c| c.name.as_str());
            return Err(StudyError::unknown("configuration", configuration, known));
        }
        let names: Vec<String> = spec.workloads.iter().map(full_name).collect();
        let Some(workload) = names.iter().position(|name| *name == job.workload) else {
            let known = names.iter().map(String::as_str);
            return Err(StudyError::unknown("workload", &job.workload, known));
        };
        let kernel = kernel(&settings.choice);
        let has_os = configurations().any(|c| c.name == configuration && !c.os.is_empty());
        if kernel != "unmod" && !has_os {
            return Err(StudyError::Usage(format!(
                "kernel `{kernel}` needs an OS core, `{configuration}` has none; `unmod` needs none"
            )));
        }
        let versions = &spec.mechanism.versions;
        if !["unmod", "bound"].contains(&kernel) && !versions.contains_key(kernel) {
            let known: Vec<&str> = versions.keys().map(String::as_str).collect();
            return Err(StudyError::Usage(format!(
                "{model} lacks the kernel `{kernel}`; it has unmod, bound, {}",
                known.join(", ")
            )));
        }
        Ok(SwitchingJob {
            text: info.text().to_owned(),
            info,
            configuration: configuration.to_owned(),
            workload,
            kernel,
            seed: settings.options.number("seed") as u64,
        })
    }

    /// Watts of all cores while no program runs.
    fn idle_w(&self) -> Option<f64> {
        let spec = self.info.model.spec();
        let here = spec.configurations.iter().find(|c| c.name == self.configuration)?;
        let never = spec.kernel.power_down == halfwink_switching::PowerDown::Never;
        let watts = |name: &String| {
            let kind = spec.cores.get(name)?;
            let up_w = kind.up_w.unwrap_or(kind.active_w);
            Some(if never { up_w } else { kind.idle_w })
        };
        // The sum is none if the watts of one core are unknown: without them it would be too low.
        here.app.iter().chain(&here.os).map(watts).sum()
    }

    /// Fresh policies of all cores.
    fn policies(&self) -> Result<Vec<CorePolicies>, StudyError> {
        let workload = &self.info.model.spec().workloads[self.workload];
        let kernel = Kernel::named(self.kernel);
        policies(&self.info.model, workload, &self.configuration, &kernel)
            .map_err(|error| self.info.failed(&error.into()))
    }
}

/// A core's policies, logged if the run is; an idle core is gated by its number, too.
fn logged(logs: &Logs, core: usize, policies: CorePolicies) -> CorePolicies {
    CorePolicies {
        offload: logs.offload(core, policies.offload),
        sleep: match policies.sleep {
            SleepPolicy::Times(policy) => SleepPolicy::Times(logs.gating(core, policy)),
            SleepPolicy::Rate(policy) => SleepPolicy::Rate(logs.idle_power(core, policy)),
            SleepPolicy::Fixed { off } => SleepPolicy::Fixed { off },
        },
    }
}

/// Returns what a technique says of idle cores, as a value of the model.
fn power_down(choice: &Choice) -> Option<(String, String)> {
    let of = |modifier: &Choice| match modifier.technique().make {
        Make::Modifier(Modifier::PowerDown(mode)) => Some(mode),
        _ => None,
    };
    let word = choice.modifiers().iter().find_map(of)?;
    Some(("kernel.power_down".to_owned(), word.to_owned()))
}

impl Prepared for SwitchingJob {
    fn identity(&self) -> String {
        format!("{}\n{}\n{}", self.workload, self.configuration, self.text)
    }

    fn work(&self) -> Work {
        Work { amount: 1, unit: "programs" }
    }

    fn machine_text(&self) -> &str {
        &self.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let workload = &self.info.model.spec().workloads[self.workload];
        let kernel = Kernel::named(self.kernel);
        let of = |(core, own)| logged(logs, core, own);
        let policies = self.policies()?.into_iter().enumerate().map(of).collect();
        let (model, configuration) = (&self.info.model, &self.configuration);
        let done = run_with(model, workload, configuration, &kernel, self.seed, policies, control)
            .map_err(|error| self.info.failed(&error))?;
        let mut cells = Common {
            unit_of_work: "unit",
            units: done.units,
            duration_s: done.seconds,
            energy_j: done.energy_j(),
            // Nobody in these programs waits for a unit; their rate says how fast they are.
            latency_mean_us: Some(done.seconds * 1e6 / done.units as f64),
            latency_p99_us: None,
            load: Load::Closed,
            idle_w: self.idle_w(),
            intervals: Intervals {
                latency_mean_us: interval(done.units_per_s, 1.0)
                    // The time of a unit is the reciprocal of its rate, which exchanges the ends.
                    .map(|(low, high)| (1e6 / high, 1e6 / low)),
                ..Intervals::default()
            },
        }
        .cells();
        let [power_low, power_high] = ends(interval(done.power_w, 1.0));
        let own: [Value; 6] = [
            done.amount.into(),
            workload.amount_unit.as_str().into(),
            (done.energy_j() / done.seconds).into(),
            power_low,
            power_high,
            done.amount_per_joule(workload).into(),
        ];
        cells.extend(OWN.iter().map(|head| head.0).zip(own));
        let mut cores = Table::new(&CORES);
        done.cores.iter().for_each(|core| cores.push(core_values(core, &done).into()));
        control.report(1).map_err(|_| StudyError::Interrupted)?;
        Ok(vec![
            ("run", Table::row(cells)),
            ("ledger", ledger(&done.ledger)),
            ("cores", cores),
            ("slices", slices(&done.pieces)),
        ])
    }
}
