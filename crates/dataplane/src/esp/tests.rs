use super::replay::Replay;
use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

const LOCAL: &str = "10.0.0.1";
const PEER: &str = "10.0.0.2";

fn association(spi: u32, key: &[u8], esn: bool) -> SecurityAssociation {
    SecurityAssociation {
        spi,
        local: LOCAL.parse().expect("an address"),
        peer: PEER.parse().expect("an address"),
        key: AeadKey::new(key).expect("a length"),
        esn,
        selectors: Vec::new(),
        numbers: Numbers::unkept(0),
        lifetime: Lifetime::default(),
    }
}

/// draft-mcgrew-gcm-test-01, the cases with keys of 128 and 256 bits, the first with an extended
/// sequence number: key and salt, number, whether extended, the ESP packet, what is in it.
const VECTORS: [(&str, u64, bool, &str, &str); 2] = [
    (
        "4c80cdefbb5d10da906ac73c3613a634 2e443b68",
        0x8765_4321_0000_0000,
        true,
        "00004321 00000000 4956ed7e3b244cfe \
         fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34\
         cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce\
         61bc17d768fd9732459018148f6cbe722fd04796562dfdb4",
        "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000\
         00000000045f736970045f756470037369700963796265726369747902646b00\
         0021000101020201",
    ),
    (
        "abbccddef00112233445566778899aababbccddef00112233445566778899aab 11223344",
        2,
        false,
        "4a2cbfe3 00000002 0102030405060708 \
         ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763\
         748a637985771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c49\
         15956c96",
        "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000\
         7002400020bf0000020405b40101040201020201",
    ),
];

#[test]
fn published_packets_open_to_their_text() {
    for (key, sequence, esn, sealed, text) in VECTORS {
        let mut esp = hex(sealed);
        let association = association(be32(&esp, 0), &hex(key), esn);
        let inbound = Inbound { key: aead(&association).expect("a length"), association };
        let opened = inbound.decrypt(&mut esp, sequence).expect("authentic");
        assert_eq!(opened, hex(text));
        // The padding is 01 02, its length 2; the next header is 1, which is no tunnel.
        assert_eq!(inner(opened), None);
        let last = opened.len() - 1;
        opened[last] = 4;
        assert_eq!(inner(opened), Some((opened.len() - 4, ETHERTYPE_V4)));
        opened[last - 2] ^= 1;
        assert_eq!(inner(opened), None);
        let mut other = hex(sealed);
        assert!(inbound.decrypt(&mut other, sequence ^ 1).is_err());
    }
}

#[test]
fn nists_vectors_of_aes_gcm() {
    // McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 4 and 16, whose
    // additional data have 20 bytes: the primitive below, as ESP uses it.
    let cases = [
        (
            &AES_128_GCM,
            "feffe9928665731c6d6a8f9467308308",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            "5bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            &AES_256_GCM,
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ];
    for (algorithm, key, sealed, tag) in cases {
        let key = LessSafeKey::new(UnboundKey::new(algorithm, &hex(key)).expect("a length"));
        let mut text = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
        let nonce: [u8; 12] = hex("cafebabefacedbaddecaf888").try_into().expect("12 bytes");
        let aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let nonce = Nonce::assume_unique_for_key(nonce);
        let made = key.seal_in_place_separate_tag(nonce, Aad::from(aad), &mut text);
        assert_eq!(text, hex(sealed));
        assert_eq!(made.expect("short").as_ref(), hex(tag));
    }
}

#[test]
fn the_window_takes_each_number_once_and_forgets_the_old() {
    let mut replay = Replay::default();
    assert!(!replay.accept(0));
    for number in [1, 3, 2, 64, 65] {
        assert!(replay.accept(number) && !replay.accept(number), "{number}");
    }
    assert!(!replay.accept(1), "64 behind the highest");
    assert!(replay.accept(4));
    assert!(replay.accept(1000) && !replay.accept(936) && replay.accept(937));
}

#[test]
fn high_halves_are_guessed_around_the_wrap() {
    let at = |top| Replay { top, seen: 1 };
    let one = 1u64 << 32;
    assert_eq!(at(10).number(11, true), Some(11));
    // Appendix A2.2, case B: near the bottom, a high number is from before the wrap...
    assert_eq!(at(one + 10).number(u32::MAX - 3, true), Some(one - 4));
    // ... but not if that is out of the window: then it is far ahead.
    assert_eq!(at(one + 10).number(u32::MAX - 60, true), Some(2 * one - 61));
    assert_eq!(at(one - 5).number(3, true), Some(one + 3));
    assert_eq!(at(10).number(10, true), None);
    assert_eq!(at(u64::MAX).number(5, true), None);
}

#[test]
fn a_counter_never_comes_round() {
    for (esn, most) in [(false, u64::from(u32::MAX)), (true, u64::MAX)] {
        let association = association(256, &[1; 20], esn);
        let own = [association.local];
        let settings = IpsecSettings {
            outbound: vec![association],
            inbound: vec![],
            ..IpsecSettings::default()
        };
        let ipsec = Ipsec::build(&settings, &own).expect("good settings");
        let outbound = &ipsec.outbound[0];
        outbound.association.numbers.set_used(most - 1);
        assert_eq!(outbound.next_sequence(), Ok(most));
        for _ in 0..2 {
            assert_eq!(outbound.next_sequence(), Err(DropReason::EspExhausted));
        }
    }
}

#[test]
fn associations_that_cannot_work_are_refused() {
    let good = association(256, &[1; 20], false);
    let own = [good.local];
    let refused = |change: &dyn Fn(&mut SecurityAssociation)| {
        let mut bad = good.clone();
        change(&mut bad);
        let settings =
            IpsecSettings { outbound: vec![bad], inbound: vec![], ..IpsecSettings::default() };
        Ipsec::build(&settings, &own).expect_err("refused").to_string()
    };
    assert!(refused(&|a| a.spi = 255).contains("reserved"));
    assert!(refused(&|a| a.local = a.peer).contains("none of this router's"));
    assert!(refused(&|a| a.peer = a.local).contains("peer is this router"));
    assert!(refused(&|a| a.peer = "::1".parse().expect("one")).contains("families"));
    let mut other = good.clone();
    other.spi = 300;
    let settings = IpsecSettings {
        outbound: vec![good.clone()],
        inbound: vec![other],
        ..IpsecSettings::default()
    };
    let error = Ipsec::build(&settings, &own).expect_err("one nonce twice").to_string();
    assert!(error.contains("same key and salt"));
    assert!(AeadKey::new(&[0; 16]).is_none() && AeadKey::from_hex("0x0g").is_none());
    assert!(AeadKey::from_hex(&"+1".repeat(36)).is_none(), "a sign is no digit");
    assert_eq!(AeadKey::from_hex(&format!("0x{}", "01".repeat(36))), AeadKey::new(&[1; 36]));
    assert_eq!(format!("{:?}", good.key), "AeadKey(128 bits)");
}

#[test]
fn a_reload_goes_on_with_the_numbers_of_a_key() {
    let one = association(256, &[1; 20], false);
    let own = [one.local];
    let build = |spi| {
        let outbound = vec![SecurityAssociation { spi, ..one.clone() }];
        Ipsec::build(&IpsecSettings { outbound, inbound: vec![], ..IpsecSettings::default() }, &own)
            .expect("good")
    };
    let (old, new) = (build(256), build(999));
    assert_eq!(old.outbound[0].next_sequence(), Ok(1));
    assert_eq!(new.outbound[0].next_sequence(), Ok(2));
    assert_eq!(old.outbound[0].next_sequence(), Ok(3), "packets on their way");
}

/// What is done with numbers that are asked for: the bell of a test counts.
fn bell() -> (Bell, Arc<AtomicU64>) {
    let rung = Arc::new(AtomicU64::new(0));
    let count = rung.clone();
    let ring = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    (Box::new(ring), rung)
}

#[test]
fn no_number_is_given_out_before_it_is_reserved() {
    let (bell, rung) = bell();
    let numbers = Numbers::after(100, 7, bell);
    let most = u64::from(u32::MAX);
    assert_eq!(numbers.take(most), Err(DropReason::EspUnreserved));
    assert_eq!(numbers.take(most), Err(DropReason::EspUnreserved));
    assert_eq!(rung.load(Ordering::Relaxed), 1, "it rings once");
    numbers.raise(104, 2);
    let given: Vec<_> = (0..5).map(|_| numbers.take(most)).collect();
    let spent = Err(DropReason::EspUnreserved);
    assert_eq!(given, [Ok(101), Ok(102), Ok(103), Ok(104), spent]);
    assert_eq!(rung.load(Ordering::Relaxed), 2, "with two left, and then not again");
    assert_eq!(numbers.iv(101), 108u64.to_be_bytes());
    numbers.raise(200, 2);
    assert_eq!(numbers.take(most), Ok(105));
    assert_eq!(numbers.close(), 105);
    numbers.raise(300, 2);
    assert!(numbers.take(u64::MAX).is_err(), "closed is closed");
}

#[test]
fn what_came_before_a_restart_does_not_come_again() {
    let numbers = Numbers::unkept(0);
    for number in [1, 2, 5, 900] {
        assert_eq!(numbers.accept(number), Ok(()));
    }
    // The record said 1000 when the process died.
    let (bell, rung) = bell();
    let numbers = Numbers::after(1000, 0, bell);
    numbers.raise(1100, 50);
    for number in 0..=1000 {
        assert_eq!(numbers.whole(number, false), None, "{number}");
        assert_eq!(numbers.accept(number.into()), Err(DropReason::EspReplay), "{number}");
    }
    assert_eq!(numbers.accept(1001), Ok(()));
    // Far ahead and authentic: what is beyond the record waits for it.
    assert_eq!(numbers.accept(5000), Err(DropReason::EspUnrecorded));
    assert_eq!((numbers.wanted(), numbers.used()), (5000, 1001));
    assert_eq!(rung.load(Ordering::Relaxed), 1);
    numbers.raise(5100, 50);
    assert_eq!(numbers.accept(5000), Ok(()));
    assert_eq!(numbers.accept(4990), Ok(()), "in the window, and not yet seen");
}

#[test]
fn a_limit_is_lowered_to_what_was_used_and_no_further() {
    let numbers = Numbers::after(0, 0, bell().0);
    numbers.raise(1000, 0);
    assert_eq!(numbers.accept(10), Ok(()));
    assert_eq!(numbers.lower(9, 0), None);
    assert_eq!(numbers.lower(2000, 0), None);
    assert_eq!(numbers.lower(20, 5), Some(20));
    assert_eq!(numbers.accept(21), Err(DropReason::EspUnrecorded));
    assert_eq!(numbers.accept(20), Ok(()));
}

#[test]
fn workers_that_take_while_numbers_are_raised_or_closed_share_none() {
    let numbers = Numbers::after(0, 0, bell().0);
    let ended = AtomicBool::new(false);
    let all = std::thread::scope(|scope| {
        let worker = || {
            let mut mine = Vec::new();
            while !ended.load(Ordering::Acquire) {
                mine.extend(numbers.take(u64::MAX));
            }
            mine
        };
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        for limit in 1..500 {
            numbers.raise(limit * 10, 5);
            std::thread::yield_now();
        }
        let used = numbers.close();
        ended.store(true, Ordering::Release);
        let mut all: Vec<u64> = workers.into_iter().flat_map(|w| w.join().expect("ok")).collect();
        all.sort_unstable();
        assert_eq!(all.last().copied().unwrap_or(0), used, "the end is what was used");
        all
    });
    assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]), "each once, none left out");
}

/// A packet with `len` bytes behind its header.
fn packet(version: u8, tos: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; if version == 4 { V4 } else { V6 }];
    packet[0] = version << 4 | if version == 4 { 5 } else { tos >> 4 };
    packet[1] = if version == 4 { tos } else { tos << 4 };
    packet.extend_from_slice(body);
    packet
}

#[test]
fn congestion_outside_is_told_inside_or_drops_what_cannot_tell() {
    for version in [4, 6] {
        for inner in 0..4 {
            for outer in 0..4 {
                let mut packet = packet(version, 0xb8 | inner, &[]);
                let sum = crate::checksum::of(&packet[..V4]);
                put16(&mut packet, 10, if version == 4 { sum } else { 0 });
                let told = congestion(&mut packet, outer);
                // RFC 6040, figure 4, without the logging of odd cases.
                let expected = match (inner, outer) {
                    (0, 3) => Err(DropReason::EspInner),
                    (_, 3) => Ok(3),
                    _ => Ok(inner),
                };
                assert_eq!(told.map(|()| ecn(&packet)), expected);
                assert!(version == 6 || crate::checksum::of(&packet[..V4]) == 0);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_sealed_opens_to_the_same_once_and_never_if_changed(
        body in prop::collection::vec(any::<u8>(), 0..1500),
        version in prop::sample::select(vec![4u8, 6]),
        six_outside: bool,
        long: bool,
        esn: bool,
        start in 0u64..1 << 33,
        flip in any::<prop::sample::Index>(),
    ) {
        let start = if esn { start } else { start & 0xffff_0000 };
        let mut outbound = association(0x1234, if long { &[9; 36] } else { &[9; 20] }, esn);
        if six_outside {
            outbound.local = "2001:db8::1".parse().expect("one");
            outbound.peer = "2001:db8::2".parse().expect("one");
        }
        let mut inbound = outbound.clone();
        inbound.numbers = Numbers::unkept(0);
        (inbound.local, inbound.peer) = (outbound.peer, outbound.local);
        let build = |outbound: &[_], inbound: &[_], own| {
            let (outbound, inbound) = (outbound.into(), inbound.into());
            let settings = IpsecSettings { outbound, inbound, ..IpsecSettings::default() };
            Ipsec::build(&settings, &[own]).expect("good settings")
        };
        let sender = build(std::slice::from_ref(&outbound), &[], outbound.local);
        let receiver = build(&[], std::slice::from_ref(&inbound), inbound.local);
        sender.outbound[0].association.numbers.set_used(start);
        receiver.inbound[&0x1234].association.numbers.set_used(start);

        let packet = packet(version, 0x28, &body);
        let mut room = vec![0xaa; ETHERNET + packet.len() + 200];
        room[64 + ETHERNET..64 + ETHERNET + packet.len()].copy_from_slice(&packet);
        let mut frame = Frame::new(&mut room, 64, ETHERNET + packet.len()).expect("it fits");
        sender.outbound[0].seal(&mut frame).expect("there is room");
        let outer = if six_outside { V6 } else { V4 };
        // Lengths are right, and the inner MTU is the longest that fits.
        prop_assert_eq!(frame.len() % 4, (ETHERNET + outer) % 4);
        let total = frame.len() - ETHERNET;
        prop_assert!(sender.outbound[0].inner_mtu(total) >= packet.len());
        prop_assert!(sender.outbound[0].inner_mtu(total - 4) < packet.len());
        if !six_outside {
            prop_assert_eq!(crate::checksum::of(&frame.bytes()[ETHERNET..ETHERNET + V4]), 0);
        }
        let sealed = frame.bytes().to_vec();
        // One bit changed anywhere in the ESP packet, and it does not open.
        let mut changed = sealed.clone();
        let at = ETHERNET + outer + flip.index(changed.len() - ETHERNET - outer);
        changed[at] ^= 1;
        let len = changed.len();
        let mut changed = Frame::new(&mut changed, 0, len).expect("it fits");
        prop_assert!(receiver.open(&mut changed, outer, inbound.peer).is_err());
        let mut again = sealed.clone();
        let mut again = Frame::new(&mut again, 0, len).expect("it fits");
        prop_assert_eq!(receiver.open(&mut frame, outer, inbound.peer), Ok(()));
        prop_assert_eq!(&frame.bytes()[ETHERNET..], &packet[..]);
        prop_assert_eq!(
            receiver.open(&mut again, outer, inbound.peer),
            Err(DropReason::EspReplay)
        );
    }
}
