// SPDX-License-Identifier: GPL-2.0-or-later
//! Arguments of the plugin: `-plugin libhalfwink_record_plugin.so,out=FILE,header=FILE,...`

use std::path::PathBuf;

use crate::turns::QUANTUM;

/// Instructions of a sample, at least: blocks of up to 512 are recorded whole.
pub const SMALLEST_SAMPLE: u64 = 100_000;

/// Arguments of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Path of the trace.
    pub out: PathBuf,
    /// JSON file with the trace's header.
    pub header: PathBuf,
    /// File to which the plugin appends its messages.
    pub report: PathBuf,
    /// Number of instructions to leave out first.
    pub skip: u64,
    /// Number of instructions to record.
    pub limit: u64,
    /// Wait for the program's start marker.
    pub marked: bool,
    /// Instructions of a thread's turn while others wait.
    pub turn: u64,
    /// Number of samples, at least, and instructions of each; everything, if none.
    pub samples: Option<(usize, u64)>,
}

impl Args {
    /// Reads `key=value` pairs.
    ///
    /// # Errors
    /// One line: which argument, and what was expected.
    pub fn parse<'a>(args: impl Iterator<Item = &'a str>) -> Result<Args, String> {
        let (mut out, mut header, mut report) = (None, None, None);
        let (mut skip, mut limit, mut marked) = (0, u64::MAX, false);
        let (mut samples, mut size, mut turn) = (None, 0, QUANTUM);
        for arg in args {
            let (key, value) =
                arg.split_once('=').ok_or_else(|| format!("`{arg}`: expected key=value"))?;
            match key {
                "out" => out = Some(PathBuf::from(value)),
                "header" => header = Some(PathBuf::from(value)),
                "report" => report = Some(PathBuf::from(value)),
                "skip" => skip = number(key, value)?,
                "limit" => limit = number(key, value)?,
                "marked" => marked = number(key, value)? != 0,
                "turn" => turn = number(key, value)?,
                "samples" => samples = Some(number(key, value)?),
                "size" => size = number(key, value)?,
                _ => {
                    return Err(format!(
                        "`{key}`: expected out, header, report, skip, limit, marked, turn, samples \
                         or size"
                    ));
                }
            }
        }
        if limit == 0 {
            return Err("limit=0: expected at least 1".into());
        }
        if turn == 0 {
            return Err("turn=0: expected at least 1".into());
        }
        if samples.is_some_and(|count| count == 0 || size < SMALLEST_SAMPLE) {
            return Err(format!(
                "samples of size={size}: expected at least 1, of at least {SMALLEST_SAMPLE}"
            ));
        }
        Ok(Args {
            out: out.ok_or("out: expected a file name")?,
            header: header.ok_or("header: expected a file name")?,
            report: report.ok_or("report: expected a file name")?,
            skip,
            limit,
            marked,
            turn,
            samples: samples.map(|count| (count as usize, size)),
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
        let words = "out=a header=b report=c skip=5 limit=7 marked=1 turn=9 samples=2 size=100000";
        let expected = Args {
            out: "a".into(),
            header: "b".into(),
            report: "c".into(),
            skip: 5,
            limit: 7,
            marked: true,
            turn: 9,
            samples: Some((2, 100_000)),
        };
        assert_eq!(Args::parse(words.split(' ')), Ok(expected));
    }

    #[test]
    fn wrong_argument_is_refused_with_a_word() {
        for (args, word) in [
            (vec!["out=a", "report=c"], "header"),
            (vec!["out"], "key=value"),
            (vec!["out=a", "header=b", "report=c", "skip=x"], "number"),
            (vec!["out=a", "header=b", "report=c", "limit=0"], "at least 1"),
            (vec!["out=a", "header=b", "report=c", "turn=0"], "at least 1"),
            (vec!["out=a", "header=b", "report=c", "samples=0", "size=100000"], "at least 1"),
            (vec!["out=a", "header=b", "report=c", "samples=3", "size=99999"], "at least 100000"),
            (vec!["cpu=1"], "expected out"),
        ] {
            let error = Args::parse(args.into_iter()).expect_err("must be refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
