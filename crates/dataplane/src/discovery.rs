//! Asking and answering who has an address: ARP (RFC 826, 5227) and IPv6 neighbour discovery
//! (RFC 4861, without routers' and redirect messages).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::counters::DropReason;
use crate::neighbours::{Answer, Held, Key};
use crate::tables::Port;
use crate::verdict::Verdict;
use crate::wire::{
    self, be128, be16, be32, put16, Mac, V6Header, BROADCAST, ETHERNET, ETHERTYPE_ARP,
    ETHERTYPE_V6, V6,
};
use crate::worker::{Cx, Worker};

/// Ethernet, IPv4, their lengths (RFC 826).
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP: usize = ETHERNET + 28;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

pub(crate) const SOLICITATION: u8 = 135;
pub(crate) const ADVERTISEMENT: u8 = 136;
/// Ethernet, IPv6, the message, one option.
const ND: usize = ETHERNET + V6 + 24 + 8;
/// Flags of an advertisement: from a router, solicited, override.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

impl Worker {
    /// The Ethernet address of a neighbour, if it is known; else the packet waits, or not.
    pub(crate) fn neighbour(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        to: Key,
        frame: &[u8],
    ) -> Result<Mac, Verdict> {
        if let Some(mac) = self.cache.get(cx.now, to, cx.shared.neighbour_epoch()) {
            return Ok(mac);
        }
        let held = || Held { from, frame: frame.to_vec() };
        let answer = cx.shared.neighbours().resolve(cx.now, from, to, held);
        match answer {
            Answer::Known { mac, until, ask } => {
                self.cache.put(to, mac, until);
                if ask {
                    self.ask(cx, to, Some(mac));
                }
                Ok(mac)
            }
            Answer::Held { ask } => {
                if ask {
                    self.ask(cx, to, None);
                }
                Err(Verdict::Held)
            }
            Answer::Full => Err(Verdict::Drop(DropReason::QueueFull)),
        }
    }

    /// Asks for a neighbour: everyone, or the one who had the address.
    pub(crate) fn ask(&mut self, cx: &mut Cx<'_>, to: Key, who: Option<Mac>) {
        let Some(port) = cx.tables.ports.get(usize::from(to.port)) else { return };
        self.counters.neighbour_requests += 1;
        self.counters.sent += 1;
        let Some(address) = to.as_v4() else {
            let frame = solicitation(port, to.address.into(), who);
            return cx.out.send(to.port, &frame);
        };
        // With no address of its own on the port it asks as one who probes (RFC 5227, 2.1.1).
        let target = Ipv4Addr::from(address);
        let source = port.v4_towards(target).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let ask = arp(REQUEST, port.mac, source, who.unwrap_or(BROADCAST), [0; 6], target);
        cx.out.send(to.port, &ask);
    }

    /// Tells everyone the router's own addresses (RFC 5227, 3; RFC 4861, 7.2.6).
    pub(crate) fn announce(&mut self, cx: &mut Cx<'_>) {
        for (number, port) in (0u16..).zip(&cx.tables.ports) {
            for net in &port.v4 {
                let (mac, address) = (port.mac, net.addr());
                cx.out.send(number, &arp(REQUEST, mac, address, BROADCAST, [0; 6], address));
                self.counters.sent += 1;
            }
            for net in &port.v6 {
                let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
                let frame = advertisement(port, net.addr(), (all, multicast_mac(all)), OVERRIDE);
                cx.out.send(number, &frame);
                self.counters.sent += 1;
            }
        }
    }

    /// An ARP message in its Ethernet frame (RFC 826, "packet reception").
    pub(crate) fn arp_input(&mut self, cx: &mut Cx<'_>, number: u16, frame: &[u8]) -> Verdict {
        let bad = Verdict::Drop(DropReason::BadNeighbour);
        let Some(frame) = frame.first_chunk::<ARP>() else {
            return Verdict::Drop(DropReason::Short);
        };
        let (operation, source) = (be16(frame, 20), Ipv4Addr::from(be32(frame, 28)));
        let target = Ipv4Addr::from(be32(frame, 38));
        let mac: Mac = [frame[22], frame[23], frame[24], frame[25], frame[26], frame[27]];
        if frame[14..20] != ARP_HEAD || !matches!(operation, REQUEST | REPLY) || mac[0] & 1 == 1 {
            return bad;
        }
        let port = &cx.tables.ports[usize::from(number)];
        let has = |address| port.v4.iter().any(|net| net.addr() == address);
        let (probe, for_us) = (source.is_unspecified(), has(target));
        // Nobody else speaks for our addresses, nor from another network.
        if has(source) || !(probe || port.has_v4_link(source)) {
            return bad;
        }
        // Who asks for us makes an entry, since an answer goes there at once; all others only mend
        // the one that there is, or a flood of replies would fill the table.
        if !probe {
            let key = Key::v4(number, source.into());
            self.learn(cx, key, mac, for_us && operation == REQUEST, true);
        }
        if for_us && operation == REQUEST {
            self.counters.neighbour_replies += 1;
            self.counters.sent += 1;
            let reply = arp(REPLY, port.mac, target, mac, mac, source);
            cx.out.send(number, &reply);
        }
        Verdict::Consumed
    }

    /// A solicitation or advertisement, its ICMPv6 checksum already checked.
    pub(crate) fn nd_input(
        &mut self,
        cx: &mut Cx<'_>,
        number: u16,
        header: &V6Header,
        message: &[u8],
    ) -> Verdict {
        let bad = Verdict::Drop(DropReason::BadNeighbour);
        // RFC 4861, 7.1: nothing that came through a router counts.
        if header.hops != 255 || message.len() < 24 || message[1] != 0 || message[8] == 0xff {
            return bad;
        }
        let solicitation = message[0] == SOLICITATION;
        let Ok(mac) = link_layer_option(&message[24..], if solicitation { 1 } else { 2 }) else {
            return bad;
        };
        let target = be128(message, 8);
        let port = &cx.tables.ports[usize::from(number)];
        if !solicitation {
            if port.has_v6(target) {
                return bad;
            }
            if let Some(mac) = mac {
                let key = Key { port: number, address: target };
                self.learn(cx, key, mac, false, message[4] & OVERRIDE != 0);
            }
            return Verdict::Consumed;
        }
        if !port.has_v6(target) {
            return Verdict::Consumed;
        }
        let source = Ipv6Addr::from(header.src);
        let duplicate_detection = source.is_unspecified();
        if duplicate_detection && mac.is_some() {
            return bad;
        }
        if let (Some(mac), true) = (mac, port.has_v6_link(source)) {
            self.learn(cx, Key { port: number, address: header.src }, mac, true, true);
        }
        self.counters.neighbour_replies += 1;
        self.counters.sent += 1;
        let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let frame = match mac {
            _ if duplicate_detection => {
                advertisement(port, target.into(), (all, multicast_mac(all)), OVERRIDE)
            }
            Some(mac) => advertisement(port, target.into(), (source, mac), SOLICITED | OVERRIDE),
            // A unicast question may leave its address out: the one who asks is known, or not.
            None => {
                let key = Key { port: number, address: header.src };
                let Some(mac) = self.cache.get(cx.now, key, cx.shared.neighbour_epoch()) else {
                    return Verdict::Consumed;
                };
                advertisement(port, target.into(), (source, mac), SOLICITED | OVERRIDE)
            }
        };
        cx.out.send(number, &frame);
        Verdict::Consumed
    }

    fn learn(&mut self, cx: &mut Cx<'_>, key: Key, mac: Mac, create: bool, replace: bool) {
        let learnt = cx.shared.neighbours().learn(cx.now, key, mac, create, replace);
        let Some(learnt) = learnt else { return };
        if learnt.forget {
            cx.shared.forget_neighbours();
        }
        self.counters.neighbours_learnt += 1;
        self.release(cx, key, mac, learnt.released);
    }

    /// Sends what waited for a neighbour.
    pub(crate) fn release(&mut self, cx: &mut Cx<'_>, key: Key, mac: Mac, released: Vec<Held>) {
        // After a reload its port may be gone.
        let Some(port) = cx.tables.ports.get(usize::from(key.port)) else { return };
        for mut held in released {
            held.frame[..6].copy_from_slice(&mac);
            held.frame[6..12].copy_from_slice(&port.mac);
            cx.out.send(key.port, &held.frame);
            if held.from.is_some() {
                self.counters.forwarded += 1;
                self.counters.forwarded_bytes += held.frame.len() as u64;
            }
        }
    }
}

/// An ARP message from `mac`, to the Ethernet address `to`.
fn arp(
    operation: u16,
    mac: Mac,
    source: Ipv4Addr,
    to: Mac,
    target_mac: Mac,
    target: Ipv4Addr,
) -> [u8; ARP] {
    let mut frame = [0; ARP];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&mac);
    put16(&mut frame, 12, ETHERTYPE_ARP);
    frame[14..20].copy_from_slice(&ARP_HEAD);
    put16(&mut frame, 20, operation);
    frame[22..28].copy_from_slice(&mac);
    frame[28..32].copy_from_slice(&source.octets());
    frame[32..38].copy_from_slice(&target_mac);
    frame[38..42].copy_from_slice(&target.octets());
    frame
}

/// Builds a neighbour solicitation for `target`, sent to its solicited-node group or to the known
/// neighbour.
fn solicitation(port: &Port, target: Ipv6Addr, who: Option<Mac>) -> [u8; ND] {
    let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    group[13..].copy_from_slice(&target.octets()[13..]);
    let to = match who {
        Some(mac) => (target, mac),
        None => (group.into(), multicast_mac(group.into())),
    };
    // The link-local address is there on every port, and every neighbour has one.
    nd_message(port, SOLICITATION, 0, (port.link_local, to.0, to.1), target)
}

fn advertisement(port: &Port, target: Ipv6Addr, to: (Ipv6Addr, Mac), flags: u8) -> [u8; ND] {
    nd_message(port, ADVERTISEMENT, flags | ROUTER, (target, to.0, to.1), target)
}

fn nd_message(
    port: &Port,
    kind: u8,
    flags: u8,
    (source, to, to_mac): (Ipv6Addr, Ipv6Addr, Mac),
    target: Ipv6Addr,
) -> [u8; ND] {
    let mut frame = [0; ND];
    frame[..6].copy_from_slice(&to_mac);
    frame[6..12].copy_from_slice(&port.mac);
    put16(&mut frame, 12, ETHERTYPE_V6);
    let packet = &mut frame[ETHERNET..];
    packet[0] = 0x60;
    put16(packet, 4, 32);
    packet[6] = wire::ICMP6;
    packet[7] = 255;
    packet[8..24].copy_from_slice(&source.octets());
    packet[24..40].copy_from_slice(&to.octets());
    let message = &mut packet[V6..];
    message[0] = kind;
    message[4] = flags;
    message[8..24].copy_from_slice(&target.octets());
    // The source's own address in a question, the target's in an answer: ours either way.
    message[24] = if kind == SOLICITATION { 1 } else { 2 };
    message[25] = 1;
    message[26..32].copy_from_slice(&port.mac);
    let pseudo = checksum::pseudo_v6(&source.octets(), &to.octets(), 32, wire::ICMP6);
    let sum = checksum::fold(checksum::add(message, pseudo));
    put16(message, 2, sum);
    frame
}

/// The Ethernet address of an IPv6 multicast group (RFC 2464, 7).
fn multicast_mac(group: Ipv6Addr) -> Mac {
    let o = group.octets();
    [0x33, 0x33, o[12], o[13], o[14], o[15]]
}

/// The link-layer address option of this type, if it is there; `Err` if an option cannot be.
fn link_layer_option(mut options: &[u8], kind: u8) -> Result<Option<Mac>, ()> {
    let mut found = None;
    while let [this, len, ..] = *options {
        let len = usize::from(len) * 8;
        let option = options.get(..len).filter(|_| len > 0).ok_or(())?;
        if let (true, &[_, _, a, b, c, d, e, f]) = (this == kind, option) {
            if a & 1 == 1 {
                return Err(());
            }
            found = Some([a, b, c, d, e, f]);
        }
        options = &options[len..];
    }
    Ok(found)
}
