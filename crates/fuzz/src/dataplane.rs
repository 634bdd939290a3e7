//! Frames of arbitrary bytes, one after another, through a router with each application.

use std::sync::{Arc, OnceLock};

use halfwink_dataplane::{
    AeadKey, AppSettings, Forwarder, Frame, IpsecSettings, Lifetime, NetFlowSettings, Numbers, Out,
    PortSettings, RedundancySettings, Route, SecurityAssociation, Settings, Shared,
    StaticNeighbour, Verdict,
};
use halfwink_units::Time;

const MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

struct Sizes(usize);

impl Out for Sizes {
    fn send(&mut self, port: u16, frame: &[u8]) {
        assert!(port < 2 && frame.len() >= 34);
        assert_eq!(frame[6..12], MAC[usize::from(port)]);
        self.0 += frame.len();
    }
    fn export(&mut self, datagram: &[u8]) {
        assert!(datagram.len() <= 1452);
        self.0 += datagram.len();
    }
}

fn apps() -> Vec<AppSettings> {
    let association = |spi, key| SecurityAssociation {
        spi,
        local: [10, 0, 1, 1].into(),
        peer: [10, 0, 1, 9].into(),
        key: AeadKey::new(&[key; 20]).expect("a length"),
        esn: key == 2,
        selectors: vec![],
        numbers: Numbers::unkept(0),
        lifetime: Lifetime::default(),
    };
    let netflow = |format| NetFlowSettings { format, flows: 16, ..NetFlowSettings::default() };
    vec![
        AppSettings::Route,
        AppSettings::NetFlow(netflow(halfwink_dataplane::ExportFormat::V5)),
        AppSettings::NetFlow(netflow(halfwink_dataplane::ExportFormat::Ipfix)),
        AppSettings::Ipsec(IpsecSettings {
            outbound: vec![association(256, 1)],
            inbound: vec![association(257, 2)],
            ..IpsecSettings::default()
        }),
        AppSettings::Redundancy(RedundancySettings {
            link: 1,
            peer: [10, 0, 1, 9].into(),
            encoder_bytes: 1 << 20,
            decoder_bytes: 1 << 20,
            sample_bits: 2,
            ..RedundancySettings::default()
        }),
    ]
}

fn routers() -> &'static [Arc<Shared>] {
    static ROUTERS: OnceLock<Vec<Arc<Shared>>> = OnceLock::new();
    let ports = [["10.0.0.1/24", "2001:db8::1/64"], ["10.0.1.1/24", "2001:db8:1::1/64"]];
    let ports = ports.into_iter().zip(MAC).map(|(addresses, mac)| PortSettings {
        name: "p".into(),
        mac,
        mtu: 1280,
        addresses: addresses.iter().map(|a| a.parse().expect("an address")).collect(),
    });
    let route = |prefix: &str, via: &str| Route {
        prefix: prefix.parse().expect("a prefix"),
        via: via.parse().ok(),
        port: None,
        silent: false,
    };
    ROUTERS.get_or_init(|| {
        let settings = Settings {
            ports: ports.collect(),
            routes: vec![route("0.0.0.0/0", "10.0.1.9"), route("::/0", "2001:db8:1::9")],
            neighbours: vec![StaticNeighbour {
                port: 1,
                address: [10, 0, 1, 9].into(),
                mac: [2, 0, 0, 0, 9, 9],
            }],
            ..Settings::default()
        };
        let shared = |app| Shared::new(Settings { app, ..settings.clone() });
        apps().into_iter().map(|app| shared(app).expect("good settings")).collect()
    })
}

/// One's complement checksum of a header that was made up, so that more than the check is tried.
fn seal(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15) * 4;
    if packet[0] >> 4 != 4 || len < 20 || len > packet.len() {
        return;
    }
    packet[10..12].fill(0);
    let sum: u32 = packet[..len].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else { return };
    let shared = &routers()[usize::from(first) % routers().len()];
    let mut router = Forwarder::new(shared.clone(), 0);
    let mut out = Sizes(0);
    let mut now = 0;
    // Each frame: flags, length, bytes.
    while let [flags, low, high, more @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high]) & 0xfff).min(more.len());
        let (frame, after) = more.split_at(len);
        rest = after;
        let (port, before) = (u16::from(flags & 1), usize::from(flags & 2) * 64);
        let mut room = vec![0; before * 2 + len];
        room[before..before + len].copy_from_slice(frame);
        if len > 34 {
            room[before..before + 6].copy_from_slice(&MAC[usize::from(port)]);
            room[before + 12..before + 14].copy_from_slice(match flags >> 2 & 3 {
                0 => &[8, 6],
                1 => &[0x86, 0xdd],
                _ => &[8, 0],
            });
            seal(&mut room[before + 14..before + len]);
        }
        let Some(mut frame) = Frame::new(&mut room, before, len) else { return };
        now += 100_000_000 << (flags >> 4);
        if let Verdict::Send { port } = router.process(Time::ns(now), port, &mut frame, &mut out) {
            out.send(port, frame.bytes());
        }
        if flags & 0x80 != 0 {
            router.tick(Time::ns(now), &mut out);
        }
    }
    router.flush(Time::ns(now), &mut out);
    let counters = router.counters();
    assert!(counters.received <= bytes.len() as u64);
}
