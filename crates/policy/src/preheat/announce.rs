//! The datagram that announces a request to its receiver, and what makes a receiver believe it
//! (Gottschlag 2016, Sec 4.1.4 and 5.2: destination port, predicted time, mode).
//!
//! ```text
//!  0        4    5    6      8        12         20       24       32
//!  ┌────────┬────┬────┬──────┬────────┬──────────┬────────┬────────┐
//!  │ "HWPA" │ v1 │mode│ port │ source │ sequence │ lead   │ tag    │  little-endian
//!  └────────┴────┴────┴──────┴────────┴──────────┴────────┴────────┘
//! ```
//!
//! The time is relative: `lead` nanoseconds from reception, at most 10 ms, so that clocks need not
//! agree and no announcement can keep a machine awake for long. The tag is SipHash-2-4 of all bytes
//! before it under a key that both know. A source counts its announcements, and goes on counting
//! when it restarts, as with nanoseconds of its clock for a first number.

use core::fmt;
use core::hash::Hasher;

use halfwink_units::Time;
use siphasher::sip::SipHasher24;

mod receiver;
mod window;

pub use receiver::{Receiver, ReceiverParameters, Refusal, Refused};
pub use window::{Rate, Replayed, Window};

/// Bytes of the datagram.
pub const BYTES: usize = 32;
/// Version of the layout.
pub const VERSION: u8 = 1;
/// The longest lead that a receiver takes (assumption: far above Fastpass' 65 us).
pub const MAX_LEAD: Time = Time::ns(10_000_000);

const MAGIC: [u8; 4] = *b"HWPA";
const SIGNED: usize = BYTES - 8;

/// Secret that sender and receiver share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 16]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Preparation that the receiver makes. All but the first are for measurements (Gottschlag 2016,
/// Sec 5.2), and a receiver takes them only where it is told to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[repr(u8)]
pub enum Mode {
    /// Prepare for the request, as the policy decides.
    #[default]
    Announce = 0,
    /// Leaves the caches as they are.
    Warm = 1,
    /// Flush the caches, and nothing more.
    Cold = 2,
    /// Flush the caches, then prepare for the request.
    Flushed = 3,
}

impl Mode {
    /// All modes, in order.
    pub const ALL: [Mode; 4] = [Mode::Announce, Mode::Warm, Mode::Cold, Mode::Flushed];

    /// Returns whether the mode serves measurements only.
    #[must_use]
    pub fn is_for_measurements(self) -> bool {
        self != Mode::Announce
    }
}

/// A request that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Destination port of the request.
    pub port: u16,
    /// Number of the announcing source.
    pub source: u32,
    /// Number of the announcement, above all earlier ones of the source.
    pub sequence: u64,
    /// Time from now until the request is due: whole nanoseconds, up to [`MAX_LEAD`].
    pub lead: Time,
    /// Preparation that is requested.
    pub mode: Mode,
}

/// Reason why bytes are not an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnounceError {
    /// Not [`BYTES`] of them.
    Length {
        /// Number of bytes found.
        found: usize,
    },
    /// The bytes do not begin with the magic number.
    Magic,
    /// The announcement has another version.
    Version {
        /// Version that was found.
        found: u8,
    },
    /// Not of a sender that knows the key, or changed on the way.
    Tag,
    /// The mode is unknown.
    Mode {
        /// Byte that was found.
        found: u8,
    },
    /// No request goes to port 0.
    Port,
    /// Due too far ahead.
    Lead {
        /// Time from now on.
        found: Time,
    },
}

impl fmt::Display for AnnounceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnnounceError::Length { found } => write!(f, "expected {BYTES} bytes, found {found}"),
            AnnounceError::Magic => write!(f, "expected an announcement, found something else"),
            AnnounceError::Version { found } => {
                write!(f, "expected version {VERSION}, found {found}")
            }
            AnnounceError::Tag => write!(f, "the tag is not of this key"),
            AnnounceError::Mode { found } => write!(f, "expected a mode up to 3, found {found}"),
            AnnounceError::Port => write!(f, "expected a port, found 0"),
            AnnounceError::Lead { found } => {
                write!(f, "expected a lead of up to {MAX_LEAD}, found {found}")
            }
        }
    }
}

impl core::error::Error for AnnounceError {}

/// The datagram of an announcement. A lead is rounded down to nanoseconds, and one above
/// [`MAX_LEAD`] is sent as that.
#[must_use]
pub fn encode(announcement: &Announcement, key: &Key) -> [u8; BYTES] {
    let Announcement { port, source, sequence, lead, mode } = *announcement;
    let lead_ns = (lead.min(MAX_LEAD).as_ps() / 1_000) as u32;
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = mode as u8;
    bytes[6..8].copy_from_slice(&port.to_le_bytes());
    bytes[8..12].copy_from_slice(&source.to_le_bytes());
    bytes[12..20].copy_from_slice(&sequence.to_le_bytes());
    bytes[20..24].copy_from_slice(&lead_ns.to_le_bytes());
    let tag = tag(&bytes[..SIGNED], key);
    bytes[SIGNED..].copy_from_slice(&tag.to_le_bytes());
    bytes
}

/// The announcement in a datagram from anywhere.
///
/// # Errors
/// If it is none of this version and key. What stands in it is looked at only under the right tag.
pub fn decode(bytes: &[u8], key: &Key) -> Result<Announcement, AnnounceError> {
    let found = bytes.len();
    let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| AnnounceError::Length { found })?;
    if bytes[..4] != MAGIC {
        return Err(AnnounceError::Magic);
    }
    if bytes[4] != VERSION {
        return Err(AnnounceError::Version { found: bytes[4] });
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    // One comparison of whole words: how long it takes says nothing about the tag.
    if word(SIGNED) != tag(&bytes[..SIGNED], key) {
        return Err(AnnounceError::Tag);
    }
    let mode = Mode::ALL.get(usize::from(bytes[5])).copied();
    let mode = mode.ok_or(AnnounceError::Mode { found: bytes[5] })?;
    let port = u16::from_le_bytes([bytes[6], bytes[7]]);
    if port == 0 {
        return Err(AnnounceError::Port);
    }
    let lead = Time::ns(u64::from(half(20)));
    if lead > MAX_LEAD {
        return Err(AnnounceError::Lead { found: lead });
    }
    Ok(Announcement { port, source: half(8), sequence: word(12), lead, mode })
}

fn tag(bytes: &[u8], key: &Key) -> u64 {
    let mut hasher = SipHasher24::new_with_key(&key.0);
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Key = Key([7; 16]);

    fn one() -> Announcement {
        let lead = Time::ns(65_000);
        Announcement { port: 80, source: 3, sequence: 0x0102, lead, mode: Mode::Announce }
    }

    /// A datagram with a byte changed and the right tag.
    fn signed(at: usize, byte: u8) -> [u8; BYTES] {
        let mut bytes = encode(&one(), &KEY);
        bytes[at] = byte;
        let tag = tag(&bytes[..SIGNED], &KEY);
        bytes[SIGNED..].copy_from_slice(&tag.to_le_bytes());
        bytes
    }

    #[test]
    fn the_tag_is_siphash_2_4() {
        // Aumasson, Bernstein 2012, Appendix A: key 00..0f, message 00..0e.
        let key = Key(core::array::from_fn(|n| n as u8));
        let message: [u8; 15] = core::array::from_fn(|n| n as u8);
        assert_eq!(tag(&message, &key), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn announcement_has_the_documented_bytes() {
        let bytes = encode(&one(), &KEY);
        let head = *b"HWPA\x01\x00\x50\x00\x03\x00\x00\x00\x02\x01\0\0\0\0\0\0\xe8\xfd\x00\x00";
        assert_eq!(bytes[..SIGNED], head);
        assert_eq!(decode(&bytes, &KEY), Ok(one()));
        let long = Announcement { lead: Time::NEVER, ..one() };
        assert_eq!(decode(&encode(&long, &KEY), &KEY).map(|a| a.lead), Ok(MAX_LEAD));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let bytes = encode(&one(), &KEY);
        assert_eq!(decode(&bytes[..31], &KEY), Err(AnnounceError::Length { found: 31 }));
        assert_eq!(decode(&[0; 33], &KEY), Err(AnnounceError::Length { found: 33 }));
        assert_eq!(decode(&bytes, &Key([8; 16])), Err(AnnounceError::Tag));
        assert_eq!(decode(&signed(0, b'X'), &KEY), Err(AnnounceError::Magic));
        assert_eq!(decode(&signed(4, 2), &KEY), Err(AnnounceError::Version { found: 2 }));
        assert_eq!(decode(&signed(5, 4), &KEY), Err(AnnounceError::Mode { found: 4 }));
        assert_eq!(decode(&signed(6, 0), &KEY), Err(AnnounceError::Port));
        let lead = Time::ns(0x0100_fde8);
        assert_eq!(decode(&signed(23, 1), &KEY), Err(AnnounceError::Lead { found: lead }));
    }

    proptest! {
        #[test]
        fn written_announcement_reads_back_equal(
            port in 1u16..,
            source: u32,
            sequence: u64,
            lead_ns in 0u64..=10_000_000,
            mode in 0usize..4,
            key: [u8; 16],
        ) {
            let lead = Time::ns(lead_ns);
            let sent = Announcement { port, source, sequence, lead, mode: Mode::ALL[mode] };
            prop_assert_eq!(decode(&encode(&sent, &Key(key)), &Key(key)), Ok(sent));
        }

        /// A bit changed anywhere is noticed.
        #[test]
        fn flipped_bit_makes_announcement_invalid(bit in 0usize..8 * BYTES) {
            let mut bytes = encode(&one(), &KEY);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&bytes, &KEY).is_err());
        }
    }
}
