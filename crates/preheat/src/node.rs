//! A machine under requests: its cache, what they use, and how long they take.
//!
//! A request takes a fixed part (client, network), and a part of the server's: instructions, and
//! what misses expose of the memory's latency (Gottschlag 2016, Tables 6.1 and 6.2 give both). The
//! lines are played one after the other, evenly over the server's part, so that what is on its way
//! already when it is wanted exposes less.

use std::collections::HashMap;

use halfwink_engine::{stream, Stream};
use halfwink_policy::preheat::LineSet;
use halfwink_units::Time;
use rand::RngExt;
use rand_distr::{Distribution, Exp1, StandardNormal};

use crate::cache::{Access, Cache};
use crate::loader::{Loaded, Loading, Plan, Word};
use crate::spec::{ListOrder, Prefetcher, Service, Spec};
use crate::working_set::{Touch, WorkingSets, PAGE_LINES};

/// Structures that are flushed before a request (Gottschlag 2016, Fig 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flush {
    /// Flushes the last-level cache.
    pub llc: bool,
    /// Flushes the first-level instruction caches.
    pub l1i: bool,
    /// Flushes the first-level data caches.
    pub l1d: bool,
    /// Flushes the address translations.
    pub tlb: bool,
    /// Flushes the branch prediction.
    pub branch: bool,
}

impl Flush {
    /// Flushes no structure.
    pub const NONE: Flush = Flush { llc: false, l1i: false, l1d: false, tlb: false, branch: false };
    /// All cache levels (Sec 2.1.2).
    pub const CACHES: Flush = Flush { llc: true, l1i: true, l1d: true, ..Flush::NONE };
    /// Flushes all structures.
    pub const ALL: Flush = Flush { tlb: true, branch: true, ..Flush::CACHES };
}

/// Result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Time in its server.
    pub server: Time,
    /// The whole response time as its client sees it.
    pub response: Time,
    /// Lines that it used.
    pub touched: u64,
    /// Lines that the last-level cache had filled meanwhile, as its counter counts.
    pub refills: u64,
    /// Lines that it used and that were not there.
    pub missed: u64,
    /// Dirty lines that left.
    pub written_back: u64,
    /// Time of exposed misses.
    pub exposed: Time,
    /// Mean cycles per instruction.
    pub cpi: f64,
}

/// Receives the misses of requests.
pub trait Misses {
    /// A line was not there when it was used at `now` after the request began; lines to fetch.
    fn missed(&mut self, now: Time, line: u64, fetch: &mut Vec<u64>);
}

impl Misses for () {
    fn missed(&mut self, _: Time, _: u64, _: &mut Vec<u64>) {}
}

/// A machine with its caches and its services' working sets.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// Description of the node.
    pub spec: &'a Spec,
    /// Last-level cache of the node.
    pub cache: Cache,
    /// Working sets of the requests.
    pub sets: WorkingSets,
    /// The hardware's prefetcher works.
    pub prefetches: bool,
    services: Vec<&'a Service>,
    noise: Stream,
    touches: Vec<Touch>,
    /// Latency of a line from memory.
    latency: Time,
    commands: Option<halfwink_dram::CommandEnergy>,
    /// Lines that are on their way, and when they are there.
    coming: HashMap<u64, Time>,
}

impl<'a> Node<'a> {
    /// A machine that has done nothing yet.
    #[must_use]
    pub fn new(spec: &'a Spec, seed: u64) -> Node<'a> {
        let cache = Cache::new(spec.sets(), spec.llc.ways, spec.llc.replacement, seed);
        Node {
            cache,
            sets: WorkingSets::new(spec, seed),
            prefetches: true,
            services: spec.services.values().collect(),
            noise: stream(seed, "noise"),
            touches: Vec::new(),
            latency: idle_latency(spec),
            commands: spec.dram().ok().and_then(|dram| dram.device.command_energy()),
            coming: HashMap::new(),
            spec,
        }
    }

    /// Returns the time from a miss to its line on an idle memory.
    #[must_use]
    pub fn latency(&self) -> Time {
        self.latency
    }

    /// Empties what is named; how many lines were written back.
    pub fn flush(&mut self, what: Flush) -> u64 {
        if !what.llc {
            return 0;
        }
        self.coming.clear();
        self.cache.flush()
    }

    /// The kernel module is entered (the prototype): that uses lines.
    pub fn enter(&mut self, service: usize) {
        self.use_path(service, self.spec.estimate.path_lines);
    }

    /// An announcement comes in: its way through network card and kernel uses lines.
    pub fn announce(&mut self, service: usize) {
        self.use_path(service, self.spec.network.path_lines);
    }

    fn use_path(&mut self, service: usize, lines: u64) {
        for line in self.sets.path(service, lines) {
            self.cache.access(line, false);
        }
    }

    /// Lines of the cache, and those that the reading itself brings there first.
    pub fn dump(&mut self) -> LineSet {
        for line in self.buffer().iter() {
            self.cache.access(line, true);
        }
        self.cache.dump()
    }

    /// Returns the lines that dumps are written to: always the same memory, before the kernel's.
    #[must_use]
    pub fn buffer(&self) -> LineSet {
        (0..self.spec.estimate.buffer_lines).map(|n| 128 * PAGE_LINES + n).collect()
    }

    /// Brings a list of lines into the order in which it is loaded, as words.
    #[must_use]
    pub fn words(
        &self,
        set: &LineSet,
        order: ListOrder,
        run_lengths: bool,
        first_use: &[u64],
    ) -> Vec<Word> {
        let mut lines = set.as_slice().to_vec();
        match order {
            ListOrder::Address => {}
            ListOrder::Set => self.cache.sort_by_set(&mut lines),
            ListOrder::Random => {
                let mut random = stream(1, "order");
                for n in (1..lines.len()).rev() {
                    lines.swap(n, random.random_range(0..=n));
                }
            }
            ListOrder::FirstUse => {
                let place: HashMap<u64, usize> = first_use.iter().copied().zip(0..).collect();
                lines.sort_by_key(|line| place.get(line).copied().unwrap_or(usize::MAX));
            }
        }
        if !run_lengths {
            return lines.iter().map(|&first| Word { first, lines: 1 }).collect();
        }
        let mut words: Vec<Word> = Vec::new();
        for line in lines {
            match words.last_mut() {
                Some(last) if last.first + last.lines == line && last.lines < 64 => last.lines += 1,
                _ => words.push(Word { first: line, lines: 1 }),
            }
        }
        words
    }

    /// Returns what loading a list would take with the description's loader on `cores` cores.
    #[must_use]
    pub fn plan(&self, words: &[Word], cores: u32, begin: Time) -> Loaded {
        let loader = &self.spec.loader;
        let plan = Plan { words, word_bytes: 4, cores, unrolled: loader.unrolled };
        Loading::new(self.spec, plan).run(|line| self.cache.holds(line)).later(begin)
    }

    /// Loads a list; the cache has it then.
    pub fn load(&mut self, words: &[Word], cores: u32, begin: Time) -> Loaded {
        let loaded = self.plan(words, cores, begin);
        self.take(&loaded, Time::NEVER);
        loaded
    }

    /// Energy of a line that memory reads or writes, in picojoules, with the row that it opens.
    #[must_use]
    pub fn line_energy(&self, write: bool) -> f64 {
        let own = self.spec.power.line_pj;
        let of = |e: halfwink_dram::CommandEnergy| {
            e.activate_pj + if write { e.write_pj } else { e.read_pj }
        };
        own + self.commands.map_or(0.0, of)
    }

    /// The cache has what was loaded by `until`.
    pub fn take(&mut self, loaded: &Loaded, until: Time) -> u64 {
        let mut written_back = 0;
        for &(_, line) in loaded.arrived.iter().take_while(|(at, _)| *at <= until) {
            written_back += u64::from(self.fill(line));
        }
        written_back
    }

    /// The rest comes while the next request runs, which begins at `begin`.
    pub fn expect(&mut self, loaded: &Loaded, begin: Time) {
        let late = loaded.arrived.iter().filter(|(at, _)| *at > begin);
        self.coming.extend(late.map(|&(at, line)| (line, at - begin)));
    }

    /// Brings a line in; whether a dirty one had to leave.
    pub fn fill(&mut self, line: u64) -> bool {
        matches!(self.cache.access(line, false), Access::Miss(Some((_, true))))
    }

    /// Returns the lines that the next request of a service uses, in order.
    pub fn next_request(&mut self, service: usize) -> Vec<Touch> {
        let mut touches = std::mem::take(&mut self.touches);
        self.sets.request(service, &mut touches);
        touches
    }

    /// Plays the next request of a service.
    pub fn serve(&mut self, service: usize, flushed: Flush) -> Served {
        let touches = self.next_request(service);
        let served = self.play(service, &touches, flushed, &mut ());
        self.touches = touches;
        served
    }

    /// Plays a request that uses these lines.
    pub fn play(
        &mut self,
        service: usize,
        touches: &[Touch],
        flushed: Flush,
        misses: &mut impl Misses,
    ) -> Served {
        let (spec, of) = (self.spec, self.services[service]);
        let instructions_us =
            1e-3 * of.instructions * 1e3 * of.cpi * spec.core.cpi_factor / spec.core.ghz;
        let small_us = small_penalties(spec, flushed);
        let base_us = instructions_us + small_us;
        // Spread evenly: working sets say which lines a request uses, not when.
        let step = Time::from_ns(1e3 * base_us / touches.len().max(1) as f64);
        let exposed_ns = of.exposed_ns * spec.core.exposed_factor;
        let mut served = Served { touched: touches.len() as u64, ..Served::default() };
        let (mut now, mut before, mut fetch) = (Time::ZERO, u64::MAX, Vec::new());
        for touch in touches {
            now += step;
            let wait = self.touch(touch, now, exposed_ns, &mut served);
            if wait > Time::ZERO {
                misses.missed(now, touch.line, &mut fetch);
            }
            now += wait;
            let follows = touch.line == before.wrapping_add(1);
            before = touch.line;
            let next = match spec.llc.prefetcher {
                Prefetcher::Off => false,
                Prefetcher::Stream => follows,
                Prefetcher::NextLine => true,
            };
            if next && self.prefetches {
                fetch.push(touch.line + 1);
            }
            for line in fetch.drain(..) {
                self.prefetch(line, now, &mut served);
            }
        }
        self.coming.clear();
        // The day's factor scales what instructions take, not the memory's part, which was played.
        let factor = self.factor();
        served.server = Time::from_ns(1e3 * base_us * factor) + served.exposed;
        served.response = served.server + Time::from_ns(1e3 * of.fixed_us * factor);
        let cycles = served.server.as_ns() / factor.max(1e-9) * spec.core.ghz;
        // Of what the instructions took on an average day: outliers are other programs'.
        let cycles = cycles + served.exposed.as_ns() * spec.core.ghz * (1.0 - 1.0 / factor);
        served.cpi = cycles / (1e3 * of.instructions);
        served
    }

    /// Uses a line; how long that stalls.
    fn touch(&mut self, touch: &Touch, now: Time, exposed_ns: f64, served: &mut Served) -> Time {
        let access = self.cache.access(touch.line, touch.write);
        // Who loads is overtaken: a line that is not there yet comes as any miss, or sooner.
        let comes = |there: Time| there.saturating_sub(now).min(self.latency);
        let remaining = match access {
            Access::Miss(left) => {
                served.refills += 1;
                served.written_back += u64::from(left.is_some_and(|(_, dirty)| dirty));
                self.coming.remove(&touch.line).map_or(self.latency, comes)
            }
            Access::Hit if self.coming.is_empty() => return Time::ZERO,
            Access::Hit => match self.coming.remove(&touch.line) {
                Some(there) => comes(there),
                None => return Time::ZERO,
            },
        };
        if remaining == Time::ZERO {
            return Time::ZERO;
        }
        served.missed += 1;
        // Only a part of the latency is exposed to an out-of-order core; of a line that is on its
        // way the same part of what remains.
        let share = remaining.as_ns() / self.latency.as_ns();
        let wait = Time::from_ns(exposed_ns * share);
        served.exposed += wait;
        wait
    }

    fn prefetch(&mut self, line: u64, now: Time, served: &mut Served) {
        if self.cache.holds(line) {
            return;
        }
        served.refills += 1;
        served.written_back += u64::from(self.fill(line));
        // In the cache at once and usable after the latency: a second use in between waits only
        // for the rest.
        self.coming.insert(line, now + self.latency);
    }

    /// Draws the factor of a request's time over the mean.
    fn factor(&mut self) -> f64 {
        let spread = &self.spec.spread;
        let normal: f64 = StandardNormal.sample(&mut self.noise);
        let sigma = spread.sigma;
        // Log-normal with mean 1: half the variance is subtracted for that.
        let body = (sigma * normal - 0.5 * sigma * sigma).exp();
        let is_outlier = self.noise.random::<f64>() < spread.outliers;
        let excess: f64 = Exp1.sample(&mut self.noise);
        let outlier = spread.outlier_excess + spread.outlier_mean * excess;
        let mean = 1.0 + spread.outliers * (spread.outlier_excess + spread.outlier_mean);
        let factor = if is_outlier { body + outlier } else { body };
        // Divided by its mean, so that the spread does not shift the mean that the description
        // gives.
        factor / mean
    }
}

/// Returns the extra time of the next request after flushes of small structures, in microseconds.
fn small_penalties(spec: &Spec, flushed: Flush) -> f64 {
    let core = &spec.core;
    let parts = [
        (flushed.l1i, core.l1i_us),
        (flushed.l1d, core.l1d_us),
        (flushed.tlb, core.tlb_us),
        (flushed.branch, core.branch_us),
    ];
    parts.iter().filter(|(is, _)| *is).map(|(_, us)| us).sum()
}

/// Returns the latency of a line for a core with no other request.
fn idle_latency(spec: &Spec) -> Time {
    // At the beginning: later it may wait for a refresh.
    let mut spec = spec.clone();
    spec.loader.start_us = 0.0;
    let words = [Word { first: 1 << 20, lines: 1 }];
    let plan = Plan { words: &words, word_bytes: 0, cores: 1, unrolled: true };
    let loaded = Loading::new(&spec, plan).run(|_| false);
    let begun = Time::from_ns(spec.loader.word_cycles / spec.core.ghz);
    loaded.arrived.first().map_or(Time::ZERO, |(at, _)| at.saturating_sub(begun))
}
