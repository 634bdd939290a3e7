//! What one process image was told at its start, for its threads and their workers.

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::mailbox::Patience;
use super::process::Process;
use super::shared::{Options, Shared};

/// A spinner gives its CPU away every so often, in nanoseconds.
const YIELD_NS: u64 = 5_000;

/// Settings of a process image, fixed at its start.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) process: &'static Process,
    pub(super) shared: Shared,
    pub(super) options: Options,
    pub(super) patience: Patience,
    /// Called when a thread has got a place, so that the caller arranges for [`super::hub::detach`]
    /// at its end.
    pub(super) on_attach: fn(),
}

static IMAGE: AtomicPtr<Image> = AtomicPtr::new(core::ptr::null_mut());
/// Whether the process is restricted (seccomp): no calls move any more, in forks neither.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Settings of a worker's process.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// CPU on which it runs.
    pub os_cpu: u32,
    /// Time for which it spins.
    pub patience: Patience,
    /// Device number of `/proc`, see [`super::files::proc_device`].
    pub proc_device: u64,
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
    let image = Box::new(Image { process, shared, options, patience, on_attach });
    IMAGE.store(Box::into_raw(image), Ordering::Release);
}

/// Returns whether calls must no longer move.
pub(super) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// This process image, if the library is at work in it.
pub(super) fn current() -> Option<&'static Image> {
    // SAFETY: null, or leaked by `install`.
    unsafe { IMAGE.load(Ordering::Acquire).as_ref() }
}

pub(super) fn settings() -> Settings {
    current().map_or(
        Settings {
            os_cpu: 0,
            patience: Patience { worker: 0, caller: 0, yields: u64::MAX },
            proc_device: 0,
        },
        |image| Settings {
            os_cpu: image.options.os_cpu,
            patience: image.patience,
            proc_device: image.process.proc_device.load(Ordering::Relaxed),
        },
    )
}

/// The state of this process, if the library is at work in it.
#[must_use]
pub fn process() -> Option<&'static Process> {
    current()
        .map(|image| image.process)
        .filter(|process| process.epoch.load(Ordering::Relaxed) != 0)
}

/// Stops moving calls in this process and its forks. Calls may be forbidden to it from now on, and
/// a thread on another core would make those of before, or be killed for its own.
pub fn confine() {
    if let Some(image) = current() {
        if !CONFINED.swap(true, Ordering::SeqCst) {
            image.shared.counts().confined.fetch_add(1, Ordering::Relaxed);
        }
    }
}
