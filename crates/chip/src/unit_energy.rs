//! Energy of execution units that are gated by themselves: what their core does not take for them.

use halfwink_engine::{Cause, ComponentId, Ledger, Mode, Row, State};
use halfwink_power::CoreState;
use halfwink_units::{Energy, Power, Time};

use crate::accounting::EnergyParts;
use crate::core::Core;
use crate::gate::Residency;
use crate::machine::{Machine, UnitDomain};

/// Energy of one unit.
pub(crate) struct UnitEnergy {
    name: &'static str,
    /// Leakage and clock while it is on, by power state of the core.
    on: [[Energy; 2]; CoreState::ALL.len()],
    /// Leakage while it is gated, and until its supply is stable again.
    gated: Energy,
    charging: Energy,
    wake_up: Energy,
}

/// Returns leakage and clock power of a unit while it is on, in a power state of its core.
fn power(machine: &Machine, unit: UnitDomain, state: CoreState, retention: bool) -> [Power; 2] {
    let core = &machine.power.core;
    let whole = core.in_state(state, &machine.gating, retention).as_w();
    let leakage = core.leakage(state, &machine.gating, retention).as_w();
    [leakage, whole - leakage].map(|watts| Power::from_w(unit.share * watts))
}

/// Returns leakage and clock power of all units that are gated by themselves.
pub(crate) fn units_power(machine: &Machine, state: CoreState, retention: bool) -> [Power; 2] {
    let units = machine.unit_domains().into_iter();
    units.fold([Power::ZERO; 2], |[leakage, clock], unit| {
        let [more_leakage, more_clock] = power(machine, unit, state, retention);
        [leakage + more_leakage, clock + more_clock]
    })
}

/// Returns the energy of each unit of a core, for the core's time in each power state.
pub(crate) fn unit_energies(
    machine: &Machine,
    core: &Core,
    residency: &Residency,
    retention: bool,
) -> Vec<UnitEnergy> {
    let Some(gates) = &core.common().unit_gates else { return Vec::new() };
    let of = |(unit, (off, wakes)): (UnitDomain, (&[[Time; 2]; CoreState::ALL.len()], u64))| {
        let charge = Energy::from_pj(machine.fupg.wake_up_energy_pj * unit.of_units);
        let mut energy = UnitEnergy {
            name: unit.name,
            on: [[Energy::ZERO; 2]; CoreState::ALL.len()],
            gated: Energy::ZERO,
            charging: Energy::ZERO,
            wake_up: charge * wakes,
        };
        // A core without work is gated whole: its units are no parts of their own then.
        for state in CoreState::ALL.into_iter().filter(|&state| state != CoreState::Unused) {
            let powers = power(machine, unit, state, retention);
            let [gated, charging] = off[state as usize];
            debug_assert!(gated + charging <= residency[state as usize], "a unit of another core");
            let on = residency[state as usize].saturating_sub(gated + charging);
            energy.on[state as usize] = powers.map(|power| power * on);
            energy.gated += machine.gating.gated_power(powers[0].as_w()) * gated;
            energy.charging += powers[0] * charging;
        }
        energy
    };
    machine.unit_domains().into_iter().zip(gates.off()).map(of).collect()
}

impl UnitEnergy {
    /// Returns its energy by parts of the core's.
    pub(crate) fn parts(&self) -> EnergyParts {
        let sum = |part: usize| self.on.iter().map(|energies| energies[part]).sum::<Energy>();
        EnergyParts {
            leakage: sum(0) + self.gated + self.charging,
            clock: sum(1),
            wake_up: self.wake_up,
            events: Energy::ZERO,
        }
    }

    /// Posts it to the core. The core's own rows have the time.
    pub(crate) fn post(&self, ledger: &mut Ledger, id: ComponentId) {
        let cause = Cause { mode: Mode::Idle, reason: self.name };
        let on = CoreState::ALL.into_iter().zip(self.on);
        let on = on.map(|(state, [leakage, clock])| (state, leakage + clock));
        let off =
            [(CoreState::Gated, self.gated), (CoreState::Charging, self.charging + self.wake_up)];
        for (state, energy) in on.chain(off) {
            ledger.post(id, State(state.name()), cause, Row { time: Time::ZERO, energy });
        }
    }
}
