//! An in-order core: issues in program order, waits when an operand is not there yet.
//!
//! Time moves from one reason to wait to the next; no cycle is visited in which nothing issues.
//! Loads do not block: the core goes on until a result is needed (scoreboard), a miss register or
//! the store queue is short, or an instruction line is missing.
//!
//! Assumptions: full bypassing; a group ends at a taken branch; no wrong-path fetch.

mod event;
mod memory;
mod wait;
mod word;

use std::collections::VecDeque;

use halfwink_trace::Branch;
use halfwink_units::Cycle;

use self::word::{ByUnit, Ready};
use super::pipeline::{Common, Pause, StallOn};
use crate::branch::Guess;
use crate::cpi_stack::{Reason, REASON_SLOTS};
use crate::front_end::{By, Head};
use crate::miss::UNKNOWN;
use crate::private::Access;
use crate::translation::{Page, Sizes};
use crate::uncore::Answer;
use crate::uop::{Op, Unit, Uop, NO_REG, REGISTERS, UNITS};

/// Source of a register's value, while its time is not known.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// Answers of the shared levels that its load still waits for.
    answers: u8,
    /// The miss register of its load.
    miss: u8,
}

#[derive(Clone, Copy, Debug)]
struct QueuedStore {
    lines: [u64; 2],
    first_byte: u64,
    last_byte: u64,
    by: By,
    /// The store is an atomic instruction's, whose load has taken the line.
    is_locked: bool,
    /// Number of the post that the store is, if other threads wait for it, or
    /// [`NO_POST`](crate::threads::NO_POST).
    post: u32,
    /// First cycle at which it may write the cache.
    earliest: Cycle,
    /// Whether its first line is written.
    half: bool,
}

/// Reason why the pipeline waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    No,
    /// Operands of the operation in front.
    Operands,
    /// All results in flight.
    Drain,
    /// The line of the instruction in front.
    Fetch,
    /// An instruction miss register.
    FetchRegister,
    /// This many data miss registers.
    DataRegisters(u32),
    /// The translation of an address.
    Translation,
    /// The end of all misses.
    Quiet,
}

/// State of an in-order pipeline.
pub(crate) struct InOrder {
    pub(crate) common: Common,
    pub(crate) cycle: Cycle,
    /// Operations issued in this cycle: all, and by unit.
    issued: u64,
    issued_in: ByUnit,
    limits: [u64; UNITS],
    /// Time at which each register's value is ready, and the reason if it is not.
    ready: [Ready; REGISTERS],
    origin: [Origin; REGISTERS],
    /// Results that the shared levels owe.
    owed: usize,
    /// Time at which all other results are ready.
    last_known: Cycle,
    divide_free: Cycle,
    stores: VecDeque<QueuedStore>,
    last_drain: Cycle,
    store_blocked: bool,
    /// Stores in the queue that other threads wait for.
    posts: u32,
    /// Cycle at which the store in front may write the cache, or [`UNKNOWN`].
    next_drain: Cycle,
    front: Cycle,
    front_reason: Reason,
    fetching: bool,
    halt: Option<(u64, u64)>,
    /// The thread goes to another core, as soon as nothing is in flight.
    leaving: bool,
    ended: bool,
    blocked: Blocked,
    /// Sizes of pages, if translation takes time.
    sizes: Option<Sizes>,
}

/// One way to go on.
enum Step {
    /// Time or state moved; look again.
    Again,
    /// Only an answer helps.
    Wait(Blocked, StallOn),
}

impl InOrder {
    pub(crate) fn new(common: Common) -> InOrder {
        let units = common.spec.units;
        let sizes = common.private.translates().then(|| common.private.page_sizes());
        InOrder {
            stores: VecDeque::with_capacity(common.spec.store_queue),
            limits: [
                units.alu as u64,
                units.multiply as u64,
                units.fp as u64,
                units.memory as u64,
                u64::MAX,
            ],
            common,
            cycle: 0,
            issued: 0,
            issued_in: ByUnit(0),
            ready: [Ready(0); REGISTERS],
            origin: [Origin { answers: 0, miss: 0 }; REGISTERS],
            owed: 0,
            last_known: 0,
            divide_free: 0,
            last_drain: 0,
            store_blocked: false,
            posts: 0,
            next_drain: UNKNOWN,
            front: 0,
            front_reason: Reason::Base,
            fetching: false,
            halt: None,
            leaving: false,
            ended: false,
            blocked: Blocked::No,
            sizes,
        }
    }

    /// Runs the cycles before `until`; less if a request to the shared levels is made.
    #[inline(never)]
    pub(crate) fn run(&mut self, until: Cycle) -> Pause {
        self.blocked = Blocked::No;
        while self.cycle < until && self.common.private.lets_run() {
            self.common.private.go_on_walking(self.cycle);
            // Stores first: they are older than what issues in this cycle, and a line that they
            // bring in, or push out, is what a load of this cycle finds.
            self.drain_stores(self.cycle);
            if !self.common.private.requests.is_empty() {
                // Its answer may come before the next step would end, and what is played beyond
                // an answer cannot be taken back.
                break;
            }
            // No step may pass a store that lets another core go on.
            let until = match self.posts {
                0 => until,
                _ => until.min(self.next_drain.max(self.cycle).saturating_add(1)),
            };
            match self.step(until) {
                Step::Again => {}
                Step::Wait(blocked, on) => {
                    if let Some(pause) = self.wait(blocked, on, until) {
                        return pause;
                    }
                }
            }
        }
        // Stores that write before the cycle reached must not be left for later: others rely on
        // hearing of their misses in time.
        self.drain_stores(self.cycle.min(until.saturating_sub(1)));
        Pause::Limit
    }

    /// Issues ordinary operations as long as they come and nothing interrupts. Waiting for operands
    /// and for a place is arithmetic here, not branching: the host could not guess the outcomes.
    #[inline]
    fn ordinary(&mut self, until: Cycle) -> Step {
        let width = self.common.spec.width as u64;
        let mode = usize::from(self.common.front_end.is_kernel());
        let gated = self.common.unit_gates.is_some();
        while self.front <= self.cycle && !self.fetching {
            // What is not ordinary goes through `step`, and so does everything near `until`. Runs
            // that are cut elsewhere take other ways through the same program, and a test of random
            // programs wants equal results of them (`running_ahead_changes_nothing`).
            let Some(uop) = self.common.front_end.ordinary_uop() else { break };
            let latency = self.common.latency(uop.op);
            let needed = self.needed(&uop, latency);
            let cycle = needed.cycle().max(self.cycle);
            // One cycle is kept back: a full group below may take it, and what comes at `until` is
            // heard before an access of that cycle. A register that waits for an answer ends here
            // too: where one is owed there is an `until`.
            if cycle >= until - 1 {
                break;
            }
            debug_assert!(cycle < Ready::UNKNOWN.cycle() >> 1, "an answer is waited for blindly");
            let unit = uop.op.unit() as usize;
            // It may take the next cycle, if this one is full.
            if gated && !self.is_unit_fresh(&uop, cycle + 1) {
                break;
            }
            // Nothing but stores changes the caches behind the pipeline's back, so only before an
            // access do they have to be up to date: to this cycle, or the next if this is full.
            if unit == Unit::Memory as usize && self.next_drain <= cycle + 1 {
                self.drain_stores(cycle);
                if !self.common.private.requests.is_empty() {
                    break;
                }
            }
            // Waiting: the present cycle counts as work if something issued in it.
            let waited = u64::from(cycle > self.cycle);
            let worked = waited & u64::from(self.issued > 0);
            let cycles = &mut self.common.active.cycles[mode];
            cycles[Reason::Base as usize] += worked;
            cycles[(needed.0 & 0xff) as usize % REASON_SLOTS] += cycle - self.cycle - worked;
            // All ones if nothing was waited for: the counts of the cycle stay, or else begin anew.
            let keep = waited.wrapping_sub(1);
            (self.issued, self.issued_in.0) = (self.issued & keep, self.issued_in.0 & keep);
            // No place in this cycle: the next. That one is empty, so there is no third.
            let full = self.issued >= width || self.issued_in.of(unit) >= self.limits[unit];
            let keep = u64::from(full).wrapping_sub(1);
            cycles[Reason::Base as usize] += u64::from(full);
            (self.issued, self.issued_in.0) = (self.issued & keep, self.issued_in.0 & keep);
            self.cycle = cycle + u64::from(full);
            if unit == Unit::Memory as usize {
                if self.next_drain <= self.cycle {
                    break;
                }
                let step = if uop.op == Op::Load {
                    self.load(&uop, until)
                } else {
                    self.store(&uop, until)
                };
                if !matches!(step, Step::Again) || !self.common.private.requests.is_empty() {
                    return step;
                }
            } else {
                self.write(&uop, self.cycle + latency, Reason::Dependency);
                self.issue(&uop);
            }
        }
        Step::Again
    }

    /// Continues at `cycle` after a pause.
    pub(crate) fn resume(&mut self, cycle: Cycle) {
        self.cycle = self.cycle.max(cycle);
        // A store whose miss register came free while the core slept writes now, not back then: the
        // shared levels may have served what came later.
        self.last_drain = self.last_drain.max(self.cycle.saturating_sub(1));
        self.plan_drain();
    }

    /// A thread begins, or goes on, at cycle `cycle`; nothing is in flight.
    pub(crate) fn begin(&mut self, cycle: Cycle) {
        debug_assert!(self.owed == 0 && self.stores.is_empty(), "another thread's work is left");
        (self.leaving, self.ended, self.halt) = (false, false, None);
        // Its next instruction is looked up again: the core may have run others meanwhile.
        self.common.fetch_line = u64::MAX;
        self.resume(cycle);
    }

    /// The shared levels deliver a line at cycle `at`; true if something can move now.
    pub(crate) fn answer(&mut self, answer: &Answer, at: Cycle) -> bool {
        let (line, by) = (answer.line, answer.by());
        let (data, instruction) = self.common.private.answer(line, answer.shared, at);
        self.common.line_comes(line, at);
        if let Some(miss) = data {
            // Only now is it known what was waited for: the second wait of `Why::Outstanding`.
            let reason = StallOn::Data.reason(by);
            for (mode, cycles) in miss.waited.into_iter().enumerate() {
                self.common.active.add(mode == 1, reason, cycles);
            }
            for n in 0..REGISTERS {
                if miss.waiters >> n & 1 == 1 {
                    self.deliver(n, at, reason);
                }
            }
            if std::mem::take(&mut self.store_blocked) {
                self.last_drain = self.last_drain.max(at.saturating_sub(1));
                self.plan_drain();
            }
        }
        if let Some(miss) = instruction {
            for (mode, cycles) in miss.waited.into_iter().enumerate() {
                self.common.active.add(mode == 1, StallOn::Fetch.reason(by), cycles);
            }
            if std::mem::take(&mut self.fetching) {
                self.front = self.front.max(at);
                self.front_reason = Reason::Fetch;
            }
        }
        self.can_move(at)
    }

    fn deliver(&mut self, n: usize, at: Cycle, reason: Reason) {
        let origin = &mut self.origin[n];
        debug_assert_eq!(self.ready[n], Ready::UNKNOWN, "a value is delivered once");
        origin.answers -= 1;
        if origin.answers > 0 {
            // The other line of a load from two: the wait is its from now on.
            if let Some(other) = self.common.private.data_misses.waited_by(n) {
                origin.miss = other as u8;
            }
            return;
        }
        self.ready[n] = Ready::at(at, reason);
        self.owed -= 1;
        self.last_known = self.last_known.max(at);
    }

    /// Lets time pass until `to`. The present cycle counts as work if something issued in it.
    fn pass_to(&mut self, to: Cycle, reason: Reason) {
        debug_assert!(to > self.cycle);
        let kernel = self.common.front_end.is_kernel();
        let mut cycles = to - self.cycle;
        if self.issued > 0 {
            self.common.active.add(kernel, Reason::Base, 1);
            cycles -= 1;
        }
        self.common.active.add(kernel, reason, cycles);
        self.enter_cycle(to);
    }

    fn enter_cycle(&mut self, cycle: Cycle) {
        self.cycle = cycle;
        self.issued = 0;
        self.issued_in = ByUnit(0);
    }

    /// Tries to issue the operation in front.
    #[inline]
    fn step(&mut self, until: Cycle) -> Step {
        // The order is the precedence of reasons: an instruction that is not there waits for
        // nothing else, and one without its operands does not compete for a place.
        if self.front > self.cycle {
            self.pass_to(self.front.min(until), self.front_reason);
            return Step::Again;
        }
        if self.fetching {
            return Step::Wait(Blocked::Fetch, StallOn::Fetch);
        }
        if self.leaving {
            return self.until_quiet(until);
        }
        if !matches!(self.common.front_end.head(), Head::Uop) {
            return self.event(until);
        }
        let uop = *self.common.front_end.uop();
        if uop.new_line {
            if let Some(step) = self.fetch(until) {
                return step;
            }
            // A prefetch may be answered before the next wait is over: see `run`.
            if !self.common.private.requests.is_empty() {
                return Step::Again;
            }
        }
        if let Some(step) = self.operands(&uop, until) {
            return step;
        }
        if let Some(step) = self.room(&uop, until) {
            return step;
        }
        let step = match uop.op {
            Op::Load => self.load(&uop, until),
            Op::Store => self.store(&uop, until),
            _ => {
                let done = self.cycle + self.common.latency(uop.op);
                if matches!(uop.op, Op::Divide | Op::FpDivide) {
                    self.divide_free = done;
                }
                self.write(&uop, done, Reason::Dependency);
                self.issue(&uop);
                Step::Again
            }
        };
        // What follows is nearly always ordinary. Not after a request: see `run`.
        match step {
            Step::Again if self.common.private.requests.is_empty() => self.ordinary(until),
            step => step,
        }
    }

    /// Brings in the line of the instruction in front; `None` if it is there.
    #[inline]
    fn fetch(&mut self, until: Cycle) -> Option<Step> {
        let line = self.common.front_end.fetch_line();
        if line == self.common.fetch_line {
            return None;
        }
        let by = self.common.front_end.by(self.common.front_end.uop());
        let page = self.sizes.map(|sizes| self.common.front_end.fetch_page(sizes));
        if let Some(step) = page.and_then(|page| self.translate([page; 2], true, by, until)) {
            return Some(step);
        }
        let work = &self.common.front_end.work;
        let access = self.common.private.fetch(line, by, self.cycle, work);
        if let (Some(page), false) = (page, access == Access::NoRegister) {
            self.common.private.translated([page; 2], true, by.kernel());
        }
        match access {
            Access::Hit => {
                self.common.fetch_line = line;
                None
            }
            Access::At(cycle) => {
                self.common.fetch_line = line;
                self.front = cycle;
                self.front_reason = Reason::Fetch;
                Some(Step::Again)
            }
            Access::Outstanding(_) => {
                // Noted already, so that the line counts as one access when it is there.
                self.common.fetch_line = line;
                self.fetching = true;
                Some(Step::Wait(Blocked::Fetch, StallOn::Fetch))
            }
            Access::NoRegister => {
                let next = self.common.private.instruction_misses.next_fill(self.cycle);
                if next == UNKNOWN {
                    return Some(Step::Wait(Blocked::FetchRegister, StallOn::Fetch));
                }
                self.pass_to(next.min(until), Reason::Fetch);
                Some(Step::Again)
            }
        }
    }

    /// Waits for the translation of an access's pages; `None` if it is there.
    fn translate(&mut self, pages: [Page; 2], code: bool, by: By, until: Cycle) -> Option<Step> {
        let at = self.common.private.translate(pages, code, by, self.cycle)?;
        if at == UNKNOWN {
            return Some(Step::Wait(Blocked::Translation, StallOn::Tlb));
        }
        self.pass_to(at.min(until), Reason::Tlb);
        Some(Step::Again)
    }

    /// Waits for sources, and for earlier writers of the results; `None` if all are there.
    #[inline]
    fn operands(&mut self, uop: &Uop, until: Cycle) -> Option<Step> {
        let latency = self.common.latency(uop.op);
        if self.needed(uop, latency).cycle() <= self.cycle && !uop.serializing {
            return None;
        }
        self.wait_for_operands(uop, latency, until)
    }

    /// The latest of an operation's sources, and of earlier writers of its results: results appear
    /// in order, so a writer may follow an earlier one at the distance of its latency.
    #[inline]
    fn needed(&self, uop: &Uop, latency: Cycle) -> Ready {
        debug_assert_eq!(self.ready[usize::from(NO_REG)], Ready(0), "nobody writes it");
        let ready = |n: u8| self.ready[usize::from(n) % REGISTERS];
        let [a, b, c, d] = uop.sources.map(ready);
        let [x, y] = uop.results.map(ready);
        a.max(b).max(c.max(d)).max(x.max(y).earlier(latency))
    }

    fn wait_for_operands(&mut self, uop: &Uop, latency: Cycle, until: Cycle) -> Option<Step> {
        let mut ready = Ready(0);
        let mut owed = false;
        let sources = uop.sources.iter().map(|n| (n, 0));
        for (&n, early) in sources.chain(uop.results.iter().map(|n| (n, latency))) {
            let register = self.ready[usize::from(n)];
            if register == Ready::UNKNOWN {
                owed = true;
            } else {
                ready = ready.max(register.earlier(early));
            }
        }
        // Results alone: stores may still drain behind it (Intel SDM, SYSCALL: what follows may run
        // before data that was stored earlier is visible to others).
        if uop.serializing {
            if self.owed > 0 {
                return Some(Step::Wait(Blocked::Drain, StallOn::Data));
            }
            if self.last_known > ready.cycle() {
                ready = Ready::at(self.last_known, Reason::System);
            }
        }
        if ready.cycle() > self.cycle {
            self.pass_to(ready.cycle().min(until), ready.reason());
            return Some(Step::Again);
        }
        owed.then_some(Step::Wait(Blocked::Operands, StallOn::Data))
    }

    /// Waits for a place in this cycle and in the unit; `None` if there is one.
    #[inline]
    fn room(&mut self, uop: &Uop, until: Cycle) -> Option<Step> {
        let unit = uop.op.unit() as usize;
        let width = self.common.spec.width as u64;
        if self.issued >= width || self.issued_in.of(unit) >= self.limits[unit] {
            self.pass_to(self.cycle + 1, Reason::Base);
            return Some(Step::Again);
        }
        let divides = matches!(uop.op, Op::Divide | Op::FpDivide);
        if divides && self.divide_free > self.cycle {
            self.pass_to(self.divide_free.min(until), Reason::Dependency);
            return Some(Step::Again);
        }
        if let Some(gates) = &mut self.common.unit_gates {
            let ready = gates.needed(uop.op.unit(), self.cycle);
            if ready > self.cycle {
                self.pass_to(ready.min(until), Reason::Dependency);
                return Some(Step::Again);
            }
        }
        None
    }

    fn is_unit_fresh(&self, uop: &Uop, cycle: Cycle) -> bool {
        let gates = self.common.unit_gates.as_ref();
        gates.is_none_or(|gates| gates.is_fresh(uop.op.unit(), cycle))
    }

    /// The operation in front issues. Always inlined: a tenth of the host time of arithmetic.
    #[inline(always)]
    fn issue(&mut self, uop: &Uop) {
        self.issued += 1;
        self.issued_in.count(uop.op.unit() as usize);
        if let Some(gates) = &mut self.common.unit_gates {
            gates.used(uop.op.unit(), self.cycle + self.common.latencies[uop.op as usize]);
        }
        if uop.branch != Branch::None {
            let (guess, taken) = self.common.branch(uop);
            if guess == Guess::Wrong {
                // Wrong-path instructions are not in the trace: the front end stands still until
                // the branch has its result, and begins to refill then.
                let resolved = self.cycle + self.common.latency(uop.op);
                self.redirect(resolved + self.common.spec.refill, Reason::Branch);
            } else if guess == Guess::Redirected {
                self.redirect(self.cycle + self.common.redirect, Reason::Branch);
            } else if taken {
                self.redirect(self.cycle + 1, Reason::Base);
            }
        }
        if uop.serializing {
            let done = self.cycle + self.common.latency(uop.op);
            self.redirect(done + self.common.spec.refill, Reason::System);
        }
        self.common.front_end.pass_uop();
    }

    fn redirect(&mut self, at: Cycle, reason: Reason) {
        // A serializing branch redirects twice: the later one counts, with its reason.
        if at > self.front {
            self.front = at;
            self.front_reason = reason;
        }
    }

    #[inline]
    fn write(&mut self, uop: &Uop, ready: Cycle, reason: Reason) {
        for r in uop.results.map(usize::from) {
            self.ready[r % REGISTERS] = Ready::at(ready, reason);
        }
        // Written for each missing result and mended here: cheaper than to ask each time.
        self.ready[usize::from(NO_REG)] = Ready(0);
        self.last_known = self.last_known.max(ready);
    }
}
