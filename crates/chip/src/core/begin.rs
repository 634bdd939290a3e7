//! A core as it begins.

use halfwink_engine::Histogram;
use halfwink_policy::gating::GatingPolicy;
use halfwink_units::Time;

use super::followers::Followers;
use super::inbox::Inbox;
use super::input::FollowerInput;
use super::kind::Pipeline;
use super::pipeline::Common;
use super::{Core, CoreError, CoreInput, Phase, Thread, Waited};
use crate::faults::{Met, WakeFate};
use crate::gate::Gate;
use crate::gate_spec::GateSpec;
use crate::machine::{Machine, WakeUpKind};
use crate::os_cores::{Calls, Departure};
use crate::timeline::Timeline;

/// The gate of the technique that paces the run, and those of the ones that follow.
fn gates(
    machine: &Machine,
    index: usize,
    reports: bool,
    policy: GatingPolicy,
    followers: Vec<FollowerInput>,
    timeline: Option<Timeline>,
) -> (Gate, Vec<Gate>) {
    let follow =
        |FollowerInput { policy, spec }| Gate::new(index, policy, spec, false, timeline.clone());
    let followers = followers.into_iter().map(follow).collect();
    let spec = GateSpec::of(machine, index);
    let gate = Gate::new(index, policy, spec, reports, timeline)
        .fated(WakeFate::of(&machine.faults, index));
    (gate, followers)
}

impl Core {
    pub(crate) fn new(
        machine: &Machine,
        index: usize,
        input: CoreInput<'_>,
    ) -> Result<Core, CoreError> {
        let clock = machine.clock;
        // A machine that is like the OS cores has wake-up times of its own, and no controller.
        let reports = machine.wake_up.controller == WakeUpKind::Central;
        let vacant = input.thread.is_none();
        let (mut gate, followers) =
            gates(machine, index, reports, input.policy, input.followers, input.timeline);
        let thread = input.thread.unwrap_or_else(Thread::none);
        let hears_tokens = [&gate].into_iter().chain(&followers).any(|gate| gate.hears.is_some());
        let mut common = Common::new(machine, index, thread, hears_tokens, input.segregated);
        common.private.shares = input.shares;
        let first = clock.cycle_at_or_after(input.start);
        common.private.begin(first);
        let l2_span = clock.time_of(common.private.least_l2_latency());
        let report = if reports { machine.wake_up.delay } else { Time::NEVER };
        let shortest_message = clock.time_of(common.private.shortest_request()).min(report);
        let mut pipeline = Pipeline::new(machine.core.kind, common);
        let started = clock.time_of(first);
        pipeline.resume(first);
        if vacant {
            gate.wait_begins(started, true).map_err(|error| CoreError::Policy(index, error))?;
        } else {
            gate.begin(started);
        }
        Ok(Core {
            followers: Followers::begin(followers, started),
            hears_tokens,
            met: Met::of(&machine.faults, index),
            index,
            clock,
            tokens: machine.tokens,
            l2_span,
            l3_latency: machine.l3.latency,
            pipeline,
            gate,
            inbox: Inbox::new(hears_tokens.then_some(machine.tokens.eta)),
            awaited: 0,
            shortest_answer: machine.l3.latency,
            shortest_message,
            reports,
            phase: if vacant { Phase::Vacant } else { Phase::Running },
            flush: None,
            preheat: None,
            branch: machine.branch,
            local: started,
            shares: input.shares,
            departure: None,
            away: false,
            // The other core pays the other half, at its own clock: they may differ.
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
            looks_again: !machine.idle_states.is_empty(),
            halts: machine.package.is_some().then(Vec::new),
            finished: None,
            running_from: first,
            running_cycles: 0,
        })
    }
}
