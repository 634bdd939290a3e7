//! Arbitrary datagrams, some of them of the right key: what is believed is what was sent, no number
//! is believed twice, and all else is counted.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use halfwink_policy::preheat::announce::{
    decode, encode, Announcement, Key, Mode, Receiver, ReceiverParameters, BYTES, MAX_LEAD,
};
use halfwink_units::Time;

#[derive(Arbitrary, Debug)]
enum Datagram {
    Any(Vec<u8>),
    Sent {
        port: u16,
        source: u8,
        sequence: u64,
        lead_ps: u64,
        mode: u8,
    },
    /// Once more, with bytes changed.
    Again {
        number: u8,
        at: u8,
        by: u8,
    },
}

const KEY: Key = Key([3; 16]);

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some(datagrams) = crate::any::<Vec<(u16, Datagram)>>(bytes) else { return };
    let parameters =
        ReceiverParameters { sources: 4, per_second: 100_000, at_once: 8, is_measured: true };
    let mut receiver = Receiver::new(KEY, parameters);
    let (mut now, mut sent, mut heard) = (Time::ZERO, Vec::new(), BTreeSet::new());
    for (gap_us, datagram) in &datagrams {
        now += Time::ns(1_000 * u64::from(*gap_us));
        let bytes = match datagram {
            Datagram::Any(bytes) => bytes.clone(),
            Datagram::Sent { port, source, sequence, lead_ps, mode } => {
                let announcement = Announcement {
                    port: *port,
                    source: u32::from(*source),
                    sequence: *sequence,
                    lead: Time(*lead_ps),
                    mode: Mode::ALL[usize::from(*mode % 4)],
                };
                encode(&announcement, &KEY).to_vec()
            }
            Datagram::Again { number, at, by } => {
                let Some(earlier) = sent.get(usize::from(*number)) else { continue };
                let mut bytes: Vec<u8> = Vec::clone(earlier);
                if let Some(byte) = bytes.get_mut(usize::from(*at)) {
                    *byte ^= by;
                }
                bytes
            }
        };
        let believed = receiver.hear(now, &bytes);
        assert_eq!(
            believed.is_ok(),
            believed.as_ref().is_ok_and(|a| decode(&bytes, &KEY) == Ok(*a))
        );
        if let Ok(announcement) = believed {
            assert_eq!(bytes.len(), BYTES);
            assert_eq!(encode(&announcement, &KEY)[..], bytes[..], "one datagram for each");
            assert!(announcement.lead <= MAX_LEAD && announcement.port != 0);
            let new = heard.insert((announcement.source, announcement.sequence));
            assert!(new, "heard twice");
        }
        sent.push(bytes);
    }
    let counts: i64 = receiver.refused().snapshot().iter().map(|(_, count)| count).sum();
    assert_eq!(receiver.heard() + counts as u64, sent.len() as u64, "each is counted");
}
