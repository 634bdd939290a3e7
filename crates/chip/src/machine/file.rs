//! A machine description as it is written.

use halfwink_dram::{BankHash, CommandEnergy, MapOrder, Page};
use halfwink_power::{CachePower, CoreEvents, Gating};
use halfwink_units::{Cycle, PowerBasis};
use serde::Deserialize;
use toml::Spanned;

use super::branch::{BranchSection, FetchSection};
use super::faults::FaultsSection;
use super::prefetch::PrefetchSection;
use super::translation::TlbSection;
use super::{
    DvfsSpec, IdleState, Latencies, PackageSpec, SafeWakeUp, UnitDomains, Units, WakeUpKind,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineFile {
    pub(super) schema: Spanned<u32>,
    pub(super) description: String,
    pub(super) chip: ChipSection,
    pub(super) core: CoreSection,
    pub(super) branch: BranchSection,
    /// Without it, fetch is not ahead of dispatch.
    pub(super) fetch: Option<Spanned<FetchSection>>,
    pub(super) l1i: L1Section,
    pub(super) l1d: L1Section,
    pub(super) l2: L2Section,
    pub(super) tlb: Option<TlbSection>,
    pub(super) prefetch: Option<PrefetchSection>,
    pub(super) l3: L3Section,
    pub(super) memory: MemorySection,
    pub(super) tokens: TokenSection,
    pub(super) gating: Spanned<Gating>,
    pub(super) mapg: MapgSection,
    pub(super) fupg: Spanned<FupgSection>,
    pub(super) dvfs: Spanned<DvfsSpec>,
    pub(super) wake_up: Spanned<WakeUpSection>,
    pub(super) os: Spanned<OsSection>,
    #[serde(default)]
    pub(super) idle_states: Vec<Spanned<IdleState>>,
    pub(super) package: Option<Spanned<PackageSpec>>,
    pub(super) faults: Option<FaultsSection>,
    pub(super) power: PowerSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChipSection {
    pub(super) cores: Spanned<usize>,
    pub(super) clock_ghz: Spanned<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KindName {
    InOrder,
    OutOfOrder,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CoreSection {
    pub(super) kind: Spanned<KindName>,
    pub(super) width: Spanned<usize>,
    pub(super) window: Option<Spanned<usize>>,
    pub(super) integer_queue: Option<Spanned<usize>>,
    pub(super) fp_queue: Option<Spanned<usize>>,
    pub(super) load_queue: Option<Spanned<usize>>,
    pub(super) store_queue: Spanned<usize>,
    pub(super) refill_cycles: Cycle,
    pub(super) syscall_cycles: Cycle,
    pub(super) atomic_cycles: Cycle,
    pub(super) units: Spanned<Units>,
    pub(super) latency_cycles: Spanned<Latencies>,
    pub(super) branches_in_order: Option<Spanned<bool>>,
    pub(super) fusion: Option<Spanned<bool>>,
    pub(super) move_elimination: Option<Spanned<bool>>,
    pub(super) index_cycles: Option<Spanned<Cycle>>,
    pub(super) busy_cycles: Option<Spanned<BusySection>>,
    pub(super) strings: Option<Spanned<StringsSection>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StringsSection {
    pub(super) bytes: u64,
    pub(super) start_cycles: Cycle,
    pub(super) short_bytes: u64,
    pub(super) short_start_cycles: Cycle,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BusySection {
    pub(super) divide: Option<Cycle>,
    pub(super) fp_divide: Option<Cycle>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct L1Section {
    pub(super) size: Spanned<String>,
    pub(super) ways: Spanned<usize>,
    pub(super) latency_cycles: Spanned<Cycle>,
    pub(super) mshrs: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct L2Section {
    pub(super) size: Spanned<String>,
    pub(super) ways: Spanned<usize>,
    pub(super) latency_ns: Spanned<f64>,
    /// Latency of a bank; by default and with 0 that of the whole cache.
    pub(super) bank_ns: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct L3Section {
    pub(super) size: Spanned<String>,
    pub(super) ways: Spanned<usize>,
    pub(super) latency_ns: Spanned<f64>,
    pub(super) banks: Spanned<usize>,
    pub(super) occupancy_ns: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemorySection {
    /// A device by name, or one of its own, or `uniform`.
    pub(super) device: Spanned<toml::Value>,
    pub(super) channels: Spanned<usize>,
    pub(super) ranks: Spanned<usize>,
    /// Latency of every access, if memory is uniform.
    pub(super) latency_ns: Option<Spanned<f64>>,
    /// Rules of the controllers, if it is not.
    pub(super) map: Option<MapOrder>,
    pub(super) hash: Option<BankHash>,
    pub(super) page: Option<Page>,
    pub(super) queue: Option<usize>,
    pub(super) drain_at: Option<usize>,
    pub(super) drain_to: Option<usize>,
    pub(super) idle_drain: Option<usize>,
    pub(super) hit_cap: Option<u32>,
    pub(super) patience: Option<u32>,
    pub(super) forward: Option<u64>,
    pub(super) request_ns: Spanned<f64>,
    pub(super) response_ns: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenSection {
    pub(super) l1_ns: Spanned<f64>,
    pub(super) l2_ns: Spanned<f64>,
    pub(super) l3_ns: Spanned<f64>,
    pub(super) eta_ns: Spanned<f64>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FupgSection {
    pub(super) core_share: f64,
    pub(super) wake_up_ns: f64,
    pub(super) wake_up_energy_pj: f64,
    #[serde(default)]
    pub(super) domains: UnitDomains,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WakeUpSection {
    pub(super) controller: WakeUpKind,
    pub(super) slots: usize,
    pub(super) stagger_ns: f64,
    pub(super) delay_ns: f64,
    pub(super) fastest_ns: f64,
    pub(super) slowest_ns: f64,
    pub(super) modes: usize,
    pub(super) equation: Vec<SafeWakeUp>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OsSection {
    pub(super) cores: usize,
    pub(super) like: String,
    pub(super) switch_cycles: Cycle,
    pub(super) transfer_ns: f64,
    pub(super) power_down: bool,
    pub(super) time_slice_us: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapgSection {
    pub(super) t_llc_ns: Spanned<f64>,
    pub(super) t_mem_ns: Spanned<f64>,
}

/// Power of a core in its states: all values are required, and the error says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CorePowerSection {
    pub(super) leakage_w: Option<f64>,
    pub(super) clock_w: Option<f64>,
    pub(super) stalled_clock_w: Option<f64>,
    pub(super) event_pj: Spanned<CoreEvents>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PowerSection {
    pub(super) core: Spanned<CorePowerSection>,
    pub(super) l3: Spanned<CachePower>,
    /// Without it, by the currents of the device.
    pub(super) memory: Option<Spanned<CommandEnergy>>,
    #[serde(default)]
    pub(super) basis: PowerBasis,
    /// Without it, all are as written.
    pub(super) factor: Option<Spanned<[f64; 2]>>,
}
