//! Whether a host may hand its next packet to its network card: tokens of a day (Strong 2013, Sec
//! 4.4.2, Fig 4.11 to 4.13).
//!
//! ```text
//!   sync frames ── Night, Day ──▶ ┌────────┐
//!   dequeue ────── Head ────────▶ │ tokens │ ──▶ Send, Again at, Hold
//!                                 └────────┘
//! ```
//!
//! | scheme | keeps in mind | against |
//! |---|---|---|
//! | [`Scheme::Naive`] | what the wire carries in a day | - |
//! | [`Scheme::Aging`] | and what it carries until the day ends | packets that become ready late |
//! | [`Scheme::Pacing`] | and how much the card still holds | its batch mode, above 80 KB |
//!
//! The margin by which hosts stop early is taken off the recharge: with days of 123.5 us and a
//! margin of 23.5 us all is handed over after (125,000 - 80,000) / 1250 = 36.0 us, which the work
//! measures (Sec 4.5.1). Were it a test of its own, that would take 59.5 us.

use alloc::boxed::Box;
use alloc::vec;

use halfwink_units::Time;

use crate::{Host, Log, Policy, Snapshot};

/// A policy that says whether a host may send.
pub trait Sending: Policy<Event = HostEvent, Action = HostAction> + Send {}

impl<S: Sending + ?Sized> Sending for Box<S> {}

impl<S: Sending, L: Log<HostEvent, HostAction> + Send> Sending for Host<S, L> {}

/// Events for the sending side of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum HostEvent {
    /// The circuit goes down.
    Night,
    /// A circuit to this host is up.
    Day {
        /// Host at the other end of the circuit.
        peer: u16,
        /// Length of the day, from now on.
        #[cfg_attr(feature = "serde", serde(rename = "length_ps"))]
        length: Time,
    },
    /// A packet for the host at the circuit's end is first in its queue: may it go?
    Head {
        /// Size of the packet.
        bytes: u32,
    },
}

/// The answer to [`HostEvent::Head`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum HostAction {
    /// The packet goes now.
    Send,
    /// Not yet: ask again then.
    Again {
        /// Earliest time for the next attempt.
        #[cfg_attr(feature = "serde", serde(rename = "at_ps"))]
        at: Time,
    },
    /// Not before the next day.
    Hold,
}

/// Limit on the tokens of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Limits tokens by a day's length.
    Naive,
    /// Limits tokens by the rest of the day.
    Aging,
    /// Limits tokens by the rest of the day, and by the backlog of the card.
    Pacing,
}

impl Scheme {
    /// All of them, from the least that is kept in mind.
    pub const ALL: [Scheme; 3] = [Scheme::Naive, Scheme::Aging, Scheme::Pacing];

    /// Returns the name of the scheme.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Naive => "naive",
            Scheme::Aging => "aging",
            Scheme::Pacing => "pacing",
        }
    }

    /// Returns the scheme of this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Scheme> {
        Scheme::ALL.into_iter().find(|scheme| scheme.name() == name)
    }
}

/// Constants of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenParameters {
    /// Scheme that limits the tokens.
    pub scheme: Scheme,
    /// Rate of the wire, in bytes per microsecond.
    pub bytes_per_us: u32,
    /// Time before the end of a day at which the last packet must have reached the card.
    pub margin: Time,
    /// Largest backlog of the card, in bytes.
    pub backlog_bytes: u32,
    /// Lets a packet go while any token is left, rather than only if there are as many as it has
    /// bytes.
    pub overdraws: bool,
}

impl TokenParameters {
    /// The published ones, at 10 Gb/s.
    #[must_use]
    pub const fn published(scheme: Scheme) -> TokenParameters {
        TokenParameters {
            scheme,
            bytes_per_us: 1250,
            margin: Time::ns(23_500),
            backlog_bytes: 80_000,
            overdraws: false,
        }
    }
}

/// The tokens of the queue whose circuit is up.
#[derive(Clone, Debug)]
pub struct Tokens {
    parameters: TokenParameters,
    /// `tokens`, `token_recharge`, `us_per_day` of Fig 4.13, integers as there.
    tokens: i64,
    recharge: i64,
    us_per_day: i64,
    /// Begin and end of the day; `None` at night.
    day: Option<(Time, Time)>,
    answer: Option<HostAction>,
}

const US: u64 = 1_000_000;

impl Tokens {
    /// A host at night.
    #[must_use]
    pub fn new(parameters: TokenParameters) -> Tokens {
        Tokens { parameters, tokens: 0, recharge: 0, us_per_day: 0, day: None, answer: None }
    }

    fn begin(&mut self, now: Time, length: Time) {
        let usable = length.saturating_sub(self.parameters.margin);
        let rate = u64::from(self.parameters.bytes_per_us);
        self.recharge = match usable.0.checked_mul(rate) {
            Some(bytes) => (bytes / US) as i64,
            None => {
                let bytes = u128::from(usable.0) * u128::from(rate) / u128::from(US);
                i64::try_from(bytes).unwrap_or(i64::MAX)
            }
        };
        self.us_per_day = (usable.0 / US) as i64;
        self.tokens = self.recharge;
        self.day = Some((now, now.saturating_add(length)));
    }

    fn head(&mut self, now: Time, bytes: u32) -> HostAction {
        let Some((began, ends)) = self.day else { return HostAction::Hold };
        if now >= ends {
            return HostAction::Hold;
        }
        if let Some(again) = self.age(began, now) {
            return again;
        }
        let needed = if self.parameters.overdraws { 1 } else { i64::from(bytes) };
        if self.tokens < needed {
            return HostAction::Hold;
        }
        self.tokens -= i64::from(bytes);
        HostAction::Send
    }

    /// `tokens_left` of Fig 4.13. If the card holds too much, when it will hold less.
    fn age(&mut self, began: Time, now: Time) -> Option<HostAction> {
        if self.parameters.scheme == Scheme::Naive {
            return None;
        }
        // Both divisions of integers are the work's.
        let slope = self.recharge.checked_div(self.us_per_day).unwrap_or(0);
        let offset_us = ((now - began).0 / US) as i64;
        let aged = self.recharge.saturating_sub(slope.saturating_mul(offset_us));
        self.tokens = self.tokens.min(aged);
        let excess = aged - self.tokens - i64::from(self.parameters.backlog_bytes);
        if self.parameters.scheme != Scheme::Pacing || excess <= 0 {
            return None;
        }
        let more_us = excess.checked_add(slope - 1)?.checked_div(slope)?;
        let at = began.0.saturating_add((offset_us + more_us) as u64 * US);
        Some(HostAction::Again { at: Time(at) })
    }
}

impl Sending for Tokens {}

impl Policy for Tokens {
    type Event = HostEvent;
    type Action = HostAction;

    fn on_event(&mut self, now: Time, event: &HostEvent) {
        match *event {
            HostEvent::Night => self.day = None,
            HostEvent::Day { length, .. } => self.begin(now, length),
            HostEvent::Head { bytes } => self.answer = Some(self.head(now, bytes)),
        }
    }

    fn poll_action(&mut self) -> Option<HostAction> {
        self.answer.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("tokens", self.tokens), ("recharge", self.recharge)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUMBO: HostEvent = HostEvent::Head { bytes: 1000 };

    fn at(us: f64) -> Time {
        Time::from_ns(us * 1e3)
    }

    fn told(tokens: &mut Tokens, us: f64, event: HostEvent) -> Option<HostAction> {
        tokens.on_event(at(us), &event);
        tokens.poll_action()
    }

    fn morning(scheme: Scheme, day_us: f64) -> Tokens {
        let mut tokens = Tokens::new(TokenParameters::published(scheme));
        told(&mut tokens, 1000.0, HostEvent::Day { peer: 1, length: at(day_us) });
        tokens
    }

    /// Bytes that go at once, and what comes then.
    fn rush(tokens: &mut Tokens, us: f64) -> (u32, HostAction) {
        let mut bytes = 0;
        loop {
            match told(tokens, us, JUMBO).unwrap() {
                HostAction::Send => bytes += 1000,
                other => return (bytes, other),
            }
        }
    }

    #[test]
    fn the_margin_is_taken_off_the_recharge() {
        // 123.5 us less 23.5 us at 1250 B/us.
        for scheme in [Scheme::Naive, Scheme::Aging] {
            let mut tokens = morning(scheme, 123.5);
            assert_eq!(rush(&mut tokens, 1000.0), (125_000, HostAction::Hold));
        }
    }

    #[test]
    fn all_of_a_paced_day_is_handed_over_after_36_us() {
        let mut tokens = morning(Scheme::Pacing, 123.5);
        let (mut us, mut bytes) = (1000.0, 0);
        loop {
            let (more, then) = rush(&mut tokens, us);
            bytes += more;
            match then {
                HostAction::Again { at } => us = at.as_ns() * 1e-3,
                _ => break,
            }
        }
        // A packet may go as long as no more than 80,000 B are with the card: 81,000 B at first,
        // and 125,000 B once 44,000 B are on the wire, 35.2 us: in whole microseconds 36.
        assert_eq!((bytes, us), (125_000, 1036.0));
    }

    #[test]
    fn late_host_sends_less_unless_naive() {
        // 50 us later the wire carries 62,500 B less.
        assert_eq!(rush(&mut morning(Scheme::Naive, 123.5), 1050.0).0, 125_000);
        assert_eq!(rush(&mut morning(Scheme::Aging, 123.5), 1050.0).0, 62_000);
        assert_eq!(rush(&mut morning(Scheme::Pacing, 123.5), 1050.0).0, 62_000);
        assert_eq!(rush(&mut morning(Scheme::Naive, 123.5), 1124.0).0, 0);
    }

    #[test]
    fn host_sends_nothing_at_night() {
        let mut tokens = morning(Scheme::Naive, 61.0);
        told(&mut tokens, 1010.0, HostEvent::Night);
        assert_eq!(told(&mut tokens, 1010.0, JUMBO), Some(HostAction::Hold));
        let mut tokens = morning(Scheme::Pacing, 10.0);
        assert_eq!(told(&mut tokens, 1001.0, JUMBO), Some(HostAction::Hold), "no margin is left");
    }

    #[test]
    fn a_last_packet_may_overdraw_where_that_is_asked_for() {
        let parameters =
            TokenParameters { overdraws: true, ..TokenParameters::published(Scheme::Naive) };
        for (overdraws, packets) in [(true, 6), (false, 5)] {
            let mut tokens = Tokens::new(TokenParameters { overdraws, ..parameters });
            told(&mut tokens, 0.0, HostEvent::Day { peer: 1, length: at(61.0) });
            // 46,875 B are 5.2 frames of 9000 B.
            let head = HostEvent::Head { bytes: 9000 };
            let sent = (0..9).filter(|_| told(&mut tokens, 0.0, head) == Some(HostAction::Send));
            assert_eq!(sent.count(), packets);
        }
    }
}
