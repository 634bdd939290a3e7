//! Asking for neighbours and answering them.

use crate::bed;

use bed::*;
use halfwink_dataplane::{DropReason, Settings, Verdict};

/// No neighbour is given but the host on port 0, which has to be told of errors.
fn unknown() -> Settings {
    let mut settings = settings();
    settings.neighbours.retain(|neighbour| neighbour.port == 0);
    settings
}

fn arp(op: u8, mac: [u8; 6], source: &str, to: [u8; 6], target: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(to);
    frame.extend(mac);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, op]);
    frame.extend(mac);
    frame.extend(v4(source));
    frame.extend(if op == 1 { [0; 6] } else { to });
    frame.extend(v4(target));
    frame
}

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    let mut bed = Bed::new(unknown());
    for n in 0..3 {
        let frame = udp4("10.0.0.2", "192.0.2.7", 64, &[n]);
        assert_eq!(bed.give(0, &frame).0, Verdict::Held);
    }
    // One question, for the gateway.
    let ask = arp(1, MAC[1], "10.0.1.1", [0xff; 6], "10.0.1.9");
    assert_eq!(bed.taken(), [(1, ask)]);
    // The answer may come to another worker.
    let mut other = halfwink_dataplane::Forwarder::new(bed.shared.clone(), 1);
    std::mem::swap(&mut other, &mut bed.router);
    let answer = arp(2, GATEWAY, "10.0.1.9", MAC[1], "10.0.1.1");
    assert_eq!(bed.give(1, &answer).0, Verdict::Consumed);
    let released = bed.taken();
    assert_eq!(released.len(), 3);
    for (n, (port, frame)) in released.iter().enumerate() {
        assert_eq!((*port, &frame[..6], &frame[6..12]), (1, &GATEWAY[..], &MAC[1][..]));
        assert_eq!((frame[22], frame[42]), (63, n as u8));
        parse(frame);
    }
    std::mem::swap(&mut other, &mut bed.router);
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Send { port: 1 });
    // It moves to another card, and says so to everyone.
    let moved = [2, 0, 0, 0, 9, 8];
    let gratuitous = arp(1, moved, "10.0.1.9", [0xff; 6], "10.0.1.9");
    assert_eq!(bed.give(1, &gratuitous).0, Verdict::Consumed);
    assert_eq!(bed.give(0, &frame).1[..6], moved);
}

#[test]
fn a_silent_neighbour_is_asked_three_times_and_its_senders_are_told() {
    let mut bed = Bed::new(unknown());
    bed.tick_at(0);
    bed.taken();
    let frame = udp4("10.0.0.2", "10.0.1.77", 64, b"anyone?");
    bed.give(0, &frame);
    let mut asked = bed.taken().len();
    for ms in (0..2_950).step_by(10) {
        bed.tick_at(ms * 1_000_000);
        asked += bed.taken().iter().filter(|(port, f)| *port == 1 && f[12..14] == [8, 6]).count();
    }
    assert_eq!(asked, 3);
    bed.tick_at(3_200_000_000);
    bed.tick_at(3_400_000_000);
    let told = bed.taken();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0, &told[0].1[34..36]), (0, &[3, 1][..]));
    assert_eq!(bed.router.counters().dropped(DropReason::HostUnreachable), 1);
    // Only so many may wait.
    for _ in 0..16 {
        assert_eq!(bed.give(0, &frame).0, Verdict::Held);
    }
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::QueueFull));
}

#[test]
fn questions_for_our_addresses_are_answered_and_others_are_not() {
    let mut bed = Bed::new(unknown());
    let who = arp(1, HOST[1], "10.0.1.2", [0xff; 6], "10.0.1.1");
    assert_eq!(bed.give(1, &who).0, Verdict::Consumed);
    assert_eq!(bed.taken(), [(1, arp(2, MAC[1], "10.0.1.1", HOST[1], "10.0.1.2"))]);
    // Who asks is known from then on (RFC 826).
    let frame = udp4("10.0.0.2", "10.0.1.2", 64, b"x");
    assert_eq!(bed.give(0, &frame).1[..6], HOST[1]);
    let other = arp(1, HOST[1], "10.0.1.2", [0xff; 6], "10.0.1.3");
    assert_eq!(bed.give(1, &other).0, Verdict::Consumed);
    // A probe (RFC 5227) is answered, and teaches nothing.
    let probe = arp(1, HOST[1], "0.0.0.0", [0xff; 6], "10.0.1.1");
    assert_eq!(bed.give(1, &probe).0, Verdict::Consumed);
    assert_eq!(bed.taken().len(), 1);
    let bad = Verdict::Drop(DropReason::BadNeighbour);
    for frame in [
        arp(1, HOST[1], "10.0.1.1", [0xff; 6], "10.0.1.1"),
        arp(1, HOST[1], "10.9.9.9", [0xff; 6], "10.0.1.1"),
        arp(3, HOST[1], "10.0.1.2", [0xff; 6], "10.0.1.1"),
        arp(1, [0xff; 6], "10.0.1.2", [0xff; 6], "10.0.1.1"),
    ] {
        assert_eq!(bed.give(1, &frame).0, bad);
    }
    assert_eq!(bed.give(1, &who[..41]).0, Verdict::Drop(DropReason::Short));
    assert!(bed.taken().is_empty());
}

/// A neighbour discovery message of RFC 4861, 4.3 and 4.4, by hand.
fn nd(
    kind: u8,
    flags: u8,
    (mac, source): ([u8; 6], &str),
    (to_mac, to): ([u8; 6], &str),
    target: &str,
    option: &[u8],
) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(v6(target));
    message.extend(option);
    let mut pseudo = Vec::new();
    pseudo.extend(v6(source));
    pseudo.extend(v6(to));
    pseudo.extend([0, 0, 0, message.len() as u8, 0, 0, 0, 58]);
    pseudo.extend(&message);
    let sum = !ones(&pseudo);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = Vec::new();
    frame.extend(to_mac);
    frame.extend(mac);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, message.len() as u8, 58, 255]);
    frame.extend(v6(source));
    frame.extend(v6(to));
    frame.extend(message);
    frame
}

fn option(kind: u8, mac: [u8; 6]) -> Vec<u8> {
    [&[kind, 1][..], &mac].concat()
}

#[test]
fn ipv6_neighbours_are_solicited_and_packets_wait_for_them() {
    let mut bed = Bed::new(unknown());
    let frame = udp6("2001:db8::2", "2001:db8:1::abcd:1234", 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Held);
    // ff02::1:ffcd:1234 of ...:abcd:1234, and our link-local address of 02:00:00:00:00:02.
    let group = ([0x33, 0x33, 0xff, 0xcd, 0x12, 0x34], "ff02::1:ffcd:1234");
    let target = "2001:db8:1::abcd:1234";
    let ours = (MAC[1], "fe80::ff:fe00:2");
    assert_eq!(bed.taken(), [(1, nd(135, 0, ours, group, target, &option(1, MAC[1])))]);
    let answer = nd(136, 0x60, (HOST[1], target), ours, target, &option(2, HOST[1]));
    let mut tampered = answer.clone();
    tampered[80] ^= 1;
    assert_eq!(bed.give(1, &tampered).0, Verdict::Drop(DropReason::BadChecksum));
    let mut far = answer.clone();
    far[21] = 254;
    assert_eq!(bed.give(1, &far).0, Verdict::Drop(DropReason::BadNeighbour));
    assert_eq!(bed.give(1, &answer).0, Verdict::Consumed);
    let released = bed.taken();
    assert_eq!((released.len(), &released[0].1[..6]), (1, &HOST[1][..]));
    assert_eq!(bed.give(0, &frame).0, Verdict::Send { port: 1 });
}

#[test]
fn solicitations_are_answered_also_those_that_look_for_duplicates() {
    let mut bed = Bed::new(unknown());
    let group = ([0x33, 0x33, 0xff, 0, 0, 1], "ff02::1:ff00:1");
    let asker = (HOST[1], "2001:db8:1::5");
    let ours = (MAC[1], "2001:db8:1::1");
    let ask = nd(135, 0, asker, group, ours.1, &option(1, HOST[1]));
    assert_eq!(bed.give(1, &ask).0, Verdict::Consumed);
    assert_eq!(bed.taken(), [(1, nd(136, 0xe0, ours, asker, ours.1, &option(2, MAC[1])))]);
    let frame = udp6("2001:db8::2", asker.1, 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Send { port: 1 });
    let duplicate = nd(135, 0, (HOST[1], "::"), group, ours.1, &[]);
    assert_eq!(bed.give(1, &duplicate).0, Verdict::Consumed);
    let everyone = ([0x33, 0x33, 0, 0, 0, 1], "ff02::1");
    assert_eq!(bed.taken(), [(1, nd(136, 0xa0, ours, everyone, ours.1, &option(2, MAC[1])))]);
    let bad = nd(135, 0, asker, group, ours.1, &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bed.give(1, &bad).0, Verdict::Drop(DropReason::BadNeighbour));
    let other = nd(135, 0, asker, group, "2001:db8:1::ff00:1", &option(1, HOST[1]));
    assert_eq!(bed.give(1, &other).0, Verdict::Consumed);
    assert!(bed.taken().is_empty());
}

#[test]
fn a_router_tells_everyone_its_addresses_once_and_again_after_a_reload() {
    let mut bed = Bed::new(settings());
    bed.tick_at(0);
    let told = bed.taken();
    assert_eq!(told.len(), 4);
    assert!(told.contains(&(1, arp(1, MAC[1], "10.0.1.1", [0xff; 6], "10.0.1.1"))));
    bed.tick_at(1);
    assert!(bed.taken().is_empty());
    bed.shared.reload(settings()).expect("good settings");
    bed.tick_at(2);
    assert_eq!(bed.taken().len(), 4);
}

#[test]
fn a_reload_changes_routes_between_two_packets() {
    let mut bed = Bed::new(settings());
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Send { port: 1 });
    let mut changed = settings();
    changed.routes[0] = route("192.0.2.0/24", None, None);
    bed.shared.reload(changed).expect("good settings");
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::Unreachable));
    for (gateway, said) in [
        ("10.7.7.7", "gateway 10.7.7.7 is on no network of any port"),
        ("10.0.1.1", "10.0.1.1: the gateway of a route is the router itself"),
        ("10.0.1.255", "10.0.1.255: the gateway of a route is a broadcast address"),
    ] {
        let mut wrong = settings();
        wrong.routes[0] = route("192.0.2.0/24", Some(gateway), None);
        let error = bed.shared.reload(wrong).expect_err("no such gateway").to_string();
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(bed.give(0, &frame).0, Verdict::Drop(DropReason::Unreachable));
}

/// Solicitations for the router from as many addresses, each with its option.
fn strangers(bed: &mut Bed, count: u32) {
    let ours = (MAC[1], "2001:db8:1::1");
    for n in 0..count {
        let source = format!("2001:db8:1::{:x}:{:x}", 0x100 + (n >> 16), n & 0xffff);
        let mac = [2, 9, 9, (n >> 16) as u8, (n >> 8) as u8, n as u8];
        let frame = nd(135, 0, (mac, &source), ours, ours.1, &option(1, mac));
        assert_eq!(bed.give(1, &frame).0, Verdict::Consumed);
    }
}

#[test]
fn six_thousand_strangers_stop_no_new_neighbour() {
    let mut bed = Bed::new(unknown());
    strangers(&mut bed, 6000);
    // They are answered, all of them.
    assert_eq!(bed.taken().len(), 6000);
    let frame = udp6("2001:db8::2", "2001:db8:1::77", 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Held);
    let frame = udp4("10.0.0.2", "10.0.1.77", 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Held);
    assert_eq!(bed.taken().len(), 2);
    // Nor does one who answers go for more of them.
    let answer = arp(2, GATEWAY, "10.0.1.77", MAC[1], "10.0.1.1");
    assert_eq!(bed.give(1, &answer).0, Verdict::Consumed);
    let mac = [2, 0, 0, 0, 0, 0x77];
    let (theirs, ours) = ("2001:db8:1::77", (MAC[1], "fe80::ff:fe00:2"));
    let answer = nd(136, 0x60, (mac, theirs), ours, theirs, &option(2, mac));
    assert_eq!(bed.give(1, &answer).0, Verdict::Consumed);
    assert_eq!(bed.taken().len(), 2);
    strangers(&mut bed, 6000);
    let frame = udp6("2001:db8::2", "2001:db8:1::77", 64, b"x");
    assert_eq!(bed.give(0, &frame).0, Verdict::Send { port: 1 });
}

#[test]
fn a_scan_of_a_network_stops_no_one_elses_packets() {
    let mut bed = Bed::new(unknown());
    for n in 0..20_000_u32 {
        let to = format!("2001:db8:1::{:x}:{:x}", 0x200 + (n >> 16), n & 0xffff);
        bed.give(0, &udp6("2001:db8::2", &to, 64, b"x"));
    }
    // No more were asked for than may be.
    assert_eq!(bed.taken().len(), 512);
    assert_eq!(bed.router.counters().dropped(DropReason::QueueFull), 20_000 - 512);
    // From elsewhere one more may be, and who was asked for longest goes.
    let mut frame = udp6("2001:db8:1::5", "2001:db8:1::77", 64, b"x");
    frame[..6].copy_from_slice(&MAC[1]);
    assert_eq!(bed.give(1, &frame).0, Verdict::Held);
    bed.tick_at(200_000_000);
    assert_eq!(bed.router.counters().dropped(DropReason::QueueFull), 20_000 - 511);
    // The other family is none of its business.
    let mut frame = udp4("10.0.1.5", "10.0.1.77", 64, b"x");
    frame[..6].copy_from_slice(&MAC[1]);
    assert_eq!(bed.give(1, &frame).0, Verdict::Held);
}
