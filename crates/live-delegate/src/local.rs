//! What each thread of the program keeps, at a fixed distance from its thread pointer.
//!
//! A preloaded library is there from the start, so its thread-local variables can have fixed places
//! (the initial-exec model), found without a call. The compiler cannot be told so; the assembler
//! can.

use core::arch::{asm, global_asm};
use core::cell::Cell;

/// The variables of one thread; all zeros at first.
#[repr(C)]
pub(super) struct Local {
    /// The process image that `thread` belongs to.
    pub(super) epoch: Cell<u64>,
    /// State of this thread, or null if there was no room; only `Thread::of` knows its type.
    pub(super) thread: Cell<*mut ()>,
    /// A decision or hand-off is under way.
    pub(super) busy: Cell<bool>,
    /// There is a hand-off, with this ticket.
    pub(super) in_flight: Cell<bool>,
    pub(super) ticket: Cell<u32>,
    /// Not zero in the child of a vfork, which shares this very memory with its parent; [`ASIDE`]
    /// in a thread whose calls the policy is not notified of.
    pub(super) apart: Cell<u64>,
}

/// See [`Local::apart`]; a vfork puts another value in its place and then this one back.
pub(super) const ASIDE: u64 = 2;

const _: () = assert!(size_of::<Local>() <= 64);

global_asm!(
    ".pushsection .tbss.halfwink_live_local,\"awT\",@nobits",
    ".balign 64",
    ".globl halfwink_live_local",
    ".hidden halfwink_live_local",
    ".type halfwink_live_local, @tls_object",
    ".size halfwink_live_local, 64",
    "halfwink_live_local:",
    ".zero 64",
    ".popsection",
);

/// Returns the variables of the calling thread. The reference must not leave it.
#[inline(always)]
pub(super) fn local() -> &'static Local {
    let place: *const Local;
    // SAFETY: 64 zeroed bytes of this thread at its start, used as nothing else; the ABI keeps the
    // thread pointer at fs:0.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + halfwink_live_local@GOTTPOFF]",
            "add {place}, qword ptr fs:[0]",
            place = out(reg) place,
            options(nostack, pure, readonly),
        );
        &*place
    }
}
