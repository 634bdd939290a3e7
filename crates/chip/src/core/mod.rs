//! A core: a pipeline, its power state, and the clock that joins them.

mod begin;
mod flush;
mod followers;
mod halt;
mod hearing;
mod in_order;
mod inbox;
mod input;
mod kind;
mod out_of_order;
mod pipeline;
mod preheat;
mod sharing;
mod thread;
mod waited;

use halfwink_engine::Histogram;
use halfwink_policy::gating::{Bound, Event, Token};
use halfwink_power::CoreState;
use halfwink_trace::TraceError;
use halfwink_units::{Clock, Cycle, LineAddr, Time};

use crate::faults::Met;
use crate::gate::{Gate, PolicyError, Stepped};
use crate::machine::{BranchSpec, TokenSpec};
use crate::memory::Undecided;
use crate::os_cores::{Calls, Departure};
use crate::package::Halts;
use crate::private::{Notice, Warm};
use crate::uncore::{Answer, AnsweredBy, Level};
use flush::Flush;
pub(crate) use followers::Followers;
use followers::{End, EndCause};
use inbox::Inbox;
pub(crate) use inbox::Message;
pub(crate) use input::{CoreInput, FollowerInput, Policies};
use kind::Pipeline;
use pipeline::{Common, Pause, Stall};
use preheat::Preheat;
pub use preheat::PreheatCounts;
pub(crate) use sharing::Shared;
pub(crate) use thread::{Thread, ThreadContext};
pub(crate) use waited::Waited;

/// Phase of a core, beyond its power state.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    /// Waiting for the shared levels.
    Stalled {
        stall: Stall,
        /// Set once the pipeline could move: when, and who answered.
        movable: Option<(Time, AnsweredBy)>,
    },
    /// Halted by the operating system until an interrupt, or without a thread until one arrives.
    Halted {
        wake_at: Time,
        woken: bool,
    },
    /// Loading lines before the interrupt that ends its halt.
    Preheating,
    /// Waiting for that interrupt, awake.
    Resting {
        until: Time,
    },
    /// No thread, and none on its way.
    Vacant,
    Finished,
}

/// News that a policy need not hear while its core runs.
const MOST_NEWS: usize = 256;

/// The run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The policy asked for the impossible.
    #[error("core {0}: {1}")]
    Policy(usize, PolicyError),
    /// The policy of its second level asked for a rule that it cannot have.
    #[error("core {0}: the segregation policy asked for {1}")]
    Rule(usize, &'static str),
    /// The policy gated the core, all answers came, and it never woke it.
    #[error("core {core}: the gating policy left it {} at {at} with work to do", .state.name())]
    LeftAsleep {
        /// Which core, from 0; those for the kernel come last.
        core: usize,
        /// Time at which no further event could come.
        at: Time,
        /// The power state that it would stay in.
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
    /// Gates of techniques that follow this run.
    pub(crate) followers: Followers,
    /// Whether a policy needs tokens.
    hears_tokens: bool,
    /// Faults of the core and its thread, if any are enabled.
    met: Met,
    inbox: Inbox,
    /// Requests so far that it waited for.
    awaited: u64,
    /// Shortest time from the arrival of a request at the shared levels to the answer.
    shortest_answer: Time,
    /// Shortest time from an act of the core until another part of the chip can notice it.
    shortest_message: Time,
    /// Whether its wake-up controller is notified of its power states.
    reports: bool,
    phase: Phase,
    /// Write-back before the supply goes off, if one is under way.
    flush: Option<Box<Flush>>,
    /// Lines to load in its first halt.
    preheat: Option<Box<Preheat>>,
    /// Description of its predictor, from which an untrained one is made.
    branch: BranchSpec,
    local: Time,
    /// Other cores may take its thread, and give it theirs.
    shares: bool,
    /// Time and reason of the loss of its thread.
    pub(crate) departure: Option<(Time, Departure)>,
    /// Time without work is due to a thread that is on another core.
    away: bool,
    /// Cycles that it costs to give a thread away, or to take one over.
    switch: Cycle,
    /// The thread that it ran last, by its memory.
    last_thread: Option<usize>,
    /// Time and reason of its thread's departure from the last core.
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
    /// Whether its operating system skips a halt if there is work by then. (Where a state is left
    /// in nanoseconds it makes no difference, and published machines have no other states.)
    looks_again: bool,
    /// Times from each halt to its interrupt, where the package may sleep meanwhile.
    halts: Option<Halts>,
    running_from: Cycle,
    /// Cycles in which the pipeline ran.
    pub(crate) running_cycles: Cycle,
}

impl Core {
    pub(crate) fn common(&self) -> &Common {
        self.pipeline.common()
    }

    pub(crate) fn common_mut(&mut self) -> &mut Common {
        self.pipeline.common_mut()
    }

    /// Returns what it loaded before its interrupt.
    pub(crate) fn preheated(&self) -> PreheatCounts {
        self.preheat.as_ref().map(|preheat| preheat.counts).unwrap_or_default()
    }

    /// Fills the caches with a line as the shared levels see it, as it was before the run.
    pub(crate) fn warm(&mut self, line: u64, how: Warm) {
        self.pipeline.common_mut().private.warm(line, how);
    }

    /// Returns the rule that the policy of its second level requested but the cache cannot have.
    pub(crate) fn impossible_rule(&self) -> Option<CoreError> {
        let why = self.common().private.l2.ruled()?.error?;
        Some(CoreError::Rule(self.index, why))
    }

    pub(crate) fn fail_of_source(&mut self) -> Option<TraceError> {
        self.pipeline.common_mut().front_end.error.take()
    }

    #[cfg(test)]
    pub(crate) fn never_skip(&mut self) {
        self.pipeline.never_skip();
    }

    /// Takes the latencies of requests that were completed here since the last call.
    pub(crate) fn completed(&mut self) -> impl Iterator<Item = Time> + '_ {
        self.pipeline.common_mut().completed.drain(..)
    }

    /// Time from the begin of its work to its end, as far as it lies before `now`.
    pub(crate) fn run_before(&self, now: Time) -> Time {
        self.finished.map_or(now, |end| end.min(now)).saturating_sub(self.started)
    }

    /// Returns the time up to which it was simulated.
    pub(crate) fn reached(&self) -> Time {
        self.local
    }

    /// Returns the time up to which it was simulated, and the first time at which its acts can
    /// reach another part of the chip; an idle core does nothing by itself.
    #[inline]
    pub(crate) fn progress(&self, undecided: Undecided) -> Option<(Time, Time)> {
        let acts = match self.phase {
            Phase::Vacant => {
                let next = self.vacant_progress(undecided)?;
                return Some((next, next.saturating_add(self.shortest_message)));
            }
            Phase::Finished => return None,
            // Nothing moves before something is heard, which need not be worked out first.
            Phase::Stalled { movable: None, .. } if !self.reports => {
                let heard = self.inbox.next_message(undecided).min(self.inbox.next_time());
                self.local.max(heard)
            }
            _ => self.local,
        };
        Some((self.local, acts.saturating_add(self.shortest_message)))
    }

    /// Returns the shortest time from an act of the core until another part of the chip can notice
    /// it.
    pub(crate) fn shortest_message(&self) -> Time {
        self.shortest_message
    }

    /// Goes on until it has to hear from outside, or `limit`.
    pub(crate) fn advance(&mut self, limit: Time, shared: &mut Shared) -> Result<(), CoreError> {
        loop {
            // Asked anew each time: what was just sent has a reply, and that is a nearer horizon.
            let limit = limit.min(self.inbox.horizon(shared.uncore.memory.undecided()));
            let goes_on = match self.phase {
                Phase::Running => self.run(limit, shared)?,
                Phase::Stalled { stall, movable } => {
                    let goes_on = self.stalled(limit, stall, movable)?;
                    self.send_reports(shared);
                    if self.shares {
                        // An answer may have made a request.
                        self.collect(shared)?;
                    }
                    goes_on
                }
                Phase::Halted { wake_at, woken } => {
                    let goes_on = self.halted(limit, wake_at, woken)?;
                    if self.loses() {
                        self.collect(shared)?;
                    }
                    goes_on
                }
                Phase::Preheating => {
                    let goes_on = self.preheating(limit)?;
                    self.collect(shared)?;
                    goes_on
                }
                Phase::Resting { until } => self.resting(limit, until),
                Phase::Vacant if self.loses() => {
                    let goes_on = self.vacant(limit)?;
                    self.collect(shared)?;
                    goes_on
                }
                Phase::Vacant | Phase::Finished => false,
            };
            let must_pause = &mut self.pipeline.common_mut().private.must_pause;
            if std::mem::take(must_pause) || !goes_on {
                return Ok(());
            }
        }
    }

    /// Runs the pipeline; false if it has reached `limit`.
    fn run(&mut self, limit: Time, shared: &mut Shared) -> Result<bool, CoreError> {
        let message_at = self.inbox.next_time();
        let stop = limit.min(message_at);
        // A pipeline has nothing between two edges: what comes there is heard at the second.
        let until =
            if stop == Time::NEVER { Cycle::MAX } else { self.clock.cycle_at_or_after(stop) };
        let pause = self.pipeline.run(until);
        self.collect(shared)?;
        self.check_units()?;
        let now = self.clock.time_of(self.pipeline.cycle());
        self.local = self.local.max(now);
        match pause {
            // It made a request and stopped early; the inbox has a new horizon now.
            Pause::Limit if self.pipeline.cycle() < until => return Ok(true),
            Pause::Limit if message_at <= limit && message_at != Time::NEVER => {
                self.open_while_running(until)?;
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
                self.units_follow(since);
                self.followers.wait_begins(since, false);
            }
            Pause::Halted { at, from_ns, to_ns } => return self.halt(at, from_ns, to_ns),
            Pause::Left => {
                let why = self.pipeline.common_mut().reason_to_leave();
                return self.leave(why);
            }
            Pause::Finished(_) if self.shares => return self.leave(Departure::Ends),
            Pause::Finished(cycle) => {
                self.running_cycles += cycle - self.running_from;
                let at = self.clock.time_of(cycle);
                self.gate.finish(at).map_err(|e| self.policy_error(e))?;
                self.units_follow(at);
                self.followers.finish(at);
                self.finished = Some(at);
                self.phase = Phase::Finished;
                self.local = Time::NEVER;
            }
        }
        Ok(true)
    }

    /// Takes the first message; the pipeline has come up to its cycle.
    fn open_while_running(&mut self, cycle: Cycle) -> Result<(), CoreError> {
        match self.inbox.pop() {
            Some((at, Message::Answer(answer))) => {
                let answer = self.remembered(answer);
                self.pipeline.answer(&answer, cycle);
                if self.common().private.answer_was_wanted {
                    self.tell(at, Event::Response { line: LineAddr(answer.line) }, None);
                }
                Ok(())
            }
            Some((at, Message::Grant(wake_up))) => {
                self.gate.grant(at, wake_up).map_err(|e| self.policy_error(e))
            }
            Some((_, Message::Thread(_))) | None => unreachable!("only replies wait in an inbox"),
        }
    }

    /// Passes on what the pipeline produced.
    fn collect(&mut self, shared: &mut Shared) -> Result<(), CoreError> {
        let common = self.pipeline.common_mut();
        for (arrival, mut request) in common.private.requests.drain(..) {
            if request.want.is_awaited() {
                self.awaited += 1;
                request.number = self.awaited;
                // A busy bank, another core or memory only add to this: no answer comes earlier.
                self.inbox.expect_answer(request.number, arrival + self.shortest_answer);
            }
            shared.uncore.push(arrival, request);
        }
        if !common.marks.is_empty() {
            common.count_requests();
        }
        if self.hears_tokens {
            self.pass_notices()?;
        }
        Ok(())
    }

    /// Tells the wake-up controller what happened to the power.
    fn send_reports(&mut self, shared: &mut Shared) {
        let Some(controller) = &mut shared.wake_up else { return };
        for (at, event) in self.gate.reports() {
            if let Some(reply) = controller.push(at, event) {
                self.inbox.expect_grant(reply);
            }
        }
    }

    fn pass_notices(&mut self) -> Result<(), CoreError> {
        let (clock, tokens) = (self.clock, self.tokens);
        let common = self.pipeline.common_mut();
        let Some(notices) = &mut common.private.notices else { return Ok(()) };
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
            let Some(at) = self.met.arrival(at, &event) else { continue };
            if self.gate.is_told(None) {
                self.gate.schedule(at, event);
            }
            self.followers.tell(at, event, None);
        }
        // A core that never stalls must not hoard news. When it hears them changes nothing: each
        // comes with its own time, in order, and a running core has nothing to be asked for.
        let now = self.clock.time_of(self.pipeline.cycle());
        if self.gate.pending() > MOST_NEWS {
            self.gate.catch_up(now).map_err(|e| self.policy_error(e))?;
        }
        self.followers.catch_up(now, MOST_NEWS);
        Ok(())
    }

    /// An answer, with whether a sleep made it necessary.
    #[inline]
    fn remembered(&mut self, answer: Answer) -> Answer {
        match &mut self.pipeline.common_mut().private.losing {
            None => answer,
            Some(losing) => Answer { lost: losing.answered(answer.line), ..answer },
        }
    }

    fn policy_error(&self, error: PolicyError) -> CoreError {
        CoreError::Policy(self.index, error)
    }

    /// Waits for an answer, or for the power to come back; false if `limit` is reached.
    fn stalled(
        &mut self,
        limit: Time,
        stall: Stall,
        movable: Option<(Time, AnsweredBy)>,
    ) -> Result<bool, CoreError> {
        let message_at = self.inbox.next_time();
        let gate_at = self.gate.next_time();
        let at = message_at.min(gate_at);
        if at >= limit {
            // No message, none owed, no transition and no timer: saying so beats hanging. A policy
            // that sleeps through its answers ends here, and so would a wrong pipeline.
            if at == Time::NEVER && self.inbox.horizon(Undecided::default()) == Time::NEVER {
                return Err(self.stuck(movable.is_some()));
            }
            self.local = self.local.max(limit.min(at));
            return Ok(false);
        }
        self.local = self.local.max(at);
        // At equal times: transitions, messages, other news of the policy, timers. A fixed order,
        // whoever was simulated first: a core whose restoring ends as its answer comes is not late.
        if gate_at < message_at || gate_at == message_at && self.gate.is_in_transition(at) {
            let stepped = self.gate.step(at).map_err(|e| self.policy_error(e))?;
            if let (Stepped::Awake, Some((since, by))) = (stepped, movable) {
                self.late += at - since;
                self.late_wakes += 1;
                let end = self.end_stall(at, stall, by)?;
                self.followers.wake(end);
            }
            return Ok(true);
        }
        self.followers.come_to(at, movable.is_some());
        match self.inbox.pop() {
            Some((at, Message::Answer(answer))) => {
                let answer = self.remembered(answer);
                self.answered(at, &answer, stall, movable)?;
            }
            Some((at, Message::Grant(wake_up))) => {
                self.gate.grant(at, wake_up).map_err(|e| self.policy_error(e))?;
            }
            Some((_, Message::Thread(_))) | None => unreachable!("only replies wait in an inbox"),
        }
        Ok(true)
    }

    /// The shared levels answer a core that waits.
    fn answered(
        &mut self,
        at: Time,
        answer: &Answer,
        stall: Stall,
        movable: Option<(Time, AnsweredBy)>,
    ) -> Result<(), CoreError> {
        let cycle = self.clock.cycle_at_or_after(at);
        let moves = self.pipeline.answer(answer, cycle);
        if !moves && !self.common().private.answer_was_wanted {
            // Nobody waits for a prefetch, and no policy hears of it.
            return Ok(());
        }
        let response = Event::Response { line: LineAddr(answer.line) };
        if moves && movable.is_none() && self.gate.is_powered() {
            let end = self.end_stall(at, stall, answer.by())?;
            // Behind the end of the stall, and only as news: a running core cannot be gated.
            self.gate.schedule(at, response);
            self.followers.answered(end, response);
            return Ok(());
        }
        // It could go on, but sleeps. The first answer that could have moved it names the stall's
        // reason and begins its lateness; later ones find it movable already.
        let could_move = moves && movable.is_none();
        if could_move {
            self.phase = Phase::Stalled { stall, movable: Some((at, answer.by())) };
        }
        self.followers.respond(at, &response, could_move);
        self.gate.deliver(at, &response).map_err(|e| self.policy_error(e))
    }

    /// The pipeline goes on at the first clock edge from `at` on.
    fn end_stall(&mut self, at: Time, stall: Stall, by: AnsweredBy) -> Result<End, CoreError> {
        self.gate.wait_ends(at, false).map_err(|e| self.policy_error(e))?;
        let cycle = self.clock.cycle_at_or_after(at);
        // Up to the edge nothing can move: that time belongs to the stall, or cycles and power
        // states would not add up to the same time.
        let edge = self.clock.time_of(cycle);
        let span = edge - self.clock.time_of(stall.since);
        self.stalls.record(span);
        if by.level == Level::Memory {
            self.memory_stalls.record(span);
        }
        let spent = self.gate.run(edge);
        self.units_follow(edge);
        let (kernel, reason) = (stall.kernel, stall.on.reason(by));
        self.waited.post(spent, kernel, reason);
        self.resume(cycle);
        Ok(End { at, edge, cause: EndCause::Stall { kernel, reason } })
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
        let (gate_at, flush_at) = (self.gate.next_time(), self.flush_at());
        let at = wake.min(gate_at).min(flush_at);
        if at >= limit {
            if at == Time::NEVER && self.flush.is_none() {
                return Err(self.stuck(true));
            }
            self.local = self.local.max(limit.min(at));
            return Ok(false);
        }
        self.local = self.local.max(at);
        // At equal times transitions come first, as in a stall.
        if flush_at < gate_at && flush_at <= wake {
            self.step_flush(at);
            return Ok(true);
        }
        let is_interrupt = wake < gate_at;
        let awake;
        if !is_interrupt {
            let stepped = self.gate.step(at).map_err(|e| self.policy_error(e))?;
            self.look_at_caches(at);
            awake = woken && stepped == Stepped::Awake;
        } else {
            self.phase = Phase::Halted { wake_at, woken: true };
            self.gate.wait_ends(at, true).map_err(|e| self.policy_error(e))?;
            awake = self.gate.is_powered();
            self.followers.interrupted(at, awake);
        }
        if awake {
            let cycle = self.clock.cycle_at_or_after(at);
            let edge = self.clock.time_of(cycle);
            let spent = self.gate.run(edge);
            self.units_follow(edge);
            self.waited.post_idle(spent, self.away);
            let end = End { at, edge, cause: EndCause::Halt };
            if is_interrupt {
                self.followers.run(end);
            } else {
                self.followers.wake(end);
            }
            if self.begin_preheat(cycle) {
                return Ok(true);
            }
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
