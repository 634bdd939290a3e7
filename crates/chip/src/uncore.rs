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
    pub(crate) want: Want,
    pub(crate) kernel: bool,
    /// When the core made the access.
    pub(crate) issued: Time,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The line, to read it.
    Read,
    /// The line, to write it.
    Write,
    /// The right to write a line that is there, but that others may hold too.
    Upgrade,
    /// That others drop a line that was written already; nobody waits for it.
    Invalidate,
    /// To give a dirty line back; nobody waits for it.
    WriteBack,
}

impl Want {
    /// Somebody waits for the answer.
    pub(crate) fn is_awaited(self) -> bool {
        !matches!(self, Want::Invalidate | Want::WriteBack)
    }
}

/// What other cores hold of a line that was asked for; they keep a clean copy if the line was only
/// to be read, and none otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SnoopResult {
    Miss,
    Clean,
    Dirty,
}

/// Where an access was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    L3,
    /// Another core's caches.
    Remote,
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
    /// Another core keeps a copy: the line must not be written.
    pub(crate) shared: bool,
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
    /// Lines that came from another core's caches.
    pub transfers: [u64; 2],
    /// Rights to write that were asked for without data.
    pub upgrades: [u64; 2],
}

/// The shared levels.
#[derive(Debug)]
pub(crate) struct Uncore {
    spec: L3Spec,
    memory: MemorySpec,
    tokens: TokenSpec,
    /// From the look-up that finds it elsewhere until a line is here.
    transfer: Time,
    /// None: the third level only looks up where lines are.
    l3: Option<Cache>,
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
            transfer: machine.os.transfer,
            l3: machine.l3.geometry.map(Cache::new),
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

    /// The core that made it.
    pub(crate) fn next_core(&self) -> Option<usize> {
        self.queue.first().map(|request| request.core)
    }

    /// Serves the first request; the answer, if somebody waits for it. `snoop` looks into the other
    /// cores' caches, and takes from them what the request needs.
    pub(crate) fn serve(&mut self, snoop: impl FnOnce(&Request) -> SnoopResult) -> Option<Answer> {
        let (arrival, request) = self.queue.pop()?;
        let mode = usize::from(request.kernel);
        let bank = &mut self.banks[(request.line % self.spec.banks as u64) as usize];
        let start = arrival.max(*bank);
        *bank = start + self.spec.occupancy;
        self.counts.accesses[mode] += 1;
        let looked_up = start + self.spec.latency;
        let mut answer = Answer {
            core: request.core,
            line: request.line,
            at: looked_up,
            level: Level::L3,
            shared: false,
            unknown_at: Time::NEVER,
            estimate_at: Time::NEVER,
            estimated: Time::NEVER,
            not_before: Time::NEVER,
        };
        match request.want {
            Want::WriteBack => {
                self.access(&request, flag::DIRTY, start);
                return None;
            }
            // No data moves: the line is there, the others only have to drop theirs. Who upgrades
            // waits for that; who invalidates wrote already, when its answer turned out shared.
            Want::Upgrade | Want::Invalidate => {
                self.counts.upgrades[mode] += 1;
                snoop(&request);
                return (request.want == Want::Upgrade).then_some(answer);
            }
            Want::Read | Want::Write => {}
        }
        let found = snoop(&request);
        answer.shared = request.want == Want::Read && found != SnoopResult::Miss;
        // A dirty line that its owner now only reads goes back on the way.
        let dirty = found == SnoopResult::Dirty && request.want == Want::Read;
        let hit = self.access(&request, if dirty { flag::DIRTY } else { 0 }, start);
        if found == SnoopResult::Dirty || found == SnoopResult::Clean && !hit {
            self.counts.transfers[mode] += 1;
            answer.level = Level::Remote;
            answer.at = looked_up + self.transfer;
        } else if !hit {
            self.counts.misses[mode] += 1;
            self.read_memory(&request, arrival, start, &mut answer);
        }
        Some(answer)
    }

    fn read_memory(&mut self, request: &Request, arrival: Time, start: Time, answer: &mut Answer) {
        let (waited, looked_up) = (start - arrival, start + self.spec.latency);
        let at_controller = looked_up + self.memory.request;
        let scheduled = self.dram.access(request.line, false, request.kernel, at_controller);
        answer.level = Level::Memory;
        answer.at = scheduled.done + self.memory.response;
        answer.unknown_at = (request.issued + self.tokens.l3 + waited).max(looked_up);
        answer.estimate_at = at_controller + self.tokens.eta;
        answer.estimated = at_controller;
        answer.not_before = scheduled.bank_done + self.memory.response;
    }

    /// Looks the line up and makes it the most recent; false if it had to be allocated, or if there
    /// is nothing to allocate it in.
    fn access(&mut self, request: &Request, dirty: u64, start: Time) -> bool {
        let at_controller = start + self.spec.latency + self.memory.request;
        let Some(l3) = &mut self.l3 else {
            if dirty != 0 {
                self.counts.write_backs += 1;
                self.dram.access(request.line, true, request.kernel, at_controller);
            }
            return false;
        };
        let flags = if request.kernel { flag::KERNEL } else { 0 } | dirty;
        if l3.touch(request.line, flags).is_some() {
            return true;
        }
        if let Some(victim) = l3.insert(request.line, flags).filter(|v| v.dirty) {
            self.counts.write_backs += 1;
            self.dram.access(victim.line, true, request.kernel, at_controller);
        }
        false
    }

    /// Fills the cache as if the line had been used, without time or counts.
    pub(crate) fn warm(&mut self, line: u64, dirty: bool, kernel: bool) {
        let Some(l3) = &mut self.l3 else { return };
        let flags = if dirty { flag::DIRTY } else { 0 } | if kernel { flag::KERNEL } else { 0 };
        if l3.touch(line, flags).is_none() {
            l3.insert(line, flags);
        }
    }
}
