//! The idle policy of one core, of either family that has some.

use halfwink_policy::gating::{self, GatingPolicy};
use halfwink_policy::scaling::{self, Depth, Rest, ScalingPolicy};
use halfwink_policy::Host;
use halfwink_units::Time;

use halfwink_techniques::node::Idler;

use crate::run::RunError;

/// How a core rests from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resting {
    pub(crate) state: usize,
    /// Time at which the governor's timer is due.
    pub(crate) due: Time,
    /// Whether that timer is an interrupt that wakes the core.
    pub(crate) wakes: bool,
}

/// Part of a rest that a policy with foresight asks to count in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hindsight {
    pub(crate) gate: Time,
    pub(crate) wake: Time,
}

enum Kind {
    Gate { host: Host<GatingPolicy>, halted: usize, gated: usize },
    Rest { host: Host<ScalingPolicy>, depths: [usize; 3] },
}

/// A core's idle policy in its host.
pub(crate) struct Governor {
    kind: Kind,
    began: Time,
    is_gated: bool,
}

/// Returns whether an action asks for the deeper of two states; none if it asks for neither.
fn gates(action: gating::Action) -> Option<bool> {
    match action {
        gating::Action::Gate => Some(true),
        gating::Action::Rest { state } => Some(state > 0),
        _ => None,
    }
}

impl Governor {
    pub(crate) fn new(idler: Idler) -> Governor {
        let kind = match idler {
            Idler::Gate { policy, halted, gated } => {
                Kind::Gate { host: Host::new(policy), halted, gated }
            }
            Idler::Rest { policy, depths } => Kind::Rest { host: Host::new(policy), depths },
        };
        Governor { kind, began: Time::ZERO, is_gated: false }
    }

    /// The core has nothing to do from `now` on.
    pub(crate) fn begin(&mut self, now: Time) -> Result<Resting, RunError> {
        self.began = now;
        self.is_gated = false;
        match &mut self.kind {
            Kind::Gate { host, halted, gated } => {
                let mut is_gated = false;
                host.deliver(now, &gating::Event::IdleBegin, |_, action| {
                    is_gated = gates(action).unwrap_or(is_gated);
                });
                self.is_gated = is_gated;
                let state = if is_gated { *gated } else { *halted };
                Ok(Resting { state, due: host.due(), wakes: false })
            }
            Kind::Rest { host, depths } => {
                let mut rest = None;
                host.deliver(now, &scaling::Event::Empty { core: 0 }, |_, action| {
                    if let scaling::Action::Rest { rest: chosen, .. } = action {
                        rest = Some(chosen);
                    }
                });
                resting(rest, *depths, now)
            }
        }
    }

    /// A timer that leaves the core asleep is due.
    pub(crate) fn ring(&mut self, now: Time) -> Result<Resting, RunError> {
        let Kind::Gate { host, halted, gated } = &mut self.kind else {
            return Err(RunError::Misled("its timer is a tick, which wakes the core"));
        };
        let mut is_gated = self.is_gated;
        let rang = host.ring(now, |_, action| is_gated = gates(action).unwrap_or(is_gated));
        if rang.is_err() {
            return Err(RunError::Misled("its timer rings for ever"));
        }
        self.is_gated = is_gated;
        let state = if is_gated { *gated } else { *halted };
        Ok(Resting { state, due: host.due(), wakes: false })
    }

    /// A tick ended the rest; the core runs again at `ready`.
    pub(crate) fn ticked(&mut self, ready: Time) {
        if let Kind::Rest { host, .. } = &mut self.kind {
            host.deliver(ready, &scaling::Event::Poll { core: 0, taken: 0, waiting: 0 }, |_, _| ());
        }
    }

    /// Work ends the rest at `now`; what the rest should be counted as in hindsight.
    pub(crate) fn end(&mut self, now: Time) -> Option<Hindsight> {
        let Kind::Gate { host, .. } = &mut self.kind else { return None };
        let mut found = None;
        host.deliver(now, &gating::Event::IdleEnd { began: self.began }, |_, action| {
            if let gating::Action::Hindsight { gate, wake } = action {
                found = Some(Hindsight { gate, wake });
            }
        });
        found
    }

    /// State that a core is counted in that was gated in hindsight.
    pub(crate) fn gated(&self) -> usize {
        match &self.kind {
            Kind::Gate { gated, .. } => *gated,
            Kind::Rest { depths, .. } => depths[2],
        }
    }

    /// The core runs again at `ready`, for work.
    pub(crate) fn woken(&mut self, ready: Time) {
        match &mut self.kind {
            Kind::Gate { host, .. } if self.is_gated => {
                host.deliver(ready, &gating::Event::Awake, |_, _| ());
            }
            Kind::Gate { .. } => {}
            Kind::Rest { host, .. } => {
                let event = scaling::Event::Poll { core: 0, taken: 1, waiting: 1 };
                host.deliver(ready, &event, |_, _| ());
            }
        }
    }
}

fn resting(rest: Option<Rest>, depths: [usize; 3], now: Time) -> Result<Resting, RunError> {
    let state = |depth| match depth {
        Depth::C1 => depths[0],
        Depth::C3 => depths[1],
        Depth::C6 => depths[2],
    };
    match rest {
        Some(Rest::Spin) => Ok(Resting {
            state: halfwink_techniques::node::machine::POLL,
            due: Time::NEVER,
            wakes: false,
        }),
        Some(Rest::Halt(depth)) => {
            Ok(Resting { state: state(depth), due: Time::NEVER, wakes: false })
        }
        Some(Rest::HaltFor { span, depth }) => {
            Ok(Resting { state: state(depth), due: now.saturating_add(span), wakes: true })
        }
        _ => Err(RunError::Misled("it asks for a rest that only routers know")),
    }
}
