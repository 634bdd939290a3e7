//! A record as a file: replaced as a whole, and one process's at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use halfwink_dataplane::{AssociationId, Direction, NumberRecord};
use halfwink_live::descriptor;

use super::kept::Disk;

/// The file of one record.
pub(super) struct RecordFile {
    folder: PathBuf,
    path: PathBuf,
    /// Held for as long as the numbers are used; the kernel gives it up with the process. Not the
    /// record's own file, since that is replaced.
    _lock: File,
}

impl RecordFile {
    /// Takes the record of an association for this process, and reads it if there is one.
    pub(super) fn open(
        folder: &Path,
        direction: Direction,
        id: AssociationId,
    ) -> Result<(RecordFile, Option<NumberRecord>), String> {
        make(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let path = folder.join(format!("{}-{id}", direction.name()));
        let lock = lock(&path.with_extension("lock"))?;
        let found = read(&path)?;
        if found.is_some_and(|record| (record.direction, record.id) != (direction, id)) {
            let why = "is of another association; give both ends a new key, or restore the file";
            return Err(format!("{}: {why}", path.display()));
        }
        Ok((RecordFile { folder: folder.to_owned(), path, _lock: lock }, found))
    }
}

impl Disk for RecordFile {
    fn write(&mut self, record: &NumberRecord) -> Result<(), String> {
        let new = self.path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file = private().create(true).truncate(true).open(&new)?;
            file.write_all(record.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            sync(&self.folder)
        };
        write().map_err(|e| {
            let _ = fs::remove_file(&new);
            format!("{}: {e}", self.path.display())
        })
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn lock(path: &Path) -> Result<File, String> {
    let name = path.display();
    let file = private().create(true).truncate(false).open(path);
    let file = file.map_err(|e| format!("{name}: {e}"))?;
    let Err(e) = descriptor::lock(&file, libc::LOCK_EX | libc::LOCK_NB) else {
        return Ok(file);
    };
    if e.kind() == io::ErrorKind::WouldBlock {
        let why = "another process uses this association; two would use the same nonces";
        return Err(format!("{name}: {why}"));
    }
    Err(format!("{name}: {e}"))
}

fn read(path: &Path) -> Result<Option<NumberRecord>, String> {
    let name = path.display();
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("{name}: {e}")),
    };
    // Bytes that are no text are no record.
    let text = String::from_utf8_lossy(&bytes);
    NumberRecord::parse(&text).map(Some).map_err(|e| {
        format!(
            "{name}: damaged: {e}; which numbers were used cannot be known: give both ends a new \
             key"
        )
    })
}

/// Makes a folder for this user alone, so that it is there after a crash.
fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Which of them are new is not worth asking.
    for above in folder.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let _ = sync(above);
    }
    Ok(())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns an unpredictable number, for a new record.
pub(super) fn random() -> Result<u64, String> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| u64::from_le_bytes(bytes)).map_err(|e| format!("/dev/urandom: {e}"))
}
