//! A recording that is played a second time: what a program takes that does the same work again and
//! finds caches, translations and predictor as it left them.

use std::sync::Arc;

use halfwink_engine::RunControl;
use halfwink_policy::gating::{AlwaysOn, GatingPolicy};
use halfwink_trace::{Address, Item, LoadKind, Program, Source, TraceError, WarmSet};
use halfwink_units::Time;

use super::cutter::{cut, Begins, Cut};
use super::window::{measure, Measured};
use crate::chip::{ChipError, CodeCache, Options};
use crate::machine::Machine;
use crate::task::Task;

/// One source behind the other.
struct Behind<A, B> {
    first: A,
    second: B,
    is_over: bool,
}

impl<A: Source, B: Source> Source for Behind<A, B> {
    fn program(&self) -> &Arc<Program> {
        self.second.program()
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        if !self.is_over {
            match self.first.next_item()? {
                Item::End => self.is_over = true,
                item => return Ok(item),
            }
        }
        self.second.next_item()
    }

    fn addresses(&self) -> &[Address] {
        if self.is_over {
            self.second.addresses()
        } else {
            self.first.addresses()
        }
    }
}

/// Plays a recording of `instructions` twice on one core that is always on, the first time without
/// time (functional warming), and measures the second. Both sources are of one program.
///
/// # Errors
/// See [`ChipError`].
pub fn again<S: Source + 'static>(
    machine: &Machine,
    sources: [S; 2],
    warm: &Arc<WarmSet>,
    instructions: u64,
    control: &RunControl,
) -> Result<Measured, ChipError> {
    let [first, second] = sources;
    debug_assert!(Arc::ptr_eq(first.program(), second.program()), "one recording");
    let source = Box::new(Behind { first, second, is_over: false });
    let task = Task {
        source,
        warm: Arc::clone(warm),
        load: LoadKind::Closed,
        limit: u64::MAX,
        start: Time::ZERO,
        shared: None,
        thread: None,
    };
    let whole = Cut {
        begins: Begins::Every { first: instructions, period: u64::MAX },
        warm_up: 0,
        unit: instructions,
    };
    let policy = |_: usize| -> GatingPolicy { Box::new(AlwaysOn) };
    let options = Options::new(&policy);
    let mut found = None;
    cut(machine, task, &whole, control, |window| {
        let (mut codes, load) = (CodeCache::new(), LoadKind::Closed);
        found = measure(machine, &window, load, &options, &mut codes, control)?;
        Ok::<(), ChipError>(())
    })?;
    found.ok_or(ChipError::NoWork)
}
