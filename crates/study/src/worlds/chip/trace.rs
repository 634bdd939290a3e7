//! Traces of workloads: what is known of one is kept, the file itself is open only while it is
//! played.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use halfwink_chip::{SharedLines, Threads};
use halfwink_techniques::Stamp;
use halfwink_trace::{Header, Totals, TraceFile};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::StudyError;
use crate::library::io;

/// A trace that was opened once. Thousands of jobs hold one without holding a descriptor.
#[derive(Debug)]
pub(crate) struct Trace {
    path: PathBuf,
    stamp: Stamp,
    /// A digest of the whole file.
    pub(crate) digest: u64,
    pub(crate) header: Header,
    pub(crate) totals: Totals,
    /// Open while anything plays it; jobs that play it at once share it.
    open: Mutex<Weak<TraceFile>>,
    /// The lines that copies share, once they have been asked for.
    shared: OnceLock<Arc<SharedLines>>,
    /// The threads, once they have been asked for.
    threads: OnceLock<Arc<Threads>>,
}

impl Trace {
    /// Opens and digests a trace.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn open(path: PathBuf) -> Result<Trace, StudyError> {
        let file = TraceFile::open(&path)?;
        let stamp = Stamp::of(&path).map_err(|error| io(&path, error))?;
        let bytes = fs::read(&path).map_err(|error| io(&path, error))?;
        let (header, totals) = (file.header().clone(), file.footer().totals.clone());
        let open = Mutex::default();
        let (shared, threads) = (OnceLock::new(), OnceLock::new());
        Ok(Trace { digest: xxh3_64(&bytes), stamp, header, totals, path, open, shared, threads })
    }

    /// Returns whether its file is still what was opened.
    pub(crate) fn is_same(&self) -> bool {
        Stamp::of(&self.path).is_ok_and(|stamp| stamp == self.stamp)
    }

    /// Opens its file, to be played.
    ///
    /// # Errors
    ///
    /// If it is no longer there, or was written again since it was named.
    pub(crate) fn file(&self) -> Result<Arc<TraceFile>, StudyError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.upgrade() {
            return Ok(file);
        }
        let file = Arc::new(TraceFile::open(&self.path)?);
        // After it was opened: between a look and an opening the file could change unseen.
        if !self.is_same() {
            let path = self.path.display();
            return Err(StudyError::Usage(format!("{path}: changed while it was in use")));
        }
        *open = Arc::downgrade(&file);
        Ok(file)
    }

    /// Which of its lines copies of it share; a pass over all of it when it is first asked for.
    ///
    /// # Errors
    /// If the file is gone or damaged.
    pub(crate) fn shared_lines(&self) -> Result<Arc<SharedLines>, StudyError> {
        found_once(&self.shared, || {
            let file = self.file()?;
            Ok(SharedLines::of(&mut file.stream(), &file.warm()?)?)
        })
    }

    /// Finds its threads and what each waits for: two passes over all of it when it is first asked
    /// for.
    ///
    /// # Errors
    /// If the file is gone or damaged.
    pub(crate) fn threads(&self) -> Result<Arc<Threads>, StudyError> {
        found_once(&self.threads, || {
            let file = self.file()?;
            Ok(Threads::of(|| file.stream())?)
        })
    }
}

/// Returns what a pass over a recording found, which is made when it is first asked for.
fn found_once<T>(
    kept: &OnceLock<Arc<T>>,
    find: impl FnOnce() -> Result<T, StudyError>,
) -> Result<Arc<T>, StudyError> {
    if let Some(found) = kept.get() {
        return Ok(Arc::clone(found));
    }
    // Outside `get_or_init`, which takes no error; two threads may both make the pass, and what the
    // first one found stays.
    let found = find()?;
    Ok(Arc::clone(kept.get_or_init(|| Arc::new(found))))
}
