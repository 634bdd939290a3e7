//! One host through one slot.

use halfwink_engine::{stream, Stream};
use halfwink_policy::circuits::host::{HostAction, HostEvent, Tokens};
use halfwink_policy::Host as PolicyHost;
use halfwink_units::Time;

use super::card::{OnWire, Sender};
use super::draw::{happens, us_between};
use super::setting::Counts;
use super::sync::Receiver;
use super::times::Times;
use crate::faults::Fate;
use crate::hosts::Hosts;

/// State of a host.
pub(super) struct Host {
    pub(super) random: Stream,
    pub(super) receiver: Receiver,
    sender: Sender,
    tokens: PolicyHost<Tokens>,
    /// Fault streams, if faults are enabled.
    pub(super) fate: Option<Box<Fate>>,
    /// Bytes that wait for each other host, with the time of that value.
    pub(super) queues: Vec<Queue>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Queue {
    pub(super) bytes: f64,
    pub(super) at: Time,
}

/// A night and the day after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) night: Time,
    pub(super) day: Time,
    /// The run's end if the circuit stays.
    pub(super) ends: Time,
}

/// Sending turn of a host in a day.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    slot: Slot,
    pub(super) to: u16,
    /// Earliest time of its next packet.
    pub(super) now: Time,
    /// Time at which the host handles the sync frame of the next night.
    dusk: Time,
    /// Time at which it handled the day's sync frame; taken when its first packet goes.
    heard: Option<Time>,
    /// Time of its last packet.
    last: Option<Time>,
}

impl Turn {
    pub(super) fn lasts_at(&self, at: Time) -> bool {
        at < self.dusk
    }
}

impl Host {
    pub(super) fn new(number: u16, hosts: &Hosts, seed: u64, tokens: Tokens) -> Host {
        Host {
            random: stream(seed, &format!("host{number}")),
            receiver: Receiver::default(),
            sender: Sender::default(),
            tokens: PolicyHost::new(tokens),
            fate: hosts.faults.of(seed, number),
            queues: vec![Queue::default(); usize::from(hosts.count)],
        }
    }

    /// Returns the bytes that wait for another host. All queues fill at one rate, up to their
    /// capacity.
    pub(super) fn waiting(&mut self, to: u16, now: Time, times: &Times) -> u64 {
        let queue = self.queue(to, now, times);
        self.queues[usize::from(to)] = queue;
        queue.bytes as u64
    }

    /// Handles the sync frames of a day and of the next night, at `waits` or later. Returns a turn
    /// unless both are handled at once or the day's frame was lost.
    pub(super) fn begin(
        &mut self,
        slot: Slot,
        to: Option<u16>,
        waits: Time,
        hosts: &Hosts,
        counts: &mut Counts,
    ) -> Option<Turn> {
        let length = slot.ends - slot.night;
        let mut hear = |sent: Time| {
            if self.fate.as_mut().is_some_and(|fate| fate.loses_sync()) {
                return Time::NEVER;
            }
            let fate = self.fate.as_mut();
            // A silent host handles the frame when it is back, and all that came meanwhile with
            // it.
            if let Some(until) = fate.and_then(|fate| fate.keeps_waiting(sent)) {
                self.receiver.stalled_until = self.receiver.stalled_until.max(until);
            }
            let after = us_between(&mut self.random, hosts.sync_us);
            // A frame that waits for the processor is handled once that is free, or after its own
            // latency, whichever is later.
            let after = after.max(waits.saturating_sub(sent));
            self.receiver.handle(sent, after, length, &hosts.stalls, &mut self.random)
        };
        // Both now: the turn ends when the night's frame is handled, which has to be known before
        // it begins.
        let dawn = hear(slot.day);
        let dusk = hear(slot.ends);
        let to = to?;
        if dusk <= dawn || dawn == Time::NEVER {
            // Both were handled at once: the day is over before anything is sent. Or it never heard
            // of it.
            counts.missed_days += 1;
            return None;
        }
        let day = slot.ends - slot.day;
        self.tokens.deliver(dawn, &HostEvent::Day { peer: to, length: day }, |_, _| ());
        let mut now = dawn + us_between(&mut self.random, hosts.first_packet_us);
        if happens(&mut self.random, hosts.late_share) {
            now += us_between(&mut self.random, hosts.late_us);
        }
        Some(Turn { slot, to, now, dusk, heard: Some(dawn), last: None })
    }

    /// Returns the end of a silence at this time, during which the host handles no frames.
    pub(super) fn silent_until(&mut self, now: Time) -> Option<Time> {
        self.fate.as_mut()?.silent_until(now)
    }

    /// Returns whether the packet at the head of the queue goes now. A packet that is held ends the
    /// turn.
    pub(super) fn may_send(&mut self, turn: &mut Turn, bytes: u32, times: &Times) -> bool {
        match self.tokens.decide(turn.now, &HostEvent::Head { bytes }) {
            // At least one look at the queue later, or a token bucket that answers "now" would
            // stop time.
            Some(HostAction::Again { at }) => turn.now = at.max(turn.now + times.dequeue),
            Some(HostAction::Send) => return true,
            // Nothing may go before the next day is announced: the turn is over.
            Some(HostAction::Hold) | None => turn.now = turn.dusk,
        }
        false
    }

    /// A packet goes to the card: when it is on the wire, and whether it passes.
    pub(super) fn hand_over(
        &mut self,
        turn: &mut Turn,
        bytes: u32,
        times: &Times,
        counts: &mut Counts,
    ) -> (OnWire, bool) {
        let (now, slot) = (turn.now, turn.slot);
        let wire = self.sender.hand_over(now, bytes, times, &mut self.random);
        // All that goes to the wire may be lost there, in time or not.
        let is_lost = self.fate.as_mut().is_some_and(|fate| fate.loses_frame(wire.begins));
        // The switch forwards a packet only if its circuit is up from the first bit to the last:
        // this is the rule of `live-circuits` too.
        let passes = wire.begins >= slot.day && wire.ends <= slot.ends && !is_lost;
        if let Some(heard) = turn.heard.take() {
            counts.reaction.record(now - heard);
            counts.first_handed.record(now - slot.day);
            if passes {
                let arrives = wire.ends + times.receive(bytes);
                counts.first_arrival.record(arrives - slot.day);
                let in_cards = arrives - now - (wire.ends - wire.begins);
                counts.least_in_cards = counts.least_in_cards.min(in_cards);
            }
        }
        turn.last = Some(now);
        (wire, passes)
    }

    pub(super) fn end(&mut self, turn: &Turn, counts: &mut Counts) {
        if let Some(last) = turn.last {
            counts.handed_over.record(last - turn.slot.day);
        }
        // Who has not heard of the night goes by what it was told of the day's length.
        if turn.dusk < Time::NEVER {
            self.tokens.deliver(turn.dusk, &HostEvent::Night, |_, _| ());
        }
        counts.longest_pause = counts.longest_pause.max(self.sender.longest_pause);
    }

    /// Plays a slot of datagrams.
    pub(super) fn play(
        &mut self,
        slot: Slot,
        to: Option<u16>,
        hosts: &Hosts,
        times: &Times,
        counts: &mut Counts,
    ) {
        let Some(mut turn) = self.begin(slot, to, Time::ZERO, hosts, counts) else { return };
        let (to, frame) = (turn.to, hosts.frame_bytes);
        let mut packets = self.waiting(to, slot.day, times) / u64::from(frame);
        while packets > 0 && turn.lasts_at(turn.now) {
            if self.may_send(&mut turn, frame, times) {
                let (_, passes) = self.hand_over(&mut turn, frame, times, counts);
                counts.packet(to, passes);
                self.queues[usize::from(to)].bytes -= f64::from(frame);
                packets -= 1;
                turn.now += times.dequeue;
            }
        }
        self.end(&turn, counts);
    }
}
