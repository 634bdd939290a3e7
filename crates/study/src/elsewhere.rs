//! Recordings that an installed library leaves to another package.

use serde::Deserialize;

use halfwink_engine::Input;

use crate::error::StudyError;
use crate::library::{read, Library};

/// The contents of `workloads/elsewhere.toml`. A clone has all recordings, and no such file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Elsewhere {
    /// The line that adds them.
    add: String,
    /// The recordings' names.
    names: Vec<String>,
}

impl Elsewhere {
    /// # Errors
    /// If it is one of these: the line that adds it.
    pub(crate) fn refuse(&self, name: &str) -> Result<(), StudyError> {
        if !self.names.iter().any(|known| known == name) {
            return Ok(());
        }
        let add = &self.add;
        Err(StudyError::Usage(format!("the recording `{name}` is not installed; run: {add}")))
    }
}

impl Library {
    /// Recordings that are not here, but in what can be added.
    pub(crate) fn elsewhere(&self) -> Result<Elsewhere, StudyError> {
        let path = self.folder("workloads").join("elsewhere.toml");
        if !path.exists() {
            return Ok(Elsewhere::default());
        }
        Ok(Input::new(path.display().to_string(), read(&path)?).parse()?)
    }

    /// Names of all recorded workloads.
    ///
    /// # Errors
    /// If one would have to be added first: what is said of all of them is not found from some.
    pub(crate) fn recorded(&self) -> Result<Vec<String>, StudyError> {
        // All or an error: figures over "every recorded workload" would change without a word if
        // those that are not installed were left out.
        let here = self.names("workloads", "hwt");
        let elsewhere = self.elsewhere()?;
        for name in elsewhere.names.iter().filter(|name| !here.contains(name)) {
            elsewhere.refuse(name)?;
        }
        Ok(here)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_another_package_has_is_named_with_the_line_that_adds_it() {
        let folder = tempfile::tempdir().unwrap();
        let workloads = folder.path().join("workloads");
        fs::create_dir(&workloads).unwrap();
        let library = Library::new(folder.path());
        let said = |name: &str| library.workload(name).unwrap_err().to_string();

        assert_eq!(said("redis"), "unknown workload `redis`");
        assert!(library.recorded().unwrap().is_empty());

        let text = "add = \"pip install more\"\nnames = [\"redis\", \"apache\"]\n";
        fs::write(workloads.join("elsewhere.toml"), text).unwrap();
        let expected = "the recording `redis` is not installed; run: pip install more";
        assert_eq!(said("redis"), expected);
        assert_eq!(library.recorded().unwrap_err().to_string(), expected);
        assert_eq!(said("rediss"), "unknown workload `rediss`");

        fs::write(workloads.join("redis.hwt"), "").unwrap();
        fs::write(workloads.join("apache.hwt"), "").unwrap();
        assert_eq!(library.recorded().unwrap(), ["apache", "redis"]);

        fs::write(workloads.join("elsewhere.toml"), "ad = 1").unwrap();
        assert!(said("gcc").contains("elsewhere.toml:1"), "{}", said("gcc"));
    }
}
