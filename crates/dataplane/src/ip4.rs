//! IPv4 (RFC 791, 1812): checks, look-up, TTL.

use std::net::IpAddr;

use crate::checksum;
use crate::counters::DropReason;
use crate::fib::Hop;
use crate::frame::Frame;
use crate::icmp_error::IcmpError;
use crate::neighbours::Key;
use crate::netflow::{self, FlowKey, Sample};
use crate::verdict::Verdict;
use crate::wire::{be16, put16, V4Header, DF, ETHERNET, V4};
use crate::worker::{Cx, Way, Worker};

/// Smallest MTU that fragments need (RFC 791, 3.2). Ports have it; a tunnel may leave less.
const LEAST_MTU: usize = 68;

impl Worker {
    /// An IPv4 packet in its Ethernet frame; `group`: the frame went to more than this router.
    pub(crate) fn v4_input(
        &mut self,
        cx: &mut Cx<'_>,
        port: u16,
        frame: &mut Frame<'_>,
        group: bool,
    ) -> Verdict {
        let mut header = match V4Header::check(&frame.bytes()[ETHERNET..]) {
            Ok(header) => header,
            Err(reason) => return Verdict::Drop(reason),
        };
        // Short frames are padded on the wire.
        frame.truncate(ETHERNET + header.total);
        // Before anything is answered: a source that cannot be has nobody to be told.
        if let Err(reason) = addresses(&header, &cx.tables.own_v4) {
            return Verdict::Drop(reason);
        }
        // RFC 1812, 5.3.4: what was sent to many on the link is not sent on, nor answered.
        if group {
            return Verdict::Drop(DropReason::Broadcast);
        }
        if header.len > V4 && source_routed(&frame.bytes()[ETHERNET + V4..ETHERNET + header.len]) {
            return Verdict::Drop(DropReason::SourceRoute);
        }
        match self.restore(cx, port, &header, frame) {
            Ok(restored) => header = restored.unwrap_or(header),
            Err(verdict) => return verdict,
        }
        if self.is_clear(cx, IpAddr::V4(header.src.into()), header.protocol) {
            return Verdict::Drop(DropReason::EspClear);
        }
        match cx.tables.fib.v4(header.dst) {
            Hop::Local => self.v4_local(cx, port, &header, frame),
            Hop::Broadcast => Verdict::Drop(DropReason::Broadcast),
            _ => self.v4_leave(cx, Some(port), &header, frame),
        }
    }

    /// Sends a packet on its way: one that came in on `from`, or the router's own.
    pub(crate) fn v4_leave(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        header: &V4Header,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let hop = cx.tables.fib.v4(header.dst);
        let way = match self.way(cx, IpAddr::V4(header.dst.into()), hop) {
            Ok(way) => way,
            Err(why) => return self.refuse(cx, from, frame.bytes(), why),
        };
        // Behind the route: who has none says so whatever the TTL. The router's own packets have
        // not been forwarded yet.
        if from.is_some() && header.ttl <= 1 {
            let why = (IcmpError::TimeExceeded, DropReason::TtlExceeded);
            return self.refuse(cx, from, frame.bytes(), why);
        }
        if from.is_some() && Worker::is_ambiguous(&cx.tables.app, way.to.port, header.protocol) {
            return Verdict::Drop(DropReason::RedundancyBad);
        }
        // The way's and not the port's: through a tunnel less fits.
        let long = header.total > way.mtu;
        if long && (header.fragment & DF != 0 || way.mtu < LEAST_MTU) {
            let why = (IcmpError::TooBig(way.mtu), DropReason::TooBig);
            return self.refuse(cx, from, frame.bytes(), why);
        }
        if let Some(from) = from {
            if let Some(flows) = &mut self.flows {
                let sample = sample(from, &way, header, frame.bytes());
                flows.packet(cx.now, &sample, cx.out, &mut self.counters);
            }
            decrement(&mut frame.bytes_mut()[ETHERNET..]);
        }
        if long {
            return self.v4_fragments(cx, from, &way, header, frame);
        }
        self.depart(cx, from, &way, frame)
    }
}

/// Addresses that must not be on a wire (RFC 1812, 5.3.7; RFC 6890), or are not forwarded.
#[inline]
fn addresses(header: &V4Header, own: &[u32]) -> Result<(), DropReason> {
    let (src, dst) = (header.src, header.dst);
    let strange = |address: u32| matches!(address >> 24, 0 | 127 | 240..=255);
    if strange(src) || src >> 28 == 14 || own.contains(&src) {
        return Err(DropReason::Martian);
    }
    if dst == u32::MAX {
        return Err(DropReason::Broadcast);
    }
    if strange(dst) {
        return Err(DropReason::Martian);
    }
    if dst >> 28 == 14 {
        return Err(DropReason::Multicast);
    }
    Ok(())
}

/// One hop less, and the checksum to match (RFC 1624).
#[inline]
fn decrement(packet: &mut [u8]) {
    let old = be16(packet, 8);
    let new = old - 0x100;
    let sum = checksum::update(be16(packet, 10), old, new);
    put16(packet, 8, new);
    put16(packet, 10, sum);
}

/// Returns whether one of the options is a source route (RFC 791, 3.1: types 131 and 137), or
/// whether they are malformed.
fn source_routed(mut options: &[u8]) -> bool {
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => return false,
            1 => 1,
            131 | 137 => return true,
            _ => options.get(1).map_or(0, |&len| usize::from(len).max(2)),
        };
        match options.get(len..) {
            Some(rest) if len > 0 => options = rest,
            _ => return true,
        }
    }
    false
}

/// Returns the packet's contribution to its flow.
fn sample(from: u16, way: &Way, header: &V4Header, frame: &[u8]) -> Sample {
    let packet = &frame[ETHERNET..];
    let body = if header.is_later_fragment() { &[] } else { &packet[header.len..] };
    let (ports, tcp_flags) = netflow::ports(header.protocol, body);
    let direct = Key::v4(way.to.port, header.dst) == way.to;
    Sample {
        key: FlowKey {
            src: header.src.into(),
            dst: header.dst.into(),
            ports,
            protocol: header.protocol,
            is_v4: true,
        },
        bytes: header.total as u32,
        tcp_flags,
        tos: packet[1],
        input: from + 1,
        output: way.to.port + 1,
        next_hop: way.to.as_v4().filter(|_| !direct).unwrap_or(0).into(),
    }
}
