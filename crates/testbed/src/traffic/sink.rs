//! Receives what a generator sent, and says what became of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use halfwink_engine::Histogram;
use halfwink_units::Time;
use serde::Serialize;

use super::capture::Writer;
use super::frame::{read, Seen};
use super::socket::{Frame, Ring};
use super::tracker::{FlowCounts, Order, Tracker};
use super::{clock_ns, monotonic_ns, thread_cpu_s, Error, Summary};
use halfwink_live::sys::CpuSet;

/// Longest time for which the kernel may hold back frames; it takes their times before that.
const BLOCK_TIMEOUT_MS: u32 = 10;
/// Longest wait for frames, so that a wish to stop is heard.
const WAIT_MS: i32 = 50;

/// All that a sink needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interfaces to watch; at least one.
    pub interfaces: Vec<String>,
    /// Tag that marks the generator's frames.
    pub tag: u16,
    /// Ends after so long.
    pub seconds: Option<f64>,
    /// Ends after so many frames of the generator.
    pub count: Option<u64>,
    /// Length of a row of the result.
    pub slot_ns: u64,
    /// Memory of each interface's ring.
    pub ring_mib: usize,
    /// CPU to stay on.
    pub cpu: Option<u32>,
    /// File for the first so many frames that come in: `.pcap`, else pcapng.
    pub capture: Option<(PathBuf, u64)>,
}

/// Counters of a sink.
#[derive(Clone, Debug, Serialize)]
pub struct Received {
    /// Whole frames of the generator, duplicates among them.
    pub frames: u64,
    /// Bytes of these frames, without check sequences.
    pub bytes: u64,
    /// Frames of the generator with a wrong length, UDP checksum or content.
    pub corrupt: u64,
    /// Whole ones but for a wrong IPv4 header checksum.
    pub bad_headers: u64,
    /// Frames of others: ARP, neighbour discovery, replays.
    pub other: u64,
    /// Bytes of these frames.
    pub other_bytes: u64,
    /// Frames that the sink itself had no room for: losses that are not the router's.
    pub sink_drops: u64,
    /// All frames as one sequence. What flows do to each other counts.
    pub order: Order,
    /// Each flow for itself.
    pub flows: FlowCounts,
    /// Time from a frame's due time until the kernel put it into the sink's ring.
    pub latency_us: Summary,
    /// Frames that came before they were due, by clocks that disagree; 0 in their latency.
    pub early: u64,
    /// Fewest and most hops that were left to a frame (64 at the start).
    pub hops_left: Option<[u8; 2]>,
    /// Time from the first of the generator's frames to the last, in seconds.
    pub seconds: f64,
    /// `(frames - 1) / seconds`; null of fewer than two frames.
    pub pps: Option<f64>,
    /// Frames in the capture file.
    pub captured: u64,
    /// First arrival, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: Option<u64>,
    /// Processor time of the receiving thread, in seconds.
    pub cpu_s: f64,
    /// Counters by time of arrival, from the first of the generator's frames.
    pub slots: Vec<Slot>,
}

/// A stretch of time.
#[derive(Clone, Debug, Serialize)]
pub struct Slot {
    /// Start of the slot, in seconds from the first arrival.
    pub at_s: f64,
    /// Whole frames of the generator.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Latency of these frames.
    pub latency_us: Summary,
}

/// Watches until a wish to stop, the time or the count; what is in the rings then still counts.
///
/// # Errors
/// The kernel refuses, or the capture file cannot be written.
pub fn run(options: Options, stop: &AtomicBool, ready: impl FnOnce()) -> Result<Received, Error> {
    if options.interfaces.is_empty() {
        return Err(Error::input("expected one interface or more"));
    }
    if let Some(cpu) = options.cpu {
        CpuSet::one(cpu).pin().map_err(|_| Error::input(format!("CPU {cpu}: not allowed")))?;
    }
    let open = |name: &String| Ring::open(name, options.ring_mib, BLOCK_TIMEOUT_MS);
    let mut rings: Vec<Ring> = options.interfaces.iter().map(open).collect::<Result<_, _>>()?;
    let capture = options.capture.as_ref();
    let capture = capture.map(|(path, most)| Writer::create(path, *most)).transpose()?;
    let mut books = Books::new(options.tag, options.slot_ns, capture);
    let cpu_before = thread_cpu_s();
    let end_ns = options.seconds.map_or(u64::MAX, |s| monotonic_ns() + (s * 1e9) as u64);
    let count = options.count.unwrap_or(u64::MAX);
    ready();
    let mut sink_drops = 0;
    loop {
        let ends =
            stop.load(Ordering::Relaxed) || monotonic_ns() >= end_ns || books.frames >= count;
        // After the end, blocks that are half full come within their timeout.
        Ring::wait(&rings, if ends { 3 * BLOCK_TIMEOUT_MS as i32 } else { WAIT_MS });
        let found = drain(&mut rings, &mut books);
        sink_drops += rings.iter().map(Ring::drops).sum::<u64>();
        if let Some(error) = books.failed.take() {
            return Err(error);
        }
        // What keeps coming after the end would keep this from ending.
        if ends && (!found || monotonic_ns() > end_ns.saturating_add(1_000_000_000)) {
            break;
        }
        if ends && end_ns == u64::MAX {
            return finish_soon(rings, books, sink_drops, cpu_before);
        }
    }
    books.result(sink_drops, thread_cpu_s() - cpu_before)
}

/// After a wish to stop: takes what is there, for a second at most.
fn finish_soon(
    mut rings: Vec<Ring>,
    mut books: Books,
    mut sink_drops: u64,
    cpu_before: f64,
) -> Result<Received, Error> {
    let end_ns = monotonic_ns() + 1_000_000_000;
    while monotonic_ns() < end_ns {
        Ring::wait(&rings, 3 * BLOCK_TIMEOUT_MS as i32);
        let found = drain(&mut rings, &mut books);
        sink_drops += rings.iter().map(Ring::drops).sum::<u64>();
        if !found {
            break;
        }
    }
    books.result(sink_drops, thread_cpu_s() - cpu_before)
}

/// Takes all blocks that are ready; whether there were any.
fn drain(rings: &mut [Ring], books: &mut Books) -> bool {
    let mut found = false;
    // The kernel stamps frames by the clock of the day, which may be moved: compared each time.
    let offset_ns = realtime_ahead_ns();
    for ring in rings {
        // No more blocks than the ring has, so that the others get their turn.
        for _ in 0..64 {
            if !ring.visit_block(|frame| books.add(&frame, offset_ns)) {
                break;
            }
            found = true;
        }
    }
    found
}

/// Returns the lead of `CLOCK_REALTIME` over `CLOCK_MONOTONIC`.
fn realtime_ahead_ns() -> u64 {
    let read = |_| {
        let before = monotonic_ns();
        let real = clock_ns(libc::CLOCK_REALTIME);
        let after = monotonic_ns();
        (after - before, real.saturating_sub(before + (after - before) / 2))
    };
    // The shorter it took to read both, the better they belong together.
    (0..3).map(read).min().map_or(0, |(_, ahead)| ahead)
}

/// Counters of the present run.
struct Books {
    tag: u16,
    slot_ns: u64,
    tracker: Tracker,
    latency: Histogram,
    slot_latency: Histogram,
    slots: Vec<Slot>,
    slot_bytes: u64,
    frames: u64,
    bytes: u64,
    corrupt: u64,
    bad_headers: u64,
    other: u64,
    other_bytes: u64,
    early: u64,
    hops: Option<[u8; 2]>,
    first_ns: Option<u64>,
    last_ns: u64,
    capture: Option<Writer>,
    failed: Option<Error>,
}

impl Books {
    fn new(tag: u16, slot_ns: u64, capture: Option<Writer>) -> Books {
        Books {
            tag,
            slot_ns: slot_ns.max(1_000_000),
            tracker: Tracker::default(),
            latency: Histogram::default(),
            slot_latency: Histogram::default(),
            slots: Vec::new(),
            slot_bytes: 0,
            frames: 0,
            bytes: 0,
            corrupt: 0,
            bad_headers: 0,
            other: 0,
            other_bytes: 0,
            early: 0,
            hops: None,
            first_ns: None,
            last_ns: 0,
            capture,
            failed: None,
        }
    }

    fn add(&mut self, frame: &Frame<'_>, offset_ns: u64) {
        if let Some(capture) = &mut self.capture {
            if let Err(error) = capture.add(frame.at_realtime_ns, frame.bytes, frame.wire_bytes) {
                self.failed = Some(error);
                self.capture = None;
            }
        }
        let now = frame.at_realtime_ns.saturating_sub(offset_ns);
        match read(frame.bytes, self.tag) {
            Seen::Ours { stamp, hops, header_is_whole } => {
                self.bad_headers += u64::from(!header_is_whole);
                self.tracker.add(stamp);
                let [least, most] = self.hops.unwrap_or([hops; 2]);
                self.hops = Some([least.min(hops), most.max(hops)]);
                let age = stamp.age_ns(now);
                self.early += u64::from(age < 0);
                self.count(now, Time::ns(age.max(0) as u64), u64::from(frame.wire_bytes));
            }
            Seen::Corrupt => self.corrupt += 1,
            Seen::Other => {
                self.other += 1;
                self.other_bytes += u64::from(frame.wire_bytes);
            }
        }
    }

    fn count(&mut self, now_ns: u64, latency: Time, bytes: u64) {
        let first = *self.first_ns.get_or_insert(now_ns);
        let slot = (now_ns.saturating_sub(first) / self.slot_ns) as usize;
        // Of several interfaces, a frame may be older than the newest slot: it counts there.
        while self.slots.len() < slot {
            self.close_slot();
        }
        self.frames += 1;
        self.bytes += bytes;
        self.slot_bytes += bytes;
        self.last_ns = self.last_ns.max(now_ns);
        self.latency.record(latency);
        self.slot_latency.record(latency);
    }

    fn close_slot(&mut self) {
        let latency_us = Summary::of(&self.slot_latency);
        let at_s = self.slots.len() as f64 * self.slot_ns as f64 / 1e9;
        let bytes = std::mem::take(&mut self.slot_bytes);
        self.slots.push(Slot { at_s, frames: latency_us.count, bytes, latency_us });
        if latency_us.count > 0 {
            self.slot_latency = Histogram::default();
        }
    }

    fn result(mut self, sink_drops: u64, cpu_s: f64) -> Result<Received, Error> {
        if self.first_ns.is_some() {
            self.close_slot();
        }
        let captured = self.capture.map_or(Ok(0), Writer::finish)?;
        let seconds = self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9;
        Ok(Received {
            frames: self.frames,
            bytes: self.bytes,
            corrupt: self.corrupt,
            bad_headers: self.bad_headers,
            other: self.other,
            other_bytes: self.other_bytes,
            sink_drops,
            order: self.tracker.all(None),
            flows: self.tracker.flows(),
            latency_us: Summary::of(&self.latency),
            early: self.early,
            hops_left: self.hops,
            seconds,
            pps: (self.frames > 1 && seconds > 0.0).then(|| (self.frames - 1) as f64 / seconds),
            captured,
            start_ns: self.first_ns,
            cpu_s,
            slots: self.slots,
        })
    }
}
