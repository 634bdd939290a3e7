//! Tells the service manager what this program does: `sd_notify(3)`, over the datagram socket that
//! it names in `$NOTIFY_SOCKET`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The manager of this process, if it has one that wants to hear of it.
#[derive(Debug)]
pub(crate) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Longest time between two signs of life, if the manager waits for them.
    watchdog: Option<Duration>,
    told: Instant,
}

impl Manager {
    /// Finds it in the environment. A socket that cannot be reached is none: a program that runs is
    /// worth more than one that says so.
    pub(crate) fn find() -> Manager {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| address(name.as_bytes()));
        let socket = address.and_then(|to| Some((UnixDatagram::unbound().ok()?, to)));
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // Another process may have left its environment to this one.
        let is_ours = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|us| is_ours && *us > 0);
        let watchdog = watchdog.filter(|_| socket.is_some()).map(Duration::from_micros);
        Manager { socket, watchdog, told: Instant::now() }
    }

    /// Says that the program serves: what waits for it may start.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// Says that the program reads its description again, until it is ready.
    pub(crate) fn reloading(&self) {
        self.tell("RELOADING=1");
    }

    /// Says that the program ends.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The longest wait until the next sign of life is due: half of what the manager allows.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.watchdog.map(|most| (most / 2).saturating_sub(self.told.elapsed()))
    }

    /// All threads are alive: says so, if it is time.
    pub(crate) fn alive(&mut self) {
        if self.patience() == Some(Duration::ZERO) {
            self.tell("WATCHDOG=1");
            self.told = Instant::now();
        }
    }

    fn tell(&self, what: &str) {
        if let Some((socket, manager)) = &self.socket {
            // One that is gone hears nothing, and this goes on.
            let _ = socket.send_to_addr(what.as_bytes(), manager);
        }
    }
}

/// A path, or behind `@` a name in the abstract namespace.
fn address(name: &[u8]) -> Option<SocketAddr> {
    match name {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok(),
        // `vsock:` and others, which systemd uses for virtual machines.
        _ => None,
    }
}
