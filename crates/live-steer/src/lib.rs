//! A proxy that steers requests to a small and a big machine, or to an ordered set of them, by the
//! very policies of the simulated servers (Niccolini 2012, ch. 3), and sends them to sleep.
//!
//! ```text
//!  clients ──▶ connection ──▶ policy: Send ──▶ queue ──▶ workers ──▶ machine
//!  HTTP/1.1      parsed,        │    ▲                                 │
//!  HTTP/2        held           │    └──────── Finish ◀────────────────┘
//!  TCP                          └─ Wake, Sleep ──▶ keeper ──▶ power
//! ```
//!
//! * A thread has a runtime, a listener (`SO_REUSEPORT`) and a pool of its own; they share one
//!   lock, taken at each arrival and each end.
//! * Nothing is lost through a hand-over: what was sent to a machine waits in a bounded queue until
//!   it is awake; what is in service when it goes down stands still.
//! * HTTP/1.1 is framed here, on `httparse`: hyper resolves a message with both length and transfer
//!   coding in silence, so that a proxy on it cannot refuse it. HTTP/2 is framed by h2.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod access;
mod address;
mod announce;
pub mod body;
mod budget;
mod config;
#[cfg(test)]
mod config_tests;
mod dispatch;
#[cfg(test)]
mod dispatch_tests;
mod download;
#[cfg(test)]
mod drain_tests;
mod exchange;
mod frames;
mod group;
#[cfg(test)]
mod group_tests;
pub mod head;
mod health;
mod http1;
mod http2;
mod interim;
#[cfg(test)]
mod interim_tests;
mod keeper;
mod limits;
mod machine;
mod memory;
mod meter;
mod pace;
mod pipe;
mod power;
mod ranges;
mod report;
#[cfg(test)]
mod rest_tests;
mod shared;
#[cfg(test)]
mod stand_in_tests;
mod steps;
mod stream;
mod tcp;
mod threads;
mod tls;
mod upload;
mod watch;

pub use access::{AccessLog, Format, Told};
pub use announce::{Announce, Announcer};
pub use config::{Config, Headers, Mode, DEFAULT_POLICY};
pub use limits::Limits;
pub use memory::Waiting;
pub use meter::{Residency, State, Watts};
pub use report::{MachineReport, Modelled, Report};
pub use stream::Buffer;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use halfwink_eventlog::{Header, Tap};
use halfwink_live::program::config::{changes, refuse};
use halfwink_live::program::stand_in::Deciding;
use halfwink_policy::steering::{Action, Event, SteeringPolicy};

use access::Access;
use config::ms;
use dispatch::Dispatch;
use machine::Machine;
use shared::{Outcome, Shared};

/// Time for the rejections of overdue requests to be written and read.
const REFUSING: Duration = Duration::from_millis(500);

/// Log of its policy's events and actions.
pub type EventLog = Tap<Event, Action>;
/// A policy that takes over, with the header of its part of the log.
pub type Next = (SteeringPolicy, Header);
/// A policy, and the one that takes over if it fails.
pub type Decides = Deciding<SteeringPolicy, Next>;

/// Returns no watts, for each machine of a description.
fn unmodelled(config: &Config) -> Vec<Watts> {
    config.machines().map(|_| Watts::default()).collect()
}

/// A proxy at work. Dropping it stops it.
pub struct Steer {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Between which moments it did.
    began: [Instant; 2],
    /// A model gives watts.
    modelled: bool,
    /// Locked while it is being stopped.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Steer {
    /// Listens and serves. `watts`: those of each machine by a model; without a model energy is not
    /// reported.
    ///
    /// # Errors
    /// What is wrong or missing, in one line.
    pub fn start(
        config: Config,
        policy: impl Into<Decides>,
        watts: Option<Vec<Watts>>,
        log: Option<EventLog>,
    ) -> Result<Steer, String> {
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let (modelled, watts) = (watts.is_some(), watts.unwrap_or_else(|| unmodelled(&config)));
        let machines = config.sides().zip(watts);
        let machines =
            machines.map(|(side, watts)| Machine::described(&config, side, watts)).collect();
        let (listeners, address) = threads::listen(config.listen, config.threads)
            .map_err(|e| format!("listen {}: {e}", config.listen))?;
        budget::raise(&config);
        let access = config.access_log.as_ref().map(Access::begin).transpose()?;
        let begins = Instant::now();
        let dispatch = Dispatch::new(policy, log, machines, config.health.fall);
        let began = [begins, Instant::now()];
        let shared = Arc::new(Shared::new(dispatch, config, tls, access));
        shared.config().exposed().iter().for_each(|line| shared.warn(line));
        let threads = Mutex::new(threads::start(&shared, listeners)?);
        Ok(Steer { shared, address, began, modelled, threads })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes limits, machines, certificate, watts, and with `policy` another policy, whose lines
    /// stand in the log under its header; no request is lost. What has changed, by path.
    ///
    /// # Errors
    /// What is wrong; then nothing changes.
    pub fn reload(
        &self,
        config: Config,
        watts: Option<Vec<Watts>>,
        policy: Option<(Decides, Header)>,
    ) -> Result<Vec<String>, String> {
        let changes = changes(&*self.shared.config(), &config);
        refuse(&changes, &config::FIXED)?;
        // Joules since the start would be those of a part of the run.
        if watts.is_some() != self.modelled {
            return Err("machine: watts can only come or go by a restart".to_owned());
        }
        let fixed = |config: &Config| -> Vec<(String, usize)> {
            let of = |side| (config.name(side).to_owned(), config.machine(side).count_levels());
            config.sides().map(of).collect()
        };
        // A machine that sleeps at a level wakes by the mechanism of that level.
        if fixed(&config) != fixed(&self.shared.config()) {
            let message = "machines: they and their levels of sleep can only come, go or change \
                           places by a restart";
            return Err(message.to_owned());
        }
        let watts = watts.unwrap_or_else(|| unmodelled(&config));
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        self.change_access(config.access_log.as_ref())?;
        *self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls;
        config.exposed().iter().for_each(|line| self.shared.warn(line));
        budget::raise(&config);
        self.shared.set_config(config);
        self.shared.dispatch.change(&self.shared.config(), &watts, policy);
        Ok(changes)
    }

    fn change_access(&self, log: Option<&AccessLog>) -> Result<(), String> {
        let mut access = self.shared.access.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*access, log) {
            (Some(access), Some(log)) => access.change(log),
            (None, Some(log)) => {
                *access = Some(Access::begin(log)?);
                Ok(())
            }
            (_, None) => {
                access.take().iter().for_each(|access| access.end());
                Ok(())
            }
        }
    }

    /// Opens the access log by its name again; false if there is none.
    ///
    /// # Errors
    /// The file cannot be opened; then lines go to the old one.
    pub fn reopen(&self) -> Result<bool, String> {
        self.shared.access().map_or(Ok(false), |access| access.reopen().map(|()| true))
    }

    /// The description in use.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.shared.config()
    }

    /// Stops: answers all that clients have sent so far, read or not, and refuses (503) what has no
    /// answer after `drain_ms`; takes no more requests; wakes who sleeps. Returns once all is done.
    pub fn stop(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.is_empty() {
            return;
        }
        let until = Instant::now() + ms(self.shared.config().limits.drain_ms);
        self.shared.drain(until);
        while !self.is_drained() && Instant::now() < until + REFUSING {
            // Whoever began to wait meanwhile hears it too.
            self.shared.stop.notify_waiters();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.shared.drained.store(true, Ordering::Release);
        self.shared.stop.notify_waiters();
        while threads.iter().any(|t| !t.is_finished()) {
            self.shared.stop.notify_waiters();
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        self.shared.access().iter().for_each(|access| access.end());
        let left = self.shared.under_way();
        self.shared.counts[Outcome::Aborted as usize].fetch_add(left, Ordering::Relaxed);
    }

    fn is_drained(&self) -> bool {
        // In this order: a connection is counted before its listener is gone.
        self.shared.listening.load(Ordering::Acquire) == 0
            && self.shared.connections.load(Ordering::Acquire) == 0
    }

    /// Returns whether all its threads are running, and nothing stops it.
    #[must_use]
    pub fn is_running(&self) -> bool {
        // Locked: it is being stopped.
        let Ok(threads) = self.threads.try_lock() else { return false };
        !threads.is_empty() && threads.iter().all(|t| !t.is_finished())
    }

    /// Returns the number of policies in files that failed.
    #[must_use]
    pub fn policy_faults(&self) -> u64 {
        self.shared.dispatch.with(|inner, _| inner.watch.faults().policy_faults)
    }

    /// Returns the report up to now.
    #[must_use]
    pub fn report(&self) -> Report {
        let report = report::of(&self.shared, &self.address.to_string(), self.began);
        if self.modelled {
            report
        } else {
            report.without_energy()
        }
    }
}

impl Drop for Steer {
    fn drop(&mut self) {
        self.stop();
    }
}
