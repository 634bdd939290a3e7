//! The system call `bpf`, as far as live programs need it: maps, programs written out, and what
//! each of them attaches. All of it goes with its descriptors.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use crate::descriptor::owned;

const MAP_CREATE: u32 = 0;
const PROG_LOAD: u32 = 5;

/// An instruction of the machine that the kernel runs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Instruction {
    /// Code of the operation.
    pub code: u8,
    /// Registers: the source in the upper half, the destination in the lower one.
    pub registers: u8,
    /// Offset of a jump or an access.
    pub offset: i16,
    /// Immediate operand of the instruction.
    pub immediate: i32,
}

/// A map in the making, as `union bpf_attr` has it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Map {
    /// Type of the map (`BPF_MAP_TYPE_*`).
    pub kind: u32,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Largest number of entries.
    pub entries: u32,
    /// Flags of the map (`BPF_F_*`).
    pub flags: u32,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

impl Map {
    /// Makes it.
    ///
    /// # Errors
    /// As the kernel says; `PermissionDenied` without `CAP_BPF`.
    pub fn create(&self) -> io::Result<OwnedFd> {
        // SAFETY: no addresses; the answer is a fresh descriptor.
        unsafe { owned(call(MAP_CREATE, self)?) }
    }
}

/// A program of a kind (`BPF_PROG_TYPE_*`), checked by the kernel, for one way to attach it (0
/// where its kind has but one).
///
/// # Errors
/// As the kernel says; `PermissionDenied` without `CAP_BPF` and what the kind takes besides.
pub fn program(kind: u32, attach_type: u32, code: &[Instruction]) -> io::Result<OwnedFd> {
    let mut name = [0u8; 16];
    name[..8].copy_from_slice(b"halfwink");
    let license = c"Dual MIT/GPL";
    let attr = ProgLoad {
        kind,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name,
        interface: 0,
        attach_type,
    };
    // SAFETY: code and licence outlive the call, which only reads them; the answer is a fresh
    // descriptor.
    unsafe { owned(call(PROG_LOAD, &attr)?) }
}

/// The system call itself.
///
/// # Errors
/// As the kernel says.
///
/// # Safety
/// `T` must be how `command` lays out its part of `union bpf_attr`, its addresses fit for it.
pub unsafe fn call<T>(command: u32, attr: &T) -> io::Result<RawFd> {
    // SAFETY: by the caller.
    match unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>()) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer as RawFd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_an_error() {
        let nothing = Map { kind: u32::MAX, key_bytes: 4, value_bytes: 4, entries: 1, flags: 0 };
        assert!(nothing.create().unwrap_err().raw_os_error().is_some());
        // No instruction at all, whoever asks.
        assert!(program(17, 0, &[]).unwrap_err().raw_os_error().is_some());
    }
}
