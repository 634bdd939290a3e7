//! The life of a thread that makes calls for another.

use super::files::{check, has_offset, is_told_not_to_wait, opens_freely};
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

/// Makes the call, if it does not block: a signal would not reach it here, and a thread that stops
/// workers would wait too.
#[inline]
pub fn serve(request: &Request, proc_device: u64) -> i64 {
    if request.number == NOTHING {
        return 0;
    }
    let [to, from, ..] = request.args;
    let goes = match request.check {
        check::NOTHING => true,
        check::SEEKS => has_offset(to),
        check::NO_WAIT => return without_waiting(request),
        check::COPY => has_offset(from) && (has_offset(to) || is_told_not_to_wait(to)),
        path => opens_freely(path, &request.args, proc_device),
    };
    if goes {
        make(request)
    } else {
        DECLINED
    }
}

fn make(request: &Request) -> i64 {
    // SAFETY: the program asks for this call with these arguments, and waits for its end as it
    // would in the kernel; the kernel checks all addresses.
    unsafe { sys::call(i64::from(request.number), request.args) }
}

/// Makes a call on a non-blocking pipe or socket in a way that does not block even if another
/// holder of it has changed that by now. Then the call goes back to its thread.
fn without_waiting(request: &Request) -> i64 {
    const TOLD: u64 = libc::MSG_DONTWAIT as u64;
    let [fd, at, count, flags, from, length] = request.args;
    let piece = [at, count];
    let one = piece.as_ptr() as u64;
    let number = i64::from(request.number);
    let answer = match number {
        // A single call takes more than all addresses for a bad one, and pieces for bad pieces.
        libc::SYS_read | libc::SYS_write if i64::try_from(count).is_err() => return DECLINED,
        libc::SYS_read => in_pieces(libc::SYS_preadv2, [fd, one, 1]),
        libc::SYS_write => in_pieces(libc::SYS_pwritev2, [fd, one, 1]),
        libc::SYS_readv => in_pieces(libc::SYS_preadv2, [fd, at, count]),
        libc::SYS_writev => in_pieces(libc::SYS_pwritev2, [fd, at, count]),
        libc::SYS_recvfrom | libc::SYS_sendto => {
            make(&Request { args: [fd, at, count, flags | TOLD, from, length], ..*request })
        }
        libc::SYS_recvmsg | libc::SYS_sendmsg => {
            make(&Request { args: [fd, at, count | TOLD, 0, 0, 0], ..*request })
        }
        _ => return DECLINED,
    };
    let is_stream =
        matches!(number, libc::SYS_read | libc::SYS_write | libc::SYS_readv | libc::SYS_writev);
    match -answer as i32 {
        libc::EAGAIN if !is_told_not_to_wait(fd) => DECLINED,
        // Kernels that cannot tell a single call: pipes before 6.4, all before 4.14.
        libc::EOPNOTSUPP | libc::ENOSYS if is_stream => {
            if is_told_not_to_wait(fd) {
                make(request)
            } else {
                DECLINED
            }
        }
        _ => answer,
    }
}

/// `preadv2` and its like where the descriptor stands, told not to wait.
fn in_pieces(number: i64, [fd, pieces, count]: [u64; 3]) -> i64 {
    const HERE: u64 = u64::MAX;
    let args = [fd, pieces, count, HERE, HERE, libc::RWF_NOWAIT as u64];
    // SAFETY: as for the program's own call.
    unsafe { sys::call(number, args) }
}
