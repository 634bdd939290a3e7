//! The calls that can be delegated, by all the names that libc has for them.

use std::ffi::{c_char, c_int, c_uint, c_void};

use halfwink_live::sys;
use halfwink_live_delegate::calls::{Index, CALLS};
use halfwink_live_delegate::hub::{self, Way};

use crate::real::{self, Real};
use crate::result;

/// Types that fit into a register.
trait Word {
    fn word(self) -> u64;
}

macro_rules! words {
    ($($t:ty),*) => { $(impl Word for $t {
        #[inline]
        fn word(self) -> u64 { self as u64 }
    })* };
}
words!(c_int, c_uint, i64, usize);

impl<T> Word for *const T {
    #[inline]
    fn word(self) -> u64 {
        self as u64
    }
}

impl<T> Word for *mut T {
    #[inline]
    fn word(self) -> u64 {
        self as u64
    }
}

macro_rules! args {
    () => { [0; 6] };
    ($($a:expr),+) => {{
        let mut args = [0u64; 6];
        let given = [$(Word::word($a)),+];
        args[..given.len()].copy_from_slice(&given);
        args
    }};
}

/// `name(arguments) -> type, index, (arguments of the kernel), condition to move at all;`
macro_rules! wrap {
    ($($name:ident($($p:ident: $t:ty),*) -> $r:ty, $index:ident, ($($a:expr),*), $if:expr;)*) => {
        $(
            #[allow(missing_docs, clippy::missing_safety_doc)]
            #[no_mangle]
            pub unsafe extern "C-unwind" fn $name($($p: $t),*) -> $r {
                let args = args!($($a),*);
                let (mut begun, mut in_place) = (0, false);
                if $if && !$name::REAL.is_replaced() {
                    in_place = real::has_one_thread();
                    if const { Index::$index.cancels() } && !in_place {
                        // As libc's function would, even if the call never reaches it.
                        // SAFETY: it may unwind, and nothing here minds.
                        unsafe { pthread_testcancel() };
                    }
                    // SAFETY: the program makes this call with these arguments.
                    match unsafe { hub::call(Index::$index, &args) } {
                        Way::There(answer) => return result(answer) as $r,
                        Way::Here(when) => begun = when,
                    }
                }
                let address = $name::REAL.get();
                // Nobody can cancel this thread, so libc's function would do just this; or the
                // library has not begun yet.
                if in_place || address.is_null() {
                    let number = i64::from(CALLS[Index::$index as usize].number);
                    // SAFETY: see above.
                    let answer = unsafe { sys::call(number, args) };
                    hub::stayed(Index::$index, &args, begun);
                    return result(answer) as $r;
                }
                // SAFETY: libc's function of this name has this type; it may unwind, when its
                // thread is cancelled, and nothing here minds.
                let real = unsafe {
                    std::mem::transmute::<*mut (), unsafe extern "C-unwind" fn($($t),*) -> $r>(
                        address,
                    )
                };
                // SAFETY: see above.
                let answer = unsafe { real($($p),*) };
                hub::stayed(Index::$index, &args, begun);
                answer
            }
        )*
        $(static_mod!($name);)*
        /// libc's functions of these names.
        pub(crate) const REALS: &[&Real] = &[$(&$name::REAL),*];
    };
}

extern "C-unwind" {
    fn pthread_testcancel();
}

macro_rules! static_mod {
    ($name:ident) => {
        mod $name {
            use super::Real;
            pub(super) static REAL: Real = Real::named(concat!(stringify!($name), "\0"));
        }
    };
}

type Buf = *mut c_void;
type Bytes = *const c_void;
type Path = *const c_char;
type Pieces = *const libc::iovec;
type Stat = *mut libc::stat;

wrap! {
    read(fd: c_int, buf: Buf, n: usize) -> isize, Read, (fd, buf, n), true;
    write(fd: c_int, buf: Bytes, n: usize) -> isize, Write, (fd, buf, n), true;
    pread(fd: c_int, buf: Buf, n: usize, at: i64) -> isize, Pread, (fd, buf, n, at), true;
    pread64(fd: c_int, buf: Buf, n: usize, at: i64) -> isize, Pread, (fd, buf, n, at), true;
    pwrite(fd: c_int, buf: Bytes, n: usize, at: i64) -> isize, Pwrite, (fd, buf, n, at), true;
    pwrite64(fd: c_int, buf: Bytes, n: usize, at: i64) -> isize, Pwrite, (fd, buf, n, at), true;
    readv(fd: c_int, v: Pieces, n: c_int) -> isize, Readv, (fd, v, n), true;
    writev(fd: c_int, v: Pieces, n: c_int) -> isize, Writev, (fd, v, n), true;
    preadv(fd: c_int, v: Pieces, n: c_int, at: i64) -> isize, Preadv, (fd, v, n, at), true;
    preadv64(fd: c_int, v: Pieces, n: c_int, at: i64) -> isize, Preadv, (fd, v, n, at), true;
    pwritev(fd: c_int, v: Pieces, n: c_int, at: i64) -> isize, Pwritev, (fd, v, n, at), true;
    pwritev64(fd: c_int, v: Pieces, n: c_int, at: i64) -> isize, Pwritev, (fd, v, n, at), true;
    recv(fd: c_int, buf: Buf, n: usize, flags: c_int) -> isize, Recv, (fd, buf, n, flags), true;
    send(fd: c_int, buf: Bytes, n: usize, flags: c_int) -> isize, Send, (fd, buf, n, flags), true;
    recvfrom(fd: c_int, buf: Buf, n: usize, flags: c_int, from: *mut libc::sockaddr,
        len: *mut libc::socklen_t) -> isize, Recvfrom, (fd, buf, n, flags, from, len), true;
    sendto(fd: c_int, buf: Bytes, n: usize, flags: c_int, to: *const libc::sockaddr,
        len: libc::socklen_t) -> isize, Sendto, (fd, buf, n, flags, to, len), true;
    recvmsg(fd: c_int, m: *mut libc::msghdr, flags: c_int) -> isize, Recvmsg,
        (fd, m, flags), true;
    sendmsg(fd: c_int, m: *const libc::msghdr, flags: c_int) -> isize, Sendmsg,
        (fd, m, flags), true;
    sendfile(to: c_int, from: c_int, at: *mut i64, n: usize) -> isize, Sendfile,
        (to, from, at, n), true;
    sendfile64(to: c_int, from: c_int, at: *mut i64, n: usize) -> isize, Sendfile,
        (to, from, at, n), true;
    fsync(fd: c_int) -> c_int, Fsync, (fd), true;
    fdatasync(fd: c_int) -> c_int, Fdatasync, (fd), true;
    ftruncate(fd: c_int, n: i64) -> c_int, Ftruncate, (fd, n), true;
    ftruncate64(fd: c_int, n: i64) -> c_int, Ftruncate, (fd, n), true;
    open(path: Path, flags: c_int, mode: c_uint) -> c_int, Open, (path, flags, mode), true;
    open64(path: Path, flags: c_int, mode: c_uint) -> c_int, Open, (path, flags, mode), true;
    openat(at: c_int, path: Path, flags: c_int, mode: c_uint) -> c_int, Openat,
        (at, path, flags, mode), true;
    openat64(at: c_int, path: Path, flags: c_int, mode: c_uint) -> c_int, Openat,
        (at, path, flags, mode), true;
    __open_2(path: Path, flags: c_int) -> c_int, Open, (path, flags), !makes(flags);
    __open64_2(path: Path, flags: c_int) -> c_int, Open, (path, flags), !makes(flags);
    __openat_2(at: c_int, path: Path, flags: c_int) -> c_int, Openat,
        (at, path, flags), !makes(flags);
    __openat64_2(at: c_int, path: Path, flags: c_int) -> c_int, Openat,
        (at, path, flags), !makes(flags);
    stat(path: Path, to: Stat) -> c_int, Stat, (path, to), true;
    stat64(path: Path, to: Stat) -> c_int, Stat, (path, to), true;
    lstat(path: Path, to: Stat) -> c_int, Lstat, (path, to), true;
    lstat64(path: Path, to: Stat) -> c_int, Lstat, (path, to), true;
    fstat(fd: c_int, to: Stat) -> c_int, Fstat, (fd, to), true;
    fstat64(fd: c_int, to: Stat) -> c_int, Fstat, (fd, to), true;
    fstatat(at: c_int, path: Path, to: Stat, flags: c_int) -> c_int, Fstatat,
        (at, path, to, flags), true;
    fstatat64(at: c_int, path: Path, to: Stat, flags: c_int) -> c_int, Fstatat,
        (at, path, to, flags), true;
    __xstat(version: c_int, path: Path, to: Stat) -> c_int, Stat, (path, to), version == 1;
    __xstat64(version: c_int, path: Path, to: Stat) -> c_int, Stat, (path, to), version == 1;
    __lxstat(version: c_int, path: Path, to: Stat) -> c_int, Lstat, (path, to), version == 1;
    __lxstat64(version: c_int, path: Path, to: Stat) -> c_int, Lstat, (path, to), version == 1;
    __fxstat(version: c_int, fd: c_int, to: Stat) -> c_int, Fstat, (fd, to), version == 1;
    __fxstat64(version: c_int, fd: c_int, to: Stat) -> c_int, Fstat, (fd, to), version == 1;
    statx(at: c_int, path: Path, flags: c_int, mask: c_uint, to: Buf) -> c_int, Statx,
        (at, path, flags, mask, to), true;
    access(path: Path, mode: c_int) -> c_int, Access, (path, mode), true;
    readlink(path: Path, buf: *mut c_char, n: usize) -> isize, Readlink, (path, buf, n), true;
    unlink(path: Path) -> c_int, Unlink, (path), true;
    rename(from: Path, to: Path) -> c_int, Rename, (from, to), true;
    poll(fds: *mut libc::pollfd, n: u64, ms: c_int) -> c_int, Poll, (fds, n as usize, ms), true;
    epoll_wait(fd: c_int, events: *mut libc::epoll_event, n: c_int, ms: c_int) -> c_int,
        EpollWait, (fd, events, n, ms), true;
    select(n: c_int, r: *mut libc::fd_set, w: *mut libc::fd_set, e: *mut libc::fd_set,
        time: *mut libc::timeval) -> c_int, Select, (n, r, w, e, time), true;
    __read_chk(fd: c_int, buf: Buf, n: usize, room: usize) -> isize, Read,
        (fd, buf, n), n <= room;
    __pread_chk(fd: c_int, buf: Buf, n: usize, at: i64, room: usize) -> isize, Pread,
        (fd, buf, n, at), n <= room;
    __pread64_chk(fd: c_int, buf: Buf, n: usize, at: i64, room: usize) -> isize, Pread,
        (fd, buf, n, at), n <= room;
    __recv_chk(fd: c_int, buf: Buf, n: usize, room: usize, flags: c_int) -> isize, Recv,
        (fd, buf, n, flags), n <= room;
    __recvfrom_chk(fd: c_int, buf: Buf, n: usize, room: usize, flags: c_int,
        from: *mut libc::sockaddr, len: *mut libc::socklen_t) -> isize, Recvfrom,
        (fd, buf, n, flags, from, len), n <= room;
    __readlink_chk(path: Path, buf: *mut c_char, n: usize, room: usize) -> isize, Readlink,
        (path, buf, n), n <= room;
    __poll_chk(fds: *mut libc::pollfd, n: u64, ms: c_int, room: usize) -> c_int, Poll,
        (fds, n as usize, ms), n as usize * size_of::<libc::pollfd>() <= room;
}

/// Returns whether the flags need a mode, which the checked forms do not take: libc aborts such a
/// program.
fn makes(flags: c_int) -> bool {
    flags & (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) != 0
}
