//! Who loads a list of lines: cores that issue prefetches, what each may have outstanding, the way
//! to memory, and the memory itself. How long that takes is not assumed: it comes of these.
//!
//! ```text
//!  list ─▶ core: words, prefetches ─▶ line fills ─▶ path ─▶ controller (halfwink-dram)
//!             ▲                          │                      │
//!             └──────── free again ◀─────┴── port, one line in ─┘
//!                                            so many ns
//! ```

use std::collections::BinaryHeap;

use halfwink_dram::{Counts, Heard, Memory, Payer};
use halfwink_units::Time;

use crate::spec::Spec;

/// Consecutive lines: what a word of a list stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Number of the first line.
    pub first: u64,
    /// Number of lines.
    pub lines: u64,
}

/// A list, and how it is worked off.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Words of the list, in order.
    pub words: &'a [Word],
    /// Bytes of a word in memory; 0 if there is no list to read.
    pub word_bytes: u64,
    /// Cores that load, each a part of the words; 0 for an engine that needs no core.
    pub cores: u32,
    /// Whether the loop is unrolled.
    pub unrolled: bool,
}

/// Result of loading a list.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Arrival time of each line that was missing, in order.
    pub arrived: Vec<(Time, u64)>,
    /// Lines that were there before.
    pub hits: u64,
    /// Time at which all lines are present.
    pub end: Time,
    /// Busy time of all cores together.
    pub core_time: Time,
    /// Part of that time spent waiting.
    pub waited: Time,
    /// Counters of the memory.
    pub counts: Counts,
}

impl Loaded {
    /// Shifts all times by `by`.
    #[must_use]
    pub fn later(mut self, by: Time) -> Loaded {
        self.arrived.iter_mut().for_each(|(at, _)| *at += by);
        self.end += by;
        self
    }

    /// Divides all times by `times`.
    #[must_use]
    pub fn faster(mut self, times: f64) -> Loaded {
        let scale = |at: Time| Time::from_ns(at.as_ns() / times);
        self.arrived.iter_mut().for_each(|(at, _)| *at = scale(*at));
        (self.end, self.core_time) = (scale(self.end), scale(self.core_time));
        self
    }

    /// Discards all that arrives after this time.
    pub fn cut(&mut self, at: Time) {
        self.arrived.retain(|(arrived, _)| *arrived <= at);
        self.end = self.end.min(at);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Line(u64),
    /// A line of the list itself.
    List(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    No,
    /// Waits for a free line fill.
    Fill,
    /// Waits for a line of the list.
    List(u64),
}

struct Worker {
    words: std::ops::Range<usize>,
    /// Lines of the present word that are done.
    within: u64,
    /// Whether its word was taken from the list.
    taken: bool,
    next: Time,
    outstanding: u32,
    wait: Wait,
    waited_since: Time,
    waited: Time,
    began: Time,
    finished: Option<Time>,
    /// Lines of the list that were asked for, and those that are there.
    asked: u64,
    there: Vec<u64>,
}

struct Done(Vec<(Time, u64)>);

impl Heard for Done {
    fn accepted(&mut self, _: u64, _: Time, _: Time, _: Time) {}

    fn done(&mut self, id: u64, at: Time) {
        self.0.push((at, id));
    }
}

/// Plays a loader out, from time zero, when the first core is told.
pub struct Loading<'a> {
    spec: &'a Spec,
    plan: Plan<'a>,
    memory: Memory,
    workers: Vec<Worker>,
    pending: Vec<(usize, What)>,
    /// Earliest first: arrivals at the cores.
    arrivals: BinaryHeap<std::cmp::Reverse<(Time, u64)>>,
    known: Time,
    port_free: Time,
    found: Loaded,
}

/// Line number of the list in memory: beyond all that is loaded.
const LIST: u64 = 1 << 40;

fn cycles(spec: &Spec, cycles: f64) -> Time {
    Time::from_ns(cycles / spec.core.ghz)
}

impl<'a> Loading<'a> {
    /// Creates the state of a load before its first request.
    ///
    /// # Panics
    /// If the description was not checked.
    #[must_use]
    pub fn new(spec: &'a Spec, plan: Plan<'a>) -> Loading<'a> {
        let memory = Memory::new(&spec.dram().expect("a checked description")).expect("likewise");
        let cores = plan.cores.clamp(1, spec.core.cores) as usize;
        let us = |us: f64| Time::from_ns(1e3 * us);
        let part = |n: usize| n * plan.words.len() / cores;
        let workers = (0..cores)
            .map(|n| {
                let words = part(n)..part(n + 1);
                // The first core tells the others, one after the other, before it begins.
                let told = us(spec.loader.further_core_us) * (n as u64);
                let last = us(spec.loader.further_core_us) * (cores as u64 - 1);
                let began = told;
                let start = if plan.cores == 0 { Time::ZERO } else { us(spec.loader.start_us) };
                let next = if n == 0 { last } else { told } + start;
                Worker {
                    asked: words.start as u64 * plan.word_bytes / 64,
                    words,
                    within: 0,
                    taken: false,
                    next,
                    outstanding: 0,
                    wait: Wait::No,
                    waited_since: Time::ZERO,
                    waited: Time::ZERO,
                    began,
                    finished: None,
                    there: Vec::new(),
                }
            })
            .collect();
        Loading {
            spec,
            plan,
            memory,
            workers,
            pending: Vec::new(),
            arrivals: BinaryHeap::new(),
            known: Time::ZERO,
            port_free: Time::ZERO,
            found: Loaded::default(),
        }
    }

    fn half_path(&self) -> Time {
        Time::from_ns(0.5 * self.spec.memory.path_ns)
    }

    /// Plays it to its end; `cached` says which lines are there before.
    #[must_use]
    pub fn run(mut self, cached: impl Fn(u64) -> bool) -> Loaded {
        loop {
            let first = self.first();
            let next = first.map_or(Time::NEVER, |n| self.workers[n].next);
            let arrival = self.arrivals.peek().map_or(Time::NEVER, |a| a.0 .0);
            // What memory has not decided arrives after this.
            let certain = self.known.saturating_add(self.half_path());
            if arrival <= next.min(certain) {
                self.arrive();
            } else if next <= certain {
                // There is one, since its time is no `NEVER`.
                self.step(first.unwrap_or(0), &cached);
            } else if next == Time::NEVER && self.outstanding() == 0 {
                return self.end();
            } else {
                // No answer comes back to memory as a request within a way there and back.
                let step = self.half_path() * 2;
                let until = next.saturating_sub(self.half_path()).min(self.known + step);
                // At least one nanosecond on, so that the loop always advances.
                self.known = until.max(self.known + Time::ns(1));
                self.listen();
            }
        }
    }

    fn outstanding(&self) -> u32 {
        self.workers.iter().map(|w| w.outstanding).sum()
    }

    /// The worker that does something first.
    fn first(&self) -> Option<usize> {
        let able = |w: &Worker| w.wait == Wait::No && w.finished.is_none();
        let able = (0..self.workers.len()).filter(|&n| able(&self.workers[n]));
        able.min_by_key(|&n| self.workers[n].next)
    }

    fn listen(&mut self) {
        let mut done = Done(Vec::new());
        self.memory.run(self.known, &mut done);
        // The port passes lines in the order of their data, with ties by the order of asking.
        done.0.sort_unstable();
        let (half, port) = (self.half_path(), Time::from_ns(self.spec.memory.port_ns));
        for (at, id) in done.0 {
            let at = (at + half).max(self.port_free);
            self.port_free = at + port;
            self.arrivals.push(std::cmp::Reverse((at, id)));
        }
    }

    fn arrive(&mut self) {
        let Some(std::cmp::Reverse((at, id))) = self.arrivals.pop() else { return };
        let (n, what) = self.pending[id as usize];
        let worker = &mut self.workers[n];
        debug_assert!(worker.outstanding > 0, "a line arrived that was not asked for");
        worker.outstanding -= 1;
        match what {
            What::Line(line) => self.found.arrived.push((at, line)),
            What::List(line) => worker.there.push(line),
        }
        let goes_on = match worker.wait {
            Wait::No => false,
            Wait::Fill => true,
            Wait::List(line) => what == What::List(line),
        };
        if goes_on {
            worker.wait = Wait::No;
            let now = at.max(worker.next);
            worker.waited += now.saturating_sub(worker.waited_since);
            worker.next = now;
        }
        self.found.end = self.found.end.max(at);
    }

    fn ask(&mut self, n: usize, what: What) {
        let line = match what {
            What::Line(line) => line,
            What::List(line) => LIST + line,
        };
        let id = self.pending.len() as u64;
        self.pending.push((n, what));
        let worker = &mut self.workers[n];
        worker.outstanding += 1;
        self.memory.push(
            worker.next + Time::from_ns(0.5 * self.spec.memory.path_ns),
            id,
            line,
            false,
            Payer::Kernel,
        );
    }

    fn wait(&mut self, n: usize, wait: Wait) {
        let worker = &mut self.workers[n];
        worker.wait = wait;
        worker.waited_since = worker.next;
    }

    /// One thing that a worker does: takes a word, or fetches a line.
    fn step(&mut self, n: usize, cached: &impl Fn(u64) -> bool) {
        let fills = self.spec.core.line_fills;
        let worker = &self.workers[n];
        let Some(&word) =
            self.plan.words.get(worker.words.start).filter(|_| !worker.words.is_empty())
        else {
            let worker = &mut self.workers[n];
            worker.finished = Some(worker.next);
            return;
        };
        if !worker.taken {
            return self.take(n);
        }
        if worker.outstanding >= fills {
            return self.wait(n, Wait::Fill);
        }
        let line = word.first + worker.within;
        let loader = &self.spec.loader;
        let per_line = if self.plan.unrolled { loader.unrolled_cycles } else { loader.loop_cycles };
        let mut spent = cycles(self.spec, per_line);
        if cached(line) {
            self.found.hits += 1;
            // Prefetches that hit overlap like those that miss, by the number of line fills.
            spent += Time::from_ns(self.spec.llc.hit_ns / f64::from(fills));
        } else {
            self.ask(n, What::Line(line));
        }
        let ends_run = worker_ends(word, self.workers[n].within);
        let worker = &mut self.workers[n];
        worker.within += 1;
        worker.next += spent;
        if ends_run {
            if word.lines > 1 || self.plan.unrolled {
                worker.next += cycles(self.spec, loader.jump_cycles);
            }
            worker.words.start += 1;
            worker.within = 0;
            worker.taken = false;
        }
    }

    /// Takes the next word of the list, whose line must be there.
    fn take(&mut self, n: usize) {
        let bytes = self.plan.word_bytes;
        let worker = &self.workers[n];
        if bytes > 0 {
            let line = worker.words.start as u64 * bytes / 64;
            let last = (worker.words.end as u64 - 1) * bytes / 64;
            let ahead = (line + self.spec.loader.list_ahead).min(last);
            while self.workers[n].asked <= ahead {
                // The list has line fills of its own: else it would wait behind what it lists.
                let asked = self.workers[n].asked;
                self.ask(n, What::List(asked));
                self.workers[n].asked += 1;
            }
            let worker = &mut self.workers[n];
            if !worker.there.contains(&line) {
                return self.wait(n, Wait::List(line));
            }
            // Lines of the list are read once and in order: those behind are not looked at again.
            worker.there.retain(|&old| old >= line);
        }
        let worker = &mut self.workers[n];
        worker.taken = true;
        worker.next += cycles(self.spec, self.spec.loader.word_cycles);
    }

    fn end(mut self) -> Loaded {
        for worker in &self.workers {
            let finished = worker.finished.unwrap_or(worker.next);
            self.found.end = self.found.end.max(finished);
            self.found.core_time += finished.saturating_sub(worker.began);
            self.found.waited += worker.waited;
        }
        self.memory.finish(self.found.end);
        self.found.counts = self.memory.counts();
        self.found.arrived.sort_unstable();
        self.found
    }
}

fn worker_ends(word: Word, within: u64) -> bool {
    within + 1 >= word.lines
}
