//! The functional pass over a whole stream, which cuts windows out of it.

use std::sync::Arc;

use halfwink_engine::RunControl;
use halfwink_trace::{Address, Item, Program};

use super::excerpt::{Excerpt, ExcerptSource};
use super::functional::{Functional, FunctionalCounts, WarmState};
use crate::chip::{ChipError, CodeCache};
use crate::machine::Machine;
use crate::task::Task;

/// Begins of windows, in instructions of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Windows at one distance.
    Every {
        /// Begin of the first window.
        first: u64,
        /// Distance from one window to the next.
        period: u64,
    },
    /// At these places, in their order.
    At(Vec<u64>),
}

impl Begins {
    /// Begin of the window of this number, from 0.
    fn of(&self, index: u64) -> Option<u64> {
        match self {
            Begins::Every { first, period } => period.checked_mul(index)?.checked_add(*first),
            Begins::At(all) => all.get(usize::try_from(index).ok()?).copied(),
        }
    }
}

/// Positions and lengths of windows, in instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Begin of each window.
    pub begins: Begins,
    /// Played before what is measured.
    pub warm_up: u64,
    /// Measured length of a window.
    pub unit: u64,
}

impl Cut {
    /// Played behind what is measured, so that a measurement ends as it begins: with a full
    /// pipeline. A core reads no further ahead than its window, of at most 128 micro-operations;
    /// the rest is for the time between two looks at how far it is.
    const TAIL: u64 = 1_000;

    /// Instructions that are held of each window.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.warm_up.saturating_add(self.unit).saturating_add(Cut::TAIL)
    }
}

/// A piece of a stream, and what the caches and the predictor hold before it.
#[derive(Clone, Debug)]
pub struct Window {
    /// Number of the window, from 0.
    pub index: u64,
    /// Number of instructions before it.
    pub begin: u64,
    /// Played before what is measured, and measured.
    pub(super) warm_up: u64,
    pub(super) unit: u64,
    pub(super) state: Arc<WarmState>,
    /// Instructions that it holds, but for the last item's, which is only to be seen.
    pub(super) instructions: u64,
    program: Arc<Program>,
    excerpt: Arc<Excerpt>,
}

impl Window {
    /// Instructions that it holds.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    pub(super) fn source(&self) -> ExcerptSource {
        self.excerpt.source(&self.program)
    }
}

/// The window that is being filled.
struct Open {
    window: Window,
    excerpt: Excerpt,
}

/// Instructions between two looks at whether the outside wants it to end.
const LOOK: u64 = 1 << 20;

/// Plays a task's whole stream through tag-only caches and the predictor of `machine`, and hands
/// over each window once it is complete; one that the stream ends in is handed over as it is.
/// Returns what the pass counted from the first window on.
///
/// # Errors
/// If the stream is damaged, the outside stops it, or `take` fails.
pub fn cut<E: From<ChipError>>(
    machine: &Machine,
    mut task: Task,
    cut: &Cut,
    control: &RunControl,
    mut take: impl FnMut(Window) -> Result<(), E>,
) -> Result<FunctionalCounts, E> {
    let program = Arc::clone(task.source.program());
    let code = CodeCache::new().compile(&program);
    let mut pass = Functional::new(machine, code, &task.warm);
    let (mut done, mut look, mut next) = (0, LOOK, cut.begins.of(0).map(|begin| (0, begin)));
    let mut open: Option<Open> = None;
    let mut before = FunctionalCounts::default();
    loop {
        let item = task.source.next_item().map_err(ChipError::from)?;
        let id = match item {
            Item::Run(id) => id,
            Item::Event(event) => {
                pass.event(event);
                push(&mut open, item, &[]);
                continue;
            }
            Item::End => break,
        };
        pass.resolve(id);
        let addresses = task.source.addresses();
        push(&mut open, item, addresses);
        if open.as_ref().is_some_and(|open| done - open.window.begin >= cut.length()) {
            finish(&mut open, &mut take)?;
        }
        if done >= task.limit {
            break;
        }
        if let Some((index, begin)) = next {
            if done >= begin && open.is_none() && !pass.is_repeat(id) {
                if index == 0 {
                    before = pass.counts();
                }
                let window = begin_window(index, done, cut, &pass, &program);
                open = Some(Open { window, excerpt: Excerpt::default() });
                push(&mut open, item, addresses);
                next = cut.begins.of(index + 1).map(|begin| (index + 1, begin));
            }
        }
        let instructions = pass.run(id, addresses);
        done += instructions;
        if let Some(open) = &mut open {
            open.window.instructions += instructions;
        }
        if done >= look {
            look = done + LOOK;
            control.report(done).map_err(ChipError::from)?;
        }
    }
    finish(&mut open, &mut take)?;
    Ok(since(pass.counts(), before))
}

fn begin_window(
    index: u64,
    begin: u64,
    cut: &Cut,
    pass: &Functional,
    program: &Arc<Program>,
) -> Window {
    Window {
        index,
        begin,
        warm_up: cut.warm_up,
        unit: cut.unit,
        state: Arc::new(pass.state.clone()),
        instructions: 0,
        program: Arc::clone(program),
        excerpt: Arc::default(),
    }
}

#[inline]
fn push(open: &mut Option<Open>, item: Item, addresses: &[Address]) {
    if let Some(open) = open {
        open.excerpt.push(item, addresses);
    }
}

fn finish<E>(
    open: &mut Option<Open>,
    take: &mut impl FnMut(Window) -> Result<(), E>,
) -> Result<(), E> {
    let Some(Open { window, excerpt }) = open.take() else { return Ok(()) };
    take(Window { excerpt: Arc::new(excerpt), ..window })
}

/// Returns the counts after `before`.
fn since(now: FunctionalCounts, before: FunctionalCounts) -> FunctionalCounts {
    let minus = |a: [u64; 2], b: [u64; 2]| [a[0] - b[0], a[1] - b[1]];
    let mut counts = now;
    let (caches, was) = (&mut counts.caches, &before.caches);
    for (now, before) in [
        (&mut counts.instructions, before.instructions),
        (&mut caches.l1i_accesses, was.l1i_accesses),
        (&mut caches.l1i_misses, was.l1i_misses),
        (&mut caches.l1d_accesses, was.l1d_accesses),
        (&mut caches.l1d_misses, was.l1d_misses),
        (&mut caches.l2_accesses, was.l2_accesses),
        (&mut caches.l2_misses, was.l2_misses),
        (&mut counts.l3.accesses, before.l3.accesses),
        (&mut counts.l3.misses, before.l3.misses),
        (&mut counts.l3.cold_fills, before.l3.cold_fills),
        (&mut counts.branches.predicted, before.branches.predicted),
        (&mut counts.branches.mispredicted, before.branches.mispredicted),
    ] {
        *now = minus(*now, before);
    }
    counts.l3.write_backs -= before.l3.write_backs;
    counts
}
