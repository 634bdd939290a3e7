//! Servers that lose their caches, by name, and answers about them as tables.

mod experiment;
mod facts;
mod job;
mod living;
mod sets;
mod steps;

pub use job::Preheat;

use halfwink_engine::Input;
use halfwink_policy::preheat::{Hears, PreheatPolicy};
use halfwink_preheat::{RunError, Spec};
use halfwink_techniques::{Choice, Make};

use crate::error::StudyError;
use crate::library::Library;

/// The folder of these machines in the library.
const FOLDER: &str = "machines/preheat";
/// The seed of every run.
const SEED: u64 = 1;

/// A description of a server that loses its caches, read.
#[derive(Clone, Debug)]
pub struct PreheatInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The parsed description.
    pub spec: Spec,
    /// The description as text, with the values that were set.
    pub text: String,
}

impl Library {
    /// Reads a server that loses its caches: `odroid-xu3`, or a file ending in `.toml`; then sets
    /// `values` (path, value).
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn preheat_machine(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<PreheatInfo, StudyError> {
        let path = self.find_named(FOLDER, "machine", name)?;
        let (theirs, own): (Vec<_>, Vec<_>) =
            values.iter().partition(|(path, _)| is_of_services(path));
        let set = |values: Vec<&'_ (String, String)>| {
            values.into_iter().map(|(p, v)| (p.clone(), v.clone())).collect::<Vec<_>>()
        };
        let (theirs, own) = (set(theirs), set(own));
        let borrowed =
            |values: &'_ [(String, String)]| -> Vec<(String, String)> { values.to_vec() };
        // Without the services' values: they may belong to another file, and only this one says to
        // which.
        let plain = self.described(&path, pairs(&own), &[])?;
        let mut spec: Spec = plain.parse()?;
        let (input, text) = match spec.services_of.clone() {
            None => {
                let all = [borrowed(&own), theirs].concat();
                let input = self.described(&path, pairs(&all), &[])?;
                spec = input.parse()?;
                (input.clone(), input.text)
            }
            Some(other) => {
                let path = self.find_named(FOLDER, "machine", &other)?;
                let services = self.described(&path, pairs(&theirs), &[])?;
                let of: Spec = services.parse()?;
                (spec.groups, spec.services, spec.mixes) = (of.groups, of.services, of.mixes);
                let text = format!("{}\n# services:\n{}", plain.text, commented(&services));
                (plain, text)
            }
        };
        spec.check().map_err(|e| input.error_at_key(&e.element, &e.message))?;
        Ok(PreheatInfo { name: name.to_owned(), spec, text })
    }

    /// Names of the servers that lose their caches.
    #[must_use]
    pub fn preheat_machines(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }
}

fn pairs(values: &[(String, String)]) -> impl Iterator<Item = (&str, &String)> {
    values.iter().map(|(path, value)| (path.as_str(), value))
}

fn is_of_services(path: &str) -> bool {
    ["groups.", "services.", "mixes."].iter().any(|table| path.starts_with(table))
}

fn commented(input: &Input) -> String {
    input.text.lines().map(|line| format!("# {line}\n")).collect()
}

/// The policy of a technique, and what it is told.
fn policy(choice: &Choice) -> Result<(PreheatPolicy, Hears), StudyError> {
    match choice.technique().make {
        Make::Preheat(preheating) => Ok(((preheating.build)(choice), preheating.hears)),
        _ => Err(StudyError::Usage(format!("{choice}: nothing that prepares for requests"))),
    }
}

fn failed(error: &RunError) -> StudyError {
    match error {
        RunError::Interrupted(_) => StudyError::Interrupted,
        RunError::Stuck(_) | RunError::Imbalance(_) | RunError::Unserved(_) => {
            StudyError::Model(error.to_string())
        }
    }
}

impl PreheatInfo {
    /// A load by its name: services with their shares.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn load(&self, name: &str) -> Result<Vec<(usize, f64)>, StudyError> {
        let place = |service: &str| self.spec.services.keys().position(|known| known == service);
        if let Some(place) = place(name) {
            return Ok(vec![(place, 1.0)]);
        }
        if let Some(shares) = self.spec.mixes.get(name) {
            let shares = shares.iter().filter_map(|(of, share)| Some((place(of)?, *share)));
            return Ok(shares.collect());
        }
        let known = self.spec.services.keys().chain(self.spec.mixes.keys());
        Err(StudyError::unknown("workload", name, known.map(String::as_str)))
    }
}
