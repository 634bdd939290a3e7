//! AF_PACKET: a socket that sees all frames of an interface. Works on everything, in user
//! namespaces too; each frame is copied once each way.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::{last, Interface, Io, Lane, Opened, Receive, Transmit};
use crate::pool::{Pool, Slot, LONGEST};
use halfwink_live::descriptor::{bind_packet, packets_dropped, set_option, socket};

/// Frames for one call.
const AT_ONCE: usize = 64;
/// Bytes that may wait in the socket.
const ROOM: libc::c_int = 8 << 20;

pub(super) fn open(interface: Interface) -> io::Result<Opened> {
    let socket = Arc::new(open_socket(interface.index)?);
    let receiver = Receiver { socket: socket.clone(), spare: Vec::new(), lost: 0, too_long: 0 };
    let lanes = vec![Lane { receiver: Box::new(receiver), sender: Box::new(Sender { socket }) }];
    Ok(Opened { lanes, io: Io::AfPacket, interface, keep: None })
}

fn open_socket(interface: u32) -> io::Result<OwnedFd> {
    let socket = socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
    // The kernel takes a VLAN's tag out of the frame; here it says which.
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)?;
    // What comes from us has no business in queueing disciplines of the machine.
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
    // Without privileges beside CAP_NET_RAW only up to the machine's limit.
    if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM).is_err() {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &ROOM)?;
    }
    bind_packet(&socket, interface, libc::ETH_P_ALL)?;
    Ok(socket)
}

struct Receiver {
    socket: Arc<OwnedFd>,
    /// Chunks for what comes next.
    spare: Vec<Slot>,
    lost: u64,
    too_long: u64,
}

/// Room for what the kernel says of a frame: a `cmsghdr` with a `tpacket_auxdata`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Said([u8; SAID]);

// SAFETY: it computes lengths.
const SAID: usize =
    unsafe { libc::CMSG_SPACE(std::mem::size_of::<libc::tpacket_auxdata>() as u32) as usize };

/// A VLAN's tag as it was in the frame: EtherType and control information.
type Tag = [u8; 4];

impl Receive for Receiver {
    fn receive(
        &mut self,
        pool: &Pool,
        most: usize,
        into: &mut VecDeque<Slot>,
    ) -> io::Result<usize> {
        let mut total = 0;
        while total < most {
            let wanted = (most - total).min(AT_ONCE);
            if self.spare.len() < wanted {
                pool.take(AT_ONCE - self.spare.len(), &mut self.spare);
            }
            let asked = wanted.min(self.spare.len());
            let got = self.batch(asked, into)?;
            total += got;
            if got < asked || asked == 0 {
                break;
            }
        }
        Ok(total)
    }

    fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn lost(&mut self) -> u64 {
        self.lost += packets_dropped(&self.socket);
        self.lost
    }

    fn too_long(&self) -> u64 {
        self.too_long
    }

    fn close(self: Box<Self>) -> Vec<Slot> {
        self.spare
    }
}

impl Receiver {
    fn batch(&mut self, asked: usize, into: &mut VecDeque<Slot>) -> io::Result<usize> {
        // SAFETY: all zeros is a valid header; those past `asked` are not used.
        let mut vectors: [libc::iovec; AT_ONCE] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
        let mut said = [Said([0; SAID]); AT_ONCE];
        for (n, slot) in self.spare.iter_mut().take(asked).enumerate() {
            slot.set_len(LONGEST);
            let room = slot.bytes_mut();
            vectors[n] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            headers[n].msg_hdr.msg_iov = &raw mut vectors[n];
            headers[n].msg_hdr.msg_iovlen = 1;
            headers[n].msg_hdr.msg_control = said[n].0.as_mut_ptr().cast();
            headers[n].msg_hdr.msg_controllen = SAID;
        }
        // SAFETY: each vector names the room of a chunk that is ours, and each header room in
        // `said` for what is said of it.
        let got = unsafe {
            let none = std::ptr::null_mut();
            let (fd, count) = (self.socket.as_raw_fd(), asked as libc::c_uint);
            libc::recvmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _, none)
        };
        if got < 0 {
            let error = last();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(0),
                _ => Err(error),
            };
        }
        for (mut slot, header) in self.spare.drain(..got as usize).zip(&headers) {
            slot.set_len(header.msg_len as usize);
            self.too_long += u64::from(header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0);
            if let Some(tag) = tag_of(&header.msg_hdr) {
                put_back(&mut slot, tag);
            }
            into.push_back(slot);
        }
        Ok(got as usize)
    }
}

/// The VLAN's tag that the kernel took out of a frame.
fn tag_of(header: &libc::msghdr) -> Option<Tag> {
    // SAFETY: the kernel has just filled the header's control messages.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    if first.is_null() {
        return None;
    }
    // SAFETY: the message says itself that it is one, and carries it whole.
    let said = unsafe {
        let (level, kind) = ((*first).cmsg_level, (*first).cmsg_type);
        if (level, kind) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            return None;
        }
        std::ptr::read_unaligned(libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>())
    };
    if said.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let kind = match said.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => said.tp_vlan_tpid,
    };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), said.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}

/// The frame as it was on the wire, so that it is one thing however it came.
fn put_back(slot: &mut Slot, tag: Tag) {
    const ADDRESSES: usize = 12;
    let len = slot.bytes().len();
    if len >= ADDRESSES && slot.set_len(len + tag.len()) {
        let frame = slot.bytes_mut();
        frame.copy_within(ADDRESSES..len, ADDRESSES + tag.len());
        frame[ADDRESSES..ADDRESSES + tag.len()].copy_from_slice(&tag);
    }
}

struct Sender {
    socket: Arc<OwnedFd>,
}

impl Transmit for Sender {
    fn send(&mut self, pool: &Pool, slots: &mut VecDeque<Slot>) -> io::Result<()> {
        let mut done = Vec::with_capacity(AT_ONCE);
        let mut result = Ok(());
        while !slots.is_empty() {
            match self.batch(slots) {
                Ok(sent) => done.extend(slots.drain(..sent)),
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
            pool.free(&mut done);
        }
        result
    }
}

impl Sender {
    /// Sends a batch; returns the number of frames at the front that were sent or are to be
    /// dropped.
    fn batch(&self, slots: &mut VecDeque<Slot>) -> io::Result<usize> {
        // SAFETY: all zeros is a valid header; those past `count` are not used.
        let mut vectors: [libc::iovec; AT_ONCE] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
        let count = slots.len().min(AT_ONCE);
        for (n, slot) in slots.iter_mut().take(count).enumerate() {
            let frame = slot.bytes_mut();
            vectors[n] = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            headers[n].msg_hdr.msg_iov = &raw mut vectors[n];
            headers[n].msg_hdr.msg_iovlen = 1;
        }
        for _ in 0..64 {
            // SAFETY: each vector names the frame of a chunk that is ours.
            let sent = unsafe {
                let (fd, count) = (self.socket.as_raw_fd(), count as libc::c_uint);
                libc::sendmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
            };
            if sent > 0 {
                return Ok(sent as usize);
            }
            let error = last();
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => std::thread::yield_now(),
                // A frame that the interface cannot take must not stop those behind it.
                Some(libc::EMSGSIZE | libc::EINVAL) => return Ok(1),
                _ => return Err(error),
            }
        }
        Ok(count)
    }
}
