//! Sends frames when they are due.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use halfwink_engine::Histogram;
use halfwink_units::Time;
use serde::Serialize;

use super::flows::{Flows, Sizes};
use super::schedule::Schedule;
use super::socket::Sender;
use super::source::Source;
use super::{monotonic_ns, no_timer_slack, sleep_until, thread_cpu_s, Error, Summary};
use halfwink_live::sys::CpuSet;

/// Time from the call until the first frame can be due, for preparations.
const LEAD_NS: u64 = 2_000_000;
/// Longest from one look at the clock to the next while waiting awake: else something came between.
const SPIN_GAP_NS: u64 = 1_000;
/// Longest sleep, so that a wish to stop is heard.
const NAP_NS: u64 = 50_000_000;

/// Interface that sends, and the next hop.
#[derive(Clone, Debug)]
pub struct Port {
    /// Name of the interface.
    pub interface: String,
    /// MAC address of the next hop.
    pub to_mac: [u8; 6],
}

/// Times at which frames are due.
#[derive(Clone, Debug)]
pub enum Pace {
    /// Follows the schedule.
    Schedule(Schedule),
    /// At once, for so many seconds: as fast as can be.
    Flood(f64),
    /// Follows the captured times, accelerated by this factor. For replays only.
    Captured(f64),
}

/// Content of the traffic.
#[derive(Clone, Debug)]
pub enum Load {
    /// Stamped UDP frames of flows, in turn.
    Flows(Flows, Sizes),
    /// Frames of a pcap or pcapng file, so many times over, with MAC addresses of the port.
    Replay(PathBuf, u32),
}

/// All that a generator needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ports; flows are dealt out to them in turn. At least one.
    pub ports: Vec<Port>,
    /// Content of the traffic.
    pub load: Load,
    /// Times at which frames are due.
    pub pace: Pace,
    /// Ends after so many frames.
    pub count: Option<u64>,
    /// Before a frame is due, the generator waits awake for so long, and sleeps before that. The
    /// longer, the more exact: sleeping ends tens of microseconds late.
    pub spin_ns: u64,
    /// Frames that are handed to the kernel at once, if so many are due.
    pub batch: usize,
    /// Round the queueing discipline: all frames go to the transmit queue of the sending CPU.
    /// Without, flows are spread over the queues.
    pub bypass: bool,
    /// Tag that marks the frames.
    pub tag: u16,
    /// Seed of random sizes.
    pub seed: u64,
    /// CPU to stay on.
    pub cpu: Option<u32>,
    /// Length of a row of the result.
    pub slot_ns: u64,
}

/// Counters of a generator.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    /// Frames that the kernel took.
    pub frames: u64,
    /// Bytes of these frames, without check sequences.
    pub bytes: u64,
    /// Time from the start until the last frame was sent or the schedule's end, whichever is later.
    pub seconds: f64,
    /// Rate, `frames / seconds`.
    pub pps: f64,
    /// Frames that the schedule has in all; null if it has no end of its own.
    pub scheduled_frames: Option<u64>,
    /// Times that the kernel had no room and was asked again.
    pub refusals: u64,
    /// Delay of sending. It is part of the frames' latency at the sink.
    pub lateness_us: Summary,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Start, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Processor time of the sending thread, in seconds.
    pub cpu_s: f64,
    /// Part of it that was spent waiting awake: what it would not need without its exactness.
    pub spin_s: f64,
    /// Frames by the time at which they were due.
    pub slots: Vec<SentSlot>,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SentSlot {
    /// Start of the slot, in seconds from the generator's.
    pub at_s: f64,
    /// Frames that were due in it and sent.
    pub frames: u64,
}

/// Sends until the end of the schedule, the count, or a wish to stop.
///
/// # Errors
/// The kernel refuses, or the options cannot be; what was sent before is lost from the result.
pub fn run(options: Options, stop: &AtomicBool) -> Result<Sent, Error> {
    if options.ports.is_empty() || !(1..=1024).contains(&options.batch) {
        return Err(Error::input("expected one interface or more, and a batch of 1 to 1024"));
    }
    if matches!((&options.load, &options.pace), (Load::Flows(..), Pace::Captured(_))) {
        return Err(Error::input("only captured frames can be sent as they were captured"));
    }
    if let Some(cpu) = options.cpu {
        CpuSet::one(cpu).pin().map_err(|_| Error::input(format!("CPU {cpu}: not allowed")))?;
    }
    no_timer_slack();
    let source = Source::open(&options)?;
    let bytes = source.most_bytes();
    let open = |p: &Port| Sender::open(&p.interface, options.batch, bytes, options.bypass);
    let senders = options.ports.iter().map(open).collect::<Result<_, Error>>()?;
    let scheduled = match &options.pace {
        Pace::Schedule(schedule) => Some(schedule.expected_frames() as u64),
        _ => None,
    };
    let work = Work {
        source,
        senders,
        times: Times::new(&options.pace, options.spin_ns, options.slot_ns),
        pace: options.pace,
        count: options.count.unwrap_or(u64::MAX),
        source_ended: false,
        stop,
    };
    work.run(scheduled)
}

/// Counters of the present run.
struct Times {
    start_ns: u64,
    end_ns: u64,
    spin_ns: u64,
    slot_ns: u64,
    slots: Vec<SentSlot>,
    lateness: Histogram,
    frames: u64,
    bytes: u64,
    refusals: u64,
    /// Nanoseconds of waiting awake, and when the last look at the clock was, if it was a wait.
    spun_ns: u64,
    spun_until: Option<u64>,
}

impl Times {
    fn new(pace: &Pace, spin_ns: u64, slot_ns: u64) -> Times {
        let start_ns = monotonic_ns() + LEAD_NS;
        let length = match pace {
            Pace::Schedule(schedule) => schedule.length_ns(),
            Pace::Flood(seconds) => (seconds * 1e9) as u64,
            Pace::Captured(_) => 0,
        };
        Times {
            start_ns,
            end_ns: start_ns + length,
            spin_ns,
            slot_ns: slot_ns.max(1_000_000),
            slots: Vec::new(),
            lateness: Histogram::default(),
            frames: 0,
            bytes: 0,
            refusals: 0,
            spun_ns: 0,
            spun_until: None,
        }
    }

    /// The clock was looked at, and the next frame was due or not.
    #[inline]
    fn looked(&mut self, now_ns: u64, waits: bool) {
        if let Some(before) = self.spun_until {
            let gap = now_ns - before;
            // In a longer gap the kernel did something else, perhaps the router's work.
            if gap < SPIN_GAP_NS {
                self.spun_ns += gap;
            }
        }
        self.spun_until = waits.then_some(now_ns);
    }

    fn count(&mut self, due_ns: u64, now_ns: u64, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
        self.lateness.record(Time::ns(now_ns.saturating_sub(due_ns)));
        // No frame is due before the start.
        let slot = ((due_ns - self.start_ns) / self.slot_ns) as usize;
        while self.slots.len() <= slot {
            let at_s = self.slots.len() as f64 * self.slot_ns as f64 / 1e9;
            self.slots.push(SentSlot { at_s, frames: 0 });
        }
        self.slots[slot].frames += 1;
    }
}

struct Work<'a> {
    source: Source,
    senders: Vec<Sender>,
    pace: Pace,
    times: Times,
    count: u64,
    source_ended: bool,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    /// Returns the due time of the next frame; `None` after the last.
    fn next_due(&mut self) -> Result<Option<u64>, Error> {
        let Some(captured_ns) = self.source.advance()? else {
            self.source_ended = true;
            return Ok(None);
        };
        let start = self.times.start_ns;
        Ok(match &mut self.pace {
            Pace::Schedule(schedule) => schedule.next().map(|offset| start + offset),
            Pace::Captured(faster) => Some(start + (captured_ns as f64 / *faster) as u64),
            // A frame is due when it is asked for, so that a flood is never late.
            Pace::Flood(_) => Some(monotonic_ns().max(start)).filter(|&t| t < self.times.end_ns),
        })
    }

    fn run(mut self, scheduled_frames: Option<u64>) -> Result<Sent, Error> {
        let cpu_before = thread_cpu_s();
        let mut stopped = false;
        let mut due = self.next_due()?;
        while let Some(due_ns) = due {
            if self.times.frames == self.count {
                break;
            }
            stopped = self.stop.load(Ordering::Relaxed);
            if stopped {
                break;
            }
            let now = monotonic_ns();
            let waits = now < due_ns;
            self.times.looked(now, waits);
            if waits {
                self.flush_and_wait(due_ns, now)?;
                continue;
            }
            let (port, bytes) = self.source.put(due_ns, &mut self.senders);
            self.times.count(due_ns, now, bytes);
            if self.senders[port].is_full() {
                self.flush()?;
            }
            due = self.next_due()?;
        }
        self.flush()?;
        // A schedule that ends in silence ends at its end, unless it was cut short.
        let whole = !stopped && !self.source_ended && self.times.frames < self.count;
        while whole && !self.stop.load(Ordering::Relaxed) && monotonic_ns() < self.times.end_ns {
            sleep_until(self.times.end_ns.min(monotonic_ns() + NAP_NS));
        }
        let seconds = (monotonic_ns().saturating_sub(self.times.start_ns) as f64 / 1e9).max(1e-9);
        Ok(Sent {
            frames: self.times.frames,
            bytes: self.times.bytes,
            seconds,
            pps: self.times.frames as f64 / seconds,
            scheduled_frames,
            refusals: self.times.refusals,
            lateness_us: Summary::of(&self.times.lateness),
            stopped,
            start_ns: self.times.start_ns,
            cpu_s: thread_cpu_s() - cpu_before,
            spin_s: self.times.spun_ns as f64 / 1e9,
            slots: self.times.slots,
        })
    }

    /// Hands over what is ready; whether there was anything.
    fn flush(&mut self) -> Result<bool, Error> {
        let any = self.senders.iter().any(|sender| !sender.is_empty());
        for sender in &mut self.senders {
            self.times.refusals += sender.flush(|| self.stop.load(Ordering::Relaxed))?;
        }
        Ok(any)
    }

    /// Waits until a frame is due, or for a nap's length.
    fn flush_and_wait(&mut self, due_ns: u64, now_ns: u64) -> Result<(), Error> {
        // Frames that are due do not wait for the batch to be full.
        if self.flush()? {
            // Sending took a while: that was no waiting.
            self.times.spun_until = None;
            return Ok(());
        }
        let wake_ns = due_ns.saturating_sub(self.times.spin_ns);
        if now_ns < wake_ns {
            self.times.spun_until = None;
            sleep_until(wake_ns.min(now_ns + NAP_NS));
        } else {
            core::hint::spin_loop();
        }
        Ok(())
    }
}
