//! The prototype's harness (Gottschlag 2016, Sec 5.2, 6.1): a client announces each request long
//! ahead; caches are flushed in place of a deep sleep; then nothing, or a load, comes before the
//! request.

use std::collections::BTreeMap;

use halfwink_engine::{stream, Stream};
use halfwink_policy::preheat::LineSet;
use halfwink_units::Time;
use rand::RngExt;

use crate::loader::{Loaded, Loading, Plan, Word};
use crate::node::{Flush, Node, Served};
use crate::spec::{ListOrder, Spec};

/// Preparation of the caches before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Does not flush.
    Warm,
    /// Flushes the caches.
    Cold,
    /// Flushes the caches, then preheats.
    Preheated,
}

impl Mode {
    /// All modes, in order.
    pub const ALL: [Mode; 3] = [Mode::Warm, Mode::Cold, Mode::Preheated];

    /// Returns the name that tables use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Warm => "warm",
            Mode::Cold => "cold",
            Mode::Preheated => "preheated",
        }
    }
}

/// An estimated working set.
#[derive(Clone, Debug, Default)]
pub struct Estimated {
    /// Lines that all dumps have in common.
    pub raw: LineSet,
    /// Less what is cached when a load begins.
    pub set: LineSet,
}

/// A way to load (Gottschlag 2016, Fig 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Order of the list.
    pub order: ListOrder,
    /// Whether lines that are cached anyway were removed.
    pub filtered: bool,
    /// Whether runs of lines are words.
    pub run_lengths: bool,
    /// Number of cores that load.
    pub cores: u32,
    /// Whether the loop is unrolled.
    pub unrolled: bool,
}

impl Way {
    /// Way without any improvement of Fig 6.2.
    pub const PLAIN: Way = Way {
        order: ListOrder::Set,
        filtered: false,
        run_lengths: false,
        cores: 1,
        unrolled: false,
    };
    /// Way with all improvements of Fig 6.2.
    pub const FINAL: Way = Way {
        order: ListOrder::Address,
        filtered: true,
        run_lengths: true,
        cores: 2,
        unrolled: true,
    };
    /// Steps of Fig 6.2 by name, in their order.
    pub const STEPS: [&'static str; 5] = ["sort", "filter", "run-lengths", "cores", "unroll"];

    /// Returns the way with one step taken or undone.
    #[must_use]
    pub fn with(self, step: &str, is_taken: bool) -> Way {
        let from = if is_taken { Way::FINAL } else { Way::PLAIN };
        match step {
            "sort" => Way { order: from.order, ..self },
            "filter" => Way { filtered: from.filtered, ..self },
            "run-lengths" => Way { run_lengths: from.run_lengths, ..self },
            "cores" => Way { cores: from.cores, ..self },
            _ => Way { unrolled: from.unrolled, ..self },
        }
    }
}

/// The prototype with its services.
#[derive(Clone, Debug)]
pub struct Prototype<'a> {
    /// Node of the prototype.
    pub node: Node<'a>,
    spec: &'a Spec,
    choices: Stream,
    /// Loads of sets into empty caches: the same each time.
    loads: BTreeMap<usize, Loaded>,
}

impl<'a> Prototype<'a> {
    /// Creates a freshly started prototype.
    #[must_use]
    pub fn new(spec: &'a Spec, seed: u64) -> Prototype<'a> {
        let (node, choices) = (Node::new(spec, seed), stream(seed, "mix"));
        Prototype { node, spec, choices, loads: BTreeMap::new() }
    }

    /// One dump of what a window with so many requests uses.
    pub fn dump(&mut self, service: usize, requests: u32) -> LineSet {
        self.node.prefetches = false;
        self.node.flush(Flush::CACHES);
        self.node.enter(service);
        for _ in 0..requests {
            self.node.serve(service, Flush::CACHES);
        }
        let dump = self.node.dump();
        self.node.prefetches = true;
        dump
    }

    /// Returns the lines that are cached when a load would begin.
    pub fn dump_before_load(&mut self, service: usize) -> LineSet {
        self.dump(service, 0)
    }

    /// Estimates a service's set from so many dumps (Sec 4.1.1).
    pub fn estimate(&mut self, service: usize, repetitions: u32) -> Estimated {
        let mut raw = self.dump(service, 1);
        for _ in 1..repetitions {
            raw.keep_common(&self.dump(service, 1));
        }
        let set = raw.subtract(&self.dump_before_load(service));
        Estimated { raw, set }
    }

    /// Loads a set into empty caches.
    #[must_use]
    pub fn load(&self, estimated: &Estimated, way: Way) -> Loaded {
        self.load_by_use(estimated, way, &[])
    }

    /// Loads a set, possibly in the order of first use.
    #[must_use]
    pub fn load_by_use(&self, estimated: &Estimated, way: Way, first_use: &[u64]) -> Loaded {
        let set = if way.filtered { &estimated.set } else { &estimated.raw };
        let words = self.node.words(set, way.order, way.run_lengths, first_use);
        let Way { cores, unrolled, .. } = way;
        let plan = Plan { words: &words, word_bytes: 4, cores, unrolled };
        Loading::new(self.spec, plan).run(|_| false)
    }

    /// Returns the way in which the description's loader works.
    #[must_use]
    pub fn way(&self) -> Way {
        let loader = &self.spec.loader;
        Way {
            order: loader.order,
            filtered: true,
            run_lengths: loader.run_lengths,
            cores: loader.cores,
            unrolled: loader.unrolled,
        }
    }

    /// Loads this set before all later requests of the service.
    pub fn prepare(&mut self, service: usize, estimated: &Estimated) {
        let loaded = self.load(estimated, self.way());
        self.loads.insert(service, loaded);
    }

    /// Returns the load that precedes requests of a service.
    #[must_use]
    pub fn prepared(&self, service: usize) -> Option<&Loaded> {
        self.loads.get(&service)
    }

    /// One of several services, by shares.
    pub fn choose(&mut self, services: &[(usize, f64)]) -> usize {
        let total: f64 = services.iter().map(|(_, share)| share).sum();
        let mut at = self.choices.random::<f64>() * total;
        for &(service, share) in services {
            at -= share;
            if at < 0.0 {
                return service;
            }
        }
        services.last().map_or(0, |(service, _)| *service)
    }

    /// A request, prepared for like this, with what was flushed.
    pub fn request(&mut self, service: usize, mode: Mode, flush: Flush) -> Served {
        if mode == Mode::Warm {
            return self.node.serve(service, Flush::NONE);
        }
        self.node.flush(flush);
        if mode == Mode::Preheated {
            self.node.enter(service);
            if let Some(loaded) = self.loads.get(&service) {
                self.node.take(loaded, Time::NEVER);
            }
        }
        self.node.serve(service, flush)
    }

    /// Thousands of instructions of a request.
    #[must_use]
    pub fn instructions(&self, service: usize) -> f64 {
        self.spec.services.values().nth(service).map_or(0.0, |s| s.instructions)
    }

    /// Lines that a dump itself brings, which are no service's.
    #[must_use]
    pub fn buffer(&self) -> LineSet {
        self.node.buffer()
    }

    /// Returns the lines of a request in the order of first use.
    pub fn first_use(&mut self, service: usize) -> Vec<u64> {
        self.node.next_request(service).iter().map(|touch| touch.line).collect()
    }

    /// Bandwidth of so many cores that load long runs, in bytes a second (as `pmbw` does).
    #[must_use]
    pub fn bandwidth(&self, cores: u32) -> f64 {
        let each = 512;
        let run = |n: u64| Word { first: (n / each << 16) + n % each * 64, lines: 64 };
        let words: Vec<Word> = (0..u64::from(cores) * each).map(run).collect();
        let plan = Plan { words: &words, word_bytes: 0, cores, unrolled: true };
        let loaded = Loading::new(self.spec, plan).run(|_| false);
        // What starting takes is no matter of bandwidth.
        let first = loaded.arrived.first().map_or(Time::ZERO, |(at, _)| *at);
        let bytes = 64.0 * loaded.arrived.len() as f64;
        let start = Time::from_ns(1e3 * self.spec.loader.start_us);
        bytes / (loaded.end - first.min(start)).as_s()
    }
}
