//! What the cores share: the third-level cache and memory. Requests are served in the total order
//! of their arrival, whichever core was simulated first.

use halfwink_dram::Payer;
use halfwink_engine::EventQueue;
use halfwink_units::Time;

use crate::agent::Agent;
use crate::cache::{flag, Cache};
use crate::machine::{L3Spec, Machine, TokenSpec};
use crate::memory::MainMemory;
use crate::threads::Contended;

/// A core asks the shared levels for a line, or gives one back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) agent: Agent,
    /// Number among the agent's requests that are awaited.
    pub(crate) number: u64,
    pub(crate) line: u64,
    pub(crate) want: Want,
    pub(crate) kernel: bool,
    /// Time at which the core made the access.
    pub(crate) issued: Time,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The line, to read it.
    Read,
    /// The line, to write it.
    Write,
    /// The right to write a line that is there, but that others may hold too.
    Upgrade,
    /// Invalidates copies of a line that was written already, without an answer.
    Invalidate,
    /// Writes a dirty line back, without an answer.
    WriteBack,
    /// Writes a dirty line back for a core that waits until it may lose the line.
    Flush,
    /// Makes the third level lose all its lines, too.
    LoseShared,
    /// Fetches the line before it is needed.
    Preheat,
    /// Fetches the line for a core's own prefetcher.
    Prefetch,
    /// A device writes the line to memory, and all copies are invalidated.
    DeviceWrite,
    /// A device writes the line into the third level, and all copies are invalidated.
    Stash,
}

impl Want {
    /// Returns whether the agent waits for the answer.
    pub(crate) fn is_awaited(self) -> bool {
        !matches!(self, Want::Invalidate | Want::WriteBack)
    }

    /// Returns the payer of the memory access.
    pub(crate) fn payer(self, kernel: bool) -> Payer {
        match self {
            Want::Flush | Want::LoseShared => Payer::Sleep,
            Want::Preheat => Payer::Preheat,
            Want::Prefetch => Payer::Prefetch,
            Want::DeviceWrite | Want::Stash => Payer::Device,
            _ if kernel => Payer::Kernel,
            _ => Payer::User,
        }
    }
}

/// State of a requested line in other cores; they keep a clean copy if the line was only to be
/// read, and none otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SnoopResult {
    Miss,
    Clean,
    Dirty,
}

/// Level that answered an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    L3,
    /// The caches of another core.
    Remote,
    Memory,
}

/// The answer to a [`Request`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) agent: Agent,
    /// Number of the request.
    pub(crate) number: u64,
    pub(crate) line: u64,
    /// Time at which the data is at the core.
    pub(crate) at: Time,
    pub(crate) level: Level,
    /// Another core keeps a copy: the line must not be written.
    pub(crate) shared: bool,
    /// The core had the line when it lost its caches; set by the core.
    pub(crate) lost: bool,
    /// A prefetcher asked for it.
    pub(crate) prefetch: bool,
}

impl Answer {
    pub(crate) fn by(&self) -> AnsweredBy {
        AnsweredBy { level: self.level, lost: self.lost }
    }
}

/// Level that answered an access, and whether it was needed because caches were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnsweredBy {
    pub(crate) level: Level,
    pub(crate) lost: bool,
}

/// A request has to wait for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed {
    pub(crate) agent: Agent,
    pub(crate) number: u64,
    pub(crate) line: u64,
    /// Arrival of the token that says so.
    pub(crate) unknown_at: Time,
    /// Arrival of the estimate, which is before the data's.
    pub(crate) estimate_at: Time,
    /// A prefetcher asked for it.
    pub(crate) prefetch: bool,
}

/// Outcome of a request that an agent waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Served {
    Answered(Answer),
    Missed(Missed),
}

impl Served {
    pub(crate) fn agent(&self) -> Agent {
        match self {
            Served::Answered(answer) => answer.agent,
            Served::Missed(missed) => missed.agent,
        }
    }
}

/// Counters of the shared cache, by privilege of the access (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L3Counts {
    /// Accesses, write-backs from the cores included.
    pub accesses: [u64; 2],
    /// Number of reads that missed.
    pub misses: [u64; 2],
    /// Number of these that filled a way in which no line had ever been: the cache began cold.
    pub cold_fills: [u64; 2],
    /// Lines written back to memory.
    pub write_backs: u64,
    /// Lines that came from another core's caches.
    pub transfers: [u64; 2],
    /// Rights to write that were asked for without data.
    pub upgrades: [u64; 2],
    /// Accesses that no code made, for [`Payer::OTHERS`]: lines written back before they were lost,
    /// loaded before they were needed, written by devices, and prefetched.
    pub others: [u64; 4],
}

/// State of the shared levels.
#[derive(Debug)]
pub(crate) struct Uncore {
    spec: L3Spec,
    tokens: TokenSpec,
    /// Time from the look-up that finds a line elsewhere until it is here.
    transfer: Time,
    /// Third-level cache; none if it is only the directory of lines.
    pub(crate) l3: Option<Cache>,
    /// Most lines that each set has held when it lost one: so many of its ways are not cold.
    held: Vec<usize>,
    banks: Vec<Time>,
    pub(crate) memory: MainMemory,
    queue: EventQueue<Request>,
    pub(crate) counts: L3Counts,
    /// Since when it has no supply, and for how long it had none before.
    lost_at: Option<Time>,
    pub(crate) off: Time,
    /// Memory takes a line this often at most.
    line_time: Time,
    /// Lines that threads of one program contend for, if cores play some.
    pub(crate) contended: Option<Contended>,
}

/// Outcome of a look-up in the third level.
struct Lookup {
    /// The line was there. Else it is now, unless there is nothing to allocate it in.
    hit: bool,
    /// The dirty line that has to go to memory.
    victim: Option<u64>,
    /// The line fills a way in which none has ever been.
    cold: bool,
}

impl Uncore {
    pub(crate) fn new(machine: &Machine) -> Uncore {
        Uncore {
            spec: machine.l3,
            tokens: machine.tokens,
            transfer: machine.os.transfer,
            l3: machine.l3.geometry.map(Cache::new),
            held: vec![0; machine.l3.geometry.map_or(0, |geometry| geometry.sets)],
            banks: vec![Time::ZERO; machine.l3.banks],
            memory: MainMemory::new(&machine.memory),
            queue: EventQueue::new(),
            counts: L3Counts::default(),
            lost_at: None,
            off: Time::ZERO,
            line_time: machine.memory.line_time(),
            contended: None,
        }
    }

    /// Takes a request that arrives at `at`. One that a core sends later may arrive before it; at
    /// equal times, lower cores are served first.
    pub(crate) fn push(&mut self, at: Time, request: Request) {
        if let Some(contended) = &mut self.contended {
            contended.asks(&request);
        }
        self.queue.push(at, request.agent.class(), request);
    }

    /// Arrival of the first request that was not served.
    pub(crate) fn next_time(&self) -> Time {
        self.queue.next_time().unwrap_or(Time::NEVER)
    }

    /// Returns the agent of the first request.
    pub(crate) fn next_agent(&self) -> Option<Agent> {
        self.queue.first().map(|request| request.agent)
    }

    /// Serves the first request, and returns its outcome, if an agent waits for it. `snoop` looks
    /// into the other cores' caches, and takes from them what the request needs; it leaves out the
    /// cores of a mask, which have yet to be served the line.
    pub(crate) fn serve(
        &mut self,
        snoop: impl FnOnce(&Request, u128) -> SnoopResult,
    ) -> Option<Served> {
        let (arrival, request) = self.queue.pop()?;
        let contended = self.contended.as_mut();
        let waiting = contended.map_or(0, |lines| lines.serves(&request));
        let snoop = |request: &Request| snoop(request, waiting);
        // Adjacent lines are in different banks, which are pipelined.
        let bank = &mut self.banks[(request.line % self.spec.banks as u64) as usize];
        let start = arrival.max(*bank);
        *bank = start + self.spec.occupancy;
        self.count(&request, start);
        let looked_up = start + self.spec.latency;
        let answer = Answer {
            agent: request.agent,
            number: request.number,
            line: request.line,
            at: looked_up,
            level: Level::L3,
            shared: false,
            lost: false,
            prefetch: request.want == Want::Prefetch,
        };
        match request.want {
            Want::WriteBack | Want::Flush => {
                let found = self.access(&request, flag::DIRTY);
                self.write_back(found.victim, &request, looked_up);
                if request.want == Want::WriteBack {
                    return None;
                }
                // Assumption: without data here, the line is safe once it has reached memory's
                // controller, whose queue takes as many as come.
                let way = if self.l3.is_none() { self.memory.way() } else { Time::ZERO };
                return Some(Served::Answered(Answer { at: looked_up + way, ..answer }));
            }
            Want::LoseShared => {
                let at = self.lose(looked_up);
                return Some(Served::Answered(Answer { at, ..answer }));
            }
            Want::DeviceWrite | Want::Stash => {
                snoop(&request);
                self.device_writes(&request, looked_up);
                return None;
            }
            // No data moves: the line is there, the others only have to drop theirs. Who upgrades
            // waits for that; who invalidates wrote already, when its answer turned out shared.
            Want::Upgrade | Want::Invalidate => {
                let found = snoop(&request);
                return self.upgraded(&request, answer, found);
            }
            Want::Read | Want::Write | Want::Preheat | Want::Prefetch => {}
        }
        let found = snoop(&request);
        Some(self.sent(&request, found, answer, start - arrival))
    }

    /// The other cores gave up a line that a core has; `found` is what they had of it.
    fn upgraded(
        &mut self,
        request: &Request,
        answer: Answer,
        found: SnoopResult,
    ) -> Option<Served> {
        let (mode, upgrades) = (usize::from(request.kernel), request.want == Want::Upgrade);
        if upgrades && found == SnoopResult::Dirty && self.contended.is_some() {
            // Another core was served first, and has written the line since.
            return Some(Served::Answered(self.transferred(answer, mode)));
        }
        self.counts.upgrades[mode] += 1;
        upgrades.then_some(Served::Answered(answer))
    }

    /// Sends a line of which the other cores had what was `found`; the request `waited` for its
    /// bank.
    fn sent(
        &mut self,
        request: &Request,
        found: SnoopResult,
        mut answer: Answer,
        waited: Time,
    ) -> Served {
        let (mode, looked_up) = (usize::from(request.kernel), answer.at);
        let reads = request.want != Want::Write;
        answer.shared = reads && found != SnoopResult::Miss;
        // A dirty line that its owner now only reads goes back on the way.
        let dirty = if found == SnoopResult::Dirty && reads { flag::DIRTY } else { 0 };
        let Lookup { hit, victim, cold } = self.access(request, dirty);
        let mut served = Served::Answered(answer);
        if found == SnoopResult::Dirty || found == SnoopResult::Clean && !hit {
            served = Served::Answered(self.transferred(answer, mode));
        } else if hit {
            if let Some(contended) = &mut self.contended {
                contended.arrival(request.line, looked_up, None);
            }
        } else {
            let counts = matches!(request.want, Want::Read | Want::Write);
            self.counts.misses[mode] += u64::from(counts);
            self.counts.cold_fills[mode] += u64::from(counts && cold);
            served = Served::Missed(self.read_memory(request, waited, answer));
        }
        // Behind the line that displaced it: nobody waits for it.
        self.write_back(victim, request, looked_up);
        served
    }

    /// A line that was found in another core comes from there.
    fn transferred(&mut self, answer: Answer, mode: usize) -> Answer {
        self.counts.transfers[mode] += 1;
        let at = match &mut self.contended {
            Some(contended) => contended.arrival(answer.line, answer.at, Some(self.transfer)),
            None => answer.at + self.transfer,
        };
        Answer { at, level: Level::Remote, ..answer }
    }

    /// A look-up for a request begins at `start`; whatever level was off is on again.
    #[inline]
    fn count(&mut self, request: &Request, start: Time) {
        if let Some(lost_at) = self.lost_at.take() {
            self.off += start.saturating_sub(lost_at);
        }
        match request.want.payer(request.kernel) {
            Payer::User | Payer::Kernel => {
                self.counts.accesses[usize::from(request.kernel)] += 1;
            }
            // `Payer` begins with the user and the kernel; the others come in the order of
            // `Payer::OTHERS`.
            payer => self.counts.others[payer as usize - 2] += 1,
        }
    }

    /// The third level does not have the line, as a look-up found that `waited` for its bank.
    fn read_memory(&mut self, request: &Request, waited: Time, answer: Answer) -> Missed {
        let Request { agent, number, line, kernel, issued, want } = *request;
        let looked_up = answer.at;
        let answer = Answer { level: Level::Memory, ..answer };
        let seen = self.memory.read(answer, want.payer(kernel), looked_up);
        // The token cannot come before the look-up has found that the line is missing.
        let unknown_at = (issued + self.tokens.l3 + waited).max(looked_up);
        let (estimate_at, prefetch) = (seen + self.tokens.eta, want == Want::Prefetch);
        Missed { agent, number, line, unknown_at, estimate_at, prefetch }
    }

    /// Decides all of memory before `until` that is final, if nothing arrives here before
    /// `earliest` any more but what waits here.
    #[inline]
    pub(crate) fn run_memory(&mut self, earliest: Time, until: Time) {
        let arrival = self.next_time().min(earliest);
        self.memory.run(arrival.saturating_add(self.spec.latency), until);
    }

    /// A victim goes to memory; who displaced it pays.
    fn write_back(&mut self, victim: Option<u64>, request: &Request, looked_up: Time) {
        if let Some(line) = victim {
            self.counts.write_backs += 1;
            self.memory.write(line, request.want.payer(request.kernel), looked_up);
        }
    }

    /// The third level writes back what is dirty, beginning at `from`, and loses the rest: when it
    /// is done. Banks read a set each as often as they start an access; lines leave as fast as
    /// memory can take them at best, and wait in the write buffer where it cannot.
    fn lose(&mut self, from: Time) -> Time {
        let Some(l3) = &mut self.l3 else { return from };
        let walk = |set: usize| Time(self.spec.occupancy.0 * set as u64 / self.spec.banks as u64);
        let (mut free, mut last, mut held) = (from, usize::MAX, 0);
        for (set, line, flags) in l3.lines() {
            held = if set == last { held + 1 } else { 1 };
            last = set;
            self.held[set] = self.held[set].max(held);
            if flags & flag::DIRTY != 0 {
                let at = free.max(from + walk(set));
                self.memory.write(line, Payer::Sleep, at);
                self.counts.others[Payer::Sleep as usize - 2] += 1;
                self.counts.write_backs += 1;
                free = at + self.line_time;
            }
        }
        // All sets are walked even if nothing is dirty, and the last line has to reach the
        // controller before the supply may go.
        let end = free.max(from + walk(l3.sets())) + self.memory.way();
        l3.clear();
        self.lost_at = Some(end);
        end
    }

    /// A device writes a whole line, of which no cache has a copy any more.
    fn device_writes(&mut self, request: &Request, looked_up: Time) {
        if request.want == Want::Stash && self.l3.is_some() {
            let found = self.access(request, flag::DIRTY);
            return self.write_back(found.victim, request, looked_up);
        }
        if let Some(l3) = &mut self.l3 {
            let (held, set) = (l3.held(request.line), l3.set(request.line));
            // Even a dirty copy is not written back: the device writes the whole line.
            if l3.invalidate(request.line).is_some() {
                self.held[set] = self.held[set].max(held);
            }
        }
        self.memory.write(request.line, Payer::Device, looked_up);
    }

    /// The run is over at `end`.
    pub(crate) fn finish(&mut self, end: Time) {
        if let Some(lost_at) = self.lost_at.take() {
            self.off += end.saturating_sub(lost_at);
        }
        self.memory.finish(end);
    }

    /// Looks the line up and makes it the most recent.
    fn access(&mut self, request: &Request, dirty: u64) -> Lookup {
        let Some(l3) = &mut self.l3 else {
            let victim = (dirty != 0).then_some(request.line);
            return Lookup { hit: false, victim, cold: false };
        };
        let flags = flag::owner(request.kernel) | dirty;
        if l3.touch(request.line, flags).is_some() {
            return Lookup { hit: true, victim: None, cold: false };
        }
        let victim = l3.insert(request.line, flags);
        let cold = victim.is_none() && l3.held(request.line) > self.held[l3.set(request.line)];
        let victim = victim.filter(|victim| victim.dirty).map(|victim| victim.line);
        Lookup { hit: false, victim, cold }
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

#[cfg(test)]
mod tests {
    use halfwink_engine::Input;

    use super::*;

    fn uncore() -> Uncore {
        let text = include_str!("../../../machines/ev6.toml");
        let machine = Machine::parse(&Input::new("ev6", text.to_owned())).unwrap();
        Uncore::new(&machine)
    }

    fn serve(uncore: &mut Uncore, line: u64, want: Want, found: SnoopResult) {
        let (agent, issued) = (Agent::core(0), Time::ZERO);
        let request = Request { agent, number: 0, line, want, kernel: false, issued };
        uncore.push(Time::ZERO, request);
        let _ = uncore.serve(|_, _| found);
    }

    #[test]
    fn way_whose_line_was_lost_is_not_cold() {
        let mut uncore = uncore();
        serve(&mut uncore, 1, Want::Read, SnoopResult::Miss);
        serve(&mut uncore, 1, Want::LoseShared, SnoopResult::Miss);
        serve(&mut uncore, 1, Want::Read, SnoopResult::Miss);
        assert_eq!((uncore.counts.misses, uncore.counts.cold_fills), ([2, 0], [1, 0]));
        // A device takes the line away; its way is used again, and then one more.
        serve(&mut uncore, 1, Want::DeviceWrite, SnoopResult::Miss);
        serve(&mut uncore, 1, Want::Read, SnoopResult::Miss);
        let sets = uncore.l3.as_ref().unwrap().sets() as u64;
        serve(&mut uncore, 1 + sets, Want::Read, SnoopResult::Miss);
        assert_eq!((uncore.counts.misses, uncore.counts.cold_fills), ([4, 0], [2, 0]));
    }

    #[test]
    fn line_of_another_core_fills_a_way_without_a_miss() {
        let mut uncore = uncore();
        serve(&mut uncore, 1, Want::Read, SnoopResult::Clean);
        assert_eq!((uncore.counts.misses, uncore.counts.cold_fills), ([0, 0], [0, 0]));
    }
}
