//! World: the kernel at the scale of microseconds. Threads that enter the kernel move to another
//! core and back; what that costs (Strong 2013, ch. 3), what it does to whole programs, and what it
//! saves under the accounting that was published and under an exact one (Mogul 2007, ch. 7).
//!
//! ```text
//! model (TOML) ──▶ mechanism: cost of a leg, of a round trip ──▶ fit
//!      │                 │
//!      └──▶ workload ──▶ sim: cores, run queues, interrupts, policy ──▶ accounting: joules
//! ```

pub mod accounting;
mod check;
mod fit;
mod idle;
mod mechanism;
mod model;
mod printed;
mod profile;
mod sim;
mod solve;

pub use fit::{calibrate_mechanism, MechanismFit, Parameter};
pub use idle::{expected_factor, IdleRecord, Stamps};
pub use mechanism::{Leg, RoundTrip};
pub use model::{
    Configuration, CoreKind, KernelCode, L1Shape, Mechanism, Model, ModelError, Observation,
    PowerDown, Signal, Spec, Version,
};
pub use printed::{CatalogueCore, Forensic, Printed, System};
pub use profile::{Call, Demand, Offload, Rule, Waits, Where, Workload};
pub use sim::{
    policies, run, run_with, CallCount, CorePolicies, CoreResult, Kernel, Run, RunError,
    SleepPolicy,
};
pub use solve::{calibrate_workload, Solved};
