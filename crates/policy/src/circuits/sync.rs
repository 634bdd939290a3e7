//! Sync frames: how a switch tells hosts of nights and days, and how they answer (Strong 2013, Sec
//! 4.4.2: Ethernet frames of type 0x8015; its fields are lost, these are ours).
//!
//! | from | bytes | field |
//! |---|---|---|
//! | 0 | 14 | Ethernet: to, from, type |
//! | 14 | 4 | `HWCS` |
//! | 18 | 1 | version, 1 |
//! | 19 | 1 | kind |
//! | 20 | 2 | 1 if the switch waits for a reply |
//! | 22 | 2 | host |
//! | 24 | 2 | peer |
//! | 26 | 2 | count of words of demand |
//! | 28 | 4 | slot |
//! | 32 | 8 | epoch |
//! | 40 | 8 | sequence |
//! | 48 | 8 | begins |
//! | 56 | 8 | ends |
//! | 64 | 8 | zero |
//! | 72 | 8 count | demand |
//!
//! Little-endian behind the Ethernet header. `begins` and `ends` of a day are nanoseconds of a
//! clock that switch and hosts share. `epoch` is when the sender began, `sequence` counts from
//! there: a frame is heard once, and none of a sender's earlier life. `demand` of a reply has
//! `count` words: bytes that wait for each host.

use core::fmt;

use crate::Snapshot;

/// Ethernet type of sync frames.
pub const ETHERTYPE: u16 = 0x8015;
/// Version of the layout.
pub const VERSION: u8 = 1;
/// Bytes of a frame without demand.
pub const BYTES: usize = 72;
/// Most hosts of a switch.
pub const MOST_HOSTS: u16 = 64;
/// The longest day that a host takes, in nanoseconds (assumption: a switch says something at least
/// so often).
pub const LONGEST_DAY_NS: u64 = 10_000_000_000;

const MAGIC: [u8; 4] = *b"HWCS";
const HEADER: usize = 14;

/// An Ethernet address, of 48 bits.
pub type Mac = [u8; 6];

/// Kind of a sync frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Circuits come down when the last day ends; then the host may send to `peer` from `begins`
    /// to `ends`.
    Night = 1,
    /// Circuits of the announced day are up: the host may send to `peer` until `ends`.
    Day = 2,
    /// No more days follow until a host has data to send.
    Rest = 3,
    /// A host's answer: what waits.
    Reply = 4,
}

/// A sync frame, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// Kind of the frame.
    pub kind: Kind,
    /// Requests a reply to the switch.
    pub ask: bool,
    /// The host that it is for; of a reply, that it is from.
    pub host: u16,
    /// Host that may be sent to; [`super::NOBODY`] if there is none.
    pub peer: u16,
    /// Number of the slot.
    pub slot: u32,
    /// Start time of the sending process, in nanoseconds.
    pub epoch: u64,
    /// Number of the frame, from one sender to one receiver.
    pub sequence: u64,
    /// Begin of the day, in nanoseconds.
    pub begins_ns: u64,
    /// End of the day, in nanoseconds.
    pub ends_ns: u64,
}

/// Reason why bytes are not a sync frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncError {
    /// Not as many as the frame says, or as any frame has.
    Length {
        /// Number of bytes found.
        found: usize,
    },
    /// The frame has another Ethernet type.
    Type {
        /// Ethernet type found.
        found: u16,
    },
    /// The frame does not begin with the magic number.
    Magic,
    /// The frame has another version.
    Version {
        /// Version that was found.
        found: u8,
    },
    /// The kind is unknown.
    Kind {
        /// Byte that was found.
        found: u8,
    },
    /// A field holds what it never does.
    Field {
        /// Name of the field.
        name: &'static str,
    },
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncError::Length { found } => write!(f, "expected {BYTES} bytes, found {found}"),
            SyncError::Type { found } => write!(f, "expected type 0x8015, found {found:#06x}"),
            SyncError::Magic => write!(f, "expected a sync frame, found something else"),
            SyncError::Version { found } => write!(f, "expected version {VERSION}, found {found}"),
            SyncError::Kind { found } => write!(f, "expected a kind from 1 to 4, found {found}"),
            SyncError::Field { name } => write!(f, "the field `{name}` cannot be so"),
        }
    }
}

impl core::error::Error for SyncError {}

/// Writes a frame; how long it is. Of `demand`, bytes for each host, only a reply has any.
///
/// # Errors
/// [`SyncError::Length`] if `into` has not that much room.
pub fn encode(
    sync: &Sync,
    (to, from): (Mac, Mac),
    demand: &[u64],
    into: &mut [u8],
) -> Result<usize, SyncError> {
    let len = BYTES + 8 * demand.len();
    let found = into.len();
    let frame = into.get_mut(..len).ok_or(SyncError::Length { found })?;
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&to);
    put(&from);
    put(&ETHERTYPE.to_be_bytes());
    put(&MAGIC);
    put(&[VERSION, sync.kind as u8]);
    put(&u16::from(sync.ask).to_le_bytes());
    put(&sync.host.to_le_bytes());
    put(&sync.peer.to_le_bytes());
    put(&(demand.len() as u16).to_le_bytes());
    put(&sync.slot.to_le_bytes());
    for word in [sync.epoch, sync.sequence, sync.begins_ns, sync.ends_ns] {
        put(&word.to_le_bytes());
    }
    put(&[0; BYTES - 64]);
    demand.iter().for_each(|bytes| put(&bytes.to_le_bytes()));
    Ok(len)
}

/// Reads a frame: who sent it, what it says, and the bytes of its demand, eight for each host.
///
/// # Errors
/// If it is none.
pub fn decode(frame: &[u8]) -> Result<(Mac, Sync, &[u8]), SyncError> {
    let short = SyncError::Length { found: frame.len() };
    let word = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap_or([0; 8]));
    let half = |at: usize| u16::from_le_bytes([frame[at], frame[at + 1]]);
    if frame.len() < HEADER {
        return Err(short);
    }
    let found = u16::from_be_bytes([frame[12], frame[13]]);
    // Before the length: other traffic shares the port, and a short frame of it is no sync frame
    // that was cut.
    if found != ETHERTYPE {
        return Err(SyncError::Type { found });
    }
    if frame.len() < BYTES {
        return Err(short);
    }
    if frame[14..18] != MAGIC {
        return Err(SyncError::Magic);
    }
    if frame[18] != VERSION {
        return Err(SyncError::Version { found: frame[18] });
    }
    let kind = match frame[19] {
        1 => Kind::Night,
        2 => Kind::Day,
        3 => Kind::Rest,
        4 => Kind::Reply,
        found => return Err(SyncError::Kind { found }),
    };
    let count = half(26);
    // Exactly: already the shortest sync frame is above the 60 bytes to which Ethernet pads, so
    // nothing may follow.
    if frame.len() != BYTES + 8 * usize::from(count) {
        return Err(short);
    }
    let field = |name, holds: bool| if holds { Ok(()) } else { Err(SyncError::Field { name }) };
    let slot = u32::from_le_bytes([frame[28], frame[29], frame[30], frame[31]]);
    let [epoch, sequence, begins_ns, ends_ns] = [32, 40, 48, 56].map(word);
    field("ask", half(20) <= 1)?;
    field("host", half(22) < MOST_HOSTS)?;
    field("peer", half(24) < MOST_HOSTS || half(24) == super::NOBODY)?;
    field("count", count == 0 || (kind == Kind::Reply && count <= MOST_HOSTS))?;
    // A longer day is of a clock that went wrong: believed, it would let the host send long after
    // its circuit is gone.
    field("ends", ends_ns.checked_sub(begins_ns).is_some_and(|ns| ns <= LONGEST_DAY_NS))?;
    // Unchecked bytes could never get a meaning: frames of this version might hold anything there.
    field("zero", frame[64..BYTES] == [0; BYTES - 64])?;
    let mut from = [0; 6];
    from.copy_from_slice(&frame[6..12]);
    let (host, peer, ask) = (half(22), half(24), half(20) == 1);
    let sync = Sync { kind, ask, host, peer, slot, epoch, sequence, begins_ns, ends_ns };
    Ok((from, sync, &frame[BYTES..]))
}

/// The words of a reply's demand.
pub fn demand(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or([0; 8])))
}

/// Reason why a frame was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not a sync frame.
    Malformed(SyncError),
    /// The frame is from another sender, for another receiver, or of a kind for the other side.
    Foreign,
    /// Heard before, or of an earlier life of its sender.
    Replayed,
}

/// Number of frames rejected, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Refused {
    /// Frames that are malformed.
    pub malformed: u64,
    /// Frames from or for other stations.
    pub foreign: u64,
    /// Frames that were received before.
    pub replayed: u64,
}

impl Refused {
    /// Returns the counts by name.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let of = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let Refused { malformed, foreign, replayed } = *self;
        alloc::vec![
            ("malformed", of(malformed)),
            ("foreign", of(foreign)),
            ("replayed", of(replayed))
        ]
    }
}

/// One end of a wire: believes the station at the other, and each of its frames once.
#[derive(Clone, Debug)]
pub struct Listener {
    from: Mac,
    host: u16,
    is_switch: bool,
    /// Epoch and sequence of the last frame.
    last: (u64, u64),
    /// Counters of rejected frames.
    pub refused: Refused,
}

impl Listener {
    /// Creates the listener of a host, which accepts frames from its switch.
    #[must_use]
    pub fn host(host: u16, switch: Mac) -> Listener {
        Listener { from: switch, host, is_switch: false, last: (0, 0), refused: Refused::default() }
    }

    /// Creates the listener of a switch's port, which accepts frames from its host.
    #[must_use]
    pub fn switch(host: u16, mac: Mac) -> Listener {
        Listener { is_switch: true, ..Listener::host(host, mac) }
    }

    /// A frame came.
    ///
    /// # Errors
    /// Why it is not heeded, which is counted.
    pub fn hear<'a>(&mut self, frame: &'a [u8]) -> Result<(Sync, &'a [u8]), Refusal> {
        let heard = self.judge(frame);
        match heard {
            // Only an accepted frame counts: a high number from elsewhere would have all that
            // follows from the right sender refused.
            Ok((sync, _)) => self.last = (sync.epoch, sync.sequence),
            Err(Refusal::Malformed(_)) => self.refused.malformed += 1,
            Err(Refusal::Foreign) => self.refused.foreign += 1,
            Err(Refusal::Replayed) => self.refused.replayed += 1,
        }
        heard
    }

    fn judge<'a>(&self, frame: &'a [u8]) -> Result<(Sync, &'a [u8]), Refusal> {
        let (from, sync, demand) = decode(frame).map_err(Refusal::Malformed)?;
        let is_reply = sync.kind == Kind::Reply;
        if from != self.from || sync.host != self.host || is_reply != self.is_switch {
            return Err(Refusal::Foreign);
        }
        // The epoch first: who starts anew counts from the beginning again, and is heard since it
        // began later.
        if (sync.epoch, sync.sequence) <= self.last {
            return Err(Refusal::Replayed);
        }
        Ok((sync, demand))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SWITCH: Mac = [2, 0, 0, 0, 0, 1];
    const HOST: Mac = [2, 0, 0, 0, 0, 2];

    fn night(sequence: u64) -> Sync {
        Sync {
            kind: Kind::Night,
            ask: true,
            host: 3,
            peer: 1,
            slot: 7,
            epoch: 100,
            sequence,
            begins_ns: 1_000,
            ends_ns: 5_000,
        }
    }

    fn bytes(sync: &Sync, demand: &[u64]) -> Vec<u8> {
        let mut room = [0; 2048];
        let len = encode(sync, (HOST, SWITCH), demand, &mut room).unwrap();
        room[..len].to_vec()
    }

    #[test]
    fn written_sync_frame_reads_back_equal() {
        let frame = bytes(&night(1), &[]);
        assert_eq!(frame.len(), BYTES);
        assert_eq!(decode(&frame), Ok((SWITCH, night(1), &[][..])));
        let reply = Sync { kind: Kind::Reply, peer: super::super::NOBODY, ..night(1) };
        let frame = bytes(&reply, &[1, 2, u64::MAX]);
        let (_, read, words) = decode(&frame).unwrap();
        assert_eq!((read, demand(words).collect::<Vec<_>>()), (reply, [1, 2, u64::MAX].to_vec()));
        assert!(encode(&reply, (HOST, SWITCH), &[0; 9], &mut [0; 80]).is_err());
    }

    #[test]
    fn any_byte_that_is_cut_or_changed_is_refused_or_read_as_it_stands() {
        let frame = bytes(&night(1), &[]);
        for len in 0..frame.len() {
            assert!(decode(&frame[..len]).is_err(), "{len} bytes");
        }
        assert!(decode(&[&frame[..], &[0]].concat()).is_err(), "longer than it says");
        for at in 12..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 0x80;
            if let Ok((_, sync, words)) = decode(&changed) {
                assert_eq!((bytes(&sync, &[]), words.len()), (changed, 0), "byte {at}");
            }
        }
    }

    #[test]
    fn days_that_end_before_they_begin_or_last_for_ever_are_refused() {
        for ends_ns in [999, 1_001 + LONGEST_DAY_NS] {
            let frame = bytes(&Sync { ends_ns, ..night(1) }, &[]);
            assert_eq!(decode(&frame), Err(SyncError::Field { name: "ends" }));
        }
    }

    #[test]
    fn a_host_hears_its_switch_and_each_frame_once() {
        let mut host = Listener::host(3, SWITCH);
        let first = bytes(&night(1), &[]);
        assert!(host.hear(&first).is_ok());
        assert_eq!(host.hear(&first), Err(Refusal::Replayed));
        assert!(host.hear(&bytes(&night(5), &[])).is_ok(), "some may be lost on the way");
        assert_eq!(host.hear(&bytes(&night(4), &[])), Err(Refusal::Replayed));
        // A switch that was started again counts from one; what it said before is over.
        assert!(host.hear(&bytes(&Sync { epoch: 101, ..night(1) }, &[])).is_ok());
        assert_eq!(host.hear(&bytes(&night(6), &[])), Err(Refusal::Replayed));
        let others = Sync { host: 2, epoch: 102, ..night(1) };
        assert_eq!(host.hear(&bytes(&others, &[])), Err(Refusal::Foreign));
        let mut foreign = bytes(&Sync { epoch: 102, ..night(1) }, &[]);
        foreign[11] ^= 1;
        assert_eq!(host.hear(&foreign), Err(Refusal::Foreign));
        let reply = Sync { kind: Kind::Reply, epoch: 102, ..night(1) };
        assert_eq!(host.hear(&bytes(&reply, &[])), Err(Refusal::Foreign));
        assert!(matches!(host.hear(&first[..40]), Err(Refusal::Malformed(_))));
        assert_eq!(host.refused, Refused { malformed: 1, foreign: 3, replayed: 3 });
        let mut port = Listener::switch(3, SWITCH);
        assert_eq!(port.hear(&first), Err(Refusal::Foreign), "a switch hears replies alone");
        assert!(port.hear(&bytes(&reply, &[5])).is_ok());
    }
}
