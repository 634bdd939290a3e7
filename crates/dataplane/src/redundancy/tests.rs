use super::encoder::MOST_MARKED;
use super::*;
use crate::counters::DropReason;
use proptest::prelude::*;

const KEY: u64 = 42;

fn encoder(bytes: usize) -> Encoder {
    Encoder::new(RedundancySettings {
        encoder_bytes: bytes,
        sample_bits: 3,
        key: KEY,
        ..RedundancySettings::default()
    })
}

/// Bytes without repetition.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut random = crate::fib::SplitMix(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

/// Sends a payload over the link: what went over it, and what came out.
fn send(
    encoder: &mut Encoder,
    decoder: &Decoder,
    payload: &[u8],
) -> (usize, Result<Vec<u8>, DropReason>) {
    let Some(encoded) = encoder.encode(payload, 6) else {
        decoder.keep(name(payload, KEY), payload);
        return (payload.len(), Ok(payload.to_vec()));
    };
    let mut out = vec![0; 1 << 16];
    let restored = decoder.decode(encoded, KEY, &mut out);
    let restored = restored.map(|r| {
        assert_eq!(r.protocol, 6);
        out[..r.len].to_vec()
    });
    (encoded.len(), restored.map_err(|(reason, _)| reason))
}

#[test]
fn a_packet_sent_again_is_one_reference() {
    let (mut encoder, decoder) = (encoder(1 << 20), Decoder::new(1 << 24));
    let payload = random(1, 1400);
    assert_eq!(send(&mut encoder, &decoder, &payload), (1400, Ok(payload.clone())));
    // Head, an empty piece with the reference, an empty piece.
    assert_eq!(send(&mut encoder, &decoder, &payload), (HEAD + 2 + REFERENCE + 2, Ok(payload)));
}

#[test]
fn what_two_packets_share_is_found_to_the_byte() {
    let (mut encoder, decoder) = (encoder(1 << 20), Decoder::new(1 << 24));
    let shared = random(2, 400);
    let first = [random(3, 100), shared.clone(), random(4, 50)].concat();
    let second = [random(5, 33), shared, random(6, 700)].concat();
    send(&mut encoder, &decoder, &first).1.expect("it went as it is");
    let encoded = encoder.encode(&second, 17).expect("shorter").to_vec();
    let mut expected = vec![ENCODED, 17];
    expected.extend((second.len() as u16).to_be_bytes());
    expected.extend(name(&second, KEY).to_be_bytes());
    expected.extend([0, 33]);
    expected.extend(&second[..33]);
    expected.extend(name(&first, KEY).to_be_bytes());
    expected.extend([0, 100, 400u16.to_be_bytes()[0], 400u16.to_be_bytes()[1]]);
    expected.extend(700u16.to_be_bytes());
    expected.extend(&second[433..]);
    assert_eq!(encoded, expected);
}

#[test]
fn what_was_lost_is_dropped_and_named_and_referred_to_no_more() {
    let (mut encoder, decoder) = (encoder(1 << 20), Decoder::new(1 << 24));
    let lost = random(7, 1000);
    assert!(encoder.encode(&lost, 6).is_none());
    let (mut out, again) = (vec![0; 1 << 16], [random(8, 100), lost.clone()].concat());
    let encoded = encoder.encode(&again, 6).expect("shorter").to_vec();
    let (reason, names) = decoder.decode(&encoded, KEY, &mut out).expect_err("it was lost");
    assert_eq!(reason, DropReason::RedundancyMissing);
    let names = names.expect("they are told");
    assert_eq!(names, [name(&lost, KEY), name(&again, KEY)]);
    names.into_iter().for_each(|name| encoder.mark(name));
    // A retransmission goes as it is, and both ends have it from then on.
    assert_eq!(send(&mut encoder, &decoder, &again), (1100, Ok(again.clone())));
    let (len, restored) = send(&mut encoder, &decoder, &again);
    assert_eq!((len, restored), (HEAD + 2 + REFERENCE + 2, Ok(again)));
}

#[test]
fn an_end_that_has_lost_everything_is_soon_understood() {
    let (mut encoder, decoder) = (encoder(1 << 20), Decoder::new(1 << 24));
    let payloads: Vec<Vec<u8>> = (0..500).map(|n| random(1000 + n, 800)).collect();
    for payload in &payloads {
        send(&mut encoder, &decoder, payload).1.expect("nothing is lost");
    }
    let (decoder, mut out, mut lost) = (Decoder::new(1 << 24), vec![0; 1 << 16], 0);
    for round in 0..3 {
        for payload in &payloads {
            let Some(encoded) = encoder.encode(payload, 6) else {
                decoder.keep(name(payload, KEY), payload);
                continue;
            };
            if let Err((_, names)) = decoder.decode(encoded, KEY, &mut out) {
                assert_eq!(round, 0);
                lost += 1;
                names.into_iter().flatten().for_each(|name| encoder.mark(name));
            }
        }
    }
    // Two names in each refusal.
    assert_eq!(lost, MOST_MARKED / 2);
    assert!(encoder.encode(&payloads[0], 6).is_some());
}

#[test]
fn a_changed_packet_is_noticed() {
    let (mut encoder, decoder) = (encoder(1 << 20), Decoder::new(1 << 24));
    let payload = random(9, 500);
    send(&mut encoder, &decoder, &payload).1.expect("it went as it is");
    let mut encoded = encoder.encode(&payload, 6).expect("shorter").to_vec();
    let mut out = vec![0; 1 << 16];
    encoded[HEAD + 2 + 9] += 1; // the offset
    encoded[HEAD + 2 + 11] -= 1; // the length
    encoded.pop();
    encoded.extend([1, 0]);
    let (reason, _) = decoder.decode(&encoded, KEY, &mut out).expect_err("another packet");
    assert_eq!(reason, DropReason::RedundancyMismatch);
}

#[test]
fn stores_hold_what_they_say_and_the_oldest_goes_first() {
    let mut ring = Ring::new(1000);
    let at: Vec<u64> = (0..5).map(|n| ring.push(&[n; 300])).collect();
    assert_eq!(ring.get(at[4], 300), Some(&[4; 300][..]));
    assert_eq!(ring.get(at[3], 300), Some(&[3; 300][..]));
    assert_eq!(ring.get(at[0], 300), None);
    let decoder = Decoder::new(16 * 4096);
    for n in 0..100_000u64 {
        // All in one part.
        decoder.keep(n * 16, &n.to_be_bytes());
    }
    let part = decoder.part(0);
    assert!(part.order.len() <= part.most && part.places.len() <= part.most);
    let mut out = [0; 8];
    assert!(part.copy(99_999 * 16, 0, &mut out) && out == 99_999u64.to_be_bytes());
    assert!(!part.copy(0, 0, &mut out));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Payloads made of few pieces, so that they repeat; some are lost, and the refusals may be.
    #[test]
    fn decoded_packets_equal_sent_despite_losses(
        packets in prop::collection::vec(
            (prop::collection::vec((0u64..12, 0usize..300, 0usize..600), 1..5), 0u8..10),
            1..120,
        ),
        refuse: bool,
    ) {
        let (mut encoder, decoder) = (encoder(1 << 20), Decoder::new(1 << 24));
        let pieces: Vec<Vec<u8>> = (0..12).map(|n| match n {
            0 => vec![0; 900],
            n => random(n, 900),
        }).collect();
        let mut out = vec![0; 1 << 16];
        let mut lost_before = false;
        for (parts, luck) in packets {
            let payload: Vec<u8> = parts
                .iter()
                .flat_map(|&(piece, from, len)| &pieces[piece as usize][from..from + len])
                .copied()
                .collect();
            if payload.len() < WINDOW {
                continue;
            }
            let lost = luck == 0;
            lost_before |= lost;
            let Some(encoded) = encoder.encode(&payload, 6).map(<[u8]>::to_vec) else {
                if !lost {
                    decoder.keep(name(&payload, KEY), &payload);
                }
                continue;
            };
            prop_assert!(encoded.len() < payload.len());
            if lost {
                continue;
            }
            match decoder.decode(&encoded, KEY, &mut out) {
                Ok(restored) => {
                    prop_assert_eq!(&out[..restored.len], &payload[..]);
                }
                Err((reason, names)) => {
                    prop_assert!(lost_before, "nothing was lost");
                    prop_assert_eq!(reason, DropReason::RedundancyMissing);
                    if refuse {
                        names.into_iter().flatten().for_each(|name| encoder.mark(name));
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_safe_to_decode(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let decoder = Decoder::new(1 << 20);
        let mut out = vec![0; 4096];
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first &= 3;
        }
        let _ = decoder.decode(&bytes, KEY, &mut out);
    }
}
