//! Flows and their export, read back by a decoder of its own.

use crate::bed;

use std::collections::HashMap;

use bed::*;
use etherparse::PacketBuilder;
use halfwink_dataplane::{AppSettings, ExportFormat, NetFlowSettings};
use halfwink_units::Time;

const SECOND: u64 = 1_000_000_000;

fn bed(format: ExportFormat, flows: usize) -> Bed {
    let mut settings = settings();
    settings.app = AppSettings::NetFlow(NetFlowSettings {
        format,
        flows,
        active: Time::ns(60 * SECOND),
        inactive: Time::ns(15 * SECOND),
        templates: Time::ns(100 * SECOND),
        start_unix_ns: 1_700_000_000_500_000_000,
        domain: 7,
    });
    let mut bed = Bed::new(settings);
    bed.tick_at(0);
    bed
}

fn tcp(from_port: u16, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST[0], MAC[0])
        .ipv4(v4("10.0.0.2"), v4("192.0.2.7"), 64)
        .tcp(from_port, 443, 1, 1000)
        .ack(1)
        .write(&mut frame, b"hello")
        .expect("memory");
    change(&mut frame[34..]);
    frame
}

#[test]
fn version_5_byte_by_byte() {
    let mut bed = bed(ExportFormat::V5, 64);
    bed.now = Time::ns(2 * SECOND);
    bed.give(0, &tcp(5000, |tcp| tcp[13] = 0x02));
    bed.now = Time::ns(3 * SECOND);
    bed.give(0, &tcp(5000, |tcp| tcp[13] = 0x10));
    bed.now = Time::ns(4 * SECOND);
    bed.router.flush(bed.now, &mut bed.sent);
    let expected: Vec<u8> = [
        &[0, 5, 0, 1][..],      // version, count
        &4000u32.to_be_bytes(), // uptime
        &1_700_000_004u32.to_be_bytes(),
        &500_000_000u32.to_be_bytes(),
        &[0, 0, 0, 0], // flows before
        &[0, 7, 0, 0], // engine, no sampling
        &[10, 0, 0, 2],
        &[192, 0, 2, 7],
        &[10, 0, 1, 9], // the gateway
        &[0, 1, 0, 2],  // in, out
        &[0, 0, 0, 2],  // packets
        &[0, 0, 0, 90], // 2 (20 + 20 + 5)
        &2000u32.to_be_bytes(),
        &3000u32.to_be_bytes(),
        &5000u16.to_be_bytes(),
        &443u16.to_be_bytes(),
        &[0, 0x12, 6, 0],
        &[0; 8],
    ]
    .concat();
    assert_eq!(bed.sent.datagrams, [expected]);
    // IPv6 has no place in it.
    bed.give(0, &udp6("2001:db8::2", "2001:db8:2::7", 64, b"x"));
    assert_eq!(bed.router.counters().flows_uncounted, 1);
}

/// Reads version 9 (RFC 3954) and IPFIX (RFC 7011): templates by number, then records as fields.
#[derive(Default)]
struct Collector {
    templates: HashMap<u16, Vec<(u16, usize)>>,
    records: Vec<HashMap<u16, u128>>,
    sequence: u32,
    templates_seen: usize,
}

fn word(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |n, &byte| n << 8 | u128::from(byte))
}

impl Collector {
    fn read(&mut self, datagram: &[u8]) {
        assert!(datagram.len() <= 1452);
        let before = (self.records.len(), self.templates_seen);
        let version = word(datagram);
        let header = if version == 9 { 20 } else { 16 };
        let mut at = header;
        while at < datagram.len() {
            let (set, len) = (word(&datagram[at..]), usize::from(word(&datagram[at + 2..])));
            assert_eq!(len % 4, 0);
            let body = &datagram[at + 4..at + len];
            match (version, set) {
                (9, 0) | (10, 2) => self.read_templates(body),
                _ => self.read_records(set, body),
            }
            at += len;
        }
        assert_eq!(at, datagram.len());
        let flows = (self.records.len() - before.0) as u32;
        let count = flows as usize + self.templates_seen - before.1;
        match version {
            9 => {
                assert_eq!(usize::from(word(&datagram[2..])), count);
                assert_eq!(number(&datagram[12..16]), u128::from(self.sequence));
                self.sequence += 1;
            }
            10 => {
                assert_eq!(usize::from(word(&datagram[2..])), datagram.len());
                assert_eq!(number(&datagram[8..12]), u128::from(self.sequence));
                self.sequence += flows;
            }
            other => panic!("version {other}"),
        }
        assert_eq!(number(&datagram[header - 4..header]), 7);
    }

    fn read_templates(&mut self, mut body: &[u8]) {
        while body.len() >= 4 {
            let (id, count) = (word(body), usize::from(word(&body[2..])));
            let fields = body[4..4 + count * 4].chunks(4);
            let fields = fields.map(|f| (word(f), usize::from(word(&f[2..])))).collect();
            self.templates.insert(id, fields);
            self.templates_seen += 1;
            body = &body[4 + count * 4..];
        }
    }

    fn read_records(&mut self, set: u16, mut body: &[u8]) {
        let template = &self.templates[&set];
        let len: usize = template.iter().map(|(_, len)| len).sum();
        while body.len() >= len {
            let mut record = HashMap::new();
            for &(field, len) in template {
                record.insert(field, number(&body[..len]));
                body = &body[len..];
            }
            self.records.push(record);
        }
        assert!(body.len() < 4 && body.iter().all(|&b| b == 0));
    }
}

fn collect(bed: &mut Bed) -> Collector {
    let mut collector = Collector::default();
    for datagram in std::mem::take(&mut bed.sent.datagrams) {
        collector.read(&datagram);
    }
    collector
}

#[test]
fn version_9_and_ipfix_say_the_same_of_both_families() {
    for format in [ExportFormat::V9, ExportFormat::Ipfix] {
        let mut bed = bed(format, 1024);
        bed.now = Time::ns(2 * SECOND);
        bed.give(0, &tcp(5000, |tcp| tcp[13] = 0x18));
        for _ in 0..3 {
            bed.give(0, &udp6("2001:db8::2", "2001:db8:2::7", 64, b"1234"));
        }
        bed.now = Time::ns(5 * SECOND);
        bed.give(0, &tcp(5000, |tcp| tcp[13] = 0x10));
        bed.router.flush(bed.now, &mut bed.sent);
        let mut records = collect(&mut bed).records;
        records.sort_by_key(|r| r[&2]);
        let [first, second] = records.as_slice() else { panic!("two flows") };
        let is = |record: &HashMap<u16, u128>, fields: &[(u16, u128)]| {
            for (field, value) in fields {
                assert_eq!(record[field], *value, "{format:?}: field {field}");
            }
        };
        let address = |text: &str| number(&v6(text));
        is(first, &[(1, 90), (2, 2), (4, 6), (6, 0x18), (7, 5000), (11, 443), (10, 1), (14, 2)]);
        is(first, &[(8, 0x0a00_0002), (12, 0xc000_0207), (15, 0x0a00_0109)]);
        is(second, &[(1, 3 * 52), (2, 3), (4, 17), (6, 0), (7, 1000), (11, 2000)]);
        is(second, &[(27, address("2001:db8::2")), (28, address("2001:db8:2::7"))]);
        is(second, &[(62, address("2001:db8:1::9"))]);
        if format == ExportFormat::V9 {
            is(first, &[(22, 2000), (21, 5000)]);
        } else {
            is(first, &[(152, 1_700_000_002_500), (153, 1_700_000_005_500), (136, 4)]);
        }
    }
}

#[test]
fn flows_end_when_idle_when_long_and_with_their_connection() {
    let mut bed = bed(ExportFormat::Ipfix, 256);
    let long = tcp(1, |_| {});
    for s in 1..=100 {
        bed.now = Time::ns(s * SECOND);
        bed.give(0, &long);
        if s == 1 {
            bed.give(0, &tcp(2, |_| {}));
            bed.give(0, &tcp(3, |tcp| tcp[13] |= 1)); // FIN
        }
        for ms in (0..1000).step_by(10) {
            bed.tick_at(s * SECOND + ms * 1_000_000);
        }
    }
    let records = collect(&mut bed).records;
    let ends: Vec<_> = records.iter().map(|r| (r[&7], r[&136], r[&2])).collect();
    assert_eq!(ends, [(3, 3, 1), (2, 1, 1), (1, 2, 60)]);
    let counters = bed.router.counters();
    assert_eq!((counters.flows_begun, counters.flows_exported), (4, 3));
}

#[test]
fn every_packet_is_exported_once_even_if_the_table_is_too_small() {
    let mut bed = bed(ExportFormat::Ipfix, 64);
    for n in 0..3000u16 {
        bed.now = Time::ns(u64::from(n) * 1000);
        bed.give(0, &tcp(n % 500, |_| {}));
    }
    bed.router.flush(bed.now, &mut bed.sent);
    let collector = collect(&mut bed);
    assert_eq!(collector.records.iter().map(|r| r[&2]).sum::<u128>(), 3000);
    let counters = bed.router.counters();
    assert_eq!(counters.flows_exported, collector.records.len() as u64);
    assert!(counters.flows_evicted > 2000);
    assert_eq!(collector.templates_seen, 2, "once for all datagrams");
}

#[test]
fn templates_are_sent_again_and_a_reload_exports_what_it_ends() {
    let mut bed = bed(ExportFormat::V9, 64);
    for s in [1, 50, 120] {
        bed.now = Time::ns(s * SECOND);
        bed.give(0, &tcp(s as u16, |_| {}));
        bed.router.flush(bed.now, &mut bed.sent);
    }
    assert_eq!(collect(&mut bed).templates_seen, 4);
    bed.give(0, &tcp(9, |_| {}));
    bed.shared.reload(settings()).expect("good settings");
    bed.give(0, &tcp(10, |_| {}));
    assert_eq!(bed.sent.datagrams.len(), 1);
    assert_eq!(bed.router.counters().flows_exported, 4);
}

#[test]
fn ended_flow_is_exported_within_a_second_and_a_tick() {
    // Eight sets, of which nearly two are due in each 240 ms.
    let (tick, mut bed) = (SECOND / 1000 * 240, bed(ExportFormat::Ipfix, 64));
    bed.tick_at(10 * SECOND);
    for port in 5000..5032 {
        bed.give(0, &tcp(port, |tcp| tcp[13] = 0x11));
    }
    let begun = bed.router.counters().flows_begun;
    assert_eq!((begun, bed.router.counters().flows_evicted), (32, 0));
    // All are over a second later, and the table is looked at once in another.
    let mut now = 10 * SECOND;
    while now < 12 * SECOND {
        now += tick;
        bed.tick_at(now);
    }
    assert_eq!(bed.router.counters().flows_exported, begun);
}
