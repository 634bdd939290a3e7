//! Closing the books of a run: rows of time and energy, by component, state, mode and reason,
//! against what each component's own counters say.

use halfwink_engine::{Cause, Closed, ComponentId, Imbalance, Ledger, Meter, Mode, Row, State};
use halfwink_power::{CoreEvents, CoreState};
use halfwink_units::{Cycle, Energy, Power, Time};

use crate::account::{ActiveCycles, Reason};
use crate::core::Core;
use crate::machine::Machine;
use crate::uncore::Uncore;

/// A run whose accounts do not balance.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BooksError {
    /// Rows and meter differ.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// Cycles went by without a reason, or with two.
    #[error("{core}: {explained} cycles have a reason, but the pipeline ran for {ran}")]
    Cycles {
        /// Which core.
        core: String,
        /// Cycles with a reason.
        explained: Cycle,
        /// Cycles in which the pipeline ran.
        ran: Cycle,
    },
}

/// Everything that a core's events cost, by name: counts by mode, and the energy of each.
struct CoreEnergy {
    name: &'static str,
    counts: [u64; 2],
    each: Energy,
}

fn core_energies(core: &Core, event: &CoreEvents) -> Vec<CoreEnergy> {
    let common = core.common();
    let (units, caches) = (&common.feed.units, &common.private.counts);
    let entry = |name, counts, pj| CoreEnergy { name, counts, each: CoreEvents::energy(pj) };
    vec![
        entry("uops", common.feed.work.uops, event.uop),
        entry("integer", units.alu, event.alu),
        entry("multiply", units.multiply, event.multiply),
        entry("floating-point", units.fp, event.fp),
        entry("l1i-access", caches.l1i_accesses, event.l1i_access),
        entry("l1d-access", caches.l1d_accesses, event.l1d_access),
        entry("l2-access", caches.l2_accesses, event.l2_access),
        entry("mispredict", common.predictor.counts.mispredicted, event.mispredict),
    ]
}

const MODES: [Mode; 2] = [Mode::User, Mode::Kernel];
const ON: State = State("on");
const LEAKAGE: Cause = Cause { mode: Mode::Idle, reason: "leakage" };
const NOTHING: Cause = Cause { mode: Mode::Idle, reason: Reason::Unused.name() };
const AWAY: Cause = Cause { mode: Mode::Idle, reason: Reason::Away.name() };
const HALTED: Cause = Cause { mode: Mode::Idle, reason: Reason::Idle.name() };

/// Posts everything and balances.
pub(crate) fn close(
    machine: &Machine,
    cores: &[Core],
    users: usize,
    uncore: &Uncore,
    retention: bool,
    duration: Time,
) -> Result<Closed, BooksError> {
    let mut ledger = Ledger::new();
    for (n, core) in cores[..users].iter().enumerate() {
        post_core(&mut ledger, machine, format!("core{n}"), core, retention)?;
    }
    for (n, core) in cores[users..].iter().enumerate() {
        post_core(&mut ledger, &machine.os_core(), format!("os{n}"), core, retention)?;
    }
    for n in users..machine.cores {
        let power = state_power(machine, CoreState::Unused, retention);
        let row = Row { time: duration, energy: power * duration };
        let id = ledger.component(format!("core{n}"), row);
        ledger.post(id, State(CoreState::Unused.name()), NOTHING, row);
    }
    post_l3(&mut ledger, machine, uncore, duration);
    post_memory(&mut ledger, machine, uncore, duration);
    Ok(ledger.close(duration)?)
}

fn state_power(machine: &Machine, state: CoreState, retention: bool) -> Power {
    if state == CoreState::Unused {
        return machine.unused;
    }
    machine.power.core.in_state(state, &machine.gating, retention)
}

fn post_core(
    ledger: &mut Ledger,
    machine: &Machine,
    name: String,
    core: &Core,
    retention: bool,
) -> Result<(), BooksError> {
    let active = &core.common().active;
    if active.total() != core.running_cycles {
        let (explained, ran) = (active.total(), core.running_cycles);
        return Err(BooksError::Cycles { core: name, explained, ran });
    }
    let energies = core_energies(core, &machine.power.core.event_pj);
    let wake = machine.gating.wake_up_energy();
    let residency = &core.gate.residency;
    let mut meter = Meter { time: Time::ZERO, energy: wake * core.gate.wakes };
    for state in CoreState::ALL {
        let time = residency[state as usize];
        meter.time += time;
        meter.energy += state_power(machine, state, retention) * time;
    }
    for item in &energies {
        meter.energy += item.each * item.counts.iter().sum::<u64>();
    }
    let id = ledger.component(name, meter);

    for (cause, time) in split(active, residency[CoreState::Active as usize]) {
        let energy = state_power(machine, CoreState::Active, retention) * time;
        ledger.post(id, State(CoreState::Active.name()), cause, Row { time, energy });
    }
    for item in energies {
        for (mode, count) in MODES.into_iter().zip(item.counts) {
            let cause = Cause { mode, reason: item.name };
            let row = Row { time: Time::ZERO, energy: item.each * count };
            ledger.post(id, State(CoreState::Active.name()), cause, row);
        }
    }
    post_waits(ledger, machine, id, core, retention);
    let time = residency[CoreState::Unused as usize];
    let energy = state_power(machine, CoreState::Unused, retention) * time;
    ledger.post(id, State(CoreState::Unused.name()), NOTHING, Row { time, energy });
    Ok(())
}

fn post_waits(
    ledger: &mut Ledger,
    machine: &Machine,
    id: ComponentId,
    core: &Core,
    retention: bool,
) {
    let wake = machine.gating.wake_up_energy();
    let waited = &core.waited;
    for state in CoreState::ALL {
        let power = state_power(machine, state, retention);
        let name = State(state.name());
        let charges = state == CoreState::Charging;
        let row = |time: Time, wakes: u64| Row {
            time,
            energy: power * time + wake * if charges { wakes } else { 0 },
        };
        for (m, mode) in MODES.into_iter().enumerate() {
            for reason in Reason::ALL {
                let time = waited.times[state as usize][m][reason as usize];
                let wakes = waited.wakes[m][reason as usize];
                let cause = Cause { mode, reason: reason.name() };
                ledger.post(id, name, cause, row(time, wakes));
            }
        }
        for (cause, idle, wakes) in [
            (HALTED, &waited.idle[0], waited.idle_wakes[0]),
            (AWAY, &waited.idle[1], waited.idle_wakes[1]),
        ] {
            ledger.post(id, name, cause, row(idle[state as usize], wakes));
        }
    }
}

/// Shares `time` among the causes by their cycles, to the picosecond.
fn split(active: &ActiveCycles, time: Time) -> Vec<(Cause, Time)> {
    let total = u128::from(active.total());
    let mut shares = Vec::new();
    let (mut cycles, mut given) = (0u128, 0u64);
    for (m, mode) in MODES.into_iter().enumerate() {
        for reason in Reason::ALL {
            cycles += u128::from(active.cycles[m][reason as usize]);
            let up_to = (u128::from(time.0) * cycles).checked_div(total).unwrap_or(0) as u64;
            shares.push((Cause { mode, reason: reason.name() }, Time(up_to - given)));
            given = up_to;
        }
    }
    shares
}

fn post_l3(ledger: &mut Ledger, machine: &Machine, uncore: &Uncore, duration: Time) {
    let leakage = Power::from_w(machine.power.l3.leakage_w) * duration;
    let each = Energy::from_pj(machine.power.l3.access_pj);
    let counts = uncore.counts.accesses;
    let energy = leakage + each * counts.iter().sum::<u64>();
    let id = ledger.component("l3", Meter { time: duration, energy });
    ledger.post(id, ON, LEAKAGE, Row { time: duration, energy: leakage });
    for (mode, count) in MODES.into_iter().zip(counts) {
        let row = Row { time: Time::ZERO, energy: each * count };
        ledger.post(id, ON, Cause { mode, reason: "l3-access" }, row);
    }
}

fn post_memory(ledger: &mut Ledger, machine: &Machine, uncore: &Uncore, duration: Time) {
    let power = &machine.power.memory;
    let ranks = (machine.memory.channels * machine.memory.ranks) as f64;
    let background = Power::from_w(power.background_w_per_rank * ranks) * duration;
    let counts = &uncore.dram.counts;
    let events = [
        ("activate", counts.activates, Energy::from_pj(power.activate_pj)),
        ("read", counts.reads, Energy::from_pj(power.read_pj)),
        ("write", counts.writes, Energy::from_pj(power.write_pj)),
    ];
    let total: Energy = events.iter().map(|(_, n, each)| *each * n.iter().sum::<u64>()).sum();
    let meter = Meter { time: duration, energy: background + total };
    let id = ledger.component("memory", meter);
    let standby = Cause { mode: Mode::Idle, reason: "background" };
    ledger.post(id, ON, standby, Row { time: duration, energy: background });
    for (reason, counts, each) in events {
        for (mode, count) in MODES.into_iter().zip(counts) {
            let row = Row { time: Time::ZERO, energy: each * count };
            ledger.post(id, ON, Cause { mode, reason }, row);
        }
    }
}
