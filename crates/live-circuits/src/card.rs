//! A host without a shaper of ours: what its device sends goes on the wire at once, and what comes
//! goes to the device. When a frame leaves the device is then the kernel's affair, by `taprio`.
//!
//! It hears sync frames, so that a gate list can be made of the days that they tell ([`week`]). It
//! cannot see what waits in the kernel, and answers that something does for all.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use halfwink_engine::Histogram;
use halfwink_policy::circuits::sync::{self, Kind, Listener, Sync};
use halfwink_policy::circuits::NOBODY;
use halfwink_units::Time;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::config::HostConfig;
use crate::load::{Level, Load};
use crate::port::{host_mac, host_of, switch_mac, Port, AT_ONCE, LONGEST};
use crate::report::{take_refused, HostReport, Quantiles};
use crate::{time, HOST_PRIORITY};

/// Slots that are remembered: a week of [`sync::MOST_HOSTS`].
const REMEMBERED: usize = 2 * sync::MOST_HOSTS as usize;
/// Longest between two looks.
const LOOK_NS: u64 = 100_000_000;

/// A day of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// Number of its slot, modulo 2^32.
    pub slot: u32,
    /// Host that may be sent to.
    pub peer: u16,
    /// Begin, in nanoseconds of [`time::now_ns`].
    pub begins_ns: u64,
    /// End, in nanoseconds of [`time::now_ns`].
    pub ends_ns: u64,
}

/// A gate list: when its first interval begins, and of each the host whose gate is open (none:
/// all are closed) and its length in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    /// Begin of the first interval, in nanoseconds of [`time::now_ns`].
    pub base_ns: u64,
    /// Open host, or none, and length of each interval.
    pub intervals: Vec<(Option<u16>, u64)>,
}

/// The gate list of the latest days, in the order in which they were told, one for each slot of a
/// week: a gate closes `margin_ns` before its day ends.
///
/// `None` if these are not the days of so many slots, one after the other.
#[must_use]
pub fn week(days: &[Day], slots: usize, margin_ns: u64) -> Option<Gates> {
    // One more than a week, for the last closed interval ends where the next day begins.
    let latest = &days[days.len().checked_sub(slots + 1)?..];
    let follow = latest.windows(2).all(|two| two[1].slot == two[0].slot.wrapping_add(1));
    if slots == 0 || !follow {
        return None;
    }
    let mut intervals = Vec::with_capacity(2 * slots);
    for two in latest.windows(2) {
        let (day, next) = (two[0], two[1]);
        let open = (day.ends_ns - day.begins_ns).checked_sub(margin_ns).filter(|&ns| ns > 0)?;
        let peer = (day.peer != NOBODY).then_some(day.peer);
        intervals.push((peer, open));
        intervals.push((None, next.begins_ns.checked_sub(day.begins_ns + open)?));
    }
    Some(Gates { base_ns: latest[0].begins_ns, intervals })
}

/// A host's card at work. Dropping it ends it.
pub struct Card {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    load: Option<Load>,
    level: Arc<Level>,
}

#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    ending: AtomicBool,
}

#[derive(Default)]
struct Counts {
    report: HostReport,
    begun_ns: u64,
    cpu_ns: (u64, u64),
    sync: Histogram,
    begin: Histogram,
    /// Days in the order in which they were told, since numbers of slots begin again at 2^32 and
    /// with a new switch.
    days: VecDeque<Day>,
}

impl Card {
    /// Opens the device, with a queue for each host, and the wire, and starts.
    ///
    /// # Errors
    /// Something is missing or may not be used; the line says what.
    pub fn start(config: &HostConfig) -> Result<Card, String> {
        let mut worker = Worker::open(config)?;
        let level = worker.level.clone();
        let shared = Arc::new(Shared::default());
        shared.counts().begun_ns = time::now_ns();
        shared.counts().report.host = config.host;
        let (seen, realtime) = (shared.clone(), config.realtime);
        let run = move || {
            let is_realtime = time::be_punctual(if realtime { HOST_PRIORITY } else { 0 });
            seen.counts().report.is_realtime = is_realtime;
            worker.run(&seen)
        };
        let thread = std::thread::Builder::new().name("card".to_owned()).spawn(run);
        let thread = Some(thread.map_err(|e| format!("thread of the card: {e}"))?);
        Ok(Card { shared, thread, load: None, level })
    }

    /// Begins the load, if the host is to have one. Before the kernel has gates nothing would hold
    /// it back.
    ///
    /// # Errors
    /// If there is no such address here, or no thread.
    pub fn begin_load(&mut self, config: &HostConfig) -> Result<(), String> {
        self.load = config.load(&self.level)?;
        Ok(())
    }

    /// Returns the counters, and sets them to zero if requested.
    #[must_use]
    pub fn report(&self, from_zero: bool) -> HostReport {
        let mut counts = self.shared.counts();
        let now_ns = time::now_ns();
        let report = HostReport {
            duration_s: (now_ns - counts.begun_ns) as f64 * 1e-9,
            cpu_s: (counts.cpu_ns.1 - counts.cpu_ns.0) as f64 * 1e-9,
            sync: Quantiles::of(&counts.sync),
            begin: Quantiles::of(&counts.begin),
            load: self.load.as_ref().map(|load| load.report(from_zero)),
            ..counts.report.clone()
        };
        if from_zero {
            let HostReport { host, is_realtime, .. } = report;
            let fresh = HostReport { host, is_realtime, ..HostReport::default() };
            let cpu_ns = (counts.cpu_ns.1, counts.cpu_ns.1);
            // Gates are made of these: they are no counts, and stay.
            let days = std::mem::take(&mut counts.days);
            *counts = Counts { report: fresh, begun_ns: now_ns, cpu_ns, days, ..Counts::default() };
        }
        report
    }

    /// The days that were told lately, the latest last.
    #[must_use]
    pub fn days(&self) -> Vec<Day> {
        self.shared.counts().days.iter().copied().collect()
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
        self.load = None;
        self.shared.ending.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended = thread.join().map_err(|_| "the card's thread has died".to_owned())?;
        ended.map_err(|e| format!("card: {e}"))
    }
}

impl Drop for Card {
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

struct Worker {
    host: u16,
    hosts: u16,
    queues: Vec<SyncDevice>,
    uplink: Port,
    listener: Listener,
    level: Arc<Level>,
    epoch: u64,
    sequence: u64,
    owes_reply: bool,
    /// The slot whose first frame was seen.
    begun: Option<u32>,
    batch: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    room: Vec<u8>,
}

impl Worker {
    fn open(config: &HostConfig) -> Result<Worker, String> {
        let name = &config.device;
        let open = || -> io::Result<Vec<SyncDevice>> {
            let first = DeviceBuilder::new().name(name).layer(Layer::L2).multi_queue(true);
            let mut queues = vec![first.build_sync()?];
            for _ in 1..config.hosts {
                queues.push(queues[0].try_clone()?);
            }
            queues.iter().try_for_each(|queue| queue.set_nonblocking(true))?;
            Ok(queues)
        };
        Ok(Worker {
            host: config.host,
            hosts: config.hosts,
            queues: open().map_err(|e| format!("device {name}: {e}"))?,
            uplink: Port::open(&config.interface)?,
            listener: Listener::host(config.host, switch_mac(config.host)),
            level: Level::new(config.hosts),
            epoch: time::now_ns(),
            sequence: 0,
            owes_reply: false,
            begun: None,
            batch: Vec::with_capacity(AT_ONCE),
            spare: Vec::new(),
            // A frame that does not fit is cut off, and still shows that it is too long.
            room: vec![0; LONGEST + 2],
        })
    }

    fn run(&mut self, shared: &Shared) -> io::Result<()> {
        let mut descriptors: Vec<RawFd> = vec![self.uplink.descriptor()];
        descriptors.extend(self.queues.iter().map(AsRawFd::as_raw_fd));
        while !shared.ending.load(Ordering::Relaxed) {
            let mut counts = shared.counts();
            let mut moved = self.send(&mut counts)?;
            moved += self.receive(&mut counts)?;
            self.answer()?;
            // A report must not wait until the next frame comes.
            drop(counts);
            if moved == 0 {
                time::wait(&descriptors, time::now_ns() + LOOK_NS);
            }
        }
        Ok(())
    }

    /// Sends the frames that the kernel's gates have released; returns their number.
    fn send(&mut self, counts: &mut Counts) -> io::Result<usize> {
        for queue in &self.queues {
            while self.batch.len() < AT_ONCE {
                let len = match queue.recv(&mut self.room) {
                    Ok(len) => len,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => break,
                    Err(e) => return Err(e),
                };
                counts.report.taken += 1;
                self.level.is_open.store(true, Ordering::Relaxed);
                let to = self.room.get(..6).and_then(host_of).filter(|&to| to < self.hosts);
                let Some(to) = to.filter(|&to| len <= LONGEST && to != self.host) else {
                    counts.report.for_nobody += 1;
                    continue;
                };
                let mut kept = self.spare.pop().unwrap_or_default();
                kept.clear();
                kept.extend_from_slice(&self.room[..len]);
                self.batch.push(kept);
                self.level.left[usize::from(to)].fetch_add(1, Ordering::Relaxed);
            }
        }
        let sent = self.batch.len();
        if sent > 0 {
            self.note_begin(counts);
            self.uplink.send(&self.batch);
            counts.report.sent += sent as u64;
            counts.report.sent_bytes += self.batch.iter().map(|f| f.len() as u64).sum::<u64>();
            self.spare.append(&mut self.batch);
        }
        Ok(sent)
    }

    /// Notes when the first frame of a day went.
    fn note_begin(&mut self, counts: &mut Counts) {
        let now = time::now_ns();
        let today = counts.days.iter().rev().find(|day| day.begins_ns <= now);
        let Some(day) = today.filter(|day| now < day.ends_ns).copied() else { return };
        if self.begun.replace(day.slot) != Some(day.slot) {
            counts.report.days += 1;
            counts.begin.record(Time::ns(now - day.begins_ns));
        }
    }

    /// Takes what came over the wire; how many frames.
    fn receive(&mut self, counts: &mut Counts) -> io::Result<usize> {
        let Worker { uplink, listener, queues, .. } = self;
        let mut syncs = Vec::new();
        let came = uplink.receive(AT_ONCE)?;
        let total = came.len();
        for frame in came {
            if frame.bytes.get(12..14) == Some(&sync::ETHERTYPE.to_be_bytes()[..]) {
                syncs.extend(listener.hear(frame.bytes).ok().map(|(sync, _)| sync));
                continue;
            }
            counts.report.received += 1;
            counts.report.received_bytes += frame.bytes.len() as u64;
            counts.report.untaken += u64::from(queues[0].send(frame.bytes).is_err());
        }
        take_refused(&mut counts.report.refused, &mut listener.refused);
        counts.report.lost.take(&mut uplink.lost);
        for sync in syncs {
            self.heed(&sync, counts);
        }
        Ok(total)
    }

    fn heed(&mut self, sync: &Sync, counts: &mut Counts) {
        counts.report.syncs += 1;
        counts.cpu_ns.1 = time::thread_cpu_ns();
        if sync.ask {
            self.owes_reply = true;
            self.uplink.count_overflows();
        }
        let Sync { kind, slot, peer, begins_ns, ends_ns, .. } = *sync;
        if kind == Kind::Day {
            counts.sync.record(Time::ns(time::now_ns().saturating_sub(begins_ns)));
        }
        // A night tells the day that follows it; that day's own frame only says that it has begun.
        if kind == Kind::Night {
            if counts.days.len() == REMEMBERED {
                counts.days.pop_front();
            }
            counts.days.push_back(Day { slot, peer, begins_ns, ends_ns });
        }
    }

    fn answer(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.owes_reply) {
            return Ok(());
        }
        self.sequence += 1;
        let reply = Sync {
            kind: Kind::Reply,
            ask: false,
            host: self.host,
            peer: NOBODY,
            slot: 0,
            epoch: self.epoch,
            sequence: self.sequence,
            begins_ns: 0,
            ends_ns: 0,
        };
        let mut frame = [0; sync::BYTES + 8 * sync::MOST_HOSTS as usize];
        let macs = (switch_mac(self.host), host_mac(self.host));
        // One frame for each host: what waits in the kernel is not seen here.
        let demand: Vec<u64> =
            (0..self.hosts).map(|to| if to == self.host { 0 } else { LONGEST as u64 }).collect();
        let len = sync::encode(&reply, macs, &demand, &mut frame).map_err(io::Error::other)?;
        self.uplink.send(&[&frame[..len]]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of 135 us, days of 123.5 us, of host 0 among three.
    fn days(slots: &[u32]) -> Vec<Day> {
        let day = |slot: &u32| {
            // Slots are counted modulo 2^32, time goes on.
            let begins_ns = 1_000_000 + 135_000 * u64::from(slot.wrapping_sub(slots[0]));
            let peer = 1 + (*slot % 2) as u16;
            Day { slot: *slot, peer, begins_ns, ends_ns: begins_ns + 123_500 }
        };
        slots.iter().map(day).collect()
    }

    #[test]
    fn a_week_of_days_becomes_gates_that_close_a_margin_early() {
        let gates = week(&days(&[4, 5, 6, 7]), 2, 23_500).unwrap();
        let expected = [(Some(2), 100_000), (None, 35_000), (Some(1), 100_000), (None, 35_000)];
        assert_eq!(gates, Gates { base_ns: 1_135_000, intervals: expected.to_vec() });
    }

    #[test]
    fn week_across_the_end_of_slot_numbers_has_its_gates() {
        let gates = week(&days(&[u32::MAX - 1, u32::MAX, 0, 1]), 3, 23_500).unwrap();
        let open: Vec<Option<u16>> = gates.intervals.iter().step_by(2).map(|i| i.0).collect();
        assert_eq!(open, [Some(1), Some(2), Some(1)]);
    }

    #[test]
    fn a_week_with_a_hole_or_without_room_has_no_gates() {
        assert_eq!(week(&days(&[4, 6, 7]), 2, 0), None, "a slot was missed");
        assert_eq!(week(&days(&[4, 5]), 2, 0), None, "when the second ends is not known yet");
        assert_eq!(week(&days(&[4, 5, 6]), 2, 123_500), None, "a gate is never open");
        assert_eq!(week(&days(&[4, 5, 6]), 0, 0), None);
    }
}
