//! Description of a program whose system calls may move.

use std::path::{Path, PathBuf};

use halfwink_engine::{Input, InputError};
use serde::{Deserialize, Serialize};

/// Description of a program and of what decides on its calls.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of this format: 1.
    pub schema: u32,
    /// The program, found as a shell finds it, and its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// Technique that decides which calls move, with its parameters.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// CPU of the threads that make calls; the last one allowed if none is given.
    pub os_cpu: Option<u32>,
    /// Keeps the program itself off that CPU.
    #[serde(default = "default_pin")]
    pub pin: bool,
    /// Time for which such a thread spins for its next call before it sleeps, in microseconds.
    #[serde(default = "default_spin_us")]
    pub spin_us: f64,
    /// One of this number of calls in place is timed.
    #[serde(default = "default_time_every")]
    pub time_every: u32,
    /// Events that a log can hold.
    #[serde(default = "default_log_records")]
    pub log_records: u64,
    /// Kills the program if the process that started it is killed.
    #[serde(default)]
    pub die_with_us: bool,
    /// The library that the program is made to load; found beside this program if none is given.
    pub library: Option<PathBuf>,
}

fn default_policy() -> String {
    "os-adaptive".to_owned()
}

const fn default_pin() -> bool {
    true
}

const fn default_spin_us() -> f64 {
    100.0
}

const fn default_time_every() -> u32 {
    64
}

const fn default_log_records() -> u64 {
    1 << 18
}

impl Config {
    /// Parses a description whose paths start at `folder`.
    ///
    /// # Errors
    /// The file, the line, the value found, and what was expected.
    pub fn parse(input: &Input, folder: &Path) -> Result<Config, InputError> {
        let mut config: Config = input.parse()?;
        config.check().map_err(|(key, message)| input.error_at_key(key, &message))?;
        config.library = config.library.map(|path| folder.join(path));
        Ok(config)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        let expected = |key, found: &dyn std::fmt::Display, expected: &str| {
            Err((key, format!("found {found}, expected {expected}")))
        };
        if self.schema != 1 {
            return expected("schema", &self.schema, "1");
        }
        if !(0.0..=1e9).contains(&self.spin_us) {
            return expected("spin_us", &self.spin_us, "0 to 1e9");
        }
        if self.time_every == 0 {
            return expected("time_every", &self.time_every, "1 or more");
        }
        if !(1..1 << 31).contains(&self.log_records) {
            return expected(
                "log_records",
                &self.log_records,
                &format!("1 to {}", (1u32 << 31) - 1),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let parsed = Config::parse(&Input::new("d.toml", text), Path::new("/etc/halfwink"));
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn short_description_has_the_defaults_of_the_command() {
        let config = parse("schema = 1\ncommand = [\"true\"]\nlibrary = \"a.so\"\n").unwrap();
        assert_eq!(
            (config.policy.as_str(), config.pin, config.time_every),
            ("os-adaptive", true, 64)
        );
        assert_eq!(config.library.as_deref(), Some(Path::new("/etc/halfwink/a.so")));
    }

    #[test]
    fn wrong_value_is_refused_with_its_line() {
        for (line, said) in [
            ("spin_us = -1.0", "d.toml:2: spin_us: found -1, expected 0 to 1e9"),
            ("time_every = 0", "d.toml:2: time_every: found 0, expected 1 or more"),
            ("log_records = 0", "d.toml:2: log_records: found 0, expected 1 to 2147483647"),
            ("comand = []", "d.toml:2: unknown field `comand`"),
        ] {
            let error = parse(&format!("schema = 1\n{line}\n")).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
