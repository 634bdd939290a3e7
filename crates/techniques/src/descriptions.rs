//! Descriptions of machines by name.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use halfwink_engine::{Input, Template};
use halfwink_inputs::{Budget, InputError};

use crate::{kernel_table, Error};

/// Parsed files, with the size and time that each had.
type Parsed = HashMap<PathBuf, (Stamp, Arc<Template>)>;

/// The folder that holds `machines`, `workloads`, `studies` and `targets`. Each file is parsed once
/// as long as it stays the same.
#[derive(Clone, Debug)]
pub struct Descriptions {
    root: PathBuf,
    parsed: Arc<Mutex<Parsed>>,
    look: Look,
}

/// Size and time of a file: they differ once it was written again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    bytes: u64,
    modified: SystemTime,
}

impl Stamp {
    /// Reads the stamp of a file.
    ///
    /// # Errors
    /// The file is not there.
    pub fn of(path: &Path) -> std::io::Result<Stamp> {
        let meta = fs::metadata(path)?;
        Ok(Stamp { bytes: meta.len(), modified: meta.modified()? })
    }
}

/// A description that was read and checked.
#[derive(Clone, Debug)]
pub struct Described<M> {
    /// Name by which it was asked for.
    pub name: String,
    /// The model that it describes.
    pub model: M,
    /// Its text, with the values that were set.
    pub text: String,
}

impl Descriptions {
    /// Descriptions below this folder.
    pub fn new(root: impl Into<PathBuf>) -> Descriptions {
        Descriptions::naming(root, |_| None)
    }

    /// Descriptions below this folder. `look` names other files by their first bytes, with the step
    /// that leads on. Live programs have none: it would be a hundredth of them.
    pub fn naming(root: impl Into<PathBuf>, look: Look) -> Descriptions {
        Descriptions { root: root.into(), parsed: Arc::default(), look }
    }

    /// Returns the path of a folder (`machines/router`).
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the names of the files with this extension in a folder, sorted.
    #[must_use]
    pub fn names(&self, folder: &str, extension: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder(folder)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == extension))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        names
    }

    /// Finds a description by its name in a folder, or as a file ending in `.toml`.
    ///
    /// # Errors
    /// There is none of that name; the nearest one is named.
    pub fn find(&self, folder: &str, what: &'static str, name: &str) -> Result<PathBuf, Error> {
        if Path::new(name).extension().is_some_and(|e| e == "toml") {
            return Ok(PathBuf::from(name));
        }
        if let Some(path) = self.known(folder, name) {
            return Ok(path);
        }
        self.no_description(what, name)?;
        let known = self.names(folder, "toml");
        Err(Error::unknown(what, name, known.iter().map(String::as_str)))
    }

    /// Returns the file of a description of this name in a folder, if there is one. A sweep asks a
    /// hundred thousand times, so that the folder is not listed.
    #[must_use]
    pub fn known(&self, folder: &str, name: &str) -> Option<PathBuf> {
        let path = self.folder(folder).join(format!("{name}.toml"));
        (!name.contains('/') && path.is_file()).then_some(path)
    }

    /// Refuses a name that is a file or folder, and no description.
    ///
    /// # Errors
    /// It is one: what it looks like, and the step that leads on.
    pub fn no_description(&self, what: &str, name: &str) -> Result<(), Error> {
        let path = Path::new(name);
        if path.is_dir() && name.contains('/') {
            let message =
                format!("{what} `{name}` is a folder, expected a name, or a file FILE.toml");
            return Err(Error::Usage(message));
        }
        let Ok(file) = halfwink_inputs::open_regular(path) else { return Ok(()) };
        let mut head = Vec::new();
        file.take(LOOKED_AT).read_to_end(&mut head).map_err(|error| Error::io(path, error))?;
        Err(Error::Usage(match (self.look)(&head) {
            Some(other) => format!("{what} `{name}`: {other}"),
            None => format!("{what} `{name}`: names of descriptions end in .toml"),
        }))
    }

    /// Reads a description and sets values (path, value), where the kernel parameter
    /// `intel_idle.table` stands for what it changes. The description must not contain what is
    /// `moved`: parameters of techniques that machines had once; the error says what to write now.
    ///
    /// # Errors
    /// The file cannot be read, is no TOML, or has no such value.
    pub fn input<'a>(
        &self,
        path: &Path,
        values: impl IntoIterator<Item = (&'a str, &'a String)>,
        moved: &[(&str, &str)],
    ) -> Result<Input, Error> {
        let template = self.template(path)?;
        if let Some((path, now)) = moved.iter().find(|(path, _)| template.has(path)) {
            let message =
                format!("`{path}` is no longer a machine's; leave it out and say {now}=...");
            return Err(template.input().error_at_key(path, &message).into());
        }
        let mut expanded = Vec::new();
        for (path, value) in values {
            expanded.extend(kernel_table::expanded(path, value)?);
        }
        Ok(template.with(expanded.iter().map(|(path, value)| (path.as_str(), value.as_str())))?)
    }

    /// Parses a description, or returns it as parsed before.
    fn template(&self, path: &Path) -> Result<Arc<Template>, Error> {
        let stamp = Stamp::of(path).map_err(|error| Error::io(path, error))?;
        // The map is whole after every statement, also in a thread that panicked.
        let locked = || self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = locked().get(path).filter(|known| known.0 == stamp) {
            return Ok(Arc::clone(known));
        }
        let text = read_text(path)?;
        let input = Input::new(path.display().to_string(), text);
        let template = Arc::new(Template::parse(input)?);
        locked().insert(path.to_owned(), (stamp, Arc::clone(&template)));
        Ok(template)
    }
}

/// Names a file that is no description by its first bytes.
pub type Look = fn(&[u8]) -> Option<String>;

/// Bytes that tell what another file is.
const LOOKED_AT: u64 = 1 << 14;
/// Most bytes of a description.
const MOST_BYTES: u64 = 1 << 27;

/// Reads a description, a study or another short text: of a regular file, or standard input.
///
/// # Errors
/// The file cannot be read, or holds no text.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let wrong = |error: InputError| Error::io(path, error.into());
    let bytes = halfwink_inputs::read_text(path, &Budget::new(MOST_BYTES)).map_err(wrong)?;
    let not_text = |_| Error::io(path, std::io::Error::other("this is no text, expected UTF-8"));
    String::from_utf8(bytes).map_err(not_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_named_in_place_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let is_topology = |head: &[u8]| head.starts_with(b"<?xml").then(|| "a topology".to_owned());
        let descriptions = Descriptions::naming(folder.path(), is_topology);
        let found = |name: &str| descriptions.find("machines", "machine", name);
        let said = |name: &str| found(name).unwrap_err().to_string();
        let at = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        assert!(said(&at("a.xml", "<?xml version=\"1.0\"?>")).ends_with("a.xml`: a topology"));
        assert!(said(&at("a.txt", "cores = 4\n")).ends_with("names of descriptions end in .toml"));
        assert!(said(&folder.path().display().to_string()).contains("is a folder"));
        assert_eq!(said("other"), "unknown machine `other`");
        assert!(found(&at("a.toml", "")).is_ok());
    }
}
