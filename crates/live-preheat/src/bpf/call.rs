//! The system call `bpf`, as far as it is needed here.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use halfwink_live::descriptor::owned;
use halfwink_live::sys;

use super::code::Instruction;

const MAP_CREATE: u32 = 0;
const PROG_LOAD: u32 = 5;
const PROG_TEST_RUN: u32 = 10;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const TEST_RUN_ON_CPU: u32 = 1;

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
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

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    answer: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _pad: u32,
}

#[repr(C)]
struct TracepointOpen {
    name: u64,
    program: u32,
    _pad: u32,
}

/// A map of one entry, which is memory of the command too.
pub(super) fn create_map(bytes: usize) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        kind: MAP_TYPE_ARRAY,
        key_bytes: 4,
        value_bytes: bytes as u32,
        entries: 1,
        flags: MAP_MMAPABLE,
    };
    // SAFETY: no addresses; the answer is a fresh descriptor.
    unsafe { owned(bpf(MAP_CREATE, &attr)?) }
}

/// The memory of such a map. It stays mapped for as long as the process lives.
pub(super) fn map_memory(map: &OwnedFd, bytes: usize) -> io::Result<*const u8> {
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

/// A raw tracepoint's program, checked by the kernel.
pub(super) fn program(code: &[Instruction]) -> io::Result<OwnedFd> {
    let mut name = [0u8; 16];
    name[..8].copy_from_slice(b"halfwink");
    let license = c"Dual MIT/GPL";
    let attr = ProgLoad {
        kind: PROG_TYPE_RAW_TRACEPOINT,
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
        attach_type: 0,
    };
    // SAFETY: code and licence outlive the call, which only reads them; the answer is a fresh
    // descriptor.
    unsafe { owned(bpf(PROG_LOAD, &attr)?) }
}

/// Runs a program once, on this CPU.
pub(super) fn run(program: &OwnedFd, cpu: u32, args: [u64; 3]) -> io::Result<()> {
    let attr = TestRun {
        program: program.as_raw_fd() as u32,
        context_in_bytes: size_of_val(&args) as u32,
        context_in: args.as_ptr() as u64,
        flags: TEST_RUN_ON_CPU,
        cpu,
        ..TestRun::default()
    };
    // SAFETY: the arguments outlive the call, which only reads them.
    unsafe { bpf(PROG_TEST_RUN, &attr) }.map(drop)
}

/// Has a program run at each event of a raw tracepoint, for as long as the descriptor lives.
pub(super) fn attach(program: &OwnedFd, tracepoint: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let attr = TracepointOpen {
        name: tracepoint.as_ptr() as u64,
        program: program.as_raw_fd() as u32,
        _pad: 0,
    };
    // SAFETY: the name outlives the call, which only reads it; the answer is a fresh descriptor.
    unsafe { owned(bpf(RAW_TRACEPOINT_OPEN, &attr)?) }
}

/// # Safety
/// `T` must be how `command` lays out its part of `union bpf_attr`, its addresses fit for it.
unsafe fn bpf<T>(command: u32, attr: &T) -> io::Result<RawFd> {
    // SAFETY: by the caller.
    match unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>()) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer as RawFd),
    }
}
