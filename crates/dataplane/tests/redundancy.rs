//! Two routers at the ends of a link that carries nothing twice.

use crate::bed;

use bed::*;
use halfwink_dataplane::{
    AppSettings, DropReason, RedundancySettings, Settings, StaticNeighbour, Verdict,
};

fn near() -> Settings {
    let mut settings = settings();
    settings.app = AppSettings::Redundancy(RedundancySettings {
        link: 1,
        peer: "10.0.1.9".parse().expect("one"),
        encoder_bytes: 1 << 20,
        decoder_bytes: 1 << 22,
        sample_bits: 3,
        key: 77,
        ..RedundancySettings::default()
    });
    settings
}

fn far() -> Settings {
    let mut settings = settings();
    settings.ports[0].mac = GATEWAY;
    settings.ports[0].addresses = vec!["10.0.1.9/24".parse().expect("one")];
    settings.ports[1].addresses = vec!["192.0.2.1/24".parse().expect("one")];
    settings.routes = vec![route("10.0.0.0/24", Some("10.0.1.1"), None)];
    settings.neighbours = [(0, "10.0.1.1", MAC[1]), (1, "192.0.2.7", HOST[1])]
        .map(|(port, address, mac)| StaticNeighbour {
            port,
            address: address.parse().expect("one"),
            mac,
        })
        .to_vec();
    let AppSettings::Redundancy(mut redundancy) = near().app else { panic!("it is") };
    redundancy.link = 0;
    redundancy.peer = "10.0.1.1".parse().expect("one");
    settings.app = AppSettings::Redundancy(redundancy);
    settings
}

/// A payload without repetition, from a linear congruential generator.
fn payload(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn repeated_bytes_cross_the_link_once_and_arrive_as_they_were() {
    let (mut near, mut far) = (Bed::new(near()), Bed::new(far()));
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, &payload(1, 1200));
    for n in 0..3 {
        let (verdict, sent) = near.give(0, &frame);
        assert_eq!(verdict, Verdict::Send { port: 1 });
        parse(&sent);
        assert_eq!(sent.len() < 100, n > 0, "{}", sent.len());
        let (verdict, restored) = far.give(0, &sent);
        assert_eq!(verdict, Verdict::Send { port: 1 });
        parse(&restored);
        assert_eq!((restored[22], &restored[26..]), (62, &frame[26..]));
        // Length, identification, fragment, protocol too.
        assert_eq!((&restored[14..22], restored[23]), (&frame[14..22], frame[23]));
    }
    assert_eq!(near.router.counters().redundancy_encoded, 2);
    assert_eq!(near.router.counters().redundancy_saved_bytes, 2 * (1208 - 28));
    assert_eq!(far.router.counters().redundancy_decoded, 2);
}

#[test]
fn a_lost_packet_costs_one_more_and_is_then_sent_again() {
    let (mut near, mut far) = (Bed::new(near()), Bed::new(far()));
    let frame = udp4("10.0.0.2", "192.0.2.7", 64, &payload(2, 1000));
    near.give(0, &frame); // lost
    let (_, sent) = near.give(0, &frame);
    assert_eq!(far.give(0, &sent).0, Verdict::Drop(DropReason::RedundancyMissing));
    let refusal = far.taken().remove(0);
    assert_eq!(refusal.0, 0);
    parse(&refusal.1);
    assert_eq!(near.give(1, &refusal.1).0, Verdict::Consumed);
    assert_eq!(near.router.counters().redundancy_refused, 1);
    // In full, and from then on by reference again.
    for n in 0..2 {
        let (_, sent) = near.give(0, &frame);
        assert_eq!(sent.len() == frame.len(), n == 0);
        assert_eq!(far.give(0, &sent).0, Verdict::Send { port: 1 });
    }
    // A refusal from somebody else is none.
    let mut forged = refusal.1.clone();
    forged[26..30].copy_from_slice(&v4("10.0.1.77"));
    seal4(&mut forged);
    assert_eq!(near.give(1, &forged).0, Verdict::Drop(DropReason::RedundancyBad));
}

#[test]
fn fragments_small_packets_and_ipv6_go_as_they_are() {
    let mut near = Bed::new(near());
    let mut fragment = udp4("10.0.0.2", "192.0.2.7", 64, &payload(3, 800));
    set_fragment(&mut fragment, 0x2000);
    let small = udp4("10.0.0.2", "192.0.2.7", 64, &payload(4, 50));
    let six = udp6("2001:db8::2", "2001:db8:2::7", 64, &payload(5, 800));
    for frame in [&fragment, &small, &six] {
        for _ in 0..3 {
            assert_eq!(near.give(0, frame).1.len(), frame.len());
        }
    }
    // Another's use of the link's protocol would not be understood at its end.
    let mut other = udp4("10.0.0.2", "192.0.2.7", 64, b"x");
    other[23] = 253;
    seal4(&mut other);
    assert_eq!(near.give(0, &other).0, Verdict::Drop(DropReason::RedundancyBad));
}
