//! A thread on the server's CPU: it keeps the CPU awake, empties its caches and times loads.
//! Between jobs it gives way to whatever else wants to run there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use halfwink_live::sys::{self, CpuSet};

type Job = Box<dyn FnOnce() + Send>;

/// A thread on one CPU that runs jobs.
#[derive(Debug)]
pub struct Place {
    /// CPU of the thread.
    pub cpu: u32,
    tid: u32,
    sleeps: Arc<AtomicBool>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Place {
    /// Starts it. It spins until it is dropped, under SCHED_IDLE: whatever else wakes there runs at
    /// once.
    #[must_use]
    pub fn awake(cpu: u32) -> Place {
        let (jobs, todo) = channel::<Job>();
        let (tell, told) = channel();
        let asleep = Arc::new(AtomicBool::new(false));
        let sleeps = Arc::clone(&asleep);
        let thread = thread::spawn(move || {
            // Where that is not allowed, numbers are noisier.
            let _ = CpuSet::one(cpu).pin();
            prefer(0, Rank::Awake);
            let _ = tell.send(sys::gettid());
            work(&todo, &sleeps);
        });
        let tid = told.recv().unwrap_or(0);
        Place { cpu, tid, sleeps: asleep, jobs: Some(jobs), thread: Some(thread) }
    }

    /// Whatever else wants the CPU runs there first from now on, until the next job: who waits for
    /// the kernel's own threads there would wait for a second otherwise.
    pub fn give_way(&self) {
        give_way(self.tid);
    }

    /// Lets the thread sleep between jobs from now on, as another one keeps the CPU awake.
    pub fn rest(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
    }

    /// Runs something there, and spins for its answer.
    pub fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (answer, answers) = channel();
        let job: Job = Box::new(move || {
            let found = job();
            prefer(0, Rank::Awake);
            let _ = answer.send(found);
        });
        let jobs = self.jobs.as_ref().expect("it lives as long as its handle");
        // Others that want the CPU would keep it from a job for milliseconds.
        prefer(self.tid, Rank::First);
        jobs.send(job).expect("its thread ends with its handle");
        loop {
            match answers.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Empty) => core::hint::spin_loop(),
                Err(TryRecvError::Disconnected) => panic!("a job on CPU {} panicked", self.cpu),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(todo: &Receiver<Job>, sleeps: &AtomicBool) {
    loop {
        let job = if sleeps.load(Ordering::Relaxed) {
            todo.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            todo.try_recv()
        };
        match job {
            Ok(job) => job(),
            Err(TryRecvError::Empty) => core::hint::spin_loop(),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

/// Real-time rank on a measured CPU. All ranks run before ordinary threads: otherwise other work of
/// this machine would be measured too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Spins, so that the CPU stays awake; where ranks are not allowed, behind all others.
    Awake = 1,
    /// Rank of the server.
    Server = 2,
    /// Rank of preparations for the server.
    First = 3,
}

/// Gives a thread (0: the calling one) a rank, where that is allowed.
pub fn prefer(tid: u32, rank: Rank) {
    if !set_class(tid, libc::SCHED_RR, rank as i32) && rank == Rank::Awake {
        give_way(tid);
    }
}

/// A thread (0: the calling one) runs only while nothing else wants to.
pub fn give_way(tid: u32) {
    set_class(tid, libc::SCHED_IDLE, 0);
}

fn set_class(tid: u32, class: i32, priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    let at = &raw const parameters as u64;
    // SAFETY: the kernel reads the parameters, which outlive the call.
    let answer =
        unsafe { sys::call3(libc::SYS_sched_setscheduler, u64::from(tid), class as u64, at) };
    !sys::is_error(answer)
}

/// Memory to fill caches with.
#[derive(Clone, Copy, Debug)]
pub struct Evictor {
    base: *const u8,
    bytes: usize,
}

// SAFETY: the memory is never unmapped, and only read once it has been written.
unsafe impl Send for Evictor {}
// SAFETY: see above.
unsafe impl Sync for Evictor {}

impl Evictor {
    /// Allocates `bytes` of memory in large pages, and writes it once.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(bytes: usize) -> Result<Evictor, String> {
        Evictor::with_pages(bytes, libc::MADV_HUGEPAGE)
    }

    /// Allocates `bytes` of memory in pages as small as those of most servers.
    ///
    /// # Errors
    /// If there is none.
    pub fn in_small_pages(bytes: usize) -> Result<Evictor, String> {
        Evictor::with_pages(bytes, libc::MADV_NOHUGEPAGE)
    }

    fn with_pages(bytes: usize, advice: i32) -> Result<Evictor, String> {
        let base = sys::map_memory(bytes).ok_or("no memory for emptying caches")?;
        // SAFETY: the mapping is ours and as long; the size of pages is only a wish.
        unsafe {
            sys::call3(libc::SYS_madvise, base as u64, bytes as u64, advice as u64);
            core::ptr::write_bytes(base, 1, bytes);
        }
        Ok(Evictor { base, bytes })
    }

    /// Returns the first address.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base as u64
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads so many bytes of it, line by line.
    pub fn stream(&self, bytes: usize) -> u64 {
        let mut sum = 0u64;
        for at in (0..bytes.min(self.bytes)).step_by(64) {
            // SAFETY: inside of the memory, aligned.
            let word = unsafe { self.base.add(at).cast::<u64>().read_volatile() };
            sum = sum.wrapping_add(word);
        }
        sum
    }
}

/// Sizes of a CPU's private and shared last cache in bytes, as `/sys` has them.
///
/// # Errors
/// What cannot be read, in one line.
pub fn cache_bytes(cpu: u32) -> Result<(usize, usize), String> {
    let mut found = [0usize; 4];
    for index in 0..8 {
        let place = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let read = |name: &str| std::fs::read_to_string(format!("{place}/{name}"));
        let Ok(level) = read("level") else { break };
        let level: usize = level.trim().parse().unwrap_or(0);
        let size = read("size").ok().and_then(|size| kibibytes(size.trim()));
        let (Some(slot), Some(size)) = (found.get_mut(level), size) else { continue };
        *slot = (*slot).max(size);
    }
    match found {
        [_, _, 0, _] => Err(format!("/sys tells nothing of the second cache of CPU {cpu}")),
        [_, _, second, 0] => Ok((second, second)),
        [_, _, second, third] => Ok((second, third)),
    }
}

fn kibibytes(text: &str) -> Option<usize> {
    let (digits, unit) = text.split_at(text.len().checked_sub(1)?);
    let scale = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_on_its_cpu() {
        let cpu = CpuSet::allowed().iter().last().unwrap();
        let place = Place::awake(cpu);
        assert_eq!(place.run(CpuSet::allowed), CpuSet::one(cpu));
        // SAFETY: plain numbers.
        let class = place.run(|| unsafe { sys::call3(libc::SYS_sched_getscheduler, 0, 0, 0) });
        // Users who may not have a real-time rank measure behind all other work.
        let own = || set_class(0, libc::SCHED_RR, Rank::Awake as i32);
        let is_allowed = std::thread::spawn(own).join().unwrap();
        let expected = if is_allowed { libc::SCHED_RR } else { libc::SCHED_IDLE };
        assert_eq!(class, i64::from(expected), "while it works");
    }

    #[test]
    fn cache_size_is_read_in_bytes() {
        assert_eq!(kibibytes("1024K"), Some(1 << 20));
        assert_eq!(kibibytes("32M"), Some(32 << 20));
        assert_eq!(kibibytes(""), None);
        assert_eq!(kibibytes("12"), None);
        let evictor = Evictor::new(1 << 20).unwrap();
        assert_eq!(evictor.stream(1 << 30), 0x0101_0101_0101_0101u64.wrapping_mul(1 << 14));
    }
}
