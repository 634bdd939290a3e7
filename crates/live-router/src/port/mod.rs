//! Ports: how frames come in and go out. A port has lanes, one for each queue; each lane has a
//! receiving and a sending half, which may be in different threads.

mod packet;
mod tap;
mod xdp;

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use super::interface::{bring_up, Interface};
use super::pool::{Pool, Slot, MTU};
use halfwink_live::descriptor::socket;

/// Most chunks that a lane holds: in its rings, on their way in and out.
pub const CHUNKS_OF_A_LANE: u32 = 2 * xdp::RING + 256;

/// Interface to the kernel for a port's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Io {
    /// AF_XDP in the driver, else AF_XDP behind it, else AF_PACKET: the first that is allowed.
    #[default]
    Auto,
    /// AF_XDP with the program in the driver.
    AfXdp,
    /// AF_XDP with the program behind the driver, as every driver can.
    AfXdpGeneric,
    /// Uses a packet socket.
    AfPacket,
    /// A TAP device, which is made.
    Tap,
}

impl Io {
    /// Returns its name in descriptions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Io::Auto => "auto",
            Io::AfXdp => "af-xdp",
            Io::AfXdpGeneric => "af-xdp-generic",
            Io::AfPacket => "af-packet",
            Io::Tap => "tap",
        }
    }
}

/// The receiving half of a lane.
pub trait Receive: Send {
    /// Takes up to `most` frames that are there; does not wait.
    ///
    /// # Errors
    /// If the interface is gone.
    fn receive(&mut self, pool: &Pool, most: usize, into: &mut VecDeque<Slot>)
        -> io::Result<usize>;

    /// Returns the descriptor to wait for.
    fn descriptor(&self) -> RawFd;

    /// Frames that the kernel has dropped for want of room since this half was opened.
    fn lost(&mut self) -> u64;

    /// Frames that were longer than a chunk, and came cut off: a sender with a longer MTU, or
    /// segments that the kernel has put together (GRO, TSO).
    fn too_long(&self) -> u64 {
        0
    }

    /// Ends it. Returns the chunks that it had, which may be used when all halves of the port have
    /// ended.
    fn close(self: Box<Self>) -> Vec<Slot>;
}

/// The sending half of a lane.
pub trait Transmit: Send {
    /// Sends what it can; what is left in `slots` could not be sent. Sent chunks find their own way
    /// back to the pool.
    ///
    /// # Errors
    /// If the interface is gone.
    fn send(&mut self, pool: &Pool, slots: &mut VecDeque<Slot>) -> io::Result<()>;

    /// Ends the half, as [`Receive::close`] does.
    fn close(self: Box<Self>) -> Vec<Slot> {
        Vec::new()
    }
}

/// A lane that was opened.
pub struct Lane {
    /// Receiving half of the lane.
    pub receiver: Box<dyn Receive>,
    /// Sending half of the lane.
    pub sender: Box<dyn Transmit>,
}

/// A port that was opened.
pub struct Opened {
    /// Lanes of the port, by queue.
    pub lanes: Vec<Lane>,
    /// Interface to the kernel that was opened.
    pub io: Io,
    /// Properties of the network interface.
    pub interface: Interface,
    /// Resources that must live as long as the lanes.
    pub keep: Option<Box<dyn std::any::Any + Send>>,
}

/// Opens an interface; `Io::Tap` makes it.
///
/// # Errors
/// Why not, in one line.
pub fn open(name: &str, io: Io, queues: Option<u32>, pool: &Pool) -> Result<Opened, String> {
    match io {
        Io::Tap => tap::open(name, pool).map_err(|e| explain(name, io, &e)),
        Io::AfPacket => {
            found(name, io).and_then(|i| packet::open(i).map_err(|e| explain(name, io, &e)))
        }
        Io::AfXdp | Io::AfXdpGeneric => found(name, io).and_then(|interface| {
            let generic = io == Io::AfXdpGeneric;
            xdp::open(interface, generic, queues, pool).map_err(|e| explain(name, io, &e))
        }),
        Io::Auto => {
            let one = |io| open(name, io, queues, pool);
            one(Io::AfXdp).or_else(|_| one(Io::AfXdpGeneric)).or_else(|_| one(Io::AfPacket))
        }
    }
}

/// Returns the features of this machine that routing uses, with reasons for missing ones: AF_XDP
/// and AF_PACKET sockets, TAP devices.
#[must_use]
pub fn features() -> Vec<halfwink_live::probe::Feature> {
    let xdp = super::bpf::may_load().and_then(|()| socket(libc::AF_XDP, libc::SOCK_RAW));
    let packet = socket(libc::AF_PACKET, libc::SOCK_RAW);
    let tap = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    let why = |refused: Option<io::Error>| refused.map(|e| e.to_string()).unwrap_or_default();
    vec![
        ("router: AF_XDP sockets", why(xdp.err())),
        ("router: packet sockets", why(packet.err())),
        ("router: TAP devices", why(tap.err())),
    ]
}

fn found(name: &str, io: Io) -> Result<Interface, String> {
    bring_up(name).or_else(|e| match e.raw_os_error() {
        // Without the right to bring it up it may be up already.
        Some(libc::EPERM) => Ok(()),
        _ => Err(explain(name, io, &e)),
    })?;
    let interface = Interface::find(name).map_err(|e| explain(name, io, &e))?;
    if interface.mtu > MTU {
        let found = interface.mtu;
        return Err(format!(
            "{name}: found an MTU of {found}, expected at most {MTU}: longer frames do not fit and \
             would vanish; run: ip link set {name} mtu {MTU}"
        ));
    }
    Ok(interface)
}

fn explain(name: &str, io: Io, error: &io::Error) -> String {
    let what = match io {
        Io::Auto => "",
        Io::AfXdp | Io::AfXdpGeneric => " by AF_XDP",
        Io::AfPacket => " by AF_PACKET",
        Io::Tap => " as a TAP device",
    };
    let needed = match (error.raw_os_error(), io) {
        (Some(libc::EPERM | libc::EACCES), Io::AfXdp | Io::AfXdpGeneric) => {
            ": needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (a user namespace has only \
             af-packet and tap)"
        }
        (Some(libc::EPERM | libc::EACCES), Io::AfPacket | Io::Auto) => ": needs CAP_NET_RAW",
        (Some(libc::EPERM | libc::EACCES), Io::Tap) => ": needs CAP_NET_ADMIN",
        (Some(libc::EBUSY), _) => ": somebody else has it",
        (Some(libc::ENOBUFS), Io::AfXdp | Io::AfXdpGeneric) => {
            ": needs more locked memory (ulimit -l unlimited) or CAP_IPC_LOCK"
        }
        _ => "",
    };
    format!("interface {name}{what}: {error}{needed}")
}

/// A kernel's number as an error.
fn last() -> io::Error {
    io::Error::last_os_error()
}
