// SPDX-License-Identifier: GPL-2.0-or-later
//! The trace's file inside a process whose descriptors the recorded program may close.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that is written from its beginning to its end.
///
/// The program may close the descriptor and open a file of its own under the same number. Each
/// write therefore checks that the descriptor is still that of the file, and opens it again
/// otherwise.
#[derive(Debug)]
pub struct Out {
    path: PathBuf,
    file: File,
    id: (u64, u64),
}

fn id_of(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|data| (data.dev(), data.ino()))
}

impl Out {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> io::Result<Out> {
        let file = File::create(path)?;
        let id = id_of(&file)?;
        Ok(Out { path: path.to_owned(), file, id })
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if id_of(&self.file).ok() != Some(self.id) {
            let again = OpenOptions::new().append(true).open(&self.path)?;
            // The old descriptor is the program's now, or nobody's: closing it is not ours to do.
            std::mem::forget(std::mem::replace(&mut self.file, again));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn closed_descriptor_is_opened_again() {
        let folder = std::env::temp_dir().join(format!("halfwink-out-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (mine, other) = (folder.join("mine"), folder.join("other"));
        let mut out = Out::create(&mine).expect("a file");
        out.write_all(b"ab").expect("written");
        let number = out.file.as_raw_fd();
        let stranger = File::create(&other).expect("a file");
        // SAFETY: both are open; afterwards the number of `out` is that of the other file.
        assert_eq!(unsafe { libc::dup2(stranger.as_raw_fd(), number) }, number);
        out.write_all(b"cd").expect("written");
        assert_eq!(std::fs::read(&mine).expect("readable"), b"abcd");
        assert_eq!(std::fs::read(&other).expect("readable"), b"");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
