//! Every string of bytes is safe, and what is forwarded is whole.

use crate::bed;

use bed::*;
use halfwink_dataplane::{
    AeadKey, AppSettings, Forwarder, Frame, IpsecSettings, Lifetime, NetFlowSettings, Numbers,
    RedundancySettings, SecurityAssociation, Settings, Shared, Verdict,
};
use halfwink_units::Time;
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};

fn apps() -> &'static [Arc<Shared>] {
    static APPS: OnceLock<Vec<Arc<Shared>>> = OnceLock::new();
    let association = |spi, key| SecurityAssociation {
        spi,
        local: "10.0.1.1".parse().expect("one"),
        peer: "10.0.1.9".parse().expect("one"),
        key: AeadKey::new(&[key; 36]).expect("a length"),
        esn: true,
        selectors: vec![],
        numbers: Numbers::unkept(0),
        lifetime: Lifetime::default(),
    };
    APPS.get_or_init(|| {
        let all = [
            AppSettings::Route,
            AppSettings::NetFlow(NetFlowSettings { flows: 64, ..NetFlowSettings::default() }),
            AppSettings::Ipsec(IpsecSettings {
                outbound: vec![association(256, 1)],
                inbound: vec![association(257, 2)],
                ..IpsecSettings::default()
            }),
            AppSettings::Redundancy(RedundancySettings {
                link: 1,
                peer: "10.0.1.9".parse().expect("one"),
                encoder_bytes: 1 << 20,
                decoder_bytes: 1 << 20,
                ..RedundancySettings::default()
            }),
        ];
        let shared = |app| Shared::new(Settings { app, ..settings() }).expect("good settings");
        all.into_iter().map(shared).collect()
    })
}

/// Gives one frame to every application, in rooms of different sizes.
fn everywhere(port: u16, frame: &[u8]) {
    for shared in apps() {
        let mut router = Forwarder::new(shared.clone(), 0);
        for (before, after) in [(0, 0), (128, 2000)] {
            let mut room = vec![0; before + frame.len() + after];
            room[before..before + frame.len()].copy_from_slice(frame);
            let mut frame = Frame::new(&mut room, before, frame.len()).expect("fits");
            let mut out = Sent::default();
            let verdict = router.process(Time::ns(1), port, &mut frame, &mut out);
            if let Verdict::Send { port } = verdict {
                assert_eq!(frame.bytes()[6..12], MAC[usize::from(port)]);
                check_headers(frame.bytes());
            }
            for (_, sent) in &out.frames {
                if sent[12..14] != [8, 6] {
                    check_headers(sent);
                }
            }
        }
        let total = router.counters();
        assert_eq!(total.received, 2);
        assert_eq!(total.received, total.forwarded + total.consumed + total.held + total.drops());
    }
}

/// Headers that pass the first checks, then anything.
fn almost_valid() -> impl Strategy<Value = Vec<u8>> {
    let v4 = (any::<[u8; 3]>(), 0usize..4, prop::collection::vec(any::<u8>(), 0..120)).prop_map(
        |([protocol, dst, fragment], options, body)| {
            let to = ["192.0.2.7", "10.0.0.1", "10.0.1.1", "10.0.1.2", "203.0.113.1", "224.0.0.1"];
            let mut frame = udp4("10.0.0.2", to[usize::from(dst) % to.len()], 64, &[]);
            frame.truncate(34);
            frame.resize(34 + options * 4, 1);
            frame[14] = 0x45 + options as u8;
            let protocols = [1, 6, 17, 50, 253, protocol];
            frame[23] = protocols[usize::from(protocol) % 6];
            frame[20..22].copy_from_slice(&[fragment & 0x20, 0]);
            frame.extend(body);
            let total = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            seal4(&mut frame);
            frame
        },
    );
    let v6 = (any::<[u8; 2]>(), prop::collection::vec(any::<u8>(), 0..120)).prop_map(
        |([next, dst], body)| {
            let to =
                ["2001:db8:2::7", "2001:db8::1", "fe80::ff:fe00:1", "ff02::1", "ff02::1:ff00:1"];
            let mut frame = udp6("2001:db8::2", to[usize::from(dst) % to.len()], 255, &[]);
            frame.truncate(54);
            let kinds = [0, 6, 17, 43, 44, 50, 51, 58, 58, 60, next];
            frame[20] = kinds[usize::from(next) % kinds.len()];
            frame.extend(body);
            let len = (frame.len() - 54) as u16;
            frame[18..20].copy_from_slice(&len.to_be_bytes());
            if frame[20] == 58 && frame.len() >= 58 {
                frame[54] = [128, 135, 136, frame[54]][usize::from(next) % 4];
                frame[56..58].fill(0);
                let mut pseudo = frame[22..54].to_vec();
                pseudo.extend([0, 0, 0, len as u8, 0, 0, 0, 58]);
                pseudo.extend(&frame[54..]);
                let sum = !ones(&pseudo);
                frame[56..58].copy_from_slice(&sum.to_be_bytes());
            }
            frame
        },
    );
    prop_oneof![v4, v6]
}

#[test]
fn frames_of_every_length_are_safe() {
    let good = [
        udp4("10.0.0.2", "192.0.2.7", 64, &[3; 100]),
        udp6("2001:db8::2", "2001:db8:2::7", 64, &[3; 100]),
    ];
    for frame in good {
        for len in 0..frame.len() {
            everywhere(0, &frame[..len]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn any_bytes_are_safe(
        frame in prop::collection::vec(any::<u8>(), 0..200),
        ethertype in prop::sample::select(vec![[8u8, 0], [8, 6], [0x86, 0xdd]]),
    ) {
        let mut frame = frame;
        if frame.len() >= 15 {
            frame[..6].copy_from_slice(&MAC[0]);
            frame[12..14].copy_from_slice(&ethertype);
            frame[14] = if ethertype == [0x86, 0xdd] { 0x60 } else { 0x45 };
        }
        everywhere(0, &frame);
    }

    #[test]
    fn packets_with_anything_in_them_are_safe(frame in almost_valid(), port in 0u16..2) {
        let mut frame = frame;
        frame[..6].copy_from_slice(&MAC[usize::from(port)]);
        everywhere(port, &frame);
    }

    #[test]
    fn forwarding_changes_what_it_must_and_nothing_else(
        body in prop::collection::vec(any::<u8>(), 0..1400),
        ttl in 2u8..,
        tos: u8,
        host: u8,
    ) {
        let to = format!("192.0.2.{host}");
        let mut frame = udp4("10.0.0.2", &to, ttl, &body);
        frame[15] = tos;
        seal4(&mut frame);
        let (verdict, after) = Bed::new(settings()).give(0, &frame);
        prop_assert_eq!(verdict, Verdict::Send { port: 1 });
        parse(&after);
        let mut expected = frame;
        expected[..6].copy_from_slice(&GATEWAY);
        expected[6..12].copy_from_slice(&MAC[1]);
        expected[22] -= 1;
        seal4(&mut expected);
        prop_assert_eq!(after, expected);
    }
}
