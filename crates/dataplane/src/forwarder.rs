//! A packet's way through a worker, from a port to a port: which element sees it when.

use std::net::IpAddr;
use std::sync::Arc;

use halfwink_units::Time;

use crate::counters::{Counters, DropReason};
use crate::fib::Hop;
use crate::frame::Frame;
use crate::icmp_error::IcmpError;
use crate::neighbours::Key;
use crate::shared::Shared;
use crate::tables::{App, Tables};
use crate::verdict::{Out, Verdict};
use crate::wire::{self, be16};
use crate::worker::{Cx, Way, Worker};

/// One worker of a router.
#[derive(Debug)]
pub struct Forwarder {
    shared: Arc<Shared>,
    tables: Arc<Tables>,
    epoch: u64,
    /// The settings whose addresses this worker has told everyone.
    announced: Option<u64>,
    worker: Worker,
}

/// Ingress port of packets that were encrypted: they count as forwarded, but cause no ICMP message.
const SEALED: u16 = u16::MAX;
const _: () = assert!(crate::tables::MOST_PORTS <= SEALED as usize);

impl Forwarder {
    /// Worker number `worker` of a router.
    #[must_use]
    pub fn new(shared: Arc<Shared>, worker: u16) -> Forwarder {
        let (epoch, tables) = (shared.epoch(), shared.tables());
        let worker = Worker::new(worker, &tables.app);
        Forwarder { shared, tables, epoch, announced: None, worker }
    }

    /// One frame that came in on `port`, rewritten in place if it is to leave. `now` is the time
    /// since the router's start and never goes back.
    pub fn process(
        &mut self,
        now: Time,
        port: u16,
        frame: &mut Frame<'_>,
        out: &mut dyn Out,
    ) -> Verdict {
        // Once for each packet and nowhere on its way: it is routed, encrypted and refused by the
        // tables that it came in under.
        self.refresh(now, out);
        debug_assert!(!self.worker.inside && !self.worker.in_pieces, "left by the packet before");
        let mut cx = Cx { now, tables: &self.tables, shared: &self.shared, out };
        let verdict = self.worker.input(&mut cx, port, frame);
        self.worker.count(verdict, frame.len());
        verdict
    }

    /// Timers: retries and expiry of neighbours, time-outs of flows, templates. To be called about
    /// every 10 ms.
    pub fn tick(&mut self, now: Time, out: &mut dyn Out) {
        self.refresh(now, out);
        let mut cx = Cx { now, tables: &self.tables, shared: &self.shared, out };
        self.worker.neighbours_due(&mut cx);
        if let Some(flows) = &mut self.worker.flows {
            flows.tick(now, cx.out, &mut self.worker.counters);
        }
        // One speaks for all.
        if self.worker.number == 0 && self.announced != Some(self.epoch) {
            self.announced = Some(self.epoch);
            self.worker.announce(&mut cx);
        }
    }

    /// At the end: exports every flow.
    pub fn flush(&mut self, now: Time, out: &mut dyn Out) {
        self.refresh(now, out);
        if let Some(flows) = &mut self.worker.flows {
            flows.flush(now, out, &mut self.worker.counters);
        }
    }

    /// Returns the counters of this worker since its start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.worker.counters
    }

    fn refresh(&mut self, now: Time, out: &mut dyn Out) {
        let epoch = self.shared.epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.tables = self.shared.tables();
            self.worker.change_app(&self.tables.app, now, out);
        }
    }
}

impl Worker {
    fn input(&mut self, cx: &mut Cx<'_>, port: u16, frame: &mut Frame<'_>) -> Verdict {
        let Some(settings) = cx.tables.ports.get(usize::from(port)) else {
            return Verdict::Drop(DropReason::NoPort);
        };
        let bytes = frame.bytes();
        let Some(header) = bytes.first_chunk::<{ wire::ETHERNET }>() else {
            return Verdict::Drop(DropReason::Short);
        };
        // The lowest bit of the first byte says "group".
        let group = header[0] & 1 == 1;
        if !group && header[..6] != settings.mac {
            return Verdict::Drop(DropReason::NotForUs);
        }
        match be16(header, 12) {
            wire::ETHERTYPE_V4 => self.v4_input(cx, port, frame, group),
            wire::ETHERTYPE_V6 => self.v6_input(cx, port, frame, group),
            wire::ETHERTYPE_ARP => self.arp_input(cx, port, bytes),
            wire::ETHERTYPE_VLAN | wire::ETHERTYPE_QINQ => Verdict::Drop(DropReason::Vlan),
            _ => Verdict::Drop(DropReason::EtherType),
        }
    }

    /// Returns the way of a packet to `to` with this hop, or the ICMP error for its sender.
    #[inline]
    pub(crate) fn way(
        &self,
        cx: &Cx<'_>,
        to: IpAddr,
        hop: Hop,
    ) -> Result<Way, (IcmpError, DropReason)> {
        let tables = cx.tables;
        let App::Ipsec(ipsec) = &tables.app else { return plain_way(tables, to, hop) };
        let tunnel = match self.inside {
            true => None,
            // Prohibited, says RFC 4301, 5.1.
            false => ipsec.outbound_for(to).map_err(|why| (IcmpError::Prohibited, why))?,
        };
        let Some(place) = tunnel else { return plain_way(tables, to, hop) };
        // A packet that enters a tunnel goes where the tunnel's other end is, whatever the route
        // to its own destination says.
        let outbound = &ipsec.outbound[place];
        let peer = outbound.peer();
        let way = plain_way(tables, peer, tables.fib.lookup(peer))?;
        Ok(Way { mtu: outbound.inner_mtu(way.mtu), tunnel, ..way })
    }

    /// Returns whether a packet came in the clear that should have come through a tunnel.
    #[inline]
    pub(crate) fn is_clear(&self, cx: &Cx<'_>, from: IpAddr, protocol: u8) -> bool {
        let App::Ipsec(ipsec) = &cx.tables.app else { return false };
        !self.inside && ipsec.is_missing(from, protocol)
    }

    /// The last steps of a packet's way.
    #[inline]
    pub(crate) fn depart(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        way: &Way,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let mut from = from;
        // The router's own packets may be what repairs the link: they go as they are.
        if let (App::Redundancy(redundancy), true) = (&cx.tables.app, from.is_some()) {
            self.encode(redundancy, way.to.port, frame);
        }
        if let (Some(place), App::Ipsec(ipsec)) = (way.tunnel, &cx.tables.app) {
            if let Err(reason) = ipsec.outbound[place].seal(frame) {
                return Verdict::Drop(reason);
            }
            self.counters.esp_encrypted += 1;
            // The sender is not told about what it cannot read.
            from = from.map(|_| SEALED);
        }
        self.transmit(cx, from, way.to, frame)
    }

    /// Takes an ESP packet that is for the router, whose outer header has `outer` bytes, out of
    /// its tunnel, and sends the inner packet on.
    pub(crate) fn decrypt(
        &mut self,
        cx: &mut Cx<'_>,
        port: u16,
        outer: usize,
        peer: IpAddr,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let App::Ipsec(ipsec) = &cx.tables.app else {
            return Verdict::Drop(DropReason::Unwanted);
        };
        // A tunnel in a tunnel would be for somebody else.
        if self.inside {
            return Verdict::Drop(DropReason::EspInner);
        }
        if let Err(reason) = ipsec.open(frame, outer, peer) {
            return Verdict::Drop(reason);
        }
        self.counters.esp_decrypted += 1;
        self.inside = true;
        let verdict = match be16(frame.bytes(), 12) {
            wire::ETHERTYPE_V4 => self.v4_input(cx, port, frame, false),
            _ => self.v6_input(cx, port, frame, false),
        };
        self.inside = false;
        verdict
    }

    /// Writes the Ethernet header and lets the frame go, if the neighbour is known.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        to: Key,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let mac = match self.neighbour(cx, from, to, frame.bytes()) {
            Ok(mac) => mac,
            Err(verdict) => return verdict,
        };
        let bytes = frame.bytes_mut();
        bytes[..6].copy_from_slice(&mac);
        bytes[6..12].copy_from_slice(&cx.tables.ports[usize::from(to.port)].mac);
        Verdict::Send { port: to.port }
    }

    /// Asks again for neighbours, and gives up those that do not answer.
    fn neighbours_due(&mut self, cx: &mut Cx<'_>) {
        let due = cx.shared.neighbours().due(cx.now);
        if due.gone {
            cx.shared.forget_neighbours();
        }
        for (key, who) in due.ask {
            self.ask(cx, key, who);
        }
        for (key, mac, held) in due.ready {
            self.release(cx, key, mac, held);
        }
        self.counters.drop_many(DropReason::QueueFull, due.pushed_out);
        for held in due.dead {
            let reason = DropReason::HostUnreachable;
            self.counters.drop_one(reason);
            self.refuse(cx, held.from, &held.frame, (IcmpError::HostUnreachable, reason));
        }
    }
}

#[inline]
fn plain_way(tables: &Tables, to: IpAddr, hop: Hop) -> Result<Way, (IcmpError, DropReason)> {
    let to = match hop {
        Hop::Link { port } => Key::new(port, to),
        Hop::Gateway { port, gateway } => Key::new(port, gateway),
        Hop::None => return Err((IcmpError::NoRoute, DropReason::NoRoute)),
        // `refuse` keeps quiet about it.
        Hop::Blackhole => return Err((IcmpError::HostUnreachable, DropReason::Blackhole)),
        Hop::Unreachable => return Err((IcmpError::HostUnreachable, DropReason::Unreachable)),
        // The router does not send to itself.
        Hop::Broadcast | Hop::Local => {
            return Err((IcmpError::HostUnreachable, DropReason::Unwanted))
        }
    };
    Ok(Way { to, mtu: tables.ports[usize::from(to.port)].mtu, tunnel: None })
}
