//! World: a chip of cores with caches and memory, playing instruction traces, whose cores sleep
//! between memory accesses as a gating policy decides.
//!
//! ```text
//!  Source ─▶ front end ─▶ pipeline ─▶ private caches ─▶ shared cache ─▶ memory
//!                         │    ▲                           │
//!                  stalls │    │ gated, woken       tokens │
//!                         ▼    │                           │
//!                         gate ◀───────────────────────────┘
//!                         │    ▲
//!                  events ▼    │ actions
//!                         policy
//! ```
//!
//! Everything is exact in time: skipping cycles in which nothing moves, and letting cores run ahead
//! of one another, change how long a simulation takes and nothing else.

mod accounting;
mod agent;
mod branch;
mod by;
mod cache;
mod chip;
mod core;
mod cpi_stack;
mod engine;
mod faults;
mod followers;
mod front_end;
mod gate;
mod gate_spec;
mod lines;
mod losing;
mod losses;
mod machine;
mod memory;
mod miss;
mod misses;
mod number_set;
mod os_cores;
mod os_profile;
mod package;
mod precision;
mod prefetch;
pub mod preheat;
mod private;
mod progress;
mod result;
mod ruled;
pub mod sample;
mod scheduler;
mod second_level;
mod segregated;
mod shared_lines;
mod spread;
mod strings;
mod task;
#[cfg(test)]
mod tests;
mod threads;
mod timeline;
mod translation;
mod uncore;
mod unit_energy;
mod unit_gates;
mod uop;
mod wake_up;
mod warm_up;

pub use accounting::{state_power, AccountingError, EnergyParts};
pub use branch::BranchCounts;
pub use chip::{run, ChipError, CodeCache, Options};
pub use core::{CoreError, PreheatCounts};
pub use cpi_stack::{Reason, UnitCounts};
pub use engine::EngineCounts;
pub use faults::{Broken, FaultCounts};
pub use followers::{run_together, Follower};
pub use front_end::WorkCounts;
pub use gate::PolicyError;
/// Counters of the memory.
pub use halfwink_dram::Counts as MemoryCounts;
pub use losing::LossCounts;
pub use machine::{
    BranchSpec, BtbSpec, CoreKind, CoreSpec, DvfsSpec, FaultSpec, FetchSpec, FupgSpec, Geometry,
    IdleState, IndirectSpec, L1Spec, L2Spec, L3Spec, Latencies, Machine, MapgSpec, MemoryKind,
    MemorySpec, OsSpec, PackageSleep, PackageSpec, PerceptronSpec, PowerSpec, PredictorKind,
    PrefetchKind, PrefetchSpec, PrefetcherSpec, SafeWakeUp, Socket, StringSpec, TageSpec,
    TlbLevelSpec, TlbSpec, TokenSpec, UnitDomain, UnitDomains, Units, WakeTime, WakeUpKind,
    WakeUpSpec, Window, MAX_CORES, MAX_WINDOW,
};
pub use misses::{count_misses, MissCount, MissCounts, MissSetup};
pub use os_cores::{add_calls, kernel_entry, Call, Calls};
pub use os_profile::{
    os_profile, run_profile, Entry, EntryProfile, Footprint, Lengths, LevelCounts, LevelProfile,
    OsProfile, ProfileCaches, LENGTH_CLASSES,
};
pub use precision::Precision;
pub use prefetch::{PrefetchCounts, PrefetcherCounts};
pub use private::CacheCounts;
pub use result::{CoreResult, RunResult};
pub use second_level::{
    replay, second_level_stream, stack_distances, Cost, Latencies as SecondLevelLatencies,
    ReplayError, ReplaySetup, Replayed, SecondLevelStream, Sides, StackDistances,
};
pub use segregated::{possible_rule, Segregated, SegregationCounts};
pub use shared_lines::SharedLines;
pub use task::Task;
pub use threads::{OneThread, Threads};
pub use timeline::Timeline;
pub use translation::TlbCounts;
pub use uncore::L3Counts;
pub use unit_gates::GatedUnit;
