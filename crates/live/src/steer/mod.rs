//! A proxy that steers requests to a small and a big machine by the very policies of the simulated
//! hybrid server (Niccolini 2012, ch. 3), and sends both to sleep.
//!
//! ```text
//!  clients ──▶ connection ──▶ policy: Send ──▶ queue ──▶ workers ──▶ machine
//!  HTTP/1.1      parsed,        │    ▲                                 │
//!  HTTP/2        held           │    └──────── Finish ◀────────────────┘
//!  TCP                          └─ Wake, Sleep ──▶ keeper: freezer, signal, command
//! ```
//!
//! * A thread has a runtime, a listener (`SO_REUSEPORT`) and a pool of its own; they share one
//!   lock, taken at each arrival and each end.
//! * Nothing is lost through a hand-over: what was sent to a machine waits in a bounded queue until
//!   it is awake; what is in service when it goes down stands still.
//! * HTTP/1.1 is framed here, on `httparse`: hyper resolves a message with both length and transfer
//!   coding in silence, so that a proxy on it cannot refuse it. HTTP/2 is hyper's.

pub mod body;
mod config;
mod control;
mod dispatch;
#[cfg(test)]
mod dispatch_tests;
mod exchange;
pub mod head;
mod health;
mod http1;
mod http2;
mod keeper;
mod machine;
mod meter;
mod pipe;
mod power;
mod report;
mod shared;
mod steps;
mod stream;
mod tcp;
mod threads;
mod tls;
mod watch;

pub use config::{Config, Headers, Limits, Mode};
pub use control::{replay, Line};
pub use meter::{Residency, State};
pub use report::{Latency, MachineReport, Report};
pub use stream::Buffer;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use halfwink_policy::steering::SteeringPolicy;

use config::ms;
use dispatch::Dispatch;
use machine::Machine;
use shared::{Outcome, Shared};

/// A proxy at work. Dropping it stops it.
pub struct Steer {
    shared: Arc<Shared>,
    address: SocketAddr,
    log_lines: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Steer {
    /// Listens and serves; keeps a log of so many of its policy's events.
    ///
    /// # Errors
    /// What is wrong or missing, in one line.
    pub fn start(
        config: Config,
        policy: SteeringPolicy,
        log_lines: usize,
    ) -> Result<Steer, String> {
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let machines = [&config.small, &config.big].map(|m| Machine::new(m.workers, m.queue));
        let (listeners, address) = threads::listen(config.listen, config.threads)
            .map_err(|e| format!("listen {}: {e}", config.listen))?;
        let dispatch = Dispatch::new(policy, log_lines, machines, config.health.fall);
        let shared = Arc::new(Shared::new(dispatch, config, tls));
        let threads = threads::start(&shared, listeners)?;
        Ok(Steer { shared, address, log_lines, threads })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes limits, machines, certificate, and with `policy` another policy; no request is lost.
    ///
    /// # Errors
    /// What is wrong; then nothing changes.
    pub fn reload(&self, config: Config, policy: Option<SteeringPolicy>) -> Result<(), String> {
        let now = self.shared.config();
        let same = now.listen == config.listen
            && now.mode == config.mode
            && now.threads == config.threads
            && now.tls.is_some() == config.tls.is_some();
        if !same {
            let what = "listen, mode, threads, and whether there is TLS";
            return Err(format!("{what} can only change by a restart"));
        }
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        *self.shared.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls;
        let bounds = [&config.small, &config.big].map(|m| (m.workers, m.queue));
        let fall = config.health.fall;
        self.shared.set_config(config);
        self.shared.dispatch.change(bounds, fall, policy, self.log_lines);
        Ok(())
    }

    /// The description in use.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.shared.config()
    }

    /// Stops: takes no more requests, answers those under way, wakes who sleeps. Returns once all
    /// is done, or the time for it is over.
    pub fn stop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.shared.stopping.store(true, Ordering::Release);
        let until = Instant::now() + ms(self.shared.config().limits.drain_ms);
        while !self.is_drained() && Instant::now() < until {
            // Whoever began to wait meanwhile hears it too.
            self.shared.stop.notify_waiters();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.shared.drained.store(true, Ordering::Release);
        self.shared.stop.notify_waiters();
        while self.threads.iter().any(|t| !t.is_finished()) {
            self.shared.stop.notify_waiters();
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        let left = self.shared.under_way();
        self.shared.counts[Outcome::Aborted as usize].store(left, Ordering::Relaxed);
    }

    fn is_drained(&self) -> bool {
        self.shared.connections.load(Ordering::Acquire) == 0
    }

    /// Whether all its threads are at work.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.threads.is_empty() && self.threads.iter().all(|t| !t.is_finished())
    }

    /// What has happened so far.
    #[must_use]
    pub fn report(&self) -> Report {
        report::of(&self.shared, &self.address.to_string())
    }

    /// The event log.
    #[must_use]
    pub fn log(&self) -> Vec<Line> {
        self.shared.dispatch.log()
    }
}

impl Drop for Steer {
    fn drop(&mut self) {
        self.stop();
    }
}
