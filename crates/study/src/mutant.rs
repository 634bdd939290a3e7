//! Mutants: descriptions broken on purpose. A published number that is met whatever is broken is
//! no evidence for the model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use halfwink_engine::{matches, Change, Input, InputError, Template};
use halfwink_techniques::Choice;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::error::StudyError;
use crate::job::Job;
use crate::library::{read, Library};
use crate::target::{Work, AREAS};

/// One way to break descriptions of machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Name, unique over all worlds (`free-switches`).
    pub name: String,
    /// The fact that does not hold any more, in one line.
    pub what: String,
    /// The part of a work that it breaks.
    pub breaks: Breaks,
    /// Descriptions that it breaks, by their paths below `machines` without the extension
    /// (`switching/alpha`); one `*` stands for any part of a path.
    #[serde(default)]
    pub machines: Vec<String>,
    /// Areas whose targets it is tried on.
    pub areas: Vec<String>,
    /// True for the few mutants that every test run plays.
    #[serde(default)]
    pub quick: bool,
    /// Values by path, in place of the ones there; `*` stands for any key or element.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Factors of the numbers there.
    #[serde(default)]
    pub scale: BTreeMap<String, f64>,
    /// Paths whose values are taken instead.
    #[serde(default)]
    pub copy: BTreeMap<String, String>,
    /// Techniques of studies, routers and machines with a storage device that another one takes
    /// the place of, under their names.
    #[serde(default)]
    pub techniques: Replaced,
    /// Values that replace all that a study sweeps, by path.
    #[serde(default)]
    pub sweeps: BTreeMap<String, String>,
    /// Arguments of experiments, in place of those that targets ask for (`os-profile`); behind
    /// them, if it begins with a comma.
    #[serde(default)]
    pub experiments: BTreeMap<String, String>,
}

/// Techniques, by name, and what takes their place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Replaced(BTreeMap<String, String>);

impl Replaced {
    /// Returns what takes the place of a technique, with its parameters; itself if nothing does.
    fn instead(&self, technique: &str) -> String {
        let (name, parameters) = match technique.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (technique, None),
        };
        match (self.0.get(name), parameters) {
            // Parameters are kept unless the mutant names its own: it replaces the mechanism, not
            // its setting.
            (Some(other), Some(rest)) if !other.contains(':') => format!("{other}:{rest}"),
            (Some(other), _) => other.clone(),
            (None, _) => technique.to_owned(),
        }
    }

    /// Reads a technique of a world, or what takes its place.
    pub(crate) fn choice(&self, world: &str, technique: &str) -> Result<Choice, StudyError> {
        Ok(Choice::parse(world, &self.instead(technique))?)
    }
}

/// The part of a work that a mutant breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Breaks {
    /// The published contribution: without it its numbers must not be met.
    Technique,
    /// A number or a fact that the model is given.
    Input,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MutantFile {
    schema: Spanned<u32>,
    #[serde(default)]
    mutant: Vec<Spanned<Mutant>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillsFile {
    schema: Spanned<u32>,
    killed: BTreeMap<String, Spanned<Vec<String>>>,
}

/// Which mutants a work's targets in one file are killed by.
pub(crate) struct Kills {
    input: Input,
    killed: BTreeMap<String, Spanned<Vec<String>>>,
}

/// Checks the schema of a file.
fn expect_schema_1(input: &Input, found: &Spanned<u32>) -> Result<(), InputError> {
    if *found.get_ref() == 1 {
        return Ok(());
    }
    Err(input.error_at(&found.span(), "this halfwink reads schema 1"))
}

impl Mutant {
    /// Reads the mutants of a world.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(input: &Input) -> Result<Vec<Mutant>, InputError> {
        let file: MutantFile = input.parse()?;
        expect_schema_1(input, &file.schema)?;
        let mut mutants: Vec<Mutant> = Vec::with_capacity(file.mutant.len());
        for entry in file.mutant {
            let span = entry.span();
            let mutant = entry.into_inner();
            let fail = |message: String| {
                Err(input.error_at(&span, format!("mutant `{}`: {message}", mutant.name)))
            };
            if mutants.iter().any(|m| m.name == mutant.name) {
                return fail("there is another one of that name".into());
            }
            if let Some(area) = mutant.areas.iter().find(|a| !AREAS.contains(&a.as_str())) {
                return fail(format!("unknown area `{area}`"));
            }
            let of_machines =
                !mutant.set.is_empty() || !mutant.scale.is_empty() || !mutant.copy.is_empty();
            let of_runs = !mutant.techniques.0.is_empty()
                || !mutant.sweeps.is_empty()
                || !mutant.experiments.is_empty();
            // A mutant that changes nothing would kill no target, and every target would seem to be
            // insensitive to it.
            if of_machines == mutant.machines.is_empty() || !(of_machines || of_runs) {
                return fail(
                    "expected `machines` with `set`, `scale` or `copy`, or one of `techniques`, \
                     `sweeps`, `experiments`"
                        .into(),
                );
            }
            mutants.push(mutant);
        }
        Ok(mutants)
    }

    /// Returns whether it breaks the description at this path below `machines`, without extension.
    fn breaks(&self, place: &str) -> bool {
        self.machines.iter().any(|pattern| matches(pattern, place))
    }

    /// A job as it leaves it: the same names, of something else.
    pub(crate) fn broken_job(&self, job: &Job) -> Job {
        let mut broken = job.clone();
        broken.technique = self.techniques.instead(&job.technique);
        for (path, value) in &mut broken.set {
            if let Some(other) = self.sweeps.get(path) {
                value.clone_from(other);
            }
        }
        broken
    }

    /// The description, broken, and how many of its values differ.
    ///
    /// # Errors
    /// If a value that is multiplied is no number, or one that is copied is not there.
    fn break_it(&self, input: Input) -> Result<(Input, usize), InputError> {
        let mut changes: Vec<(&str, Change)> = Vec::new();
        let set = self.set.iter().map(|(path, v)| (path.as_str(), Change::To(v.to_string())));
        changes.extend(set);
        changes.extend(self.scale.iter().map(|(path, by)| (path.as_str(), Change::Times(*by))));
        let copy = self.copy.iter().map(|(path, from)| (path.as_str(), Change::As(from.clone())));
        changes.extend(copy);
        let (mut broken, changed) = Template::parse(input)?.changed(&changes)?;
        // Errors of the broken description name the mutant, or they would seem to be the file's.
        broken.name += &format!(" under mutant {}", self.name);
        Ok((broken, changed))
    }
}

impl Library {
    /// All mutants, in the order of their files.
    ///
    /// # Errors
    /// If a file is wrong; with file and line.
    pub fn mutants(&self) -> Result<Vec<Mutant>, StudyError> {
        let mut all: Vec<Mutant> = Vec::new();
        for name in self.names(FOLDER, "toml") {
            let path = self.folder(FOLDER).join(format!("{name}.toml"));
            let input = Input::new(path.display().to_string(), read(&path)?);
            all.extend(Mutant::parse(&input)?);
        }
        Ok(all)
    }

    /// The library with descriptions broken as a mutant says.
    ///
    /// # Errors
    /// If there is no such mutant, or their files are wrong.
    pub fn mutated(&self, name: &str) -> Result<Library, StudyError> {
        let known = self.mutants()?;
        let found = known.iter().find(|m| m.name == name).cloned();
        let Some(mutant) = found else {
            return Err(StudyError::unknown("mutant", name, known.iter().map(|m| m.name.as_str())));
        };
        Ok(self.under(Arc::new(mutant)))
    }

    /// Techniques that this library's mutant puts others in the place of.
    pub(crate) fn replaced(&self) -> Replaced {
        self.mutant().map(|mutant| mutant.techniques.clone()).unwrap_or_default()
    }

    /// A description as this library's mutant leaves it.
    pub(crate) fn as_mutated(&self, path: &Path, input: Input) -> Result<Input, InputError> {
        let Some(mutant) = self.mutant() else { return Ok(input) };
        let below = path.strip_prefix(self.folder("machines")).unwrap_or(path).with_extension("");
        if !mutant.breaks(&below.display().to_string()) {
            return Ok(input);
        }
        Ok(mutant.break_it(input)?.0)
    }

    /// Reads the record of which mutants make which targets of a file fail.
    pub(crate) fn kills(&self, targets: &str) -> Result<Kills, StudyError> {
        let path = self.folder(KILLS).join(format!("{targets}.toml"));
        // No record is no error: targets without one are judged as insensitive, so that nobody
        // gains by leaving it out.
        if !path.exists() {
            let input = Input::new(path.display().to_string(), String::new());
            return Ok(Kills { input, killed: BTreeMap::new() });
        }
        let input = Input::new(path.display().to_string(), read(&path)?);
        let file: KillsFile = input.parse()?;
        expect_schema_1(&input, &file.schema)?;
        Ok(Kills { input, killed: file.killed })
    }
}

impl Work {
    /// Notes what kills its targets.
    pub(crate) fn remember(&mut self, kills: &Kills) -> Result<(), InputError> {
        for (id, killed_by) in &kills.killed {
            let whole = format!("{}/{id}", self.work);
            match self.targets.iter_mut().find(|t| t.id == whole) {
                Some(target) => target.killed_by.clone_from(killed_by.get_ref()),
                // A record of a target that was renamed would let the new one stand without
                // evidence.
                None => {
                    let message = format!("there is no target `{whole}`");
                    return Err(kills.input.error_at(&killed_by.span(), message));
                }
            }
        }
        Ok(())
    }
}

/// The folder of mutants, with a file for each world.
const FOLDER: &str = "targets/mutants";
/// The folder of records of which mutants make which targets fail, with a file for each file of
/// targets.
const KILLS: &str = "targets/killed";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::library;

    /// A mutant that changes nothing would make every target look insensitive.
    #[test]
    fn every_mutant_breaks_every_description_that_it_names() {
        let library = library();
        let mutants = library.mutants().unwrap();
        assert!(!mutants.is_empty());
        let places = descriptions(&library.folder("machines"), "");
        for mutant in &mutants {
            for pattern in &mutant.machines {
                let alone = Mutant { machines: vec![pattern.clone()], ..mutant.clone() };
                let broken: Vec<&String> = places.iter().filter(|p| alone.breaks(p)).collect();
                assert!(!broken.is_empty(), "{}: no description `{pattern}`", mutant.name);
                for place in broken {
                    let path = library.folder("machines").join(format!("{place}.toml"));
                    let input = Input::new(place.clone(), read(&path).unwrap());
                    let (input, changed) = mutant.break_it(input).unwrap();
                    assert!(changed > 0, "{}: nothing differs in {place}", mutant.name);
                    assert!(input.parse::<toml::Table>().is_ok());
                }
            }
        }
        let mut names: Vec<&str> = mutants.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), mutants.len(), "two mutants of one name");
    }

    fn descriptions(folder: &Path, below: &str) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let place = format!("{below}{}", path.file_stem().unwrap().to_str().unwrap());
            if path.is_dir() {
                found.extend(descriptions(&path, &format!("{place}/")));
            } else if path.extension().is_some_and(|e| e == "toml") {
                found.push(place);
            }
        }
        found
    }

    #[test]
    fn a_mutant_reaches_values_behind_what_a_study_sets() {
        let mutant = r#"
            schema = 1
            [[mutant]]
            name = "slow"
            what = "memory ten times as far"
            breaks = "input"
            machines = ["ev*"]
            areas = ["gating"]
            scale = { "memory.*_ns" = 10, "l2.latency_ns" = 2 }
        "#;
        let error = Mutant::parse(&Input::new("m.toml", mutant)).unwrap()[0]
            .break_it(Input::new("ev6.toml", "[l2]\nlatency_ns = 4.0\n"));
        let (input, changed) = error.unwrap();
        assert_eq!((input.text.as_str(), changed), ("[l2]\nlatency_ns = 8.0\n", 1));
    }

    #[test]
    fn a_wrong_mutant_is_named_with_its_line() {
        let text =
            "schema = 1\n[[mutant]]\nname = \"x\"\nwhat = \"y\"\nbreaks = \"input\"\nareas = []\n";
        let error = Mutant::parse(&Input::new("m.toml", text)).unwrap_err().to_string();
        let expected = "m.toml:2: mutant `x`: expected `machines` with `set`, `scale` or `copy`";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_technique_is_replaced_under_its_name() {
        let mutant = r#"
            schema = 1
            [[mutant]]
            name = "no-tap"
            what = "nothing gates"
            breaks = "technique"
            areas = ["gating"]
            techniques = { tap = "always-on" }
            sweeps = { "technique.threshold" = "0" }
        "#;
        let mutant = Mutant::parse(&Input::new("m.toml", mutant)).unwrap().remove(0);
        let job = |technique: &str| Job {
            world: "chip".into(),
            workload: "nginx".into(),
            machine: "ev6-1".into(),
            technique: technique.into(),
            set: vec![("technique.threshold".into(), "100".into())],
            options: Vec::new(),
        };
        let broken = mutant.broken_job(&job("tap"));
        assert_eq!((broken.technique.as_str(), broken.set[0].1.as_str()), ("always-on", "0"));
        assert_eq!(mutant.broken_job(&job("oracle")).technique, "oracle");
    }
}
