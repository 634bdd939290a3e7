//! TCP between all pairs of hosts: what waits in their queues, what is on its way.
//!
//! Data and acknowledgements for a host wait in one queue. Those that a host sends in answer go to
//! the queue of where the data came from, and wait for the circuit of the other direction.

use std::collections::VecDeque;

use halfwink_engine::Histogram;
use halfwink_units::Time;

use super::setting::{us, Setting};
use super::times::Times;
use crate::faults::Broken;
use crate::tcp::{Ack, Algorithm, Parameters, Receiver, Sender, Tally};

/// A packet in a queue or on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Time at which the processor finished the packet.
    pub(super) ready: Time,
    pub(super) content: Content,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Data { segment: u64, marked: bool },
    Ack(Ack),
}

/// Packets for one host.
#[derive(Clone, Debug, Default)]
struct Queue {
    packets: VecDeque<Packet>,
    bytes: u64,
}

/// Counters of TCP beside those of arrivals.
#[derive(Clone, Debug, Default)]
pub struct TcpCounts {
    /// Sums over all senders.
    pub tally: Tally,
    /// Acknowledgements handed to a card.
    pub acks: u64,
    /// Number of these acknowledgements that were lost.
    pub acks_lost: u64,
    /// Acknowledgements that found no room in their queue.
    pub acks_refused: u64,
    /// Segments that reached their receiver.
    pub arrived: u64,
    /// Time from the building of a segment until its receiver has processed it.
    pub delivery: Histogram,
}

pub(super) struct Connections {
    count: usize,
    frame: u32,
    ack: u32,
    queue_bytes: u64,
    mark_bytes: u64,
    delayed: Time,
    work: Time,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    queues: Vec<Queue>,
    /// Packets that arrive at each host in this slot, all from one other host.
    arriving: Vec<VecDeque<(Time, Packet)>>,
    /// Time at which each processor is free.
    processors: Vec<Time>,
    pub(super) counts: TcpCounts,
}

impl Connections {
    /// All are set up, and have sent what their first windows allow, host after host in turns.
    pub(super) fn new(setting: &Setting, times: &Times, algorithm: Algorithm) -> Connections {
        let (hosts, count) = (setting.hosts, usize::from(setting.hosts.count));
        let day_bytes = times.queue_bytes / hosts.queue_days;
        let window = (hosts.tcp.window_days * day_bytes / f64::from(hosts.frame_bytes)).max(1.0);
        let parameters = Parameters {
            algorithm,
            initial: window,
            window: window as u64,
            least_timeout: us(1e3 * hosts.tcp.least_timeout_ms),
        };
        let marks = algorithm == Algorithm::Dctcp;
        let pairs = count * count;
        let mut made = Connections {
            count,
            frame: hosts.frame_bytes,
            ack: hosts.tcp.ack_bytes,
            queue_bytes: times.queue_bytes as u64,
            mark_bytes: if marks { (hosts.tcp.mark_days * day_bytes) as u64 } else { u64::MAX },
            delayed: us(1e3 * hosts.tcp.delayed_ms),
            work: times.work,
            senders: vec![Sender::new(parameters); pairs],
            receivers: vec![Receiver::new(hosts.tcp.segments_per_ack); pairs],
            queues: vec![Queue::default(); pairs],
            arriving: vec![VecDeque::new(); count],
            processors: vec![Time::ZERO; count],
            counts: TcpCounts::default(),
        };
        // One segment of each pair after the other, so that no connection's first window delays
        // all others at the processor.
        for _ in 0..parameters.window {
            for pair in (0..pairs).filter(|pair| pair / count != pair % count) {
                made.build(pair / count, pair % count, Time::ZERO);
            }
        }
        made
    }

    fn pair(&self, from: usize, to: usize) -> usize {
        from * self.count + to
    }

    /// Returns the time at which a host's processor is free.
    pub(super) fn busy_until(&self, host: usize) -> Time {
        self.processors[host]
    }

    /// A host does nothing before.
    pub(super) fn pause(&mut self, host: usize, until: Time) {
        self.processors[host] = self.processors[host].max(until);
    }

    /// Checks the invariants of connections, which hold under any faults.
    pub(super) fn verify(&self, sent: u64, lost: u64) -> Result<(), Broken> {
        let (count, known) = (self.count, lost + self.counts.arrived);
        if sent != known {
            return Err(Broken::Unbalanced(sent, known));
        }
        for (n, (sender, receiver)) in self.senders.iter().zip(&self.receivers).enumerate() {
            let ((acknowledged, next), in_order) = (sender.span(), receiver.in_order());
            if in_order > next || acknowledged > in_order {
                return Err(Broken::Invented(n / count, n % count, next, in_order));
            }
            if sender.waits_for_ever() {
                return Err(Broken::Stranded(n / count, n % count));
            }
        }
        Ok(())
    }

    fn work(&mut self, host: usize, now: Time, work: Time) -> Time {
        // One processor for all connections: what it does for one delays the others.
        let done = self.processors[host].max(now) + work;
        self.processors[host] = done;
        done
    }

    /// Returns the bytes that wait from one host for another.
    pub(super) fn waiting(&self, from: u16, to: u16) -> u64 {
        self.queues[self.pair(usize::from(from), usize::from(to))].bytes
    }

    /// Segments that arrived in order, for each pair by rows of senders.
    pub(super) fn delivered(&self) -> Vec<u64> {
        self.receivers.iter().map(Receiver::in_order).collect()
    }

    pub(super) fn finish(&mut self) -> TcpCounts {
        for tally in self.senders.iter().map(Sender::tally) {
            let sum = &mut self.counts.tally;
            sum.again += tally.again;
            sum.recoveries += tally.recoveries;
            sum.timeouts += tally.timeouts;
            sum.refused += tally.refused;
        }
        std::mem::take(&mut self.counts)
    }

    /// Puts a segment into its queue if window and queue have room.
    fn build(&mut self, from: usize, to: usize, now: Time) -> bool {
        let pair = self.pair(from, to);
        if !self.senders[pair].ready() {
            return false;
        }
        // A full queue of the host's own is reported to the sender at once (in Linux a congestion
        // return code of the queue discipline), so that nothing is lost there.
        if self.queues[pair].bytes + u64::from(self.frame) > self.queue_bytes {
            self.senders[pair].refused();
            return false;
        }
        let ready = self.work(from, now, self.work);
        let segment = self.senders[pair].take(ready);
        // Marked by the queue as the packet found it, as DCTCP's switches do (RFC 8257, Sec 3.1).
        let marked = self.queues[pair].bytes > self.mark_bytes;
        self.put(pair, Packet { ready, content: Content::Data { segment, marked } });
        true
    }

    fn put(&mut self, pair: usize, packet: Packet) {
        let bytes = self.bytes(&packet);
        let queue = &mut self.queues[pair];
        queue.bytes += u64::from(bytes);
        queue.packets.push_back(packet);
    }

    /// An acknowledgement that finds no room is lost.
    fn answer(&mut self, from: usize, to: usize, ready: Time, ack: Ack) {
        let pair = self.pair(from, to);
        if self.queues[pair].bytes + u64::from(self.ack) <= self.queue_bytes {
            self.put(pair, Packet { ready, content: Content::Ack(ack) });
        } else {
            self.counts.acks_refused += 1;
        }
    }

    /// The timers of a host that matter to the queue for another. A host can do nothing about them
    /// before it has a circuit there, so they are looked at when it has.
    pub(super) fn wake(&mut self, from: usize, to: usize, now: Time) {
        let (forth, back) = (self.pair(from, to), self.pair(to, from));
        let due = self.receivers[back].due(self.delayed);
        if let Some(ack) = self.receivers[back].overdue(now, self.delayed) {
            self.answer(from, to, due.unwrap_or(now), ack);
        }
        // All deadlines that passed while there was no circuit, each at its own time: the timer
        // doubles as if the host had looked.
        while let Some(at) = self.senders[forth].expire(now) {
            while self.build(from, to, at) {}
        }
        while self.build(from, to, now) {}
    }

    pub(super) fn bytes(&self, packet: &Packet) -> u32 {
        match packet.content {
            Content::Data { .. } => self.frame,
            Content::Ack(_) => self.ack,
        }
    }

    /// The packet at the head of a queue.
    pub(super) fn head(&self, from: usize, to: usize) -> Option<&Packet> {
        self.queues[self.pair(from, to)].packets.front()
    }

    /// Returns the number of segments at the head of a queue that are ready, up to `most`.
    pub(super) fn ready(&self, from: usize, to: usize, now: Time, most: usize) -> usize {
        let packets = self.queues[self.pair(from, to)].packets.iter().take(most);
        let is_ready = |packet: &&Packet| {
            packet.ready <= now && matches!(packet.content, Content::Data { .. })
        };
        packets.take_while(is_ready).count()
    }

    /// Removes the head of a queue.
    pub(super) fn pop(&mut self, from: usize, to: usize) -> Option<Packet> {
        let pair = self.pair(from, to);
        let packet = self.queues[pair].packets.pop_front()?;
        self.queues[pair].bytes -= u64::from(self.bytes(&packet));
        Some(packet)
    }

    /// A packet will arrive.
    pub(super) fn carry(&mut self, to: usize, at: Time, packet: Packet) {
        self.arriving[to].push_back((at, packet));
    }

    /// Returns the time at which the next packet arrives at a host.
    pub(super) fn arrives(&self, host: usize) -> Option<Time> {
        self.arriving[host].front().map(|(at, _)| *at)
    }

    /// Processes the next arriving packet of a host.
    pub(super) fn arrive(&mut self, host: usize, from: usize) {
        let Some((now, packet)) = self.arriving[host].pop_front() else { return };
        match packet.content {
            Content::Data { segment, marked } => {
                let done = self.work(host, now, self.work);
                self.counts.delivery.record(done - packet.ready);
                self.counts.arrived += 1;
                let pair = self.pair(from, host);
                let ack = self.receivers[pair].data(done, segment, packet.ready, marked);
                if let Some(ack) = ack {
                    self.answer(host, from, done, ack);
                }
            }
            Content::Ack(ack) => {
                let done = self.work(host, now, Time::ZERO);
                let pair = self.pair(host, from);
                self.senders[pair].acknowledged(done, &ack);
                while self.build(host, from, done) {}
            }
        }
    }
}
