//! The power state of a core, and the policy that decides on it.

use std::collections::VecDeque;

use halfwink_engine::draw::above_zero;
use halfwink_engine::Stream;
use halfwink_policy::gating::{Action, Bound, Costs, Estimate, Event, GatingPolicy, Slots, Token};
use halfwink_policy::{wake_up, Host, StuckTimer};
use halfwink_power::CoreState;
use halfwink_units::Time;

use crate::faults::WakeFate;
use crate::gate_spec::{GateSpec, RestSpec, Wakes};
use crate::losses::Losses;
use crate::timeline::Timeline;

/// Times by power state.
pub(crate) type Residency = [Time; CoreState::ALL.len()];

/// Follows a core through its power states and keeps its meter of time.
pub(crate) struct Gate {
    index: usize,
    policy: Host<GatingPolicy>,
    pub(crate) hears: Option<Estimate>,
    costs: Costs,
    rests: Vec<RestSpec>,
    random: Option<Box<Stream>>,
    /// The deeper idle state that the core is in, or on its way to.
    rest: Option<RestSpec>,
    state: CoreState,
    since: Time,
    /// End of a state that lasts a fixed time.
    transition: Time,
    /// The order to wake came before the supply was off.
    wake_pending: bool,
    /// The losses of a core that is gated in a halt, and the time that it is gated before.
    gated_loses: (Losses, Time),
    /// The end of the present transition is not a wake-up, but the loss.
    loss_due: bool,
    /// Whether they were lost since the core was last on.
    lost: bool,
    /// Whether lines have to be written back before they are lost.
    flush_due: bool,
    /// Residency in the whole run.
    pub(crate) residency: Residency,
    /// Since the present stall or halt began.
    segment: Residency,
    segment_wakes: Wakes,
    waiting_since: Time,
    pub(crate) wakes: Wakes,
    /// Times that the operating system halted the core.
    pub(crate) halts: u64,
    /// Duration of the present wake-up.
    wake_up: Time,
    halted: bool,
    /// The present halt is over before the policy could hear of it.
    passed_over: bool,
    /// Reports to a central controller, if one grants faster wake-ups.
    reports: Option<Reports>,
    /// Faults of its wake-ups, if any are enabled.
    fate: Option<Box<WakeFate>>,
    /// Events that the policy still has to hear, in the order in which it will.
    pending: VecDeque<(Time, u8, Event)>,
    pub(crate) timeline: Option<Timeline>,
}

/// Reports of a core to a central wake-up controller.
#[derive(Debug, Default)]
struct Reports {
    unsent: Vec<(Time, wake_up::Event)>,
    /// Requests whose grants have not come.
    unanswered: u32,
}

/// A policy did what no core can follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The policy requested an action that is invalid in the core's state.
    #[error("the gating policy asked for {action:?} at {at} while the core was {}", .state.name())]
    Impossible {
        /// Action that was requested.
        action: Action,
        /// Time of the request.
        at: Time,
        /// State of the core.
        state: CoreState,
    },
    /// The policy's timer never stops ringing.
    #[error(transparent)]
    StuckTimer(#[from] StuckTimer),
}

/// Result of [`Gate::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// The core is powered and restored.
    Awake,
    /// Any other step.
    Other,
}

impl Gate {
    /// Creates the gate of core `index`. If it `reports`, a central controller is notified when it
    /// is gated and awake.
    pub(crate) fn new(
        index: usize,
        policy: GatingPolicy,
        spec: GateSpec,
        reports: bool,
        timeline: Option<Timeline>,
    ) -> Gate {
        let GateSpec { costs, gated, rests, random } = spec;
        Gate {
            index,
            hears: policy.hears(),
            policy: Host::new(policy),
            costs,
            rests,
            random,
            rest: None,
            state: CoreState::Unused,
            since: Time::ZERO,
            transition: Time::NEVER,
            wake_pending: false,
            gated_loses: gated,
            loss_due: false,
            lost: false,
            flush_due: false,
            residency: Residency::default(),
            segment: Residency::default(),
            segment_wakes: Wakes::default(),
            waiting_since: Time::ZERO,
            wakes: Wakes::default(),
            halts: 0,
            wake_up: costs.wake_up,
            halted: false,
            passed_over: false,
            reports: reports.then(Reports::default),
            fate: None,
            pending: VecDeque::new(),
            timeline,
        }
    }

    pub(crate) fn state(&self) -> CoreState {
        self.state
    }

    /// Returns the losses of the present sleep.
    pub(crate) fn losses(&self) -> Losses {
        self.rest.map_or(self.gated_loses.0, |rest| rest.losses)
    }

    /// Returns the time that a halted core sleeps before it loses something.
    fn loses_after(&self) -> Option<Time> {
        let after = self.rest.map_or(self.gated_loses.1, |_| Time::ZERO);
        (self.halted && self.losses().any()).then_some(after)
    }

    /// Injects faults into wake-ups.
    pub(crate) fn fated(mut self, fate: Option<Box<WakeFate>>) -> Gate {
        self.fate = fate;
        self
    }

    /// Orders to wake that were lost, and wake-ups that were late.
    pub(crate) fn faults(&self) -> [u64; 2] {
        self.fate.as_ref().map_or([0; 2], |fate| [fate.lost, fate.late])
    }

    /// True once when what is about to be lost has to be written back: then [`Gate::flushed`].
    #[inline]
    pub(crate) fn take_flush_due(&mut self) -> bool {
        std::mem::take(&mut self.flush_due)
    }

    /// All is written back that was dirty: the supply can go.
    pub(crate) fn flushed(&mut self, now: Time) {
        debug_assert_eq!(self.state, CoreState::Flushing, "what was asked for is done");
        self.lost = true;
        self.enter(CoreState::Gating, now);
        self.transition = now + self.entry();
    }

    fn flush(&mut self, now: Time) {
        self.enter(CoreState::Flushing, now);
        self.transition = Time::NEVER;
        self.flush_due = true;
    }

    /// True if the core can go on as soon as it has something to do.
    pub(crate) fn is_powered(&self) -> bool {
        matches!(self.state, CoreState::Active | CoreState::Stalled | CoreState::Idle)
    }

    fn enter(&mut self, state: CoreState, now: Time) {
        debug_assert!(self.since <= now, "{} began at {}, after {now}", state.name(), self.since);
        let span = now - self.since;
        self.residency[self.state as usize] += span;
        self.segment[self.state as usize] += span;
        if let Some(timeline) = &mut self.timeline {
            timeline.push(self.state, self.since, now);
        }
        self.state = state;
        self.since = now;
        // Every core begins unused at zero, so nothing may be missing, nor count twice.
        debug_assert_eq!(self.residency.iter().fold(Time::ZERO, |sum, &time| sum + time), now);
    }

    /// Times by state up to `now`.
    pub(crate) fn residency_at(&self, now: Time) -> Residency {
        let mut residency = self.residency;
        residency[self.state as usize] += now.saturating_sub(self.since);
        residency
    }

    /// Work begins at `now`.
    pub(crate) fn begin(&mut self, now: Time) {
        self.enter(CoreState::Active, now);
    }

    /// Returns whether its policy hears tokens, and this estimate if it is one.
    pub(crate) fn is_told(&self, estimate: Option<Estimate>) -> bool {
        self.hears.is_some_and(|heard| estimate.is_none_or(|estimate| estimate == heard))
    }

    /// The policy will hear of this when its time has come.
    pub(crate) fn schedule(&mut self, at: Time, event: Event) {
        // News of the same time is heard in an order of its own, whoever was simulated first:
        // answers, then tokens from the nearest level to the farthest.
        let class = match event {
            Event::Token(Token { bound: Bound::NotBefore(_), .. }) => 1,
            Event::Token(Token { bound: Bound::Unknown, .. }) => 2,
            Event::Token(Token { bound: Bound::Eta(_), .. }) => 3,
            _ => 0,
        };
        // News comes nearly in the order of its time: it is put in from the back.
        let mut place = self.pending.len();
        while place > 0 && (self.pending[place - 1].0, self.pending[place - 1].1) > (at, class) {
            place -= 1;
        }
        self.pending.insert(place, (at, class, event));
    }

    /// Lets the policy hear all that lies before or at `now`. Only while the core runs: there is
    /// nothing that it could ask for.
    pub(crate) fn catch_up(&mut self, now: Time) -> Result<(), PolicyError> {
        while let Some(&(at, _, event)) = self.pending.front().filter(|news| news.0 <= now) {
            debug_assert_eq!(self.state, CoreState::Active, "news of a wait is heard in it");
            self.pending.pop_front();
            self.deliver(at, &event)?;
        }
        Ok(())
    }

    /// Number of events that the policy still has to hear.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The pipeline stalls, or the operating system halts the core.
    pub(crate) fn wait_begins(&mut self, now: Time, halted: bool) -> Result<(), PolicyError> {
        self.catch_up(now)?;
        self.halted = halted;
        let (state, event) = if halted {
            (CoreState::Idle, Event::IdleBegin)
        } else {
            (CoreState::Stalled, Event::StallBegin)
        };
        self.enter(state, now);
        self.segment = Residency::default();
        self.segment_wakes = Wakes::default();
        self.halts += u64::from(halted);
        self.waiting_since = now;
        self.deliver(now, &event)
    }

    /// The operating system would halt the core, but what ends the halt is there already: it looks
    /// once more before it halts, and the policy hears of nothing.
    pub(crate) fn passes_over(&mut self, now: Time) -> Result<(), PolicyError> {
        self.catch_up(now)?;
        self.rest(now);
        (self.halted, self.passed_over) = (true, true);
        Ok(())
    }

    /// The wait is over at `now`. Whether the core is powered by then is up to the policy.
    pub(crate) fn wait_ends(&mut self, now: Time, halted: bool) -> Result<(), PolicyError> {
        if std::mem::take(&mut self.passed_over) {
            return Ok(());
        }
        let began = self.waiting_since;
        let event = if halted { Event::IdleEnd { began } } else { Event::StallEnd { began } };
        self.deliver(now, &event)
    }

    /// The pipeline runs again from `now` on: the time since the wait began, by state, and how
    /// often the core was woken.
    pub(crate) fn run(&mut self, now: Time) -> (Residency, Wakes) {
        self.enter(CoreState::Active, now);
        (std::mem::take(&mut self.segment), std::mem::take(&mut self.segment_wakes))
    }

    /// The core has nothing to do from `now` on for so short a time that its policy is not asked.
    pub(crate) fn rest(&mut self, now: Time) {
        self.enter(CoreState::Idle, now);
        self.segment = Residency::default();
    }

    /// Ends the work of the core at `now`.
    pub(crate) fn finish(&mut self, now: Time) -> Result<(), PolicyError> {
        self.catch_up(now)?;
        self.enter(CoreState::Unused, now);
        Ok(())
    }

    /// Lets all happen that is due before `until` on a core without work.
    pub(crate) fn wait_until(&mut self, until: Time) -> Result<(), PolicyError> {
        while self.next_time() < until {
            self.step(self.next_time())?;
        }
        Ok(())
    }

    /// A core without work comes to the end of the run: the time since it had some, by state, and
    /// how often it was woken.
    pub(crate) fn settle(&mut self, end: Time) -> Result<(Residency, Wakes), PolicyError> {
        self.wait_until(end)?;
        self.enter(CoreState::Unused, end);
        Ok((std::mem::take(&mut self.segment), std::mem::take(&mut self.segment_wakes)))
    }

    /// The run ends: the time in the present state counts too.
    pub(crate) fn close(&mut self, now: Time) {
        self.enter(self.state, now);
    }

    /// The policy hears an event, and what it asks for is done.
    pub(crate) fn deliver(&mut self, now: Time, event: &Event) -> Result<(), PolicyError> {
        self.policy.notify(now, event);
        self.apply(now)
    }

    /// Does what the policy asks for.
    fn apply(&mut self, now: Time) -> Result<(), PolicyError> {
        while let Some(action) = self.policy.next_action() {
            let possible = match (action, self.state) {
                (Action::Gate, CoreState::Stalled | CoreState::Idle) => {
                    self.rest = None;
                    self.sleep(now);
                    true
                }
                (Action::Rest { state }, CoreState::Stalled | CoreState::Idle) => {
                    self.begin_rest(usize::from(state), now)
                }
                (Action::Wake, CoreState::Gated) => {
                    self.charge_in_slot(now);
                    true
                }
                (Action::Wake, state) if state.deep().is_some() => {
                    self.charge_in_slot(now);
                    true
                }
                // A sequence that has begun is not broken off: the core goes down, and comes up at
                // once. That is what a policy pays that changes its mind.
                (Action::Wake, CoreState::Flushing | CoreState::Gating) => {
                    self.wake_pending = true;
                    true
                }
                (Action::Wake, CoreState::Charging | CoreState::Restoring) => true,
                (Action::Hindsight { gate, wake }, CoreState::Stalled | CoreState::Idle) => {
                    self.rewrite(gate, wake, now)
                }
                _ => false,
            };
            if !possible {
                return Err(PolicyError::Impossible { action, at: now, state: self.state });
            }
        }
        Ok(())
    }

    /// Goes to sleep, by way of writing back what is lost at once.
    fn sleep(&mut self, now: Time) {
        if self.loses_after() == Some(Time::ZERO) {
            self.flush(now);
        } else {
            self.enter(CoreState::Gating, now);
            self.transition = now + self.entry();
        }
    }

    /// Returns the time of cutting the supply. In idle states it is part of the exit.
    fn entry(&self) -> Time {
        if self.rest.is_some() {
            Time::ZERO
        } else {
            self.costs.entry
        }
    }

    /// Enters an idle state; false if there is none at this place, or the core is not halted.
    fn begin_rest(&mut self, place: usize, now: Time) -> bool {
        let Some(&rest) = self.rests.get(place).filter(|_| self.halted) else { return false };
        if rest.state.deep().is_some() {
            self.rest = Some(rest);
            self.sleep(now);
        } else if rest.state != self.state {
            self.enter(rest.state, now);
        }
        true
    }

    /// Returns the duration of this wake-up, without the refill.
    fn wake_time(&mut self) -> Time {
        let Some(rest) = self.rest else { return self.wake_up };
        let [least, most] = rest.wake;
        let span = (most - least).0;
        let drawn = self.random.as_mut().map_or(0.0, above_zero);
        (least + Time((span as f64 * drawn) as u64)).saturating_sub(rest.restore)
    }

    /// Charges at the core's next slot; until then it stays gated. Slots keep neighbours from
    /// drawing charge at once, which would make the supply droop (Strong 2013, Sec 2.3.2).
    fn charge_in_slot(&mut self, now: Time) {
        // One that was ordered before begins no later for being ordered again.
        let ordered =
            if std::mem::take(&mut self.loss_due) { Time::NEVER } else { self.transition };
        let from = self.fate.as_mut().map_or(now, |fate| fate.ordered(now));
        let slots = if self.rest.is_some() { Slots::ANY } else { self.costs.slots };
        let slot = slots.next(from).min(ordered);
        if slot == now {
            self.charge(now);
        } else {
            self.transition = slot;
        }
    }

    fn charge(&mut self, now: Time) {
        self.wake_pending = false;
        self.lost = false;
        self.count_wake();
        self.enter(CoreState::Charging, now);
        let delay = self.fate.as_mut().map_or(Time::ZERO, |fate| fate.delay());
        self.transition = now + self.wake_time() + delay;
    }

    /// The supply is off. A core that waits for memory asks for a fast wake-up; one that is halted
    /// has time.
    fn gated(&mut self, now: Time) {
        self.enter(self.rest.map_or(CoreState::Gated, |rest| rest.state), now);
        if let Some(after) = self.loses_after().filter(|_| !self.lost) {
            self.loss_due = true;
            self.transition = now + after;
        }
        if let Some(reports) = self.reports.as_mut().filter(|_| !self.halted) {
            reports.unsent.push((now, wake_up::Event::Gated(self.index)));
            reports.unanswered += 1;
        }
    }

    /// The supply is stable.
    fn charged(&mut self, now: Time) {
        self.enter(CoreState::Restoring, now);
        self.transition = now + self.rest.map_or(self.costs.restore, |rest| rest.restore);
        // A grant was for this wake-up alone: what is safe next time depends on who wakes then.
        self.wake_up = self.costs.wake_up;
        if let Some(reports) = self.reports.as_mut().filter(|_| !self.halted) {
            reports.unsent.push((now, wake_up::Event::Awake(self.index)));
        }
    }

    /// Takes the reports that the controller must receive by now.
    pub(crate) fn reports(&mut self) -> impl Iterator<Item = (Time, wake_up::Event)> + '_ {
        self.reports.iter_mut().flat_map(|reports| reports.unsent.drain(..))
    }

    /// The controller's answer. It counts if it is for the present gating, which is the last that
    /// the controller was told of, and if the core still sleeps when it comes.
    pub(crate) fn grant(&mut self, now: Time, wake_up: Time) -> Result<(), PolicyError> {
        let Some(reports) = &mut self.reports else { return Ok(()) };
        debug_assert!(reports.unanswered > 0, "nobody grants what was not asked for");
        reports.unanswered -= 1;
        // Grants come in the order of the requests, so the last one owed is for the present gating.
        if reports.unanswered > 0 || self.state != CoreState::Gated || self.halted {
            return Ok(());
        }
        self.wake_up = wake_up;
        self.deliver(now, &Event::Granted { wake_up })
    }

    /// Accounts the wait so far as if the core had been gated in it; false if that is impossible.
    fn rewrite(&mut self, gate: Time, wake: Time, now: Time) -> bool {
        // Nothing was posted since the wait began: the past can still be told another way, as long
        // as the sequence fits into it and the core is restored by now.
        let gated_from = gate + self.costs.entry;
        let charged = wake + self.costs.wake_up;
        let restored = charged + self.costs.restore;
        if gate < self.since || gated_from > wake || restored > now {
            return false;
        }
        let waiting = self.state;
        self.enter(CoreState::Gating, gate);
        self.enter(CoreState::Gated, gated_from);
        self.enter(CoreState::Charging, wake);
        self.enter(CoreState::Restoring, charged);
        self.enter(waiting, restored);
        self.rest = None;
        self.count_wake();
        true
    }

    fn count_wake(&mut self) {
        let deep = self.rest.and_then(|rest| rest.state.deep());
        for wakes in [&mut self.wakes, &mut self.segment_wakes] {
            match deep {
                Some(place) => wakes.deep[place] += 1,
                None => wakes.gating += 1,
            }
        }
    }

    /// Returns the time at which [`Gate::step`] has work while the core waits.
    pub(crate) fn next_time(&self) -> Time {
        let news = self.pending.front().map_or(Time::NEVER, |news| news.0);
        self.transition.min(news).min(self.policy.due())
    }

    /// True if a state of fixed length ends at `now`.
    pub(crate) fn is_in_transition(&self, now: Time) -> bool {
        self.transition <= now
    }

    /// Lets the first thing happen that is due at `now`: transitions before news before timers.
    pub(crate) fn step(&mut self, now: Time) -> Result<Stepped, PolicyError> {
        if self.transition <= now {
            return self.end_of_transition(now);
        }
        if let Some(&(at, _, event)) = self.pending.front().filter(|news| news.0 <= now) {
            self.pending.pop_front();
            self.policy.notify(at, &event);
        } else {
            self.policy.expire(now)?;
        }
        self.apply(now).map(|()| Stepped::Other)
    }

    fn end_of_transition(&mut self, now: Time) -> Result<Stepped, PolicyError> {
        self.transition = Time::NEVER;
        match self.state {
            CoreState::Gating => {
                self.gated(now);
                if self.wake_pending {
                    self.charge_in_slot(now);
                }
            }
            CoreState::Gated if std::mem::take(&mut self.loss_due) => self.flush(now),
            CoreState::Gated => self.charge(now),
            state if state.deep().is_some() => self.charge(now),
            CoreState::Charging => {
                self.charged(now);
            }
            _ => {
                self.rest = None;
                self.enter(CoreState::Stalled, now);
                self.deliver(now, &Event::Awake)?;
                // A policy may gate again at once.
                if self.is_powered() {
                    return Ok(Stepped::Awake);
                }
            }
        }
        Ok(Stepped::Other)
    }
}
