//! Finds how many ways the kernel should have, by trying (Nellans 2014, Sec 5.4.4).
//!
//! ```text
//!  LRU ─▶ FIRST: k0-2 ... k0+2 ─▶ RUN ─▶ NEIGHBOURS: k-1, k+1 ─┐
//!  5 M     5 M each       │        ▲ 25 M, then               │
//!  cycles                 ▼        │ doubled while k stays    │
//!                  none better:    │ best                     │
//!                  LRU for ever    └──────────────────────────┘
//! ```

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Pending, Route, Rule, Sample, Segregation, Span, Split};
use crate::{Policy, Snapshot};

/// Constants of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorParameters {
    /// Which fills are the kernel's.
    pub route: Route,
    /// Cycles for each split that is tried: 5 million.
    pub sample_cycles: u64,
    /// Cycles of the first run with the best one: 25 million.
    pub run_cycles: u64,
    /// Cycles of the longest run. assumption: 256 times the first; the text names no limit.
    pub run_most_cycles: u64,
    /// Distance of the first splits from the first guess: 2.
    pub reach: u8,
}

impl AllocatorParameters {
    /// Returns the published parameters.
    #[must_use]
    pub fn published() -> AllocatorParameters {
        AllocatorParameters {
            route: Route::Both,
            sample_cycles: 5_000_000,
            run_cycles: 25_000_000,
            run_most_cycles: 256 * 25_000_000,
            reach: 2,
        }
    }

    /// Divides all epochs by `by`, for short traces.
    #[must_use]
    pub fn shortened(mut self, by: u64) -> AllocatorParameters {
        for epoch in [&mut self.sample_cycles, &mut self.run_cycles, &mut self.run_most_cycles] {
            *epoch = (*epoch / by.max(1)).max(1);
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// One LRU stack, to compare with.
    Lru,
    /// Tries this split, and those up to `last`.
    First {
        tried: u8,
        last: u8,
    },
    /// Keeps to the best.
    Run,
    /// Tries the split with a way less, then the one with a way more.
    Below,
    Above,
    /// No split was better than none.
    GivenUp,
}

/// The controller that finds the split.
#[derive(Clone, Debug)]
pub struct Allocator {
    parameters: AllocatorParameters,
    ways: u8,
    phase: Phase,
    /// The split that is kept to.
    kernel_ways: u8,
    /// Misses for 1000 instructions, in millionths, of one LRU stack.
    lru_ppm: u64,
    /// Likewise in the last run.
    run_ppm: u64,
    /// Best of this round: its misses and its split.
    best: Option<(u64, u8)>,
    run: u64,
    pending: Pending,
}

impl Allocator {
    /// A controller that has not begun.
    #[must_use]
    pub fn new(parameters: AllocatorParameters) -> Allocator {
        Allocator {
            parameters,
            ways: 0,
            phase: Phase::GivenUp,
            kernel_ways: 0,
            lru_ppm: 0,
            run_ppm: 0,
            best: None,
            run: parameters.run_cycles,
            pending: Pending::default(),
        }
    }

    /// The next phase, with its rule, to last so many cycles.
    fn begin(&mut self, phase: Phase, kernel_ways: Option<u8>, cycles: u64) {
        self.phase = phase;
        let rule = kernel_ways.map_or(Rule::LRU, |k| Rule::ways(self.parameters.route, k));
        self.pending = Pending { rule: Some(rule), after: Some(Span::Cycles(cycles)) };
    }

    fn run(&mut self) {
        // Neighbours compete with the run before them alone: misses of earlier rounds are of
        // earlier phases of the program.
        self.best = None;
        self.begin(Phase::Run, Some(self.kernel_ways), self.run);
    }

    fn on_sample(&mut self, sample: &Sample) {
        // Without instructions there is nothing to compare: the same again.
        let Some(ppm) = sample.misses_per_thousand_ppm() else {
            let cycles = if self.phase == Phase::Run { self.run } else { self.sample() };
            self.pending.after = Some(Span::Cycles(cycles));
            return;
        };
        match self.phase {
            Phase::GivenUp => {}
            Phase::Lru => {
                self.lru_ppm = ppm;
                let (first, last) = self.around(sample);
                self.begin(Phase::First { tried: first, last }, Some(first), self.sample());
            }
            Phase::First { tried, last } => {
                self.note(ppm, tried);
                if tried < last {
                    let next = tried + 1;
                    self.begin(Phase::First { tried: next, last }, Some(next), self.sample());
                } else {
                    self.end_first();
                }
            }
            Phase::Run => {
                self.run_ppm = ppm;
                // Each side keeps a way: fills of a side without one would have no place.
                if self.kernel_ways > 1 {
                    self.begin(Phase::Below, Some(self.kernel_ways - 1), self.sample());
                } else {
                    self.above();
                }
            }
            Phase::Below => {
                self.note(ppm, self.kernel_ways - 1);
                self.above();
            }
            Phase::Above => {
                self.note(ppm, self.kernel_ways + 1);
                self.end_round();
            }
        }
    }

    fn sample(&self) -> u64 {
        self.parameters.sample_cycles
    }

    /// The splits to try first: around the kernel's share of the instructions.
    fn around(&self, sample: &Sample) -> (u8, u8) {
        let most = self.ways - 1;
        let total = u128::from(sample.total_instructions());
        let kernel = u128::from(sample.instructions[1]) * u128::from(self.ways);
        // Rounded to the nearest (assumption).
        let guess = ((2 * kernel + total) / (2 * total)) as u8;
        let guess = guess.clamp(1, most);
        let reach = self.parameters.reach;
        (guess.saturating_sub(reach).max(1), (guess + reach).min(most))
    }

    /// Records the best split. Among equals it keeps the one tried first (assumption).
    fn note(&mut self, ppm: u64, kernel_ways: u8) {
        if self.best.is_none_or(|(best, _)| ppm < best) {
            self.best = Some((ppm, kernel_ways));
        }
    }

    fn end_first(&mut self) {
        match self.best {
            Some((ppm, kernel_ways)) if ppm < self.lru_ppm => {
                self.kernel_ways = kernel_ways;
                self.run = self.parameters.run_cycles;
                self.run();
            }
            _ => {
                self.phase = Phase::GivenUp;
                self.pending = Pending { rule: Some(Rule::LRU), after: None };
            }
        }
    }

    fn above(&mut self) {
        if self.kernel_ways + 1 < self.ways {
            self.begin(Phase::Above, Some(self.kernel_ways + 1), self.sample());
        } else {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        match self.best {
            Some((ppm, kernel_ways)) if ppm < self.run_ppm => {
                self.kernel_ways = kernel_ways;
                self.run = self.parameters.run_cycles;
            }
            _ => self.run = (2 * self.run).min(self.parameters.run_most_cycles),
        }
        self.run();
    }
}

impl Policy for Allocator {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match event {
            // Of a single way there is nothing to split.
            Event::Begin { ways: 0 | 1 } => {}
            Event::Begin { ways } => {
                self.ways = *ways;
                self.begin(Phase::Lru, None, self.sample());
            }
            Event::Sample(sample) => self.on_sample(sample),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.poll()
    }

    fn snapshot(&self) -> Snapshot {
        let phase = match self.phase {
            Phase::Lru => 0,
            Phase::First { .. } => 1,
            Phase::Run => 2,
            Phase::Below | Phase::Above => 3,
            Phase::GivenUp => 4,
        };
        vec![
            ("phase", phase),
            ("kernel_ways", i64::from(self.kernel_ways)),
            ("run_cycles", self.run as i64),
        ]
    }
}

impl Segregation for Allocator {}

impl Split {
    /// Ways that the kernel has to itself, if the split is by ways.
    #[must_use]
    pub fn kernel_ways(self) -> Option<u8> {
        match self {
            Split::Ways(kernel) => Some(kernel),
            Split::None | Split::Banks => None,
        }
    }
}
