//! Listening sockets that go: their server stops or restarts (Gottschlag 2016, Sec 4.2).
//!
//! A program at the raw tracepoint `inet_sock_set_state`, which counts, by port, sockets that leave
//! `LISTEN`. It goes with its descriptors.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use halfwink_live::bpf::{map_memory, Instruction, Map};

use super::call::{attach, program};
use super::code::{Code, Helper, DOUBLE, FRAME, NOT_EQUAL, WORD};

const PORTS: usize = 1 << 16;
const LISTEN: i32 = 10;
const CLOSED: i32 = 7;
/// Offset of `skc_num`, the local port in the order of the host, in `struct sock_common`: behind
/// two addresses, a hash and the other port, since Linux 3.9. `open` tries whether it is there.
const PORT_AT: i32 = 14;

/// Counters of closed listening sockets, by port.
#[derive(Debug)]
pub struct Sockets {
    counts: *const AtomicU32,
    _map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
}

// SAFETY: what it points to is a mapping of atomics, which lasts as long as the process.
unsafe impl Send for Sockets {}
// SAFETY: see above.
unsafe impl Sync for Sockets {}

impl Sockets {
    /// Counts from now on.
    ///
    /// # Errors
    /// What is missing, in one line; that a socket of our own was not seen to go.
    pub fn open() -> Result<Sockets, String> {
        let why = |e: std::io::Error| format!("watching sockets by BPF: {e}");
        let map = Map::shared(4 * PORTS).map_err(why)?;
        let counts = map_memory(&map, 4 * PORTS).map_err(why)?.cast();
        let program = program(&code(map.as_raw_fd())).map_err(why)?;
        let link = attach(&program, c"inet_sock_set_state").map_err(why)?;
        let sockets = Sockets { counts, _map: map, _program: program, _link: link };
        let own = listener().map_err(why)?;
        let port = own.local_addr().map_err(why)?.port();
        let before = sockets.gone(port);
        drop(own);
        if sockets.gone(port) == before {
            return Err("watching sockets by BPF: a socket of our own went unseen".to_owned());
        }
        Ok(sockets)
    }

    /// Times that a listening socket of this port has gone.
    #[must_use]
    pub fn gone(&self, port: u16) -> u32 {
        // SAFETY: the mapping holds a count for each port.
        unsafe { &*self.counts.add(usize::from(port)) }.load(Ordering::Relaxed)
    }
}

/// A listener on a port by number. (One whose port the kernel chose gives that back before the
/// tracepoint.)
fn listener() -> std::io::Result<TcpListener> {
    let any = TcpListener::bind("127.0.0.1:0")?;
    let address = any.local_addr()?;
    drop(any);
    TcpListener::bind(address)
}

/// Arguments of the tracepoint: the socket, its old state, its new one.
fn code(map: RawFd) -> Vec<Instruction> {
    let mut code = Code::default();
    let end = code.label();
    code.load(DOUBLE, 2, 1, 8);
    code.jump_if(NOT_EQUAL, 2, LISTEN, end);
    // A connection begins as a copy of its listener, and leaves that state too.
    code.load(DOUBLE, 2, 1, 16);
    code.jump_if(NOT_EQUAL, 2, CLOSED, end);
    code.load(DOUBLE, 3, 1, 0);
    code.add_number(3, PORT_AT);
    code.set(1, 0);
    code.store(WORD, FRAME, -8, 1);
    code.copy(1, FRAME);
    code.add_number(1, -8);
    code.set(2, 2);
    code.call(Helper::ReadKernel);
    code.load(WORD, 6, FRAME, -8);
    code.and(6, (PORTS - 1) as i32);
    code.shift(6, 2);
    code.map_value(7, map);
    code.add(7, 6);
    code.load(WORD, 1, 7, 0);
    code.add_number(1, 1);
    code.store(WORD, 7, 0, 1);
    code.here(end);
    code.exit();
    code.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_goes_is_seen_and_a_connection_is_not() {
        let Some(sockets) = crate::skipped(Sockets::open()) else { return };
        let listener = listener().unwrap();
        let port = listener.local_addr().unwrap().port();
        let before = sockets.gone(port);
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        drop((listener.accept().unwrap(), client));
        assert_eq!(sockets.gone(port), before);
        drop(listener);
        assert_eq!(sockets.gone(port), before + 1);
    }
}
