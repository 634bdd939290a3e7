//! How fast event queues are, in the hold model: the earliest event is taken and one is added that
//! comes later (D. W. Jones, "An empirical comparison of priority-queue and event-set
//! implementations", CACM 29, 1986).
//!
//! Prints one line of JSON for each number of pending events: million events a second of the
//! engine's queue and of a binary heap of the standard library with the same order, measured in
//! turns in this run. `make bench` shows them.

#![allow(clippy::print_stdout, missing_docs)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

use halfwink_engine::{stream, Class, EventQueue};
use halfwink_units::Time;
use rand::{Rng, RngExt};

/// What an event carries: as much as those of the worlds.
type Event = [u64; 4];

/// A millisecond's work or less, many times: some of them are not disturbed by other work.
const HOLDS: usize = 20_000;
const TURNS: usize = 200;

trait Queue: Default {
    fn push(&mut self, at: Time, class: Class, event: Event);
    fn pop(&mut self) -> Option<(Time, Event)>;
}

impl Queue for EventQueue<Event> {
    fn push(&mut self, at: Time, class: Class, event: Event) {
        EventQueue::push(self, at, class, event);
    }

    fn pop(&mut self) -> Option<(Time, Event)> {
        EventQueue::pop(self)
    }
}

/// The same order with the means of the standard library.
#[derive(Default)]
struct Standard {
    heap: BinaryHeap<Reverse<(Time, Class, u64, Event)>>,
    sequence: u64,
}

impl Queue for Standard {
    fn push(&mut self, at: Time, class: Class, event: Event) {
        self.heap.push(Reverse((at, class, self.sequence, event)));
        self.sequence += 1;
    }

    fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse((at, _, _, event))| (at, event))
    }
}

/// A queue that is held, with its own random numbers.
struct Held<Q> {
    queue: Q,
    random: halfwink_engine::Stream,
    spans: Vec<u64>,
}

impl<Q: Queue> Held<Q> {
    fn new(pending: usize) -> Held<Q> {
        let mut random = stream(1, "spans");
        let span = |u: f64| (-1e6 * (1.0 - u).ln()) as u64;
        // Drawn before, so that drawing is not what is measured.
        let spans: Vec<u64> = (0..4096).map(|_| span(random.random())).collect();
        let mut held = Held { queue: Q::default(), random, spans };
        (0..pending).for_each(|n| held.add(Time::ZERO, [n as u64; 4]));
        held.hold(4 * pending.max(HOLDS));
        held
    }

    fn add(&mut self, now: Time, event: Event) {
        let bits = self.random.next_u64();
        let span = self.spans[bits as usize % self.spans.len()];
        self.queue.push(now + Time(span), Class((bits >> 62) as u8), event);
    }

    /// Seconds that so many take.
    fn hold(&mut self, holds: usize) -> f64 {
        let begun = Instant::now();
        for _ in 0..holds {
            let (now, event) = self.queue.pop().expect("it holds some");
            self.add(now, black_box(event));
        }
        begun.elapsed().as_secs_f64()
    }
}

fn main() {
    for pending in [10, 100, 1_000, 10_000, 100_000] {
        let mut ours = Held::<EventQueue<Event>>::new(pending);
        let mut standard = Held::<Standard>::new(pending);
        // The best of all: other work on the machine only ever slows.
        let mut best = [f64::INFINITY; 2];
        for _ in 0..TURNS {
            best[0] = best[0].min(ours.hold(HOLDS));
            best[1] = best[1].min(standard.hold(HOLDS));
        }
        let [ours, standard] = best.map(|seconds| HOLDS as f64 / seconds / 1e6);
        println!("{{\"pending\": {pending}, \"ours\": {ours:.2}, \"standard\": {standard:.2}}}");
    }
}
