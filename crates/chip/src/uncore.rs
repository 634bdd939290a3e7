//! What the cores share: the third-level cache and memory. Requests are served in the total order
//! of their arrival, whichever core was simulated first.

use halfwink_engine::{Class, EventQueue};
use halfwink_units::Time;

use crate::cache::{flag, Cache};
use crate::machine::{L3Spec, Machine, TokenSpec};
use crate::memory::MainMemory;

/// A core asks the shared levels for a line, or gives one back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) core: usize,
    /// Of the core's requests that are awaited.
    pub(crate) number: u64,
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
    /// The same, of a core that waits until it may lose the line.
    Flush,
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
    /// Of the request.
    pub(crate) number: u64,
    pub(crate) line: u64,
    /// When the data is at the core.
    pub(crate) at: Time,
    pub(crate) level: Level,
    /// Another core keeps a copy: the line must not be written.
    pub(crate) shared: bool,
    /// The core had the line when it lost its caches; set by the core.
    pub(crate) lost: bool,
}

impl Answer {
    pub(crate) fn by(&self) -> AnsweredBy {
        AnsweredBy { level: self.level, lost: self.lost }
    }
}

/// Who answered an access, and whether it had to be asked for because caches were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnsweredBy {
    pub(crate) level: Level,
    pub(crate) lost: bool,
}

/// A request has to wait for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed {
    pub(crate) core: usize,
    pub(crate) number: u64,
    pub(crate) line: u64,
    /// Arrival of the token that says so.
    pub(crate) unknown_at: Time,
    /// Arrival of the estimate, which is before the data's.
    pub(crate) estimate_at: Time,
}

/// What becomes of a request that somebody waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Served {
    Answered(Answer),
    Missed(Missed),
}

impl Served {
    pub(crate) fn core(&self) -> usize {
        match self {
            Served::Answered(answer) => answer.core,
            Served::Missed(missed) => missed.core,
        }
    }
}

/// What the shared cache did, by privilege of the access (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L3Counts {
    /// Accesses, write-backs from the cores included.
    pub accesses: [u64; 2],
    /// Reads that missed.
    pub misses: [u64; 2],
    /// Of these, those that filled a way in which nothing had ever been: the cache began cold.
    pub cold_fills: [u64; 2],
    /// Lines written back to memory.
    pub write_backs: u64,
    /// Lines that came from another core's caches.
    pub transfers: [u64; 2],
    /// Rights to write that were asked for without data.
    pub upgrades: [u64; 2],
    /// Lines that cores wrote back before they lost them; they are no other accesses.
    pub flushed: u64,
}

/// The shared levels.
#[derive(Debug)]
pub(crate) struct Uncore {
    spec: L3Spec,
    tokens: TokenSpec,
    /// From the look-up that finds it elsewhere until a line is here.
    transfer: Time,
    /// None: the third level only looks up where lines are.
    pub(crate) l3: Option<Cache>,
    banks: Vec<Time>,
    pub(crate) memory: MainMemory,
    queue: EventQueue<Request>,
    pub(crate) counts: L3Counts,
}

impl Uncore {
    pub(crate) fn new(machine: &Machine) -> Uncore {
        Uncore {
            spec: machine.l3,
            tokens: machine.tokens,
            transfer: machine.os.transfer,
            l3: machine.l3.geometry.map(Cache::new),
            banks: vec![Time::ZERO; machine.l3.banks],
            memory: MainMemory::new(&machine.memory),
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

    /// Serves the first request: what becomes of it, if somebody waits for it. `snoop` looks into
    /// the other cores' caches, and takes from them what the request needs.
    pub(crate) fn serve(&mut self, snoop: impl FnOnce(&Request) -> SnoopResult) -> Option<Served> {
        let (arrival, request) = self.queue.pop()?;
        let mode = usize::from(request.kernel);
        let bank = &mut self.banks[(request.line % self.spec.banks as u64) as usize];
        let start = arrival.max(*bank);
        *bank = start + self.spec.occupancy;
        if request.want == Want::Flush {
            self.counts.flushed += 1;
        } else {
            self.counts.accesses[mode] += 1;
        }
        let looked_up = start + self.spec.latency;
        let mut answer = Answer {
            core: request.core,
            number: request.number,
            line: request.line,
            at: looked_up,
            level: Level::L3,
            shared: false,
            lost: false,
        };
        match request.want {
            Want::WriteBack => {
                let (_, victim) = self.access(&request, flag::DIRTY);
                self.write_back(victim, request.kernel, looked_up);
                return None;
            }
            Want::Flush => {
                let (_, victim) = self.access(&request, flag::DIRTY);
                self.write_back(victim, request.kernel, looked_up);
                // Assumption: without data here, the line is safe once it has reached memory's
                // controller, whose queue takes as many as come.
                let way = if self.l3.is_none() { self.memory.way() } else { Time::ZERO };
                return Some(Served::Answered(Answer { at: looked_up + way, ..answer }));
            }
            // No data moves: the line is there, the others only have to drop theirs. Who upgrades
            // waits for that; who invalidates wrote already, when its answer turned out shared.
            Want::Upgrade | Want::Invalidate => {
                self.counts.upgrades[mode] += 1;
                snoop(&request);
                return (request.want == Want::Upgrade).then_some(Served::Answered(answer));
            }
            Want::Read | Want::Write => {}
        }
        let found = snoop(&request);
        answer.shared = request.want == Want::Read && found != SnoopResult::Miss;
        // A dirty line that its owner now only reads goes back on the way.
        let dirty = found == SnoopResult::Dirty && request.want == Want::Read;
        let (hit, victim) = self.access(&request, if dirty { flag::DIRTY } else { 0 });
        let mut served = Served::Answered(answer);
        if found == SnoopResult::Dirty || found == SnoopResult::Clean && !hit {
            self.counts.transfers[mode] += 1;
            let at = looked_up + self.transfer;
            served = Served::Answered(Answer { at, level: Level::Remote, ..answer });
        } else if !hit {
            self.counts.misses[mode] += 1;
            served = Served::Missed(self.read_memory(&request, start - arrival, answer));
        }
        // Behind the line that displaced it: nobody waits for it.
        self.write_back(victim, request.kernel, looked_up);
        Some(served)
    }

    /// The third level does not have the line, as a look-up found that `waited` for its bank.
    fn read_memory(&mut self, request: &Request, waited: Time, answer: Answer) -> Missed {
        let Request { core, number, line, kernel, issued, .. } = *request;
        let looked_up = answer.at;
        let answer = Answer { level: Level::Memory, ..answer };
        let seen = self.memory.read(answer, kernel, looked_up);
        let unknown_at = (issued + self.tokens.l3 + waited).max(looked_up);
        Missed { core, number, line, unknown_at, estimate_at: seen + self.tokens.eta }
    }

    /// Decides all of memory before `until` that is final, if nothing arrives here before
    /// `earliest` any more but what waits here.
    #[inline]
    pub(crate) fn run_memory(&mut self, earliest: Time, until: Time) {
        let arrival = self.next_time().min(earliest);
        self.memory.run(arrival.saturating_add(self.spec.latency), until);
    }

    fn write_back(&mut self, victim: Option<u64>, kernel: bool, looked_up: Time) {
        if let Some(line) = victim {
            self.counts.write_backs += 1;
            self.memory.write(line, kernel, looked_up);
        }
    }

    /// Looks the line up and makes it the most recent: false if it had to be allocated, or if there
    /// is nothing to allocate it in; and the dirty line that has to go to memory.
    fn access(&mut self, request: &Request, dirty: u64) -> (bool, Option<u64>) {
        let Some(l3) = &mut self.l3 else {
            return (false, (dirty != 0).then_some(request.line));
        };
        let flags = flag::owner(request.kernel) | dirty;
        if l3.touch(request.line, flags).is_some() {
            return (true, None);
        }
        let victim = l3.insert(request.line, flags);
        if victim.is_none() && matches!(request.want, Want::Read | Want::Write) {
            self.counts.cold_fills[usize::from(request.kernel)] += 1;
        }
        (false, victim.filter(|victim| victim.dirty).map(|victim| victim.line))
    }

    /// Fills the cache as if the line had been used, without time or counts.
    pub(crate) fn warm(&mut self, line: u64, dirty: bool, kernel: bool) {
        let Some(l3) = &mut self.l3 else { return };
        let flags = if dirty { flag::DIRTY } else { 0 } | flag::owner(kernel);
        if l3.touch(line, flags).is_none() {
            l3.insert(line, flags);
        }
    }
}
