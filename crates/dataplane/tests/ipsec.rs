//! Two routers with a tunnel between them.

use crate::bed;

use bed::*;
use halfwink_dataplane::{
    AeadKey, AppSettings, ClosedTunnel, DropReason, Forwarder, Frame, IpsecSettings, Lifetime,
    Numbers, SecurityAssociation, Settings, Verdict,
};

fn association(spi: u32, ends: [&str; 2], key: u8, selector: &str) -> SecurityAssociation {
    SecurityAssociation {
        spi,
        local: ends[0].parse().expect("an address"),
        peer: ends[1].parse().expect("an address"),
        key: AeadKey::new(&[key; 20]).expect("a length"),
        esn: false,
        selectors: vec![selector.parse().expect("a prefix")],
        numbers: Numbers::unkept(0),
        lifetime: Lifetime::default(),
    }
}

/// The router of the bed encrypts what leaves for 192.0.2.0/24 towards 10.0.1.9.
fn near() -> Settings {
    let mut settings = settings();
    settings.app = AppSettings::Ipsec(IpsecSettings {
        outbound: vec![association(0x1001, ["10.0.1.1", "10.0.1.9"], 1, "192.0.2.0/24")],
        inbound: vec![association(0x1002, ["10.0.1.1", "10.0.1.9"], 2, "192.0.2.0/24")],
        ..IpsecSettings::default()
    });
    let AppSettings::Ipsec(ipsec) = &mut settings.app else { panic!("it is") };
    ipsec.outbound[0].numbers = Numbers::unkept(0x0102_0304_0506_0700);
    ipsec.inbound[0].selectors.push("10.0.1.9/32".parse().expect("one"));
    settings
}

/// The other end: its port 0 is 10.0.1.9, behind its port 1 is 192.0.2.0/24.
fn far() -> Settings {
    let mut settings = settings();
    settings.ports[0].mac = GATEWAY;
    settings.ports[0].addresses = vec!["10.0.1.9/24".parse().expect("one")];
    settings.ports[1].addresses = vec!["192.0.2.1/24".parse().expect("one")];
    settings.routes = vec![route("10.0.0.0/24", Some("10.0.1.1"), None)];
    settings.neighbours = [(0, "10.0.1.1", MAC[1]), (1, "192.0.2.7", HOST[1])]
        .map(|(port, address, mac)| halfwink_dataplane::StaticNeighbour {
            port,
            address: address.parse().expect("one"),
            mac,
        })
        .to_vec();
    settings.app = AppSettings::Ipsec(IpsecSettings {
        outbound: vec![association(0x1002, ["10.0.1.9", "10.0.1.1"], 2, "10.0.0.0/24")],
        inbound: vec![association(0x1001, ["10.0.1.9", "10.0.1.1"], 1, "10.0.0.0/24")],
        ..IpsecSettings::default()
    });
    settings
}

#[test]
fn a_packet_goes_in_unreadable_and_comes_out_as_it_was() {
    let (mut near, mut far) = (Bed::new(near()), Bed::new(far()));
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, b"a secret of some length");
    let (verdict, sealed) = near.give(0, &frame);
    assert_eq!(verdict, Verdict::Send { port: 1 });
    // 51 bytes, 3 of padding to a word with the two of the trailer, 8+8 before, 16 behind.
    assert_eq!(sealed.len(), 14 + 20 + 16 + 56 + 16);
    assert_eq!(sealed[..6], GATEWAY);
    assert_eq!((sealed[23], &sealed[26..34]), (50, &[v4("10.0.1.1"), v4("10.0.1.9")].concat()[..]));
    assert_eq!(sealed[34..50], [0, 0, 0x10, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 1]);
    parse(&sealed);
    assert!(!sealed.windows(6).any(|w| w == b"secret"));
    let (verdict, opened) = far.give(0, &sealed);
    assert_eq!(verdict, Verdict::Send { port: 1 });
    assert_eq!(opened[..6], HOST[1]);
    parse(&opened);
    assert_eq!((opened[22], &opened[26..]), (62, &frame[26..]));
    assert_eq!(far.give(0, &sealed).0, Verdict::Drop(DropReason::EspReplay));
    let (_, mut sealed) = near.give(0, &frame);
    sealed[60] ^= 4;
    assert_eq!(far.give(0, &sealed).0, Verdict::Drop(DropReason::EspAuthentication));
    sealed[37] = 9;
    assert_eq!(far.give(0, &sealed).0, Verdict::Drop(DropReason::EspUnknown));
    sealed.truncate(64);
    sealed[16..18].copy_from_slice(&50u16.to_be_bytes());
    seal4(&mut sealed);
    assert_eq!(far.give(0, &sealed).0, Verdict::Drop(DropReason::Short));
    // What comes back is for the sender's network, and leaves by the other association.
    let mut back = udp4("192.0.2.7", "10.0.0.2", 64, b"x");
    back[..6].copy_from_slice(&MAC[1]);
    let (verdict, sealed) = far.give(1, &back);
    assert_eq!(verdict, Verdict::Send { port: 0 });
    assert_eq!(near.give(1, &sealed).0, Verdict::Send { port: 0 });
    assert_eq!(near.router.counters().esp_encrypted, 2);
    assert_eq!(near.router.counters().esp_decrypted, 1);
}

#[test]
fn answers_to_what_came_out_of_the_tunnel_go_back_into_it() {
    let (mut near, mut far) = (Bed::new(near()), Bed::new(far()));
    // The near router lets it pass with a TTL of 2; it ends in the far one.
    let (_, sealed) = near.give(0, &udp4("10.0.0.2", "192.0.2.7", 2, b"x"));
    assert_eq!(far.give(0, &sealed).0, Verdict::Drop(DropReason::TtlExceeded));
    let (port, told) = far.taken().remove(0);
    assert_eq!((port, told[23]), (0, 50));
    let (verdict, opened) = near.give(1, &told);
    assert_eq!((verdict, opened[23], opened[34]), (Verdict::Send { port: 0 }, 1, 11));
    assert_eq!(opened[26..30], v4("10.0.1.9"));
}

#[test]
fn a_tunnel_over_ipv6_carries_both_families() {
    let over_six = |mut settings: Settings, ends: [&str; 2], port: usize| {
        settings.ports[port].addresses.push(format!("{}/64", ends[0]).parse().expect("one"));
        let AppSettings::Ipsec(ipsec) = &mut settings.app else { panic!("it is") };
        for association in ipsec.outbound.iter_mut().chain(&mut ipsec.inbound) {
            association.local = ends[0].parse().expect("one");
            association.peer = ends[1].parse().expect("one");
            association.selectors.clear();
            association.esn = true;
        }
        settings
    };
    let ends = ["2001:db8:1::1", "2001:db8:1::9"];
    let mut near = near();
    near.ports[1].addresses.pop();
    let mut far = far();
    far.ports[1].addresses.push("2001:db8:2::1/48".parse().expect("one"));
    far.routes.push(route("2001:db8::/64", Some("2001:db8:1::1"), None));
    far.neighbours.push(halfwink_dataplane::StaticNeighbour {
        port: 1,
        address: "2001:db8:2::7".parse().expect("one"),
        mac: HOST[1],
    });
    let mut near = Bed::new(over_six(near, ends, 1));
    let mut far = Bed::new(over_six(far, [ends[1], ends[0]], 0));
    for frame in [
        udp4("10.0.0.2", "192.0.2.7", 64, b"four in six"),
        udp6("2001:db8::2", "2001:db8:2::7", 64, b"six in six"),
    ] {
        let (verdict, sealed) = near.give(0, &frame);
        assert_eq!((verdict, &sealed[..6]), (Verdict::Send { port: 1 }, &GATEWAY[..]));
        assert_eq!((&sealed[12..14], sealed[20]), (&[0x86, 0xdd][..], 50));
        let (verdict, opened) = far.give(0, &sealed);
        assert_eq!((verdict, opened.len()), (Verdict::Send { port: 1 }, frame.len()));
        parse(&opened);
        assert_eq!(opened[26..], frame[26..]);
    }
}

#[test]
fn what_an_association_is_not_for_does_not_come_out_of_it() {
    let mut near = Bed::new(near());
    let mut narrow = far();
    let AppSettings::Ipsec(ipsec) = &mut narrow.app else { panic!("no IPsec") };
    ipsec.inbound[0].selectors = vec!["10.0.0.128/25".parse().expect("one")];
    let mut far = Bed::new(narrow);
    let (_, sealed) = near.give(0, &udp4("10.0.0.2", "192.0.2.7", 64, b"x"));
    assert_eq!(far.give(0, &sealed).0, Verdict::Drop(DropReason::EspSelector));
    let (_, sealed) = near.give(0, &udp4("10.0.0.129", "192.0.2.7", 64, b"x"));
    assert_eq!(far.give(0, &sealed).0, Verdict::Send { port: 1 });
}

#[test]
fn long_packets_are_told_the_room_that_is_left_or_go_in_pieces_that_fit() {
    let (mut near, mut far) = (Bed::new(near()), Bed::new(far()));
    // 1500 - 20 - 16 - 16 = 1448, a whole number of words, less the trailer.
    let fits = udp4("10.0.0.2", "192.0.2.7", 64, &[7; 1446 - 28]);
    let (verdict, sealed) = near.give(0, &fits);
    assert_eq!((verdict, sealed.len()), (Verdict::Send { port: 1 }, 14 + 1500));
    let mut long = udp4("10.0.0.2", "192.0.2.7", 64, &[7; 1446 - 27]);
    assert_eq!(near.give(0, &long).0, Verdict::Drop(DropReason::TooBig));
    let told = near.taken().remove(0).1;
    assert_eq!((told[34..36].to_vec(), told[40..42].to_vec()), (vec![3, 4], vec![5, 0xa6]));
    set_fragment(&mut long, 0);
    assert_eq!(near.give(0, &long).0, Verdict::Consumed);
    let mut joined = Vec::new();
    for (port, sealed) in near.taken() {
        assert!(port == 1 && sealed.len() <= 1514);
        let (verdict, opened) = far.give(0, &sealed);
        assert_eq!(verdict, Verdict::Send { port: 1 });
        joined.extend_from_slice(&opened[34..]);
    }
    assert_eq!(joined, long[34..]);
}

#[test]
fn workers_never_share_a_sequence_number() {
    let bed = Bed::new(near());
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, b"x");
    let numbers = |worker| {
        let mut router = Forwarder::new(bed.shared.clone(), worker);
        let (mut out, mut numbers) = (Sent::default(), Vec::new());
        for _ in 0..2000 {
            let mut room = vec![0; 512];
            room[128..128 + frame.len()].copy_from_slice(&frame);
            let mut frame = Frame::new(&mut room, 128, frame.len()).expect("fits");
            router.process(bed.now, 0, &mut frame, &mut out);
            let bytes = frame.bytes();
            numbers.push(u32::from_be_bytes([bytes[38], bytes[39], bytes[40], bytes[41]]));
        }
        numbers
    };
    let mut all: Vec<u32> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|n| scope.spawn(move || numbers(n))).collect();
        workers.into_iter().flat_map(|w| w.join().expect("no panic")).collect()
    });
    all.sort_unstable();
    assert_eq!(all, (1..=8000).collect::<Vec<u32>>());
}

/// The near router's settings with another application.
fn near_with(change: impl FnOnce(&mut IpsecSettings)) -> Settings {
    let mut settings = near();
    let AppSettings::Ipsec(ipsec) = &mut settings.app else { panic!("it is") };
    change(ipsec);
    settings
}

#[test]
fn a_tunnel_without_a_key_lets_nothing_out_in_the_clear() {
    let closed = |before, selector: &str| ClosedTunnel {
        before,
        peer: "10.0.1.9".parse().expect("one"),
        selectors: vec![selector.parse().expect("one")],
    };
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, b"a secret");
    let mut bed = Bed::new(near_with(|ipsec| {
        ipsec.outbound.clear();
        ipsec.closed = vec![closed(0, "192.0.2.0/24")];
    }));
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::EspNoKey));
    let (port, told) = bed.taken().remove(0);
    // Destination unreachable, prohibited: to the sender, and nothing of it further.
    assert_eq!((port, told[23], &told[34..36], bed.taken().len()), (0, 1, &[3, 13][..], 0));
    // Before a wider tunnel that has a key it is not passed by; behind it nothing comes to it.
    for (before, verdict) in
        [(0, Verdict::Drop(DropReason::EspNoKey)), (1, Verdict::Send { port: 1 })]
    {
        let mut bed =
            Bed::new(near_with(|ipsec| ipsec.closed = vec![closed(before, "192.0.2.0/25")]));
        assert_eq!(bed.give(0, &frame).0, verdict);
        let other = udp4("10.0.0.2", "192.0.2.200", 64, b"x");
        assert_eq!(bed.give(0, &other).0, Verdict::Send { port: 1 });
    }
}

#[test]
fn an_association_carries_what_it_may_and_no_more() {
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, b"x");
    let mut plain = Bed::new(near());
    let bytes = plain.give(0, &frame).1.len() as u64 - 14;
    for (packets, most, carried, sent) in [
        (2, u64::MAX, 0, 2),
        (u64::MAX, 3 * bytes, 0, 3),
        (u64::MAX, 3 * bytes, bytes + 1, 1),
        (u64::MAX, 0, 0, 0),
    ] {
        let lifetime = || Lifetime::new(packets, most, carried);
        let mut near = Bed::new(near_with(|ipsec| ipsec.outbound[0].lifetime = lifetime()));
        let mut deaf = far();
        let AppSettings::Ipsec(ipsec) = &mut deaf.app else { panic!("it is") };
        ipsec.inbound[0].lifetime = lifetime();
        let (mut plain, mut deaf) = (Bed::new(self::near()), Bed::new(deaf));
        for n in 0..4 {
            let sealed = plain.give(0, &frame).1;
            let (out, into) = match n < sent {
                true => (Verdict::Send { port: 1 }, Verdict::Send { port: 1 }),
                false => {
                    (Verdict::Drop(DropReason::EspExpired), Verdict::Drop(DropReason::EspExpired))
                }
            };
            assert_eq!(near.give(0, &frame).0, out, "{n} of {packets}, {most} bytes");
            assert_eq!(deaf.give(0, &sealed).0, into, "{n} of {packets}, {most} bytes");
        }
    }
}

#[test]
fn a_key_exchange_is_left_to_the_kernel_without_a_word() {
    let exchange = |port: u16| {
        let mut frame = udp4("10.0.0.2", "10.0.0.1", 64, b"x");
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    };
    let mut bed = Bed::new(near_with(|ipsec| ipsec.kernel = true));
    for port in [500, 4500] {
        assert_eq!(bed.give(0, &exchange(port)).0, Verdict::Drop(DropReason::Ike));
        assert_eq!(bed.taken().len(), 0);
    }
    let mut six = udp6("2001:db8::2", "2001:db8::1", 64, b"x");
    six[56..58].copy_from_slice(&500u16.to_be_bytes());
    assert_eq!(bed.give(0, &six).0, Verdict::Drop(DropReason::Ike));
    assert_eq!(bed.give(0, &exchange(501)).0, Verdict::Drop(DropReason::Unwanted));
    assert_eq!(bed.taken().len(), 1, "nobody is there");
    let mut bed = Bed::new(near());
    assert_eq!(bed.give(0, &exchange(500)).0, Verdict::Drop(DropReason::Unwanted));
    assert_eq!(bed.taken().len(), 1, "nobody is there");
}

#[test]
fn what_should_have_come_by_a_tunnel_does_not_come_in_the_clear() {
    let mut clear = udp4("192.0.2.7", "10.0.0.2", 64, b"x");
    clear[..6].copy_from_slice(&MAC[1]);
    let mut bed = Bed::new(near_with(|ipsec| ipsec.kernel = true));
    assert_eq!(bed.give(1, &clear).0, Verdict::Drop(DropReason::EspClear));
    let mut own = udp4("192.0.2.7", "10.0.1.1", 64, b"x");
    own[..6].copy_from_slice(&MAC[1]);
    assert_eq!(bed.give(1, &own).0, Verdict::Drop(DropReason::EspClear));
    assert_eq!(bed.taken().len(), 0);
    // The same out of the tunnel, and ESP itself.
    let mut far = Bed::new(far());
    let mut back = udp4("192.0.2.7", "10.0.0.2", 64, b"x");
    back[..6].copy_from_slice(&MAC[1]);
    let (_, sealed) = far.give(1, &back);
    assert_eq!(bed.give(1, &sealed).0, Verdict::Send { port: 0 });
    // Without a key it is no more welcome.
    let mut bed = Bed::new(near_with(|ipsec| {
        let selectors = std::mem::take(&mut ipsec.outbound).remove(0).selectors;
        let peer = "10.0.1.9".parse().expect("one");
        ipsec.closed = vec![ClosedTunnel { before: 0, peer, selectors }];
        ipsec.kernel = true;
    }));
    assert_eq!(bed.give(1, &clear).0, Verdict::Drop(DropReason::EspClear));
    // Others are not the tunnel's.
    let mut other = udp4("198.51.100.7", "10.0.0.2", 64, b"x");
    other[..6].copy_from_slice(&MAC[1]);
    assert_eq!(bed.give(1, &other).0, Verdict::Send { port: 0 });
}
