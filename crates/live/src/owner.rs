//! Who owns a place in memory that several processes share: a number that tells a process from the
//! next one of the same pid, and from that of another PID namespace.
//!
//! A descriptor (pidfd) would do so too, but the memory outlives every process that could hold one,
//! and a program's table of descriptors is its own.

use super::sys;

/// Bits of a pid: the kernel gives none from 2^22 on (`PID_MAX_LIMIT`, include/linux/threads.h).
const PID_BITS: u32 = 22;
/// Bits of each half of a mark; 0 stands for what is not known.
const MARK_BITS: u32 = 10;

/// A thread of a process, in one word that can be exchanged atomically; 0 is no thread.
///
/// It holds the pid, the tid, and a mark: of the namespaces of the process, and of its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub u64);

impl Owner {
    /// A thread of the calling process, whose [`mark`] this is.
    #[must_use]
    pub fn new(pid: u32, tid: u32, mark: u32) -> Owner {
        let low = |n: u32| u64::from(n) & ((1 << PID_BITS) - 1);
        Owner(low(pid) << (64 - PID_BITS) | low(tid) << (2 * MARK_BITS) | u64::from(mark))
    }

    /// Returns the number of the process.
    #[must_use]
    pub fn pid(self) -> u32 {
        (self.0 >> (64 - PID_BITS)) as u32
    }

    /// Returns the number of the thread.
    #[must_use]
    pub fn tid(self) -> u32 {
        (self.0 >> (2 * MARK_BITS)) as u32 & ((1 << PID_BITS) - 1)
    }

    /// Returns whether its process has certainly died, as seen by the process with this [`mark`]:
    /// those of other namespaces cannot be judged.
    #[must_use]
    pub fn is_dead(self, ours: u32) -> bool {
        let theirs = self.0 as u32 & ((1 << (2 * MARK_BITS)) - 1);
        if theirs >> MARK_BITS != ours >> MARK_BITS {
            return false;
        }
        let unit = (1 << MARK_BITS) - 1;
        let born = theirs & unit;
        let now = || begun(self.pid()).map_or(0, shorten);
        !sys::exists(self.pid()) || born != 0 && !matches!(now(), n if n == 0 || n == born)
    }
}

/// The mark of the calling process. It stays through an exec, and a fork has another.
#[must_use]
pub fn mark() -> u32 {
    let space = inode(c"/proc/self/ns/pid").map_or(0, |pids| {
        // The start is told by the clock of the namespace of times.
        let times = inode(c"/proc/self/ns/time").unwrap_or(0);
        shorten(pids ^ times.rotate_left(32))
    });
    space << MARK_BITS | begun(sys::getpid()).map_or(0, shorten)
}

/// Ten bits of a number, not 0.
fn shorten(n: u64) -> u32 {
    // Fibonacci hashing: the upper bits of a product with 2^64 over the golden ratio (Knuth, The
    // Art of Computer Programming 3, Sec 6.4).
    let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MARK_BITS);
    (hash as u32).max(1)
}

fn inode(path: &core::ffi::CStr) -> Option<u64> {
    // SAFETY: all zeros is a `stat`.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let args = [libc::AT_FDCWD as u64, path.as_ptr() as u64, &raw mut stat as u64, 0, 0, 0];
    // SAFETY: the kernel reads the path and writes one `stat`.
    (unsafe { sys::call(libc::SYS_newfstatat, args) } == 0).then_some(stat.st_ino)
}

/// Returns the start time of a process, in clock ticks since boot (proc(5), field 22 of `stat`);
/// `None` if `/proc` does not show it.
fn begun(pid: u32) -> Option<u64> {
    let mut path = *b"/proc/0000000000/stat\0";
    let (mut at, mut rest) = (16, pid);
    while rest > 0 {
        at -= 1;
        path[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    path.copy_within(at..16, 6);
    let digits = 16 - at;
    path[6 + digits..12 + digits].copy_from_slice(b"/stat\0");
    // Its first 22 fields are far shorter: a name of at most 64 bytes and numbers.
    let mut text = [0u8; 1024];
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    // SAFETY: the path ends with a zero.
    let fd = unsafe {
        sys::call(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags, 0, 0, 0])
    };
    if sys::is_error(fd) {
        return None;
    }
    let args = [fd as u64, text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0];
    // SAFETY: the kernel writes at most the buffer's length.
    let length = unsafe { sys::call(libc::SYS_read, args) };
    // SAFETY: the descriptor is ours.
    unsafe { sys::call3(libc::SYS_close, fd as u64, 0, 0) };
    start_of(text.get(..usize::try_from(length).ok()?)?)
}

/// The start in a line of `/proc/PID/stat`. The name may hold blanks and brackets.
fn start_of(stat: &[u8]) -> Option<u64> {
    let name = stat.iter().rposition(|b| *b == b')')?;
    // Behind the name, field 3 comes first.
    let field = stat[name + 1..].split(|b| *b == b' ').filter(|f| !f.is_empty()).nth(19)?;
    core::str::from_utf8(field).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_of_process_is_parsed() {
        let line = b"7 (a) b) c) S 1 7 7 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 123456 1000 2";
        assert_eq!(start_of(line), Some(123_456));
        assert_eq!(start_of(b"7 (a) S 1"), None);
        assert_eq!(start_of(b""), None);
        let ours = begun(sys::getpid()).expect("/proc is there");
        assert!(begun(1).expect("/proc is there") <= ours);
        assert_eq!(begun(0x3f_fffe), None);
    }

    #[test]
    fn owners_are_told_apart() {
        let (pid, ours) = (sys::getpid(), mark());
        let owner = Owner::new(pid, 4_194_303, ours);
        assert_eq!((owner.pid(), owner.tid()), (pid, 4_194_303));
        assert!(!owner.is_dead(ours));
        assert!(Owner::new(0x3f_fffe, 1, ours).is_dead(ours));
        // The same number, another process: it began at another time.
        let unit = (1 << MARK_BITS) - 1;
        let reborn = ours & !unit | ((ours & unit) ^ 1).max(2);
        assert!(Owner::new(pid, 1, reborn).is_dead(ours));
        // Of another namespace: who knows.
        assert!(!Owner::new(0x3f_fffe, 1, ours ^ 1 << MARK_BITS).is_dead(ours));
        // Nobody told when it began.
        assert!(!Owner::new(pid, 1, ours & !unit).is_dead(ours));
    }
}
