//! The system call `bpf`, as far as live programs need it: maps, programs written out, and what
//! each of them attaches. All of it goes with its descriptors.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::descriptor::owned;
use crate::sys;

const MAP_CREATE: u32 = 0;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const PROG_LOAD: u32 = 5;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_MMAPABLE: u32 = 1 << 10;
/// Bytes of the checker's log that are read to say why it refuses a program.
const LOG_BYTES: usize = 1 << 20;

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

    /// Makes a map of one value, which [`map_memory`] makes memory of the caller, too.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn shared(bytes: usize) -> io::Result<OwnedFd> {
        let (kind, flags) = (MAP_TYPE_ARRAY, MAP_MMAPABLE);
        Map { kind, key_bytes: 4, value_bytes: bytes as u32, entries: 1, flags }.create()
    }
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Sets the value of a key; both as long as the map was made for.
///
/// # Errors
/// As the kernel says.
pub fn set<V>(map: &OwnedFd, key: u32, value: &V) -> io::Result<()> {
    let attr = MapUpdate {
        map: map.as_raw_fd() as u32,
        _pad: 0,
        key: (&raw const key) as u64,
        value: core::ptr::from_ref(value) as u64,
        flags: 0,
    };
    // SAFETY: key and value outlive the call, which only reads them.
    unsafe { call(MAP_UPDATE, &attr) }.map(drop)
}

/// Removes a key from a map.
///
/// # Errors
/// As the kernel says; `NotFound` if the key is not there.
pub fn unset(map: &OwnedFd, key: u32) -> io::Result<()> {
    let (map, key) = (map.as_raw_fd() as u32, (&raw const key) as u64);
    let attr = MapUpdate { map, _pad: 0, key, value: 0, flags: 0 };
    // SAFETY: the key outlives the call, which only reads it.
    unsafe { call(MAP_DELETE, &attr) }.map(drop)
}

/// Maps the value of a shared map. It stays mapped for as long as the process lives.
///
/// # Errors
/// As the kernel says.
pub fn map_memory(map: &OwnedFd, bytes: usize) -> io::Result<*const u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let (fd, flags) = (map.as_raw_fd() as u64, libc::MAP_SHARED as u64);
    let bytes = bytes.next_multiple_of(4096) as u64;
    // SAFETY: the kernel chooses the place, so nothing is overwritten.
    let answer = unsafe { sys::call(libc::SYS_mmap, [0, bytes, protection, flags, fd, 0]) };
    if sys::is_error(answer) {
        return Err(io::Error::from_raw_os_error(-answer as i32));
    }
    Ok(answer as *const u8)
}

/// A program of a kind (`BPF_PROG_TYPE_*`), checked by the kernel, for one way to attach it (0
/// where its kind has but one).
///
/// # Errors
/// As the kernel says; `PermissionDenied` without `CAP_BPF` and what the kind takes besides.
pub fn program(kind: u32, attach_type: u32, code: &[Instruction]) -> io::Result<OwnedFd> {
    load(kind, attach_type, code, &mut [])
}

/// Returns the last line of the kernel's log on a program that it has refused.
#[must_use]
pub fn refusal(kind: u32, attach_type: u32, code: &[Instruction]) -> Option<String> {
    let mut log = vec![0; LOG_BYTES];
    load(kind, attach_type, code, &mut log).err()?;
    let text = log.split(|&byte| byte == 0).next()?;
    // The last line but the checker's statistics.
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.is_empty() && !line.starts_with("processed"));
    line.map(str::to_owned)
}

fn load(kind: u32, attach_type: u32, code: &[Instruction], log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut name = [0u8; 16];
    name[..8].copy_from_slice(b"halfwink");
    let license = c"Dual MIT/GPL";
    let attr = ProgLoad {
        kind,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
        name,
        interface: 0,
        attach_type,
    };
    // SAFETY: code, licence and log outlive the call, which writes the log alone; the answer is a
    // fresh descriptor.
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
