//! A packet socket on one end of a wire, whose frames have the time at which they came.
//!
//! The ports of `crates/live-router` have neither: its chunks hold 1600 bytes, and its workers read
//! no stamps. Here a frame may have 9000 bytes, and a switch judges it by its stamp.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use halfwink_live::descriptor::{bind_packet, packets_dropped, set_option, socket};
use halfwink_policy::circuits::sync::Mac;

use crate::time;

/// Longest frame, in bytes: an IP packet of 9000 with its Ethernet header.
pub const LONGEST: usize = 9014;
/// Frames for one call.
pub const AT_ONCE: usize = 64;
/// Room of a frame, and one byte more, so that one that is too long shows.
const ROOM: usize = 9216;
/// Room for a stamp.
const CONTROL: usize = 64;
/// Bytes that may wait in the socket.
const SOCKET_BYTES: libc::c_int = 16 << 20;

/// Frames that could not be taken or sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Lost {
    /// The socket had no room.
    pub overflowed: u64,
    /// The interface did not take them.
    pub unsent: u64,
    /// Frames longer than [`LONGEST`].
    pub too_long: u64,
}

impl Lost {
    /// Moves the counts of a socket here.
    pub fn take(&mut self, from: &mut Lost) {
        let Lost { overflowed, unsent, too_long } = std::mem::take(from);
        self.overflowed += overflowed;
        self.unsent += unsent;
        self.too_long += too_long;
    }
}

/// Packet socket of an interface.
pub struct Port {
    socket: OwnedFd,
    room: Vec<u8>,
    control: Vec<[u64; CONTROL / 8]>,
    /// Frames that were lost here since a report took them.
    pub lost: Lost,
}

/// A frame that came.
pub struct Came<'a> {
    /// Bytes of the frame.
    pub bytes: &'a [u8],
    /// Arrival time, in nanoseconds of [`time::now_ns`].
    pub at_ns: u64,
}

impl Port {
    /// Opens one on an interface that is up.
    ///
    /// # Errors
    /// What and why, in one line.
    pub fn open(interface: &str) -> Result<Port, String> {
        Port::bound(interface).map_err(|e| {
            let needed = match e.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => ": needs CAP_NET_RAW",
                _ => "",
            };
            format!("interface {interface}: {e}{needed}")
        })
    }

    fn bound(interface: &str) -> io::Result<Port> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: a string that ends in zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &SOCKET_BYTES).is_err() {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &SOCKET_BYTES)?;
        }
        bind_packet(&socket, index, libc::ETH_P_ALL)?;
        let room = vec![0; AT_ONCE * ROOM];
        Ok(Port { socket, room, control: vec![[0; 8]; AT_ONCE], lost: Lost::default() })
    }

    /// Returns the descriptor to wait for.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Takes frames that are there, up to `most` and up to 64; does not wait.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn receive(&mut self, most: usize) -> io::Result<Vec<Came<'_>>> {
        // SAFETY: all zeros are valid headers and vectors.
        let mut vectors: [libc::iovec; AT_ONCE] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
        let rooms = self.room.chunks_exact_mut(ROOM).zip(&mut self.control);
        for (n, (room, control)) in rooms.enumerate() {
            vectors[n] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: ROOM };
            let header = &mut headers[n].msg_hdr;
            header.msg_iov = &raw mut vectors[n];
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: vectors and control rooms are ours and outlive the call.
        let got = unsafe {
            let (fd, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
            let count = most.min(AT_ONCE) as libc::c_uint;
            libc::recvmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _, none)
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => Ok(Vec::new()),
                _ => Err(error),
            };
        }
        let offset_ns = time::real_offset_ns();
        let mut came = Vec::with_capacity(got as usize);
        for (header, room) in headers[..got as usize].iter().zip(self.room.chunks_exact(ROOM)) {
            let len = header.msg_len as usize;
            if len > LONGEST {
                self.lost.too_long += 1;
                continue;
            }
            let stamp = stamp_ns(&header.msg_hdr);
            let at_ns = stamp.map_or_else(time::now_ns, |real| real.wrapping_sub(offset_ns));
            came.push(Came { bytes: &room[..len], at_ns });
        }
        Ok(came)
    }

    /// Sends frames in order; those that the interface does not take are lost, and counted.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) {
        for some in frames.chunks(AT_ONCE) {
            let mut left = some;
            while !left.is_empty() {
                left = &left[self.batch(left)..];
            }
        }
    }

    /// Sends a batch; returns the number of frames at the front that were sent or are lost.
    fn batch<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> usize {
        // SAFETY: all zeros are valid headers and vectors.
        let mut vectors: [libc::iovec; AT_ONCE] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
        for (n, frame) in frames.iter().enumerate() {
            let bytes = frame.as_ref();
            let base = bytes.as_ptr().cast_mut().cast();
            vectors[n] = libc::iovec { iov_base: base, iov_len: bytes.len() };
            headers[n].msg_hdr.msg_iov = &raw mut vectors[n];
            headers[n].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the kernel reads frames that outlive the call.
        let sent = unsafe {
            let (fd, count) = (self.socket.as_raw_fd(), frames.len() as libc::c_uint);
            libc::sendmmsg(fd, headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
        };
        if sent > 0 {
            return sent as usize;
        }
        // One that is refused must not stop those behind it, nor a wire that is gone the others.
        self.lost.unsent += 1;
        1
    }

    /// Reads what the kernel has dropped for want of room since it was last asked.
    pub fn count_overflows(&mut self) {
        self.lost.overflowed += packets_dropped(&self.socket);
    }
}

/// The kernel's stamp, in nanoseconds of the real-time clock.
fn stamp_ns(header: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled the control room as its length says; the macros' functions stay
    // inside of it.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = control.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let at: libc::timespec = libc::CMSG_DATA(control).cast::<libc::timespec>().read();
                return Some(time::ns(&at));
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// The address of a host's device.
#[must_use]
pub const fn host_mac(host: u16) -> Mac {
    let [high, low] = host.to_be_bytes();
    [0x02, b'h', b'w', 0, high, low]
}

/// The address of a switch's port towards a host.
#[must_use]
pub const fn switch_mac(host: u16) -> Mac {
    let [high, low] = host.to_be_bytes();
    [0x02, b'h', b'w', 1, high, low]
}

/// The host that an address belongs to.
#[must_use]
pub fn host_of(mac: &[u8]) -> Option<u16> {
    match *mac {
        [0x02, b'h', b'w', 0, high, low, ..] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}
