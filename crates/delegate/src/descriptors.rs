//! Calls after which a descriptor is not what it was.

use std::ffi::{c_int, c_uint, c_ulong, c_void};

use halfwink_live_delegate::hub;

use crate::real::Real;

static CLOSE: Real = Real::new(c"close");
static DUP2: Real = Real::new(c"dup2");
static DUP3: Real = Real::new(c"dup3");
static CLOSE_RANGE: Real = Real::new(c"close_range");
static CLOSEFROM: Real = Real::new(c"closefrom");
static FCNTL: Real = Real::new(c"fcntl");
static FCNTL64: Real = Real::new(c"fcntl64");
static IOCTL: Real = Real::new(c"ioctl");
static FCLOSE: Real = Real::new(c"fclose");
static PCLOSE: Real = Real::new(c"pclose");
static CLOSEDIR: Real = Real::new(c"closedir");

pub(crate) const REALS: &[&Real] = &[
    &CLOSE,
    &DUP2,
    &DUP3,
    &CLOSE_RANGE,
    &CLOSEFROM,
    &FCNTL,
    &FCNTL64,
    &IOCTL,
    &FCLOSE,
    &PCLOSE,
    &CLOSEDIR,
];

/// Calls a function of libc by the type that its name has.
macro_rules! real {
    ($real:ident($($a:expr => $t:ty),*) -> $r:ty) => {{
        // SAFETY: libc's function of this name has this type.
        let real = unsafe {
            std::mem::transmute::<*mut (), unsafe extern "C-unwind" fn($($t),*) -> $r>($real.find())
        };
        // SAFETY: the program makes this call with these arguments.
        unsafe { real($($a),*) }
    }};
}

/// Before the change and after: in between, another thread may have asked. Before, so that no call
/// on the new file goes by what was known of the old one; after, for what was learnt in between.
fn changing<T>(fd: c_int, change: impl FnOnce() -> T) -> T {
    let forget = || {
        if let Some(process) = hub::process() {
            process.files.forget(fd);
        }
    };
    forget();
    let result = change();
    forget();
    result
}

fn changing_range<T>(first: c_uint, last: c_uint, change: impl FnOnce() -> T) -> T {
    let forget = || {
        if let Some(process) = hub::process() {
            process.files.forget_range(first, last);
        }
    };
    forget();
    let result = change();
    forget();
    result
}

#[no_mangle]
unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    changing(fd, || real!(CLOSE(fd => c_int) -> c_int))
}

#[no_mangle]
unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    changing(to, || real!(DUP2(from => c_int, to => c_int) -> c_int))
}

#[no_mangle]
unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    changing(to, || real!(DUP3(from => c_int, to => c_int, flags => c_int) -> c_int))
}

#[no_mangle]
unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    changing_range(
        first,
        last,
        || real!(CLOSE_RANGE(first => c_uint, last => c_uint, flags => c_int) -> c_int),
    )
}

#[no_mangle]
unsafe extern "C-unwind" fn closefrom(first: c_int) {
    changing_range(first.max(0) as c_uint, c_uint::MAX, || real!(CLOSEFROM(first => c_int) -> ()))
}

// The argument of these three may be absent; its register then holds what nobody reads.

#[no_mangle]
unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    if command == libc::F_SETFL {
        return changing(
            fd,
            || real!(FCNTL(fd => c_int, command => c_int, argument => c_ulong) -> c_int),
        );
    }
    real!(FCNTL(fd => c_int, command => c_int, argument => c_ulong) -> c_int)
}

#[no_mangle]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    if command == libc::F_SETFL {
        return changing(
            fd,
            || real!(FCNTL64(fd => c_int, command => c_int, argument => c_ulong) -> c_int),
        );
    }
    real!(FCNTL64(fd => c_int, command => c_int, argument => c_ulong) -> c_int)
}

#[no_mangle]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    if request == libc::FIONBIO {
        return changing(
            fd,
            || real!(IOCTL(fd => c_int, request => c_ulong, argument => c_ulong) -> c_int),
        );
    }
    real!(IOCTL(fd => c_int, request => c_ulong, argument => c_ulong) -> c_int)
}

// libc closes these inside of itself.

#[no_mangle]
unsafe extern "C-unwind" fn fclose(file: *mut libc::FILE) -> c_int {
    // SAFETY: the program says that it is an open stream.
    changing(unsafe { libc::fileno(file) }, || real!(FCLOSE(file => *mut libc::FILE) -> c_int))
}

#[no_mangle]
unsafe extern "C-unwind" fn pclose(file: *mut libc::FILE) -> c_int {
    // SAFETY: the program says that it is an open stream.
    changing(unsafe { libc::fileno(file) }, || real!(PCLOSE(file => *mut libc::FILE) -> c_int))
}

#[no_mangle]
unsafe extern "C-unwind" fn closedir(folder: *mut c_void) -> c_int {
    // SAFETY: the program says that it is an open folder.
    changing(
        unsafe { libc::dirfd(folder.cast()) },
        || real!(CLOSEDIR(folder => *mut c_void) -> c_int),
    )
}
