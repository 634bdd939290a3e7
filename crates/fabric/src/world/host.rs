//! One host through one slot.

use halfwink_engine::{stream, Stream};
use halfwink_policy::circuits::host::{HostAction, HostEvent, Tokens};
use halfwink_policy::Host as PolicyHost;
use halfwink_units::Time;

use super::card::Sender;
use super::draw::{happens, us_between};
use super::sync::Receiver;
use super::{Counts, Times};
use crate::hosts::Hosts;

/// A host.
pub(super) struct Host {
    random: Stream,
    pub(super) receiver: Receiver,
    sender: Sender,
    tokens: PolicyHost<Tokens>,
    /// What waits for each other host, in bytes, and as of when.
    queues: Vec<Queue>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    bytes: f64,
    at: Time,
}

/// A night and the day after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) night: Time,
    pub(super) day: Time,
    /// [`Time::NEVER`] if the circuit stays.
    pub(super) ends: Time,
}

impl Host {
    pub(super) fn new(number: u16, hosts: u16, seed: u64, tokens: Tokens) -> Host {
        Host {
            random: stream(seed, &format!("host{number}")),
            receiver: Receiver::default(),
            sender: Sender::default(),
            tokens: PolicyHost::new(tokens),
            queues: vec![Queue::default(); usize::from(hosts)],
        }
    }

    /// What waits for another now. All queues fill at one rate, up to what they hold.
    pub(super) fn waiting(&mut self, to: u16, now: Time, times: &Times) -> u64 {
        let queue = &mut self.queues[usize::from(to)];
        let more = times.fill_bytes_per_ps * now.saturating_sub(queue.at).0 as f64;
        *queue = Queue { bytes: (queue.bytes + more).min(times.queue_bytes), at: now };
        queue.bytes as u64
    }

    /// Plays a slot: hears of its day and of the next night, sends in between.
    pub(super) fn play(
        &mut self,
        slot: Slot,
        to: Option<u16>,
        hosts: &Hosts,
        times: &Times,
        counts: &mut Counts,
    ) {
        let length = slot.ends - slot.night;
        let mut hear = |sent: Time| {
            let after = us_between(&mut self.random, hosts.sync_us);
            self.receiver.handle(sent, after, length, &hosts.stalls, &mut self.random)
        };
        let dawn = hear(slot.day);
        let dusk = hear(slot.ends);
        let Some(to) = to else { return };
        if dusk <= dawn {
            // Both were handled at once: the day is over before anything is sent.
            counts.missed_days += 1;
            return;
        }
        let day = slot.ends - slot.day;
        self.tokens.deliver(dawn, &HostEvent::Day { peer: to, length: day }, |_, _| ());
        self.send(slot, (dawn, dusk), to, hosts, times, counts);
        self.tokens.deliver(dusk, &HostEvent::Night, |_, _| ());
    }

    fn send(
        &mut self,
        slot: Slot,
        (dawn, dusk): (Time, Time),
        to: u16,
        hosts: &Hosts,
        times: &Times,
        counts: &mut Counts,
    ) {
        let mut now = dawn + us_between(&mut self.random, hosts.first_packet_us);
        if happens(&mut self.random, hosts.late_share) {
            now += us_between(&mut self.random, hosts.late_us);
        }
        let frame = hosts.frame_bytes;
        let mut packets = self.waiting(to, slot.day, times) / u64::from(frame);
        let (mut is_first, mut last) = (true, None);
        while packets > 0 && now < dusk {
            match self.tokens.decide(now, &HostEvent::Head { bytes: frame }) {
                Some(HostAction::Again { at }) => now = at.max(now + times.dequeue),
                Some(HostAction::Send) => {
                    let wire = self.sender.hand_over(now, times, &mut self.random);
                    let passes = wire.begins >= slot.day && wire.ends <= slot.ends;
                    counts.packet(to, passes);
                    if is_first && passes {
                        counts.first_arrival.record(wire.ends + times.receive - slot.day);
                    }
                    (is_first, last) = (false, Some(now));
                    self.queues[usize::from(to)].bytes -= f64::from(frame);
                    packets -= 1;
                    now += times.dequeue;
                }
                Some(HostAction::Hold) | None => break,
            }
        }
        if let Some(last) = last {
            counts.handed_over.record(last - slot.day);
        }
    }
}
