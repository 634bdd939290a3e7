//! Packet sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Error;
use halfwink_live::descriptor::{bind_packet, packets_dropped, set_option, socket};

/// Sets an option of a packet socket.
fn set<T>(fd: &OwnedFd, name: libc::c_int, value: &T, what: &str) -> Result<(), Error> {
    set_option(fd, libc::SOL_PACKET, name, value)
        .map_err(|source| Error::Os { what: what.to_owned(), source })
}

/// The number of an interface of this network namespace.
fn index(interface: &str) -> Result<u32, Error> {
    let name = std::ffi::CString::new(interface).unwrap_or_default();
    // SAFETY: the name ends in a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(Error::input(format!("{interface}: there is no such interface"))),
        index => Ok(index),
    }
}

/// A raw packet socket that receives nothing yet.
fn open() -> Result<OwnedFd, Error> {
    let what = "a packet socket (needs root, CAP_NET_RAW or a user namespace)";
    socket(libc::AF_PACKET, libc::SOCK_RAW)
        .map_err(|source| Error::Os { what: what.to_owned(), source })
}

fn bind(fd: &OwnedFd, index: u32, protocol: libc::c_int) -> Result<(), Error> {
    let what = || "binding a packet socket".to_owned();
    bind_packet(fd, index, protocol).map_err(|source| Error::Os { what: what(), source })
}

/// MAC address of an interface of this network namespace.
///
/// # Errors
/// There is no such interface.
pub(super) fn mac(interface: &str) -> Result<[u8; 6], Error> {
    // An ioctl, since /sys may show another namespace's interfaces.
    index(interface)?;
    let fd = open()?;
    // SAFETY: all zeroes are a valid request, which the kernel reads and writes; the name ends in a
    // zero since it is shorter than its field.
    let (answer, address) = unsafe {
        let mut request: libc::ifreq = core::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().take(15).zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        let answer = libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request);
        (answer, request.ifr_ifru.ifru_hwaddr.sa_data)
    };
    if answer != 0 {
        return Err(Error::os(format!("the MAC address of {interface}")));
    }
    Ok([0, 1, 2, 3, 4, 5].map(|n| address[n] as u8))
}

/// Sends frames of one interface in batches.
///
/// By `sendmmsg`, not by a transmit ring: on veth pairs the ring was no faster (0.49 against 0.53
/// million frames a second), and there the kernel gives a slot of the ring back before the frame in
/// it has been read at the other end.
pub(super) struct Sender {
    fd: OwnedFd,
    frames: Vec<Box<[u8]>>,
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    filled: usize,
}

// SAFETY: the pointers of `parts` and `messages` lead to what the same structure owns.
unsafe impl Send for Sender {}

impl Sender {
    /// Room for `batch` frames of up to `bytes` bytes. With `bypass`, frames go round the queueing
    /// discipline, and all to the transmit queue of the sending CPU; without, they are spread over
    /// the queues by their flow.
    pub(super) fn open(
        interface: &str,
        batch: usize,
        bytes: usize,
        bypass: bool,
    ) -> Result<Sender, Error> {
        let index = index(interface)?;
        let fd = open()?;
        bind(&fd, index, 0)?;
        if bypass {
            let on: libc::c_int = 1;
            set(&fd, libc::PACKET_QDISC_BYPASS, &on, "sending without queueing discipline")?;
        }
        let mut frames: Vec<Box<[u8]>> = vec![vec![0; bytes].into_boxed_slice(); batch];
        let part =
            |frame: &mut Box<[u8]>| libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: 0 };
        let mut parts: Vec<libc::iovec> = frames.iter_mut().map(part).collect();
        let message = |part: &mut libc::iovec| {
            // SAFETY: all zeroes are a valid message without parts.
            let mut message: libc::mmsghdr = unsafe { core::mem::zeroed() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let messages = parts.iter_mut().map(message).collect();
        Ok(Sender { fd, frames, parts, messages, filled: 0 })
    }

    /// Returns whether the batch is empty.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns whether the batch is full.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.filled == self.frames.len()
    }

    /// Adds a frame that `write` writes and tells the length of.
    #[inline]
    pub(super) fn add(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let bytes = write(&mut self.frames[self.filled]);
        self.parts[self.filled].iov_len = bytes;
        self.filled += 1;
        bytes
    }

    /// Hands the batch to the kernel, which has it copied when this returns. Frames that it has no
    /// room for are offered again until it has, or until `give_up` says so; how many it refused.
    pub(super) fn flush(&mut self, give_up: impl Fn() -> bool) -> Result<u64, Error> {
        let (mut done, mut refusals) = (0, 0);
        while done < self.filled {
            let rest = &mut self.messages[done..self.filled];
            // SAFETY: each message leads to one part, which leads to a frame that is longer; all of
            // them are owned by `self`, and vectors do not move while it is borrowed.
            let sent = unsafe {
                libc::sendmmsg(self.fd.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0)
            };
            if sent >= 0 {
                done += sent as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) if !give_up() => refusals += 1,
                Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => break,
                _ => {
                    self.filled = 0;
                    return Err(Error::Os { what: "sending".to_owned(), source: error });
                }
            }
        }
        self.filled = 0;
        Ok(refusals)
    }
}

/// A ring that the kernel writes frames to (TPACKET_V3), in blocks.
pub(super) struct Ring {
    fd: OwnedFd,
    base: *mut u8,
    blocks: usize,
    next: usize,
}

// SAFETY: the mapping belongs to this structure alone.
unsafe impl Send for Ring {}

const BLOCK_BYTES: usize = 1 << 20;

/// A frame in the ring.
pub(super) struct Frame<'a> {
    /// Time at which the kernel put it there: nanoseconds of `CLOCK_REALTIME`.
    pub(super) at_realtime_ns: u64,
    /// Bytes of the frame.
    pub(super) bytes: &'a [u8],
    /// Length of the frame before truncation.
    pub(super) wire_bytes: u32,
}

impl Ring {
    /// A ring of `mib` MiB on an interface. The kernel hands over a block when it is full, or
    /// `timeout_ms` after its first frame.
    pub(super) fn open(interface: &str, mib: usize, timeout_ms: u32) -> Result<Ring, Error> {
        let index = index(interface)?;
        let fd = open()?;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&fd, libc::PACKET_VERSION, &version, "a packet ring (TPACKET_V3)")?;
        let on: libc::c_int = 1;
        set(&fd, libc::PACKET_IGNORE_OUTGOING, &on, "receiving only what comes in")?;
        let blocks = mib.max(2);
        let frame_bytes = 1 << 11;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_bytes,
            tp_frame_nr: (BLOCK_BYTES * blocks) as u32 / frame_bytes,
            tp_retire_blk_tov: timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&fd, libc::PACKET_RX_RING, &request, "memory for a packet ring")?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = BLOCK_BYTES * blocks;
        // SAFETY: the kernel chooses the place, so nothing is overwritten.
        let base = unsafe {
            let nowhere = core::ptr::null_mut();
            libc::mmap(nowhere, bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(Error::os("mapping a packet ring"));
        }
        let ring = Ring { fd, base: base.cast(), blocks, next: 0 };
        // Only now: what came before would have gone to no ring.
        bind(&ring.fd, index, libc::ETH_P_ALL)?;
        Ok(ring)
    }

    /// Waits until a block is ready, for `timeout_ms` at most.
    pub(super) fn wait(rings: &[Ring], timeout_ms: i32) {
        let poll = |ring: &Ring| libc::pollfd {
            fd: ring.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polls: Vec<libc::pollfd> = rings.iter().map(poll).collect();
        // SAFETY: the kernel reads and writes as many entries as there are.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout_ms) };
    }

    /// Shows `visit` the frames of the next block that is ready and gives the block back; whether
    /// there was one.
    pub(super) fn visit_block(&mut self, mut visit: impl FnMut(Frame<'_>)) -> bool {
        // SAFETY: the kernel keeps a block to itself until it says TP_STATUS_USER (read with
        // acquire), and lays it out as these structures say: `num_pkts` headers, each
        // `tp_next_offset` bytes behind the last, with `tp_snaplen` bytes at `tp_mac`.
        unsafe {
            let block = self.base.add(self.next * BLOCK_BYTES);
            let header = block.cast::<libc::tpacket_block_desc>();
            let status = &raw mut (*header).hdr.bh1.block_status;
            let status = core::sync::atomic::AtomicU32::from_ptr(status);
            if status.load(core::sync::atomic::Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return false;
            }
            let mut at = (*header).hdr.bh1.offset_to_first_pkt as usize;
            for _ in 0..(*header).hdr.bh1.num_pkts {
                let packet = block.add(at).cast::<libc::tpacket3_hdr>();
                let (sec, nsec) = ((*packet).tp_sec, (*packet).tp_nsec);
                visit(Frame {
                    at_realtime_ns: u64::from(sec) * 1_000_000_000 + u64::from(nsec),
                    bytes: core::slice::from_raw_parts(
                        block.add(at + usize::from((*packet).tp_mac)),
                        (*packet).tp_snaplen as usize,
                    ),
                    wire_bytes: (*packet).tp_len,
                });
                at += (*packet).tp_next_offset as usize;
            }
            status.store(libc::TP_STATUS_KERNEL, core::sync::atomic::Ordering::Release);
        }
        self.next = (self.next + 1) % self.blocks;
        true
    }

    /// Frames that found no room in the ring since this was last asked.
    pub(super) fn drops(&self) -> u64 {
        packets_dropped(&self.fd)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.cast(), BLOCK_BYTES * self.blocks) };
    }
}
