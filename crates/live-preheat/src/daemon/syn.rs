//! Handshakes as announcements: a SYN comes a round trip before its request.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use halfwink_live::descriptor::{bind_packet, set_option, socket};
use halfwink_live::sys;

/// A packet socket that hears the SYNs of one port, and nothing else.
#[derive(Debug)]
pub struct Syn(OwnedFd);

impl Syn {
    /// Hears those of an interface (0: of all) for a port, over IPv4.
    ///
    /// # Errors
    /// What is missing, in one line.
    pub fn open(interface: u32, port: u16) -> Result<Syn, String> {
        let why = |e: std::io::Error| match e.raw_os_error() {
            Some(libc::EPERM) => "hearing handshakes: needs root or CAP_NET_RAW".to_owned(),
            _ => format!("hearing handshakes: {e}"),
        };
        let fd = socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK).map_err(why)?;
        let mut filter = filter(port);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        set_option(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program).map_err(why)?;
        bind_packet(&fd, interface, libc::ETH_P_IP).map_err(why)?;
        Ok(Syn(fd))
    }

    /// Takes what has come. How many.
    #[must_use]
    pub fn drain(&self) -> u64 {
        let mut found = 0;
        let mut byte = 0u8;
        let fd = self.0.as_raw_fd() as u64;
        // SAFETY: the kernel writes at most one byte; the rest of a packet is dropped.
        while unsafe { sys::call3(libc::SYS_read, fd, &raw mut byte as u64, 1) } >= 0 {
            found += 1;
        }
        found
    }
}

impl AsRawFd for Syn {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Returns a filter on packets from their IPv4 header on: incoming, TCP, no fragment, to the port,
/// SYN without ACK.
fn filter(port: u16) -> [libc::sock_filter; 14] {
    const TYPE: u32 = -4096i32 as u32 + 4;
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |size: u32, at| op(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
    let index = |size: u32, at| op(libc::BPF_LD | size | libc::BPF_IND, 0, 0, at);
    let equal = |k, jt, jf| op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, k);
    let set = |k, jt, jf| op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, jt, jf, k);
    [
        // What goes out of an interface is heard too; on the loopback device both ways.
        load(libc::BPF_B, TYPE),
        equal(libc::PACKET_OUTGOING as u32, 10, 0),
        load(libc::BPF_B, 9),
        equal(libc::IPPROTO_TCP as u32, 0, 8),
        load(libc::BPF_H, 6),
        set(0x1fff, 6, 0),
        op(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        index(libc::BPF_H, 2),
        equal(u32::from(port), 0, 3),
        index(libc::BPF_B, 13),
        // SYN, and of the flags beside it no ACK and no RST.
        op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0x16),
        equal(0x02, 1, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn only_handshakes_of_the_port_are_heard() {
        let (listener, other) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = listener.local_addr().unwrap().port();
        let Some(syn) = crate::skipped(Syn::open(0, port)) else { return };
        let mut streams = Vec::new();
        for n in 1..=3 {
            streams.push(TcpStream::connect(other.local_addr().unwrap()).unwrap());
            assert_eq!(syn.drain(), 0, "another port");
            streams.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
            assert_eq!(syn.drain(), 1, "handshake {n}");
        }
        drop(streams);
        assert_eq!(syn.drain(), 0, "ends of connections");
    }
}
