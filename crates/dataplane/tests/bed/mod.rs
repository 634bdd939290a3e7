//! A router with two ports, frames made by an independent library, and what came out.
#![allow(dead_code)] // each test uses some of it

use std::sync::Arc;

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, PacketBuilder, SlicedPacket};
use halfwink_dataplane::{
    Forwarder, Frame, Out, PortSettings, Route, Settings, Shared, StaticNeighbour, Verdict,
};
use halfwink_units::Time;

/// What the router itself sent.
#[derive(Debug, Default)]
pub struct Sent {
    pub frames: Vec<(u16, Vec<u8>)>,
    pub datagrams: Vec<Vec<u8>>,
}

impl Out for Sent {
    fn send(&mut self, port: u16, frame: &[u8]) {
        self.frames.push((port, frame.to_vec()));
    }
    fn export(&mut self, datagram: &[u8]) {
        self.datagrams.push(datagram.to_vec());
    }
}

pub const MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// A host on each port's network, and a gateway behind port 1.
pub const HOST: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2]];
pub const GATEWAY: [u8; 6] = [2, 0, 0, 0, 9, 9];

pub fn route(prefix: &str, via: Option<&str>, port: Option<u16>) -> Route {
    let via = via.map(|via| via.parse().expect("an address"));
    Route { prefix: prefix.parse().expect("a prefix"), via, port, silent: false }
}

/// Ports 10.0.0.1/24 and 10.0.1.1/24, 2001:db8::1/64 and 2001:db8:1::1/64; beyond 10.0.1.9 is
/// 192.0.2.0/24, beyond 2001:db8:1::9 is 2001:db8:2::/48; 198.51.100.0/24 is unreachable.
pub fn settings() -> Settings {
    let port = |n: usize, six: &str| PortSettings {
        name: format!("p{n}"),
        mac: MAC[n],
        mtu: 1500,
        addresses: vec![
            format!("10.0.{n}.1/24").parse().expect("one"),
            format!("{six}/64").parse().expect("one"),
        ],
    };
    let neighbour = |port: u16, address: &str, mac| StaticNeighbour {
        port,
        address: address.parse().expect("an address"),
        mac,
    };
    Settings {
        ports: vec![port(0, "2001:db8::1"), port(1, "2001:db8:1::1")],
        routes: vec![
            route("192.0.2.0/24", Some("10.0.1.9"), None),
            route("2001:db8:2::/48", Some("2001:db8:1::9"), None),
            route("198.51.100.0/24", None, None),
        ],
        neighbours: vec![
            neighbour(0, "10.0.0.2", HOST[0]),
            neighbour(1, "10.0.1.2", HOST[1]),
            neighbour(1, "10.0.1.9", GATEWAY),
            neighbour(0, "2001:db8::2", HOST[0]),
            neighbour(1, "2001:db8:1::9", GATEWAY),
        ],
        ..Settings::default()
    }
}

pub struct Bed {
    pub shared: Arc<Shared>,
    pub router: Forwarder,
    pub now: Time,
    pub sent: Sent,
}

impl Bed {
    pub fn new(settings: Settings) -> Bed {
        let shared = Shared::new(settings).expect("good settings");
        let router = Forwarder::new(shared.clone(), 0);
        Bed { shared, router, now: Time::ZERO, sent: Sent::default() }
    }

    /// Gives the router a frame, with room around it, and returns what it has become.
    pub fn give(&mut self, port: u16, frame: &[u8]) -> (Verdict, Vec<u8>) {
        let mut room = vec![0xaa; frame.len() + 128 + 2048];
        room[128..128 + frame.len()].copy_from_slice(frame);
        let mut frame = Frame::new(&mut room, 128, frame.len()).expect("it fits");
        let verdict = self.router.process(self.now, port, &mut frame, &mut self.sent);
        (verdict, frame.bytes().to_vec())
    }

    pub fn tick_at(&mut self, ns: u64) {
        self.now = Time::ns(ns);
        self.router.tick(self.now, &mut self.sent);
    }

    /// What the router sent since the last call.
    pub fn taken(&mut self) -> Vec<(u16, Vec<u8>)> {
        std::mem::take(&mut self.sent.frames)
    }
}

pub fn v4(text: &str) -> [u8; 4] {
    text.parse::<std::net::Ipv4Addr>().expect("an address").octets()
}

pub fn v6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().expect("an address").octets()
}

/// A UDP packet from the host on port 0.
pub fn udp4(from: &str, to: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[0], MAC[0])
        .ipv4(v4(from), v4(to), ttl)
        .udp(1000, 2000)
        .write(&mut frame, payload)
        .expect("memory");
    frame
}

pub fn udp6(from: &str, to: &str, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[0], MAC[0])
        .ipv6(v6(from), v6(to), hops)
        .udp(1000, 2000)
        .write(&mut frame, payload)
        .expect("memory");
    frame
}

/// Sets the "do not fragment" bit, or any flags and offset.
pub fn set_fragment(frame: &mut [u8], fragment: u16) {
    frame[20..22].copy_from_slice(&fragment.to_be_bytes());
    seal4(frame);
}

/// Computes the header's checksum anew, word by word.
pub fn seal4(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let len = usize::from(frame[14] & 15) * 4;
    let sum = ones(&frame[14..14 + len]);
    frame[24..26].copy_from_slice(&(!sum).to_be_bytes());
}

/// The one's complement sum, the slow way of RFC 1071.
pub fn ones(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0u16, |sum, w| {
        let word = u16::from(w[0]) << 8 | u16::from(*w.get(1).unwrap_or(&0));
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// Checks the headers of a frame whose payload may be anything.
pub fn check_headers(frame: &[u8]) {
    let packet = &frame[14..];
    let total = if frame[12..14] == [8, 0] {
        let header = Ipv4HeaderSlice::from_slice(packet).expect("a header");
        assert_eq!(ones(header.slice()), 0xffff);
        usize::from(header.total_len())
    } else {
        assert_eq!(frame[12..14], [0x86, 0xdd]);
        40 + usize::from(Ipv6HeaderSlice::from_slice(packet).expect("a header").payload_length())
    };
    assert_eq!(total, packet.len());
}

/// Parses a frame with an independent library and checks its IPv4 header checksum.
pub fn parse(frame: &[u8]) -> SlicedPacket<'_> {
    let packet = SlicedPacket::from_ethernet(frame).expect("a whole packet");
    if frame[12..14] == [8, 0] {
        assert_eq!(ones(&frame[14..14 + usize::from(frame[14] & 15) * 4]), 0xffff);
    }
    packet
}
