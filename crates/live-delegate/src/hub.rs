//! Between the wrappers and everything else: who calls, what its policy says, where the call goes,
//! what is counted.
//!
//! The way of a call that stays is short: two thread-local flags, a count, a decision. It allocates
//! nothing, locks nothing and asks the kernel nothing. A signal handler that interrupts a decision
//! or a hand-off makes its own calls in place.

use core::sync::atomic::{compiler_fence, Ordering};

use super::calls::{Index, Refusal};
use super::image::{current, Image};
use super::local::{local, Local, ASIDE};
use super::shared::add;
use super::thread::Thread;
use halfwink_live::clock;

pub use super::image::{confine, install, process};
pub use super::thread::Way;

/// A call begins. Moves it, or says that the wrapper shall make it.
///
/// # Safety
/// The arguments must be fit for the call, as if it were made here.
#[inline(always)]
pub unsafe fn call(index: Index, args: &[u64; 6]) -> Way {
    let Some(image) = current() else { return Way::Here(0) };
    let local = local();
    if local.busy.get() || local.apart.get() != 0 {
        return nested(local, index);
    }
    local.busy.set(true);
    compiler_fence(Ordering::SeqCst);
    // SAFETY: by the caller; `busy` keeps handlers of this thread out.
    let way = unsafe { choose(image, local, index, args) };
    compiler_fence(Ordering::SeqCst);
    local.busy.set(false);
    way
}

#[cold]
fn nested(local: &Local, index: Index) -> Way {
    // SAFETY: the pointer is null or valid in this image, and counters are atomic.
    if let Some(thread) = unsafe { Thread::of(local).as_ref() } {
        if local.apart.get() == 0 {
            let counts = &thread.block.calls[index as usize];
            add(&counts.calls, 1);
            add(&counts.refused[Refusal::Nested as usize], 1);
        }
    }
    Way::Here(0)
}

#[inline(always)]
unsafe fn choose(image: &'static Image, local: &Local, index: Index, args: &[u64; 6]) -> Way {
    let epoch = image.process.epoch.load(Ordering::Relaxed);
    if epoch == 0 || epoch != local.epoch.get() {
        attach(image, local);
    }
    // SAFETY: null, or valid in this image; only this thread uses it, and `busy` says that it does.
    let Some(thread) = (unsafe { Thread::of(local).as_mut() }) else { return Way::Here(0) };
    if thread.just_counts(index) {
        return Way::Here(0);
    }
    // SAFETY: by the caller.
    unsafe { thread.choose(image, local, index, args) }
}

#[cold]
fn attach(image: &'static Image, local: &Local) {
    let counts = image.shared.counts();
    image.process.begin(|| counts.epochs.fetch_add(1, Ordering::Relaxed) + 1);
    local.epoch.set(image.process.epoch.load(Ordering::Acquire));
    local.in_flight.set(false);
    let thread = Thread::new(image);
    let counter = if thread.is_null() { &counts.uncounted_threads } else { &counts.threads };
    counter.fetch_add(1, Ordering::Relaxed);
    local.thread.set(thread.cast());
    if !thread.is_null() {
        (image.on_attach)();
    }
}

/// The calling thread ends: its worker goes, its place is free. It may begin again.
pub fn detach() {
    let Some(image) = current() else { return };
    let local = local();
    let is_ours = local.epoch.get() == image.process.epoch.load(Ordering::Relaxed);
    let thread = Thread::of(local);
    local.thread.set(core::ptr::null_mut());
    local.epoch.set(0);
    // SAFETY: null, or valid in this image; nobody else uses it before its place is given back.
    if let (true, Some(thread)) = (is_ours, unsafe { thread.as_ref() }) {
        thread.block.release();
        image.process.leave_slot(thread.slot);
    }
}

/// Before a jump out of a signal handler: what is on its way is waited for, so that it writes into
/// no memory that the program takes for free.
pub fn settle() {
    let Some(image) = current() else { return };
    let local = local();
    // SAFETY: null, or valid in this image.
    let thread = unsafe { Thread::of(local).as_ref() };
    if let (true, Some(thread)) = (local.in_flight.replace(false), thread) {
        let _ = thread.slot.mailbox.wait(local.ticket.get(), image.patience);
    }
    local.busy.set(false);
}

/// The word that is not zero while the thread is the child of a vfork.
pub fn apart_word() -> *mut u64 {
    local().apart.as_ptr()
}

/// Keeps all calls of this thread in place, without asking or notifying the policy, or ends that.
/// For a thread that may end at any instruction, or that shares its variables with another process.
pub fn stand_aside(aside: bool) {
    let apart = &local().apart;
    apart.set(if aside { apart.get() | ASIDE } else { apart.get() & !ASIDE });
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
    let Some(image) = current() else { return };
    let local = local();
    let is_ours = local.epoch.get() == image.process.epoch.load(Ordering::Relaxed);
    if local.busy.get() || local.apart.get() != 0 || !is_ours {
        return;
    }
    local.busy.set(true);
    // SAFETY: as in `choose`.
    if let Some(thread) = unsafe { Thread::of(local).as_mut() } {
        thread.stayed(image, index, args, begun, ended);
    }
    local.busy.set(false);
}
