//! The system call `bpf` for programs that are run by a call or at a raw tracepoint.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use halfwink_live::bpf::{self, call, Instruction};
use halfwink_live::descriptor::owned;

const PROG_TEST_RUN: u32 = 10;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const TEST_RUN_ON_CPU: u32 = 1;

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

/// A raw tracepoint's program, checked by the kernel.
pub(super) fn program(code: &[Instruction]) -> io::Result<OwnedFd> {
    bpf::program(PROG_TYPE_RAW_TRACEPOINT, 0, code)
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
    unsafe { call(PROG_TEST_RUN, &attr) }.map(drop)
}

/// Has a program run at each event of a raw tracepoint, for as long as the descriptor lives.
pub(super) fn attach(program: &OwnedFd, tracepoint: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let attr = TracepointOpen {
        name: tracepoint.as_ptr() as u64,
        program: program.as_raw_fd() as u32,
        _pad: 0,
    };
    // SAFETY: the name outlives the call, which only reads it; the answer is a fresh descriptor.
    unsafe { owned(call(RAW_TRACEPOINT_OPEN, &attr)?) }
}
