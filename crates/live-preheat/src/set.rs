//! What is loaded for a service, and to what it is bound: lines of the kernel to a build of the
//! kernel, lines of files to builds of those, lines of memory to one start of one program.

use std::fs;
use std::path::{Path, PathBuf};

use halfwink_policy::preheat::rle;
use halfwink_policy::preheat::set_file::{Part, SetFile, Space};
use halfwink_policy::preheat::LineSet;

use crate::kernel::{Image, LINE};
use crate::maps::{self, Mapping};

/// Lines of all kinds that a request of a service uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines of the kernel's image, counted from its text's beginning.
    pub kernel: LineSet,
    /// Lines of files, counted from their beginnings.
    pub files: Vec<(PathBuf, LineSet)>,
    /// Lines of the server's memory, by their addresses. They are never written to files: the next
    /// start of the server has other addresses.
    pub memory: LineSet,
}

/// Writes a set file: lines of the kernel and of files, with the builds that they are of.
///
/// # Errors
/// If a file is not there any more; those of the file system.
pub fn write(path: &Path, lines: &Lines, image: &Image) -> Result<(), String> {
    let kernel = Part {
        space: Space::KernelText,
        id: bytes(&image.build_id),
        name: String::new(),
        lines: lines.kernel.clone(),
    };
    let files = lines.files.iter().map(|(path, lines)| {
        let (space, id) = identity(path)?;
        let name = path.to_string_lossy().into_owned();
        Ok(Part { space, id, name, lines: lines.clone() })
    });
    let parts = std::iter::once(Ok(kernel)).chain(files).collect::<Result<_, String>>()?;
    let why = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let encoded = SetFile { parts }.encode().map_err(|e| why(&e))?;
    fs::write(path, encoded).map_err(|e| why(&e))
}

/// Reads a set file, if it is of this kernel and of these builds of files.
///
/// # Errors
/// With the file, and what was expected.
pub fn read(path: &Path, image: &Image) -> Result<Lines, String> {
    let why = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let encoded = fs::read(path).map_err(|e| why(&e))?;
    let file = SetFile::decode(&encoded).map_err(|e| why(&e))?;
    let id_of = |space, name: &str| match space {
        Space::KernelText => Some(bytes(&image.build_id)),
        Space::Image | Space::File => {
            let found = identity(Path::new(name)).ok();
            found.filter(|(found, _)| *found == space).map(|(_, id)| id)
        }
        Space::Physical | Space::Process => None,
    };
    file.check(id_of).map_err(|e| why(&e))?;
    let mut lines = Lines::default();
    for part in file.parts {
        if part.space == Space::KernelText {
            // Set files come from outside: beyond the image the kernel's loader would read
            // whatever is there.
            if let Some(line) = part.lines.iter().find(|line| !image.allows(*line)) {
                let expected = "expected one of its image";
                return Err(why(&format!("line {line:#x} of the kernel: {expected}")));
            }
            lines.kernel = part.lines;
        } else {
            lines.files.push((part.name.into(), part.lines));
        }
    }
    Ok(lines)
}

/// The bytes of a build id in hexadecimal.
fn bytes(hexadecimal: &str) -> Vec<u8> {
    let pairs = hexadecimal.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

/// Which content a file has: its build id, or for files without one where they are, their length
/// and their time.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn identity(path: &Path) -> Result<(Space, Vec<u8>), String> {
    use std::os::unix::fs::MetadataExt;
    if let Ok(build) = maps::build_of(path) {
        return Ok((Space::Image, bytes(&build)));
    }
    let found = fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let time = found.mtime().wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec());
    let words = [found.dev(), found.ino(), found.len(), time as u64];
    Ok((Space::File, words.iter().flat_map(|word| word.to_le_bytes()).collect()))
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
    // Addresses of memory mean nothing in another start, and in this one only while they are
    // mapped.
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
            executable: false,
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
    fn a_set_of_other_builds_is_refused_in_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("a.hws"), folder.path().join("data"));
        fs::write(&data, [7; 10_000]).unwrap();
        write(&file, &lines(&data), &image("aa")).unwrap();
        let found = read(&file, &image("aa")).unwrap();
        assert_eq!(found, Lines { memory: LineSet::new(), ..lines(&data) });
        let problem = |build: &str| read(&file, &image(build)).unwrap_err();
        assert!(problem("bb").ends_with("expected build aa, found bb"), "{}", problem("bb"));
        // The same with less text.
        let small = Image { text: 0..50, ..image("aa") };
        let found = read(&file, &small).unwrap_err();
        assert!(found.contains("expected one of its image"), "{found}");
        // The file has changed; is gone.
        fs::write(&data, [7; 10_001]).unwrap();
        assert!(problem("aa").contains("data: expected build"), "{}", problem("aa"));
        fs::remove_file(&data).unwrap();
        assert!(problem("aa").ends_with("found none"), "{}", problem("aa"));
        assert!(write(&file, &lines(&data), &image("aa")).is_err());
        // Garbage, nothing, no file.
        for content in [&b"HWLSgarbage that is long enough"[..], b""] {
            fs::write(&file, content).unwrap();
            assert!(!problem("aa").contains('\n'), "{}", problem("aa"));
        }
        fs::remove_file(&file).unwrap();
        assert!(problem("aa").contains("No such file"), "{}", problem("aa"));
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
