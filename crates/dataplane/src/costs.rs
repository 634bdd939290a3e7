//! What each element costs on this machine, for the simulator's per-application costs to be
//! calibrated from.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use halfwink_units::Time;
use ipnet::IpNet;

use crate::fib::{synthetic_prefixes, SplitMix};
use crate::frame::Frame;
use crate::settings::{
    AeadKey, AppSettings, IpsecSettings, NetFlowSettings, PortSettings, RedundancySettings, Route,
    SecurityAssociation, Settings, SettingsError, StaticNeighbour,
};
use crate::wire::{put16, put32, Mac, ETHERNET, V4};
use crate::{checksum, rss, Forwarder, Lifetime, Numbers, Out, Shared, Verdict};

/// The cost of one element for packets of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Name of the measured element.
    pub element: &'static str,
    /// Bytes of the Ethernet frame, without its check sequence.
    pub frame_bytes: usize,
    /// Nanoseconds for each packet, as the clock told: the median of all repeats.
    pub ns_per_packet: f64,
    /// Ratio of that time to the time to copy such a frame once, in the same run.
    pub per_copy: f64,
}

/// Frames in one batch: 2 MB of slots, more than the private caches hold.
const BATCH: usize = 1024;
const SLOT: usize = 2048;
const START: usize = 256;
/// Sizes of frames: the smallest, and about the mean of backbone and of enterprise traffic.
const SIZES: [usize; 3] = [60, 400, 700];
/// Prefixes of the large table (Niccolini 2012, 4.5 leaves its size open; see `docs/dataplane.md`).
const PREFIXES: usize = 256 << 10;
/// Sets of flows that take turns: 16,384 flows.
const TURNS: usize = 16;
// assumption: three packets in ten repeat 256 bytes of an earlier one.
const REPEATED_PER_10: u64 = 3;
const REPEATED_BYTES: usize = 256;

const OURS: [Mac; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const PEER: Mac = [2, 0, 0, 0, 0, 9];
const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 9);

struct Nowhere;

impl Out for Nowhere {
    fn send(&mut self, _: u16, _: &[u8]) {}
    fn export(&mut self, _: &[u8]) {}
}

/// Measures every element: `copy` (one copy of the frame), `rss` (its hash), `lookup-256k` (the
/// longest prefix among 262,144 alone), and one pass through a router: `route` (few prefixes),
/// `route-256k`, `netflow`, `ipsec` (encrypts), `ipsec-decrypt`, `redundancy` (encodes),
/// `redundancy-decode`. `clock` tells nanoseconds from any beginning; each number is the median of
/// `repeats` batches of 1,024 packets.
///
/// # Errors
///
/// None that is known: the settings are this function's own.
pub fn measure(clock: &mut dyn FnMut() -> u64, repeats: usize) -> Result<Vec<Cost>, SettingsError> {
    let repeats = repeats.max(1);
    let prefixes = synthetic_prefixes(PREFIXES, 1);
    let large = Shared::new(near(AppSettings::Route, prefixes.iter().map(|&p| IpNet::V4(p))))?;
    let mut costs = Vec::new();
    for size in SIZES {
        let mut bench = Bench { clock, repeats, size, copy_ns: 0.0, costs: &mut costs };
        let few = few_destinations();
        let frames = frames(size, few.clone());
        let spread = |n: usize| spread_destination(&prefixes, n);
        bench.copy(&frames);
        bench.alone("rss", &frames, rss::hash);
        let table = large.tables();
        bench.alone("lookup-256k", &self::frames(size, spread), |frame| {
            table.fib.v4(crate::wire::be32(frame, 30))
        });
        let few_prefixes = || [default_route()].into_iter();
        let shared = |app| Shared::new(near(app, few_prefixes()));
        bench.pass("route", &frames, shared(AppSettings::Route)?, None);
        bench.pass("route-256k", &self::frames(size, spread), large.clone(), None);
        let netflow = AppSettings::NetFlow(NetFlowSettings::default());
        bench.pass("netflow", &frames, shared(netflow)?, None);
        for (app, names) in [
            (ipsec as fn(bool) -> AppSettings, ["ipsec", "ipsec-decrypt"]),
            (redundancy, ["redundancy", "redundancy-decode"]),
        ] {
            bench.pass(names[0], &frames, shared(app(true))?, None);
            let before = Forwarder::new(shared(app(true))?, 0);
            bench.pass(names[1], &frames, Shared::new(far(app(false)))?, Some(before));
        }
    }
    Ok(costs)
}

struct Bench<'a> {
    clock: &'a mut dyn FnMut() -> u64,
    repeats: usize,
    size: usize,
    copy_ns: f64,
    costs: &'a mut Vec<Cost>,
}

impl Bench<'_> {
    /// Times `work` after each `set_up`, and keeps the median.
    fn time(
        &mut self,
        element: &'static str,
        mut set_up: impl FnMut(usize, &mut [u8]) -> Vec<usize>,
        mut work: impl FnMut(&mut [u8], &[usize]),
    ) {
        let mut pool = vec![0; BATCH * SLOT];
        let mut times = Vec::with_capacity(self.repeats);
        for repeat in 0..self.repeats + TURNS {
            let lens = set_up(repeat, &mut pool);
            let before = (self.clock)();
            work(&mut pool, &lens);
            let passed = (self.clock)().saturating_sub(before);
            // The first turns warm caches, tables and stores.
            if repeat >= TURNS {
                times.push(passed);
            }
        }
        times.sort_unstable();
        let ns_per_packet = times[times.len() / 2] as f64 / BATCH as f64;
        // Measured first of each size, so that all others have it to be compared with.
        if element == "copy" {
            self.copy_ns = ns_per_packet;
        }
        let per_copy = ns_per_packet / self.copy_ns;
        let frame_bytes = self.size;
        self.costs.push(Cost { element, frame_bytes, ns_per_packet, per_copy });
    }

    fn copy(&mut self, frames: &Frames) {
        let all = frames.all(0);
        self.time(
            "copy",
            |_, _| Vec::new(),
            |pool, _| {
                for (slot, frame) in pool.chunks_exact_mut(SLOT).zip(&all) {
                    slot[START..START + frame.len()].copy_from_slice(frame);
                }
                // Else the compiler could leave the copies out.
                std::hint::black_box(pool);
            },
        );
    }

    /// An element that only looks.
    fn alone<T>(&mut self, element: &'static str, frames: &Frames, look: impl Fn(&[u8]) -> T) {
        let fill = |repeat, pool: &mut [u8]| frames.fill(repeat, pool);
        self.time(element, fill, |pool, lens| {
            for (slot, len) in pool.chunks_exact(SLOT).zip(lens) {
                std::hint::black_box(look(&slot[START..START + len]));
            }
        });
    }

    /// A pass through a router; `before` first makes of the frames what comes to it.
    fn pass(
        &mut self,
        element: &'static str,
        frames: &Frames,
        shared: Arc<Shared>,
        mut before: Option<Forwarder>,
    ) {
        let mut router = Forwarder::new(shared, 0);
        let set_up = |repeat, pool: &mut [u8]| {
            let mut lens = frames.fill(repeat, pool);
            if let Some(before) = &mut before {
                let starts = process(before, pool, &lens);
                for ((slot, len), (start, new)) in
                    pool.chunks_exact_mut(SLOT).zip(&mut lens).zip(starts)
                {
                    slot.copy_within(start..start + new, START);
                    *len = new;
                }
            }
            lens
        };
        self.time(element, set_up, |pool, lens| {
            for (slot, &len) in pool.chunks_exact_mut(SLOT).zip(lens) {
                if let Some(mut frame) = Frame::new(slot, START, len) {
                    let verdict = router.process(Time::ZERO, 0, &mut frame, &mut Nowhere);
                    debug_assert!(
                        matches!(verdict, Verdict::Send { .. }),
                        "{element}: {verdict:?}"
                    );
                }
            }
        });
    }
}

/// Sends a batch through a router, and returns where each frame then is.
fn process(router: &mut Forwarder, pool: &mut [u8], lens: &[usize]) -> Vec<(usize, usize)> {
    let slots = pool.chunks_exact_mut(SLOT).zip(lens);
    let mut place = |(slot, &len): (&mut [u8], &usize)| {
        let mut frame = Frame::new(slot, START, len)?;
        router.process(Time::ZERO, 0, &mut frame, &mut Nowhere);
        Some((frame.start(), frame.len()))
    };
    slots.map(|slot| place(slot).unwrap_or((START, 0))).collect()
}

/// A batch of UDP frames, made from their number and turn.
struct Frames {
    size: usize,
    destinations: Vec<Ipv4Addr>,
}

fn frames(size: usize, destination: impl Fn(usize) -> Ipv4Addr) -> Frames {
    Frames { size, destinations: (0..BATCH).map(destination).collect() }
}

fn few_destinations() -> impl Fn(usize) -> Ipv4Addr + Clone {
    |n| Ipv4Addr::from(0xc633_6400 | (n as u32 & 0xff))
}

fn spread_destination(prefixes: &[ipnet::Ipv4Net], n: usize) -> Ipv4Addr {
    let mut random = SplitMix(n as u64);
    let prefix = prefixes[random.next() as usize % prefixes.len()];
    let hosts = u32::from(prefix.hostmask());
    (u32::from(prefix.network()) | random.next() as u32 & hosts).into()
}

impl Frames {
    fn all(&self, turn: usize) -> Vec<Vec<u8>> {
        (0..BATCH).map(|n| self.frame(turn, n)).collect()
    }

    /// Writes the batch of this turn into the pool and returns the frames' lengths.
    fn fill(&self, turn: usize, pool: &mut [u8]) -> Vec<usize> {
        for (n, slot) in pool.chunks_exact_mut(SLOT).enumerate() {
            let frame = self.frame(turn, n);
            slot[START..START + frame.len()].copy_from_slice(&frame);
        }
        vec![self.size; BATCH]
    }

    fn frame(&self, turn: usize, n: usize) -> Vec<u8> {
        let mut frame = vec![0; self.size];
        frame[..6].copy_from_slice(&OURS[0]);
        frame[6..12].copy_from_slice(&PEER);
        frame[12] = 8;
        let packet = &mut frame[ETHERNET..];
        packet[0] = 0x45;
        put16(packet, 2, (self.size - ETHERNET) as u16);
        packet[8..10].copy_from_slice(&[64, 17]);
        packet[12..16].copy_from_slice(&[10, 0, 0, 2]);
        put32(packet, 16, self.destinations[n].into());
        let sum = checksum::of(&packet[..V4]);
        put16(packet, 10, sum);
        put16(packet, 20, (turn % TURNS * BATCH + n) as u16);
        put16(packet, 22, 443);
        // Flows come again after 16 turns, payloads do not: such a packet would be redundant as a
        // whole.
        let mut random = SplitMix((turn * BATCH + n) as u64);
        let payload = &mut packet[28..];
        fill(payload, random.next());
        let len = REPEATED_BYTES.min(payload.len());
        if random.next() % 10 < REPEATED_PER_10 {
            // The same bytes in one of 64 kinds of packets.
            fill(&mut payload[..len], random.next() % 64);
        }
        frame
    }
}

fn fill(bytes: &mut [u8], seed: u64) {
    let mut random = SplitMix(!seed);
    for place in bytes.chunks_mut(8) {
        place.copy_from_slice(&random.next().to_le_bytes()[..place.len()]);
    }
}

fn default_route() -> IpNet {
    IpNet::V4(ipnet::Ipv4Net::default())
}

fn port(name: &str, mac: Mac, address: &str) -> PortSettings {
    let addresses = address.parse().into_iter().collect();
    PortSettings { name: name.into(), mac, mtu: 1500, addresses }
}

/// Creates settings with 10.0.0.2 on port 0 and every other destination behind [`REMOTE`] on port
/// 1.
fn near(app: AppSettings, prefixes: impl Iterator<Item = IpNet>) -> Settings {
    let route = |prefix| Route { prefix, via: Some(IpAddr::V4(REMOTE)), port: None, silent: false };
    Settings {
        ports: vec![port("in", OURS[0], "10.0.0.1/24"), port("out", OURS[1], "10.0.1.1/24")],
        routes: prefixes.map(route).collect(),
        neighbours: vec![StaticNeighbour { port: 1, address: IpAddr::V4(REMOTE), mac: OURS[0] }],
        app,
    }
}

/// The other end of the link: it is [`REMOTE`] on port 0.
fn far(app: AppSettings) -> Settings {
    let gateway = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 9));
    Settings {
        ports: vec![port("in", OURS[0], "10.0.1.9/24"), port("out", OURS[1], "10.0.2.1/24")],
        routes: vec![Route {
            prefix: default_route(),
            via: Some(gateway),
            port: None,
            silent: false,
        }],
        neighbours: vec![StaticNeighbour { port: 1, address: gateway, mac: PEER }],
        app,
    }
}

fn ipsec(near: bool) -> AppSettings {
    let [local, peer] = if near { [LOCAL, REMOTE] } else { [REMOTE, LOCAL] }.map(IpAddr::V4);
    let key = AeadKey::new(&[7; 20]);
    let association = |key| SecurityAssociation {
        spi: 0x1000,
        local,
        peer,
        key,
        esn: true,
        selectors: vec![],
        numbers: Numbers::unkept(0),
        lifetime: Lifetime::default(),
    };
    let list: Vec<_> = key.map(association).into_iter().collect();
    AppSettings::Ipsec(match near {
        true => IpsecSettings { outbound: list, inbound: vec![], ..IpsecSettings::default() },
        false => IpsecSettings { outbound: vec![], inbound: list, ..IpsecSettings::default() },
    })
}

fn redundancy(near: bool) -> AppSettings {
    let (link, peer) = if near { (1, REMOTE) } else { (0, LOCAL) };
    AppSettings::Redundancy(RedundancySettings { link, peer, ..RedundancySettings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_timed_for_every_size() {
        let mut now = 0;
        let mut clock = || {
            now += 1024 * 10;
            now
        };
        let costs = measure(&mut clock, 1).expect("its own settings");
        assert_eq!(costs.len(), 10 * SIZES.len());
        for cost in &costs {
            // Two calls of the clock around each batch.
            assert!((cost.ns_per_packet, cost.per_copy) == (10.0, 1.0), "{cost:?}");
        }
        let names: std::collections::HashSet<_> = costs.iter().map(|c| c.element).collect();
        assert_eq!(names.len(), 10);
    }
}
