//! What one process has: threads that make calls, and a worker for each that has moved one.
//!
//! All of it lies in memory that the kernel wipes in a fork's child (`MADV_WIPEONFORK`), however
//! the fork was made. So a child finds zeros, knows that it is new, and that no worker is there.

use core::sync::atomic::{fence, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::files::{self, Files};
use super::mailbox::{life, Mailbox};
use halfwink_live::{owner, sys};

/// Threads of one process that can have a place, and so a worker, at one time.
pub const SLOTS: usize = 256;
/// Words of a worker's stack, and of its thread-local block: libc's descriptor fits on either side.
const STACK_WORDS: usize = 4096;
const TLS_WORDS: usize = 2048;

/// The place of one thread.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Slot {
    /// Number of the thread that has it; 0 if it is free.
    owner: AtomicU32,
    /// Number of its worker until that has ended.
    worker: AtomicU32,
    /// State of the thread; it stays for the next one that takes the place. Only `Thread::new`
    /// knows its type: places are given and taken independently of their threads' state.
    pub(super) kept: AtomicPtr<()>,
    /// Between it and its worker.
    pub mailbox: Mailbox,
    tls: [AtomicU64; TLS_WORDS],
    stack: [AtomicU64; STACK_WORDS],
}

/// The state of one process.
#[repr(C)]
#[derive(Debug)]
pub struct Process {
    /// Which process image this is; 0 in one that has not begun.
    pub epoch: AtomicU64,
    /// Device number of `/proc`, see [`files::proc_device`].
    pub proc_device: AtomicU64,
    /// Mark of the process, see [`owner::mark`].
    pub mark: AtomicU32,
    /// While above zero, no worker may start: credentials are being changed.
    hold: AtomicU32,
    /// Nature of its descriptors.
    pub files: Files,
    slots: [Slot; SLOTS],
}

impl Process {
    /// Fresh state for this process, which its forks will find wiped. `None` if there is no memory.
    #[must_use]
    pub fn allocate() -> Option<&'static Process> {
        let bytes = size_of::<Process>() as u64;
        let memory = sys::map_memory(size_of::<Process>())?;
        // SAFETY: it is ours.
        let answer = unsafe {
            sys::call3(libc::SYS_madvise, memory as u64, bytes, libc::MADV_WIPEONFORK as u64)
        };
        // Without wiping, a child would wait for workers that it does not have.
        // SAFETY: page-aligned, zeroed, never unmapped; all zeros is a valid state.
        (answer == 0).then(|| unsafe { &*memory.cast::<Process>() })
    }

    /// Begins, unless another thread has; `next` gives a number that no other image has.
    pub fn begin(&self, next: impl FnOnce() -> u64) {
        if self.epoch.load(Ordering::Acquire) == 0 {
            self.proc_device.store(files::proc_device(), Ordering::Relaxed);
            self.mark.store(owner::mark(), Ordering::Relaxed);
            let _ = self.epoch.compare_exchange(0, next(), Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// A free place for this thread.
    pub fn take_slot(&self, tid: u32) -> Option<&Slot> {
        self.slots.iter().find(|slot| {
            slot.owner.load(Ordering::Relaxed) == 0
                && slot.owner.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Gives a place back; its worker goes.
    pub fn leave_slot(&self, slot: &Slot) {
        slot.dismiss();
        slot.owner.store(0, Ordering::Release);
    }

    /// Sends all workers away and lets none start until [`Process::resume`]: what follows must hold
    /// for every thread of the process, or for the one that asks.
    pub fn pause(&self) {
        self.hold.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            while slot.mailbox.life.load(Ordering::SeqCst) == life::STARTING {
                sys::yield_now();
            }
            slot.dismiss();
        }
    }

    /// Workers may start again, with what their threads are now.
    pub fn resume(&self) {
        self.hold.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes sure that the place has a worker; `run` is its life. False if none can be had.
    pub fn ensure_worker(&self, slot: &Slot, run: extern "C" fn(u64) -> !) -> bool {
        slot.mailbox.life.load(Ordering::Acquire) == life::ALIVE || self.start(slot, run)
    }

    #[cold]
    fn start(&self, slot: &Slot, run: extern "C" fn(u64) -> !) -> bool {
        slot.join();
        slot.mailbox.life.store(life::STARTING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let started = self.hold.load(Ordering::SeqCst) == 0 && {
            slot.mailbox.reopen();
            // The worker inherits the mask; it shall never run a handler of the program.
            let _held = sys::SignalsHeld::now();
            slot.spawn(run)
        };
        if !started {
            slot.mailbox.life.store(life::GONE, Ordering::SeqCst);
            return false;
        }
        while slot.mailbox.life.load(Ordering::Acquire) == life::STARTING {
            sys::yield_now();
        }
        true
    }
}

impl Slot {
    fn spawn(&self, run: extern "C" fn(u64) -> !) -> bool {
        let tls = self.tls[TLS_WORDS / 2].as_ptr();
        // libc's descriptor begins with its own address, twice.
        self.tls[TLS_WORDS / 2].store(tls as u64, Ordering::Relaxed);
        self.tls[TLS_WORDS / 2 + 2].store(tls as u64, Ordering::Relaxed);
        // Nobody joins while the number is unknown.
        self.worker.store(u32::MAX, Ordering::SeqCst);
        // SAFETY: the end of an array inside of this place.
        let top = unsafe { self.stack.as_ptr().add(STACK_WORDS) };
        let this = core::ptr::from_ref(self) as u64;
        // SAFETY: stack and thread-local block belong to this place, are aligned by its layout,
        // never go away, and no other worker uses them: the last one has been joined.
        let started = unsafe { sys::spawn(top as *mut u64, tls, &self.worker, run, this) }.is_ok();
        if !started {
            self.worker.store(0, Ordering::SeqCst);
        }
        started
    }

    /// Sends the worker away, after what it is doing, and waits until it has ended.
    fn dismiss(&self) {
        if self.worker.load(Ordering::SeqCst) != 0 {
            self.mailbox.stop();
            self.join();
        }
    }

    fn join(&self) {
        loop {
            let tid = self.worker.load(Ordering::SeqCst);
            if tid == 0 {
                return;
            }
            sys::futex_wait(&self.worker, tid, 1_000_000, true);
        }
    }

    /// Number of the thread that has it.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }
}

const _: () = assert!(STACK_WORDS.is_multiple_of(2) && size_of::<Slot>().is_multiple_of(4096));
