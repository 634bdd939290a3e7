//! Arbitrary bytes behind ESP, sealed with the right key: what a peer that has the key may send is
//! routed, or dropped and counted, and never leaves as anything but a packet.

use std::sync::{Arc, OnceLock};

use halfwink_dataplane::{
    AeadKey, AppSettings, Forwarder, Frame, IpsecSettings, Lifetime, Numbers, Out, PortSettings,
    SecurityAssociation, Settings, Shared, Verdict,
};
use halfwink_units::Time;
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM};

const MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const SPI: u32 = 257;
/// Key and salt (RFC 4106, 8.1).
const KEY: [u8; 20] = [7; 20];
/// Ethernet, an IPv4 header, SPI, sequence, initialisation vector.
const OUTER: usize = 14 + 20 + 8 + 8;
const TAG: usize = 16;
/// Next headers of the trailer: a packet of IPv4, of IPv6 (RFC 4303, 2.6).
const NEXT: [u8; 2] = [4, 41];

struct Sent(u64);

impl Out for Sent {
    fn send(&mut self, port: u16, frame: &[u8]) {
        assert!(port < 2 && frame.len() >= 34, "{port}, {} bytes", frame.len());
        self.0 += 1;
    }
    fn export(&mut self, _: &[u8]) {}
}

fn router() -> Arc<Shared> {
    static ROUTER: OnceLock<Arc<Shared>> = OnceLock::new();
    let ports = [["10.0.0.1/24", "2001:db8::1/64"], ["10.0.1.1/24", "2001:db8:1::1/64"]];
    let ports = ports.into_iter().zip(MAC).map(|(addresses, mac)| PortSettings {
        name: "p".into(),
        mac,
        mtu: 1500,
        addresses: addresses.iter().map(|a| a.parse().expect("an address")).collect(),
    });
    let build = || {
        let association = SecurityAssociation {
            spi: SPI,
            local: [10, 0, 1, 1].into(),
            peer: [10, 0, 1, 9].into(),
            key: AeadKey::new(&KEY).expect("a length"),
            esn: false,
            selectors: vec![],
            numbers: Numbers::unkept(0),
            lifetime: Lifetime::default(),
        };
        let ipsec = IpsecSettings { inbound: vec![association], ..IpsecSettings::default() };
        let app = AppSettings::Ipsec(ipsec);
        let settings = Settings { ports: ports.collect(), app, ..Settings::default() };
        Shared::new(settings).expect("good settings")
    };
    ROUTER.get_or_init(build).clone()
}

fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A frame from the peer around this: inner packet, padding and trailer, as they come.
fn sealed(sequence: u32, inner: &[u8], room: &mut Vec<u8>) {
    room.clear();
    room.extend(MAC[1]);
    room.extend([2, 0, 0, 0, 9, 9, 8, 0]);
    let length = (OUTER - 14 + inner.len() + TAG) as u16;
    room.extend([0x45, 0]);
    room.extend(length.to_be_bytes());
    // No fragment, 64 hops, ESP.
    room.extend([0, 0, 0, 0, 64, 50, 0, 0, 10, 0, 1, 9, 10, 0, 1, 1]);
    let sum = checksum(&room[14..34]);
    room[24..26].copy_from_slice(&sum.to_be_bytes());
    room.extend(SPI.to_be_bytes());
    room.extend(sequence.to_be_bytes());
    let iv = u64::from(sequence).to_be_bytes();
    room.extend(iv);
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&KEY[16..]);
    nonce[4..].copy_from_slice(&iv);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY[..16]).expect("a length"));
    let (head, mut body) = (room[34..42].to_vec(), inner.to_vec());
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(head), &mut body).expect("it is short");
    room.extend(body);
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let mut router = Forwarder::new(router(), 0);
    let (mut rest, mut out, mut room) = (bytes, Sent(0), Vec::new());
    // The association is the same for all runs, and takes no number twice.
    static SEQUENCE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let mut frames = 0;
    // Each: flags, length, bytes.
    while let [flags, low, high, more @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high]) & 0x7ff).min(more.len());
        let (inner, after) = more.split_at(length);
        rest = after;
        let mut inner = inner.to_vec();
        if flags & 1 == 1 {
            // Padded and closed as it should be.
            let pad = (4 - (inner.len() + 2) % 4) % 4;
            inner.extend((1..=pad as u8).chain([pad as u8, NEXT[usize::from(flags >> 1 & 1)]]));
        }
        let sequence = SEQUENCE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        sealed(sequence, &inner, &mut room);
        let length = room.len();
        let Some(mut frame) = Frame::new(&mut room, 0, length) else { return };
        frames += 1;
        let now = Time::ns(1_000 * u64::from(sequence));
        if let Verdict::Send { port } = router.process(now, 1, &mut frame, &mut out) {
            out.send(port, frame.bytes());
        }
    }
    assert!(router.counters().received == frames, "{frames} frames");
}
