//! Which pages a request uses, as a set file (`.hws`) has them: runs of the lines of whole pages.

use std::path::{Path, PathBuf};

use halfwink_policy::preheat::set_file::{Part, SetFile, Space};
use halfwink_policy::preheat::LineSet;

use crate::helper::WRITTEN;
use crate::kernel::LINE;
use crate::maps::{self, Mapping, Pages, PAGE};
use crate::set::identity;

/// Lines of a page.
const LINES: u64 = PAGE / LINE;
/// Pages that a word of a list names.
const RUN: u64 = 64;
/// Name of the part with pages that were written.
const WRITTEN_PART: &str = "written";

/// Pages by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSet {
    /// Pages of files, counted from their beginnings.
    pub files: Vec<(PathBuf, LineSet)>,
    /// Pages of the process's own memory that were only read.
    pub read: LineSet,
    /// Pages of its own memory that were written: they are copied in advance.
    pub written: LineSet,
}

impl PageSet {
    /// Returns the pages of a process that are in memory now.
    ///
    /// # Errors
    ///
    /// A line on what is missing.
    pub fn of(
        pid: u32,
        mappings: &[Mapping],
        is_own: impl Fn(&Mapping) -> bool,
    ) -> Result<PageSet, String> {
        let mut set = PageSet::default();
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for mapping in mappings {
            if is_own(mapping) {
                let own = numbers(&maps::pages(pid, &mapping.range, Pages::Own)?);
                let all = numbers(&maps::pages(pid, &mapping.range, Pages::Present)?);
                // Pages that are present but not the process's own are shared with the file or the
                // zero page: to read them in advance is enough.
                debug_assert!(own.is_sorted(), "pages come in the order of their addresses");
                read.extend(all.into_iter().filter(|page| own.binary_search(page).is_err()));
                written.extend(own);
            } else if mapping.is_file() {
                let there = numbers(&maps::pages(pid, &mapping.range, Pages::OfFiles)?);
                let first = mapping.range.start / PAGE;
                let pages = there.iter().map(|page| page - first + mapping.offset / PAGE);
                add(&mut set.files, Path::new(&mapping.name), pages.collect());
            }
        }
        set.read = LineSet::from_unsorted(read);
        set.written = LineSet::from_unsorted(written);
        Ok(set)
    }

    /// Returns the pages that were added since: those that were missing, and those that are written
    /// only now.
    #[must_use]
    pub fn since(&self, before: &PageSet) -> PageSet {
        let none = LineSet::new();
        let file = |(path, set): &(PathBuf, LineSet)| {
            let old = before.files.iter().find(|(p, _)| p == path).map_or(&none, |(_, old)| old);
            (path.clone(), set.subtract(old))
        };
        let files = self.files.iter().map(file).filter(|(_, set)| !set.is_empty());
        PageSet {
            files: files.collect(),
            read: self.read.subtract(&before.read),
            written: self.written.subtract(&before.written),
        }
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        let files: usize = self.files.iter().map(|(_, set)| set.len()).sum();
        files + self.read.len() + self.written.len()
    }

    /// The bytes of a set file, bound to builds of files and to one start of a program.
    ///
    /// # Errors
    /// If a file is not there any more.
    pub fn encode(&self, start: &[u8]) -> Result<Vec<u8>, String> {
        let own = [("", &self.read), (WRITTEN_PART, &self.written)].map(|(name, pages)| {
            let (id, name) = (start.to_vec(), name.to_owned());
            Ok(Part { space: Space::Process, id, name, lines: lines(pages) })
        });
        let files = self.files.iter().map(|(path, pages)| {
            let (space, id) = identity(path)?;
            let name = path.to_string_lossy().into_owned();
            Ok(Part { space, id, name, lines: lines(pages) })
        });
        let parts = own.into_iter().chain(files).collect::<Result<_, String>>()?;
        SetFile { parts }.encode().map_err(|e| e.to_string())
    }

    /// The set in a set file, if it is of this start of a program and of these builds of files.
    ///
    /// # Errors
    /// What was expected.
    pub fn decode(bytes: &[u8], start: &[u8]) -> Result<PageSet, String> {
        let file = SetFile::decode(bytes).map_err(|e| e.to_string())?;
        let id_of = |space, name: &str| match space {
            Space::Process => Some(start.to_vec()),
            Space::Image | Space::File => {
                let found = identity(Path::new(name)).ok();
                found.filter(|(found, _)| *found == space).map(|(_, id)| id)
            }
            Space::Physical | Space::KernelText => None,
        };
        file.check(id_of).map_err(|e| e.to_string())?;
        let mut set = PageSet::default();
        for part in file.parts {
            // The format has lines; a part of a page cannot be populated.
            let pages = whole(&part.lines).ok_or("expected whole pages")?;
            match (part.space, part.name.as_str()) {
                (Space::Process, WRITTEN_PART) => set.written = pages,
                (Space::Process, _) => set.read = pages,
                (_, name) => set.files.push((name.into(), pages)),
            }
        }
        Ok(set)
    }

    /// The list for the thread in a process, by its mappings of now: what is mapped there no more
    /// is left out.
    #[must_use]
    pub fn words(&self, mappings: &[Mapping]) -> Vec<u64> {
        let mut found = Vec::new();
        for mapping in mappings.iter().filter(|m| m.is_file()) {
            let path = Path::new(&mapping.name);
            let Some((_, set)) = self.files.iter().find(|(p, _)| p == path) else { continue };
            let (start, first) = (mapping.range.start / PAGE, mapping.offset / PAGE);
            let last = first + (mapping.range.end / PAGE - start);
            found.extend(
                set.iter().filter(|p| (first..last).contains(p)).map(|p| p - first + start),
            );
        }
        let memory: Vec<_> = mappings.iter().filter(|m| m.is_memory()).map(|m| &m.range).collect();
        let there = |page: &u64| memory.iter().any(|range| range.contains(&(page * PAGE)));
        found.extend(self.read.iter().filter(there));
        let mut words = in_words(LineSet::from_unsorted(found), 0);
        words.extend(in_words(self.written.iter().filter(there).collect(), WRITTEN));
        words
    }
}

/// Runs of addresses that a list names.
#[must_use]
pub fn runs(words: &[u64]) -> Vec<std::ops::Range<u64>> {
    let run = |word: &u64| {
        let start = word & !(PAGE - 1);
        start..start + ((word & (RUN - 1)) + 1) * PAGE
    };
    words.iter().map(run).collect()
}

fn in_words(pages: LineSet, flag: u64) -> Vec<u64> {
    let mut words: Vec<u64> = Vec::new();
    let mut next = None;
    for page in pages.iter() {
        match words.last_mut() {
            Some(word) if next == Some(page) && *word & (RUN - 1) < RUN - 1 => *word += 1,
            _ => words.push(page * PAGE | flag),
        }
        next = Some(page + 1);
    }
    words
}

fn numbers(runs: &[std::ops::Range<u64>]) -> Vec<u64> {
    runs.iter().flat_map(|run| run.start / PAGE..run.end / PAGE).collect()
}

fn add(files: &mut Vec<(PathBuf, LineSet)>, path: &Path, pages: LineSet) {
    match files.iter_mut().find(|(known, _)| known == path) {
        Some((_, set)) => *set = set.union(&pages),
        None if !pages.is_empty() => files.push((path.to_owned(), pages)),
        None => {}
    }
}

fn lines(pages: &LineSet) -> LineSet {
    pages.iter().flat_map(|page| page * LINES..(page + 1) * LINES).collect()
}

/// Pages all of whose lines are there, if no page is there in part.
fn whole(lines: &LineSet) -> Option<LineSet> {
    let pages: LineSet = lines.iter().filter(|l| l % LINES == 0).map(|l| l / LINES).collect();
    (self::lines(&pages) == *lines).then_some(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(from: u64, pages: u64, offset: u64, name: &str, writable: bool) -> Mapping {
        Mapping {
            range: from * PAGE..(from + pages) * PAGE,
            readable: true,
            writable,
            executable: false,
            shared: false,
            offset: offset * PAGE,
            inode: u64::from(name.starts_with('/')),
            name: name.into(),
        }
    }

    fn set(path: &Path) -> PageSet {
        PageSet {
            files: vec![(path.to_owned(), (3..80).collect())],
            read: [1000, 1001, 2000].into_iter().collect(),
            written: [1002].into_iter().collect(),
        }
    }

    #[test]
    fn a_set_of_another_start_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::write(&data, [7; 10_000]).unwrap();
        let bytes = set(&data).encode(b"one start").unwrap();
        assert_eq!(PageSet::decode(&bytes, b"one start").unwrap(), set(&data));
        let problem = PageSet::decode(&bytes, b"another").unwrap_err();
        assert!(problem.starts_with("memory of a program: expected build"), "{problem}");
        std::fs::write(&data, [7; 10_001]).unwrap();
        let problem = PageSet::decode(&bytes, b"one start").unwrap_err();
        assert!(problem.contains("data: expected build"), "{problem}");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(PageSet::decode(&changed, b"one start").is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_has_come_since() {
        let now = set(Path::new("/lib/x"));
        assert_eq!(now.since(&PageSet::default()), now);
        assert_eq!(now.since(&now), PageSet::default());
        // Read before, and written now; another file's pages are not this one's.
        let before = PageSet {
            files: vec![("/lib/y".into(), (0..9).collect()), ("/lib/x".into(), (0..5).collect())],
            read: [1000, 1002].into_iter().collect(),
            written: [2000].into_iter().collect(),
        };
        let expected = PageSet {
            files: vec![("/lib/x".into(), (5..80).collect())],
            read: [1001, 2000].into_iter().collect(),
            written: [1002].into_iter().collect(),
        };
        assert_eq!(now.since(&before), expected);
    }

    #[test]
    fn lines_that_are_no_whole_pages_are_refused() {
        let part = |lines: LineSet| {
            let (space, id, name) = (Space::Process, b"x".to_vec(), String::new());
            SetFile { parts: vec![Part { space, id, name, lines }] }.encode().unwrap()
        };
        let problem = PageSet::decode(&part((64..127).collect()), b"x").unwrap_err();
        assert_eq!(problem, "expected whole pages");
        assert_eq!(PageSet::decode(&part((64..128).collect()), b"x").unwrap().pages(), 1);
    }

    #[test]
    fn lists_are_of_what_is_mapped_now() {
        let all = [
            mapping(1000, 2, 0, "", true),
            mapping(1002, 5, 0, "", true),
            mapping(5000, 10, 0, "/lib/x", false),
            mapping(6000, 70, 10, "/lib/x", false),
        ];
        let words = set(Path::new("/lib/x")).words(&all);
        // Page 2000 is gone; runs have 64 pages at most.
        let expected = [
            1000 * PAGE | 1,
            5003 * PAGE | 6,
            6000 * PAGE | 63,
            6064 * PAGE | 5,
            1002 * PAGE | WRITTEN,
        ];
        assert_eq!(words, expected);
        let bytes: u64 = runs(&words).iter().map(|run| run.end - run.start).sum();
        assert_eq!(bytes / PAGE, 2 + 77 + 1);
        assert!(set(Path::new("/lib/x")).words(&[]).is_empty());
    }
}
