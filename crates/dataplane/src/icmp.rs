//! ICMP and ICMPv6: errors (RFC 792, 1812, 4443) and echo.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use halfwink_units::Time;

use crate::checksum;
use crate::counters::DropReason;
use crate::fib::Hop;
use crate::frame::Frame;
use crate::icmp_error::IcmpError;
use crate::tables::App;
use crate::verdict::Verdict;
use crate::wire::{
    self, be16, put16, put32, transport, V4Header, V6Header, ETHERNET, ETHERTYPE_V4, ETHERTYPE_V6,
    V4, V6,
};
use crate::worker::{Cx, Worker};

/// Errors are at most this long (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
const MOST_V4: usize = 576;
const MOST_V6: usize = 1280;
/// TTL and hop limit of own packets (RFC 1700), and what errors have as precedence (RFC 1812,
/// 4.3.2.5).
const TTL: u8 = 64;
const PRECEDENCE: u8 = 0xc0;

impl Worker {
    /// Drops a packet that came in on `from`, and tells its sender why. `frame` holds the packet as
    /// it came; none is told about the router's own packets.
    pub(crate) fn refuse(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        frame: &[u8],
        (error, reason): (IcmpError, DropReason),
    ) -> Verdict {
        let told = from.filter(|_| reason != DropReason::Blackhole);
        // No port: a packet that was encrypted, or whose port is gone since it began to wait.
        if let Some(port) = told.filter(|&port| usize::from(port) < cx.tables.ports.len()) {
            let packet = &frame[ETHERNET..];
            match packet.first().map(|b| b >> 4) {
                Some(4) => self.error_v4(cx, port, packet, error),
                Some(6) => self.error_v6(cx, port, packet, error),
                _ => {}
            }
        }
        Verdict::Drop(reason)
    }

    fn may_send_error(&mut self, now: Time) -> bool {
        let may = self.limiter.take(now);
        let counter = match may {
            true => &mut self.counters.icmp_errors,
            false => &mut self.counters.icmp_suppressed,
        };
        *counter += 1;
        may
    }

    fn error_v4(&mut self, cx: &mut Cx<'_>, port: u16, packet: &[u8], error: IcmpError) {
        let Ok(header) = V4Header::check(packet) else { return };
        // RFC 1812, 4.3.2.7: never about errors, later fragments, or to more than one host.
        let about_error = header.protocol == wire::ICMP
            && packet.get(header.len).is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12));
        let to_many = matches!(cx.tables.fib.v4(header.src), Hop::Broadcast | Hop::Local);
        if about_error || header.is_later_fragment() || header.src == 0 || to_many {
            return;
        }
        let source = cx.tables.v4_source(port, header.src.into());
        let Some(source) = source else { return };
        if !self.may_send_error(cx.now) {
            return;
        }
        let quoted = header.total.min(MOST_V4 - V4 - 8);
        self.with_scratch(ETHERNET + V4 + 8 + quoted, |worker, frame| {
            let (kind, code, word) = error.v4();
            let bytes = frame.bytes_mut();
            put16(bytes, 12, ETHERTYPE_V4);
            let message = &mut bytes[ETHERNET + V4..];
            message[0] = kind;
            message[1] = code;
            put16(message, 2, 0);
            put32(message, 4, word);
            message[8..].copy_from_slice(&packet[..quoted]);
            let sum = checksum::of(message);
            put16(message, 2, sum);
            let addresses = (source, Ipv4Addr::from(header.src));
            worker.v4_header(&mut bytes[ETHERNET..], wire::ICMP, PRECEDENCE, addresses);
            worker.originate(cx, port, frame);
        });
    }

    fn error_v6(&mut self, cx: &mut Cx<'_>, port: u16, packet: &[u8], error: IcmpError) {
        let Ok(header) = V6Header::check(packet) else { return };
        let source = Ipv6Addr::from(header.src);
        // RFC 4443, 2.4 e: the same, but "too big" also answers multicasts.
        let about_error = match transport(packet, &header) {
            Some((wire::ICMP6, at)) => packet.get(at).is_none_or(|&kind| kind < 128 || kind == 137),
            Some(_) => false,
            None => true,
        };
        let many = header.dst >> 120 == 0xff && !matches!(error, IcmpError::TooBig(_));
        if about_error || many || source.is_unspecified() || source.is_multicast() {
            return;
        }
        let Some(from) = cx.tables.v6_source(port, source) else { return };
        if !self.may_send_error(cx.now) {
            return;
        }
        let quoted = header.total.min(MOST_V6 - V6 - 8);
        self.with_scratch(ETHERNET + V6 + 8 + quoted, |worker, frame| {
            let (kind, code, word) = error.v6();
            let bytes = frame.bytes_mut();
            put16(bytes, 12, ETHERTYPE_V6);
            let (head, message) = bytes[ETHERNET..].split_at_mut(V6);
            put32(head, 0, 0x6000_0000);
            put16(head, 4, message.len() as u16);
            head[6] = wire::ICMP6;
            head[7] = TTL;
            head[8..24].copy_from_slice(&from.octets());
            head[24..40].copy_from_slice(&source.octets());
            message[0] = kind;
            message[1] = code;
            put16(message, 2, 0);
            put32(message, 4, word);
            message[8..].copy_from_slice(&packet[..quoted]);
            let pseudo =
                checksum::pseudo_v6(&head[8..24], &head[24..40], message.len(), wire::ICMP6);
            let sum = checksum::fold(checksum::add(message, pseudo));
            put16(message, 2, sum);
            worker.originate(cx, port, frame);
        });
    }

    /// Writes a header of 20 bytes over the front of `packet`.
    pub(crate) fn v4_header(
        &mut self,
        packet: &mut [u8],
        protocol: u8,
        tos: u8,
        (source, to): (Ipv4Addr, Ipv4Addr),
    ) {
        self.identification = self.identification.wrapping_add(1);
        let total = packet.len() as u16;
        let head = &mut packet[..V4];
        head[..2].copy_from_slice(&[0x45, tos]);
        put16(head, 2, total);
        put16(head, 4, self.identification);
        put16(head, 6, 0);
        head[8..12].copy_from_slice(&[TTL, protocol, 0, 0]);
        head[12..16].copy_from_slice(&source.octets());
        head[16..20].copy_from_slice(&to.octets());
        let sum = checksum::of(head);
        put16(head, 10, sum);
    }

    /// Sends a packet of the router's own; it answers one that came in on `port`.
    pub(crate) fn originate(&mut self, cx: &mut Cx<'_>, port: u16, frame: &mut Frame<'_>) {
        // An answer to what came out of a tunnel goes back into it.
        let inside = std::mem::replace(&mut self.inside, false);
        let packet = &frame.bytes()[ETHERNET..];
        let verdict = if be16(frame.bytes(), 12) == ETHERTYPE_V4 {
            V4Header::check(packet).map(|header| self.v4_leave(cx, None, &header, frame))
        } else {
            V6Header::check(packet).map(|header| self.v6_leave(cx, None, port, &header, frame))
        };
        self.inside = inside;
        self.counters.sent += 1;
        if let Ok(Verdict::Send { port }) = verdict {
            cx.out.send(port, frame.bytes());
        }
    }

    /// A packet for the router itself: echo is answered, UDP refused, the rest dropped.
    pub(crate) fn v4_local(
        &mut self,
        cx: &mut Cx<'_>,
        port: u16,
        header: &V4Header,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let unwanted = DropReason::Unwanted;
        if header.protocol == wire::UDP {
            if is_ike(cx, &frame.bytes()[ETHERNET + header.len..]) {
                return Verdict::Drop(DropReason::Ike);
            }
            let why = (IcmpError::PortUnreachable, unwanted);
            return self.refuse(cx, Some(port), frame.bytes(), why);
        }
        if header.protocol == wire::ESP && !header.is_fragment() {
            let peer = IpAddr::V4(header.src.into());
            return self.decrypt(cx, port, header.len, peer, frame);
        }
        // Fragments are not put together here.
        if header.protocol != wire::ICMP || header.is_fragment() {
            return Verdict::Drop(unwanted);
        }
        let packet = &mut frame.bytes_mut()[ETHERNET..];
        let (head, message) = packet.split_at_mut(header.len);
        if message.len() < 8 {
            return Verdict::Drop(DropReason::Short);
        }
        if checksum::of(message) != 0 {
            return Verdict::Drop(DropReason::BadChecksum);
        }
        if message[0] != 8 || message[1] != 0 {
            return Verdict::Drop(unwanted);
        }
        message[0] = 0;
        let sum = checksum::update(be16(message, 2), 0x0800, 0);
        put16(message, 2, sum);
        let (source, to) = (header.src.to_be_bytes(), header.dst.to_be_bytes());
        head[8] = TTL;
        head[12..16].copy_from_slice(&to);
        head[16..20].copy_from_slice(&source);
        put16(head, 10, 0);
        let sum = checksum::of(head);
        put16(head, 10, sum);
        self.counters.echo_replies += 1;
        self.originate(cx, port, frame);
        Verdict::Consumed
    }

    /// Handles IPv6 packets for the router, including neighbour discovery.
    pub(crate) fn v6_local(
        &mut self,
        cx: &mut Cx<'_>,
        port: u16,
        header: &V6Header,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let multicast = header.dst >> 120 == 0xff;
        let unwanted = if multicast { DropReason::Multicast } else { DropReason::Unwanted };
        let packet = &mut frame.bytes_mut()[ETHERNET..];
        if header.next == wire::ESP && !multicast {
            return self.decrypt(cx, port, V6, IpAddr::V6(header.src.into()), frame);
        }
        if header.next != wire::ICMP6 {
            if !multicast && header.next == wire::UDP {
                if is_ike(cx, &frame.bytes()[ETHERNET + V6..]) {
                    return Verdict::Drop(DropReason::Ike);
                }
                let why = (IcmpError::PortUnreachable, unwanted);
                return self.refuse(cx, Some(port), frame.bytes(), why);
            }
            return Verdict::Drop(unwanted);
        }
        let (head, message) = packet.split_at_mut(V6);
        if message.len() < 8 {
            return Verdict::Drop(DropReason::Short);
        }
        let pseudo = checksum::pseudo_v6(&head[8..24], &head[24..40], message.len(), wire::ICMP6);
        if checksum::fold(checksum::add(message, pseudo)) != 0 {
            return Verdict::Drop(DropReason::BadChecksum);
        }
        match message[0] {
            crate::discovery::SOLICITATION | crate::discovery::ADVERTISEMENT => {
                return self.nd_input(cx, port, header, message);
            }
            128 if header.src != 0 => {}
            _ => return Verdict::Drop(unwanted),
        }
        // An answer to a group comes from the one of our addresses that is near.
        let own = match multicast {
            false => Some(Ipv6Addr::from(header.dst)),
            true => cx.tables.v6_source(port, header.src.into()),
        };
        let Some(own) = own else { return Verdict::Drop(unwanted) };
        message[0] = 129;
        put16(message, 2, 0);
        head[7] = TTL;
        head[8..24].copy_from_slice(&own.octets());
        head[24..40].copy_from_slice(&header.src.to_be_bytes());
        let pseudo = checksum::pseudo_v6(&head[8..24], &head[24..40], message.len(), wire::ICMP6);
        let sum = checksum::fold(checksum::add(message, pseudo));
        put16(message, 2, sum);
        self.counters.echo_replies += 1;
        self.originate(cx, port, frame);
        Verdict::Consumed
    }
}

/// Returns whether a UDP datagram for the router belongs to a key exchange (RFC 7296, 2; RFC 3948,
/// 2) that the kernel's daemon has received as well.
fn is_ike(cx: &Cx<'_>, datagram: &[u8]) -> bool {
    let App::Ipsec(ipsec) = &cx.tables.app else { return false };
    ipsec.kernel && datagram.len() >= 4 && matches!(be16(datagram, 2), 500 | 4500)
}
