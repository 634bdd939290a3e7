//! All checks of a receiver in their order, and what was refused.

use alloc::vec::Vec;
use core::fmt;

use halfwink_units::Time;

use super::{decode, AnnounceError, Announcement, Key, Rate, Replayed, Window};
use crate::Snapshot;

/// Limits of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverParameters {
    /// Sources that it remembers; of others it hears nothing.
    pub sources: usize,
    /// Announcements of each in a second.
    pub per_second: u32,
    /// Announcements of each at once, after a pause.
    pub at_once: u32,
    /// Takes modes that are for measurements.
    pub is_measured: bool,
}

impl Default for ReceiverParameters {
    /// Assumptions: a request every 10 us, a burst of 64.
    fn default() -> ReceiverParameters {
        ReceiverParameters { sources: 64, per_second: 100_000, at_once: 64, is_measured: false }
    }
}

/// Reason why a datagram was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not an announcement.
    Malformed(AnnounceError),
    /// The announcement was received before.
    Replayed(Replayed),
    /// The source announces too often.
    TooMany {
        /// Number of the source.
        source: u32,
    },
    /// There is no room for one more source.
    TooManySources {
        /// Number of the source.
        source: u32,
    },
    /// The mode is for measurements, which are not enabled.
    ForMeasurements,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(error) => error.fmt(f),
            Refusal::Replayed(error) => error.fmt(f),
            Refusal::TooMany { source } => write!(f, "source {source} announces too much"),
            Refusal::TooManySources { source } => write!(f, "no room for source {source}"),
            Refusal::ForMeasurements => write!(f, "a mode for measurements"),
        }
    }
}

impl core::error::Error for Refusal {}

/// Number of datagrams rejected, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// No announcements, or of another version.
    pub malformed: u64,
    /// Under a wrong tag.
    pub forged: u64,
    /// Announcements that were received before.
    pub replayed: u64,
    /// Above the rate, or of one source too many.
    pub too_many: u64,
    /// Announcements with modes for measurements.
    pub for_measurements: u64,
}

impl Refused {
    /// Returns the counts by name.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let Refused { malformed, forged, replayed, too_many, for_measurements } = *self;
        let named = [
            ("malformed", malformed),
            ("forged", forged),
            ("replayed", replayed),
            ("too_many", too_many),
            ("for_measurements", for_measurements),
        ];
        named.into_iter().map(|(name, count)| (name, count as i64)).collect()
    }

    fn count(&mut self, refusal: &Refusal) {
        let counter = match refusal {
            Refusal::Malformed(AnnounceError::Tag) => &mut self.forged,
            Refusal::Malformed(_) => &mut self.malformed,
            Refusal::Replayed(_) => &mut self.replayed,
            Refusal::TooMany { .. } | Refusal::TooManySources { .. } => &mut self.too_many,
            Refusal::ForMeasurements => &mut self.for_measurements,
        };
        *counter += 1;
    }
}

#[derive(Clone, Copy, Debug)]
struct Source {
    id: u32,
    window: Window,
    rate: Rate,
}

/// Hears datagrams from anywhere, and believes some. Allocates nothing after construction.
#[derive(Clone, Debug)]
pub struct Receiver {
    key: Key,
    parameters: ReceiverParameters,
    /// Sources, sorted by id.
    sources: Vec<Source>,
    heard: u64,
    refused: Refused,
}

impl Receiver {
    /// Creates a receiver for senders with this key.
    #[must_use]
    pub fn new(key: Key, parameters: ReceiverParameters) -> Receiver {
        let sources = Vec::with_capacity(parameters.sources);
        Receiver { key, parameters, sources, heard: 0, refused: Refused::default() }
    }

    /// A datagram that came at `now`.
    ///
    /// # Errors
    /// If it is not believed; that is counted.
    pub fn hear(&mut self, now: Time, bytes: &[u8]) -> Result<Announcement, Refusal> {
        let heard = self.check(now, bytes);
        match &heard {
            Ok(_) => self.heard += 1,
            Err(refusal) => self.refused.count(refusal),
        }
        heard
    }

    /// Returns the number of accepted announcements.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Returns the counters of rejected ones.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.refused
    }

    fn check(&mut self, now: Time, bytes: &[u8]) -> Result<Announcement, Refusal> {
        let announcement = decode(bytes, &self.key).map_err(Refusal::Malformed)?;
        if announcement.mode.is_for_measurements() && !self.parameters.is_measured {
            return Err(Refusal::ForMeasurements);
        }
        // Only who knows the key comes to the table of sources, and can fill it.
        let source = self.source(announcement.source)?;
        // A replay is refused before it takes of the rate of its source.
        source.window.hear(announcement.sequence).map_err(Refusal::Replayed)?;
        if !source.rate.pass(now) {
            return Err(Refusal::TooMany { source: source.id });
        }
        Ok(announcement)
    }

    fn source(&mut self, id: u32) -> Result<&mut Source, Refusal> {
        let at = match self.sources.binary_search_by_key(&id, |source| source.id) {
            Ok(at) => at,
            Err(_) if self.sources.len() == self.parameters.sources => {
                return Err(Refusal::TooManySources { source: id });
            }
            Err(at) => {
                let ReceiverParameters { per_second, at_once, .. } = self.parameters;
                let rate = Rate::new(per_second, at_once);
                self.sources.insert(at, Source { id, window: Window::new(), rate });
                at
            }
        };
        Ok(&mut self.sources[at])
    }
}

#[cfg(test)]
mod tests {
    use super::super::{encode, Mode, BYTES};
    use super::*;

    const KEY: Key = Key([9; 16]);

    fn datagram(source: u32, sequence: u64) -> [u8; BYTES] {
        let (lead, mode) = (Time::ns(60_000), Mode::Announce);
        encode(&Announcement { port: 80, source, sequence, lead, mode }, &KEY)
    }

    #[test]
    fn all_checks_in_their_order() {
        let parameters = ReceiverParameters { sources: 2, at_once: 3, ..Default::default() };
        let mut receiver = Receiver::new(KEY, parameters);
        let now = Time::ns(1_000);
        let mut hear = |bytes: &[u8]| receiver.hear(now, bytes);
        assert!(hear(&datagram(5, 10)).is_ok());
        assert_eq!(
            hear(&datagram(5, 10)),
            Err(Refusal::Replayed(Replayed { sequence: 10, highest: 10 }))
        );
        assert!(hear(&datagram(5, 9)).is_ok(), "overtaken");
        assert!(hear(&datagram(5, 11)).is_ok());
        assert_eq!(hear(&datagram(5, 12)), Err(Refusal::TooMany { source: 5 }));
        // Each source has a rate and numbers of its own.
        assert!(hear(&datagram(4, 10)).is_ok());
        assert_eq!(hear(&datagram(6, 1)), Err(Refusal::TooManySources { source: 6 }));
        assert_eq!(hear(b"hello"), Err(Refusal::Malformed(AnnounceError::Length { found: 5 })));
        let mut forged = datagram(4, 11);
        forged[7] ^= 1;
        assert_eq!(hear(&forged), Err(Refusal::Malformed(AnnounceError::Tag)));
        let cold =
            Announcement { port: 80, source: 4, sequence: 11, lead: Time::ZERO, mode: Mode::Cold };
        assert_eq!(hear(&encode(&cold, &KEY)), Err(Refusal::ForMeasurements));
        // Neither of the last two used up the number.
        assert!(hear(&datagram(4, 11)).is_ok());
        assert_eq!(receiver.heard(), 5);
        let refused =
            Refused { malformed: 1, forged: 1, replayed: 1, too_many: 2, for_measurements: 1 };
        assert_eq!(receiver.refused(), refused);
    }

    #[test]
    fn receiver_in_measurement_accepts_every_mode() {
        let parameters = ReceiverParameters { is_measured: true, ..Default::default() };
        let mut receiver = Receiver::new(KEY, parameters);
        for (sequence, mode) in (1..).zip(Mode::ALL) {
            let lead = Time::ZERO;
            let sent = Announcement { port: 80, source: 1, sequence, lead, mode };
            assert_eq!(receiver.hear(Time::ZERO, &encode(&sent, &KEY)), Ok(sent));
        }
    }
}
