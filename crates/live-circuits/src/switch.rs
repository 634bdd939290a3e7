//! The emulated circuit switch: one thread that owns one end of every host's wire.
//!
//! It asks its policy for the next circuits a while before the old ones come down, and tells hosts
//! at once: so that neither its own lateness nor theirs costs what the circuits carry.
//!
//! Where nobody has anything to send it rests: no slots, no sync frames but one in a while. A host
//! that has something again says so.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use halfwink_engine::Histogram;
use halfwink_policy::circuits::sync::{self, Kind, Listener, Sync};
use halfwink_policy::circuits::{Action, Circuits as _, CircuitsPolicy, Event, NOBODY};
use halfwink_policy::Host;
use halfwink_units::Time;

use crate::circuits::{Circuits, Verdict};
use crate::config::SwitchConfig;
use crate::port::{host_mac, host_of, switch_mac, Port, AT_ONCE};
use crate::report::{take_refused, Quantiles, SwitchReport};
use crate::{time, EventLog, SWITCH_PRIORITY};

/// A host that has not answered for so long is lost.
const LOST_NS: u64 = 200_000_000;
/// Interval at which hosts are polled, if the policy does not need a shorter one.
const ASK_NS: u64 = 20_000_000;
/// Time without frames or waiting data after which the switch rests.
const REST_NS: u64 = 60_000_000;
/// A resting switch says so again.
const RESTING_NS: u64 = 100_000_000;
/// The longest day: a matching for ever is renewed so often.
const LONGEST_NS: u64 = 1_000_000_000;
/// Longest time before the old circuits come down at which the next ones are requested.
const LEAD_NS: u64 = 1_000_000;
/// Between two looks at wires that carry something: a part of a day, within limits.
const LOOKS: u64 = 10;
const LOOK_NS: (u64, u64) = (50_000, 250_000);
/// Wires that carried something so lately carry something now.
const LATELY_NS: u64 = 5_000_000;

/// A switch at work. Dropping it ends it.
pub struct Switch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    ending: AtomicBool,
}

/// Counters; times stay distributions until a report.
#[derive(Default)]
struct Counts {
    report: SwitchReport,
    begun_ns: u64,
    /// CPU time of the thread at the beginning, and now.
    cpu_ns: (u64, u64),
    sync_late: Histogram,
    guard: Histogram,
}

impl Switch {
    /// Opens the wires and starts.
    ///
    /// # Errors
    /// An interface is missing or may not be used; the line says which.
    pub fn start(
        config: &SwitchConfig,
        policy: CircuitsPolicy,
        log: Option<EventLog>,
    ) -> Result<Switch, String> {
        let ports: Result<Vec<Port>, String> =
            config.interfaces.iter().map(|name| Port::open(name)).collect();
        let shared = Arc::new(Shared::default());
        shared.counts().begun_ns = time::now_ns();
        let mut worker = Worker::new(config, ports?, Host::logged(policy, log));
        let (seen, realtime) = (shared.clone(), config.realtime);
        let run = move || {
            let is_realtime = time::be_punctual(if realtime { SWITCH_PRIORITY } else { 0 });
            seen.counts().report.is_realtime = is_realtime;
            worker.run(&seen)
        };
        let thread = std::thread::Builder::new().name("circuits".to_owned()).spawn(run);
        let thread = thread.map_err(|e| format!("thread of the switch: {e}"))?;
        Ok(Switch { shared, thread: Some(thread) })
    }

    /// Returns the counters, and sets them to zero if requested.
    #[must_use]
    pub fn report(&self, from_zero: bool) -> SwitchReport {
        let mut counts = self.shared.counts();
        let now_ns = time::now_ns();
        let report = SwitchReport {
            at_s: now_ns as f64 * 1e-9,
            duration_s: (now_ns - counts.begun_ns) as f64 * 1e-9,
            cpu_s: (counts.cpu_ns.1 - counts.cpu_ns.0) as f64 * 1e-9,
            sync_late: Quantiles::of(&counts.sync_late),
            guard: Quantiles::of(&counts.guard),
            ..counts.report.clone()
        };
        if from_zero {
            let (is_realtime, cpu_ns) = (report.is_realtime, counts.cpu_ns.1);
            let fresh = SwitchReport {
                is_realtime,
                lost_now: report.lost_now.clone(),
                ..SwitchReport::default()
            };
            let (begun_ns, cpu_ns) = (now_ns, (cpu_ns, cpu_ns));
            *counts = Counts { report: fresh, begun_ns, cpu_ns, ..Counts::default() };
        }
        report
    }

    /// Returns whether the thread is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it had ended before, and why.
    pub fn stop(&mut self) -> Result<(), String> {
        self.shared.ending.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended = thread.join().map_err(|_| "the switch's thread has died".to_owned())?;
        ended.map_err(|e| format!("switch: {e}"))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Who wants to know how it ended has stopped it.
        drop(self.stop());
    }
}

impl Shared {
    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host as the switch sees it.
struct Station {
    listener: Listener,
    sequence: u64,
    /// Since when it owes an answer.
    owes_since: Option<u64>,
    is_lost: bool,
    /// Bytes that wait for each host, and what the policy knows of them.
    waiting: Vec<u64>,
    told: Vec<u64>,
}

struct Worker {
    ports: Vec<Option<Port>>,
    descriptors: Vec<RawFd>,
    stations: Vec<Station>,
    circuits: Circuits,
    policy: Host<CircuitsPolicy, Option<EventLog>>,
    night_ns: u64,
    keeps_time: bool,
    epoch: u64,
    slot: u32,
    /// Last day that was announced; `peers` holds the receivers of that day.
    day: (u64, u64),
    peers: Vec<Option<u16>>,
    /// Whether its sync frames are still to be sent.
    is_dawn_due: bool,
    /// Time to request the next day; while it rests, the time to announce that again.
    next_ns: u64,
    resting_since: Option<u64>,
    asked_ns: u64,
    carried_ns: u64,
}

/// Slots of the last day's length that have begun since its end: too late for them now.
fn missed(day: (u64, u64), night_ns: u64, now: u64) -> u32 {
    let slot_ns = (day.1 - day.0 + night_ns).max(1);
    let late_ns = now.saturating_sub(day.1 + night_ns);
    if day.0 == day.1 {
        // It has only begun.
        return 0;
    }
    u32::try_from(late_ns.div_ceil(slot_ns)).unwrap_or(u32::MAX)
}

impl Worker {
    fn new(
        config: &SwitchConfig,
        ports: Vec<Port>,
        policy: Host<CircuitsPolicy, Option<EventLog>>,
    ) -> Worker {
        let (n, now) = (ports.len(), time::now_ns());
        let station = |host: usize| Station {
            listener: Listener::switch(host as u16, host_mac(host as u16)),
            sequence: 0,
            owes_since: None,
            is_lost: false,
            waiting: vec![0; n],
            told: vec![0; n],
        };
        Worker {
            descriptors: ports.iter().map(Port::descriptor).collect(),
            ports: ports.into_iter().map(Some).collect(),
            stations: (0..n).map(station).collect(),
            circuits: Circuits::new(n as u16, config.bytes_per_us),
            policy,
            night_ns: (config.night_us * 1e3) as u64,
            keeps_time: config.keeps_time,
            epoch: now,
            slot: 0,
            day: (now, now),
            peers: vec![None; n],
            is_dawn_due: false,
            next_ns: now,
            resting_since: Some(now),
            asked_ns: 0,
            carried_ns: now,
        }
    }

    fn run(&mut self, shared: &Shared) -> io::Result<()> {
        self.policy.start(|_, _| {});
        while !shared.ending.load(Ordering::Relaxed) {
            let mut counts = shared.counts();
            self.receive(&mut counts);
            self.advance(&mut counts)?;
            drop(counts);
            let next_ns = if self.is_dawn_due { self.day.0 } else { self.next_ns };
            let now = time::now_ns();
            if self.resting_since.is_none() && now.saturating_sub(self.carried_ns) < LATELY_NS {
                // More will come: let it, and take all of it at once. Frames are judged by their
                // stamps, so that looking late changes nothing for them.
                let look = (self.day.1 - self.day.0) / LOOKS;
                time::wait(&[], next_ns.min(now + look.clamp(LOOK_NS.0, LOOK_NS.1)));
            } else {
                time::wait(&self.descriptors, next_ns);
            }
        }
        Ok(())
    }

    /// Takes what came, and passes on what a circuit is up for.
    fn receive(&mut self, counts: &mut Counts) {
        for from in 0..self.ports.len() {
            // Taken out, so that frames can go to the others while they lie in this one.
            let Some(mut port) = self.ports[from].take() else { continue };
            match self.pass(from as u16, &mut port, counts) {
                Ok(()) => self.ports[from] = Some(port),
                // Its wire is gone: it answers no more, and the others go on.
                Err(_) => self.descriptors[from] = -1,
            }
        }
        counts.report.overlaps += std::mem::take(&mut self.circuits.overlaps);
        for guard_ns in self.circuits.guards_ns.drain(..) {
            counts.guard.record(Time::ns(guard_ns));
        }
    }

    fn pass(&mut self, from: u16, port: &mut Port, counts: &mut Counts) -> io::Result<()> {
        let came = port.receive(AT_ONCE)?;
        let mut passing: Vec<&[u8]> = Vec::with_capacity(came.len());
        let mut output = NOBODY;
        for frame in &came {
            if frame.bytes.get(12..14) == Some(&sync::ETHERTYPE.to_be_bytes()[..]) {
                self.hear(from, frame.bytes, counts);
                continue;
            }
            let to = frame.bytes.get(..6).and_then(host_of).unwrap_or(NOBODY);
            let verdict = self.circuits.judge(from, to, frame.bytes.len(), frame.at_ns);
            counts.report.violations.count(verdict);
            if !matches!(verdict, Verdict::Forward { .. }) {
                continue;
            }
            // Frames to one host go out together: most of what comes in a day has one destination.
            if to != output {
                self.send(output, &passing);
                passing.clear();
                output = to;
            }
            passing.push(frame.bytes);
            counts.report.forwarded += 1;
            counts.report.forwarded_bytes += frame.bytes.len() as u64;
            self.carried_ns = frame.at_ns;
        }
        self.send(output, &passing);
        Ok(())
    }

    fn send(&mut self, to: u16, frames: &[&[u8]]) {
        if let Some(Some(port)) = self.ports.get_mut(usize::from(to)) {
            port.send(frames);
        }
    }

    fn hear(&mut self, from: u16, frame: &[u8], counts: &mut Counts) {
        // By the wire that it came on, not by what it says: a host cannot answer for another.
        let station = &mut self.stations[usize::from(from)];
        if let Ok((_, words)) = station.listener.hear(frame) {
            counts.report.replies += 1;
            station.owes_since = None;
            for (waiting, bytes) in station.waiting.iter_mut().zip(sync::demand(words)) {
                *waiting = bytes;
            }
        }
        take_refused(&mut counts.report.refused, &mut station.listener.refused);
    }

    /// Does what is due.
    fn advance(&mut self, counts: &mut Counts) -> io::Result<()> {
        let now = time::now_ns();
        self.find_lost(now, counts);
        if let Some(since) = self.resting_since {
            if self.anything_waits() {
                counts.report.rested_s += (now - since.max(counts.begun_ns)) as f64 * 1e-9;
                (self.resting_since, self.day) = (None, (now, now));
                self.carried_ns = now;
                return self.announce(now, counts);
            }
            if now >= self.next_ns {
                self.next_ns = now + RESTING_NS;
                self.tell(Kind::Rest, true, counts)?;
            }
            return Ok(());
        }
        if self.is_dawn_due && now >= self.day.0 {
            self.is_dawn_due = false;
            self.tell(Kind::Day, false, counts)?;
            counts.sync_late.record(Time::ns(time::now_ns() - self.day.0));
        }
        if now < self.next_ns {
            return Ok(());
        }
        if now.saturating_sub(self.carried_ns) > REST_NS && !self.anything_waits() {
            self.resting_since = Some(now);
            self.next_ns = now + RESTING_NS;
            return self.tell(Kind::Rest, true, counts);
        }
        self.announce(now, counts)
    }

    fn anything_waits(&self) -> bool {
        let there = self.stations.iter().filter(|station| !station.is_lost);
        there.flat_map(|station| &station.waiting).any(|&bytes| bytes > 0)
    }

    fn policy_now(&self) -> Time {
        Time::ns(time::now_ns() - self.epoch)
    }

    /// Asks for the next circuits, and tells hosts.
    fn announce(&mut self, now: u64, counts: &mut Counts) -> io::Result<()> {
        self.tell_demand();
        if self.keeps_time {
            let missed = missed(self.day, self.night_ns, now);
            let slot_ns = self.day.1 - self.day.0 + self.night_ns;
            // Hosts that send by the clock count slots from the first one: skipping whole slots
            // keeps the phase, where a delay would shift all that follow.
            self.day.1 += u64::from(missed) * slot_ns;
            self.slot = self.slot.wrapping_add(missed);
            counts.report.late_slots += u64::from(missed);
        }
        let (mut length, mut joins) = (Time::ZERO, Vec::new());
        let event = Event::Next { plane: 0, slot: self.slot };
        self.policy.deliver(self.policy_now(), &event, |_, action| match action {
            Action::Join { from, to, .. } => joins.push((from, to)),
            Action::Day { length: day, .. } => length = day,
        });
        for (from, to) in joins {
            // A policy may ask for what is no matching: the rest of it is still put up.
            counts.report.refused_joins += u64::from(self.circuits.join(from, to).is_err());
        }
        // Circuits come down as the last day ends; if this comes too late for the next to begin in
        // time, now.
        let mut night = self.day.1;
        if now > night + self.night_ns {
            night = now;
            counts.report.late_slots += u64::from(self.slot > 0);
        }
        let begins = night + self.night_ns;
        let ends = begins + (length.0 / 1000).clamp(1000, LONGEST_NS);
        self.peers = self.circuits.day(begins, ends);
        (self.day, self.is_dawn_due) = ((begins, ends), true);
        let up = self.peers.iter().flatten().count() as u64;
        counts.report.slots += 1;
        counts.report.circuits += up;
        counts.report.up_s += (ends - begins) as f64 * 1e-9 * up as f64;
        // An answer costs each host a frame: without a policy that needs demand it is only asked
        // for often enough to find lost hosts.
        let ask = self.policy.wants_demand() || now - self.asked_ns >= ASK_NS;
        // The next circuits are requested before the old ones come down, so that the hosts hear of
        // the night in time; at most half a day before, since demand gets old.
        debug_assert!(ends > begins, "a day has a length");
        self.next_ns = ends - LEAD_NS.min((ends - begins) / 2);
        self.tell(Kind::Night, ask, counts)?;
        self.slot = self.slot.wrapping_add(1);
        Ok(())
    }

    /// Tells the policy what waits, as far as it wants to know and that has changed.
    fn tell_demand(&mut self) {
        if !self.policy.wants_demand() {
            return;
        }
        let now = self.policy_now();
        for (from, station) in self.stations.iter_mut().enumerate() {
            for (to, told) in station.told.iter_mut().enumerate() {
                let bytes = station.waiting[to];
                if std::mem::replace(told, bytes) != bytes {
                    let event = Event::Demand { from: from as u16, to: to as u16, bytes };
                    self.policy.deliver(now, &event, |_, _| {});
                }
            }
        }
    }

    fn find_lost(&mut self, now: u64, counts: &mut Counts) {
        for host in 0..self.stations.len() {
            let station = &mut self.stations[host];
            let is_lost = station.owes_since.is_some_and(|since| now - since > LOST_NS);
            if is_lost == station.is_lost {
                continue;
            }
            station.is_lost = is_lost;
            if is_lost {
                station.waiting.fill(0);
            }
            let host = host as u16;
            let event = if is_lost { Event::Lost { host } } else { Event::Back { host } };
            if is_lost {
                counts.report.lost_hosts += 1;
            } else {
                counts.report.back_hosts += 1;
            }
            self.policy.deliver(self.policy_now(), &event, |_, _| {});
            let lost = self.stations.iter().enumerate().filter(|(_, s)| s.is_lost);
            counts.report.lost_now = lost.map(|(host, _)| host as u16).collect();
        }
    }

    /// Sends every host a sync frame.
    fn tell(&mut self, kind: Kind, ask: bool, counts: &mut Counts) -> io::Result<()> {
        counts.cpu_ns.1 = time::thread_cpu_ns();
        if ask {
            self.asked_ns = time::now_ns();
        }
        for (host, station) in self.stations.iter_mut().enumerate() {
            station.sequence += 1;
            if ask {
                station.owes_since.get_or_insert(self.asked_ns);
            }
            let (begins_ns, ends_ns) = if kind == Kind::Rest { (0, 0) } else { self.day };
            let sync = Sync {
                kind,
                ask,
                host: host as u16,
                peer: self.peers[host].filter(|_| kind != Kind::Rest).unwrap_or(NOBODY),
                slot: self.slot,
                epoch: self.epoch,
                sequence: station.sequence,
                begins_ns,
                ends_ns,
            };
            let mut frame = [0; sync::BYTES];
            let macs = (host_mac(host as u16), switch_mac(host as u16));
            let Ok(len) = sync::encode(&sync, macs, &[], &mut frame) else { continue };
            if let Some(port) = &mut self.ports[host] {
                port.send(&[&frame[..len]]);
                if ask {
                    port.count_overflows();
                }
            }
            counts.report.syncs += 1;
        }
        for port in self.ports.iter_mut().flatten() {
            counts.report.lost.take(&mut port.lost);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_whose_day_should_have_begun_are_missed() {
        let (day, night_ns) = ((1000, 1900), 100);
        assert_eq!(missed(day, night_ns, 1500), 0, "the day lasts");
        assert_eq!(missed(day, night_ns, 2000), 0, "just in time");
        assert_eq!(missed(day, night_ns, 2001), 1);
        assert_eq!(missed(day, night_ns, 3000), 1, "in time for the one after");
        assert_eq!(missed(day, night_ns, 3001), 2);
        assert_eq!(missed((1500, 1500), night_ns, 9000), 0, "there was none before");
    }
}
