//! Cores that give threads to each other and hold the same lines.

use halfwink_trace::LoadKind;
use halfwink_units::{Cycle, Time};

use super::pipeline::Common;
use super::{Core, CoreError, CoreInput, Phase, Policies, Thread, ThreadContext};
use crate::cpi_stack::Reason;
use crate::front_end::FrontEnd;
use crate::os_cores::{add_calls, Departure};
use crate::timeline::Timeline;
use crate::uncore::SnoopResult;
use crate::uncore::Uncore;
use crate::wake_up::WakeUpController;

/// State that cores share and modify.
pub(crate) struct Shared {
    pub(crate) uncore: Uncore,
    /// Central controller that grants wake-ups, if the machine has one.
    pub(crate) wake_up: Option<WakeUpController>,
}

impl<'a> CoreInput<'a> {
    /// Returns the input of a core for other cores' threads, from the beginning of time.
    pub(crate) fn vacant(policies: Policies, timeline: Option<Timeline>) -> CoreInput<'a> {
        let (followers, start) = (Vec::new(), Time::ZERO);
        CoreInput {
            thread: None,
            shares: true,
            policies,
            segregated: None,
            followers,
            start,
            timeline,
        }
    }
}

impl Core {
    /// The core loses its thread; always false: what comes next is up to others.
    pub(super) fn leave(&mut self, why: Departure) -> Result<bool, CoreError> {
        // An answer that came later would find another thread's pipeline, and wake its registers.
        let now = self.pipeline.cycle();
        debug_assert!(self.pipeline.common_mut().private.is_quiet(now), "a miss is left behind");
        if why == Departure::Crosses {
            let common = self.pipeline.common_mut();
            let decision = common.context.os.as_mut().map_or(0, |os| std::mem::take(&mut os.owed));
            self.pipeline.spend(decision, Reason::System);
            self.pipeline.spend(self.switch, Reason::Switch);
        }
        let at = self.pipeline.cycle();
        self.running_cycles += at - self.running_from;
        let now = self.clock.time_of(at);
        self.local = now;
        self.away = why == Departure::Crosses && self.common().context.is_home(self.index);
        self.departure = Some((now, why));
        self.phase = Phase::Vacant;
        self.gate.wait_begins(now, true).map_err(|e| self.policy_error(e))?;
        self.units_follow(now);
        self.look_at_caches(now);
        Ok(false)
    }

    /// Since when it has no thread; the beginning of time if it has one.
    pub(crate) fn vacant_since(&self) -> Time {
        if matches!(self.phase, Phase::Vacant) {
            self.local
        } else {
            Time::ZERO
        }
    }

    /// An interrupt that its thread left to others, and when it began.
    pub(crate) fn detached(&mut self) -> Option<(Time, Thread)> {
        self.pipeline.common_mut().context.take_detached()
    }

    /// Takes what its thread has done that others wait for, with the time.
    pub(crate) fn posted(&mut self) -> Vec<(Time, u32)> {
        let common = self.pipeline.common_mut();
        let posts = std::mem::take(&mut common.posts);
        posts.into_iter().map(|(at, post)| (common.private.time_of(at), post)).collect()
    }

    /// Gives its thread away, after a [`Departure`].
    pub(crate) fn give_up(&mut self) -> Thread {
        let left = self.departure.take().expect("it has left");
        let common = self.pipeline.common_mut();
        let mut front_end = std::mem::replace(&mut common.front_end, FrontEnd::empty());
        common.front_end.take_counts(&mut front_end);
        let nothing = ThreadContext::new(LoadKind::Closed);
        Thread { front_end, context: std::mem::replace(&mut common.context, nothing), left }
    }

    /// Takes a thread over at `at`.
    pub(super) fn take_over(&mut self, thread: Thread, at: Time) {
        debug_assert!(matches!(self.phase, Phase::Vacant), "one thread at a time");
        debug_assert!(self.local <= at, "a core cannot take over in its past");
        let Thread { mut front_end, context, left } = thread;
        let common = self.pipeline.common_mut();
        front_end.take_counts(&mut common.front_end);
        (common.front_end, common.context) = (front_end, context);
        self.left = left;
        self.local = at;
        self.phase = Phase::Halted { wake_at: at, woken: false };
    }

    /// A thread that began here has nothing left to do, wherever it ended.
    pub(crate) fn end(&mut self, ended: Thread) {
        self.finished = self.finished.max(Some(ended.left.0));
        if let Some(os) = &ended.context.os {
            add_calls(&mut self.calls, &os.calls);
            self.met.threads.add(&os.faults);
        }
        let requests = &mut self.pipeline.common_mut().context.requests;
        requests.completed += ended.context.requests.completed;
        requests.latency.add(&ended.context.requests.latency);
    }

    /// Plays an idle core before `until`, and the followers of a waiting core, once all others have
    /// come as far.
    pub(crate) fn idle_until(&mut self, until: Time) -> Result<(), CoreError> {
        match self.phase {
            Phase::Stalled { movable, .. } => self.followers.come_before(until, movable.is_some()),
            Phase::Halted { woken, .. } => self.followers.come_before(until, woken),
            Phase::Running
            | Phase::Preheating
            | Phase::Resting { .. }
            | Phase::Vacant
            | Phase::Finished => {}
        }
        self.units_follow(until);
        if !matches!(self.phase, Phase::Vacant) {
            return Ok(());
        }
        self.gate.wait_until(until).map_err(|e| self.policy_error(e))
    }

    /// Accounts the time of a core that has no thread until the end of the run.
    pub(crate) fn close(&mut self, end: Time) -> Result<(), CoreError> {
        if matches!(self.phase, Phase::Vacant) {
            let spent = self.gate.settle(end).map_err(|e| self.policy_error(e))?;
            self.waited.post_idle(spent, self.away);
            self.phase = Phase::Finished;
        }
        self.gate.close(end);
        self.units_follow(end);
        self.followers.close(end);
        self.check_units()
    }

    /// Accounts the times of units that are gated by themselves to the power state that the core
    /// enters at `at`.
    pub(super) fn units_follow(&mut self, at: Time) {
        let state = self.gate.state();
        if let Some(gates) = &mut self.pipeline.common_mut().unit_gates {
            gates.enter(at, state);
        }
    }

    /// Fails if the policy of a unit requested an action that is invalid in the unit's state.
    pub(super) fn check_units(&mut self) -> Result<(), CoreError> {
        let gates = self.pipeline.common_mut().unit_gates.as_mut();
        let error = gates.and_then(|gates| gates.take_error());
        error.map_or(Ok(()), |error| Err(self.policy_error(error)))
    }

    /// Another core asks for a line: what is found of it here. This core has done all that it does
    /// at that time, and nothing later.
    pub(crate) fn snoop(&mut self, line: u64, read: bool) -> SnoopResult {
        self.pipeline.common_mut().private.snoop(line, read)
    }

    /// A thread that was taken over begins to run.
    pub(super) fn begin(&mut self, cycle: Cycle) {
        self.pipeline.begin(cycle);
        let Common { context, front_end, .. } = self.common();
        // An interrupt goes to its core by itself, and leaves no trace.
        if !context.os.as_ref().is_some_and(|os| os.is_detached) {
            let thread = Some(front_end.thread());
            let is_other = std::mem::replace(&mut self.last_thread, thread) != thread;
            if let (true, Some(t)) = (is_other, &mut self.pipeline.common_mut().private.translation)
            {
                t.switch_space();
            }
            // Who slept and comes back to a core that nobody used meanwhile finds its state there.
            if is_other || self.left.1 == Departure::Crosses {
                self.pipeline.spend(self.switch, Reason::Switch);
            }
        }
        let now = self.clock.time_of(self.pipeline.cycle());
        if let Some(os) = &mut self.pipeline.common_mut().context.os {
            os.runs(now, self.left);
        }
    }
}
