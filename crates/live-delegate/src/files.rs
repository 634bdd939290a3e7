//! What a descriptor is, so that no call moves that might wait for somebody.
//!
//! The answer is kept per process until the descriptor is closed or its flags change, as far as the
//! wrappers see it. What they cannot see (a close inside libc, another process that changes the
//! flags of a shared pipe) the worker does: it makes no call that could wait ([`check`]).

use core::sync::atomic::{AtomicU8, Ordering};

use super::calls::{Refusal, Rule};
use halfwink_live::sys;

/// Descriptors whose nature is remembered; others are asked about each time.
const FILES: usize = 4096;

/// Blocking behaviour of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Nature {
    /// A regular file, a folder, `/dev/null` and the like: never blocks.
    Free = 1,
    /// A pipe or socket that has been told not to wait.
    Impatient = 2,
    /// Anything that may wait.
    Patient = 3,
    /// The file answers by thread.
    Private = 4,
    /// The descriptor does not exist.
    Missing = 5,
}

/// Check by which the worker makes sure that the call does not block.
pub type Check = u32;

/// Values of a [`Check`]; all others are the number of an argument plus 1, which is a path that
/// must be looked at before it is opened.
pub mod check {
    /// Checks nothing.
    pub const NOTHING: u32 = 0;
    /// The descriptor must have an offset: what does not may wait, and has taken its place.
    pub const SEEKS: u32 = 16;
    /// The call itself must be told not to wait.
    pub const NO_WAIT: u32 = 17;
    /// Argument 1 must have an offset, and argument 0 too unless it has been told not to wait.
    pub const COPY: u32 = 18;
}

/// Natures by descriptor. All zeros knows nothing.
#[repr(C)]
#[derive(Debug)]
pub struct Files {
    natures: [AtomicU8; FILES],
}

impl Files {
    /// Forgets what is known of a descriptor.
    #[inline]
    pub fn forget(&self, fd: i32) {
        if let Some(nature) = usize::try_from(fd).ok().and_then(|fd| self.natures.get(fd)) {
            nature.store(0, Ordering::Relaxed);
        }
    }

    /// Forgets all from `first` to `last`.
    pub fn forget_range(&self, first: u32, last: u32) {
        for fd in first..=last.min(FILES as u32 - 1) {
            self.forget(fd as i32);
        }
    }

    /// Forgets what is known of the descriptors that a call by this rule uses.
    #[cold]
    pub fn forget_those_of(&self, rule: Rule, args: &[u64; 6]) {
        match rule {
            Rule::Stream | Rule::Socket { .. } | Rule::Descriptor => self.forget(args[0] as i32),
            Rule::Copy => args[..2].iter().for_each(|fd| self.forget(*fd as i32)),
            _ => {}
        }
    }

    /// Returns the nature of a descriptor. Asks the kernel if it is not cached.
    #[inline]
    pub fn nature(&self, fd: i32, proc_device: u64) -> Nature {
        let Some(kept) = usize::try_from(fd).ok().and_then(|fd| self.natures.get(fd)) else {
            return ask(fd, proc_device);
        };
        match kept.load(Ordering::Relaxed) {
            1 => Nature::Free,
            2 => Nature::Impatient,
            3 => Nature::Patient,
            4 => Nature::Private,
            _ => {
                let nature = ask(fd, proc_device);
                // One that does not exist may be made at any time, by calls that nobody tells of.
                if nature != Nature::Missing {
                    kept.store(nature as u8, Ordering::Relaxed);
                }
                nature
            }
        }
    }

    /// Decides whether a call may move, by its rule and arguments; returns the check that the
    /// worker makes first.
    ///
    /// # Safety
    ///
    /// A time behind a pointer argument must be readable, as it must be for the call itself.
    #[inline]
    pub unsafe fn may_move(
        &self,
        rule: Rule,
        args: &[u64; 6],
        proc_device: u64,
    ) -> Result<Check, Refusal> {
        let nature = |argument: usize| self.nature(args[argument] as i32, proc_device);
        match rule {
            Rule::Free => Ok(0),
            Rule::Open { path } => Ok(u32::from(path) + 1),
            Rule::Descriptor => allow(nature(0), check::NOTHING),
            Rule::Stream => match nature(0) {
                Nature::Free => Ok(check::SEEKS),
                other => allow(other, check::NO_WAIT),
            },
            Rule::Socket { flags } if args[usize::from(flags)] as i32 & libc::MSG_DONTWAIT != 0 => {
                match nature(0) {
                    Nature::Patient => Ok(check::NOTHING),
                    other => allow(other, check::NOTHING),
                }
            }
            Rule::Socket { .. } => allow(nature(0), check::NO_WAIT),
            Rule::Copy => {
                allow(nature(0), check::COPY)?;
                if nature(1) == Nature::Free {
                    Ok(check::COPY)
                } else {
                    Err(Refusal::MayBlock)
                }
            }
            Rule::Timeout { argument } => {
                let waits = args[usize::from(argument)] as i32 != 0;
                if waits {
                    Err(Refusal::Timeout)
                } else {
                    Ok(0)
                }
            }
            Rule::TimeoutBehind { argument } => {
                let time = args[usize::from(argument)] as *const [i64; 2];
                // SAFETY: by the caller; null means to wait for ever.
                let waits = time.is_null() || unsafe { time.read_unaligned() } != [0, 0];
                if waits {
                    Err(Refusal::Timeout)
                } else {
                    Ok(0)
                }
            }
        }
    }
}

#[inline]
fn allow(nature: Nature, check: Check) -> Result<Check, Refusal> {
    match nature {
        Nature::Free | Nature::Impatient => Ok(check),
        Nature::Patient => Err(Refusal::MayBlock),
        Nature::Private | Nature::Missing => Err(Refusal::Private),
    }
}

/// Device of `/proc`, whose files answer by thread; 0 if there is none.
#[must_use]
pub fn proc_device() -> u64 {
    stat_path(libc::AT_FDCWD as u64, c"/proc".as_ptr() as u64, 0).map_or(0, |stat| stat.st_dev)
}

#[cold]
fn ask(fd: i32, proc_device: u64) -> Nature {
    // SAFETY: all zeros is a `stat`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes one `stat`.
    if unsafe { sys::call3(libc::SYS_fstat, fd as u64, &raw mut stat as u64, 0) } != 0 {
        return Nature::Missing;
    }
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFDIR if stat.st_dev == proc_device => Nature::Private,
        libc::S_IFREG | libc::S_IFDIR => Nature::Free,
        // Memory devices: null, zero, full, urandom.
        libc::S_IFCHR if is_memory(stat.st_rdev) => Nature::Free,
        libc::S_IFCHR | libc::S_IFBLK => Nature::Patient,
        libc::S_IFIFO | libc::S_IFSOCK => {
            if is_told_not_to_wait(fd as u64) {
                Nature::Impatient
            } else {
                Nature::Patient
            }
        }
        // Timers, signals, events, epoll: some of them look at who asks.
        _ => Nature::Private,
    }
}

/// Returns whether a descriptor is non-blocking.
pub(super) fn is_told_not_to_wait(fd: u64) -> bool {
    // SAFETY: plain numbers.
    let flags = unsafe { sys::call3(libc::SYS_fcntl, fd, libc::F_GETFL as u64, 0) };
    flags >= 0 && flags & i64::from(libc::O_NONBLOCK) != 0
}

/// Returns whether a descriptor has an offset, as files, folders and memory devices do, and pipes,
/// sockets and terminals do not.
pub(super) fn has_offset(fd: u64) -> bool {
    // SAFETY: plain numbers.
    (unsafe { sys::call3(libc::SYS_lseek, fd, 0, libc::SEEK_CUR as u64) }) >= 0
}

fn is_memory(device: u64) -> bool {
    libc::major(device) == 1 && matches!(libc::minor(device), 3 | 5 | 7 | 9)
}

fn stat_path(folder: u64, path: u64, flags: i32) -> Result<libc::stat, i64> {
    // SAFETY: all zeros is a `stat`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let args = [folder, path, &raw mut stat as u64, flags as u64, 0, 0];
    // SAFETY: the kernel writes one `stat`, and checks the path's address itself.
    let answer = unsafe { sys::call(libc::SYS_newfstatat, args) };
    if answer == 0 {
        Ok(stat)
    } else {
        Err(answer)
    }
}

/// Returns whether opening this path does not block: it is not a FIFO, a device, or in `/proc`. A
/// path that cannot be inspected cannot be opened either, or will be created as a regular file.
pub(super) fn opens_freely(check: Check, args: &[u64; 6], proc_device: u64) -> bool {
    let path = check as usize - 1;
    let folder = if path == 0 { libc::AT_FDCWD as u64 } else { args[path - 1] };
    match stat_path(folder, args[path], 0) {
        Ok(stat) => {
            let kind = stat.st_mode & libc::S_IFMT;
            (kind == libc::S_IFREG || kind == libc::S_IFDIR) && stat.st_dev != proc_device
        }
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::pipe;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    fn nature(fd: &impl AsRawFd) -> Nature {
        ask(fd.as_raw_fd(), proc_device())
    }

    #[test]
    fn descriptor_tells_how_long_its_calls_may_wait() {
        assert_eq!(nature(&File::open("/").unwrap()), Nature::Free);
        assert_eq!(nature(&File::open(std::env::current_exe().unwrap()).unwrap()), Nature::Free);
        assert_eq!(nature(&File::open("/dev/zero").unwrap()), Nature::Free);
        assert_eq!(nature(&File::open("/proc/self/stat").unwrap()), Nature::Private);
        assert_eq!(nature(&pipe().unwrap().0), Nature::Patient);
        let (socket, _other) = UnixStream::pair().unwrap();
        assert_eq!(nature(&socket), Nature::Patient);
        socket.set_nonblocking(true).unwrap();
        assert_eq!(nature(&socket), Nature::Impatient);
        assert_eq!(ask(-1, 0), Nature::Missing);
    }

    #[test]
    fn rule_lets_only_safe_descriptors_move() {
        // SAFETY: all zeros knows nothing.
        let files: Files = unsafe { core::mem::zeroed() };
        let proc = proc_device();
        let (socket, _other) = UnixStream::pair().unwrap();
        let fd = socket.as_raw_fd() as u64;
        let may = |rule, args| {
            // SAFETY: no rule below looks behind an invalid pointer.
            unsafe { files.may_move(rule, &args, proc) }
        };
        let blocks = Err(Refusal::MayBlock);
        let recv = Rule::Socket { flags: 3 };
        assert_eq!(may(Rule::Descriptor, [fd, 0, 0, 0, 0, 0]), blocks);
        assert_eq!(may(Rule::Stream, [fd, 0, 0, 0, 0, 0]), blocks);
        assert_eq!(may(recv, [fd, 0, 0, 0, 0, 0]), blocks);
        assert_eq!(may(recv, [fd, 0, 0, libc::MSG_DONTWAIT as u64, 0, 0]), Ok(0));
        // The change is not seen before somebody says so.
        socket.set_nonblocking(true).unwrap();
        assert_eq!(may(Rule::Stream, [fd, 0, 0, 0, 0, 0]), blocks);
        files.forget_those_of(Rule::Stream, &[fd, 0, 0, 0, 0, 0]);
        assert_eq!(may(Rule::Descriptor, [fd, 0, 0, 0, 0, 0]), Ok(0));
        assert_eq!(may(Rule::Stream, [fd, 0, 0, 0, 0, 0]), Ok(check::NO_WAIT));
        assert_eq!(may(recv, [fd, 0, 0, 0, 0, 0]), Ok(check::NO_WAIT));
        assert_eq!(may(Rule::Copy, [fd, fd, 0, 0, 0, 0]), blocks);
        let file = File::open("/dev/zero").unwrap();
        let from = file.as_raw_fd() as u64;
        assert_eq!(may(Rule::Stream, [from, 0, 0, 0, 0, 0]), Ok(check::SEEKS));
        assert_eq!(may(Rule::Copy, [fd, from, 0, 0, 0, 0]), Ok(check::COPY));
        let poll = Rule::Timeout { argument: 2 };
        assert_eq!(may(poll, [0, 0, 0, 0, 0, 0]), Ok(0));
        assert_eq!(may(poll, [0, 0, u64::MAX, 0, 0, 0]), Err(Refusal::Timeout));
        let select = Rule::TimeoutBehind { argument: 4 };
        let (none, some) = ([0i64, 0], [0i64, 5]);
        assert_eq!(may(select, [0, 0, 0, 0, none.as_ptr() as u64, 0]), Ok(0));
        let waits = Err(Refusal::Timeout);
        assert_eq!(may(select, [0, 0, 0, 0, some.as_ptr() as u64, 0]), waits);
        assert_eq!(may(select, [0, 0, 0, 0, 0, 0]), waits);
    }

    #[test]
    fn what_may_be_opened() {
        let opens = |path: &core::ffi::CStr| {
            opens_freely(1, &[path.as_ptr() as u64, 0, 0, 0, 0, 0], proc_device())
        };
        assert!(opens(c"/") && opens(c"/no/such/file"));
        assert!(!opens(c"/dev/tty") && !opens(c"/proc/self/stat"));
    }
}
