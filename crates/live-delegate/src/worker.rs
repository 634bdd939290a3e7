//! The life of a thread that makes calls for another.

use super::files::opens_freely;
use super::image;
use super::mailbox::{Request, DECLINED};
use super::process::Slot;
use halfwink_live::sys::{self, CpuSet};

/// A request that asks for nothing: what a hand-off alone costs.
pub const NOTHING: u32 = u32::MAX;

/// Serves the place whose address is `slot`, on the OS CPU, until it is told to go.
///
/// It runs without libc and without thread-local variables: see [`sys::spawn`].
pub(super) extern "C" fn run(slot: u64) -> ! {
    // SAFETY: whoever started it gave the address of a place, which lasts.
    let slot = unsafe { &*(slot as *const Slot) };
    name_thread();
    let settings = image::settings();
    // Without its CPU it still works, only less apart.
    let _ = CpuSet::one(settings.os_cpu).pin();
    slot.mailbox.work(settings.patience, |request| serve(request, settings.proc_device));
    sys::exit_thread();
}

fn name_thread() {
    let name = c"halfwink-os";
    // SAFETY: the kernel reads a short string.
    unsafe {
        sys::call3(libc::SYS_prctl, libc::PR_SET_NAME as u64, name.as_ptr() as u64, 0);
    }
}

/// Makes the call.
#[inline]
pub fn serve(request: &Request, proc_device: u64) -> i64 {
    if request.number == NOTHING {
        return 0;
    }
    if request.check != 0 && !opens_freely(request.check, &request.args, proc_device) {
        return DECLINED;
    }
    // SAFETY: the program asks for this call with these arguments, and waits for its end as it
    // would in the kernel; the kernel checks all addresses.
    unsafe { sys::call(i64::from(request.number), request.args) }
}
