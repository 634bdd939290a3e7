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
    Gate { host: Host<GatingPolicy>, halted: usize, gated: usize, rests: Vec<usize> },
    Rest { host: Host<ScalingPolicy>, depths: [usize; 3] },
}

/// A core's idle policy in its host.
pub(crate) struct Governor {
    kind: Kind,
    began: Time,
    /// True while the core is gated, or in a state that it leaves by `Wake`.
    is_gated: bool,
}

/// Fault of a policy that lets work wait.
const TO_SLEEP: &str = "it sent a core to sleep that has work";

fn misled(fault: impl Into<String>) -> RunError {
    RunError::Misled(fault.into())
}

/// Rest of a core under a gating policy.
#[derive(Clone, Copy)]
struct Gated {
    state: usize,
    is_gated: bool,
}

impl Gated {
    /// Does what a policy asks of a core that has nothing to do.
    fn take(
        self,
        action: gating::Action,
        [halted, gated]: [usize; 2],
        rests: &[usize],
    ) -> Result<Gated, RunError> {
        match action {
            gating::Action::Gate if !self.is_gated => Ok(Gated { state: gated, is_gated: true }),
            gating::Action::Rest { state } if !self.is_gated => {
                let Some(&known) = rests.get(usize::from(state)) else {
                    let count = rests.len();
                    let fault =
                        format!("it asked for the idle state {state}, expected one below {count}");
                    return Err(misled(fault));
                };
                Ok(Gated { state: known, is_gated: known > halted })
            }
            gating::Action::Gate | gating::Action::Rest { .. } => {
                Err(misled("it asked for another idle state of a core that sleeps"))
            }
            gating::Action::Wake => Err(misled("it woke a core that has no work")),
            gating::Action::Hindsight { .. } => {
                Err(misled("it accounted a rest that has not ended"))
            }
        }
    }
}

impl Governor {
    pub(crate) fn new(idler: Idler) -> Governor {
        let kind = match idler {
            Idler::Gate { policy, halted, gated, rests } => {
                debug_assert!([halted, gated].iter().all(|state| rests.contains(state)));
                Kind::Gate { host: Host::new(policy), halted, gated, rests }
            }
            Idler::Rest { policy, depths } => Kind::Rest { host: Host::new(policy), depths },
        };
        Governor { kind, began: Time::ZERO, is_gated: false }
    }

    /// The core has nothing to do from `now` on.
    pub(crate) fn begin(&mut self, now: Time) -> Result<Resting, RunError> {
        self.began = now;
        match &mut self.kind {
            Kind::Gate { host, halted, gated, rests } => {
                let mut rest = Ok(Gated { state: *halted, is_gated: false });
                host.deliver(now, &gating::Event::IdleBegin, |_, action| {
                    if let Ok(before) = &rest {
                        rest = before.take(action, [*halted, *gated], rests);
                    }
                });
                let due = host.due();
                Ok(self.rests(rest?, due))
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

    /// A timer that leaves the core asleep, in this state, is due.
    pub(crate) fn ring(&mut self, now: Time, state: usize) -> Result<Resting, RunError> {
        let Kind::Gate { host, halted, gated, rests } = &mut self.kind else {
            return Err(misled("its timer is a tick, which wakes the core"));
        };
        let mut rest = Ok(Gated { state, is_gated: self.is_gated });
        let rang = host.ring(now, |_, action| {
            if let Ok(before) = &rest {
                rest = before.take(action, [*halted, *gated], rests);
            }
        });
        if rang.is_err() {
            return Err(misled("its timer rings for ever"));
        }
        let due = host.due();
        Ok(self.rests(rest?, due))
    }

    /// Notes how a core rests under a gating policy.
    fn rests(&mut self, rest: Gated, due: Time) -> Resting {
        self.is_gated = rest.is_gated;
        Resting { state: rest.state, due, wakes: false }
    }

    /// A tick ended the rest; the core runs again at `ready`.
    pub(crate) fn ticked(&mut self, ready: Time) {
        if let Kind::Rest { host, .. } = &mut self.kind {
            host.deliver(ready, &scaling::Event::Poll { core: 0, taken: 0, waiting: 0 }, |_, _| ());
        }
    }

    /// Work ends the rest at `now`; what the rest should be counted as in hindsight.
    pub(crate) fn end(&mut self, now: Time) -> Result<Option<Hindsight>, RunError> {
        let Kind::Gate { host, .. } = &mut self.kind else { return Ok(None) };
        let (mut found, mut wakes, mut sleeps) = (None, !self.is_gated, false);
        host.deliver(
            now,
            &gating::Event::IdleEnd { began: self.began },
            |_, action| match action {
                gating::Action::Hindsight { gate, wake } => found = Some(Hindsight { gate, wake }),
                gating::Action::Wake => wakes = true,
                gating::Action::Gate | gating::Action::Rest { .. } => sleeps = true,
            },
        );
        match (sleeps, wakes) {
            (true, _) => Err(misled(TO_SLEEP)),
            (_, false) => Err(misled("it left a core asleep that has work")),
            _ => Ok(found),
        }
    }

    /// State that a core is counted in that was gated in hindsight.
    pub(crate) fn gated(&self) -> usize {
        match &self.kind {
            Kind::Gate { gated, .. } => *gated,
            Kind::Rest { depths, .. } => depths[2],
        }
    }

    /// The core runs again at `ready`, for work.
    pub(crate) fn woken(&mut self, ready: Time) -> Result<(), RunError> {
        let mut sleeps = false;
        match &mut self.kind {
            Kind::Gate { host, .. } if self.is_gated => {
                host.deliver(ready, &gating::Event::Awake, |_, action| {
                    sleeps |= !matches!(action, gating::Action::Wake);
                });
            }
            Kind::Gate { .. } => {}
            Kind::Rest { host, .. } => {
                let event = scaling::Event::Poll { core: 0, taken: 1, waiting: 1 };
                host.deliver(ready, &event, |_, _| ());
            }
        }
        match sleeps {
            true => Err(misled(TO_SLEEP)),
            false => Ok(()),
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
        _ => Err(misled("it asks for a rest that only routers know")),
    }
}
