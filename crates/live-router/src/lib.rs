//! A router of real packets (Niccolini 2012, Sec 4.4) whose cores are run by the very policies of
//! the simulated one.
//!
//! ```text
//!  sockets ──▶ receiver ──▶ redirect table ──▶ queues ──▶ workers: forward ──▶ sockets
//!  AF_XDP        │ worker 0      ▲  128 entries            │ waiting, empty
//!  AF_PACKET     └── moves, parks and wakes ◀── policy ◀───┘
//!  TAP                                            └──▶ spin, nap, sleep
//! ```
//!
//! * A worker is a thread with a queue; a worker without frames sleeps (futex, or `ppoll` of the
//!   sockets), and costs nothing.
//! * The redirect table is in software: the first worker empties the sockets and spreads frames
//!   over the
//!   queues. So no frame is lost or overtaken when an entry moves, whatever the interfaces can do.
//! * Times are measured. Watts are not: the virtual power meter multiplies measured times by a
//!   model's
//!   watts.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod app;
mod bpf;
mod claim;
mod config;
mod control;
mod interface;
mod keeper;
mod kernel;
mod keys;
mod loader;
mod meter;
mod pool;
mod port;
mod ports;
mod queue;
mod receiver;
mod report;
mod standing;
mod sync;
mod user;
mod waiter;
mod worker;

pub use app::App;
pub use config::{Config, Forward, DEFAULT_POLICY};
pub use interface::Interface;
pub use keys::{read as read_xfrm, Association as XfrmAssociation, Malformed, Name, News};
pub use keys::{Keys, Tunnel};
pub use meter::Residency;
pub use port::Io;
pub use report::{By, PortReport, Report, WorkerReport};

use std::time::Instant;

use halfwink_eventlog::Header;
use halfwink_live::program::stand_in::Deciding;
use halfwink_policy::scaling::ScalingPolicy;

pub use control::{EventLog, Next};
use kernel::Forwarding;
use user::UserSpace;

/// Measures the cost of each element of the data plane on this machine: medians of `repeats`
/// batches.
///
/// # Errors
/// None that is known.
pub fn costs(repeats: usize) -> Result<Vec<halfwink_dataplane::costs::Cost>, String> {
    let start = Instant::now();
    let mut clock = || start.elapsed().as_nanos() as u64;
    halfwink_dataplane::costs::measure(&mut clock, repeats).map_err(|e| e.to_string())
}

/// Returns the features that are available here.
#[must_use]
pub fn features() -> Vec<halfwink_live::probe::Feature> {
    let mut found = port::features();
    found.push(keys::feature());
    found
}

/// A router at work. Dropping it stops it.
pub struct Router(Inner);

enum Inner {
    /// Threads of this process forward.
    User(Box<UserSpace>),
    /// The kernel forwards, and a thread of this process looks at its counters.
    Kernel(Box<Forwarding>),
}

impl Router {
    /// Opens all ports and starts forwarding.
    ///
    /// # Errors
    /// What is wrong or missing, in one line.
    pub fn start(
        config: Config,
        policy: impl Into<Deciding<ScalingPolicy, Next>>,
        log: Option<EventLog>,
    ) -> Result<Router, String> {
        let policy = policy.into();
        let inner = match config.forward {
            Forward::UserSpace => Inner::User(Box::new(UserSpace::start(config, policy, log)?)),
            _ => Inner::Kernel(Box::new(Forwarding::start(config, policy, log)?)),
        };
        Ok(Router(inner))
    }

    /// Takes routes, addresses, neighbours and application from a new description, and another
    /// policy, if there is one; no packet is lost. Returns what has changed, by path.
    ///
    /// # Errors
    /// What is wrong, or can only change by a restart; then nothing changes.
    pub fn reload(
        &self,
        config: Config,
        policy: Option<(Deciding<ScalingPolicy, Next>, Header)>,
    ) -> Result<Vec<String>, String> {
        let changed = match &self.0 {
            Inner::User(router) => router.reload(config),
            Inner::Kernel(router) => router.reload(config),
        }?;
        if let Some((policy, header)) = policy {
            match &self.0 {
                Inner::User(router) => router.replace(policy, header),
                Inner::Kernel(router) => router.control().replace(policy, header),
            }
        }
        Ok(changed)
    }

    /// Returns the number of faults of policies in files.
    #[must_use]
    pub fn policy_faults(&self) -> u64 {
        let control = match &self.0 {
            Inner::User(router) => &router.common.control,
            Inner::Kernel(router) => router.control(),
        };
        control.faults().policy_faults
    }

    /// The description in use.
    #[must_use]
    pub fn config(&self) -> Config {
        match &self.0 {
            Inner::User(router) => router.config(),
            Inner::Kernel(router) => router.config(),
        }
    }

    /// Stops: what has arrived is forwarded, nothing more is taken. Returns once all is done.
    pub fn stop(&mut self) {
        match &mut self.0 {
            Inner::User(router) => router.stop(),
            Inner::Kernel(router) => router.stop(),
        }
    }

    /// Returns whether all threads are running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match &self.0 {
            Inner::User(router) => router.is_running(),
            Inner::Kernel(router) => router.is_running(),
        }
    }

    /// Returns the report up to now.
    #[must_use]
    pub fn report(&self) -> Report {
        match &self.0 {
            Inner::User(router) => router.report(),
            Inner::Kernel(router) => router.report(),
        }
    }
}
