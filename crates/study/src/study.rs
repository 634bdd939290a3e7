//! Studies: which workloads, machines and techniques to run, what to vary, and what to draw. TOML.

use std::collections::HashSet;

use halfwink_engine::{Input, InputError};
use halfwink_techniques::{Choice, Error, Values};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::design::{grid, Design, DesignFile};
use crate::error::StudyError;
use crate::job::Job;
use crate::library::{read, Library};
use crate::world::World;
use crate::worlds::list::world;

/// Runs of a study, at most: as many results are read and drawn in one piece.
const MOST_RUNS: u128 = 1_000_000;

/// A study, read and checked.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Name: its file's, without the ending.
    pub name: String,
    /// The world in which it is played.
    pub world: &'static str,
    /// A title in one line.
    pub title: String,
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Names of machines.
    pub machines: Vec<String>,
    /// Names of techniques.
    pub techniques: Vec<String>,
    /// The technique that others are compared with.
    pub baseline: String,
    /// The machine on which that technique runs, once for each workload and with nothing swept, to
    /// be compared with all others; each run's own machine if none is named.
    pub baseline_machine: Option<String>,
    /// Options of its world that hold for all of it.
    pub options: Vec<(String, String)>,
    /// The values to vary, in order: values of the machine, options of the world (`seed`), and
    /// parameters of techniques (`power-save:c_up`, or `technique.threshold` of all that have it).
    pub sweep: Vec<(String, Vec<String>)>,
    /// Which of its combinations are played.
    pub design: Design,
    /// Combinations in the order in which the design draws them, each the place of a value in each
    /// list of `sweep`; of a grid none.
    pub draws: Vec<Vec<usize>>,
    /// The plots to draw.
    pub plots: Vec<Plot>,
    /// The file as it was read.
    pub text: String,
}

/// A plot of a study's results table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The heading of the plot.
    pub title: String,
    /// `point`, `line` or `bar`.
    pub mark: String,
    /// Columns of the results.
    pub x: String,
    /// Columns of the results, on the other axis.
    pub y: String,
    /// Column that is told apart by colour.
    pub color: Option<String>,
    /// Column of which each value gets its own panel.
    pub panel: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyFile {
    schema: Spanned<u32>,
    world: Option<Spanned<String>>,
    title: String,
    workloads: Spanned<Vec<String>>,
    machines: Spanned<Vec<String>>,
    techniques: Spanned<Vec<String>>,
    baseline: Option<Spanned<String>>,
    baseline_machine: Option<String>,
    instructions: Option<Spanned<u64>>,
    #[serde(default)]
    options: toml::Table,
    #[serde(default)]
    sweep: toml::Table,
    design: Option<Spanned<DesignFile>>,
    #[serde(default)]
    plot: Vec<Plot>,
}

impl Study {
    /// Reads a study by name from the library, or from a file ending in `.toml`.
    ///
    /// # Errors
    /// If there is none, or it is wrong; with file and line.
    pub fn open(library: &Library, name: &str) -> Result<Study, StudyError> {
        let path = library.find_named("studies", "study", name)?;
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or(name).to_owned();
        Ok(Study::parse(&stem, &Input::new(path.display().to_string(), read(&path)?))?)
    }

    /// Reads a study from text.
    ///
    /// # Errors
    /// As [`Study::open`].
    pub fn parse(name: &str, input: &Input) -> Result<Study, InputError> {
        let file: StudyFile = input.parse()?;
        if *file.schema.get_ref() != 1 {
            let message = "this halfwink reads study schema 1";
            return Err(input.error_at(&file.schema.span(), message));
        }
        for list in [&file.workloads, &file.machines, &file.techniques] {
            if list.get_ref().is_empty() {
                return Err(input.error_at(&list.span(), "an empty list; expected at least one"));
            }
            let mut known = HashSet::new();
            if let Some(twice) = list.get_ref().iter().find(|name| !known.insert(*name)) {
                let message = format!("`{twice}` stands there twice; expected each once");
                return Err(input.error_at(&list.span(), message));
            }
        }
        let world = match &file.world {
            Some(name) => {
                world(name.get_ref()).map_err(|e| input.error_at(&name.span(), e.to_string()))?
            }
            None => world("chip").map_err(|e| input.error_at(&(0..0), e.to_string()))?,
        };
        let mut techniques = Vec::new();
        for name in file.techniques.get_ref() {
            let text = canonical(world.name(), name)
                .map_err(|e| input.error_at(&file.techniques.span(), e.to_string()))?;
            techniques.push(text);
        }
        let options = options(input, world, &file)?;
        let baseline = match &file.baseline {
            // On a machine of its own the baseline is an extra run, so that it need not be among
            // the techniques.
            Some(name) if file.baseline_machine.is_some() => {
                canonical(world.name(), name.get_ref())
                    .map_err(|e| input.error_at(&name.span(), e.to_string()))?
            }
            Some(name) if !techniques.contains(name.get_ref()) => {
                let message = format!("baseline `{}` is not among the techniques", name.get_ref());
                return Err(input.error_at(&name.span(), message));
            }
            Some(name) => name.get_ref().clone(),
            None => techniques[0].clone(),
        };
        let sweep = file
            .sweep
            .into_iter()
            .map(|(path, values)| sweep_values(input, world, path, values))
            .collect::<Result<Vec<_>, _>>()?;
        let (workloads, machines) = (file.workloads.into_inner(), file.machines.into_inner());
        let lists = workloads.len() * machines.len() * techniques.len();
        let design = designed(input, world, file.design, lists, &sweep)?;
        Ok(Study {
            name: name.to_owned(),
            world: world.name(),
            title: file.title,
            workloads,
            machines,
            techniques,
            baseline,
            baseline_machine: file.baseline_machine,
            options,
            draws: design.draws(&sweep),
            design,
            sweep,
            plots: file.plot,
            text: input.text.clone(),
        })
    }

    /// Every run of the study, in order: machines, then workloads, then the sweep (of a random
    /// design as drawn), then techniques; before all those of the baseline's own machine, if it has
    /// one.
    ///
    /// # Errors
    /// If the design is adaptive: it has no list of runs.
    pub fn jobs(&self) -> Result<Vec<Job>, StudyError> {
        let job = |machine: &String, workload: &String, set: &[_], technique: &String| Job {
            world: self.world.to_owned(),
            workload: workload.clone(),
            machine: machine.clone(),
            technique: technique.clone(),
            set: set.to_vec(),
            options: self.options.clone(),
        };
        let points = match self.design {
            Design::Grid => self.grid_points(),
            Design::Random { .. } => self.drawn_points(),
            Design::Adaptive { .. } => {
                return Err(StudyError::Usage(format!(
                    "{}: an adaptive design chooses its runs by their results, so there is no \
                     list of them; expected `halfwink run` of all of it",
                    self.name
                )));
            }
        };
        let mut jobs = Vec::new();
        if let Some(machine) = &self.baseline_machine {
            // Nothing swept: the machine of the baseline may not have the values.
            jobs.extend(self.workloads.iter().map(|w| job(machine, w, &[], &self.baseline)));
        }
        for machine in &self.machines {
            for workload in &self.workloads {
                // Techniques innermost: runs that are compared with each other follow each other,
                // so that a stopped study has whole comparisons.
                for set in &points {
                    for technique in &self.techniques {
                        jobs.push(job(machine, workload, set, technique));
                    }
                }
            }
        }
        Ok(jobs)
    }

    fn drawn_points(&self) -> Vec<Vec<(String, String)>> {
        let set = |point: &Vec<usize>| {
            let values = point.iter().zip(&self.sweep);
            values.map(|(&at, (path, values))| (path.clone(), values[at].clone())).collect()
        };
        self.draws.iter().map(set).collect()
    }

    fn grid_points(&self) -> Vec<Vec<(String, String)>> {
        // One empty point, so that a study without a sweep has one run of each.
        let mut points: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for (path, values) in &self.sweep {
            points = points
                .iter()
                .flat_map(|point| {
                    values.iter().map(move |value| {
                        let mut point = point.clone();
                        point.push((path.clone(), value.clone()));
                        point
                    })
                })
                .collect();
        }
        points
    }
}

/// Returns the one spelling of a technique. A finished run is read after the file of its policy is
/// gone or has changed, so that such a name is checked when a job of it is prepared.
fn canonical(world: &str, name: &str) -> Result<String, Error> {
    match Choice::parse(world, name) {
        Err(_) if Choice::names_file(name) => Ok(name.to_owned()),
        read => read.map(|choice| choice.to_string()),
    }
}

/// Options of the world, checked by it; `instructions` may stand beside the lists as well.
fn options(
    input: &Input,
    world: &dyn World,
    file: &StudyFile,
) -> Result<Vec<(String, String)>, InputError> {
    let mut values = Values::of(world.options());
    let mut options = Vec::new();
    let beside = file.instructions.as_ref().map(|n| ("instructions", n.get_ref().to_string()));
    let table = file.options.iter().map(|(name, value)| (name.as_str(), as_set(value)));
    for (name, value) in beside.into_iter().chain(table) {
        let wrong = |message: String| match &file.instructions {
            Some(n) if name == "instructions" => input.error_at(&n.span(), message),
            _ => input.error_at_key(&format!("options.{name}"), &message),
        };
        // Not left to the jobs: an option that no world has would fail each of them with the same
        // line.
        if !values.knows(name) {
            let known: Vec<&str> = world.options().iter().map(|o| o.name).collect();
            let known = known.join(", ");
            let world = world.name();
            return Err(wrong(format!(
                "the world `{world}` has no option `{name}`; it has {known}"
            )));
        }
        if options.iter().any(|(other, _)| other == name) {
            return Err(wrong("stands beside the lists, too; expected once".to_owned()));
        }
        values.set(name, &value).map_err(wrong)?;
        options.push((name.to_owned(), value));
    }
    Ok(options)
}

/// A value as it is written after `--set`.
fn as_set(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn sweep_values(
    input: &Input,
    world: &dyn World,
    path: String,
    values: toml::Value,
) -> Result<(String, Vec<String>), InputError> {
    let key = format!("sweep.{path}");
    if let Some((_, now)) = world.moved().iter().find(|(old, _)| *old == path) {
        let message = format!("`{path}` is no longer a machine's; write `{now}` now");
        return Err(input.error_at_key(&key, &message));
    }
    match values {
        toml::Value::Array(values) if !values.is_empty() => {
            Ok((path, values.iter().map(as_set).collect()))
        }
        _ => {
            Err(input.error_at_key(&key, &format!("sweep of `{path}`: expected a list of values")))
        }
    }
}

/// The design, which asks for no more runs than fit memory; at each point there are `lists` runs.
fn designed(
    input: &Input,
    world: &dyn World,
    file: Option<Spanned<DesignFile>>,
    lists: usize,
    sweep: &[(String, Vec<String>)],
) -> Result<Design, InputError> {
    // Kept before the file is consumed: whether there are too many runs is known only with the
    // sweep, and the error has to name the line.
    let points_at = file.as_ref().and_then(|design| design.get_ref().points_at());
    let design = Design::parse(input, world, file, sweep)?;
    match points_at {
        Some(at) if design != Design::Grid => {
            // In 128 bits: 64 axes of some values each are beyond 64.
            let runs = (lists as u128).saturating_mul(design.most(grid(sweep)));
            if runs > MOST_RUNS {
                let message = format!("{runs} runs; expected at most {MOST_RUNS}");
                return Err(input.error_at(&at, message));
            }
        }
        _ => bounded(input, lists, sweep)?,
    }
    Ok(design)
}

/// A few lists ask for more runs than fit memory: refused before any is made.
fn bounded(input: &Input, lists: usize, sweep: &[(String, Vec<String>)]) -> Result<(), InputError> {
    let mut runs = lists as u128;
    if runs > MOST_RUNS {
        let message = format!("{runs} runs; expected at most {MOST_RUNS}");
        return Err(input.error_at_key("workloads", &message));
    }
    for (path, values) in sweep {
        runs = runs.saturating_mul(values.len() as u128);
        if runs > MOST_RUNS {
            let message = format!("{runs} runs up to here; expected at most {MOST_RUNS}");
            return Err(input.error_at_key(&format!("sweep.{path}"), &message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
schema = 1
title = "wake-up latency"
workloads = ["chase", "alu"]
machines = ["ev6-4"]
techniques = ["always-on", "tap"]

[sweep]
"gating.wake_up_ns" = [2.0, 16.0]
"#;

    fn parse(text: &str) -> Result<Study, InputError> {
        Study::parse("s", &Input::new("s.toml", text))
    }

    #[test]
    fn words_are_swept_without_their_quotes() {
        let text = TEXT.replace("[2.0, 16.0]", "[\"fixed\", 2, 0.5]");
        assert_eq!(parse(&text).unwrap().sweep[0].1, ["fixed", "2", "0.5"]);
    }

    #[test]
    fn a_study_is_the_product_of_its_lists() {
        let jobs = parse(TEXT).unwrap().jobs().unwrap();
        assert_eq!(jobs.len(), 2 * 2 * 2);
        assert_eq!(jobs[1].technique, "tap");
        assert_eq!(jobs[2].set, [("gating.wake_up_ns".to_owned(), "16.0".to_owned())]);
    }

    #[test]
    fn a_baseline_may_have_a_machine_of_its_own() {
        let text = TEXT.replace(
            "[sweep]",
            "baseline = \"always-on\"\nbaseline_machine = \"in-order\"\n[sweep]",
        );
        let text = text.replace("[\"always-on\", \"tap\"]", "[\"tap\"]");
        let jobs = parse(&text).unwrap().jobs().unwrap();
        assert_eq!(jobs.len(), 2 + 2 * 2);
        assert_eq!(
            (jobs[1].machine.as_str(), jobs[1].technique.as_str()),
            ("in-order", "always-on")
        );
        assert!(jobs[1].set.is_empty());
        let text = text.replace("always-on", "always-of");
        assert!(parse(&text).unwrap_err().to_string().contains("did you mean `always-on`"));
    }

    #[test]
    fn wrong_study_is_refused_with_line() {
        let cases = [
            ("\"tap\"", "\"tpa\"", "s.toml:6: unknown technique `tpa`; did you mean `tap`?"),
            ("[\"ev6-4\"]", "[]", "s.toml:5: an empty list; expected at least one"),
            ("title", "titel", "did you mean `title`?"),
            ("[2.0, 16.0]", "2.0", "expected a list of values"),
        ];
        for (from, to, expected) in cases {
            let error = parse(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_sweep_is_bounded_before_it_is_expanded() {
        let many = (1..=100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let keys = ["gating.wake_up_ns", "gating.break_even_ns", "gating.restore_ns"];
        let sweep: String = keys.iter().map(|key| format!("\"{key}\" = [{many}]\n")).collect();
        let text = TEXT.replace("\"gating.wake_up_ns\" = [2.0, 16.0]\n", &sweep);
        let error = parse(&text).unwrap_err().to_string();
        // In the order of their names.
        let expected = "s.toml:8: sweep.gating.wake_up_ns: 4000000 runs up to here";
        assert_eq!(error, format!("{expected}; expected at most 1000000"));
    }

    #[test]
    fn number_of_instructions_stands_once() {
        let text = |more: &str| TEXT.replace("\n[sweep]", &format!("{more}\n[sweep]"));
        let beside = "instructions = 5000\n";
        assert!(parse(&text(beside)).is_ok());
        let twice = parse(&text(&format!("{beside}[options]\ninstructions = 6000\n"))).unwrap_err();
        assert!(twice.to_string().contains("expected once"), "{twice}");
    }

    #[test]
    fn a_study_of_routers_names_policies_and_no_instructions() {
        let routers = |change: fn(String) -> String| {
            let text = TEXT.replace("schema = 1", "schema = 1\nworld = \"router\"");
            parse(&change(text.replace("\"always-on\", \"tap\"", "\"napi\", \"power-save\"")))
        };
        let study = routers(|text| text).unwrap();
        assert_eq!((study.world, study.baseline.as_str()), ("router", "napi"));
        let complaint = |change| routers(change).unwrap_err().to_string();
        let wrong = complaint(|text| text.replace("power-save", "tap"));
        assert!(wrong.starts_with("s.toml:7: technique `tap` is of the world `chip`"), "{wrong}");
        let played = complaint(|text| text.replace("\n[sweep]", "instructions = 5\n[sweep]"));
        assert!(played.contains("the world `router` has no option `instructions`"), "{played}");
        let world = complaint(|text| text.replace("\"router\"", "\"roter\""));
        assert!(world.starts_with("s.toml:3:"), "{world}");
    }
}
