//! Waiting for a cache line in hardware: `umonitor` and `umwait` (Intel, WAITPKG) or `monitorx` and
//! `mwaitx` (AMD), the present-day relatives of a core that is woken early from its quiescence
//! (Strong 2013, Sec 3.2.6).

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::atomic::{AtomicU32, Ordering};

use super::hand::beside;
use super::{Bench, Rounds};
use halfwink_live::clock;

/// Longest wait without looking again, in ticks: a lost wake-up costs no more.
const NAP_TICKS: u64 = 100_000;

/// Wait instruction of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Umwait,
    Mwaitx,
}

pub(super) fn available() -> Option<Waiting> {
    // CPUID 7.0, ECX bit 5: WAITPKG. CPUID 8000_0001h, ECX bit 29: MONITORX.
    if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx >> 5 & 1 == 1 {
        return Some(Waiting::Umwait);
    }
    let extended = __cpuid(0x8000_0000).eax >= 0x8000_0001;
    (extended && __cpuid(0x8000_0001).ecx >> 29 & 1 == 1).then_some(Waiting::Mwaitx)
}

/// Waits until `word` is no longer `seen`, or for a while.
fn wait_while(how: Waiting, word: &AtomicU32, seen: u32) {
    let address = word.as_ptr();
    let until = clock::ticks() + NAP_TICKS;
    // SAFETY: CPUID says that these are there. They write to no memory; the second look closes the
    // gap between arming and waiting.
    unsafe {
        match how {
            Waiting::Umwait => {
                // umonitor rax; umwait ecx with the lighter state (C0.1).
                asm!(".byte 0xf3, 0x0f, 0xae, 0xf0", in("rax") address, options(nostack));
                if word.load(Ordering::Acquire) == seen {
                    asm!(".byte 0xf2, 0x0f, 0xae, 0xf1", in("ecx") 1u32, in("eax") until as u32,
                        in("edx") (until >> 32) as u32, options(nostack));
                }
            }
            Waiting::Mwaitx => {
                asm!(".byte 0x0f, 0x01, 0xfa", in("rax") address, in("ecx") 0u32, in("edx") 0u32,
                    options(nostack));
                if word.load(Ordering::Acquire) == seen {
                    // With a timer, whose ticks stand in ebx: that register is the compiler's own.
                    asm!("xchg rbx, {t}", ".byte 0x0f, 0x01, 0xfb", "xchg rbx, {t}",
                        t = inout(reg) NAP_TICKS => _, in("eax") 0u32, in("ecx") 2u32,
                        options(nostack));
                }
            }
        }
    }
}

pub(super) fn monitor(bench: &Bench) -> Result<Rounds, String> {
    let Some(how) = available() else {
        return Err("the processor shows neither WAITPKG (umwait) nor MONITORX".to_owned());
    };
    #[repr(align(128))]
    struct Line(AtomicU32);
    let line = Line(AtomicU32::new(0));
    let word = &line.0;
    let end = u32::MAX;
    let mut n = 0u32;
    beside(
        bench.there()?,
        || loop {
            let seen = word.load(Ordering::Acquire);
            if seen == end {
                break;
            }
            if seen & 1 == 1 {
                word.store(seen.wrapping_add(1), Ordering::Release);
            } else {
                wait_while(how, word, seen);
            }
        },
        || {
            bench.repeat(|| {
                n = (n + 2) & 0x3fff_ffff;
                word.store(n | 1, Ordering::Release);
                while word.load(Ordering::Acquire) != (n | 1) + 1 {
                    wait_while(how, word, n | 1);
                }
            })
        },
        || word.store(end, Ordering::Release),
    )
}
