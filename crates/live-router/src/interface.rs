//! What the kernel says of a network interface, in the network namespace of the caller.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;

use halfwink_live::descriptor::socket;

/// An interface that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Index of the interface.
    pub index: u32,
    /// Ethernet address of the interface.
    pub mac: [u8; 6],
    /// Longest IP packet, in bytes.
    pub mtu: u16,
    /// Number of receive queues.
    pub queues: u32,
    /// Whether it is up.
    pub up: bool,
}

impl Interface {
    /// Looks it up.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name here; else as the kernel says.
    pub fn find(name: &str) -> io::Result<Interface> {
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM)?;
        let mut request = request(name)?;
        let mut ask = |what: libc::c_ulong| {
            // SAFETY: these requests read the name and write the union of an `ifreq`.
            match unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &raw mut request) } {
                0 => Ok(request.ifr_ifru),
                _ => Err(missing(io::Error::last_os_error())),
            }
        };
        // SAFETY: the kernel has just filled the member that each request is documented to fill.
        let (index, mac, mtu, flags) = unsafe {
            (
                ask(libc::SIOCGIFINDEX)?.ifru_ifindex as u32,
                ask(libc::SIOCGIFHWADDR)?.ifru_hwaddr,
                ask(libc::SIOCGIFMTU)?.ifru_mtu,
                ask(libc::SIOCGIFFLAGS)?.ifru_flags,
            )
        };
        if mac.sa_family != libc::ARPHRD_ETHER {
            return Err(io::Error::other("expected an Ethernet interface"));
        }
        let queues = xdp::nic::NicIndex::new(index).queue_counts().map_or(1, |q| q.rx_count());
        Ok(Interface {
            index,
            mac: std::array::from_fn(|n| mac.sa_data[n] as u8),
            mtu: mtu.clamp(68, 65_535) as u16,
            queues: queues.max(1),
            up: i32::from(flags) & libc::IFF_UP != 0,
        })
    }
}

/// Brings an interface up.
///
/// # Errors
/// As the kernel says.
pub fn bring_up(name: &str) -> io::Result<()> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM)?;
    let mut request = request(name)?;
    // SAFETY: both requests read or write flags of an `ifreq`.
    unsafe {
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) != 0 {
            return Err(missing(io::Error::last_os_error()));
        }
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn missing(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENODEV) => io::Error::new(io::ErrorKind::NotFound, "no such interface here"),
        _ => error,
    }
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    let text = CString::new(name).map_err(|_| io::Error::other("a zero byte in the name"))?;
    let bytes = text.as_bytes_with_nul();
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if bytes.len() > request.ifr_name.len() || name.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "expected a name of 1 to 15 bytes"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_found() {
        for name in ["", "no-such-if0", "a-name-that-is-far-too-long"] {
            let error = Interface::find(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}: {error}");
        }
    }

    #[test]
    fn loopback_is_no_ethernet() {
        assert!(Interface::find("lo").unwrap_err().to_string().contains("Ethernet"));
    }
}
