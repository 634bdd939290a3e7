use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Rehearsal};

/// A tree of resctrl files. Paths are relative to it; groups are folders.
///
/// Everything that changes a tree goes through here, so that tests can stop it anywhere.
pub trait Files {
    /// Returns the root of the tree.
    fn root(&self) -> &Path;

    /// Returns whether the kernel is behind it; otherwise it is a folder laid out like a mount.
    fn is_mounted(&self) -> bool;

    /// Writes to a file as `echo TEXT > FILE` does.
    ///
    /// # Errors
    /// As the kernel refuses it.
    fn write(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Makes a control group.
    ///
    /// # Errors
    /// As the kernel refuses it.
    fn make_group(&mut self, name: &str) -> io::Result<()>;

    /// Removes a control group; its tasks and CPUs go to the default one.
    ///
    /// # Errors
    /// As the kernel refuses it.
    fn remove_group(&mut self, name: &str) -> io::Result<()>;

    /// Reads a file.
    ///
    /// # Errors
    /// As the system says.
    fn read(&self, path: &str) -> io::Result<String> {
        // An odd tree may hold anything under these names, endless things too.
        let path = self.root().join(path);
        if fs::metadata(&path)?.is_file() {
            fs::read_to_string(path)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "no plain file"))
        }
    }

    /// Names of the folders in a folder, sorted.
    ///
    /// # Errors
    /// As the system says.
    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root().join(path))? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() && !name.as_encoded_bytes().starts_with(b".") {
                let name = name.into_string().map_err(|name| {
                    let said = format!("{}: a name that is no text", name.to_string_lossy());
                    io::Error::new(io::ErrorKind::InvalidData, said)
                })?;
                if name.contains(char::is_control) {
                    let said = format!("{name:?}: a name that is not printable");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, said));
                }
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// A file of a tree, for errors.
pub(crate) fn place(files: &dyn Files, path: &str) -> PathBuf {
    files.root().join(path)
}

/// Reads a file of a tree.
pub(crate) fn read(files: &dyn Files, path: &str) -> Result<String, Error> {
    files.read(path).map_err(|e| Error::io(&place(files, path), e))
}

/// Reads a file that not every tree has.
pub(crate) fn read_if(files: &dyn Files, path: &str) -> Result<Option<String>, Error> {
    match files.read(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(&place(files, path), e)),
    }
}

/// The real tree: the kernel does the rest.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Files for Mounted {
    fn root(&self) -> &Path {
        &self.0
    }

    fn is_mounted(&self) -> bool {
        true
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        // The kernel takes a command in one write, and needs its line end.
        let mut file = fs::OpenOptions::new().write(true).open(self.0.join(path))?;
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn make_group(&mut self, name: &str) -> io::Result<()> {
        fs::create_dir(self.0.join(name))
    }

    fn remove_group(&mut self, name: &str) -> io::Result<()> {
        // The kernel's files in it go with it.
        fs::remove_dir(self.0.join(name))
    }
}

/// Opens a tree: the kernel's, or a folder that is laid out like one.
///
/// # Errors
/// It is not there, or no such tree.
pub fn open(root: &Path) -> Result<Box<dyn Files>, Error> {
    let found = root.canonicalize().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound if root == Path::new(crate::names::ROOT) => Error::Input(format!(
            "{}: this kernel has no resctrl; --root DIR takes a tree elsewhere",
            root.display()
        )),
        _ => Error::io(root, e),
    })?;
    let mounted = fs::read_to_string("/proc/self/mountinfo")
        .is_ok_and(|text| text.lines().any(|line| is_mount(line, &found)));
    let files: Box<dyn Files> =
        if mounted { Box::new(Mounted(found)) } else { Box::new(Rehearsal::new(found)) };
    let is_there = |path: &str| files.root().join(path).exists();
    if is_there("info") && is_there("schemata") {
        return Ok(files);
    }
    let advice = if root == Path::new(crate::names::ROOT) && !mounted {
        "is it mounted? run: mount -t resctrl resctrl /sys/fs/resctrl"
    } else {
        "expected the folder `info` and the file `schemata`"
    };
    Err(Error::Input(format!("{}: no resctrl tree; {advice}", root.display())))
}

/// Returns whether a line of mountinfo shows a resctrl mount there.
fn is_mount(line: &str, root: &Path) -> bool {
    let Some((left, right)) = line.split_once(" - ") else { return false };
    // The kernel writes bytes that would part the columns as three octal digits (proc(5)). A mount
    // that is not recognised would be written to as if it were a plain folder.
    let place = left.split(' ').nth(4).map(|place| {
        [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")]
            .iter()
            .fold(place.to_owned(), |place, (octal, byte)| place.replace(octal, byte))
    });
    right.split(' ').next() == Some("resctrl") && place.as_deref() == root.to_str()
}

/// Returns the default path of a tree's journal: for a mount, a place that is lost at the next
/// boot, as all masks are; for a folder, a place beside it.
pub fn default_journal(files: &dyn Files) -> PathBuf {
    let root = files.root();
    match (files.is_mounted(), root.file_name()) {
        (false, Some(name)) => {
            let name = format!("{}.halfwink-resctrl.json", name.to_string_lossy());
            root.with_file_name(name)
        }
        _ => PathBuf::from("/run/halfwink/resctrl.json"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_told_by_its_type_and_place() {
        let line = "36 25 0:31 / /sys/fs/resctrl rw,relatime shared:9 - resctrl resctrl rw,cdp";
        assert!(is_mount(line, Path::new("/sys/fs/resctrl")));
        assert!(!is_mount(line, Path::new("/sys/fs")));
        assert!(!is_mount(&line.replace("- resctrl", "- tmpfs"), Path::new("/sys/fs/resctrl")));
    }

    #[test]
    fn blanks_and_backslashes_of_a_mount_are_read_as_the_kernel_writes_them() {
        let line = r"36 25 0:31 / /mnt/a\040b\134c rw - resctrl resctrl rw";
        assert!(is_mount(line, Path::new(r"/mnt/a b\c")));
        assert!(!is_mount(line, Path::new(r"/mnt/a\040b\134c")));
    }
}
