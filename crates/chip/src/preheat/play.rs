//! One request on a chip of its own.

use halfwink_engine::RunControl;
use halfwink_policy::gating::{AlwaysOn, GatingPolicy, IdleGate};
use halfwink_policy::preheat::LineSet;
use halfwink_trace::{Address, Event, Item, LoadKind, Program, Source, TraceError};
use halfwink_units::Time;
use std::sync::Arc;

use super::{CacheLevel, Request, WarmState};
use crate::chip::{Chip, ChipError, CodeCache, Options};
use crate::core::PreheatCounts;
use crate::engine::EngineCounts;
use crate::machine::Machine;
use crate::result::RunResult;
use crate::task::Task;

/// A sleep before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Time from the announcement to its arrival; without one, its arrival wakes the core.
    pub lead: Option<Time>,
}

/// A preheating engine beside memory, which brings lines into the third level.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Lines in the order in which they are requested.
    pub lines: Vec<u64>,
    /// Start, from the beginning of the run.
    pub start: Time,
    /// Time from one line to the next.
    pub interval: Time,
}

/// A device writes a line of the first task's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceWrite {
    /// Time at which it arrives at the third level.
    pub at: Time,
    /// Physical number of the line.
    pub line: u64,
    /// Whether it goes into the third level, not to memory (DDIO).
    pub stash: bool,
}

/// Parameters for playing a request.
#[derive(Clone, Debug, Default)]
pub struct Trial<'a> {
    /// Sleep before the request; without one the core waits for it with its supply on, as long as
    /// `Sleep` would have been.
    pub sleep: Option<Sleep>,
    /// Lines that the core loads once it is woken, in this order.
    pub lines: Vec<u64>,
    /// Played between the announcement and the arrival, to warm the caches.
    pub sham: Option<&'a Request>,
    /// Lines that an engine loads.
    pub engine: Option<Engine>,
    /// Writes of devices meanwhile, in the order of time.
    pub devices: Vec<DeviceWrite>,
    /// The cache to dump when the request is done.
    pub dump: Option<CacheLevel>,
}

/// Results of a played request.
#[derive(Clone, Debug)]
pub struct Played {
    /// Time from the arrival of the request to the end of its work.
    pub response: Time,
    /// All that a run shows, its books closed.
    pub run: RunResult,
    /// Lines that the core loaded.
    pub preheat: PreheatCounts,
    /// Counters of other agents.
    pub agents: EngineCounts,
    /// Lines that were in the cache that was to be dumped.
    pub dump: LineSet,
}

/// Plays a request that arrives after `length`, on the first core of a machine whose caches begin
/// as `state`; what sleep loses is the machine's `gating.loses`.
///
/// # Errors
/// See [`ChipError`]; [`ChipError::OtherCaches`] if the state is of another machine.
pub fn play(
    machine: &Machine,
    request: &Request,
    state: &WarmState,
    length: Time,
    trial: &Trial<'_>,
    codes: &mut CodeCache,
    control: &RunControl,
) -> Result<Played, ChipError> {
    let make = |_: usize| -> GatingPolicy {
        match trial.sleep {
            Some(_) => Box::new(IdleGate::new()),
            None => Box::new(AlwaysOn),
        }
    };
    // The caches are no retention cells, and those of registers leak in either case.
    let options = Options::new(&make);
    let task = Task {
        source: Box::new(staged(request, length, trial)),
        warm: Arc::default(),
        load: LoadKind::Open,
        limit: u64::MAX,
        start: Time::ZERO,
        shared: None,
        thread: None,
    };
    let mut chip = Chip::new(machine, vec![task], &options, &[], codes)?;
    state.put_into(&mut chip.cores[0], &mut chip.shared.uncore)?;
    if let (Some(sleep), None) = (trial.sleep, trial.sham) {
        if let Some(lead) = sleep.lead {
            chip.cores[0].preheat(lead, trial.lines.clone());
        }
    }
    if let Some(Engine { lines, start, interval }) = &trial.engine {
        chip.engine.preheat(lines, *start, *interval, &mut chip.shared.uncore);
    }
    for write in &trial.devices {
        chip.engine.device_writes(write.line, write.at, write.stash, &mut chip.shared.uncore);
    }
    chip.play(control)?;
    let dump = trial.dump.map(|level| chip.dump(level)).unwrap_or_default();
    let (preheat, agents) = (chip.cores[0].preheated(), chip.engine.counts);
    let (run, _) = chip.finish()?;
    Ok(Played { response: run.duration.saturating_sub(length), run, preheat, agents, dump })
}

/// The halt, what is played before the arrival, and the request.
fn staged(request: &Request, length: Time, trial: &Trial<'_>) -> Staged {
    let ns = |time: Time| time.0 / 1000;
    let halt = |from: Time, to: Time| Item::Event(Event::Idle { from_ns: ns(from), to_ns: ns(to) });
    let lead = trial.sleep.and_then(|sleep| sleep.lead).unwrap_or(Time::ZERO);
    let source = request.source();
    let program = Arc::clone(source.program());
    let mut parts: Vec<Part> = Vec::new();
    match trial.sham {
        Some(sham) => {
            let announced = length.saturating_sub(lead);
            parts.push(Part::One(halt(Time::ZERO, announced)));
            parts.push(Part::All(Box::new(sham.source())));
            parts.push(Part::One(halt(announced, length)));
        }
        None => parts.push(Part::One(halt(Time::ZERO, length))),
    }
    parts.push(Part::All(Box::new(source)));
    parts.reverse();
    Staged { program, parts }
}

enum Part {
    One(Item),
    All(Box<dyn Source>),
}

/// Plays parts one after another, the last one first.
struct Staged {
    program: Arc<Program>,
    parts: Vec<Part>,
}

impl Source for Staged {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        loop {
            match self.parts.last_mut() {
                None => return Ok(Item::End),
                Some(Part::One(item)) => {
                    let item = *item;
                    self.parts.pop();
                    return Ok(item);
                }
                Some(Part::All(source)) => match source.next_item()? {
                    Item::End => {
                        self.parts.pop();
                    }
                    item => return Ok(item),
                },
            }
        }
    }

    fn addresses(&self) -> &[Address] {
        match self.parts.last() {
            Some(Part::All(source)) => source.addresses(),
            _ => &[],
        }
    }
}
