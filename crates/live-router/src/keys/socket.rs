//! The kernel's table of associations over a socket (XFRM over netlink).

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use netlink_packet_core::{NetlinkHeader, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST};
use netlink_packet_xfrm::constants::{XFRMNLGRP_EXPIRE, XFRMNLGRP_SA, XFRM_MSG_GETSA};
use netlink_sys::{protocols::NETLINK_XFRM, Socket, SocketAddr};

use super::message::{read, Association, News};
use crate::waiter::Bell;

/// The longest datagram: the kernel makes none beyond 32 KiB (netlink_dump).
const DATAGRAM: usize = 64 << 10;
/// Room for events of some hundred associations at once, in bytes.
const ROOM: usize = 1 << 20;
/// A dump that a change has interrupted is begun again so often.
const DUMPS: usize = 16;

/// Socket of events that change the kernel's table, by an IKE daemon or other programs.
pub(super) struct Events(Socket);

/// Result of reading the socket.
pub(super) enum Heard {
    /// Events in order; possibly none.
    News(Vec<News>),
    /// Some were lost: the whole table is to be asked for.
    Lost,
}

/// A socket of the kernel's table.
///
/// # Errors
/// The kernel has no XFRM, or does not allow it.
fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_XFRM)?;
    socket.bind_auto()?;
    Ok(socket)
}

impl Events {
    /// Opens the socket; all events are queued from now on.
    pub(super) fn open() -> io::Result<Events> {
        let socket = open()?;
        socket.set_rx_buf_sz(ROOM as i32)?;
        socket.add_membership(XFRMNLGRP_SA)?;
        socket.add_membership(XFRMNLGRP_EXPIRE)?;
        socket.set_non_blocking(true)?;
        Ok(Events(socket))
    }

    /// Waits for events, the bell, or a moment.
    pub(super) fn wait(&self, bell: &Bell, until: Option<Instant>) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // Not a millisecond too early; a day at most.
        let ms = |left: Duration| left.min(Duration::from_secs(86_400)).as_millis() as i32 + 1;
        let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [watch(self.0.as_raw_fd()), watch(bell.as_raw_fd())];
        // SAFETY: two entries of ours.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, left.map_or(-1, ms)) };
    }

    /// All that has happened.
    pub(super) fn take(&self) -> Heard {
        let mut heard = Vec::new();
        let mut buffer = Vec::with_capacity(DATAGRAM);
        loop {
            match receive(&self.0, &mut buffer) {
                Ok(true) => {}
                // Of somebody else's: it does not count.
                Ok(false) => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Heard::News(heard),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Heard::Lost,
            }
            for news in read(&buffer) {
                match news {
                    Ok(news) => heard.push(news),
                    Err(_) => return Heard::Lost,
                }
            }
        }
    }
}

/// All associations that there are, the newest first.
///
/// # Errors
/// The kernel has no XFRM, does not allow it, or says what cannot be.
pub(super) fn dump() -> io::Result<Vec<Association>> {
    for _ in 0..DUMPS {
        if let Some(told) = dump_once()? {
            return Ok(told);
        }
    }
    Err(io::Error::other("the table of associations changes without end"))
}

/// Requests the table once; returns `None` if a change came between its parts.
fn dump_once() -> io::Result<Option<Vec<Association>>> {
    let socket = open()?;
    let mut request = [0; 16];
    let mut header = NetlinkHeader::default();
    header.length = request.len() as u32;
    header.message_type = XFRM_MSG_GETSA;
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    netlink_packet_core::Emitable::emit(&header, &mut request);
    socket.send_to(&request, &SocketAddr::new(0, 0), 0)?;
    let mut told = Vec::new();
    let mut buffer = Vec::with_capacity(DATAGRAM);
    let mut whole = true;
    loop {
        if !receive(&socket, &mut buffer)? {
            continue;
        }
        // Flags stand behind length and type (netlink(7)).
        let flags =
            buffer.get(6..8).and_then(|two| two.first_chunk()).map(|two| u16::from_ne_bytes(*two));
        whole &= flags.is_none_or(|flags| flags & NLM_F_DUMP_INTR == 0);
        for news in read(&buffer) {
            match news.map_err(|e| io::Error::other(format!("what the kernel tells: {e}")))? {
                News::There(association) => told.push(*association),
                News::End => return Ok(whole.then_some(told)),
                News::Refused(errno) => return Err(io::Error::from_raw_os_error(errno)),
                News::Gone(_) | News::Flushed | News::Other => {}
            }
        }
    }
}

/// Reads a datagram over the one before; whether it is the kernel's.
fn receive(socket: &Socket, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.clear();
    let (length, from) = socket.recv_from(buffer, libc::MSG_TRUNC)?;
    if length > DATAGRAM {
        return Err(io::Error::other(format!("a datagram of {length} bytes, expected {DATAGRAM}")));
    }
    Ok(from.port_number() == 0)
}
