//! Keeps the numbers of security associations beyond the end of the process.
//!
//! An AES-GCM key that sees a nonce twice is broken (RFC 4106, 9), and a receiver that forgets
//! which numbers came takes them again (RFC 4303, 3.4.3). So a record on the disk is always ahead
//! of use: workers take numbers up to a limit, and a thread beside them records more before they
//! come to it. If it cannot, they drop packets; they never wait for a disk.

mod file;
mod kept;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use halfwink_dataplane::{AeadKey, AssociationId, Bell, Direction, NumberRecord, Numbers};

use super::sync::locked;
use file::RecordFile;
use kept::Kept;

/// All associations that this process has had. One that a reload drops is kept as it is, for
/// packets under way, and for the reload that brings it back.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    kept: Mutex<Vec<Kept>>,
    start: Instant,
    stopping: AtomicBool,
    /// Beside what is locked while a disk is written, which may take as long as it likes.
    problem: Mutex<Option<String>>,
}

impl Keeper {
    pub(super) fn new() -> Keeper {
        let shared = Shared {
            kept: Mutex::default(),
            start: Instant::now(),
            stopping: AtomicBool::new(false),
            problem: Mutex::default(),
        };
        Keeper { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// The numbers of an association: those that it has had in this process, or those that follow
    /// its record in `folder`, or new ones.
    ///
    /// # Errors
    /// The file and what is wrong: it is damaged, another process has it, it cannot be written.
    pub(super) fn numbers(
        &self,
        folder: &Path,
        direction: Direction,
        (spi, esn): (u32, bool),
        key: &AeadKey,
    ) -> Result<Numbers, String> {
        let id = AssociationId::new(direction, spi, key);
        let mut kept = locked(&self.shared.kept);
        if let Some(there) = kept.iter().find(|kept| kept.record.id == id) {
            return Ok(there.numbers.clone());
        }
        let bell = self.bell()?;
        let (file, found) = RecordFile::open(folder, direction, id)?;
        let record = match found {
            Some(found) => found,
            None => NumberRecord { direction, id, iv_base: file::random()?, reserved: 0 },
        };
        let now = self.shared.start.elapsed();
        let begun = Kept::begin((spi, esn), record, bell, Box::new(file), now)?;
        let numbers = begun.numbers.clone();
        kept.push(begun);
        Ok(numbers)
    }

    /// Gives up all but these: records what of the others was used, and uses no more of it.
    pub(super) fn keep_only(&self, used: &[&Numbers]) {
        locked(&self.shared.kept).retain_mut(|kept| {
            let stays = used.contains(&&kept.numbers);
            if !stays {
                if let Err(why) = kept.end() {
                    halfwink_live::say!("halfwink: {why}");
                }
            }
            stays
        });
    }

    /// Returns the last error in writing a record, if one persists.
    pub(super) fn problem(&self) -> Option<String> {
        locked(&self.shared.problem).clone()
    }

    /// Once no worker is left: records what was used, so that the next start goes on there.
    pub(super) fn end(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = locked(&self.thread).take() {
            thread.thread().unpark();
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        for kept in &mut *locked(&self.shared.kept) {
            if let Err(why) = kept.end() {
                halfwink_live::say!("halfwink: {why}");
            }
        }
    }

    /// Wakes the thread, which is begun if need be.
    fn bell(&self) -> Result<Bell, String> {
        let mut thread = locked(&self.thread);
        let handle = match &*thread {
            Some(handle) => handle.thread().clone(),
            None => {
                let shared = self.shared.clone();
                let named = std::thread::Builder::new().name("esp-records".to_owned());
                let begun = named.spawn(move || shared.run());
                let begun = begun.map_err(|e| format!("thread of records: {e}"))?;
                let handle = begun.thread().clone();
                *thread = Some(begun);
                handle
            }
        };
        Ok(Box::new(move || handle.unpark()))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn run(&self) {
        while !self.stopping.load(Ordering::Acquire) {
            let now = self.start.elapsed();
            let (mut next, mut problem): (Option<Duration>, _) = (None, None);
            for kept in &mut *locked(&self.kept) {
                next = [next, kept.care(now)].into_iter().flatten().min();
                problem = problem.or_else(|| kept.problem().map(str::to_owned));
                kept.news.drain(..).for_each(|line| halfwink_live::say!("halfwink: {line}"));
            }
            *locked(&self.problem) = problem;
            match next {
                Some(next) => std::thread::park_timeout(next.saturating_sub(now)),
                None => std::thread::park(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
