//! What a kernel (Debian's 6.1) told of associations that `ip xfrm` made, and what is made of it.

use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::*;

use super::message::{read, Association, Name, News};
use super::*;
use halfwink_dataplane::{AeadKey, DropReason, IpsecSettings, Numbers};

macro_rules! kept {
    ($name:literal) => {
        include_bytes!(concat!("../../../../fuzz/kept/xfrm/", $name)).as_slice()
    };
}

/// Every one of them is also an input of the fuzz target.
const ALL: [&[u8]; 12] = [
    kept!("dump"),
    kept!("done"),
    kept!("outbound"),
    kept!("inbound_esn"),
    kept!("transport"),
    kept!("cbc"),
    kept!("limited"),
    kept!("update"),
    kept!("soft"),
    kept!("hard"),
    kept!("deleted"),
    kept!("flushed"),
];
const ROUTER: &str = "10.2.0.1";
const PEER: &str = "10.2.0.2";

fn one(bytes: &[u8]) -> News {
    let mut all: Vec<_> = read(bytes).collect();
    assert_eq!(all.len(), 1);
    all.remove(0).expect("a message")
}

fn there(bytes: &[u8]) -> Association {
    match one(bytes) {
        News::There(association) => *association,
        other => panic!("{other:?}"),
    }
}

fn name(to: &str, spi: u32) -> Name {
    Name { to: to.parse().expect("an address"), spi }
}

fn key(text: &str) -> AeadKey {
    AeadKey::from_hex(text).expect("a key")
}

#[test]
fn an_association_is_read_as_it_was_given() {
    let made = there(kept!("outbound"));
    assert_eq!(made.name, name(PEER, 0x1001));
    assert_eq!((made.from.to_string(), made.reqid, made.esn), (ROUTER.into(), 7, false));
    assert_eq!(made.key, Ok(key("0123456789abcdef0123456789abcdefaabbccdd")));
    assert_eq!((made.packets, made.bytes, made.lasts_s), (1000, 100_000, Some(3600)));
    assert_eq!(made.sent, 0);
    let made = there(kept!("inbound_esn"));
    assert_eq!((made.name, made.esn), (name(ROUTER, 0x1002), true));
    assert_eq!(made.key, Ok(key(&("fedcba9876543210".repeat(4) + "11223344"))));
    assert_eq!((made.packets, made.bytes, made.lasts_s), (u64::MAX, u64::MAX, None));
    // What a daemon has reserved an SPI for, and agreed upon then.
    assert_eq!(there(kept!("update")).name, name(ROUTER, 0x2000));
}

#[test]
fn what_cannot_be_used_says_why_and_what_was_expected() {
    assert_eq!(
        there(kept!("transport")).key.expect_err("no tunnel"),
        "mode: found transport, expected tunnel"
    );
    assert_eq!(there(kept!("transport")).name, name("fd02::2", 0x1003));
    assert_eq!(
        there(kept!("cbc")).key.expect_err("another algorithm"),
        "algorithm: found hmac(sha256) with cbc(aes), expected rfc4106(gcm(aes))"
    );
    let with = |from: &[u8], to: &[u8]| {
        let mut bytes = kept!("outbound").to_vec();
        let at = bytes.windows(from.len()).position(|w| w == from).expect("there");
        bytes[at..at + to.len()].copy_from_slice(to);
        there(&bytes).key.expect_err("unusable")
    };
    // Bits of key and tag stand before the key.
    let lengths = [[160, 0, 0, 0], [128, 0, 0, 0]].concat();
    assert_eq!(
        with(&lengths, &[[160, 0, 0, 0], [64, 0, 0, 0]].concat()),
        "tag of AES-GCM: found 64 bits, expected 128 bits"
    );
    assert_eq!(
        with(&lengths, &[128, 0, 0, 0]),
        "key with salt: found 128 bits, expected 160 or 288 bits"
    );
    assert_eq!(
        with(b"rfc4106(gcm(aes))", b"rfc4309(ccm(aes))"),
        "algorithm: found rfc4309(ccm(aes)), expected rfc4106(gcm(aes))"
    );
    let given = [[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]; 2].concat();
    let given = [&given[..], &[0xaa, 0xbb, 0xcc, 0xdd]].concat();
    assert!(with(&given, &[0; 20]).contains("lockdown"));
}

#[test]
fn what_ends_is_named() {
    assert_eq!(one(kept!("deleted")), News::Gone(name(PEER, 0x1001)));
    assert_eq!(one(kept!("flushed")), News::Flushed);
    assert_eq!(one(kept!("hard")), News::Gone(name(PEER, 0x1005)));
    // A daemon has yet to make a new one: until then this is used.
    assert_eq!(one(kept!("soft")), News::Other);
    assert_eq!(one(kept!("done")), News::End);
    let mut refused = kept!("done").to_vec();
    refused[4] = 2;
    refused[16..20].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
    assert_eq!(one(&refused), News::Refused(libc::EPERM));
}

#[test]
fn a_dump_is_all_of_them_the_newest_first() {
    let spis: Vec<u32> = read(kept!("dump"))
        .map(|read| match read {
            Ok(News::There(association)) => association.name.spi,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(spis, [0x2000, 0x1005, 0x1004, 0x1003, 0x1002, 0x1001]);
}

#[test]
fn what_is_cut_off_is_said_and_keys_are_not() {
    for bytes in ALL {
        for end in 1..bytes.len() {
            let read: Vec<_> = read(&bytes[..end]).collect();
            assert!(read.len() <= 7, "{}", read.len());
        }
        let shown = format!("{:?}", read(bytes).collect::<Vec<_>>());
        for secret in ["0123456789abcdef", "1, 35, 69, 103", "fe, dc", "254, 220"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    let error = read(&kept!("outbound")[..100]).next().expect("one").expect_err("cut off");
    assert_eq!(error.to_string(), "byte 0: expected a netlink header and as many bytes as it says");
    // It says that it is whole.
    let mut short = kept!("outbound")[..100].to_vec();
    short[0..4].copy_from_slice(&100u32.to_ne_bytes());
    let error = read(&short).next().expect("one").expect_err("cut off");
    assert_eq!(error.expected, "224 bytes of struct xfrm_usersa_info");
}

proptest! {
    #[test]
    fn any_change_of_a_message_is_read_or_refused(
        which in 0..ALL.len(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = ALL[which].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert!(read(&bytes).count() <= bytes.len() / 16 + 1);
    }
}

fn tunnel(reqid: Option<u32>, selectors: &[&str]) -> Tunnel {
    Tunnel {
        local: ROUTER.parse().expect("an address"),
        peer: PEER.parse().expect("an address"),
        selectors: selectors.iter().map(|s| s.parse().expect("a prefix")).collect(),
        reqid,
    }
}

/// An association as a daemon makes it: each has a key of its own.
fn made(spi: u32, out: bool) -> Association {
    let (from, to) = if out { (ROUTER, PEER) } else { (PEER, ROUTER) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let mut bytes = [7; 20];
    bytes[..4].copy_from_slice(&spi.to_be_bytes());
    Association {
        name: name(to, spi),
        from: from.parse().expect("an address"),
        reqid: 1,
        esn: false,
        key: Ok(AeadKey::new(&bytes).expect("a key")),
        sent: 0,
        added_s: now.as_secs(),
        lasts_s: None,
        packets: u64::MAX,
        bytes: u64::MAX,
    }
}

fn came(table: &mut Table, association: Association) {
    assert!(table.take(News::There(Box::new(association))));
}

fn settings(table: &mut Table, tunnels: &[Tunnel]) -> (IpsecSettings, Vec<String>) {
    table.settings(tunnels, &mut |_, _, _| Ok(Numbers::unkept(0)))
}

fn spis(settings: &IpsecSettings) -> (Vec<u32>, Vec<u32>) {
    let spis =
        |list: &[halfwink_dataplane::SecurityAssociation]| list.iter().map(|a| a.spi).collect();
    (spis(&settings.outbound), spis(&settings.inbound))
}

#[test]
fn the_newest_is_sent_by_and_all_are_received_by() {
    let tunnels = [tunnel(None, &["10.3.0.0/24"])];
    let mut table = Table::default();
    let (first, _) = settings(&mut table, &tunnels);
    assert_eq!((first.closed.len(), spis(&first)), (1, (vec![], vec![])));
    assert!(first.kernel);
    for (spi, out) in [(0x1001, true), (0x1002, false), (0x1003, false), (0x1004, true)] {
        came(&mut table, made(spi, out));
    }
    let (found, lines) = settings(&mut table, &tunnels);
    assert_eq!(spis(&found), (vec![0x1004], vec![0x1002, 0x1003]));
    assert!(found.closed.is_empty());
    assert_eq!(found.outbound[0].selectors, tunnels[0].selectors);
    assert_eq!(lines.len(), 3, "{lines:?}");
    // Nothing is said twice; limits that change make nothing newer.
    came(&mut table, Association { packets: 9, ..made(0x1001, true) });
    let (found, lines) = settings(&mut table, &tunnels);
    assert_eq!((spis(&found).0, lines), (vec![0x1004], vec![]));
    assert!(table.take(News::Gone(name(PEER, 0x1004))));
    assert!(!table.take(News::Gone(name(PEER, 0x1004))));
    assert_eq!(spis(&settings(&mut table, &tunnels).0).0, [0x1001]);
    assert!(table.take(News::Flushed));
    assert_eq!(spis(&settings(&mut table, &tunnels).0), (vec![], vec![]));
    // A whole table, the newest first.
    table.replace(vec![made(0x1006, true), made(0x1005, true)]);
    assert_eq!(spis(&settings(&mut table, &tunnels).0).0, [0x1006]);
}

#[test]
fn tunnels_to_one_peer_are_told_apart_and_keep_their_order() {
    let tunnels = [tunnel(Some(1), &["10.3.0.0/24"]), tunnel(Some(2), &["10.0.0.0/8"])];
    let mut table = Table::default();
    came(&mut table, Association { reqid: 2, ..made(0x1001, true) });
    let (found, _) = settings(&mut table, &tunnels);
    assert_eq!(found.outbound[0].selectors, tunnels[1].selectors);
    assert_eq!((found.closed[0].before, &found.closed[0].selectors), (0, &tunnels[0].selectors));
    came(&mut table, made(0x1002, true));
    let (found, _) = settings(&mut table, &tunnels);
    assert_eq!((spis(&found).0, found.closed.len()), (vec![0x1002, 0x1001], 0));
}

#[test]
fn unsafe_security_association_is_not_used() {
    let tunnels = [tunnel(None, &[])];
    let why = |association: Association| {
        let mut table = Table::default();
        came(&mut table, made(0x1001, false));
        came(&mut table, association);
        let (found, mut lines) = settings(&mut table, &tunnels);
        assert_eq!((spis(&found).0, found.closed.len(), lines.len()), (vec![], 1, 2), "{lines:?}");
        lines.sort();
        lines
    };
    let lines = why(Association { sent: 3, ..made(0x1002, true) });
    assert!(lines[1].contains("is not used: the kernel itself has sent 3 packets"), "{lines:?}");
    let lines = why(made(255, true));
    assert!(lines[1].ends_with("SPIs below 256 are reserved"), "{lines:?}");
    // One key for both ways: the older has to go.
    let mut table = Table::default();
    came(&mut table, made(0x1001, false));
    came(&mut table, Association { key: made(0x1001, true).key, ..made(0x1002, true) });
    let (found, lines) = settings(&mut table, &tunnels);
    assert_eq!(spis(&found), (vec![0x1002], vec![]));
    assert!(lines.iter().any(|line| line.ends_with("has the same key and salt")), "{lines:?}");
}

#[test]
fn its_time_ends_by_the_kernels_clock() {
    let tunnels = [tunnel(None, &[])];
    let mut table = Table::default();
    let old = made(0x1001, true);
    came(&mut table, Association { added_s: old.added_s - 100, lasts_s: Some(50), ..old.clone() });
    assert_eq!(spis(&settings(&mut table, &tunnels).0).0, Vec::<u32>::new());
    assert_eq!(table.next_end(), None);
    came(&mut table, Association { added_s: old.added_s - 100, lasts_s: Some(1000), ..old });
    assert_eq!(spis(&settings(&mut table, &tunnels).0).0, [0x1001]);
    let left = table.next_end().expect("an end").saturating_duration_since(Instant::now());
    assert!((800..=900).contains(&left.as_secs()), "{left:?}");
}

#[test]
fn bytes_of_an_earlier_life_are_not_given_again() {
    let tunnels = [tunnel(None, &[])];
    let mut table = Table::default();
    came(&mut table, Association { bytes: 1_000_000, ..made(0x1001, true) });
    let used = || Numbers::after(600, 0, Box::new(|| {}));
    let (found, _) = table.settings(&tunnels, &mut |_, _, _| Ok(used()));
    // 600 packets of at most 1,500 bytes.
    assert_eq!(found.outbound[0].lifetime.carried(), 900_000);
    let (again, _) = table.settings(&tunnels, &mut |_, _, _| Ok(used()));
    assert_eq!(again.outbound[0].lifetime, found.outbound[0].lifetime);
    assert_eq!(DropReason::EspExpired.name(), "esp_expired");
}

#[test]
fn mistakes_in_tunnels_are_named() {
    let own = [ROUTER.parse().expect("an address")];
    let good = tunnel(None, &[]);
    assert_eq!(check(std::slice::from_ref(&good), &own), Ok(()));
    let why = |tunnels: &[Tunnel]| check(tunnels, &own).expect_err("a mistake");
    let other = Tunnel { local: "10.9.0.1".parse().expect("one"), ..good.clone() };
    assert!(why(&[other]).contains("expected an address of a [[port]]"));
    let six = Tunnel { peer: "fd02::2".parse().expect("one"), ..good.clone() };
    assert!(why(&[six]).contains("of one family"));
    let own_peer = Tunnel { peer: own[0], ..good.clone() };
    assert!(why(&[own_peer]).contains("not ours"));
    assert!(why(&[good.clone(), tunnel(Some(1), &[])]).contains("a reqid of its own"));
    assert_eq!(check(&[tunnel(Some(2), &[]), tunnel(Some(1), &[])], &own), Ok(()));
}
