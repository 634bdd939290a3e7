//! Descriptors and sockets: what routers, generators and sinks ask the kernel for alike.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Takes a descriptor that the kernel has just made.
///
/// # Errors
///
/// The calling thread's last error, if `fd` is negative.
///
/// # Safety
///
/// `fd` must be the kernel's latest answer to the caller, without another owner.
pub unsafe fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: by the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Locks a file (`flock`) until it is closed; `how` as the call takes it.
///
/// # Errors
/// The system's; with `LOCK_NB`, `WouldBlock` if another description of the file has it locked.
pub fn lock(file: &File, how: libc::c_int) -> io::Result<()> {
    // SAFETY: a descriptor that is open, and plain numbers.
    if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Gives a file its length, and room for all of it: what turns out to be missing when a mapping is
/// written ends the program that writes (`SIGBUS`).
///
/// # Errors
/// As the file system says, and how much was wanted.
pub fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    let length = i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // SAFETY: plain numbers.
    let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
    if error == 0 {
        return Ok(());
    }
    let why = io::Error::from_raw_os_error(error);
    let text = format!("expected room for {bytes} bytes that processes share: {why}");
    Err(io::Error::new(why.kind(), text))
}

/// A fresh socket.
///
/// # Errors
/// As the kernel says.
pub fn socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    unsafe { owned(libc::socket(family, kind | libc::SOCK_CLOEXEC, 0)) }
}

/// Sets an option of a socket.
///
/// # Errors
/// As the kernel says.
pub fn set_option<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of the value.
    done(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, core::ptr::from_ref(value).cast(), bytes)
    })
}

/// Ties a packet socket to an interface, to receive a protocol; zero for none.
///
/// # Errors
/// As the kernel says.
pub fn bind_packet(fd: &OwnedFd, interface: u32, protocol: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeroes are a valid address; the kernel reads as many bytes as it has.
    done(unsafe {
        let mut address: libc::sockaddr_ll = core::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = interface as i32;
        let bytes = size_of_val(&address) as libc::socklen_t;
        libc::bind(fd.as_raw_fd(), (&raw const address).cast(), bytes)
    })
}

/// Frames that found no room at a packet socket since this was last asked.
#[must_use]
pub fn packets_dropped(fd: &OwnedFd) -> u64 {
    // With its third version the kernel has a third word to tell.
    let mut found = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut bytes = size_of_val(&found) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes of the structure.
    unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut found).cast(),
            &raw mut bytes,
        )
    };
    u64::from(found.tp_drops)
}

/// An Ethernet address from text.
#[must_use]
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split(':').map(|part| u8::from_str_radix(part, 16).ok());
    let mut mac = [0; 6];
    for byte in &mut mac {
        *byte = parts.next()??;
    }
    parts.next().is_none().then_some(mac)
}

fn done(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_an_error() {
        assert!(socket(libc::AF_INET, -1).is_err());
        let fd = socket(libc::AF_INET, libc::SOCK_DGRAM).unwrap();
        set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &8192i32).unwrap();
        let refused = set_option(&fd, libc::SOL_PACKET, 1, &0i32).unwrap_err();
        assert!(refused.raw_os_error().is_some(), "{refused}");
    }
}
