//! Flows: who speaks to whom, how much, from when to when (RFC 3954, 7011).
//!
//! A worker has a table of its own, so packets lock nothing. When receive-side scaling moves a
//! flow to another worker, both export their part of it, and the collector adds them up, as it does
//! with the parts that active time-outs make.

mod export;

use halfwink_units::Time;

use crate::counters::Counters;
use crate::settings::{ExportFormat, NetFlowSettings};
use crate::verdict::Out;
use crate::wire::{self, be16};
use export::Exporter;

/// Number of flows in one set: a packet searches only these, and the oldest is evicted. A table
/// without sets would grow, or stop counting, during a network scan.
const WAYS: usize = 8;
/// The whole table is looked at this often for flows whose time is out.
const LOOK: Time = Time::ns(1_000_000_000);
/// After FIN or RST a flow waits this long for the last acknowledgement.
const ENDED: Time = Time::ns(1_000_000_000);
const FIN: u8 = 1;
const RST: u8 = 4;

/// The five numbers that make a flow, and its IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowKey {
    /// IPv4 addresses are in the low 32 bits.
    pub(crate) src: u128,
    pub(crate) dst: u128,
    /// Source and destination port; of ICMP 0 and type, code (as routers export it).
    pub(crate) ports: (u16, u16),
    pub(crate) protocol: u8,
    pub(crate) is_v4: bool,
}

impl FlowKey {
    fn hash(&self) -> u64 {
        let fold = |a: u128| (a as u64) ^ ((a >> 64) as u64).rotate_left(29);
        let ports = u64::from(self.ports.0) << 16 | u64::from(self.ports.1);
        let rest = ports << 9 | u64::from(self.protocol) << 1 | u64::from(self.is_v4);
        // Multiply, fold, multiply (as in wyhash): each bit of the key reaches every bit.
        let mix = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let addresses = mix(
            fold(self.src) ^ 0xa076_1d64_78bd_642f,
            fold(self.dst).rotate_left(32) ^ 0xe703_7ed1_a0b4_28db,
        );
        mix(addresses ^ rest, 0x8ebc_6af0_9c88_c6e3)
    }
}

/// Contribution of one packet to its flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) key: FlowKey,
    /// Length of the IP packet.
    pub(crate) bytes: u32,
    pub(crate) tcp_flags: u8,
    pub(crate) tos: u8,
    /// Ports of the router, counted from 1 as interfaces are.
    pub(crate) input: u16,
    pub(crate) output: u16,
    /// The gateway, or 0.
    pub(crate) next_hop: u128,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    sample: Sample,
    packets: u64,
    bytes: u64,
    first: Time,
    last: Time,
    tcp_flags: u8,
}

/// Reason why a flow is exported, with its number in IPFIX (flowEndReason).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Idle = 1,
    Active = 2,
    Detected = 3,
    Forced = 4,
    NoRoom = 5,
}

/// Flow table of one worker.
#[derive(Debug)]
pub(crate) struct NetFlow {
    settings: NetFlowSettings,
    /// One for each place: 0 where there is no flow.
    tags: Vec<[u32; WAYS]>,
    flows: Vec<Option<Flow>>,
    /// The set to look at next, and the time up to which sets were looked at.
    cursor: usize,
    looked: Time,
    exporter: Exporter,
}

impl NetFlow {
    pub(crate) fn new(settings: NetFlowSettings, worker: u16) -> NetFlow {
        let sets = (settings.flows.div_ceil(WAYS)).next_power_of_two();
        NetFlow {
            tags: vec![[0; WAYS]; sets],
            flows: vec![None; sets * WAYS],
            cursor: 0,
            looked: Time::ZERO,
            exporter: Exporter::new(&settings, worker),
            settings,
        }
    }

    pub(crate) fn settings(&self) -> &NetFlowSettings {
        &self.settings
    }

    /// Counts a packet of a flow.
    pub(crate) fn packet(
        &mut self,
        now: Time,
        sample: &Sample,
        out: &mut dyn Out,
        counters: &mut Counters,
    ) {
        if !sample.key.is_v4 && self.settings.format == ExportFormat::V5 {
            counters.flows_uncounted += 1;
            return;
        }
        let hash = sample.key.hash();
        let set = (hash >> 32) as usize & (self.tags.len() - 1);
        // Odd, so that none is 0. Tags lie apart from flows: eight of them are half a cache line,
        // and a flow is touched only where its tag fits.
        let tag = hash as u32 | 1;
        for way in 0..WAYS {
            let place = set * WAYS + way;
            if self.tags[set][way] != tag {
                continue;
            }
            let Some(flow) = &mut self.flows[place] else { continue };
            if flow.sample.key != sample.key {
                continue;
            }
            // It ended before this packet, though no tick has seen that: the packet begins another
            // flow.
            if let Some(end) = over(flow, now, &self.settings) {
                self.end(place, end, now, out, counters);
                return self.begin(place, tag, now, sample, counters);
            }
            flow.packets += 1;
            flow.bytes += u64::from(sample.bytes);
            flow.last = now;
            flow.tcp_flags |= sample.tcp_flags;
            return;
        }
        let place = set * WAYS + self.room_in(set);
        if self.flows[place].is_some() {
            counters.flows_evicted += 1;
            self.end(place, End::NoRoom, now, out, counters);
        }
        self.begin(place, tag, now, sample, counters);
    }

    /// A free way of a set, or else the one whose last packet is the oldest.
    fn room_in(&self, set: usize) -> usize {
        let last = |way: usize| self.flows[set * WAYS + way].as_ref().map(|flow| flow.last);
        // None is below every time: a free way comes first.
        (0..WAYS).min_by_key(|&way| last(way)).unwrap_or(0)
    }

    fn begin(
        &mut self,
        place: usize,
        tag: u32,
        now: Time,
        sample: &Sample,
        counters: &mut Counters,
    ) {
        counters.flows_begun += 1;
        self.tags[place / WAYS][place % WAYS] = tag;
        self.flows[place] = Some(Flow {
            sample: *sample,
            packets: 1,
            bytes: sample.bytes.into(),
            first: now,
            last: now,
            tcp_flags: sample.tcp_flags,
        });
    }

    fn end(
        &mut self,
        place: usize,
        end: End,
        now: Time,
        out: &mut dyn Out,
        counters: &mut Counters,
    ) {
        self.tags[place / WAYS][place % WAYS] = 0;
        if let Some(flow) = self.flows[place].take() {
            counters.flows_exported += 1;
            self.exporter.add(&flow, end, now, out, counters);
        }
    }

    /// Exports flows whose time is out, and what has waited in a datagram.
    pub(crate) fn tick(&mut self, now: Time, out: &mut dyn Out, counters: &mut Counters) {
        let sets = self.tags.len();
        // A share of the table at each tick, as much as time has passed: no tick takes long, and
        // each set is looked at about once a second, however far ticks are apart.
        let passed = now.saturating_sub(self.looked).min(LOOK).as_ps();
        let due = (sets as u128 * u128::from(passed) / u128::from(LOOK.as_ps())) as usize;
        // Time that is less than a set's stays for the next tick: without it, ticks of nearly two
        // sets would look at one each and take two seconds for the table, and ticks that come often
        // would never look.
        let used = due as u128 * u128::from(LOOK.as_ps()) / sets as u128;
        self.looked = now - Time(passed - used as u64);
        for _ in 0..due {
            let set = self.cursor;
            self.cursor = (set + 1) & (sets - 1);
            if self.tags[set] == [0; WAYS] {
                continue;
            }
            for place in set * WAYS..(set + 1) * WAYS {
                let flow = self.flows[place].as_ref();
                if let Some(end) = flow.and_then(|flow| over(flow, now, &self.settings)) {
                    self.end(place, end, now, out, counters);
                }
            }
        }
        self.exporter.tick(now, out, counters);
    }

    /// Exports all open flows.
    pub(crate) fn flush(&mut self, now: Time, out: &mut dyn Out, counters: &mut Counters) {
        for place in 0..self.flows.len() {
            if self.flows[place].is_some() {
                self.end(place, End::Forced, now, out, counters);
            }
        }
        self.exporter.send(now, out, counters);
    }
}

/// Returns the reason why a flow has ended, if it has.
fn over(flow: &Flow, now: Time, settings: &NetFlowSettings) -> Option<End> {
    let idle = now.saturating_sub(flow.last);
    if flow.tcp_flags & (FIN | RST) != 0 && idle >= ENDED {
        return Some(End::Detected);
    }
    if idle >= settings.inactive {
        return Some(End::Idle);
    }
    (now.saturating_sub(flow.first) >= settings.active).then_some(End::Active)
}

/// Ports and TCP flags as flows keep them, from what follows the IP headers; 0 if it is cut short
/// or not there.
pub(crate) fn ports(protocol: u8, body: &[u8]) -> ((u16, u16), u8) {
    match protocol {
        wire::TCP => ((be16(body, 0), be16(body, 2)), body.get(13).copied().unwrap_or(0)),
        // UDP, DCCP, SCTP, UDP-Lite.
        wire::UDP | 33 | 132 | 136 => ((be16(body, 0), be16(body, 2)), 0),
        wire::ICMP | wire::ICMP6 => ((0, be16(body, 0)), 0),
        _ => ((0, 0), 0),
    }
}
