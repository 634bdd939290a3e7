//! Flow records as datagrams: NetFlow version 5 (Cisco), version 9 (RFC 3954), IPFIX (RFC 7011).

use halfwink_units::Time;

use super::{End, Flow};
use crate::counters::Counters;
use crate::settings::{ExportFormat, NetFlowSettings};
use crate::verdict::Out;

/// A datagram fits a link of 1500 bytes, behind IPv6 and UDP.
const MOST: usize = 1452;
/// A datagram that is not full waits this long for more.
const WAIT: Time = Time::ns(1_000_000_000);
/// Records in one datagram of version 5.
const MOST_V5: u16 = 30;
/// Templates of IPv4 and IPv6 flows; numbers below 256 are sets' own (RFC 7011, 3.4.3).
const TEMPLATES: [u16; 2] = [256, 257];

/// Fields in the order in which they are sent: number and bytes. The numbers are the same in
/// version 9 and IPFIX (RFC 7012, 4).
const COUNTS: [(u16, u16); 9] =
    [(1, 8), (2, 8), (4, 1), (5, 1), (6, 1), (7, 2), (11, 2), (10, 4), (14, 4)];
const ADDRESSES_V4: [(u16, u16); 3] = [(8, 4), (12, 4), (15, 4)];
const ADDRESSES_V6: [(u16, u16); 3] = [(27, 16), (28, 16), (62, 16)];
/// First and last packet in milliseconds since the router's start.
const TIMES_V9: [(u16, u16); 2] = [(22, 4), (21, 4)];
/// Start and end as times since 1970, and the reason of the end.
const TIMES_IPFIX: [(u16, u16); 3] = [(152, 8), (153, 8), (136, 1)];

fn fields(format: ExportFormat, is_v4: bool) -> impl Iterator<Item = (u16, u16)> {
    let addresses = if is_v4 { ADDRESSES_V4 } else { ADDRESSES_V6 };
    let times: &[(u16, u16)] = if format == ExportFormat::Ipfix { &TIMES_IPFIX } else { &TIMES_V9 };
    COUNTS.into_iter().chain(addresses).chain(times.iter().copied())
}

/// Collects records and sends datagrams.
#[derive(Debug)]
pub(super) struct Exporter {
    format: ExportFormat,
    start_unix_ns: u64,
    domain: u32,
    templates: Time,
    /// The datagram in the making, its header still to be filled in.
    buffer: Vec<u8>,
    since: Time,
    /// Records in it, and those of them that are flows.
    records: u16,
    flows: u32,
    /// Offset of its last set, and that set's template.
    set: Option<(usize, u16)>,
    /// Datagrams (version 9) or flows (5, IPFIX) sent before.
    sequence: u32,
    templates_sent: Option<Time>,
}

impl Exporter {
    pub(super) fn new(settings: &NetFlowSettings, worker: u16) -> Exporter {
        Exporter {
            format: settings.format,
            start_unix_ns: settings.start_unix_ns,
            domain: settings.domain.wrapping_add(worker.into()),
            templates: settings.templates,
            buffer: Vec::with_capacity(MOST),
            since: Time::ZERO,
            records: 0,
            flows: 0,
            set: None,
            sequence: 0,
            templates_sent: None,
        }
    }

    pub(super) fn add(
        &mut self,
        flow: &Flow,
        end: End,
        now: Time,
        out: &mut dyn Out,
        counters: &mut Counters,
    ) {
        let is_v4 = flow.sample.key.is_v4;
        let len: usize = match self.format {
            ExportFormat::V5 => 48,
            _ => fields(self.format, is_v4).map(|(_, len)| usize::from(len)).sum(),
        };
        // A set's header, and up to three bytes of padding.
        let full = self.buffer.len() + 4 + len + 3 > MOST;
        if full || self.format == ExportFormat::V5 && self.records == MOST_V5 {
            self.send(now, out, counters);
        }
        if self.buffer.is_empty() {
            self.begin(now);
        }
        if self.format == ExportFormat::V5 {
            self.record_v5(flow);
        } else {
            self.open_set(TEMPLATES[usize::from(!is_v4)]);
            for (field, len) in fields(self.format, is_v4) {
                self.field(field, len, flow, end);
            }
        }
        self.records += 1;
        self.flows += 1;
    }

    pub(super) fn tick(&mut self, now: Time, out: &mut dyn Out, counters: &mut Counters) {
        if now.saturating_sub(self.since) >= WAIT {
            self.send(now, out, counters);
        }
    }

    /// Sends what there is.
    pub(super) fn send(&mut self, now: Time, out: &mut dyn Out, counters: &mut Counters) {
        if self.flows == 0 {
            return;
        }
        self.close_set();
        self.header(now);
        out.export(&self.buffer);
        counters.exports += 1;
        // Version 9 counts datagrams (RFC 3954, section 5.1), the others count flows.
        self.sequence = self.sequence.wrapping_add(match self.format {
            ExportFormat::V9 => 1,
            _ => self.flows,
        });
        self.buffer.clear();
        self.records = 0;
        self.flows = 0;
    }

    /// Room for the header, and templates if it is time.
    fn begin(&mut self, now: Time) {
        self.since = now;
        let header = match self.format {
            ExportFormat::V5 => 24,
            ExportFormat::V9 => 20,
            ExportFormat::Ipfix => 16,
        };
        self.buffer.resize(header, 0);
        let due = |sent: Time| now.saturating_sub(sent) >= self.templates;
        if self.format == ExportFormat::V5 || !self.templates_sent.is_none_or(due) {
            return;
        }
        self.templates_sent = Some(now);
        // RFC 3954, 5.2; RFC 7011, 3.3.2.
        self.open_set(if self.format == ExportFormat::V9 { 0 } else { 2 });
        for (template, is_v4) in TEMPLATES.into_iter().zip([true, false]) {
            self.put(template);
            self.put(fields(self.format, is_v4).count() as u16);
            for (field, len) in fields(self.format, is_v4) {
                self.put(field);
                self.put(len);
            }
            self.records += 1;
        }
    }

    fn put(&mut self, word: u16) {
        self.buffer.extend_from_slice(&word.to_be_bytes());
    }

    fn open_set(&mut self, number: u16) {
        if self.set.is_some_and(|(_, open)| open == number) {
            return;
        }
        self.close_set();
        self.set = Some((self.buffer.len(), number));
        self.put(number);
        self.put(0);
    }

    fn close_set(&mut self) {
        if let Some((start, _)) = self.set.take() {
            // Sets end at multiples of four bytes (RFC 3954, section 5.3).
            let end = self.buffer.len().next_multiple_of(4);
            self.buffer.resize(end, 0);
            let len = (end - start) as u16;
            self.buffer[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
        }
    }

    fn header(&mut self, now: Time) {
        let unix_ns = self.start_unix_ns.saturating_add(now.as_ps() / 1000);
        let seconds = (unix_ns / 1_000_000_000) as u32;
        let uptime = milliseconds(now) as u32;
        let mut words: [u32; 6] = [0; 6];
        let len = self.buffer.len() as u32;
        // Version 9 counts templates, too; version 5 has none.
        let count = u32::from(self.records);
        let used = match self.format {
            ExportFormat::V5 => {
                let engine = self.domain & 0xff;
                let nanoseconds = (unix_ns % 1_000_000_000) as u32;
                words =
                    [5 << 16 | count, uptime, seconds, nanoseconds, self.sequence, engine << 16];
                6
            }
            ExportFormat::V9 => {
                words[..5].copy_from_slice(&[
                    9 << 16 | count,
                    uptime,
                    seconds,
                    self.sequence,
                    self.domain,
                ]);
                5
            }
            ExportFormat::Ipfix => {
                words[..4].copy_from_slice(&[10 << 16 | len, seconds, self.sequence, self.domain]);
                4
            }
        };
        for (place, word) in words[..used].iter().enumerate() {
            self.buffer[place * 4..place * 4 + 4].copy_from_slice(&word.to_be_bytes());
        }
    }

    fn field(&mut self, field: u16, len: u16, flow: &Flow, end: End) {
        let sample = &flow.sample;
        let since_1970 = |at: Time| self.start_unix_ns / 1_000_000 + milliseconds(at);
        let value: u128 = match field {
            1 => flow.bytes.into(),
            2 => flow.packets.into(),
            4 => sample.key.protocol.into(),
            5 => sample.tos.into(),
            6 => flow.tcp_flags.into(),
            7 => sample.key.ports.0.into(),
            8 | 27 => sample.key.src,
            10 => sample.input.into(),
            11 => sample.key.ports.1.into(),
            12 | 28 => sample.key.dst,
            14 => sample.output.into(),
            15 | 62 => sample.next_hop,
            21 => milliseconds(flow.last).into(),
            22 => milliseconds(flow.first).into(),
            136 => end as u128,
            152 => since_1970(flow.first).into(),
            153 => since_1970(flow.last).into(),
            _ => 0,
        };
        self.buffer.extend_from_slice(&value.to_be_bytes()[16 - usize::from(len)..]);
    }

    fn record_v5(&mut self, flow: &Flow) {
        let sample = &flow.sample;
        let key = &sample.key;
        for word in [key.src, key.dst, sample.next_hop] {
            self.buffer.extend_from_slice(&(word as u32).to_be_bytes());
        }
        self.put(sample.input);
        self.put(sample.output);
        // Version 5 has 32 bits: a count beyond them stays at the largest value instead of
        // wrapping.
        let most = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let times = [flow.first, flow.last].map(|at| milliseconds(at) as u32);
        for word in [most(flow.packets), most(flow.bytes), times[0], times[1]] {
            self.buffer.extend_from_slice(&word.to_be_bytes());
        }
        self.put(key.ports.0);
        self.put(key.ports.1);
        self.buffer.extend_from_slice(&[0, flow.tcp_flags, key.protocol, sample.tos]);
        // Autonomous systems and masks are not known here.
        self.buffer.extend_from_slice(&[0; 8]);
    }
}

fn milliseconds(at: Time) -> u64 {
    at.as_ps() / 1_000_000_000
}
