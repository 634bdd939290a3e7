//! What the cores share: the third-level cache and memory. Requests are served in the total order
//! of their arrival, whichever core was simulated first.

use halfwink_engine::{Class, EventQueue};
use halfwink_units::Time;

use crate::cache::{flag, Cache};
use crate::dram::Dram;
use crate::machine::{L3Spec, Machine, MemorySpec, TokenSpec};

/// A core asks the shared levels for a line, or gives one back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) core: usize,
    pub(crate) line: u64,
    /// A dirty line coming back, which nobody waits for.
    pub(crate) write_back: bool,
    pub(crate) kernel: bool,
    /// When the core made the access.
    pub(crate) issued: Time,
}

/// Where an access was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    L3,
    Memory,
}

/// The answer to a [`Request`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) core: usize,
    pub(crate) line: u64,
    /// When the data is at the core.
    pub(crate) at: Time,
    pub(crate) level: Level,
    /// For accesses that go to memory: arrival of the token that says so, and of the estimate.
    pub(crate) unknown_at: Time,
    pub(crate) estimate_at: Time,
    /// When the estimate was made, and what it promises.
    pub(crate) estimated: Time,
    pub(crate) not_before: Time,
}

/// What the shared cache did, by privilege of the access (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L3Counts {
    /// Accesses, write-backs from the cores included.
    pub accesses: [u64; 2],
    /// Reads that missed.
    pub misses: [u64; 2],
    /// Lines written back to memory.
    pub write_backs: u64,
}

/// The shared levels.
#[derive(Debug)]
pub(crate) struct Uncore {
    spec: L3Spec,
    memory: MemorySpec,
    tokens: TokenSpec,
    l3: Cache,
    banks: Vec<Time>,
    pub(crate) dram: Dram,
    queue: EventQueue<Request>,
    pub(crate) counts: L3Counts,
}

impl Uncore {
    pub(crate) fn new(machine: &Machine) -> Uncore {
        Uncore {
            spec: machine.l3,
            memory: machine.memory,
            tokens: machine.tokens,
            l3: Cache::new(machine.l3.geometry),
            banks: vec![Time::ZERO; machine.l3.banks],
            dram: Dram::new(machine.memory),
            queue: EventQueue::new(),
            counts: L3Counts::default(),
        }
    }

    /// A request that arrives at `at`. Requests of one core come in the order of their arrival; at
    /// equal times, lower cores are served first.
    pub(crate) fn push(&mut self, at: Time, request: Request) {
        self.queue.push(at, Class(request.core as u8), request);
    }

    /// Arrival of the first request that was not served.
    pub(crate) fn next_time(&self) -> Time {
        self.queue.next_time().unwrap_or(Time::NEVER)
    }

    /// Serves the first request; the answer, unless it was a write-back.
    pub(crate) fn serve(&mut self) -> Option<Answer> {
        let (arrival, request) = self.queue.pop()?;
        let bank = &mut self.banks[(request.line % self.spec.banks as u64) as usize];
        let start = arrival.max(*bank);
        *bank = start + self.spec.occupancy;
        self.counts.accesses[usize::from(request.kernel)] += 1;
        let hit = self.access(&request, start);
        if request.write_back {
            return None;
        }
        let waited = start - arrival;
        let looked_up = start + self.spec.latency;
        if hit {
            return Some(Answer {
                core: request.core,
                line: request.line,
                at: looked_up,
                level: Level::L3,
                unknown_at: Time::NEVER,
                estimate_at: Time::NEVER,
                estimated: Time::NEVER,
                not_before: Time::NEVER,
            });
        }
        self.counts.misses[usize::from(request.kernel)] += 1;
        let at_controller = looked_up + self.memory.request;
        let scheduled = self.dram.access(request.line, false, request.kernel, at_controller);
        Some(Answer {
            core: request.core,
            line: request.line,
            at: scheduled.done + self.memory.response,
            level: Level::Memory,
            unknown_at: (request.issued + self.tokens.l3 + waited).max(looked_up),
            estimate_at: at_controller + self.tokens.eta,
            estimated: at_controller,
            not_before: scheduled.bank_done + self.memory.response,
        })
    }

    /// Looks the line up and makes it the most recent; false if it had to be allocated.
    fn access(&mut self, request: &Request, start: Time) -> bool {
        let mut flags = if request.kernel { flag::KERNEL } else { 0 };
        if request.write_back {
            flags |= flag::DIRTY;
        }
        if self.l3.touch(request.line, flags).is_some() {
            return true;
        }
        if let Some(victim) = self.l3.insert(request.line, flags).filter(|v| v.dirty) {
            self.counts.write_backs += 1;
            let at_controller = start + self.spec.latency + self.memory.request;
            self.dram.access(victim.line, true, request.kernel, at_controller);
        }
        false
    }

    /// Fills the cache as if the line had been used, without time or counts.
    pub(crate) fn warm(&mut self, line: u64, dirty: bool, kernel: bool) {
        let flags = if dirty { flag::DIRTY } else { 0 } | if kernel { flag::KERNEL } else { 0 };
        if self.l3.touch(line, flags).is_none() {
            self.l3.insert(line, flags);
        }
    }
}
