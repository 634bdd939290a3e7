//! A core: a pipeline, its power state, and the clock that joins them.

mod in_order;
mod out_of_order;
mod pipeline;
mod thread;
mod waited;

use std::collections::VecDeque;

use halfwink_engine::{Class, EventQueue, Histogram};
use halfwink_policy::gating::{Bound, Event, GatingPolicy, Token};
use halfwink_power::CoreState;
use halfwink_trace::{LoadKind, TraceError};
use halfwink_units::{Clock, Cycle, LineAddr, Time};

use crate::account::Reason;
use crate::gate::{Gate, PolicyError, Report, Stepped};
use crate::machine::{CoreKind, Machine, TokenSpec, WakeUpKind};
use crate::os_cores::Calls;
use crate::private::{Notice, Warm};
use crate::timeline::Timeline;
use crate::uncore::{Answer, Level, Uncore};
use in_order::InOrder;
use out_of_order::OutOfOrder;
use pipeline::{Common, Pause, Stall};
use thread::Baggage;
pub(crate) use thread::{Departure, Thread};
use waited::Waited;

/// Either kind of pipeline.
enum Pipeline {
    InOrder(Box<InOrder>),
    OutOfOrder(Box<OutOfOrder>),
}

macro_rules! each_kind {
    ($self:expr, $pipeline:ident => $body:expr) => {
        match $self {
            Pipeline::InOrder($pipeline) => $body,
            Pipeline::OutOfOrder($pipeline) => $body,
        }
    };
}

impl Pipeline {
    fn run(&mut self, until: Cycle) -> Pause {
        each_kind!(self, p => p.run(until))
    }

    fn begin(&mut self, cycle: Cycle) {
        each_kind!(self, p => p.begin(cycle));
    }

    /// Lets kernel cycles pass in which the core is busy with something that is not in the feed.
    fn spend(&mut self, cycles: Cycle, reason: Reason) {
        each_kind!(self, p => {
            p.common.active.add(true, reason, cycles);
            p.cycle += cycles;
        });
    }

    fn resume(&mut self, cycle: Cycle) {
        each_kind!(self, p => p.resume(cycle));
    }

    fn answer(&mut self, answer: &Answer, at: Cycle) -> bool {
        each_kind!(self, p => p.answer(answer, at))
    }

    fn cycle(&self) -> Cycle {
        each_kind!(self, p => p.cycle)
    }

    fn common(&self) -> &Common {
        each_kind!(self, p => &p.common)
    }

    fn common_mut(&mut self) -> &mut Common {
        each_kind!(self, p => &mut p.common)
    }
}

/// What a core is doing, beyond its power state.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    /// Waiting for the shared levels.
    Stalled {
        stall: Stall,
        /// Set once the pipeline could move: when, and who answered.
        movable: Option<(Time, Level)>,
    },
    /// Halted by the operating system until an interrupt, or without a thread until one arrives.
    Halted {
        wake_at: Time,
        woken: bool,
    },
    /// No thread, and none on its way.
    Vacant,
    Finished,
}

/// The run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The policy asked for the impossible.
    #[error("core {0}: {1}")]
    Policy(usize, PolicyError),
    /// The policy gated the core, all answers came, and it never woke it.
    #[error("core {core}: the gating policy left it {} at {at} with work to do", .state.name())]
    LeftAsleep {
        /// Which core.
        core: usize,
        /// When nothing more could happen.
        at: Time,
        /// In which state.
        state: CoreState,
    },
    /// The model itself is wrong.
    #[error("core {0}: the pipeline waits at {1} for something that nobody owes it")]
    Deadlock(usize, Time),
}

/// One core of the chip.
pub(crate) struct Core {
    index: usize,
    clock: Clock,
    tokens: TokenSpec,
    l2_span: Time,
    l3_latency: Time,
    pipeline: Pipeline,
    pub(crate) gate: Gate,
    answers: EventQueue<Answer>,
    /// Arrivals of requests that the shared levels have not served.
    unserved: VecDeque<Time>,
    shortest_answer: Time,
    /// From anything that the core does until another part of the chip can notice.
    shortest_message: Time,
    phase: Phase,
    local: Time,
    pub(crate) baggage: Baggage,
    /// Other cores may take its thread, and give it theirs.
    shares: bool,
    /// When and why it lost its thread.
    pub(crate) departure: Option<(Time, Departure)>,
    /// Time without work is due to a thread that is on another core.
    away: bool,
    /// Cycles that it costs to give a thread away, or to take one over.
    switch: Cycle,
    /// The thread that it ran last, by its memory.
    last_thread: Option<usize>,
    /// When and why the thread that it runs left its last core.
    left: (Time, Departure),
    /// Kernel invocations of the thread that began here.
    pub(crate) calls: Calls,
    pub(crate) stalls: Histogram,
    pub(crate) memory_stalls: Histogram,
    /// Time in each power state, by mode and reason, of stalls; idle time is user-less.
    pub(crate) waited: Waited,
    /// Time by which wake-ups were too late for a response.
    pub(crate) late: Time,
    pub(crate) late_wakes: u64,
    pub(crate) started: Time,
    pub(crate) finished: Option<Time>,
    running_from: Cycle,
    /// Cycles in which the pipeline ran.
    pub(crate) running_cycles: Cycle,
}

/// What a core is built from, besides the machine.
pub(crate) struct CoreInput {
    /// `None`: a core that waits for threads of others.
    pub(crate) thread: Option<Thread>,
    /// Its threads may go to other cores.
    pub(crate) shares: bool,
    pub(crate) policy: GatingPolicy,
    pub(crate) start: Time,
    pub(crate) timeline: Option<Timeline>,
}

impl Core {
    pub(crate) fn new(
        machine: &Machine,
        index: usize,
        input: CoreInput,
    ) -> Result<Core, CoreError> {
        let mut gate = Gate::new(input.policy, machine.gating_costs(index), input.timeline);
        let vacant = input.thread.is_none();
        let thread = input.thread.unwrap_or_else(Thread::none);
        let mut common = Common::new(machine, index, thread.feed, gate.hears_tokens);
        common.private.shares = input.shares;
        let shortest_request = machine.clock.time_of(common.private.shortest_request());
        let is_central = machine.wake_up.controller == WakeUpKind::Central && !input.shares;
        let delay = machine.wake_up.delay;
        gate.report = is_central.then(|| Report::new(delay + delay));
        let shortest_message =
            if is_central { shortest_request.min(delay) } else { shortest_request };
        let mut pipeline = match machine.core.kind {
            CoreKind::InOrder => Pipeline::InOrder(Box::new(InOrder::new(common))),
            CoreKind::OutOfOrder(_) => Pipeline::OutOfOrder(Box::new(OutOfOrder::new(common))),
        };
        let first = machine.clock.cycle_at_or_after(input.start);
        let started = machine.clock.time_of(first);
        pipeline.resume(first);
        if vacant {
            gate.wait_begins(started, true).map_err(|error| CoreError::Policy(index, error))?;
        } else {
            gate.begin(started);
        }
        Ok(Core {
            index,
            clock: machine.clock,
            tokens: machine.tokens,
            l2_span: machine.clock.time_of(machine.l2.latency),
            l3_latency: machine.l3.latency,
            pipeline,
            gate,
            answers: EventQueue::new(),
            unserved: VecDeque::new(),
            shortest_answer: machine.l3.latency,
            shortest_message,
            phase: if vacant { Phase::Vacant } else { Phase::Running },
            local: started,
            baggage: thread.baggage,
            shares: input.shares,
            departure: None,
            away: false,
            switch: machine.os.switch / 2,
            last_thread: (!vacant).then_some(index),
            left: (Time::ZERO, Departure::Ends),
            calls: Calls::default(),
            stalls: Histogram::default(),
            memory_stalls: Histogram::default(),
            waited: Waited::default(),
            late: Time::ZERO,
            late_wakes: 0,
            started,
            finished: None,
            running_from: first,
            running_cycles: 0,
        })
    }

    pub(crate) fn common(&self) -> &Common {
        self.pipeline.common()
    }

    /// Fills the caches with a line as the shared levels see it, as it was before the run.
    pub(crate) fn warm(&mut self, line: u64, how: Warm) {
        self.pipeline.common_mut().private.warm(line, how);
    }

    pub(crate) fn fail_of_source(&mut self) -> Option<TraceError> {
        self.pipeline.common_mut().feed.error.take()
    }

    #[cfg(test)]
    pub(crate) fn never_skip(&mut self) {
        if let Pipeline::OutOfOrder(pipeline) = &mut self.pipeline {
            pipeline.never_skip = true;
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished)
    }

    /// Nothing that this core does can reach the shared levels before this time.
    pub(crate) fn next_request(&self) -> Time {
        if self.is_finished() {
            return Time::NEVER;
        }
        self.local.saturating_add(self.shortest_message)
    }

    /// From anything that the core does until another part of the chip can notice.
    pub(crate) fn shortest_message(&self) -> Time {
        self.shortest_message
    }

    /// Nothing that the core has not heard can happen before this time.
    fn horizon(&self) -> Time {
        let served = self.unserved.front().map_or(Time::NEVER, |&at| at + self.shortest_answer);
        served.min(self.gate.next_answer())
    }

    /// The shared levels answer; also the end of the oldest request not served.
    pub(crate) fn hear(&mut self, answer: Answer) {
        self.unserved.pop_front();
        if self.gate.hears_tokens && answer.level == Level::Memory {
            let line = LineAddr(answer.line);
            let unknown = Token { line, created: answer.unknown_at, bound: Bound::Unknown };
            self.gate.tell_at(answer.unknown_at, Event::Token(unknown));
            let bound = Bound::Eta(answer.not_before - answer.estimated);
            let eta = Token { line, created: answer.estimated, bound };
            self.gate.tell_at(answer.estimate_at, Event::Token(eta));
        }
        self.answers.push(answer.at, Class(0), answer);
    }

    /// Goes on until the core has to hear from the shared levels, or `limit`.
    pub(crate) fn advance(&mut self, limit: Time, uncore: &mut Uncore) -> Result<(), CoreError> {
        loop {
            let limit = limit.min(self.horizon());
            let goes_on = match self.phase {
                Phase::Running => self.run(limit, uncore)?,
                Phase::Stalled { stall, movable } => {
                    let goes_on = self.stalled(limit, stall, movable)?;
                    if self.shares {
                        // An answer may have made a request.
                        self.collect(uncore);
                    }
                    goes_on
                }
                Phase::Halted { wake_at, woken } => self.halted(limit, wake_at, woken)?,
                Phase::Vacant | Phase::Finished => false,
            };
            let must_pause = &mut self.pipeline.common_mut().private.must_pause;
            if std::mem::take(must_pause) || !goes_on {
                return Ok(());
            }
        }
    }

    /// Runs the pipeline; false if it has reached `limit`.
    fn run(&mut self, limit: Time, uncore: &mut Uncore) -> Result<bool, CoreError> {
        let answer_at = self.answers.next_time().unwrap_or(Time::NEVER);
        let stop = limit.min(answer_at);
        let until =
            if stop == Time::NEVER { Cycle::MAX } else { self.clock.cycle_at_or_after(stop) };
        let pause = self.pipeline.run(until);
        self.collect(uncore);
        let now = self.clock.time_of(self.pipeline.cycle());
        self.local = self.local.max(now);
        match pause {
            Pause::Limit if self.pipeline.cycle() < until => return Ok(true),
            Pause::Limit if answer_at <= limit && answer_at != Time::NEVER => {
                let (at, answer) = self.answers.pop().expect("there is an answer");
                self.pipeline.answer(&answer, until);
                if self.gate.hears_tokens {
                    self.gate.tell_at(at, Event::Response { line: LineAddr(answer.line) });
                }
            }
            Pause::Limit => {
                self.local = self.local.max(limit);
                return Ok(false);
            }
            Pause::Stalled(stall) => {
                self.running_cycles += stall.since - self.running_from;
                self.phase = Phase::Stalled { stall, movable: None };
                let since = self.clock.time_of(stall.since);
                self.gate.wait_begins(since, false).map_err(|e| self.policy_error(e))?;
            }
            Pause::Halted { at, from_ns, to_ns } => return self.halt(at, from_ns, to_ns),
            Pause::Left => {
                let os = &mut self.pipeline.common_mut().feed.os;
                let why = os.as_mut().map_or(Departure::Crosses, |os| os.leaves());
                return self.leave(why);
            }
            Pause::Finished(_) if self.shares => return self.leave(Departure::Ends),
            Pause::Finished(cycle) => {
                self.running_cycles += cycle - self.running_from;
                let at = self.clock.time_of(cycle);
                self.gate.finish(at);
                self.finished = Some(at);
                self.phase = Phase::Finished;
                self.local = Time::NEVER;
            }
        }
        Ok(true)
    }

    /// Passes on what the pipeline produced.
    fn collect(&mut self, uncore: &mut Uncore) {
        let common = self.pipeline.common_mut();
        for (arrival, request) in common.private.requests.drain(..) {
            if request.want.is_awaited() {
                self.unserved.push_back(arrival);
            }
            uncore.push(arrival, request);
        }
        if !common.marks.is_empty() {
            self.count_requests();
        }
        if self.gate.hears_tokens {
            self.pass_notices();
        }
    }

    fn pass_notices(&mut self) {
        let (clock, tokens) = (self.clock, self.tokens);
        let common = self.pipeline.common_mut();
        let Some(notices) = &mut common.private.notices else { return };
        for notice in notices.drain(..) {
            let (at, event) = match notice {
                Notice::MissedL1 { line, at } => {
                    let created = clock.time_of(at) + tokens.l1;
                    let bound = Bound::NotBefore(self.l2_span);
                    (created, Event::Token(Token { line: LineAddr(line), created, bound }))
                }
                Notice::MissedL2 { line, at } => {
                    let created = clock.time_of(at) + tokens.l2;
                    let bound = Bound::NotBefore(self.l3_latency);
                    (created, Event::Token(Token { line: LineAddr(line), created, bound }))
                }
                Notice::L2Answer { line, at } => {
                    (clock.time_of(at), Event::Response { line: LineAddr(line) })
                }
            };
            self.gate.tell_at(at, event);
        }
        // A core that never stalls must not hoard news.
        if self.gate.unheard() > 256 {
            self.gate.tell_all(self.clock.time_of(self.pipeline.cycle()));
        }
    }

    fn halt(&mut self, at: Cycle, from_ns: u64, to_ns: u64) -> Result<bool, CoreError> {
        let now = self.clock.time_of(at);
        let origin = &mut self.baggage.origin;
        let wake_at = match self.baggage.load {
            LoadKind::Closed => now + Time::ns(to_ns - from_ns),
            LoadKind::Open => {
                origin.at(from_ns, now);
                origin.at(to_ns, now).max(now)
            }
        };
        if self.shares {
            return self.leave(Departure::Sleeps(wake_at));
        }
        self.running_cycles += at - self.running_from;
        self.phase = Phase::Halted { wake_at, woken: false };
        self.gate.wait_begins(now, true).map_err(|e| self.policy_error(e))?;
        Ok(true)
    }

    fn policy_error(&self, error: PolicyError) -> CoreError {
        CoreError::Policy(self.index, error)
    }

    /// Waits for an answer, or for the power to come back; false if `limit` is reached.
    fn stalled(
        &mut self,
        limit: Time,
        stall: Stall,
        movable: Option<(Time, Level)>,
    ) -> Result<bool, CoreError> {
        let answer_at = self.answers.next_time().unwrap_or(Time::NEVER);
        let gate_at = self.gate.next_time();
        let at = answer_at.min(gate_at);
        if at >= limit {
            if at == Time::NEVER && self.horizon() == Time::NEVER {
                return Err(self.stuck(movable.is_some()));
            }
            self.local = self.local.max(limit.min(at));
            return Ok(false);
        }
        self.local = self.local.max(at);
        if gate_at < answer_at || gate_at == answer_at && self.gate.is_in_transition(at) {
            let stepped = self.gate.step(at).map_err(|e| self.policy_error(e))?;
            if let (Stepped::Awake, Some((since, level))) = (stepped, movable) {
                self.late += at - since;
                self.late_wakes += 1;
                self.end_stall(at, stall, level)?;
            }
            return Ok(true);
        }
        let (at, answer) = self.answers.pop().expect("there is an answer");
        let cycle = self.clock.cycle_at_or_after(at);
        let moves = self.pipeline.answer(&answer, cycle);
        let line = LineAddr(answer.line);
        if moves && movable.is_none() && self.gate.is_powered() {
            self.end_stall(at, stall, answer.level)?;
            self.gate.tell_at(at, Event::Response { line });
            return Ok(true);
        }
        if moves && movable.is_none() {
            self.phase = Phase::Stalled { stall, movable: Some((at, answer.level)) };
        }
        self.gate.tell(at, &Event::Response { line }).map_err(|e| self.policy_error(e))?;
        Ok(true)
    }

    /// The pipeline goes on at the first clock edge from `at` on.
    fn end_stall(&mut self, at: Time, stall: Stall, level: Level) -> Result<(), CoreError> {
        self.gate.wait_ends(at, false).map_err(|e| self.policy_error(e))?;
        let cycle = self.clock.cycle_at_or_after(at);
        let edge = self.clock.time_of(cycle);
        let span = edge - self.clock.time_of(stall.since);
        self.stalls.record(span);
        if level == Level::Memory {
            self.memory_stalls.record(span);
        }
        let spent = self.gate.run(edge);
        self.waited.post(spent, stall.kernel, stall.on.reason(level));
        self.resume(cycle);
        Ok(())
    }

    fn stuck(&self, has_work: bool) -> CoreError {
        if has_work || !self.gate.is_powered() {
            CoreError::LeftAsleep { core: self.index, at: self.local, state: self.gate.state() }
        } else {
            CoreError::Deadlock(self.index, self.local)
        }
    }

    /// Waits for the interrupt, then for the power to come back; false if `limit` is reached.
    fn halted(&mut self, limit: Time, wake_at: Time, woken: bool) -> Result<bool, CoreError> {
        let wake = if woken { Time::NEVER } else { wake_at };
        let gate_at = self.gate.next_time();
        let at = wake.min(gate_at);
        if at >= limit {
            if at == Time::NEVER {
                return Err(self.stuck(true));
            }
            self.local = self.local.max(limit.min(at));
            return Ok(false);
        }
        self.local = self.local.max(at);
        let mut awake = false;
        if gate_at <= wake {
            let stepped = self.gate.step(at).map_err(|e| self.policy_error(e))?;
            awake = woken && stepped == Stepped::Awake;
        } else {
            self.phase = Phase::Halted { wake_at, woken: true };
            self.gate.wait_ends(at, true).map_err(|e| self.policy_error(e))?;
            awake |= self.gate.is_powered();
        }
        if awake {
            let cycle = self.clock.cycle_at_or_after(at);
            let edge = self.clock.time_of(cycle);
            let spent = self.gate.run(edge);
            self.waited.post_idle(spent, self.away);
            self.resume(cycle);
            if self.shares {
                self.begin(cycle);
            }
        }
        Ok(true)
    }

    fn resume(&mut self, cycle: Cycle) {
        self.pipeline.resume(cycle);
        self.running_from = cycle;
        self.phase = Phase::Running;
    }
}
