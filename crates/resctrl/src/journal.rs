use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::text::{not_json, wrong};
use crate::Error;

const SCHEMA: &str = "halfwink.resctrl.journal/1";

/// Progress of `apply`, as far as the journal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Some steps were taken, perhaps none or all.
    Applying,
    /// All steps were taken.
    Applied,
}

/// A step of `apply`, with what was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Makes a group that was not there.
    MakeGroup {
        /// Name of the group.
        group: String,
    },
    /// Writes the masks of a group.
    Schemata {
        /// Name of the group; empty for the default group.
        group: String,
        /// Lines of the group before; none if it is new.
        before: Option<Vec<String>>,
        /// The lines that are written.
        after: Vec<String>,
    },
    /// Gives a class CPUs.
    Cpus {
        /// Name of the class's group.
        group: String,
        /// CPUs of the class.
        after: String,
        /// CPUs before, of groups but the default one that lose some.
        before: BTreeMap<String, String>,
    },
    /// Moves a task to a group.
    Task {
        /// Name of the new group.
        group: String,
        /// Number of the task.
        task: u32,
        /// Name of the old group; empty for the default group.
        before: String,
        /// Whether it may have ended (a kernel thread).
        may_end: bool,
    },
    /// Binds kernel work to a class.
    KernelMode {
        /// Text that reverts the step.
        before: String,
        /// CPUs of the group that was bound before, as a list: of what file, and what it said.
        cpus: Option<(String, String)>,
        /// Text that makes the step.
        after: String,
    },
}

/// Information that `restore` needs: written whole before the first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// The form of this document.
    pub schema: String,
    /// Root of the tree.
    pub root: PathBuf,
    /// Progress of `apply`.
    pub phase: Phase,
    /// The steps in their order.
    pub steps: Vec<Step>,
}

impl Journal {
    pub(crate) fn new(root: &Path, steps: Vec<Step>) -> Journal {
        let (schema, root) = (SCHEMA.to_owned(), root.to_owned());
        Journal { schema, root, phase: Phase::Applying, steps }
    }

    /// Reads a journal's text.
    ///
    /// # Errors
    /// With file, line and what was expected.
    pub fn parse(text: &str, path: &Path) -> Result<Journal, Error> {
        let journal: Journal = serde_json::from_str(text).map_err(|e| {
            not_json(path, &e, "a journal that `halfwink live resctrl apply` wrote")
        })?;
        if journal.schema != SCHEMA {
            return Err(wrong(path, 1, &journal.schema, &format!("the schema {SCHEMA}")));
        }
        Ok(journal)
    }

    /// Reads a journal; none if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Option<Journal>, Error> {
        match fs::read_to_string(path) {
            Ok(text) => Journal::parse(&text, path).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(path, e)),
        }
    }

    /// Writes it where no other is: whole and on the disk, or not at all.
    pub(crate) fn begin(&self, path: &Path) -> Result<(), Error> {
        let folder = folder(path);
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        let new = self.write_beside(path)?;
        // A link, unlike a renaming, never replaces another's journal.
        let linked = fs::hard_link(&new, path);
        let _ = fs::remove_file(&new);
        match linked {
            Ok(()) => sync(folder),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(Error::Input(format!(
                "{}: a plan is applied already; run `halfwink live resctrl restore` first",
                path.display()
            ))),
            Err(e) => Err(Error::io(path, e)),
        }
    }

    /// Says that all steps were taken.
    pub(crate) fn finish(&mut self, path: &Path) -> Result<(), Error> {
        self.phase = Phase::Applied;
        let new = self.write_beside(path)?;
        fs::rename(&new, path).map_err(|e| Error::io(path, e))?;
        sync(folder(path))
    }

    /// Takes it away, once nothing is left to be taken back.
    pub(crate) fn end(path: &Path) -> Result<(), Error> {
        fs::remove_file(path).map_err(|e| Error::io(path, e))?;
        sync(folder(path))
    }

    fn write_beside(&self, path: &Path) -> Result<PathBuf, Error> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(name);
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|e| Error::io(&new, e))?;
        Ok(new)
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|e| Error::io(folder, e))
}
