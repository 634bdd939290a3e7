//! A run listens to the outside whatever it plays: also where no core ever needs the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use halfwink_chip::{run, ChipError, CodeCache, Machine, Options, RunResult, Task};
use halfwink_engine::{Input, RunControl};
use halfwink_policy::gating::AlwaysOn;
use halfwink_policy::offload::{Fixed, OffloadPolicy};
use halfwink_trace::{
    Address, Item, Kernel, LoadKind, Program, Source, Synthetic, SyntheticSource, TraceError,
};
use halfwink_units::Time;

/// Additions that stay in the first-level caches.
fn additions(instructions: u64) -> SyntheticSource {
    let (kernel, footprint) = (Kernel::Alu, 4 << 10);
    Synthetic { kernel, footprint, instructions, seed: 1, duty: None }.source()
}

/// Enough that a run which does not listen ends all the same, seconds later, with success.
const SECONDS: u64 = 60_000_000;
/// The same, a minute later.
const A_MINUTE: u64 = 3_000_000_000;

fn play(
    kind: &str,
    sources: Vec<Box<dyn Source>>,
    offload: bool,
    control: &RunControl,
) -> Result<RunResult, ChipError> {
    let path = format!("{}/../../machines/{kind}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let machine = Machine::parse(&Input::new(path, text)).unwrap();
    let task = |source| Task {
        source,
        warm: Arc::default(),
        load: LoadKind::Closed,
        limit: u64::MAX,
        start: Time::ZERO,
        shared: None,
        thread: None,
    };
    let never = |_| -> OffloadPolicy { Box::new(Fixed::never()) };
    let options =
        Options { offload: offload.then_some(&never), ..Options::new(&|_| Box::new(AlwaysOn)) };
    let tasks = sources.into_iter().map(task).collect();
    run(&machine, tasks, &options, &mut CodeCache::new(), control)
}

/// Asks its own run to stop at an item, and counts how much is played after that.
struct StopsAt {
    source: SyntheticSource,
    control: Arc<RunControl>,
    left: u64,
    after: Arc<AtomicU64>,
}

impl Source for StopsAt {
    fn program(&self) -> &Arc<Program> {
        self.source.program()
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.control.stop();
            self.after.fetch_add(1, Ordering::Relaxed);
        }
        self.source.next_item()
    }

    fn addresses(&self) -> &[Address] {
        self.source.addresses()
    }
}

#[test]
fn little_is_played_after_the_order_to_stop() {
    for kind in ["ev6", "in-order"] {
        for (offload, cores) in [(false, 1), (false, 4), (true, 1)] {
            let control = Arc::new(RunControl::new());
            let after = Arc::default();
            let mut sources: Vec<Box<dyn Source>> = vec![Box::new(StopsAt {
                source: additions(SECONDS),
                control: Arc::clone(&control),
                left: 10_000,
                after: Arc::clone(&after),
            })];
            sources.extend((1..cores).map(|_| Box::new(additions(SECONDS)) as Box<dyn Source>));
            let result = play(kind, sources, offload, &control);
            assert!(matches!(result, Err(ChipError::Interrupted(_))), "{kind}: it ran to its end");
            // An iteration takes a cycle or more, and cores look up after 20 us at most.
            let after = after.load(Ordering::Relaxed);
            assert!((1..100_000).contains(&after), "{kind} {offload} {cores}: {after}");
        }
    }
}

#[test]
fn another_thread_sees_progress_and_stops_the_run() {
    for offload in [false, true] {
        let control = RunControl::new();
        let result = std::thread::scope(|scope| {
            let sources: Vec<Box<dyn Source>> = vec![Box::new(additions(A_MINUTE))];
            let run = scope.spawn(|| play("ev6", sources, offload, &control));
            while control.done() == 0 && !run.is_finished() {
                std::thread::yield_now();
            }
            control.stop();
            run.join().unwrap()
        });
        assert!(matches!(result, Err(ChipError::Interrupted(_))), "it ran to its end");
    }
}
