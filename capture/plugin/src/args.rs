// SPDX-License-Identifier: GPL-2.0-or-later
//! Arguments of the plugin: `-plugin libhalfwink_capture_plugin.so,out=FILE,header=FILE,...`

use std::path::PathBuf;

/// Arguments of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Path of the trace.
    pub out: PathBuf,
    /// JSON file with the trace's header.
    pub header: PathBuf,
    /// Stop after so many recorded instructions.
    pub limit: u64,
    /// CPU that is recorded.
    pub cpu: u32,
    /// CPUs of the machine.
    pub cpus: u32,
}

impl Args {
    /// Returns whether a CPU is the machine's last.
    #[must_use]
    pub fn is_last(&self, cpu: u32) -> bool {
        cpu + 1 == self.cpus
    }

    /// Reads `key=value` pairs.
    ///
    /// # Errors
    /// One line: which argument, and what was expected.
    pub fn parse<'a>(args: impl Iterator<Item = &'a str>) -> Result<Args, String> {
        let (mut out, mut header) = (None, None);
        let (mut limit, mut cpu, mut cpus) = (u64::MAX, 0, 1);
        for arg in args {
            let (key, value) =
                arg.split_once('=').ok_or_else(|| format!("`{arg}`: expected key=value"))?;
            match key {
                "out" => out = Some(PathBuf::from(value)),
                "header" => header = Some(PathBuf::from(value)),
                "limit" => limit = number(key, value)?,
                "cpu" => cpu = number(key, value)? as u32,
                "cpus" => cpus = number(key, value)? as u32,
                _ => {
                    return Err(format!("`{key}`: expected out, header, limit, cpu or cpus"));
                }
            }
        }
        if cpus == 0 || cpus > 64 || cpu >= cpus {
            return Err(format!("cpu={cpu}, cpus={cpus}: expected 1 to 64 CPUs, and one of them"));
        }
        // What tells the last CPU from the others does not tell the others apart.
        if cpus > 2 && cpu != cpus - 1 {
            return Err(format!("cpu={cpu}, cpus={cpus}: of more than two, expected the last"));
        }
        Ok(Args {
            out: out.ok_or("out: expected a file name")?,
            header: header.ok_or("header: expected a file name")?,
            limit,
            cpu,
            cpus,
        })
    }
}

fn number(key: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{key}={value}: expected a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_all_read() {
        let args = Args::parse(["out=a", "header=b", "limit=7", "cpu=1", "cpus=2"].into_iter());
        let expected = Args { out: "a".into(), header: "b".into(), limit: 7, cpu: 1, cpus: 2 };
        assert_eq!(args, Ok(expected));
    }

    #[test]
    fn wrong_argument_is_refused_with_a_word() {
        for (args, word) in [
            (vec!["out=a"], "header"),
            (vec!["out"], "key=value"),
            (vec!["out=a", "header=b", "limit=x"], "number"),
            (vec!["out=a", "header=b", "cpu=1"], "CPUs"),
            (vec!["out=a", "header=b", "cpu=1", "cpus=3"], "the last"),
            (vec!["pace=1"], "expected out"),
        ] {
            let error = Args::parse(args.into_iter()).expect_err("must be refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
