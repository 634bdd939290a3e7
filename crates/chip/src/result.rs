//! What a run found out.

use halfwink_dram::Counts as MemoryCounts;
use halfwink_engine::confidence::Piece;
use halfwink_engine::{Closed, Histogram};
use halfwink_units::Time;

use crate::accounting::EnergyParts;
use crate::branch::BranchCounts;
use crate::core::Core;
use crate::cpi_stack::UnitCounts;
use crate::faults::FaultCounts;
use crate::front_end::WorkCounts;
use crate::gate::Residency;
use crate::losing::LossCounts;
use crate::os_cores::Calls;
use crate::precision::Precision;
use crate::prefetch::PrefetchCounts;
use crate::private::CacheCounts;
use crate::segregated::SegregationCounts;
use crate::timeline::Timeline;
use crate::translation::TlbCounts;
use crate::uncore::L3Counts;
use crate::unit_gates::GatedUnit;

/// Results of one core.
#[derive(Clone, Debug)]
pub struct CoreResult {
    /// Instructions and micro-operations retired.
    pub work: WorkCounts,
    /// Accesses and misses of its private caches.
    pub caches: CacheCounts,
    /// Counters of address translation; zero if that takes no time.
    pub tlb: TlbCounts,
    /// Counters of its prefetchers; zero if it has none.
    pub prefetch: PrefetchCounts,
    /// Counters of its second level, if a policy divides it.
    pub segregation: Option<SegregationCounts>,
    /// Counters of losses in sleep, if its machine loses anything.
    pub losses: LossCounts,
    /// Branches predicted, and of these wrong.
    pub branches: BranchCounts,
    /// Operations by functional unit.
    pub units: UnitCounts,
    /// Units that were gated by themselves.
    pub gated_units: Vec<GatedUnit>,
    /// Number of requests completed.
    pub requests: u64,
    /// Latencies of requests, from arrival (open load) or sending (closed) to the end of the
    /// response.
    pub latency: Histogram,
    /// Lengths of all stalls on the shared levels.
    pub stalls: Histogram,
    /// Lengths of those that memory ended.
    pub memory_stalls: Histogram,
    /// Time in each power state, as [`halfwink_power::CoreState::ALL`].
    pub residency: Residency,
    /// Parts of its energy.
    pub energy: EnergyParts,
    /// Faults of the core, and of the thread that began on it.
    pub faults: FaultCounts,
    /// Wake-ups from the gated state.
    pub wakes: u64,
    /// Wake-ups that were late, and by how much together.
    pub late_wakes: u64,
    /// Times that the operating system halted it and its policy heard of it.
    pub halts: u64,
    /// Time by which responses waited for the core.
    pub late: Time,
    /// Time at which its work began.
    pub started: Time,
    /// Time at which its work was done.
    pub finished: Time,
    /// Timeline of its states, if it was requested.
    pub timeline: Option<Timeline>,
    /// Kernel invocations of the task that began here, if a policy watched them.
    pub calls: Calls,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Time and energy, balanced.
    pub books: Closed,
    /// Cores that had work, in order.
    pub cores: Vec<CoreResult>,
    /// Cores that were set aside for the kernel.
    pub os_cores: Vec<CoreResult>,
    /// Counters of the shared cache.
    pub l3: L3Counts,
    /// Lines read and written, and rows opened for them.
    pub memory: MemoryCounts,
    /// Time until the last core was done.
    pub duration: Time,
    /// Precision of the results.
    pub precision: Precision,
    /// Parts of the run, to compare with those of another technique: work is instructions.
    pub pieces: Vec<Piece>,
}

/// Returns the results of one core under its own policy, or under that of a follower.
pub(crate) fn result(core: &Core, follower: Option<usize>, energy: EnergyParts) -> CoreResult {
    let common = core.common();
    let (gate, _) = core.sleep(follower);
    let gated_units = common.unit_gates.as_ref().map(|gates| gates.results()).unwrap_or_default();
    let woken: u64 = gated_units.iter().map(|unit| unit.wakes).sum();
    let (waits, waited) = core.waits_for_units();
    CoreResult {
        gated_units,
        work: common.front_end.work,
        caches: common.private.counts,
        tlb: common.private.translation.as_ref().map(|t| t.counts).unwrap_or_default(),
        prefetch: common.private.prefetch_counts(),
        segregation: common.private.l2.ruled().map(|ruled| ruled.counts),
        losses: common.private.losing.as_ref().map(|losing| losing.counts).unwrap_or_default(),
        branches: common.predictor.counts,
        units: common.front_end.units,
        requests: common.context.requests.completed,
        latency: common.context.requests.latency.clone(),
        calls: core.calls.clone(),
        stalls: core.stalls.clone(),
        memory_stalls: core.memory_stalls.clone(),
        residency: gate.residency,
        energy,
        faults: core.faults(),
        wakes: gate.wakes.total() + woken,
        halts: gate.halts,
        late_wakes: core.late_wakes + waits,
        late: core.late + waited,
        started: core.started,
        finished: core.finished.unwrap_or(Time::ZERO),
        timeline: gate.timeline.clone(),
    }
}
