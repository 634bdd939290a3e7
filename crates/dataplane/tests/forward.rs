//! Forwarding, from hand-made frames.

use std::sync::Arc;

use halfwink_dataplane::{
    DropReason, Forwarder, Frame, Out, PortSettings, Route, Settings, Shared, StaticNeighbour,
    Verdict,
};
use halfwink_units::Time;

struct Sent(Vec<(u16, Vec<u8>)>);

impl Out for Sent {
    fn send(&mut self, port: u16, frame: &[u8]) {
        self.0.push((port, frame.to_vec()));
    }
    fn export(&mut self, _: &[u8]) {}
}

fn settings() -> Settings {
    let port = |n: u8| PortSettings {
        name: format!("p{n}"),
        mac: [2, 0, 0, 0, 0, n],
        mtu: 1500,
        addresses: vec![format!("10.0.{n}.1/24").parse().expect("one")],
    };
    Settings {
        ports: vec![port(0), port(1)],
        routes: vec![
            Route {
                prefix: "192.0.2.0/24".parse().expect("one"),
                via: Some("10.0.1.9".parse().expect("one")),
                port: None,
            },
            Route { prefix: "198.51.100.0/24".parse().expect("one"), via: None, port: None },
        ],
        neighbours: vec![StaticNeighbour {
            port: 1,
            address: "10.0.1.9".parse().expect("one"),
            mac: [2, 0, 0, 0, 9, 9],
        }],
        ..Settings::default()
    }
}

#[test]
fn a_packet_by_hand() {
    let shared: Arc<Shared> = Shared::new(settings()).expect("good settings");
    let mut router = Forwarder::new(shared, 0);
    // 10.0.0.2 to 192.0.2.7, TTL 64, protocol 253, no payload: words sum to 0x155d1.
    let mut room = vec![
        2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 7, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0,
        0, 2, 192, 0, 2, 7,
    ];
    let sum: u32 = room[14..].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    room[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut out = Sent(Vec::new());
    let len = room.len();
    let mut frame = Frame::new(&mut room, 0, len).expect("fits");
    assert_eq!(router.process(Time::ZERO, 0, &mut frame, &mut out), Verdict::Send { port: 1 });
    assert_eq!(frame.bytes()[..12], [2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 0, 1]);
    assert_eq!(frame.bytes()[22], 63);
    assert_eq!(frame.bytes()[24..26], (sum + 0x100).to_be_bytes());
    assert_eq!(router.counters().forwarded, 1);
    // It has arrived at another port now, under an address that is not that port's.
    assert_eq!(
        router.process(Time::ZERO, 0, &mut frame, &mut out),
        Verdict::Drop(DropReason::NotForUs)
    );
}
