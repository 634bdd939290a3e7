//! What all threads of a proxy share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use halfwink_live::program::config::plain;
use halfwink_live::program::say::Limited;
use halfwink_policy::steering::Side;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::access::Access;
use super::config::Config;
use super::dispatch::Dispatch;
use super::memory::Memory;

/// Between two lines that say the same lack.
const BETWEEN: Duration = Duration::from_secs(10);

/// State that all threads of a proxy share.
pub struct Shared {
    /// The policy and its machines.
    pub dispatch: Arc<Dispatch>,
    config: Mutex<Arc<Config>>,
    /// Counts changes of the description.
    generation: AtomicU64,
    /// TLS, if it is spoken.
    pub tls: Mutex<Option<TlsAcceptor>>,
    /// Access log, if there is one.
    pub access: Mutex<Option<Arc<Access>>>,
    /// Once it drains: when its patience with requests under way ends.
    until: OnceLock<Instant>,
    /// Listeners whose queues may still hold connections.
    pub listening: AtomicUsize,
    /// All requests are answered, or have had their time.
    pub drained: AtomicBool,
    /// Tells those that wait.
    pub stop: Notify,
    /// Memory that waits for clients.
    pub memory: Arc<Memory>,
    /// Number of client connections.
    pub connections: AtomicUsize,
    /// Counters of outcomes.
    pub counts: [AtomicU64; Outcome::ALL.len()],
    /// Responses by class of their status.
    pub classes: [AtomicU64; 6],
    said: Limited,
    /// Time at which the lack of descriptors was last reported.
    short: Mutex<Option<Instant>>,
}

/// Outcome of a connection or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A connection was taken.
    Accepted,
    /// A connection beyond the limit got 503.
    TooMany,
    /// A TLS handshake failed.
    TlsFailed,
    /// A message was received as a request.
    Received,
    /// Answered by a machine, to the last byte.
    Answered,
    /// Refused: not as RFC 9110 or 9112 demands, or beyond a limit.
    Refused,
    /// The client was too slow.
    Slow,
    /// The client went away, or read nothing more.
    ClientGone,
    /// A queue was full, or its time was up.
    Overloaded,
    /// No machine could be reached.
    Unreachable,
    /// A machine answered no HTTP, or closed before it had answered.
    BadGateway,
    /// A machine did not answer in time.
    GatewayTimeout,
    /// A machine closed in the middle of its response.
    Truncated,
    /// Cut off at the end, after the time for draining.
    Aborted,
}

impl Outcome {
    /// All, with their names.
    pub const ALL: [(Outcome, &'static str); 14] = [
        (Outcome::Accepted, "connections"),
        (Outcome::TooMany, "connections_refused"),
        (Outcome::TlsFailed, "tls_failed"),
        (Outcome::Received, "received"),
        (Outcome::Answered, "answered"),
        (Outcome::Refused, "refused"),
        (Outcome::Slow, "slow"),
        (Outcome::ClientGone, "client_gone"),
        (Outcome::Overloaded, "overloaded"),
        (Outcome::Unreachable, "unreachable"),
        (Outcome::BadGateway, "bad_gateway"),
        (Outcome::GatewayTimeout, "gateway_timeout"),
        (Outcome::Truncated, "truncated"),
        (Outcome::Aborted, "aborted"),
    ];
}

impl Outcome {
    /// Returns its name in reports and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Outcome::ALL[self as usize].1
    }

    /// Returns the reason of the proxy's own answer, where its status does not show it.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Outcome::TooMany => "too many connections",
            Outcome::Overloaded => "too many requests wait",
            Outcome::Unreachable => "no machine can be reached",
            Outcome::BadGateway => "the machine gave no answer, or none that is HTTP",
            Outcome::GatewayTimeout => "the machine gave no answer in time",
            Outcome::Aborted => "the proxy ends",
            _ => "",
        }
    }
}

impl Shared {
    /// Creates the state at the start.
    pub fn new(
        dispatch: Arc<Dispatch>,
        config: Config,
        tls: Option<TlsAcceptor>,
        access: Option<Arc<Access>>,
    ) -> Shared {
        let memory = Arc::new(Memory::default());
        memory.limit(&config.limits);
        Shared {
            dispatch,
            memory,
            config: Mutex::new(Arc::new(config)),
            generation: AtomicU64::new(0),
            tls: Mutex::new(tls),
            access: Mutex::new(access),
            until: OnceLock::new(),
            listening: AtomicUsize::new(0),
            drained: AtomicBool::new(false),
            stop: Notify::new(),
            connections: AtomicUsize::new(0),
            counts: [const { AtomicU64::new(0) }; Outcome::ALL.len()],
            classes: [const { AtomicU64::new(0) }; 6],
            said: Limited::default(),
            short: Mutex::default(),
        }
    }

    /// Returns the description.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the access log, if there is one.
    #[must_use]
    pub fn access(&self) -> Option<Arc<Access>> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets a new description.
    pub fn set_config(&self, config: Config) {
        self.memory.limit(&config.limits);
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of changes of the description.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Counts an outcome.
    #[inline]
    pub fn count(&self, outcome: Outcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the status of a response.
    #[inline]
    pub fn count_status(&self, status: u16) {
        self.classes[usize::from(status / 100).min(5)].fetch_add(1, Ordering::Relaxed);
    }

    /// Begins to drain: from now on no more requests are taken than have been sent already.
    pub fn drain(&self, until: Instant) {
        let _ = self.until.set(until);
        self.stop.notify_waiters();
    }

    /// Returns whether the proxy drains.
    #[inline]
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.until.get().is_some()
    }

    /// Returns the time at which a draining proxy aborts requests under way.
    #[inline]
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.until.get().copied()
    }

    /// Waits until all requests are answered, or have timed out.
    pub async fn until_drained(&self) {
        while !self.drained.load(Ordering::Acquire) {
            // Told again and again: one that is missed does not matter.
            self.stop.notified().await;
        }
    }

    /// Requests of which nothing has become yet.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        let of = |outcome: Outcome| self.counts[outcome as usize].load(Ordering::Relaxed);
        let ends = &Outcome::ALL[Outcome::Answered as usize..];
        let ended: u64 = ends.iter().map(|(outcome, _)| of(*outcome)).sum();
        of(Outcome::Received).saturating_sub(ended)
    }

    /// Says what happens to a machine, for people.
    pub fn say(&self, side: Side, what: &str) {
        self.warn(&format!("{} machine: {what}", self.config().name(side)));
    }

    /// This process may have no more descriptors, or memory: says so, now and then.
    pub fn short(&self, error: &std::io::Error) {
        let mut last = self.short.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > BETWEEN) {
            *last = Some(Instant::now());
            self.warn(&format!("{error}: connections wait until others end; no machine is lost"));
        }
    }

    /// Says something for people; not each time, if it goes on and on.
    pub fn warn(&self, what: &str) {
        self.said.line(&plain(what));
    }
}
