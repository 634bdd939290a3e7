//! What goes wrong on a chip: wake-ups that are lost or late, tokens that are, cores for the kernel
//! that take no threads.
//!
//! ```text
//!  order to wake ──▶ charging, longer now and then ─▶ restoring ─▶ on
//!               └─ or lost: gated until the watchdog ──▲
//!  token ──▶ policy, late now and then, or never: the data itself is always heard
//!  thread ──▶ OS core ── takes it, once it does ──▶ runs there
//!                    └─ or does not until the timeout ──▶ home, where it runs in place
//! ```
//!
//! No policy is told. What a gate meets is drawn in the order of its time; what a token meets, by
//! what it is: nothing that is drawn depends on which core the host plays first.

use halfwink_engine::draw::{comes, exponential};
use halfwink_engine::{stream, Outages, Stream};
use halfwink_policy::gating::{Bound, Event, Token};
use halfwink_units::Time;

use crate::machine::FaultSpec;
use crate::spread::spread;

/// Number of faults of a core and of the thread that began on it, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Orders to wake that were lost.
    pub wakes_lost: u64,
    /// Wake-ups that took longer.
    pub wakes_late: u64,
    /// Tokens that never came.
    pub tokens_lost: u64,
    /// Tokens that came late.
    pub tokens_late: u64,
    /// Number of times that the thread waited for an OS core that took none.
    pub os_waits: u64,
    /// Number of times that it was not taken until its timeout, and went home.
    pub os_timeouts: u64,
    /// Kernel entries that stayed because the OS core was known to take none.
    pub os_refusals: u64,
}

impl FaultCounts {
    /// All of them, with the names of counters.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("faults.wakes_lost", self.wakes_lost),
            ("faults.wakes_late", self.wakes_late),
            ("faults.tokens_lost", self.tokens_lost),
            ("faults.tokens_late", self.tokens_late),
            ("faults.os_waits", self.os_waits),
            ("faults.os_timeouts", self.os_timeouts),
            ("faults.os_refusals", self.os_refusals),
        ]
    }

    /// Adds the counts of another one.
    pub fn add(&mut self, other: &FaultCounts) {
        self.wakes_lost += other.wakes_lost;
        self.wakes_late += other.wakes_late;
        self.tokens_lost += other.tokens_lost;
        self.tokens_late += other.tokens_late;
        self.os_waits += other.os_waits;
        self.os_timeouts += other.os_timeouts;
        self.os_refusals += other.os_refusals;
    }
}

/// A violated invariant, which holds under any faults: an error of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Threads, or interrupts beside them, began and did not end.
    #[error("{0} threads and interrupts beside them began, {1} ended")]
    Unended(u64, u64),
    /// Kernel instructions were played twice, or not at all.
    #[error("threads played {0} kernel instructions, cores retired {1}")]
    Unbalanced(u64, u64),
    /// The times in a core's power states are not the run's.
    #[error("core {0} was in its states for {1} of {2}")]
    Untimed(usize, Time, Time),
}

/// Faults of a core's wake-ups.
#[derive(Clone, Debug)]
pub(crate) struct WakeFate {
    spec: FaultSpec,
    random: Stream,
    pub(crate) lost: u64,
    pub(crate) late: u64,
}

impl WakeFate {
    /// Creates the faults of this core's wake-ups, if any are enabled.
    pub(crate) fn of(spec: &FaultSpec, core: usize) -> Option<Box<WakeFate>> {
        spec.wakes().then(|| {
            let random = stream(spec.seed, &format!("wake-ups of core {core}"));
            Box::new(WakeFate { spec: *spec, random, lost: 0, late: 0 })
        })
    }

    /// An order to wake at `now`: when the core begins to.
    pub(crate) fn ordered(&mut self, now: Time) -> Time {
        if !comes(&mut self.random, self.spec.wake_lost) {
            return now;
        }
        self.lost += 1;
        now + self.spec.watchdog
    }

    /// Draws the delay of a wake-up that begins.
    pub(crate) fn delay(&mut self) -> Time {
        if !comes(&mut self.random, self.spec.wake_late) {
            return Time::ZERO;
        }
        self.late += 1;
        drawn(&mut self.random, self.spec.late)
    }
}

/// Faults of a core beside those of its wake-ups.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    tokens: Option<Box<TokenFate>>,
    /// The thread that began on it, on its way to other cores.
    pub(crate) threads: FaultCounts,
}

impl Met {
    pub(crate) fn of(spec: &FaultSpec, core: usize) -> Met {
        Met { tokens: TokenFate::of(spec, core), threads: FaultCounts::default() }
    }

    /// Returns the time at which an event arrives that is due at `at`; none if it is lost.
    #[inline]
    pub(crate) fn arrival(&mut self, at: Time, event: &Event) -> Option<Time> {
        match (&mut self.tokens, event) {
            (Some(fate), Event::Token(token)) => fate.arrival(at, token),
            _ => Some(at),
        }
    }

    /// All that went wrong, with that of its wake-ups.
    pub(crate) fn counts(&self, [wakes_lost, wakes_late]: [u64; 2]) -> FaultCounts {
        let tokens = self.tokens.as_ref().map_or([0; 2], |fate| [fate.lost, fate.late]);
        let [tokens_lost, tokens_late] = tokens;
        FaultCounts { wakes_lost, wakes_late, tokens_lost, tokens_late, ..self.threads }
    }
}

/// Faults of the tokens for a core.
#[derive(Clone, Debug)]
struct TokenFate {
    spec: FaultSpec,
    core: u64,
    lost: u64,
    late: u64,
}

impl TokenFate {
    /// Creates the faults of this core's tokens, if any are enabled.
    fn of(spec: &FaultSpec, core: usize) -> Option<Box<TokenFate>> {
        let fate = || TokenFate { spec: *spec, core: core as u64, lost: 0, late: 0 };
        spec.tokens().then(|| Box::new(fate()))
    }

    /// Returns the time at which a token arrives that is due at `at`; none if it is lost.
    fn arrival(&mut self, at: Time, token: &Token) -> Option<Time> {
        let kind = match token.bound {
            Bound::NotBefore(_) => 0,
            Bound::Unknown => 1,
            Bound::Eta(_) => 2,
        };
        let what = [self.core << 2 | kind, token.line.0, token.created.0];
        let seed = what.into_iter().fold(self.spec.seed, |seed, part| mixed(seed ^ part));
        let random = &mut stream(seed, "token");
        if comes(random, self.spec.token_lost) {
            self.lost += 1;
            return None;
        }
        if !comes(random, self.spec.token_late) {
            return Some(at);
        }
        self.late += 1;
        Some(at.saturating_add(drawn(random, self.spec.token_delay)))
    }
}

/// Times at which a core for the kernel takes no threads.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    outages: Outages,
    gone: Time,
}

impl Silence {
    /// Creates the silences of this OS core, equal for all callers, if any are enabled.
    pub(crate) fn of(spec: &FaultSpec, os_core: usize) -> Option<Box<Silence>> {
        spec.silences().then(|| {
            let random = stream(spec.seed, &format!("silences of OS core {os_core}"));
            let mut end = stream(spec.seed, &format!("end of OS core {os_core}"));
            let gone = match spec.os_gone_after {
                Time::ZERO => Time::NEVER,
                mean => drawn(&mut end, mean),
            };
            let outages = Outages::new(random, spec.os_silent_every, spec.os_silent);
            Box::new(Silence { outages, gone })
        })
    }

    /// Returns the time at which it takes threads again, if it does not at `now`, which never goes
    /// back.
    pub(crate) fn until(&mut self, now: Time) -> Option<Time> {
        if now >= self.gone {
            return Some(Time::NEVER);
        }
        let until = self.outages.until(now)?;
        Some(if until >= self.gone { Time::NEVER } else { until })
    }
}

fn drawn(random: &mut Stream, mean: Time) -> Time {
    Time((exponential(random) * mean.0 as f64) as u64)
}

/// Neighbouring numbers far apart, and nothing no longer nothing (the step of `SplitMix64`).
fn mixed(number: u64) -> u64 {
    spread(number.wrapping_add(0x9e37_79b9_7f4a_7c15))
}
