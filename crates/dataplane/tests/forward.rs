//! Forwarding, ICMP, ARP and neighbour discovery, from frames.

use crate::bed;

use bed::*;
use etherparse::{Icmpv4Type, Icmpv6Type, PacketBuilder, TransportSlice};
use halfwink_dataplane::{DropReason, Verdict};
use halfwink_units::Time;

const SEND_1: Verdict = Verdict::Send { port: 1 };

#[test]
fn a_packet_by_hand() {
    let mut bed = Bed::new(settings());
    // 10.0.0.2 to 192.0.2.7, TTL 64, protocol 253, no payload.
    let mut frame = vec![
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0,
        0, 2, 192, 0, 2, 7,
    ];
    // 4500+0014+40fd+0a00+0002+c000+0207 = 1521a, folded 521b; complement ade4.
    frame[24..26].copy_from_slice(&[0xad, 0xe4]);
    let (verdict, after) = bed.give(0, &frame);
    assert_eq!(verdict, SEND_1);
    assert_eq!(after[..12], [2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 0, 2]);
    assert_eq!(after[22], 63);
    assert_eq!(after[24..26], [0xae, 0xe4]);
    assert_eq!(bed.router.counters().forwarded, 1);
    assert_eq!(bed.router.counters().forwarded_bytes, 34);
    // Where it is now it has another Ethernet address than the port's.
    assert_eq!(bed.give(0, &after).0, Verdict::Drop(DropReason::NotForUs));
    assert_eq!(bed.give(7, &frame).0, Verdict::Drop(DropReason::NoPort));
}

#[test]
fn frames_that_are_not_forwarded_have_a_reason() {
    let mut bed = Bed::new(settings());
    let good = udp4("10.0.0.2", "192.0.2.7", 64, b"payload");
    let mut cases = Vec::new();
    let mut case = |reason, change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        cases.push((reason, frame));
    };
    let address = |place: usize, text: &'static str| {
        move |f: &mut Vec<u8>| {
            f[place..place + 4].copy_from_slice(&v4(text));
            seal4(f);
        }
    };
    case(DropReason::Short, &|f| f.truncate(13));
    case(DropReason::Short, &|f| f.truncate(33));
    case(DropReason::Short, &|f| f.truncate(40));
    case(DropReason::Vlan, &|f| f[12..14].copy_from_slice(&[0x81, 0]));
    case(DropReason::EtherType, &|f| f[12..14].copy_from_slice(&[0, 46]));
    case(DropReason::BadHeader, &|f| f[14] = 0x65);
    case(DropReason::BadHeader, &|f| f[14] = 0x44);
    case(DropReason::BadChecksum, &|f| f[24] ^= 1);
    case(DropReason::Broadcast, &|f| f[..6].fill(0xff));
    case(DropReason::Broadcast, &address(30, "255.255.255.255"));
    case(DropReason::Broadcast, &address(30, "10.0.1.255"));
    case(DropReason::Broadcast, &address(30, "10.0.1.0"));
    case(DropReason::Multicast, &address(30, "224.0.0.5"));
    case(DropReason::Martian, &address(30, "127.0.0.1"));
    case(DropReason::Martian, &address(30, "0.0.0.1"));
    case(DropReason::Martian, &address(30, "240.0.0.1"));
    case(DropReason::Martian, &address(26, "127.0.0.1"));
    case(DropReason::Martian, &address(26, "224.0.0.1"));
    case(DropReason::Martian, &address(26, "255.255.255.255"));
    case(DropReason::Martian, &address(26, "10.0.1.1"));
    for (n, (reason, frame)) in cases.iter().enumerate() {
        let before = bed.router.counters().dropped(*reason);
        assert_eq!(bed.give(0, frame).0, Verdict::Drop(*reason), "case {n}");
        assert_eq!(bed.router.counters().dropped(*reason), before + 1);
    }
    // RFC 1812, 4.3.2.7: nobody is told of any of these.
    assert!(bed.taken().is_empty());
    assert_eq!(bed.give(0, &good).0, SEND_1);
}

#[test]
fn padding_of_short_frames_is_cut_and_options_are_kept() {
    let mut bed = Bed::new(settings());
    let mut frame = udp4("10.0.0.2", "192.0.2.7", 64, b"p");
    let len = frame.len();
    frame.resize(60, 0);
    assert_eq!(bed.give(0, &frame).1.len(), len);
    // Record route, three bytes and an end.
    frame.truncate(len);
    frame.splice(34..34, [7, 3, 4, 0]);
    frame[14] = 0x46;
    frame[17] += 4;
    seal4(&mut frame);
    assert_eq!(bed.give(0, &frame).0, SEND_1);
    frame[34] = 131;
    seal4(&mut frame);
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::SourceRoute));
}

/// The one ICMP error that came out of port 0, checked: its type, and the packet it quotes.
fn complaint(bed: &mut Bed) -> (Icmpv4Type, Vec<u8>) {
    let sent = bed.taken();
    assert_eq!(sent.len(), 1);
    let (port, frame) = &sent[0];
    assert_eq!((*port, &frame[..6]), (0, &HOST[0][..]));
    assert_eq!((&frame[26..30], &frame[30..34]), (&v4("10.0.0.1")[..], &v4("10.0.0.2")[..]));
    assert_eq!(ones(&frame[34..]), 0xffff);
    let Some(TransportSlice::Icmpv4(icmp)) = parse(frame).transport else { panic!("no ICMP") };
    (icmp.icmp_type(), icmp.payload().to_vec())
}

#[test]
fn senders_are_told_why_with_the_packet_as_it_came() {
    use etherparse::icmpv4::{DestUnreachableHeader as Why, TimeExceededCode};
    let mut bed = Bed::new(settings());
    let unreachable = Icmpv4Type::DestinationUnreachable;
    let big = vec![7; 1473];
    let exceeded = Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit);
    let too_big = unreachable(Why::FragmentationNeeded { next_hop_mtu: 1500 });
    let cases = [
        ("192.0.2.7", 1, &b"x"[..], DropReason::TtlExceeded, exceeded.clone()),
        ("192.0.2.7", 0, b"x", DropReason::TtlExceeded, exceeded),
        ("203.0.113.1", 9, b"x", DropReason::NoRoute, unreachable(Why::Network)),
        ("198.51.100.1", 9, b"x", DropReason::Unreachable, unreachable(Why::Host)),
        ("10.0.0.1", 9, b"x", DropReason::Unwanted, unreachable(Why::Port)),
        ("192.0.2.7", 9, &big, DropReason::TooBig, too_big),
    ];
    for (to, ttl, payload, reason, told) in cases {
        let mut frame = udp4("10.0.0.2", to, ttl, payload);
        set_fragment(&mut frame, 0x4000);
        assert_eq!(bed.give(0, &frame).0, Verdict::Drop(reason));
        let (found, quoted) = complaint(&mut bed);
        assert_eq!(found, told);
        assert_eq!(quoted, frame[14..frame.len().min(14 + 548)]);
    }
    assert_eq!(bed.router.counters().icmp_errors, 6);
}

#[test]
fn a_black_hole_is_silent() {
    let mut changed = settings();
    let hole = halfwink_dataplane::Route { silent: true, ..route("203.0.113.0/24", None, None) };
    changed.routes.push(hole);
    let mut bed = Bed::new(changed);
    let frame = udp4("10.0.0.2", "203.0.113.1", 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::Blackhole));
    assert_eq!(bed.router.counters().icmp_errors, 0);
}

#[test]
fn nobody_is_told_of_errors_nor_of_later_fragments() {
    let mut bed = Bed::new(settings());
    let mut frame = udp4("10.0.0.2", "203.0.113.1", 64, b"payload!");
    set_fragment(&mut frame, 1);
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::NoRoute));
    set_fragment(&mut frame, 0);
    frame[23] = 1; // ICMP,
    frame[34] = 3; // destination unreachable
    seal4(&mut frame);
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::NoRoute));
    frame[26..30].copy_from_slice(&v4("10.0.0.255"));
    frame[34] = 8;
    seal4(&mut frame);
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::NoRoute));
    assert!(bed.taken().is_empty());
}

#[test]
fn echo_is_answered_in_both_families() {
    let mut bed = Bed::new(settings());
    let mut frame = Vec::new();
    // To the address of the other port: a router is one host.
    PacketBuilder::ethernet2(HOST[0], MAC[0])
        .ipv4(v4("10.0.0.2"), v4("10.0.1.1"), 3)
        .icmpv4_echo_request(7, 9)
        .write(&mut frame, b"hello")
        .expect("memory");
    assert_eq!(bed.give(0, &frame).0, Verdict::Consumed);
    let reply = bed.taken().remove(0).1;
    assert_eq!((&reply[26..30], &reply[30..34]), (&v4("10.0.1.1")[..], &v4("10.0.0.2")[..]));
    assert_eq!((reply[22], ones(&reply[34..])), (64, 0xffff));
    let Some(TransportSlice::Icmpv4(icmp)) = parse(&reply).transport else { panic!("no ICMP") };
    let Icmpv4Type::EchoReply(echo) = icmp.icmp_type() else { panic!("no reply") };
    assert_eq!((echo.id, echo.seq, icmp.payload()), (7, 9, &b"hello"[..]));

    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[0], MAC[0])
        .ipv6(v6("2001:db8::2"), v6("2001:db8:1::1"), 3)
        .icmpv6_echo_request(7, 9)
        .write(&mut frame, b"hello")
        .expect("memory");
    assert_eq!(bed.give(0, &frame).0, Verdict::Consumed);
    let reply = bed.taken().remove(0).1;
    let Some(TransportSlice::Icmpv6(icmp)) = parse(&reply).transport else { panic!("no ICMP") };
    assert!(matches!(icmp.icmp_type(), Icmpv6Type::EchoReply(e) if (e.id, e.seq) == (7, 9)));
    assert!(icmp.is_checksum_valid(v6("2001:db8:1::1"), v6("2001:db8::2")));
    assert_eq!(bed.router.counters().echo_replies, 2);
}

#[test]
fn ipv6_is_forwarded_and_its_senders_are_told() {
    let mut bed = Bed::new(settings());
    let frame = udp6("2001:db8::2", "2001:db8:2::7", 64, b"payload");
    let (verdict, after) = bed.give(0, &frame);
    assert_eq!(verdict, SEND_1);
    let mut expected = frame.clone();
    expected[..6].copy_from_slice(&GATEWAY);
    expected[6..12].copy_from_slice(&MAC[1]);
    expected[21] = 63;
    assert_eq!(after, expected);
    let cases = [
        ("2001:db8:2::7", 1, 1, DropReason::TtlExceeded, (3, 0, 0)),
        ("2001:dead::7", 9, 1, DropReason::NoRoute, (1, 0, 0)),
        ("2001:db8:2::7", 9, 1500, DropReason::TooBig, (2, 0, 1500)),
    ];
    for (to, hops, len, reason, told) in cases {
        let frame = udp6("2001:db8::2", to, hops, &vec![1; len]);
        assert_eq!(bed.give(0, &frame).0, Verdict::Drop(reason));
        let sent = bed.taken().remove(0).1;
        let Some(TransportSlice::Icmpv6(icmp)) = parse(&sent).transport else { panic!("no ICMP") };
        assert!(icmp.is_checksum_valid(v6("2001:db8::1"), v6("2001:db8::2")));
        let word = u32::from_be_bytes(icmp.bytes5to8());
        assert_eq!((icmp.type_u8(), icmp.code_u8(), word), told);
        assert_eq!(icmp.payload(), &frame[14..frame.len().min(14 + 1232)]);
    }
    let link_local = udp6("fe80::5", "2001:db8:2::7", 64, b"");
    assert_eq!(bed.give(0, &link_local).0, Verdict::Drop(DropReason::LinkLocal));
}

#[test]
fn long_packets_leave_in_fragments_that_join_to_the_payload() {
    let mut settings = settings();
    settings.ports[0].mtu = 9000;
    let mut bed = Bed::new(settings);
    let payload: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
    let mut frame = udp4("10.0.0.2", "192.0.2.7", 64, &payload);
    set_fragment(&mut frame, 0);
    assert_eq!(bed.give(0, &frame).0, Verdict::Consumed);
    let pieces = bed.taken();
    let mut joined = Vec::new();
    for (n, (port, piece)) in pieces.iter().enumerate() {
        parse(piece);
        assert_eq!((*port, piece[22], &piece[..6]), (1, 63, &GATEWAY[..]));
        assert!(piece.len() <= 14 + 1500);
        let word = u16::from_be_bytes([piece[20], piece[21]]);
        assert_eq!(usize::from(word & 0x1fff) * 8, joined.len());
        assert_eq!(word & 0x2000 != 0, n + 1 < pieces.len());
        joined.extend_from_slice(&piece[34..]);
    }
    assert_eq!(joined, frame[34..]);
    let counters = bed.router.counters();
    assert_eq!((counters.fragments, counters.fragmented, counters.forwarded), (3, 1, 1));
    assert_eq!((counters.received, counters.consumed), (1, 0));
    // A fragment of a fragment keeps "more" to its end.
    let mut frame = udp4("10.0.0.2", "192.0.2.7", 64, &payload[..1992]);
    set_fragment(&mut frame, 0x2000 | 100);
    bed.give(0, &frame);
    let words: Vec<u16> =
        bed.taken().iter().map(|(_, p)| u16::from_be_bytes([p[20], p[21]])).collect();
    assert_eq!(words, vec![0x2000 | 100, 0x2000 | (100 + 185)]);
}

#[test]
fn a_packet_in_a_loop_of_routers_ends() {
    let mut bed = Bed::new(settings());
    let mut frame = udp4("10.0.0.2", "192.0.2.7", 64, b"round and round");
    let mut hops = 0;
    loop {
        // The gateway sends it back.
        frame[..6].copy_from_slice(&MAC[1]);
        let (verdict, after) = bed.give(1, &frame);
        if verdict == Verdict::Drop(DropReason::TtlExceeded) {
            break;
        }
        assert_eq!(verdict, SEND_1);
        hops += 1;
        frame = after;
    }
    assert_eq!(hops, 63);
    assert_eq!(bed.taken().len(), 1, "its sender is told once");
}

#[test]
fn errors_are_limited_and_the_rest_counted() {
    let mut bed = Bed::new(settings());
    let frame = udp4("10.0.0.2", "192.0.2.7", 1, b"x");
    (0..60).for_each(|_| assert_ne!(bed.give(0, &frame).0, SEND_1));
    let counters = bed.router.counters();
    assert_eq!((counters.icmp_errors, counters.icmp_suppressed), (50, 10));
    assert_eq!(bed.taken().len(), 50);
}

/// A packet that dies here, of one of so many senders whom nobody has heard of: on the port's own
/// network, or behind the other port.
fn junk(n: u32) -> Vec<u8> {
    match n % 4 {
        0 => udp4(&format!("10.0.0.{}", 3 + n / 4 % 250), "192.0.2.7", 1, b"x"),
        1 => udp4(&format!("10.0.1.{}", 10 + n / 4 % 240), "192.0.2.7", 1, b"x"),
        2 => udp6(&format!("2001:db8::{:x}:7", 1 + n), "2001:db8:2::7", 1, b"x"),
        _ => udp6("2001:db8::2", &format!("2001:db8:1::{n:x}"), 1, b"x"),
    }
}

#[test]
fn a_flood_of_junk_costs_no_legitimate_frame() {
    let mut bed = Bed::new(settings());
    let known =
        [udp4("10.0.0.2", "192.0.2.7", 64, b"x"), udp6("2001:db8::2", "2001:db8:2::7", 64, b"x")];
    // 100,000 frames a second, of which one in ten is no junk.
    for n in 0..20_000_u32 {
        bed.now = Time::ns(u64::from(n) * 10_000);
        if n % 100 == 99 {
            bed.tick_at(u64::from(n) * 10_000);
        }
        if n % 10 == 9 {
            assert_eq!(bed.give(0, &known[n as usize / 10 % 2]).0, SEND_1, "frame {n}");
        } else {
            assert_ne!(bed.give(0, &junk(n)).0, SEND_1, "frame {n}");
        }
    }
    // A burst of 50 and one each millisecond, of 200.
    let counters = bed.router.counters();
    assert_eq!((counters.forwarded, counters.dropped(DropReason::TtlExceeded)), (2_000, 18_000));
    assert_eq!(counters.icmp_errors + counters.icmp_suppressed, 18_000);
    assert!((200..=250).contains(&counters.icmp_errors), "{}", counters.icmp_errors);
    // A neighbour whom nobody has asked for yet is found among all those whom errors look for.
    bed.taken();
    for frame in [
        udp4("10.0.0.2", "10.0.1.77", 64, b"x"),
        udp6("2001:db8::2", "2001:db8:1::77:77", 64, b"x"),
    ] {
        assert_eq!(bed.give(0, &frame).0, Verdict::Held);
        assert_eq!(bed.taken().len(), 1, "a question");
    }
}

#[test]
fn junk_costs_no_more_than_what_it_pretends_to_be() {
    let mut bed = Bed::new(settings());
    let frame = |ttl| udp4("10.0.0.2", "192.0.2.7", ttl, &[7; 400]);
    let frames = [frame(64), frame(1)];
    // The least of many rounds of each, in turn, since the machine has other work.
    let mut least = [std::time::Duration::MAX; 2];
    for round in 0..400 {
        let kind = round % 2;
        let begun = std::time::Instant::now();
        for _ in 0..50 {
            bed.give(0, &frames[kind]);
        }
        least[kind] = least[kind].min(begun.elapsed());
    }
    // The burst of errors was in the first round, and time stands still.
    assert_eq!(bed.router.counters().icmp_errors, 50);
    assert!(least[1] < 2 * least[0], "forwarding and junk: {least:?}");
}

#[test]
fn workers_can_be_moved_to_threads() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<halfwink_dataplane::Forwarder>();
    is_shared::<halfwink_dataplane::Shared>();
}

#[test]
fn options_that_are_to_be_copied_are_in_every_fragment_and_others_in_the_first() {
    let mut bed = Bed::new(settings());
    let mut frame = udp4("10.0.0.2", "192.0.2.7", 64, &[5; 1900]);
    // Record route (7) is not to be copied, router alert (148) is.
    let options = [7, 3, 4, 1, 148, 4, 0, 0];
    frame.splice(34..34, options);
    frame[14] = 0x47;
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    set_fragment(&mut frame, 0);
    assert_eq!(bed.give(0, &frame).0, Verdict::Consumed);
    let pieces = bed.taken();
    let [(_, first), (_, second)] = pieces.as_slice() else { panic!("two pieces") };
    check_headers(first);
    check_headers(second);
    assert_eq!((first[14], &first[34..42]), (0x47, &options[..]));
    assert_eq!((second[14], &second[34..38]), (0x46, &[148, 4, 0, 0][..]));
    assert_eq!([&first[42..], &second[38..]].concat(), frame[42..]);
}
