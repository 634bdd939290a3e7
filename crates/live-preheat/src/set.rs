//! What is loaded for a service, and to what it is bound: lines of the kernel to a build of the
//! kernel, lines of files to builds of those, lines of memory to one start of one program.

use std::fs;
use std::path::{Path, PathBuf};

use halfwink_policy::preheat::rle;
use halfwink_policy::preheat::LineSet;
use serde::{Deserialize, Serialize};

use crate::kernel::{Image, LINE};
use crate::maps::{self, Mapping};

/// Version of the file.
const SCHEMA: u32 = 1;

/// Lines of all kinds that a request of a service uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Of the kernel's image, counted from its text's beginning.
    pub kernel: LineSet,
    /// Of files, counted from their beginnings.
    pub files: Vec<(PathBuf, LineSet)>,
    /// Of the server's memory, numbers of addresses.
    pub memory: LineSet,
}

/// A set and what it is bound to: the content of a set file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    schema: u32,
    /// Service, as its port.
    pub service: u16,
    kernel: Part,
    files: Vec<FilePart>,
    memory: Part,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    build: String,
    words: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePart {
    path: PathBuf,
    build: String,
    words: Vec<u64>,
}

impl Bound {
    /// Binds lines to what they were seen in.
    ///
    /// # Errors
    /// If a file is not there any more, or a line has no number that an address has.
    pub fn new(service: u16, lines: &Lines, image: &Image, start: &str) -> Result<Bound, String> {
        let words = |set: &LineSet| rle::encode64(set).map_err(|e| e.to_string());
        let files = lines.files.iter().map(|(path, set)| {
            let part = FilePart { path: path.clone(), build: identity(path)?, words: words(set)? };
            Ok(part)
        });
        Ok(Bound {
            schema: SCHEMA,
            service,
            kernel: Part { build: image.build_id.clone(), words: words(&lines.kernel)? },
            files: files.collect::<Result<_, String>>()?,
            memory: Part { build: start.to_owned(), words: words(&lines.memory)? },
        })
    }

    /// Reads a set file.
    ///
    /// # Errors
    /// With the file, the place in it, and what was expected.
    pub fn read(path: &Path) -> Result<Bound, String> {
        let place = path.display();
        let text = fs::read_to_string(path).map_err(|e| format!("{place}: {e}"))?;
        let bound: Bound = serde_json::from_str(&text).map_err(|e| format!("{place}: {e}"))?;
        if bound.schema != SCHEMA {
            return Err(format!("{place}: schema {}, expected {SCHEMA}", bound.schema));
        }
        let parts = bound.files.iter().map(|f| &f.words);
        for words in parts.chain([&bound.kernel.words, &bound.memory.words]) {
            rle::decode64(words).map_err(|e| format!("{place}: {e}"))?;
        }
        Ok(bound)
    }

    /// Writes a set file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let why = |e: std::io::Error| format!("{}: {e}", path.display());
        let text = serde_json::to_string(self).expect("plain data");
        fs::write(path, text + "\n").map_err(why)
    }

    /// The lines, if they are of this kernel and of these builds of files. Lines of memory are
    /// left out where the program was started anew since.
    ///
    /// # Errors
    /// What it is bound to, and what is here.
    pub fn lines(&self, image: &Image, start: &str) -> Result<Lines, String> {
        if self.kernel.build != image.build_id {
            let (found, expected) = (&self.kernel.build, &image.build_id);
            return Err(format!("a set of kernel {found}: expected this one, {expected}"));
        }
        let set = |words: &[u64]| rle::decode64(words).map_err(|e| e.to_string());
        let kernel = set(&self.kernel.words)?;
        if let Some(line) = kernel.iter().find(|line| !image.allows(*line)) {
            return Err(format!("line {line:#x} of the kernel: expected one of its image"));
        }
        let mut files = Vec::new();
        for part in &self.files {
            let (found, path) = (identity(&part.path)?, part.path.display());
            if found != part.build {
                return Err(format!("a set of {path} {}: here it is {found}", part.build));
            }
            files.push((part.path.clone(), set(&part.words)?));
        }
        let same = self.memory.build == start;
        let memory = if same { set(&self.memory.words)? } else { LineSet::new() };
        Ok(Lines { kernel, files, memory })
    }
}

/// Which content a file has: its build id, or for files without one their length and time.
///
/// # Errors
/// If it cannot be read.
pub fn identity(path: &Path) -> Result<String, String> {
    use std::os::unix::fs::MetadataExt;
    if let Ok(build) = maps::build_of(path) {
        return Ok(build);
    }
    let found = fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(format!("{}-{}.{:09}", found.len(), found.mtime(), found.mtime_nsec()))
}

/// Which start of which program a process is of: forks of one start have the same addresses (a
/// random choice of the kernel's at each start), and so the same answer.
#[must_use]
pub fn start_of(mappings: &[Mapping]) -> String {
    let first = mappings.first().map_or(0, |m| m.range.start);
    let named = |name: &str| mappings.iter().find(|m| m.name == name);
    let stack = named("[stack]").map_or(0, |m| m.range.end);
    let heap = named("[heap]").map_or(0, |m| m.range.start);
    format!("{first:x}-{heap:x}-{stack:x}")
}

/// Runs of addresses in a process, for the thread inside of it: lines of files wherever it maps
/// them now; in a process of the same start lines of memory too, where memory still is.
#[must_use]
pub fn addresses(lines: &Lines, mappings: &[Mapping], is_same: bool) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    for (path, set) in &lines.files {
        let mapped = mappings.iter().filter(|m| m.is_file() && Path::new(&m.name) == path);
        for mapping in mapped {
            let first = mapping.offset / LINE;
            let last = first + (mapping.range.end - mapping.range.start) / LINE;
            let there = set.iter().filter(|line| (first..last).contains(line));
            found.extend(there.map(|line| mapping.range.start / LINE + line - first));
        }
    }
    let memory: Vec<_> = mappings.iter().filter(|m| m.is_memory()).map(|m| &m.range).collect();
    let there = |line: &u64| is_same && memory.iter().any(|range| range.contains(&(line * LINE)));
    found.extend(lines.memory.iter().filter(there));
    rle::encode64(&LineSet::from_unsorted(found)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(build: &str) -> Image {
        Image { build_id: build.into(), base: 1 << 40, text: 0..100, allowed: vec![] }
    }

    fn mapping(from: u64, to: u64, offset: u64, name: &str, writable: bool) -> Mapping {
        Mapping {
            range: from..to,
            readable: true,
            writable,
            shared: false,
            offset,
            inode: u64::from(name.starts_with('/')),
            name: name.into(),
        }
    }

    fn lines(path: &Path) -> Lines {
        Lines {
            kernel: [1, 2, 3, 50].into_iter().collect(),
            files: vec![(path.to_owned(), [0, 1, 70].into_iter().collect())],
            memory: [0x1000, 0x1001].into_iter().collect(),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("a.set"), folder.path().join("data"));
        fs::write(&data, [7; 10_000]).unwrap();
        let bound = Bound::new(80, &lines(&data), &image("aa"), "x").unwrap();
        bound.write(&file).unwrap();
        let read = Bound::read(&file).unwrap();
        assert_eq!(read, bound);
        assert_eq!(read.lines(&image("aa"), "x").unwrap(), lines(&data));
        // Started anew: no memory.
        let later = read.lines(&image("aa"), "y").unwrap();
        assert_eq!((later.kernel.len(), later.memory.len()), (4, 0));
        // Another kernel; the same with less text; another build of the file; no such file.
        let problem = read.lines(&image("bb"), "x").unwrap_err();
        assert_eq!(problem, "a set of kernel aa: expected this one, bb");
        let small = Image { text: 0..50, ..image("aa") };
        assert!(read.lines(&small, "x").unwrap_err().contains("expected one of its image"));
        fs::write(&data, [7; 10_001]).unwrap();
        assert!(read.lines(&image("aa"), "x").unwrap_err().contains("here it is 10001-"));
        fs::remove_file(&data).unwrap();
        assert!(read.lines(&image("aa"), "x").is_err());
    }

    #[test]
    fn bad_files_are_refused_in_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.set");
        let part = |words: &str| format!(r#"{{"build":"a","words":[{words}]}}"#);
        let text = |schema: u32, words: &str| {
            let (kernel, memory) = (part(words), part(""));
            let head = format!(r#""schema":{schema},"service":1,"files":[]"#);
            format!(r#"{{{head},"kernel":{kernel},"memory":{memory}}}"#)
        };
        for (content, expected) in [
            (text(2, ""), "schema 2, expected 1"),
            (text(1, "128,64"), "word 1: expected a run above"),
            (text(1, "-1"), "line 1 column"),
            (text(1, "18446744073709551615"), "beyond the last line"),
            ("{}".to_owned(), "missing field"),
            (String::new(), "EOF"),
        ] {
            fs::write(&file, content).unwrap();
            let problem = Bound::read(&file).unwrap_err();
            assert!(problem.contains(expected) && !problem.contains('\n'), "{problem}");
        }
        fs::write(&file, text(1, "65,192")).unwrap();
        assert!(Bound::read(&file).is_ok());
    }

    #[test]
    fn addresses_are_those_of_now() {
        let lines = lines(Path::new("/lib/x"));
        let mut all = vec![
            mapping(0x7000_0000, 0x7000_1000, 0, "/lib/x", false),
            mapping(0x7100_0000, 0x7100_1000, 0x1000, "/lib/x", false),
            mapping(0x4_0000, 0x5_0000, 0, "[heap]", true),
        ];
        // Line 70 lies in the second mapping; memory in the heap.
        let expected = [0x4_0000 | 1, 0x7000_0000 | 1, 0x7100_0000 + 6 * 64];
        assert_eq!(addresses(&lines, &all, true), expected);
        assert_eq!(addresses(&lines, &all, false), expected[1..]);
        // Mapped elsewhere, and the heap is gone.
        all.remove(2);
        all[0].range = 0x9000_0000..0x9000_1000;
        assert_eq!(addresses(&lines, &all, true), [0x7100_0000 + 6 * 64, 0x9000_0000 | 1]);
        assert!(addresses(&lines, &[], true).is_empty());
    }
}
