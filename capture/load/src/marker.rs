// SPDX-License-Identifier: GPL-2.0-or-later
//! Marker instructions, which the recorder sees and the machine ignores: `nopl disp32(%rax)` with
//! the code and `HWT` as displacement, arguments in rdi and rsi.

use std::arch::asm;

macro_rules! mark {
    ($code:literal, $rdi:expr, $rsi:expr) => {
        // SAFETY: the instruction is a no-op with three bytes of displacement that nobody reads.
        unsafe {
            asm!(
                concat!(".byte 0x0f, 0x1f, 0x80, ", $code, ", 0x48, 0x57, 0x54"),
                in("rdi") $rdi,
                in("rsi") $rsi,
                options(nostack, preserves_flags)
            )
        }
    };
}

/// Marks the begin of the recording.
pub fn start() {
    mark!("1", 0u64, 0u64);
}

/// Marks the end of the recording.
pub fn stop() {
    mark!("2", 0u64, 0u64);
}

/// Value of rsi by which [`stop_with`] is known: at a program's own end, rsi holds any value.
const WITH_STATUS: u64 = 0x7375_7461_7473;

/// Recording ends here: the program ended with this status, as shells count it.
pub fn stop_with(status: u8) {
    mark!("2", u64::from(status), WITH_STATUS);
}

/// Request `id` is sent now; it was due `lag_ns` ago.
pub fn request_begins(id: u64, lag_ns: u64) {
    mark!("3", id, lag_ns);
}

/// The response to request `id` is complete.
pub fn request_ends(id: u64) {
    mark!("4", id, 0u64);
}

/// Lets the other CPU run: QEMU runs CPUs in turns, and `pause` ends a turn.
pub fn yield_turn() {
    std::hint::spin_loop();
}
