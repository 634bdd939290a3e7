//! The XDP program that hands a queue's frames to its AF_XDP socket, and its map.
//!
//! Five instructions; written out, since loading them so needs neither a compiler nor libbpf.
//!
//! ```text
//!  int hand_over(struct xdp_md *ctx) {
//!      return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
//!  }
//! ```

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use halfwink_live::descriptor::owned;

const MAP_CREATE: u32 = 0;
const MAP_UPDATE: u32 = 2;
const PROG_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;
const FLAG_SKB: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;
/// Most queues of an interface.
const QUEUES: u32 = 64;

/// The program on an interface. It goes when this goes: frames then reach the kernel's stack again.
#[derive(Debug)]
pub struct Redirect {
    map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
    /// In the driver, not after an `sk_buff` was made.
    pub native: bool,
}

impl Redirect {
    /// Puts the program on an interface: in the driver if that can, unless `generic` is asked for.
    ///
    /// # Errors
    /// As the kernel says; `PermissionDenied` without `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn attach(interface: u32, generic: bool) -> io::Result<Redirect> {
        let map = create_map()?;
        let program = load(map.as_raw_fd())?;
        let link = |flags| link(program.as_raw_fd(), interface, flags);
        let (link, native) = match if generic { None } else { link(FLAG_NATIVE).ok() } {
            Some(link) => (link, true),
            None => (link(FLAG_SKB)?, false),
        };
        Ok(Redirect { map, _program: program, _link: link, native })
    }

    /// Frames of this queue go to this socket from now on.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn hand(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        let value = socket as u32;
        let attr = MapUpdate {
            map: self.map.as_raw_fd() as u32,
            _pad: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value are the four bytes each that the map was made with.
        unsafe { bpf(MAP_UPDATE, &attr) }.map(drop)
    }
}

/// Whether the kernel takes the program from us.
///
/// # Errors
/// Why not.
pub fn may_load() -> io::Result<()> {
    create_map().and_then(|map| load(map.as_raw_fd())).map(drop)
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
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
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// An instruction of the machine that the kernel runs.
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

fn create_map() -> io::Result<OwnedFd> {
    let attr = MapCreate { kind: MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries: QUEUES };
    // SAFETY: no addresses; the answer is a fresh descriptor.
    unsafe { owned(bpf(MAP_CREATE, &attr)?) }
}

fn load(map: RawFd) -> io::Result<OwnedFd> {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_WIDE: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    let op =
        |code, registers, offset, immediate| Instruction { code, registers, offset, immediate };
    let code = [
        op(LOAD_WORD, 0x12, RX_QUEUE_INDEX, 0), // r2 = ctx->rx_queue_index
        op(LOAD_WIDE, 0x11, 0, map),            // r1 = map (source 1: a descriptor)
        op(0, 0, 0, 0),
        op(MOVE, 0x03, 0, XDP_PASS), // r3 = what to do if no socket is there
        op(CALL, 0, 0, REDIRECT_MAP),
        op(EXIT, 0, 0, 0),
    ];
    let license = c"Dual MIT/GPL";
    let mut name = [0u8; 16];
    name[..8].copy_from_slice(b"halfwink");
    let attr = ProgLoad {
        kind: PROG_TYPE_XDP,
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
        attach_type: ATTACH_XDP,
    };
    // SAFETY: code and licence outlive the call, which only reads them; the answer is a fresh
    // descriptor.
    unsafe { owned(bpf(PROG_LOAD, &attr)?) }
}

fn link(program: RawFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let attr = LinkCreate { program: program as u32, interface, attach_type: ATTACH_XDP, flags };
    // SAFETY: no addresses; the answer is a fresh descriptor.
    unsafe { owned(bpf(LINK_CREATE, &attr)?) }
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
