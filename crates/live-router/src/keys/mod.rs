//! Keys that a daemon for IKE agrees upon with the other end, taken from where it puts them: the
//! kernel's table of security associations (XFRM).
//!
//! A new association is used for sending at once, and for receiving beside the old ones; one that
//! the daemon deletes, or that the kernel says has expired, is used no more.

mod message;
mod socket;
mod table;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use halfwink_live::probe::Feature;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use message::{read, Association, Malformed, Name, News};
pub(super) use table::Table;

use super::loader::Loader;
use super::waiter::Bell;
use socket::{Events, Heard};

/// After a change, until numbers of associations that are gone are given up: packets that are under
/// way with them have left by then.
const LINGER: Duration = Duration::from_secs(1);
/// After the kernel's table could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// Source of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// The description holds them.
    #[default]
    Given,
    /// The kernel's table of security associations holds them.
    Kernel,
}

/// A tunnel whose keys are the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// Address of this router.
    pub local: IpAddr,
    /// Address of the other end.
    pub peer: IpAddr,
    /// Networks behind the other end.
    #[serde(default)]
    pub selectors: Vec<IpNet>,
    /// Only associations with this number: to tell several tunnels to one peer apart.
    pub reqid: Option<u32>,
}

/// Mistakes in a list of tunnels; `own`: this router's addresses.
pub(super) fn check(tunnels: &[Tunnel], own: &[IpAddr]) -> Result<(), String> {
    for (n, tunnel) in tunnels.iter().enumerate() {
        let Tunnel { local, peer, .. } = tunnel;
        if local.is_ipv4() != peer.is_ipv4() {
            return Err(format!("found {local} and {peer}, expected ends of one family"));
        }
        if !own.contains(local) {
            return Err(format!("found local {local}, expected an address of a [[port]]"));
        }
        if own.contains(peer) {
            return Err(format!("found peer {peer}, expected an address that is not ours"));
        }
        let alike = |other: &&Tunnel| {
            (other.local, other.peer) == (*local, *peer)
                && (other.reqid.is_none() || tunnel.reqid.is_none() || other.reqid == tunnel.reqid)
        };
        if tunnels[..n].iter().any(|other| alike(&other)) {
            return Err(format!(
                "found two tunnels from {local} to {peer}, expected a reqid of its own for each"
            ));
        }
    }
    Ok(())
}

/// Returns the feature line for `halfwink doctor`.
pub(super) fn feature() -> Feature {
    let refused = socket::dump().err().map(|e| explain(&e));
    ("router: keys of the kernel", refused.unwrap_or_default())
}

fn explain(error: &io::Error) -> String {
    let needed = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => ": needs CAP_NET_ADMIN",
        Some(libc::EPROTONOSUPPORT) => ": this kernel has no XFRM",
        _ => "",
    };
    format!("the kernel's security associations: {error}{needed}")
}

/// Events of the kernel, before a thread reads them.
pub(super) struct Opened(Events);

/// The kernel's table as it is, and all that happens to it from now on.
///
/// # Errors
/// The kernel has no XFRM, or does not allow it.
pub(super) fn open() -> Result<(Opened, Table), String> {
    // Events first: what changes meanwhile is in the table, in the events, or in both.
    let opened = Events::open().map_err(|e| explain(&e))?;
    let mut table = Table::default();
    table.replace(socket::dump().map_err(|e| explain(&e))?);
    Ok((Opened(opened), table))
}

/// The thread that follows the kernel's table. Dropping it ends it.
pub(super) struct Follower {
    bell: Arc<Bell>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts a thread that keeps the router's keys equal to the kernel's table.
    pub(super) fn start(opened: Opened, loader: Arc<Loader>) -> Result<Follower, String> {
        let bell = Arc::new(Bell::new().map_err(|e| format!("eventfd: {e}"))?);
        let stopping = Arc::new(AtomicBool::new(false));
        let mut follow = Follow {
            events: opened.0,
            loader,
            bell: bell.clone(),
            stopping: stopping.clone(),
            forget: None,
            retry: None,
        };
        let thread = std::thread::Builder::new().name("esp-keys".to_owned());
        let thread = thread.spawn(move || follow.run());
        let thread = Some(thread.map_err(|e| format!("thread of keys: {e}"))?);
        Ok(Follower { bell, stopping, thread })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

struct Follow {
    events: Events,
    loader: Arc<Loader>,
    bell: Arc<Bell>,
    stopping: Arc<AtomicBool>,
    /// Time at which removed associations are dropped.
    forget: Option<Instant>,
    /// Time of the next request for the whole table.
    retry: Option<Instant>,
}

impl Follow {
    fn run(&mut self) {
        let mut ends = self.loader.next_end();
        while !self.stopping.load(Ordering::Acquire) {
            let due = [ends, self.forget, self.retry].into_iter().flatten().min();
            self.events.wait(&self.bell, due);
            let now = Instant::now();
            if self.heard(now) || ends.is_some_and(|end| end <= now) {
                self.loader.keys_changed();
                self.forget = Some(now + LINGER);
            }
            if self.forget.is_some_and(|at| at <= now) {
                self.forget = None;
                self.loader.forget();
            }
            ends = self.loader.next_end();
        }
    }

    /// Reads events, and returns whether the table has changed.
    fn heard(&mut self, now: Instant) -> bool {
        if let Heard::News(news) = self.events.take() {
            if self.retry.is_none_or(|at| at > now) {
                return self.loader.with_table(|table| {
                    news.into_iter().fold(false, |changed, news| table.take(news) | changed)
                });
            }
        }
        match socket::dump() {
            Ok(told) => {
                self.retry = None;
                self.loader.with_table(|table| table.replace(told));
                true
            }
            Err(e) => {
                if self.retry.is_none() {
                    halfwink_live::say!("halfwink: {}", explain(&e));
                }
                self.retry = Some(now + RETRY);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
