//! The place of a run's file: a name in shared memory, which is given back at the end.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use halfwink_live::{clock, descriptor, sys};

const PREFIX: &str = "halfwink-delegate-";

/// A free name for the file of a run. Dropping it unlinks the file.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// Chooses a name in shared memory, or in the folder of temporary files where that cannot be
    /// written, and clears away what killed runs have left there.
    #[must_use]
    pub fn find() -> Place {
        // SAFETY: a string that ends with a zero.
        let is_writable = unsafe { libc::access(c"/dev/shm".as_ptr(), libc::W_OK) } == 0;
        let folder = if is_writable { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        clear(&folder);
        Place(folder.join(format!("{PREFIX}{}-{:x}", std::process::id(), clock::ticks())))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A run that did not begin has left no file.
        let _ = fs::remove_file(&self.0);
    }
}

/// Unlinks the files of runs that have ended.
fn clear(folder: &Path) {
    let is_ours =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(is_ours) {
        let _ = clear_away(&entry.path());
    }
}

/// Unlinks the file of a run that has ended: one of this user's without a lock. Process numbers do
/// not tell, since they are used again and differ between containers that share the folder.
fn clear_away(path: &Path) -> std::io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.uid() != sys::geteuid() {
        return Ok(());
    }
    descriptor::lock(&file, libc::LOCK_EX | libc::LOCK_NB)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_runs_left_are_cleared_away_and_those_in_use_are_not() {
        let folder = std::env::temp_dir().join(format!("halfwink-places-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let [left, used, other] =
            ["halfwink-delegate-1", "halfwink-delegate-2", "x"].map(|name| folder.join(name));
        let [_, file, _] = [&left, &used, &other].map(|path| File::create(path).unwrap());
        descriptor::lock(&file, libc::LOCK_EX).unwrap();
        clear(&folder);
        assert_eq!([&left, &used, &other].map(|path| path.exists()), [false, true, true]);
        drop(file);
        clear(&folder);
        assert!(!used.exists(), "its lock has ended with its run");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn file_of_a_place_is_unlinked_with_it() {
        let place = Place::find();
        let path = place.path().to_owned();
        File::create(&path).unwrap();
        drop(place);
        assert!(!path.exists());
    }
}
