//! Arbitrary frames, and true ones changed: what is believed is what was sent, nothing is believed
//! twice, and all else is counted.

use arbitrary::Arbitrary;
use halfwink_policy::circuits::sync::{decode, demand, encode, Kind, Listener, Sync, BYTES};

#[derive(Arbitrary, Debug)]
enum Frame {
    Any(Vec<u8>),
    Sent {
        kind: u8,
        ask: bool,
        host: u16,
        peer: u16,
        slot: u32,
        times: [u64; 4],
        words: Vec<u64>,
    },
    /// An earlier one, with bytes changed and its end cut off.
    Again {
        number: u8,
        at: u8,
        by: u8,
        less: u8,
    },
}

const SWITCH: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some(frames) = crate::any::<Vec<Frame>>(bytes) else { return };
    let (mut host, mut port) = (Listener::host(1, SWITCH), Listener::switch(1, SWITCH));
    let (mut sent, mut last) = (Vec::new(), [(0, 0); 2]);
    let mut believed = [0; 2];
    for frame in &frames {
        let bytes = match frame {
            Frame::Any(bytes) => bytes.clone(),
            Frame::Sent { kind, ask, host, peer, slot, times, words } => {
                let kind =
                    [Kind::Night, Kind::Day, Kind::Rest, Kind::Reply][usize::from(*kind % 4)];
                let [epoch, sequence, begins_ns, ends_ns] = *times;
                let (ask, host, peer, slot) = (*ask, *host, *peer, *slot);
                let sync =
                    Sync { kind, ask, host, peer, slot, epoch, sequence, begins_ns, ends_ns };
                let mut room = vec![0; BYTES + 8 * words.len()];
                encode(&sync, (HOST, SWITCH), words, &mut room).expect("there is room");
                room
            }
            Frame::Again { number, at, by, less } => {
                let Some(earlier) = sent.get(usize::from(*number)) else { continue };
                let mut bytes: Vec<u8> = Vec::clone(earlier);
                bytes.truncate(bytes.len().saturating_sub(usize::from(*less)));
                if let Some(byte) = bytes.get_mut(usize::from(*at)) {
                    *byte ^= by;
                }
                bytes
            }
        };
        if let Ok((from, sync, words)) = decode(&bytes) {
            let told: Vec<u64> = demand(words).collect();
            let mut again = vec![0; bytes.len()];
            encode(&sync, (bytes[..6].try_into().unwrap(), from), &told, &mut again).unwrap();
            assert_eq!(again, bytes, "one frame for each");
            assert!(sync.begins_ns <= sync.ends_ns);
        }
        for (n, listener) in [&mut host, &mut port].into_iter().enumerate() {
            if let Ok((sync, _)) = listener.hear(&bytes) {
                assert!((sync.epoch, sync.sequence) > last[n], "heard twice");
                assert_eq!((sync.host, sync.kind == Kind::Reply), (1, n == 1));
                last[n] = (sync.epoch, sync.sequence);
                believed[n] += 1;
            }
        }
        sent.push(bytes);
    }
    for (listener, believed) in [&host, &port].into_iter().zip(believed) {
        let refused: i64 = listener.refused.snapshot().iter().map(|(_, count)| count).sum();
        assert_eq!(believed + refused as usize, sent.len(), "each is counted");
    }
}
