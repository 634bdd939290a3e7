//! Closing the ledger of a run: rows of time and energy, by component, state, mode and reason,
//! against what each component's own counters say.

use halfwink_engine::{Cause, Closed, ComponentId, Imbalance, Ledger, Meter, Mode, Row, State};
use halfwink_power::{CoreEvents, CoreState};
use halfwink_units::{Cycle, Energy, Power, Time};

use crate::core::{Core, Waited};
use crate::cpi_stack::{ActiveCycles, Reason};
use crate::gate::{Gate, Residency};
use crate::gate_spec::Wakes;
use crate::machine::{Machine, PackageSleep};
use crate::package::asleep;
use crate::uncore::Uncore;
use crate::unit_energy::{unit_energies, units_power, UnitEnergy};

/// A run whose accounts do not balance.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AccountingError {
    /// Rows and meter differ.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// Cycles went by without a reason, or with two.
    #[error("{core}: {explained} cycles have a reason, but the pipeline ran for {ran}")]
    Cycles {
        /// Name of the core.
        core: String,
        /// Cycles with a reason.
        explained: Cycle,
        /// Cycles in which the pipeline ran.
        ran: Cycle,
    },
}

/// Parts of a core's energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyParts {
    /// Leakage, of what is left of it in the gated state too.
    pub leakage: Energy,
    /// Clock tree and latches.
    pub clock: Energy,
    /// Charging the rail at wake-ups, beside what leaks meanwhile.
    pub wake_up: Energy,
    /// Events: micro-operations, operations, accesses, mispredictions.
    pub events: Energy,
}

impl EnergyParts {
    /// Returns the sum of all parts.
    #[must_use]
    pub fn total(&self) -> Energy {
        self.leakage + self.clock + self.wake_up + self.events
    }

    fn add(&mut self, other: &EnergyParts) {
        self.leakage += other.leakage;
        self.clock += other.clock;
        self.wake_up += other.wake_up;
        self.events += other.events;
    }
}

/// Everything that a core's events cost, by name: counts by mode, and the energy of each.
struct CoreEnergy {
    name: &'static str,
    counts: [u64; 2],
    each: Energy,
}

fn core_energies(core: &Core, event: &CoreEvents) -> [CoreEnergy; 9] {
    let common = core.common();
    let (units, caches) = (&common.front_end.units, &common.private.counts);
    // A look-up of banks takes what the banks that it reads take.
    let (whole, banks) = match common.private.l2.ruled() {
        None => (caches.l2_accesses, [0; 2]),
        Some(ruled) => (ruled.counts.whole, ruled.counts.banks),
    };
    let entry = |name, counts, pj| CoreEnergy { name, counts, each: CoreEvents::energy(pj) };
    [
        entry("uops", common.front_end.work.uops, event.uop),
        entry("integer", units.alu, event.alu),
        entry("multiply", units.multiply, event.multiply),
        entry("floating-point", units.fp, event.fp),
        entry("l1i-access", caches.l1i_accesses, event.l1i_access),
        entry("l1d-access", caches.l1d_accesses, event.l1d_access),
        entry("l2-access", whole, event.l2_access),
        entry("l2-bank", banks, event.l2_access * BANK_SHARE),
        entry("mispredict", common.predictor.counts.mispredicted, event.mispredict),
    ]
}

/// Returns the energies of write-backs before a loss, of loads before a need, and of prefetches, in
/// a core and its own caches, by name: how often, and the energy of each.
fn flush_energies(core: &Core, event: &CoreEvents) -> [(&'static str, u64, Energy); 8] {
    let private = &core.common().private;
    let counts = private.losing.as_ref().map(|losing| losing.counts).unwrap_or_default();
    // A second level that is ruled counts what it is given itself.
    let writes = if private.l2.ruled().is_some() { 0 } else { counts.l2_writes };
    let entry = |name, count, pj| (name, count, CoreEvents::energy(pj));
    let prefetches = core.preheated().lines;
    let own = private.prefetch_counts();
    [
        entry("flush-l1d", counts.l1d_reads, event.l1d_access),
        entry("flush-l2", counts.l2_reads, event.l2_access),
        entry("flush-into-l2", writes, event.l2_access),
        entry("preheat-uops", prefetches, event.uop),
        entry("preheat-l2", prefetches, event.l2_access),
        // A look-up of a prefetcher takes what an access does (assumption: it reads tags alone).
        entry(PREFETCH, own.l1i.lookups, event.l1i_access),
        entry(PREFETCH, own.l1d.lookups, event.l1d_access),
        entry(PREFETCH, own.l2.lookups + own.l2_lookups, event.l2_access),
    ]
}

/// Energy of reading one of two banks, for that of the whole: by the root of the size, as the
/// machine files scale second levels (assumption).
const BANK_SHARE: f64 = std::f64::consts::FRAC_1_SQRT_2;

const MODES: [Mode; 2] = [Mode::User, Mode::Kernel];
const ON: State = State("on");
/// State of the shared parts while the package sleeps.
const ASLEEP: State = State("asleep");
const UNCORE: Cause = Cause { mode: Mode::Idle, reason: "uncore" };
const LEAKAGE: Cause = Cause { mode: Mode::Idle, reason: "leakage" };
const NOTHING: Cause = Cause { mode: Mode::Idle, reason: Reason::Unused.name() };
const AWAY: Cause = Cause { mode: Mode::Idle, reason: Reason::Away.name() };
/// Names of [`halfwink_dram::Payer::OTHERS`].
const OTHERS: [&str; 4] = ["flush", "preheat", "device", PREFETCH];
/// Name of accesses by prefetchers.
const PREFETCH: &str = "prefetch";
const HALTED: Cause = Cause { mode: Mode::Idle, reason: Reason::Idle.name() };

/// Knows what everything on a chip takes.
pub(crate) struct Accountant<'a> {
    machine: &'a Machine,
    /// Machine as the cores that are set aside for the kernel see it.
    os_machine: Machine,
    /// Cores with work of their own, which come first.
    users: usize,
    retention: bool,
    /// Source of the power states: the technique that paces the run, or a follower.
    follower: Option<usize>,
}

impl<'a> Accountant<'a> {
    pub(crate) fn new(machine: &'a Machine, users: usize, retention: bool) -> Accountant<'a> {
        Accountant { machine, os_machine: machine.os_core(), users, retention, follower: None }
    }

    /// Returns the accountant of a follower.
    pub(crate) fn of(self, follower: usize) -> Accountant<'a> {
        Accountant { follower: Some(follower), ..self }
    }

    /// Cores with work of their own.
    pub(crate) fn users(&self) -> usize {
        self.users
    }

    /// Energy of the whole chip up to `now`, as far as its cores have come by then.
    pub(crate) fn energy(&self, cores: &[Core], uncore: &Uncore, now: Time) -> Energy {
        let unused = state_power(self.machine, CoreState::Unused, self.retention) * now;
        self.core_energy(cores, now)
            + unused * (self.machine.cores - self.users) as u64
            + self.shared_energy(uncore, Shared { duration: now, asleep: self.asleep(cores, now) })
    }

    fn shared_energy(&self, uncore: &Uncore, time: Shared) -> Energy {
        L3Energy::of(self.machine, uncore, time).total()
            + MemoryEnergy::of(self.machine, uncore, time).total()
            + PackageEnergy::of(self.machine, time).total()
    }

    fn asleep(&self, cores: &[Core], now: Time) -> Time {
        asleep(self.machine, cores, now)
    }

    /// Returns the energy of the cores that have work, or are reserved for the kernel.
    pub(crate) fn core_energy(&self, cores: &[Core], now: Time) -> Energy {
        let parts = |(n, core)| self.parts_of(n, core, |gate| gate.residency_at(now));
        cores.iter().enumerate().map(parts).map(|parts| parts.total()).sum()
    }

    /// Returns the parts of each core's energy at the end, by its own counters.
    pub(crate) fn parts(&self, cores: &[Core]) -> Vec<EnergyParts> {
        let parts = |(n, core)| self.parts_of(n, core, |gate| gate.residency);
        cores.iter().enumerate().map(parts).collect()
    }

    /// Returns the parts of one core's energy, for its time in each power state.
    fn parts_of(
        &self,
        n: usize,
        core: &Core,
        residency: impl Fn(&Gate) -> Residency,
    ) -> EnergyParts {
        // Cores for the kernel may be of another kind (`Machine::os_core`).
        let machine = if n < self.users { self.machine } else { &self.os_machine };
        let energies = core_energies(core, &machine.power.core.event_pj);
        let (gate, _) = core.sleep(self.follower);
        let flushes = flush_energies(core, &machine.power.core.event_pj);
        let events = (&energies[..], &flushes[..]);
        let residency = residency(gate);
        let units = unit_energies(machine, core, &residency, self.retention);
        core_parts(machine, &gate.wakes, &residency, events, &units, self.retention)
    }

    /// Posts everything and balances.
    pub(crate) fn close(
        &self,
        cores: &[Core],
        uncore: &Uncore,
        duration: Time,
    ) -> Result<Closed, AccountingError> {
        let (machine, retention) = (self.machine, self.retention);
        let post = |ledger: &mut Ledger, machine: &Machine, name: String, core: &Core| {
            post_core(ledger, machine, name, (core, core.sleep(self.follower)), retention)
        };
        let mut ledger = Ledger::new();
        for (n, core) in cores[..self.users].iter().enumerate() {
            post(&mut ledger, machine, format!("core{n}"), core)?;
        }
        for (n, core) in cores[self.users..].iter().enumerate() {
            post(&mut ledger, &self.os_machine, format!("os{n}"), core)?;
        }
        // Cores without a program are not simulated: they have no counters, and are unused from the
        // begin to the end.
        for n in self.users..machine.cores {
            let power = state_power(machine, CoreState::Unused, retention);
            let row = Row { time: duration, energy: power * duration };
            let id = ledger.component(format!("core{n}"), row);
            ledger.post(id, State(CoreState::Unused.name()), NOTHING, row);
        }
        let time = Shared { duration, asleep: self.asleep(cores, duration) };
        post_l3(&mut ledger, machine, uncore, time);
        post_memory(&mut ledger, machine, uncore, time);
        post_package(&mut ledger, machine, time);
        Ok(ledger.close(duration)?)
    }
}

/// Returns the energy of wake-ups beside leakage.
fn wake_energy(machine: &Machine, wakes: &Wakes) -> Energy {
    let deep = machine.deep_states().zip(wakes.deep);
    machine.gating.wake_up_energy() * wakes.gating
        + deep.map(|(state, n)| machine.rest_wake_energy(state) * n).sum::<Energy>()
}

/// Returns the power of a core in a state, without events, and without the units that are gated by
/// themselves.
#[must_use]
pub fn state_power(machine: &Machine, state: CoreState, retention: bool) -> Power {
    if state == CoreState::Unused {
        return machine.unused;
    }
    if let Some(power) = deep_power(machine, state) {
        return power;
    }
    let core = machine.power.core.in_state(state, &machine.gating, retention);
    let [leakage, clock] = units_power(machine, state, retention);
    // Each unit is rounded by itself: together they may be a microwatt more.
    Power(core.0.saturating_sub(leakage.0 + clock.0))
}

/// Returns the power of a core in an idle state deeper than a stopped clock, if it has this one.
fn deep_power(machine: &Machine, state: CoreState) -> Option<Power> {
    machine.deep_states().nth(state.deep()?).map(|deep| Power::from_w(deep.core_w()))
}

fn state_leakage(machine: &Machine, state: CoreState, retention: bool) -> Power {
    if state == CoreState::Unused {
        return machine.unused;
    }
    if let Some(power) = deep_power(machine, state) {
        return power;
    }
    let core = machine.power.core.leakage(state, &machine.gating, retention);
    Power(core.0.saturating_sub(units_power(machine, state, retention)[0].0))
}

/// Computes the parts of a core's energy from its own counters.
fn core_parts(
    machine: &Machine,
    wakes: &Wakes,
    residency: &Residency,
    (energies, flushes): (&[CoreEnergy], &[(&str, u64, Energy)]),
    units: &[UnitEnergy],
    retention: bool,
) -> EnergyParts {
    let mut parts = EnergyParts { wake_up: wake_energy(machine, wakes), ..EnergyParts::default() };
    for state in CoreState::ALL {
        let time = residency[state as usize];
        let leakage = state_leakage(machine, state, retention) * time;
        parts.leakage += leakage;
        // This is the difference and not a product of its own: both then add up to what is posted
        // for the state, to the attojoule, as `Ledger::close` asks for.
        parts.clock += state_power(machine, state, retention) * time - leakage;
    }
    for item in energies {
        parts.events += item.each * item.counts.iter().sum::<u64>();
    }
    for &(_, count, each) in flushes {
        parts.events += each * count;
    }
    for unit in units {
        parts.add(&unit.parts());
    }
    parts
}

fn post_core(
    ledger: &mut Ledger,
    machine: &Machine,
    name: String,
    (core, (gate, waited)): (&Core, (&Gate, &Waited)),
    retention: bool,
) -> Result<(), AccountingError> {
    let active = &core.common().active;
    // The ledger could not see this: `split` shares out all of the time, whatever cycles are
    // missing.
    if active.total() != core.running_cycles {
        let (explained, ran) = (active.total(), core.running_cycles);
        return Err(AccountingError::Cycles { core: name, explained, ran });
    }
    let energies = core_energies(core, &machine.power.core.event_pj);
    let flushes = flush_energies(core, &machine.power.core.event_pj);
    let residency = &gate.residency;
    let units = unit_energies(machine, core, residency, retention);
    let events = (&energies[..], &flushes[..]);
    let parts = core_parts(machine, &gate.wakes, residency, events, &units, retention);
    let time = residency.iter().fold(Time::ZERO, |sum, &time| sum + time);
    let id = ledger.component(name, Meter { time, energy: parts.total() });
    for unit in &units {
        unit.post(ledger, id);
    }

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
    for (reason, count, each) in flushes {
        let row = Row { time: Time::ZERO, energy: each * count };
        let (state, mode) = match reason {
            "preheat-uops" | "preheat-l2" => (CoreState::Active, Mode::Kernel),
            PREFETCH => (CoreState::Active, Mode::Idle),
            _ => (CoreState::Flushing, Mode::Idle),
        };
        ledger.post(id, State(state.name()), Cause { mode, reason }, row);
    }
    post_waits(ledger, machine, id, waited, retention);
    let time = residency[CoreState::Unused as usize];
    let energy = state_power(machine, CoreState::Unused, retention) * time;
    ledger.post(id, State(CoreState::Unused.name()), NOTHING, Row { time, energy });
    Ok(())
}

fn post_waits(
    ledger: &mut Ledger,
    machine: &Machine,
    id: ComponentId,
    waited: &Waited,
    retention: bool,
) {
    let wake = machine.gating.wake_up_energy();
    for state in CoreState::ALL {
        let power = state_power(machine, state, retention);
        let name = State(machine.state_name(state));
        let charges = state == CoreState::Charging;
        let row = |time: Time, woken: Energy| Row {
            time,
            energy: power * time + if charges { woken } else { Energy::ZERO },
        };
        for (m, mode) in MODES.into_iter().enumerate() {
            let Some(times) = waited.times.get(state as usize) else { continue };
            for reason in Reason::ALL {
                let time = times[m][reason as usize];
                let wakes = waited.wakes[m][reason as usize];
                let cause = Cause { mode, reason: reason.name() };
                ledger.post(id, name, cause, row(time, wake * wakes));
            }
        }
        for (cause, idle, wakes) in [
            (HALTED, &waited.idle[0], waited.idle_wakes[0]),
            (AWAY, &waited.idle[1], waited.idle_wakes[1]),
        ] {
            ledger.post(id, name, cause, row(idle[state as usize], wake_energy(machine, &wakes)));
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
            // The running sum is rounded, so that the shares add up to `time` exactly. Picoseconds
            // times cycles need more than 64 bits.
            let up_to = (u128::from(time.0) * cycles).checked_div(total).unwrap_or(0) as u64;
            shares.push((Cause { mode, reason: reason.name() }, Time(up_to - given)));
            given = up_to;
        }
    }
    shares
}

/// Length of the observation of shared parts, and the time of it in which the package slept.
#[derive(Clone, Copy)]
struct Shared {
    duration: Time,
    asleep: Time,
}

impl Shared {
    fn awake(&self) -> Time {
        self.duration - self.asleep
    }
}

/// Returns the share of a part's power that remains while the package sleeps.
fn left(machine: &Machine, of: fn(&PackageSleep) -> f64) -> f64 {
    machine.package.as_ref().and_then(|package| package.sleep).map_or(1.0, |sleep| of(&sleep))
}

/// Energy of the package beside its cores, its third level and memory; zero if the machine has no
/// such values.
struct PackageEnergy {
    awake: Row,
    asleep: Row,
}

impl PackageEnergy {
    fn of(machine: &Machine, time: Shared) -> PackageEnergy {
        let watts = machine.package.as_ref().map_or(0.0, |package| package.uncore_w);
        let watts = watts * machine.share(|package| package.cores);
        let share = left(machine, |sleep| sleep.uncore_share);
        let row = |time, watts| Row { time, energy: Power::from_w(watts) * time };
        PackageEnergy { awake: row(time.awake(), watts), asleep: row(time.asleep, watts * share) }
    }

    fn total(&self) -> Energy {
        self.awake.energy + self.asleep.energy
    }
}

fn post_package(ledger: &mut Ledger, machine: &Machine, time: Shared) {
    if machine.package.is_none() {
        return;
    }
    let package = PackageEnergy::of(machine, time);
    let meter = Meter { time: time.duration, energy: package.total() };
    let id = ledger.component("uncore", meter);
    ledger.post(id, ON, UNCORE, package.awake);
    ledger.post(id, ASLEEP, UNCORE, package.asleep);
}

/// Energy of the shared cache.
struct L3Energy {
    leakage: Energy,
    /// While the package sleeps.
    asleep: Row,
    each: Energy,
    accesses: [u64; 2],
    /// Accesses that no code made.
    others: [u64; 4],
    /// Time without supply, and what leaks in it.
    off: Row,
}

impl L3Energy {
    fn of(machine: &Machine, uncore: &Uncore, time: Shared) -> L3Energy {
        let off = uncore.off;
        debug_assert!(off == Time::ZERO || time.asleep == Time::ZERO, "one state at a time");
        let leakage = machine.power.l3.leakage_w * machine.share(|package| package.l3_cores);
        let asleep = Power::from_w(leakage * left(machine, |sleep| sleep.l3_share));
        // Assumption: its switches leave the share of the leakage that a core's do.
        let residual = machine.gating.gated_power(leakage);
        L3Energy {
            off: Row { time: off, energy: residual * off },
            leakage: Power::from_w(leakage) * time.awake().saturating_sub(off),
            asleep: Row { time: time.asleep, energy: asleep * time.asleep },
            each: Energy::from_pj(machine.power.l3.access_pj),
            accesses: uncore.counts.accesses,
            others: uncore.counts.others,
        }
    }

    fn total(&self) -> Energy {
        self.leakage
            + self.asleep.energy
            + self.off.energy
            + self.each * self.accesses.iter().chain(&self.others).sum::<u64>()
    }
}

fn post_l3(ledger: &mut Ledger, machine: &Machine, uncore: &Uncore, time: Shared) {
    let l3 = L3Energy::of(machine, uncore, time);
    let id = ledger.component("l3", Meter { time: time.duration, energy: l3.total() });
    let on = Row { time: time.awake() - l3.off.time, energy: l3.leakage };
    ledger.post(id, ON, LEAKAGE, on);
    ledger.post(id, ASLEEP, LEAKAGE, l3.asleep);
    ledger.post(id, State(CoreState::Gated.name()), LEAKAGE, l3.off);
    for (mode, count) in MODES.into_iter().zip(l3.accesses) {
        let row = Row { time: Time::ZERO, energy: l3.each * count };
        ledger.post(id, ON, Cause { mode, reason: "l3-access" }, row);
    }
    for (reason, count) in OTHERS.into_iter().zip(l3.others) {
        let row = Row { time: Time::ZERO, energy: l3.each * count };
        ledger.post(id, ON, Cause { mode: Mode::Idle, reason }, row);
    }
}

/// Energy of memory: the background, and for each event the counts by mode and the energy of one.
struct MemoryEnergy {
    background: Energy,
    /// While the package sleeps.
    asleep: Row,
    refresh: Energy,
    events: [(&'static str, [u64; 2], Energy); 3],
    /// Energy of commands that no code requested.
    others: [Energy; 4],
}

impl MemoryEnergy {
    fn of(machine: &Machine, uncore: &Uncore, time: Shared) -> MemoryEnergy {
        let mut power = machine.power.memory;
        let share = machine.share(|package| package.memory_cores);
        for watts in [&mut power.closed_w, &mut power.open_w, &mut power.refresh_pj] {
            *watts *= share;
        }
        let counts = uncore.memory.counts();
        // Of the time of all ranks, some with a row open.
        let open = uncore.memory.open_time();
        let ranks = machine.memory.ranks() as u64;
        let closed = Time(time.duration.0 * ranks).saturating_sub(open);
        // Assumption: rows are closed before the package sleeps. What was counted for open ones in
        // that time stays in the background.
        let slept = Power::from_w(power.closed_w) * Time(time.asleep.0 * ranks);
        let left = Power::from_w(power.closed_w * left(machine, |sleep| sleep.memory_share));
        let [activate, read, write] =
            [power.activate_pj, power.read_pj, power.write_pj].map(Energy::from_pj);
        MemoryEnergy {
            others: counts
                .others
                .map(|c| activate * c.activates + read * c.reads + write * c.writes),
            background: Power::from_w(power.closed_w) * closed + Power::from_w(power.open_w) * open
                - slept,
            asleep: Row { time: time.asleep, energy: left * Time(time.asleep.0 * ranks) },
            refresh: Energy::from_pj(power.refresh_pj) * counts.refreshes,
            events: [
                ("activate", counts.activates, activate),
                ("read", counts.reads, read),
                ("write", counts.writes, write),
            ],
        }
    }

    fn total(&self) -> Energy {
        let events = self.events.iter().map(|(_, n, each)| *each * n.iter().sum::<u64>());
        self.background
            + self.asleep.energy
            + self.refresh
            + events.sum::<Energy>()
            + self.others.iter().copied().sum::<Energy>()
    }
}

fn post_memory(ledger: &mut Ledger, machine: &Machine, uncore: &Uncore, time: Shared) {
    let memory = MemoryEnergy::of(machine, uncore, time);
    let id = ledger.component("memory", Meter { time: time.duration, energy: memory.total() });
    let standby = Cause { mode: Mode::Idle, reason: "background" };
    ledger.post(id, ON, standby, Row { time: time.awake(), energy: memory.background });
    ledger.post(id, ASLEEP, standby, memory.asleep);
    let refresh = Cause { mode: Mode::Idle, reason: "refresh" };
    ledger.post(id, ON, refresh, Row { time: Time::ZERO, energy: memory.refresh });
    for (reason, energy) in OTHERS.into_iter().zip(memory.others) {
        let row = Row { time: Time::ZERO, energy };
        ledger.post(id, ON, Cause { mode: Mode::Idle, reason }, row);
    }
    for (reason, counts, each) in memory.events {
        for (mode, count) in MODES.into_iter().zip(counts) {
            let row = Row { time: Time::ZERO, energy: each * count };
            ledger.post(id, ON, Cause { mode, reason }, row);
        }
    }
}
