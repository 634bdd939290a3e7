//! IPv6 (RFC 8200): checks, look-up, hop limit.

use std::net::{IpAddr, Ipv6Addr};

use crate::counters::DropReason;
use crate::fib::Hop;
use crate::frame::Frame;
use crate::icmp_error::IcmpError;
use crate::netflow::{self, FlowKey, Sample};
use crate::verdict::Verdict;
use crate::wire::{be16, transport, V6Header, ETHERNET};
use crate::worker::{Cx, Way, Worker};

impl Worker {
    /// An IPv6 packet in its Ethernet frame; `group`: the frame went to more than this router.
    pub(crate) fn v6_input(
        &mut self,
        cx: &mut Cx<'_>,
        port: u16,
        frame: &mut Frame<'_>,
        group: bool,
    ) -> Verdict {
        let header = match V6Header::check(&frame.bytes()[ETHERNET..]) {
            Ok(header) => header,
            Err(reason) => return Verdict::Drop(reason),
        };
        frame.truncate(ETHERNET + header.total);
        let (src, dst) = (Ipv6Addr::from(header.src), Ipv6Addr::from(header.dst));
        let own = cx.tables.own_v6.contains(&header.src)
            || header.src == u128::from(cx.tables.ports[usize::from(port)].link_local);
        let strange = |a: Ipv6Addr| a.is_loopback() || a.to_ipv4_mapped().is_some();
        if src.is_multicast() || own || strange(src) || strange(dst) || dst.is_unspecified() {
            return Verdict::Drop(DropReason::Martian);
        }
        if dst.is_multicast() {
            return self.v6_local(cx, port, &header, frame);
        }
        if group {
            return Verdict::Drop(DropReason::Broadcast);
        }
        if dst.is_unicast_link_local() {
            return match dst == cx.tables.ports[usize::from(port)].link_local {
                true => self.v6_local(cx, port, &header, frame),
                false => Verdict::Drop(DropReason::LinkLocal),
            };
        }
        if self.is_clear(cx, src.into(), header.next) {
            return Verdict::Drop(DropReason::EspClear);
        }
        if cx.tables.fib.v6(header.dst) == Hop::Local {
            return self.v6_local(cx, port, &header, frame);
        }
        if src.is_unicast_link_local() {
            return Verdict::Drop(DropReason::LinkLocal);
        }
        if src.is_unspecified() {
            return Verdict::Drop(DropReason::Martian);
        }
        self.v6_leave(cx, Some(port), port, &header, frame)
    }

    /// Sends a packet on its way: one that came in on `from`, or the router's own, which answers
    /// one that came in on `near`.
    pub(crate) fn v6_leave(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        near: u16,
        header: &V6Header,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let hop = match Ipv6Addr::from(header.dst).is_unicast_link_local() {
            true => Hop::Link { port: near },
            false => cx.tables.fib.v6(header.dst),
        };
        let way = match self.way(cx, IpAddr::V6(header.dst.into()), hop) {
            Ok(way) => way,
            Err(why) => return self.refuse(cx, from, frame.bytes(), why),
        };
        if from.is_some() && header.hops <= 1 {
            let why = (IcmpError::TimeExceeded, DropReason::TtlExceeded);
            return self.refuse(cx, from, frame.bytes(), why);
        }
        // Routers do not fragment IPv6.
        if header.total > way.mtu {
            let why = (IcmpError::TooBig(way.mtu), DropReason::TooBig);
            return self.refuse(cx, from, frame.bytes(), why);
        }
        if let Some(from) = from {
            if let Some(flows) = &mut self.flows {
                let sample = sample(from, &way, header, frame.bytes());
                flows.packet(cx.now, &sample, cx.out, &mut self.counters);
            }
            frame.bytes_mut()[ETHERNET + 7] -= 1;
        }
        self.depart(cx, from, &way, frame)
    }
}

/// Returns the packet's contribution to its flow.
fn sample(from: u16, way: &Way, header: &V6Header, frame: &[u8]) -> Sample {
    let packet = &frame[ETHERNET..];
    let (protocol, at) = transport(packet, header).unwrap_or((header.next, header.total));
    let (ports, tcp_flags) = netflow::ports(protocol, packet.get(at..).unwrap_or(&[]));
    Sample {
        key: FlowKey { src: header.src, dst: header.dst, ports, protocol, is_v4: false },
        bytes: header.total as u32,
        tcp_flags,
        tos: (be16(packet, 0) >> 4) as u8,
        input: from + 1,
        output: way.to.port + 1,
        next_hop: if way.to.address == header.dst { 0 } else { way.to.address },
    }
}
