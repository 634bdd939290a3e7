//! Events of the block layer become the requests that reach its driver.

use std::collections::HashMap;

use halfwink_inputs::Account;

use super::{Issues, MOST_PS, MOST_REQUESTS};

/// Longest trace: 30 days.
const LONGEST_NS: u64 = 30 * 86_400 * 1_000_000_000;
const SECTOR: u64 = 512;
/// assumption: least mean time between I/Os of a device over a whole trace (the fastest ones of
/// 2025 have some 10 million a second). Where it is less, times have another unit than was said.
const LEAST_GAP_NS: u64 = 10;
/// I/Os of a burst, which say nothing of a rate.
const BURST: u64 = 16;
/// assumption: queues have to hold what comes in the busiest of times so long.
const PEAK_PS: u64 = 100_000_000_000;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it comes, from the trace's begin on.
    pub at_ps: u64,
    /// Of it.
    pub bytes: u32,
}

/// What happened to an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It was asked for (Q).
    Queue,
    /// It became the end of another one (M), or the begin (F).
    BackMerge,
    FrontMerge,
    /// A scheduler has it, before the driver (I).
    Insert,
    /// The driver has it (D).
    Issue,
    /// It is done (C).
    Complete,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at_ns: u64,
    pub(super) cpu: u32,
    pub(super) device: u32,
    pub(super) what: What,
    pub(super) sector: u64,
    pub(super) bytes: u32,
    pub(super) writes: bool,
    pub(super) discards: bool,
}

/// A block trace, of one device.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Requests of each CPU that has any.
    pub cpus: Vec<Vec<Request>>,
    /// From the first to the last, and the mean time of one more.
    pub span_ps: u64,
    /// Share that reads.
    pub reads: f64,
    /// From the driver to the end, the middle one; none if that was not traced.
    pub latency_us: Option<f64>,
    /// Account of what is played and what is left out.
    pub account: Account,
}

/// A request while it is collected.
#[derive(Clone, Copy)]
struct Asked {
    at_ns: u64,
    cpu: u32,
    bytes: u64,
    writes: bool,
    merged: bool,
}

#[derive(Default)]
struct Collected {
    asked: Vec<Asked>,
    /// Where nothing was traced but what a scheduler or the driver has.
    inserted: Vec<Asked>,
    issued: Vec<Asked>,
    begins: HashMap<u64, usize>,
    ends: HashMap<u64, usize>,
    with_driver: HashMap<u64, u64>,
    latencies: Vec<u64>,
    /// Flushes and commands without blocks: asked for, and issued.
    empty: [u64; 2],
    discards: [u64; 2],
}

impl Collected {
    fn event(&mut self, event: &Event) {
        let (begin, bytes) = (event.sector, u64::from(event.bytes));
        let end = begin.saturating_add(bytes / SECTOR);
        match event.what {
            // First: a completed I/O can be merged with no more, whatever it was.
            What::Complete => {
                if let Some(at) = self.with_driver.remove(&begin) {
                    self.latencies.push(event.at_ns.saturating_sub(at));
                }
                self.begins.remove(&begin);
                self.ends.remove(&end);
            }
            What::Queue if event.discards => self.discards[0] += 1,
            What::Issue if event.discards => self.discards[1] += 1,
            What::Queue if bytes == 0 => self.empty[0] += 1,
            What::Issue if bytes == 0 => self.empty[1] += 1,
            _ if event.discards || bytes == 0 => {}
            What::Insert => self.inserted.push(asked(event)),
            What::Queue => {
                self.begins.insert(begin, self.asked.len());
                self.ends.insert(end, self.asked.len());
                self.asked.push(asked(event));
            }
            What::BackMerge => self.merge(begin, self.ends.get(&begin).copied(), end, bytes),
            What::FrontMerge => self.merge(begin, self.begins.get(&end).copied(), end, bytes),
            What::Issue => {
                self.with_driver.insert(begin, event.at_ns);
                self.issued.push(asked(event));
            }
        }
    }

    /// Number of requests, of whichever kind was traced: a trace of issues alone has nothing that
    /// was asked for.
    fn requests(&self) -> usize {
        self.asked.len().max(self.issued.len()).max(self.inserted.len())
    }

    /// What begins here is a part of another one from now on.
    fn merge(&mut self, begin: u64, other: Option<usize>, end: u64, bytes: u64) {
        let (Some(own), Some(other)) = (self.begins.get(&begin).copied(), other) else { return };
        // Its own other end, or a second event of the same merge: bytes would count twice.
        if own == other || self.asked[own].merged {
            return;
        }
        self.asked[own].merged = true;
        self.asked[other].bytes += bytes;
        // Both ends of the whole lead to it, so that a third I/O finds it from either side.
        self.begins.insert(begin, other);
        self.ends.insert(end, other);
    }
}

fn asked(event: &Event) -> Asked {
    let Event { at_ns, cpu, bytes, writes, .. } = *event;
    Asked { at_ns, cpu, bytes: u64::from(bytes), writes, merged: false }
}

impl Trace {
    /// Of all events, in any order.
    pub(super) fn of(mut events: Vec<Event>, format: &str) -> Result<Trace, String> {
        events.sort_by_key(|event| event.at_ns);
        let mut devices: HashMap<u32, Collected> = HashMap::new();
        for event in &events {
            devices.entry(event.device).or_default().event(event);
        }
        let mut devices: Vec<_> = devices.into_iter().collect();
        // The busiest; of equals the lowest number.
        devices.sort_by_key(|(number, it)| (std::cmp::Reverse(it.requests()), *number));
        let others: usize = devices.iter().skip(1).map(|(_, it)| it.requests()).sum();
        let Some((_, found)) = devices.into_iter().next() else {
            return Err("found no events, expected requests of a block device".to_owned());
        };
        let mut trace = found.finish(format)?;
        trace.account.leave_out("requests of other devices", "", others as u64);
        Ok(trace)
    }

    /// Requests in all.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.cpus.iter().map(Vec::len).sum()
    }

    /// Requests a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.requests() as f64 / (self.span_ps as f64 * 1e-12)
    }

    /// Requests a second in the busiest tenth of a second.
    #[must_use]
    pub fn peak_iops(&self) -> f64 {
        let all = self.merged();
        if self.span_ps <= PEAK_PS {
            return self.iops();
        }
        let (mut first, mut most) = (0, 0);
        for (last, request) in all.iter().enumerate() {
            while request.0.at_ps - all[first].0.at_ps >= PEAK_PS {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most as f64 / (PEAK_PS as f64 * 1e-12)
    }

    /// Bytes of a request, in the mean.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let all: u64 = self.cpus.iter().flatten().map(|it| u64::from(it.bytes)).sum();
        all as f64 / self.requests() as f64
    }

    /// All in order, each with its CPU.
    fn merged(&self) -> Vec<(Request, usize)> {
        let with = |(cpu, requests): (usize, &Vec<Request>)| {
            requests.iter().map(|&it| (it, cpu)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.cpus.iter().enumerate().flat_map(with).collect();
        all.sort_by_key(|(request, cpu)| (request.at_ps, *cpu));
        all
    }

    pub(super) fn issues(&self, cpus: u16, part: f64) -> Vec<Issues> {
        let all = self.merged();
        let late = all.len().saturating_sub(MOST_REQUESTS);
        let first = (part.clamp(0.0, 1.0) * late as f64) as usize;
        let from_ps = if late == 0 { 0 } else { all[first].0.at_ps };
        let window = all[first..].iter().take(MOST_REQUESTS);
        let window: Vec<_> =
            window.take_while(|(request, _)| request.at_ps - from_ps <= MOST_PS).collect();
        let is_whole = window.len() == all.len();
        let last_ps = window.last().map_or(0, |(request, _)| request.at_ps - from_ps);
        // One more gap behind the last request, or a lap would begin at the time at which the one
        // before ended.
        let gap_ps = match all.get(first + 1) {
            // A pause behind the only request is longer than what is played at once: without it
            // the request would come again at once.
            Some((next, _)) if window.len() == 1 => next.at_ps - from_ps,
            _ => last_ps / (window.len() as u64).max(1),
        };
        let span_ps = if is_whole { self.span_ps } else { last_ps + gap_ps }.max(1);
        let count = usize::from(cpus).min(self.cpus.len()).max(1);
        let mut of_cpu = vec![Vec::new(); count];
        for (request, cpu) in window {
            let at_ps = request.at_ps - from_ps;
            // A trace of more CPUs than the machine has: several of its CPUs share one, in order of
            // time.
            of_cpu[cpu % count].push(Request { at_ps, bytes: request.bytes });
        }
        of_cpu.retain(|requests| !requests.is_empty());
        of_cpu.into_iter().map(|requests| Issues::Open { requests, span_ps }).collect()
    }
}

impl Collected {
    fn finish(self, format: &str) -> Result<Trace, String> {
        let was_asked = !self.asked.is_empty();
        // Requests that were issued have been through the scheduler already; they are played only
        // where nothing else was traced, or where some came to the driver past the scheduler.
        let asked = if was_asked {
            self.asked
        } else if self.inserted.len() >= self.issued.len() {
            self.inserted
        } else {
            self.issued
        };
        let kept: Vec<_> = asked.into_iter().filter(|it| !it.merged).collect();
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
            return Err("found no requests with bytes (events Q or D)".to_owned());
        };
        let (begin, length) = (first.at_ns, last.at_ns - first.at_ns);
        if length == 0 {
            return Err("expected requests at two different times".to_owned());
        }
        if length > LONGEST_NS {
            return Err(format!("{length} ns from first to last, expected at most 30 days"));
        }
        if kept.len() as u64 > BURST.max(length / LEAST_GAP_NS) {
            return Err(format!(
                "found {} requests in {length} ns, expected at most one each {LEAST_GAP_NS} ns; \
                 are the times in another unit?",
                kept.len()
            ));
        }
        let mut numbers: Vec<u32> = kept.iter().map(|it| it.cpu).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut cpus = vec![Vec::new(); numbers.len()];
        for it in &kept {
            let place = numbers.binary_search(&it.cpu).unwrap_or(0);
            let bytes = it.bytes.min(u64::from(u32::MAX)) as u32;
            cpus[place].push(Request { at_ps: 1000 * (it.at_ns - begin), bytes });
        }
        let mut account = Account::of(format);
        account.play("requests", kept.len() as u64);
        account.leave_out("flushes without bytes", "", self.empty[usize::from(!was_asked)]);
        account.leave_out("discards", "", self.discards[usize::from(!was_asked)]);
        let (count, mut latencies) = (kept.len() as u64, self.latencies);
        latencies.sort_unstable();
        Ok(Trace {
            cpus,
            span_ps: (1000 * length).saturating_add(1000 * length / (count - 1).max(1)),
            reads: kept.iter().filter(|it| !it.writes).count() as f64 / count as f64,
            // The median: a mean would be that of the few that waited for something else.
            latency_us: latencies.get(latencies.len() / 2).map(|&ns| ns as f64 * 1e-3),
            account,
        })
    }
}
