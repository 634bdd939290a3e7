//! The calls that can be delegated: those of the works (Strong 2013, Sec 3.2.1; Mogul 2007, Sec
//! 5.2) and their present-day relatives.

/// Condition under which another thread may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Always: the call never blocks.
    Free,
    /// Opens a path, which must be a regular file or a folder, or be created.
    Open {
        /// Which argument is the path; the one before it is a folder unless this is 0.
        path: u8,
    },
    /// Uses the descriptor in argument 0 without blocking: at an offset, which descriptors that
    /// block do not have, or without bytes.
    Descriptor,
    /// Reads or writes the descriptor in argument 0 at its present position.
    Stream,
    /// As `Stream`; this argument may hold a flag against blocking.
    Socket {
        /// Which argument holds flags.
        flags: u8,
    },
    /// Argument 0 is written from what argument 1 names.
    Copy,
    /// Waits for the milliseconds in this argument: only zero is allowed.
    Timeout {
        /// Index of the argument.
        argument: u8,
    },
    /// Waits for the time in the structure of two words that this argument points to.
    TimeoutBehind {
        /// Index of the argument.
        argument: u8,
    },
}

/// A system call that can be delegated.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Name of the call in libc.
    pub name: &'static str,
    /// Number of the call in the kernel.
    pub number: u32,
    /// Condition that is checked.
    pub rule: Rule,
}

macro_rules! calls {
    ($($index:ident $name:literal $number:ident $rule:expr;)*) => {
        /// Indices into [`CALLS`], by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        #[repr(usize)]
        pub enum Index { $($index),* }

        /// All calls that can be delegated, in the order of [`Index`].
        pub const CALLS: [Call; COUNT] = [
            $(Call { name: $name, number: libc::$number as u32, rule: $rule }),*
        ];

        /// Number of calls that can be delegated.
        pub const COUNT: usize = [$(Index::$index),*].len();
    };
}

calls! {
    Read "read" SYS_read Rule::Stream;
    Write "write" SYS_write Rule::Stream;
    Pread "pread" SYS_pread64 Rule::Descriptor;
    Pwrite "pwrite" SYS_pwrite64 Rule::Descriptor;
    Readv "readv" SYS_readv Rule::Stream;
    Writev "writev" SYS_writev Rule::Stream;
    Preadv "preadv" SYS_preadv Rule::Descriptor;
    Pwritev "pwritev" SYS_pwritev Rule::Descriptor;
    Recv "recv" SYS_recvfrom Rule::Socket { flags: 3 };
    Send "send" SYS_sendto Rule::Socket { flags: 3 };
    Recvfrom "recvfrom" SYS_recvfrom Rule::Socket { flags: 3 };
    Sendto "sendto" SYS_sendto Rule::Socket { flags: 3 };
    Recvmsg "recvmsg" SYS_recvmsg Rule::Socket { flags: 2 };
    Sendmsg "sendmsg" SYS_sendmsg Rule::Socket { flags: 2 };
    Sendfile "sendfile" SYS_sendfile Rule::Copy;
    Fsync "fsync" SYS_fsync Rule::Descriptor;
    Fdatasync "fdatasync" SYS_fdatasync Rule::Descriptor;
    Ftruncate "ftruncate" SYS_ftruncate Rule::Descriptor;
    Open "open" SYS_open Rule::Open { path: 0 };
    Openat "openat" SYS_openat Rule::Open { path: 1 };
    Stat "stat" SYS_stat Rule::Free;
    Lstat "lstat" SYS_lstat Rule::Free;
    Fstat "fstat" SYS_fstat Rule::Free;
    Fstatat "fstatat" SYS_newfstatat Rule::Free;
    Statx "statx" SYS_statx Rule::Free;
    Access "access" SYS_access Rule::Free;
    Readlink "readlink" SYS_readlink Rule::Free;
    Unlink "unlink" SYS_unlink Rule::Free;
    Rename "rename" SYS_rename Rule::Free;
    Poll "poll" SYS_poll Rule::Timeout { argument: 2 };
    EpollWait "epoll_wait" SYS_epoll_wait Rule::Timeout { argument: 3 };
    Select "select" SYS_select Rule::TimeoutBehind { argument: 4 };
}

impl Index {
    /// Returns whether the call is a cancellation point for a cancelled thread (POSIX.1-2024, Sec
    /// 2.9.5.2, as far as glibc follows it).
    #[must_use]
    pub const fn cancels(self) -> bool {
        !matches!(
            self,
            Index::Sendfile
                | Index::Ftruncate
                | Index::Stat
                | Index::Lstat
                | Index::Fstat
                | Index::Fstatat
                | Index::Statx
                | Index::Access
                | Index::Readlink
                | Index::Unlink
                | Index::Rename
        )
    }
}

/// Reason why a call that the policy would have moved was made in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Refusal {
    /// A terminal, a pipe or a socket that waits, or something unknown.
    MayBlock,
    /// The file behind the descriptor answers by thread (`/proc`, a signal or timer descriptor), or
    /// the descriptor does not exist.
    Private,
    /// The call would wait for a time.
    Timeout,
    /// A signal handler interrupted a call that was on its way.
    Nested,
    /// No thread could be had on the OS CPU, or it was told to go.
    NoWorker,
    /// The worker looked, and found that it might wait: opening a FIFO or a device, or a descriptor
    /// that is no more what it was.
    Declined,
    /// The answer would have brought a signal to the worker (`SIGPIPE`, `SIGXFSZ`): made again.
    Signal,
}

/// Number of reasons.
pub const REFUSALS: usize = 7;

/// Names of the reasons, in the order of [`Refusal`].
pub const REFUSAL_NAMES: [&str; REFUSALS] =
    ["may-block", "private", "timeout", "nested", "no-worker", "declined", "signal"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_numbers_agree() {
        assert_eq!(CALLS[Index::Read as usize].number, 0);
        assert_eq!(CALLS[Index::Select as usize].number, 23);
        assert_eq!(CALLS[Index::Select as usize].name, "select");
        assert_eq!(COUNT, Index::Select as usize + 1);
        assert_eq!(REFUSAL_NAMES[Refusal::Signal as usize], "signal");
    }
}
