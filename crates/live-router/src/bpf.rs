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

use halfwink_live::bpf::{call, program, set, Instruction, Map};
use halfwink_live::descriptor::owned;

const LINK_CREATE: u32 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
/// Type of XDP programs.
pub const PROG_TYPE_XDP: u32 = 6;
/// Way to attach an XDP program to an interface.
pub const ATTACH_XDP: u32 = 37;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;
const FLAG_SKB: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;
/// Most queues of an interface.
const QUEUES: u32 = 64;

/// An XDP program on an interface. It goes when this goes: frames then reach the kernel's stack
/// again.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
    /// Runs in the driver, not after an `sk_buff` was made.
    pub native: bool,
}

impl Attached {
    /// Puts a program on an interface: in the driver if that can, unless `generic` is asked for.
    ///
    /// # Errors
    /// As the kernel says; `PermissionDenied` without `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn new(program: &OwnedFd, interface: u32, generic: bool) -> io::Result<Attached> {
        let link = |flags| link(program.as_raw_fd(), interface, flags);
        let (link, native) = match if generic { None } else { link(FLAG_NATIVE).ok() } {
            Some(link) => (link, true),
            None => (link(FLAG_SKB)?, false),
        };
        Ok(Attached { _link: link, native })
    }
}

/// The program that hands frames to sockets, on an interface.
#[derive(Debug)]
pub struct Redirect {
    map: OwnedFd,
    attached: Attached,
}

impl Redirect {
    /// Puts the program on an interface, as [`Attached::new`] does.
    ///
    /// # Errors
    /// As the kernel says; `PermissionDenied` without `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn attach(interface: u32, generic: bool) -> io::Result<Redirect> {
        let map = create_map()?;
        let program = load(map.as_raw_fd())?;
        let attached = Attached::new(&program, interface, generic)?;
        Ok(Redirect { map, attached })
    }

    /// Returns whether the program runs in the driver.
    pub fn is_native(&self) -> bool {
        self.attached.native
    }

    /// Frames of this queue go to this socket from now on.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn hand(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        set(&self.map, queue, &(socket as u32))
    }
}

/// Checks whether the kernel accepts the program.
///
/// # Errors
///
/// The reason why not.
pub fn may_load() -> io::Result<()> {
    create_map().and_then(|map| load(map.as_raw_fd())).map(drop)
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

fn create_map() -> io::Result<OwnedFd> {
    Map { kind: MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries: QUEUES, flags: 0 }.create()
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
    program(PROG_TYPE_XDP, ATTACH_XDP, &code)
}

fn link(program: RawFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let attr = LinkCreate { program: program as u32, interface, attach_type: ATTACH_XDP, flags };
    // SAFETY: no addresses; the answer is a fresh descriptor.
    unsafe { owned(call(LINK_CREATE, &attr)?) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_takes_the_program_or_says_why_not() {
        // SAFETY: no arguments.
        let is_root = unsafe { libc::geteuid() } == 0;
        match super::may_load() {
            Ok(()) => {}
            Err(why) => {
                assert!(!is_root, "{why}");
                eprintln!("skipped: {why}");
            }
        }
    }
}
