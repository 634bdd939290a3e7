//! What can be asked of halfwink: techniques, machines, workloads, studies and targets by name, and
//! the running of one technique on one workload on one machine.
//!
//! Everything above (Python, the command line, sweeps) only arranges [`Job`]s and the tables that
//! they return.

mod closed_form;
mod error;
mod job;
mod library;
mod network;
mod os_profile;
mod output;
mod parallel;
mod predict;
mod registry;
mod router;
mod server;
mod study;
mod switching;
mod table;
mod target;
mod workload;

pub use closed_form::closed_form;
pub use error::StudyError;
pub use halfwink_engine::RunControl;
pub use halfwink_server::Goal;
pub use job::{Job, Output, Prepared};
pub use library::{Library, MachineInfo, WorkloadInfo};
pub use network::{CaseAnswer, Fact, FitRow, NetworkInfo, StaggerRow, WakeRow};
pub use os_profile::THRESHOLDS;
pub use predict::{Accuracy, Decisions, Foresight};
pub use registry::{technique, Plan, Technique, TECHNIQUES};
pub use router::{
    CoreTimes, Load, PreparedRouter, RouterInfo, RouterJob, RouterOutput, RouterPolicy,
    RouterProfile, RouterQuestion, VirtualMeter, ROUTER_POLICIES,
};
pub use server::{
    dispatch, proportionality, Kind, Rate, ServerInfo, ServerLoad, ServerPolicy, ServerQuestion,
    YearQuestion, SERVER_POLICIES,
};
pub use study::{Plot, Study, World};
pub use switching::SwitchingInfo;
pub use table::{Column, Table, Value};
pub use target::{Class, Compute, Target, Tolerance, Verdict, Work};
pub use workload::{Part, Workload};
