//! What the power state of a core depends on: costs of gating it, and the idle states that its
//! operating system may put it into.

use halfwink_engine::{stream, Stream};
use halfwink_policy::gating::{Costs, Slots};
use halfwink_power::{CoreState, Gating};
use halfwink_units::Time;

use crate::losses::Losses;
use crate::machine::{FupgSpec, IdleState, Machine, UnitDomain};

/// Wake-ups by what the core wakes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wakes {
    /// Wake-ups from the gated state.
    pub(crate) gating: u64,
    /// Idle states deeper than a stopped clock.
    pub(crate) deep: [u64; CoreState::DEEP.len()],
}

impl Wakes {
    pub(crate) fn add(&mut self, more: &Wakes) {
        self.gating += more.gating;
        self.deep.iter_mut().zip(more.deep).for_each(|(sum, n)| *sum += n);
    }

    /// Returns the sum over all states.
    pub(crate) fn total(&self) -> u64 {
        self.gating + self.deep.iter().sum::<u64>()
    }
}

/// The properties of a machine that the gate of a core needs.
pub(crate) struct GateSpec {
    pub(crate) costs: Costs,
    /// Losses of gating in a halt, and the time before they occur.
    pub(crate) gated: (Losses, Time),
    pub(crate) rests: Vec<RestSpec>,
    /// Draws the times that waking from idle states takes.
    pub(crate) random: Option<Box<Stream>>,
}

impl GateSpec {
    pub(crate) fn of(machine: &Machine, core: usize) -> GateSpec {
        let refill = machine.clock.time_of(machine.core.refill);
        let rest = |state: &IdleState| {
            let wake = machine.wake_beyond_c1(state);
            RestSpec {
                state: machine.state_of(state),
                wake,
                restore: refill.min(wake[0]),
                losses: Losses::of(&state.loses),
            }
        };
        let rests: Vec<RestSpec> = machine.rests().map(rest).collect();
        let draws = rests.iter().any(|rest| rest.wake[0] < rest.wake[1]);
        let random =
            || Box::new(stream(machine.faults.seed, &format!("idle wake-ups of core {core}")));
        GateSpec {
            costs: machine.gating_costs(core),
            gated: (
                Losses::of(&machine.gating.loses),
                machine.gating.loses_after().unwrap_or(Time::ZERO),
            ),
            rests,
            random: draws.then(random),
        }
    }
}

impl GateSpec {
    /// The properties that the gate of an execution unit needs: it keeps no state, so that nothing
    /// is saved, restored or lost.
    pub(crate) fn of_unit(machine: &Machine, unit: UnitDomain) -> GateSpec {
        let FupgSpec { wake_up_ns, wake_up_energy_pj, .. } = machine.fupg;
        let energy = Gating {
            wake_up_energy_pj: wake_up_energy_pj * unit.of_units,
            ..machine.gating.clone()
        };
        GateSpec {
            costs: Costs {
                entry: Time::ZERO,
                break_even: energy.break_even(machine.power.core.leakage_w * unit.share),
                wake_up: Time::from_ns(wake_up_ns),
                restore: Time::ZERO,
                slots: Slots::ANY,
            },
            gated: (Losses::default(), Time::ZERO),
            rests: Vec::new(),
            random: None,
        }
    }
}

/// An idle state as silicon has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestSpec {
    /// State of the core in it.
    pub(crate) state: CoreState,
    /// Time from the interrupt until the pipeline is refilled, least and most, beyond that of a
    /// stopped clock.
    pub(crate) wake: [Time; 2],
    /// The part of it that is the refill.
    pub(crate) restore: Time,
    pub(crate) losses: Losses,
}
