//! Calls that change what a thread or process is: who it is, what it may do, which files and memory
//! it shares. A worker is a clone of the thread that it serves, so it goes before the change, and
//! the next one is a clone of what the thread is then.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use halfwink_live_delegate::hub;

use crate::real::Real;

/// `name(arguments) -> type;` by which libc's function is called without any worker.
macro_rules! without_workers {
    ($($real:ident $name:ident($($p:ident: $t:ty),*) -> $r:ty;)*) => {
        $(
            static $real: Real = Real::named(concat!(stringify!($name), "\0"));

            #[no_mangle]
            unsafe extern "C-unwind" fn $name($($p: $t),*) -> $r {
                paused(|| {
                    // SAFETY: libc's function of this name has this type.
                    let real = unsafe {
                        std::mem::transmute::<*mut (), unsafe extern "C-unwind" fn($($t),*) -> $r>(
                            $real.find(),
                        )
                    };
                    // SAFETY: the program makes this call with these arguments.
                    unsafe { real($($p),*) }
                })
            }
        )*
        pub(crate) const REALS: &[&Real] = &[&PRCTL, &SYSCALL, &CLONE, $(&$real),*];
    };
}

without_workers! {
    SETUID setuid(id: c_uint) -> c_int;
    SETGID setgid(id: c_uint) -> c_int;
    SETEUID seteuid(id: c_uint) -> c_int;
    SETEGID setegid(id: c_uint) -> c_int;
    SETREUID setreuid(real: c_uint, effective: c_uint) -> c_int;
    SETREGID setregid(real: c_uint, effective: c_uint) -> c_int;
    SETRESUID setresuid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    SETRESGID setresgid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    SETFSUID setfsuid(id: c_uint) -> c_int;
    SETFSGID setfsgid(id: c_uint) -> c_int;
    SETGROUPS setgroups(n: usize, groups: *const c_uint) -> c_int;
    INITGROUPS initgroups(user: *const c_char, group: c_uint) -> c_int;
    CAPSET capset(header: *mut c_void, data: *const c_void) -> c_int;
    UNSHARE unshare(flags: c_int) -> c_int;
    SETNS setns(fd: c_int, kind: c_int) -> c_int;
}

fn paused<T>(change: impl FnOnce() -> T) -> T {
    let Some(process) = hub::process() else { return change() };
    process.pause();
    let result = change();
    process.resume();
    result
}

/// Stops moving calls for ever, since from now on a filter may kill a thread that makes an
/// unexpected call.
fn confined<T>(change: impl FnOnce() -> T) -> T {
    hub::confine();
    paused(change)
}

static PRCTL: Real = Real::new(c"prctl");
static SYSCALL: Real = Real::new(c"syscall");
static CLONE: Real = Real::new(c"clone");

// Arguments of these may be absent; their registers then hold what nobody reads.

#[no_mangle]
unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    type Prctl = unsafe extern "C-unwind" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
    // SAFETY: libc's function of this name has this type, and the program makes this call.
    let change =
        || unsafe { std::mem::transmute::<*mut (), Prctl>(PRCTL.find())(option, a, b, c, d) };
    match option {
        libc::PR_SET_SECCOMP => confined(change),
        libc::PR_CAPBSET_DROP
        | libc::PR_SET_SECUREBITS
        | libc::PR_CAP_AMBIENT
        | libc::PR_SET_NO_NEW_PRIVS => paused(change),
        _ => change(),
    }
}

#[no_mangle]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
    e: c_ulong,
    f: c_ulong,
) -> c_long {
    type Syscall = unsafe extern "C-unwind" fn(
        c_long,
        c_ulong,
        c_ulong,
        c_ulong,
        c_ulong,
        c_ulong,
        c_ulong,
    ) -> c_long;
    // SAFETY: libc's function of this name has this type, and the program makes this call.
    let change = || unsafe {
        std::mem::transmute::<*mut (), Syscall>(SYSCALL.find())(number, a, b, c, d, e, f)
    };
    match number {
        libc::SYS_seccomp => confined(change),
        libc::SYS_clone if leaves_memory_shared(a) => beside_us(change),
        libc::SYS_clone3 if leaves_memory_shared(flags_behind(a)) => beside_us(change),
        libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setreuid
        | libc::SYS_setregid
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_setfsuid
        | libc::SYS_setfsgid
        | libc::SYS_setgroups
        | libc::SYS_capset
        | libc::SYS_unshare
        | libc::SYS_setns
        | libc::SYS_landlock_restrict_self => paused(change),
        libc::SYS_close | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_close_range => {
            let result = change();
            if let Some(process) = hub::process() {
                process.files.forget_range(0, c_uint::MAX);
            }
            result
        }
        _ => change(),
    }
}

/// A process that runs in this one's memory, which would take its own files for this one's.
fn leaves_memory_shared(flags: c_ulong) -> bool {
    let flags = flags as c_int;
    flags & libc::CLONE_VM != 0 && flags & libc::CLONE_THREAD == 0
}

/// The flags of `clone3` stand first in what its argument names; none if that is not there, as the
/// kernel will say.
fn flags_behind(arguments: c_ulong) -> c_ulong {
    let mut flags = [0];
    halfwink_live::sys::copy_memory(arguments, &mut flags).map_or(0, |()| flags[0])
}

/// Makes a process that runs in this one's memory. It has this thread's variables too, so neither
/// asks a policy any more: they would ask the same one at once.
fn beside_us<T>(change: impl FnOnce() -> T) -> T {
    hub::stand_aside(true);
    confined(change)
}

#[no_mangle]
unsafe extern "C-unwind" fn clone(
    run: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut c_void,
    tls: *mut c_void,
    child: *mut c_void,
) -> c_int {
    type Clone = unsafe extern "C-unwind" fn(
        *mut c_void,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    // SAFETY: libc's function of this name has this type, and the program makes this call.
    let change = || unsafe {
        std::mem::transmute::<*mut (), Clone>(CLONE.find())(
            run, stack, flags, argument, parent, tls, child,
        )
    };
    if leaves_memory_shared(flags as c_ulong) {
        beside_us(change)
    } else {
        change()
    }
}
