use std::sync::Arc;

use halfwink_units::Time;

use crate::counters::{Counters, DropReason};
use crate::frame::Frame;
use crate::neighbours::Key;
use crate::shared::Shared;
use crate::tables::Tables;
use crate::wire::{self, be16};

/// Where the router's own frames go.
pub trait Out {
    /// A frame that the router made (ARP, neighbour discovery, ICMP, fragments), or one that had to
    /// wait for its neighbour.
    fn send(&mut self, port: u16, frame: &[u8]);
    /// A datagram of flow records: the payload of a UDP packet to the collector.
    fn export(&mut self, datagram: &[u8]);
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was rewritten and is to leave by this port.
    Send {
        /// The port.
        port: u16,
    },
    /// It was for the router, or left in pieces through [`Out::send`].
    Consumed,
    /// A copy waits for the neighbour's answer.
    Held,
    /// It is to be forgotten.
    Drop(DropReason),
}

/// One worker of a router.
#[derive(Debug)]
pub struct Forwarder {
    shared: Arc<Shared>,
    tables: Arc<Tables>,
    epoch: u64,
    worker: Worker,
}

/// What a worker has for itself.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: u16,
    pub(crate) counters: Counters,
}

/// What a step of a packet's way may look at.
pub(crate) struct Cx<'a> {
    pub(crate) now: Time,
    pub(crate) tables: &'a Tables,
    pub(crate) shared: &'a Shared,
    pub(crate) out: &'a mut dyn Out,
}

impl Forwarder {
    /// Worker number `worker` of a router.
    #[must_use]
    pub fn new(shared: Arc<Shared>, worker: u16) -> Forwarder {
        let (epoch, tables) = (shared.epoch(), shared.tables());
        let worker = Worker { number: worker, counters: Counters::default() };
        Forwarder { shared, tables, epoch, worker }
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
        self.refresh();
        let mut cx = Cx { now, tables: &self.tables, shared: &self.shared, out };
        let verdict = self.worker.input(&mut cx, port, frame);
        self.worker.count(verdict, frame.len());
        verdict
    }

    /// Timers: retries and expiry of neighbours, time-outs of flows, templates. To be called about
    /// every 10 ms.
    pub fn tick(&mut self, now: Time, out: &mut dyn Out) {
        self.refresh();
        let _ = (now, out);
    }

    /// At the end: exports every flow.
    pub fn flush(&mut self, now: Time, out: &mut dyn Out) {
        let _ = (now, out);
    }

    /// What this worker did since it began.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.worker.counters
    }

    fn refresh(&mut self) {
        let epoch = self.shared.epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.tables = self.shared.tables();
        }
    }
}

impl Worker {
    fn count(&mut self, verdict: Verdict, len: usize) {
        self.counters.received += 1;
        match verdict {
            Verdict::Send { .. } => {
                self.counters.forwarded += 1;
                self.counters.forwarded_bytes += len as u64;
            }
            Verdict::Consumed => self.counters.consumed += 1,
            Verdict::Held => self.counters.held += 1,
            Verdict::Drop(reason) => self.counters.drop_one(reason),
        }
    }

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
            wire::ETHERTYPE_VLAN | wire::ETHERTYPE_QINQ => Verdict::Drop(DropReason::Vlan),
            _ => Verdict::Drop(DropReason::EtherType),
        }
    }

    /// Writes the Ethernet header and lets the frame go, if the neighbour is known.
    pub(crate) fn transmit(&mut self, cx: &mut Cx<'_>, to: Key, frame: &mut Frame<'_>) -> Verdict {
        let Some(mac) = cx.shared.neighbours().lookup(cx.now, to) else {
            return Verdict::Drop(DropReason::HostUnreachable);
        };
        let bytes = frame.bytes_mut();
        bytes[..6].copy_from_slice(&mac);
        bytes[6..12].copy_from_slice(&cx.tables.ports[usize::from(to.port)].mac);
        Verdict::Send { port: to.port }
    }
}
