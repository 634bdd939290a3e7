//! Loads a set: lines of the kernel by the program, a server's own by its thread.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use halfwink_live::clock::{self, Rate};
use halfwink_policy::preheat::LineSet;

use crate::bpf;
use crate::maps;
use crate::set::{self, Lines};
use crate::shared::{Operation, Shared, Slot};

/// Times of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Loaded {
    /// Time just before the kernel's first line was loaded, by the monotonic clock; 0 if there was
    /// none.
    pub first_ns: u64,
    /// Duration of loading lines of the kernel.
    pub kernel_ns: u64,
    /// Lines of the kernel.
    pub kernel_lines: usize,
    /// Threads of servers that were asked.
    pub servers: usize,
}

/// Loader of a service's set.
#[derive(Debug)]
pub struct Loader {
    /// The programs; without them lines of the kernel are left out.
    pub kernel: Option<Arc<Mutex<bpf::Lines>>>,
    /// File through which servers report.
    pub shared: Shared,
    /// CPU on which lines of the kernel are loaded.
    pub cpu: u32,
    rate: Rate,
    lines: Lines,
    /// The start of the program that its lines of memory are of.
    start: String,
    /// Owner of the list in each place: the process image, and the number of its commands.
    bound: BTreeMap<usize, Told>,
    /// Process images that had come when all had their lists; none before.
    epochs: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    epoch: u32,
    number: u32,
}

impl Loader {
    /// Creates a loader with an empty set.
    #[must_use]
    pub fn new(kernel: Option<Arc<Mutex<bpf::Lines>>>, shared: Shared, cpu: u32) -> Loader {
        let (rate, lines, start) = (Rate::measure(), Lines::default(), String::new());
        Loader { kernel, shared, cpu, rate, lines, start, bound: BTreeMap::new(), epochs: None }
    }

    /// Lines to load from now on, and the start of the program that its lines of memory are of.
    ///
    /// # Errors
    /// If one of the kernel's may not be read.
    pub fn set(&mut self, lines: Lines, start: &str) -> Result<(), String> {
        if let Some(kernel) = &self.kernel {
            let mut kernel = kernel.lock().map_err(|_| "another thread failed")?;
            kernel.set(lines.kernel.as_slice())?;
        }
        self.lines = lines;
        start.clone_into(&mut self.start);
        self.bound.clear();
        self.epochs = None;
        self.bind();
        Ok(())
    }

    /// Returns the set that is loaded.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Gives each server process that has come since its list, by its mappings of now. Lines of
    /// memory are for processes of the start that they were seen in.
    pub fn bind(&mut self) {
        // One line to look at, not one in each place.
        let epochs = self.shared.epochs();
        if self.epochs == Some(epochs) {
            return;
        }
        self.epochs = Some(epochs);
        for (at, slot) in self.shared.slots().iter().enumerate() {
            let Some((pid, _)) = slot.owner() else { continue };
            let epoch = slot.epoch.load(Ordering::Acquire);
            if self.bound.get(&at).is_some_and(|told| told.epoch == epoch) {
                continue;
            }
            let Ok(mappings) = maps::mappings(pid) else { continue };
            if slot.owner().is_none_or(|(_, helper)| helper == 0) {
                // On its way: it is looked for again.
                self.epochs = None;
                continue;
            }
            let is_same = set::start_of(&mappings) == self.start;
            let words = set::addresses(&self.lines, &mappings, is_same);
            // A list of nothing, now: loads find it there.
            let number = slot.post(Operation::Nothing, Some(&words), 0);
            self.bound.insert(at, Told { epoch, number });
        }
    }

    /// The server was started anew: lines of its memory are no more.
    pub fn forget_memory(&mut self) {
        self.lines.memory = LineSet::new();
        self.bound.clear();
        self.epochs = None;
    }

    /// Loads, until a time of the monotonic clock (0: to the end): lines of the kernel, then those
    /// of servers. Comes back when the servers' threads, which go on, have been woken.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn load(&mut self, until_ns: u64) -> Result<Loaded, String> {
        let mut loaded = Loaded::default();
        if let Some(kernel) = &self.kernel {
            let kernel = kernel.lock().map_err(|_| "another thread failed")?;
            let ran = kernel.run(self.cpu, until_ns).map_err(|e| format!("preheating: {e}"))?;
            loaded.first_ns = ran.began_ns;
            loaded.kernel_ns = ran.ended_ns - ran.began_ns;
            loaded.kernel_lines = ran.lines;
        }
        let until_ticks = self.ticks_at(until_ns);
        for (at, told) in &mut self.bound {
            let slot = &self.shared.slots()[*at];
            if is_idle(slot, *told) {
                told.number = slot.post(Operation::Load, None, until_ticks);
                loaded.servers += 1;
            }
        }
        Ok(loaded)
    }

    /// Waits until threads of servers are done, for so long at most. Whether all are.
    #[must_use]
    pub fn finish(&self, timeout_ns: u64) -> bool {
        let all = self.shared.slots();
        self.bound.iter().all(|(at, told)| all[*at].wait(told.number, timeout_ns))
    }

    /// A time of the monotonic clock by the time-stamp counter.
    fn ticks_at(&self, until_ns: u64) -> u64 {
        match until_ns {
            0 => 0,
            _ => clock::ticks() + self.rate.ticks(until_ns.saturating_sub(monotonic_ns())),
        }
    }
}

/// Returns whether the place has the same process image, which has finished its command.
fn is_idle(slot: &Slot, told: Told) -> bool {
    slot.epoch.load(Ordering::Relaxed) == told.epoch
        && slot.done.load(Ordering::Relaxed) == slot.command.load(Ordering::Relaxed)
}

/// The monotonic clock, in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use halfwink_live::sys;

    use super::*;

    /// Creates a place of this process without a thread: commands stay there unread.
    fn placed(folder: &std::path::Path) -> (Shared, &'static Slot) {
        let mut options = std::fs::File::options();
        let options = options.read(true).write(true).create_new(true);
        let shared = Shared::create(&options.open(folder.join("shared")).unwrap(), false).unwrap();
        let slot = shared.claim(sys::getpid()).unwrap();
        slot.set_owner(sys::getpid(), sys::gettid());
        (shared, slot)
    }

    fn listed(slot: &Slot) -> Vec<u64> {
        let count = slot.count.load(Ordering::Relaxed) as usize;
        slot.words[..count].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn lines_of_memory_are_for_the_start_that_they_were_seen_in() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, slot) = placed(folder.path());
        let memory = vec![1u8; 4096];
        let line = memory.as_ptr() as u64 / 64 + 1;
        let lines = || Lines { memory: [line].into_iter().collect(), ..Lines::default() };
        let start = set::start_of(&maps::mappings(sys::getpid()).unwrap());
        let mut loader = Loader::new(None, shared, 0);
        loader.set(lines(), &start).unwrap();
        assert_eq!(listed(slot), [line << 6]);
        // Another process has its number now, or the same program was started anew.
        loader.set(lines(), "another start").unwrap();
        assert!(listed(slot).is_empty());
        loader.set(lines(), &start).unwrap();
        loader.forget_memory();
        loader.bind();
        assert!(listed(slot).is_empty());
    }

    #[test]
    fn a_load_has_its_end_and_no_process_image_takes_over_anothers() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, slot) = placed(folder.path());
        let mut loader = Loader::new(None, shared, 0);
        loader.set(Lines::default(), "").unwrap();
        let done = || slot.done.store(slot.command.load(Ordering::Relaxed), Ordering::Relaxed);
        // Its thread is still busy with the list.
        assert_eq!(loader.load(0).unwrap().servers, 0);
        done();
        assert_eq!(loader.load(0).unwrap().servers, 1);
        assert_eq!(slot.until_ticks.load(Ordering::Relaxed), 0);
        done();
        let before = clock::ticks();
        assert_eq!(loader.load(monotonic_ns() + 1_000_000).unwrap().servers, 1);
        let until = slot.until_ticks.load(Ordering::Relaxed);
        assert!(until > before, "{until} after {before}");
        done();
        // The same process, as after exec: it has no list yet.
        slot.epoch.fetch_add(1, Ordering::Relaxed);
        assert_eq!(loader.load(0).unwrap().servers, 0);
    }
}
