//! Servers of today by name, service profiles by name, and the world that plays one on the other.

mod gaps;
mod job;
mod load;

pub use gaps::{ChosenState, IdleAnswer, IdleQuestion, IdleRow, LeftOut, LimitRow, RecordingInfo};
pub use job::Node;

use std::io::Read;
use std::path::{Path, PathBuf};

use halfwink_engine::{Cdf, Input, Law};
use halfwink_inputs::{look, open_regular, Family};
use halfwink_node::{Profile, ProfileSpec};
use halfwink_techniques::node::machine::{Machine, Spec, SpecError};

use crate::error::StudyError;
use crate::library::Library;

/// Where the library keeps servers of today.
const FOLDER: &str = "machines/node";
/// Where the library keeps service profiles: a folder for each core that they were made on.
const PROFILES: &str = "profiles";
/// Folder of profiles that were stated, not made from a recording.
const ANY: &str = "any";

/// A server of today, read.
#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) machine: Machine,
    /// Its description, with the values that were set.
    pub(crate) text: String,
}

/// A service profile, read.
#[derive(Clone, Debug)]
pub(crate) struct ProfileInfo {
    pub(crate) profile: Profile,
    pub(crate) text: String,
}

impl Library {
    /// Reads a server of today: `golden-cove-56`, or a file ending in `.toml`; then sets `values`.
    ///
    /// # Errors
    /// If there is none of that name, or a value is not possible.
    pub(crate) fn node(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<NodeInfo, StudyError> {
        let path = self.find_named(FOLDER, "server", name)?;
        let values = values.iter().map(|(path, value)| (path.as_str(), value));
        let input = self.described(&path, values, &[])?;
        let spec: Spec = input.parse()?;
        let machine = Machine::new(spec).map_err(|e| at(&input, &e))?;
        Ok(NodeInfo { machine, text: input.text })
    }

    /// Names of the servers of today.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }

    /// Names of profiles for a core, of recordings and stated ones.
    pub(crate) fn profiles(&self, core: &str) -> Vec<String> {
        let mut names = self.names(&format!("{PROFILES}/{core}"), "toml");
        names.extend(self.names(&format!("{PROFILES}/{ANY}"), "toml"));
        names
    }

    /// Reads the profile of a service on a core: by name, or a file ending in `.toml`.
    ///
    /// # Errors
    /// If there is none of that name, it is of another core, or a value is not possible.
    pub(crate) fn profile(&self, name: &str, core: &str) -> Result<ProfileInfo, StudyError> {
        let path = self.profile_path(name, core)?;
        let input = self.described(&path, [], &[])?;
        let mut spec: ProfileSpec = input.parse()?;
        if spec.core != ANY && spec.core != core {
            let message = format!(
                "{}: the profile of a {} core, and this server has {core} cores; \
                 `halfwink profile {} -m {core}` makes one",
                path.display(),
                spec.core,
                spec.workload
            );
            return Err(StudyError::Usage(message));
        }
        if let Law::Cdf { file, unit } = &spec.service_us {
            let law = distribution(&path, file, *unit);
            spec.service_us = law.map_err(|e| input.error_at_key("service_us", &e))?;
        }
        let profile = Profile::new(spec).map_err(|e| at(&input, &e))?;
        Ok(ProfileInfo { profile, text: input.text })
    }

    fn profile_path(&self, name: &str, core: &str) -> Result<PathBuf, StudyError> {
        if Path::new(name).extension().is_some_and(|e| e == "toml") {
            return Ok(PathBuf::from(name));
        }
        // A profile that was measured on this core says more than one that was stated for any.
        for folder in [core, ANY] {
            let folder = format!("{PROFILES}/{folder}");
            if self.names(&folder, "toml").iter().any(|known| known == name) {
                return Ok(self.folder(&folder).join(format!("{name}.toml")));
            }
        }
        if let Some(what) = stranger(Path::new(name)) {
            return Err(StudyError::Usage(format!("{name}: {what}")));
        }
        let known = self.profiles(core);
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        match StudyError::unknown("service", name, known.iter().copied()) {
            StudyError::Name(halfwink_techniques::Error::Unknown {
                nearest: Some(near), ..
            }) => Err(StudyError::Usage(format!(
                "no profile of `{name}` on a {core} core; did you mean `{near}`?"
            ))),
            _ => Err(StudyError::Usage(format!(
                "no profile of `{name}` on a {core} core (there are {}); \
                 `halfwink profile {name} -m {core}` makes one",
                known.join(", ")
            ))),
        }
    }
}

/// Tells what a file is that was named in place of a service; none if there is no such file.
fn stranger(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    let file = open_regular(path).ok()?;
    file.take(LOOKED_AT).read_to_end(&mut head).ok()?;
    let other = look(&head, Family::Services).map(|other| other.to_string());
    Some(other.unwrap_or_else(|| "expected a profile of a service, FILE.toml".to_owned()))
}

fn at(input: &Input, error: &SpecError) -> StudyError {
    input.error_at_key(&error.element, &error.message).into()
}

/// Bytes of a file that tell what it is.
const LOOKED_AT: u64 = 1 << 16;
/// Most bytes of a distribution.
const MOST_BYTES: u64 = 1 << 26;

/// A distribution of BigHouse's format, beside the profile that names it.
fn distribution(profile: &Path, file: &str, unit: f64) -> Result<Law, String> {
    let path = profile.parent().unwrap_or(Path::new("")).join(file);
    let text = halfwink_inputs::read_string(&path, MOST_BYTES)
        .map_err(|e| format!("{file}: {}", e.problem))?;
    let cdf = Cdf::parse(&text).map_err(|e| format!("{file}: {e}"))?;
    Ok(cdf.scaled(unit).law())
}

#[cfg(test)]
mod tests;
