//! Where flows come from: a description of the library, a file, or files of a trace.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use halfwink_engine::Input;
use halfwink_fabric::flows::files::{needs, read_coflows, read_flows, Needs};
use halfwink_fabric::flows::htsim::{nodes, read_matrix};
use halfwink_fabric::flows::workload::{Amount, Workload};
use halfwink_fabric::flows::{chakra, Racks, Traffic};
use halfwink_inputs::{
    expand, look, may_be_cut, no_long_line, open_input, read_input, Account, Budget, Family,
    Opened, NO_END,
};

use crate::error::StudyError;
use crate::library::Library;

/// The folder of descriptions of flows in the library.
const FOLDER: &str = "workloads/flows";
/// Most bytes of all files of an input, unpacked.
const MOST_BYTES: u64 = 1 << 32;
/// Load of an open workload that names none, in percent.
const LOAD_PCT: &str = "10";

/// Flows that were found, and how to have them.
pub(super) enum Source {
    /// Flows that a description generates.
    Described {
        /// The parsed description.
        workload: Workload,
        /// Share of servers' rate.
        load: f64,
        /// The text that it was read from.
        text: String,
    },
    /// Read from a file.
    Read {
        /// The flows that were read.
        traffic: Arc<Traffic>,
        /// A digest of the file's contents.
        digest: u64,
        /// Format of the file, and what was played and left out.
        read_as: String,
    },
}

/// The account of a file of flows.
fn account(format: &str, traffic: &Traffic, is_open: bool) -> String {
    let mut account = Account::of(format);
    account.play("flows", traffic.flows().len() as u64);
    account.leave_out("check of the end", NO_END, u64::from(is_open));
    account.to_string()
}

impl Library {
    /// Names of workloads of flows.
    #[must_use]
    pub fn flow_workloads(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }

    /// A workload of flows, by name or description.
    pub(super) fn flow_workload(&self, name: &str) -> Result<(Workload, String), StudyError> {
        let input: Input = self.described(&self.flow_file(name)?, [], &[])?;
        Ok((input.parse()?, input.text.clone()))
    }

    fn flow_file(&self, name: &str) -> Result<PathBuf, StudyError> {
        self.find_named(FOLDER, "workload", name)
    }
}

/// Returns whether a name is a file of a trace, or a folder of them.
fn is_trace(name: &str) -> bool {
    let path = expand(Path::new(name));
    path.extension().is_some_and(|e| e == TRACE) || (name.contains('/') && path.is_dir())
}

/// The extension of a trace's files, behind the number of their rank.
const TRACE: &str = "et";

/// The files of all ranks: of the trace that `path` is a file of, or of the only one in a folder.
fn ranks(path: &Path) -> Result<Vec<PathBuf>, String> {
    let is_folder = path.is_dir();
    let folder = if is_folder { path } else { path.parent().unwrap_or(path) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let split = |path: &Path| -> Option<(String, usize)> {
        let name = path.file_name()?.to_str()?.strip_suffix(".et")?;
        let (stem, rank) = name.rsplit_once('.')?;
        Some((stem.to_owned(), rank.parse().ok()?))
    };
    let given = if is_folder { None } else { split(path) };
    if given.is_none() && !is_folder {
        return Err(format!("expected a name such as trace.0.{TRACE}, of a rank"));
    }
    let found = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut files: Vec<(String, usize, PathBuf)> = found
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| error.to_string())?
        .into_iter()
        .filter_map(|path| split(&path).map(|(stem, rank)| (stem, rank, path)))
        .filter(|(stem, ..)| given.as_ref().is_none_or(|(wanted, _)| stem == wanted))
        .collect();
    // By stem, then by rank as a number: `trace.10.et` comes behind `trace.9.et`.
    files.sort_unstable();
    let Some((stem, ..)) = files.first().cloned() else {
        return Err(format!(
            "found no files, expected trace.0.{TRACE} and so on, one of each rank"
        ));
    };
    if let Some((other, ..)) = files.iter().find(|(other, ..)| *other != stem) {
        return Err(format!("traces `{stem}` and `{other}`, expected one: name a file of it"));
    }
    for (n, (_, rank, _)) in files.iter().enumerate() {
        if *rank != n {
            return Err(format!("{stem}.{n}.{TRACE} is not there, but {stem}.{rank}.{TRACE} is"));
        }
    }
    if let Some((_, rank)) = given.filter(|(_, rank)| *rank >= files.len()) {
        let last = files.len() - 1;
        return Err(format!("there is no rank {rank}, only 0 to {last}: {stem}.{last}.{TRACE}"));
    }
    Ok(files.into_iter().map(|(.., path)| path).collect())
}

/// Returns whether a name is a file of flows and not of the library.
fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|e| e != "toml")
        || (name.contains('/') && path.extension().is_none())
}

/// A file of flows as text.
fn text_of(path: &Path) -> Result<String, StudyError> {
    let bytes = open_input(path, &Budget::new(MOST_BYTES)).and_then(Opened::text);
    let bytes = bytes.and_then(Opened::bytes).map_err(|e| StudyError::Usage(e.to_string()))?;
    no_long_line(&bytes).map_err(|why| StudyError::Usage(format!("{}: {why}", path.display())))?;
    String::from_utf8(bytes).map_err(|error| {
        let other = look(error.as_bytes(), Family::Flows).map(|other| other.to_string());
        let other = other.unwrap_or_else(|| "this is no text, expected flows".to_owned());
        StudyError::Usage(format!("{}: {other}", path.display()))
    })
}

/// What a file of flows asks of a fabric; none if the name is no such file.
pub(super) fn needs_of(name: &str) -> Result<Option<Needs>, StudyError> {
    if is_trace(name) || !is_file(name) {
        return Ok(None);
    }
    Ok(needs(&text_of(Path::new(name))?))
}

fn in_a_line(error: chakra::ChakraError) -> StudyError {
    StudyError::Usage(error.to_string())
}

impl Source {
    /// Finds `NAME`, `NAME@LOAD` (percent), `FILE.toml`, a file of flows or coflows, the file of a
    /// rank of a trace or its folder.
    pub(super) fn find(library: &Library, name: &str, racks: &Racks) -> Result<Source, StudyError> {
        if is_trace(name) {
            return Source::read_trace(library, &expand(Path::new(name)), 1, racks);
        }
        if is_file(name) {
            return Source::read(library, name, racks);
        }
        let (base, load) = match name.split_once('@') {
            Some((base, load)) => (base, Some(load)),
            None => (name, None),
        };
        let (workload, text) = library.flow_workload(base)?;
        if load.is_some() && !workload.is_open() {
            let message = format!("{name}: {base} has no load, expected no `@`");
            return Err(StudyError::Usage(message));
        }
        if let Workload::Trace { trace, ranks_per_server, .. } = &workload {
            let wrong = |error| StudyError::Usage(format!("{name}: {error}"));
            workload.check().map_err(wrong)?;
            let beside = library.flow_file(base)?;
            let each =
                u32::try_from(*ranks_per_server).ok().filter(|&n| n > 0).ok_or_else(|| {
                    let message = format!("found {ranks_per_server}, expected 1 or more");
                    let input = Input::new(beside.display().to_string(), text.clone());
                    input.error_at_key("ranks_per_server", &message)
                })?;
            let path = beside.parent().unwrap_or(Path::new("")).join(trace);
            return Source::read_trace(library, &path, each, racks);
        }
        let word = load.unwrap_or(LOAD_PCT);
        match word.parse::<f64>() {
            Ok(pct) if pct > 0.0 && pct <= 200.0 => {
                Ok(Source::Described { workload, load: pct / 100.0, text })
            }
            _ => {
                let message = format!("{name}: load `{word}`, expected above 0 to 200 percent");
                Err(StudyError::Usage(message))
            }
        }
    }

    fn read(library: &Library, name: &str, racks: &Racks) -> Result<Source, StudyError> {
        let text = text_of(Path::new(name))?;
        let digest = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
        // The matrix is asked for first: `needs` returns servers for it as for a list of flows.
        let (format, parse): (_, fn(&str, &Racks) -> _) = match needs(&text) {
            _ if nodes(&text).is_some() => ("connection matrix of htsim", read_matrix),
            Some(Needs::Racks(_)) => ("coflows", read_coflows),
            _ => ("flows", read_flows),
        };
        let traffic = library.flows((digest, racks.count, racks.servers), || {
            parse(&text, racks).map_err(|error| {
                StudyError::Usage(match look(text.as_bytes(), Family::Flows) {
                    Some(other) => format!("{name}: {other}"),
                    None => format!("{name}:{error}"),
                })
            })
        })?;
        let read_as = account(format, &traffic, may_be_cut(text.as_bytes()));
        Ok(Source::Read { traffic, digest, read_as })
    }

    fn read_trace(
        library: &Library,
        path: &Path,
        ranks_per_server: u32,
        racks: &Racks,
    ) -> Result<Source, StudyError> {
        let wrong = |error| StudyError::Usage(format!("{}: {error}", path.display()));
        let (mut files, mut hash) = (vec![], xxhash_rust::xxh3::Xxh3::new());
        // All ranks share one.
        let budget = Budget::new(MOST_BYTES);
        for path in ranks(path).map_err(wrong)? {
            let name = path.display().to_string();
            let bytes = read_input(&path, &budget);
            let bytes = bytes.map_err(|error| StudyError::Usage(error.to_string()))?;
            // Lengths too: without them bytes that move from one file to the next would leave the
            // digest as it is.
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(&bytes);
            files.push((name, bytes));
        }
        hash.update(&ranks_per_server.to_le_bytes());
        // Operations become times by what the fabric computes with.
        hash.update(format!("{:?}", racks.rank).as_bytes());
        let digest = hash.digest();
        let traffic = library.flows((digest, racks.count, racks.servers), || {
            let file = |(name, bytes)| chakra::File { name, bytes };
            let files: Vec<_> = files.into_iter().map(file).collect();
            chakra::read(&files, racks, ranks_per_server).map_err(in_a_line)
        })?;
        let read_as = account("execution trace of Chakra", &traffic, false);
        Ok(Source::Read { traffic, digest, read_as })
    }

    /// The account of the file; empty without one.
    pub(super) fn read_as(&self) -> &str {
        match self {
            Source::Read { read_as, .. } => read_as,
            Source::Described { .. } => "",
        }
    }

    /// Returns the flows themselves.
    pub(super) fn traffic(
        &self,
        name: &str,
        racks: &Racks,
        amount: Amount,
    ) -> Result<Arc<Traffic>, StudyError> {
        match self {
            Source::Read { traffic, .. } => Ok(Arc::clone(traffic)),
            Source::Described { workload, load, .. } => {
                let made = workload.traffic(racks, Amount { load: *load, ..amount });
                let wrong = |error| StudyError::Usage(format!("{name}: {error}"));
                Ok(Arc::new(made.map_err(wrong)?))
            }
        }
    }

    /// Returns the part of it that a result depends on.
    pub(super) fn identity(&self) -> String {
        match self {
            Source::Described { load, text, .. } => format!("{load}\n{text}"),
            Source::Read { digest, .. } => format!("{digest:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        names.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        folder
    }

    fn found(names: &[&str], asked: &str) -> Result<Vec<String>, String> {
        let folder = folder(names);
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        ranks(&folder.path().join(asked)).map(|paths| paths.into_iter().map(name).collect())
    }

    #[test]
    fn a_file_of_any_rank_stands_for_all_in_their_order() {
        let eleven: Vec<String> = (0..11).rev().map(|n| format!("t.{n}.et")).collect();
        let mut names: Vec<&str> = eleven.iter().map(String::as_str).collect();
        names.extend(["other.0.et", "t.csv", "t.et"]);
        let all = found(&names, "t.3.et").unwrap();
        assert_eq!((all[0].as_str(), all[10].as_str(), all.len()), ("t.0.et", "t.10.et", 11));
        assert_eq!(found(&["t.0.et", "t.x"], "").unwrap(), ["t.0.et"]);
    }

    /// Makes racks with so many servers.
    fn fabric(library: &Library, count: u16, servers: u16) -> Racks {
        let info = library.fabric("opera-648", &[]).unwrap();
        Racks { count, servers, ..info.racks().unwrap().clone() }
    }

    #[test]
    fn files_are_read_once_until_they_change() {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.flows");
        let traffic = |name: &str, racks: &Racks| match Source::find(&library, name, racks) {
            Ok(Source::Read { traffic, .. }) => traffic,
            other => panic!("{:?}", other.err()),
        };
        fs::write(&path, "0 3 1000 0\n").unwrap();
        let (name, racks) = (path.to_str().unwrap(), fabric(&library, 4, 2));
        let first = traffic(name, &racks);
        assert!(Arc::ptr_eq(&first, &traffic(name, &racks)));
        // Elsewhere it may be impossible, or go to another rack.
        assert!(!Arc::ptr_eq(&first, &traffic(name, &fabric(&library, 8, 1))));
        assert!(Source::find(&library, name, &fabric(&library, 3, 1)).is_err());
        fs::write(&path, "0 3 2000 0\n").unwrap();
        assert_eq!(traffic(name, &racks).flows()[0].bytes, 2000.0);
        let shipped = "data-parallel-8";
        let first = traffic(shipped, &racks);
        assert!(Arc::ptr_eq(&first, &traffic(shipped, &racks)));
    }

    #[test]
    fn files_tell_what_they_were_read_as_and_where_they_may_be_cut() {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let racks = fabric(&library, 4, 2);
        let folder = tempfile::tempdir().unwrap();
        for (name, text, format) in [
            ("a.flows", "0 3 1000 2000\n0 5 1000 9000", "flows, 2 flows"),
            ("a.csv", "src,dst,bytes,start_us\n0,3,1000,2.5", "flows, flows"),
            ("a.txt", "4 1\n1 0 1 3 1 2:1.0", "coflows, flows"),
            (
                "a.cm",
                "Nodes 4\nConnections 1\n0->3 start 0 size 1000",
                "connection matrix of htsim, flows",
            ),
        ] {
            let path = folder.path().join(name);
            let mut found = ["\n", ""].into_iter().map(|end| {
                fs::write(&path, format!("{text}{end}")).unwrap();
                let source = Source::find(&library, path.to_str().unwrap(), &racks).unwrap();
                source.read_as().to_owned()
            });
            assert_eq!(found.next().unwrap(), format!("read as {format}"));
            let doubt = "check of the end (no newline ends it: its last number may be cut)";
            assert_eq!(found.next().unwrap(), format!("read as {format}; left out: {doubt}"));
        }
        let shipped = Source::find(&library, "data-parallel-8", &racks).unwrap();
        assert!(shipped.read_as().starts_with("read as execution trace of Chakra, "));
    }

    #[test]
    fn missing_ranks_and_names_are_told() {
        let error = |names: &[&str], asked: &str| found(names, asked).unwrap_err();
        assert_eq!(error(&["t.0.et", "t.2.et"], "t.0.et"), "t.1.et is not there, but t.2.et is");
        let expected = "there is no rank 2, only 0 to 1: t.1.et";
        assert_eq!(error(&["t.0.et", "t.1.et"], "t.2.et"), expected);
        assert!(error(&["t.0.et"], "u.0.et").starts_with("found no files"));
        assert!(error(&["a.0.et", "b.0.et"], "").contains("traces `a` and `b`, expected one"));
        assert!(error(&["t.et"], "t.et").starts_with("expected a name such as trace.0.et"));
        assert!(error(&[], "").starts_with("found no files"));
    }
}
