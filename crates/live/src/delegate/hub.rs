//! Between the wrappers and everything else: who calls, what its policy says, where the call goes,
//! what is counted.
//!
//! The way of a call that stays is short: two thread-local flags, a count, a decision. It allocates
//! nothing, locks nothing and asks the kernel nothing. A signal handler that interrupts a decision
//! or a hand-off makes its own calls in place.

use core::sync::atomic::{compiler_fence, AtomicBool, AtomicPtr, Ordering};

use super::calls::{Index, Refusal};
use super::local::{local, Local};
use super::mailbox::Patience;
use super::process::Process;
use super::shared::{add, Options, Shared};
use super::thread::Thread;
use super::worker::Settings;
use crate::clock;

/// A spinner gives its CPU away every so often, in nanoseconds.
const YIELD_NS: u64 = 5_000;

/// What one process image was told at its start.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) process: &'static Process,
    pub(super) shared: Shared,
    pub(super) options: Options,
    pub(super) patience: Patience,
    /// Called when a thread has got a place, so that somebody calls [`detach`] when it ends.
    on_attach: fn(),
}

static HUB: AtomicPtr<Hub> = AtomicPtr::new(core::ptr::null_mut());
/// Something was forbidden to this process (seccomp): nothing moves any more, in forks neither.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Where a call has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nowhere: the wrapper makes it, and then hands this to [`stayed`] if it is not 0.
    Here(u64),
    /// The worker has made it; the kernel's answer.
    There(i64),
}

/// Begins, once per process image.
pub fn install(shared: Shared, options: Options, on_attach: fn()) {
    let Some(process) = Process::allocate() else { return };
    let ticks = |ns: u64| options.rate.ticks(ns);
    let patience = Patience {
        worker: ticks(options.worker_spin_ns),
        caller: ticks(options.caller_spin_ns),
        yields: ticks(YIELD_NS),
    };
    let hub = Box::new(Hub { process, shared, options, patience, on_attach });
    HUB.store(Box::into_raw(hub), Ordering::Release);
}

/// Whether calls may still move.
pub(super) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

fn hub() -> Option<&'static Hub> {
    // SAFETY: null, or leaked by `install`.
    unsafe { HUB.load(Ordering::Acquire).as_ref() }
}

pub(super) fn settings() -> Settings {
    hub().map_or(
        Settings {
            os_cpu: 0,
            patience: Patience { worker: 0, caller: 0, yields: u64::MAX },
            proc_device: 0,
        },
        |hub| Settings {
            os_cpu: hub.options.os_cpu,
            patience: hub.patience,
            proc_device: hub.process.proc_device.load(Ordering::Relaxed),
        },
    )
}

/// The state of this process, if the library is at work in it.
#[must_use]
pub fn process() -> Option<&'static Process> {
    hub().map(|hub| hub.process).filter(|process| process.epoch.load(Ordering::Relaxed) != 0)
}

/// A call begins. Moves it, or says that the wrapper shall make it.
///
/// # Safety
/// The arguments must be fit for the call, as if it were made here.
#[inline(always)]
pub unsafe fn call(index: Index, args: &[u64; 6]) -> Way {
    let Some(hub) = hub() else { return Way::Here(0) };
    let local = local();
    if local.busy.get() || local.apart.get() != 0 {
        return nested(local, index);
    }
    local.busy.set(true);
    compiler_fence(Ordering::SeqCst);
    // SAFETY: by the caller; `busy` keeps handlers of this thread out.
    let way = unsafe { choose(hub, local, index, args) };
    compiler_fence(Ordering::SeqCst);
    local.busy.set(false);
    way
}

#[cold]
fn nested(local: &Local, index: Index) -> Way {
    // SAFETY: the pointer is null or valid in this image, and counters are atomic.
    if let Some(thread) = unsafe { local.thread.get().as_ref() } {
        if local.apart.get() == 0 {
            let counts = &thread.block.calls[index as usize];
            add(&counts.calls, 1);
            add(&counts.refused[Refusal::Nested as usize], 1);
        }
    }
    Way::Here(0)
}

#[inline(always)]
unsafe fn choose(hub: &'static Hub, local: &Local, index: Index, args: &[u64; 6]) -> Way {
    let epoch = hub.process.epoch.load(Ordering::Relaxed);
    if epoch == 0 || epoch != local.epoch.get() {
        attach(hub, local);
    }
    // SAFETY: null, or valid in this image; only this thread uses it, and `busy` says that it does.
    let Some(thread) = (unsafe { local.thread.get().as_mut() }) else { return Way::Here(0) };
    if thread.just_counts(index) {
        return Way::Here(0);
    }
    // SAFETY: by the caller.
    unsafe { thread.choose(hub, local, index, args) }
}

#[cold]
fn attach(hub: &'static Hub, local: &Local) {
    let counts = hub.shared.counts();
    hub.process.begin(|| counts.epochs.fetch_add(1, Ordering::Relaxed) + 1);
    local.epoch.set(hub.process.epoch.load(Ordering::Acquire));
    local.in_flight.set(false);
    let thread = Thread::new(hub);
    let counter = if thread.is_null() { &counts.uncounted_threads } else { &counts.threads };
    counter.fetch_add(1, Ordering::Relaxed);
    local.thread.set(thread);
    if !thread.is_null() {
        (hub.on_attach)();
    }
}

/// The calling thread ends: its worker goes, its place is free. It may begin again.
pub fn detach() {
    let Some(hub) = hub() else { return };
    let local = local();
    let is_ours = local.epoch.get() == hub.process.epoch.load(Ordering::Relaxed);
    let thread = local.thread.replace(core::ptr::null_mut());
    local.epoch.set(0);
    // SAFETY: null, or valid in this image; nobody else uses it before its place is given back.
    if let (true, Some(thread)) = (is_ours, unsafe { thread.as_ref() }) {
        thread.block.release();
        hub.process.leave_slot(thread.slot);
    }
}

/// Before a jump out of a signal handler: what is on its way is waited for, so that it writes into
/// no memory that the program takes for free.
pub fn settle() {
    let Some(hub) = hub() else { return };
    let local = local();
    // SAFETY: null, or valid in this image.
    let thread = unsafe { local.thread.get().as_ref() };
    if let (true, Some(thread)) = (local.in_flight.replace(false), thread) {
        let _ = thread.slot.mailbox.wait(local.ticket.get(), hub.patience);
    }
    local.busy.set(false);
}

/// The word that is not zero while the thread is the child of a vfork.
pub fn apart_word() -> *mut u64 {
    local().apart.as_ptr()
}

/// From now on nothing moves, in this process and its forks: calls may be forbidden to it, and a
/// thread on another core would make those of before, or be killed for its own.
pub fn confine() {
    if let Some(hub) = hub() {
        if !CONFINED.swap(true, Ordering::SeqCst) {
            hub.shared.counts().confined.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A call has been made in place; `begun` is what [`call`] gave.
#[inline]
pub fn stayed(index: Index, args: &[u64; 6], begun: u64) {
    if begun != 0 {
        stayed_timed(index, args, begun);
    }
}

#[cold]
fn stayed_timed(index: Index, args: &[u64; 6], begun: u64) {
    let ended = clock::ticks();
    let Some(hub) = hub() else { return };
    let local = local();
    let is_ours = local.epoch.get() == hub.process.epoch.load(Ordering::Relaxed);
    if local.busy.get() || local.apart.get() != 0 || !is_ours {
        return;
    }
    local.busy.set(true);
    // SAFETY: as in `choose`.
    if let Some(thread) = unsafe { local.thread.get().as_mut() } {
        thread.stayed(hub, index, args, begun, ended);
    }
    local.busy.set(false);
}
