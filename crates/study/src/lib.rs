//! What can be asked of halfwink: worlds, techniques, machines, workloads, studies and targets by
//! name, and the running of one technique on one workload on one machine.
//!
//! Everything above (Python, the command line, sweeps) only arranges [`Job`]s and the tables that
//! they return.

mod design;
mod elsewhere;
mod error;
mod experiments;
#[cfg(test)]
mod fault_seeds;
mod job;
mod laws;
mod library;
mod logs;
mod mutant;
mod parallel;
mod prepared;
mod replay;
mod requests;
#[cfg(test)]
mod shipped;
mod study;
mod table;
mod target;
#[cfg(test)]
mod unread_tests;
mod world;
mod worlds;

pub use design::Design;
pub use error::StudyError;
pub use experiments::{Experiment, EXPERIMENTS};
pub use halfwink_engine::RunControl;
pub use halfwink_eventlog::{Beside, Contradiction, Report};
pub use halfwink_trace::IoCounts;
pub use job::Job;
pub use laws::{check_policy, Breach, Checked, Likeness, Verdict as LawVerdict};
pub use library::{play_policies_in_files, Library, MachineInfo, WorkloadInfo};
pub use logs::Logs;
pub use mutant::{Breaks, Mutant};
pub use prepared::{run_together, Planned, PreparedJob};
pub use replay::{beside, replay};
pub use study::{Plot, Study};
pub use table::{Column, Head, Kind, Short, Table, Value};
pub use target::{Class, Compute, Source, Target, Tolerance, Verdict, Work as PublishedWork};
pub use world::{Control, Defaults, Named, Prepared, Tables, Work, World};
pub use worlds::chip::workload::{Part, Workload};
pub use worlds::chip::{
    closed_form, Accuracy, CaseAnswer, ChangePct, Decisions, EntryModel, Fact, FitRow, Interval,
    NetworkInfo, Prediction, PreheatQuestion, Sample, SampleQuestion, SampledTechnique,
    SegregationSweep, Spacing, SplitAdvice, StaggerRow, TrapRow, WakeRow, THRESHOLDS,
};
pub use worlds::fabric::{schedule, FabricInfo, Scheduler};
pub use worlds::list::{world, WORLDS};
pub use worlds::load::Day;
pub use worlds::node::{
    ChosenState, IdleAnswer, IdleQuestion, IdleRow, LeftOut, LimitRow, RecordingInfo,
};
pub use worlds::router::{Load, RouterInfo, RouterProfile};
pub use worlds::server::{proportionality, Kind as LoadKind, Rate, ServerInfo, ServerLoad};
pub use worlds::storage::StorageInfo;
pub use worlds::switching::SwitchingInfo;
