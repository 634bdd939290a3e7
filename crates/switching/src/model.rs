//! Descriptions: cores, configurations, switching mechanisms and workloads, as they are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check;
use crate::idle::Stamps;
use crate::printed::{CatalogueCore, Printed, System};
use crate::profile::{Offload, Workload};

/// An error in a description, with the path of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// Path of the value (`cores.simple.clock_ghz`).
    pub element: String,
    /// Message of one line: the value found and the values allowed.
    pub message: String,
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.element, self.message)
    }
}

impl std::error::Error for ModelError {}

impl ModelError {
    pub(crate) fn at(element: impl Into<String>, message: impl Into<String>) -> ModelError {
        ModelError { element: element.into(), message: message.into() }
    }
}

/// A description as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Description in one line.
    pub description: String,
    /// Values that were fitted to published ones rather than taken from them.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// Clock at which demands and handler times are stated, in gigahertz.
    pub reference_ghz: f64,
    /// A reference to the shared cache, in nanoseconds.
    pub l2_ns: f64,
    /// Kinds of cores by name.
    pub cores: BTreeMap<String, CoreKind>,
    /// Shapes of first-level caches by name; without any, misses do not depend on the shape.
    #[serde(default)]
    pub l1: BTreeMap<String, L1Shape>,
    /// Kernel code of programs by name, with its times on the kinds of cores.
    #[serde(default)]
    pub kernel_code: BTreeMap<String, KernelCode>,
    /// Sets of cores that can run.
    pub configurations: Vec<Configuration>,
    /// Mechanism by which threads move.
    pub mechanism: Mechanism,
    /// Clock ticks and the idle-time instrument.
    pub kernel: KernelSpec,
    /// Power that is swept for the OS core, in watts.
    #[serde(default)]
    pub os_core_w: Vec<f64>,
    /// Which calls move in kernels that switch.
    pub offload: Offload,
    /// Programs that can run.
    #[serde(default)]
    pub workloads: Vec<Workload>,
    /// Printed rows to account for again.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// Power of whole systems.
    #[serde(default)]
    pub systems: Vec<System>,
    /// Commercial cores to compare.
    #[serde(default)]
    pub catalogue: Vec<CatalogueCore>,
}

/// A kind of core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreKind {
    /// Clock frequency, in gigahertz.
    pub clock_ghz: f64,
    /// Cycles that user code takes where the reference core takes one.
    pub user_cycles: f64,
    /// Cycles that kernel code takes where the reference core takes one, first-level hits alone.
    pub kernel_cycles: f64,
    /// First-level misses of kernel code per reference cycle, with the first shape of cache.
    pub kernel_misses: f64,
    /// A system call that does nothing and does not switch, in nanoseconds.
    pub empty_call_ns: f64,
    /// Power while it does anything, in watts.
    pub active_w: f64,
    /// Power while it is powered down, in watts.
    pub idle_w: f64,
    /// Power while it does nothing but is up, in watts; without it, that of an active core.
    pub up_w: Option<f64>,
}

/// A shape of first-level caches, with misses of recorded kernel code in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L1Shape {
    /// Misses of the instruction cache per kernel instruction.
    pub instruction_misses: f64,
    /// Misses of the data cache per kernel instruction.
    pub data_misses: f64,
}

/// Kernel code of a program, by the time that the same instructions take on each kind of core.
/// Calls and interrupts of a server find other things in the caches than the loop of a switch does,
/// whose costs are those of [`CoreKind`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelCode {
    /// Kind of core for which demands are stated.
    pub reference: String,
    /// Nanoseconds of an instruction by kind of core, with the first shape of cache.
    pub ns: BTreeMap<String, f64>,
    /// Times with other shapes of first-level caches, for the kinds of cores that have them.
    #[serde(default)]
    pub l1: BTreeMap<String, BTreeMap<String, f64>>,
}

impl KernelCode {
    /// Time of this code on a kind of core of `configuration` over that on the reference core.
    /// Returns `None` if the kind is not there.
    #[must_use]
    pub fn factor(&self, kind: &str, configuration: &Configuration) -> Option<f64> {
        let shaped = configuration.l1.as_ref().and_then(|l1| self.l1.get(l1)?.get(kind));
        let ns = shaped.or_else(|| self.ns.get(kind))?;
        Some(ns / self.ns.get(&self.reference)?)
    }
}

/// A set of cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Name of the configuration (`sim-cs`).
    pub name: String,
    /// Kinds of the application cores.
    pub app: Vec<String>,
    /// Kinds of the OS cores.
    #[serde(default)]
    pub os: Vec<String>,
    /// Shape of the first-level caches of cores whose misses depend on it.
    pub l1: Option<String>,
}

/// Mechanism by which threads move between cores, and the costs of its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanism {
    /// Handler of an inter-processor interrupt on the reference core, in nanoseconds; scales with
    /// the clock.
    pub ipi_handler_ns: f64,
    /// Sending one, in reference cycles.
    pub ipi_send_cycles: f64,
    /// Moving a cache line from core to core, in nanoseconds.
    pub line_ns: f64,
    /// Waking another core by instruction, in reference cycles.
    pub wake_cycles: f64,
    /// Time from the resumption of a quiesced core to its first poll, in reference cycles.
    pub resume_cycles: f64,
    /// Share of a leg that the source executes.
    pub source_share: f64,
    /// Nanoseconds for each line of data that follows a call to the other core.
    #[serde(default)]
    pub data_line_ns: f64,
    /// Cycles to power a core up, at its own clock, by default.
    #[serde(default)]
    pub power_up_cycles: f64,
    /// Kernels that switch, by name.
    pub versions: BTreeMap<String, Version>,
    /// Measured or simulated round trips that the cycles were fitted to.
    #[serde(default)]
    pub observed: Vec<Observation>,
}

/// A kernel that switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// One leg (source and target together), in reference cycles.
    pub leg_cycles: f64,
    /// Signal that notifies the target of the thread.
    pub signal: Signal,
    /// The version whose path the source takes if it has other threads to run.
    pub when_busy: Option<String>,
}

/// Signal that notifies the target of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Sends an inter-processor interrupt.
    Interrupt,
    /// Lets the target poll; it never powers down.
    Poll,
    /// Wakes the target early, so that it polls in time; otherwise sends an interrupt.
    EarlyWake,
}

/// Round trips of an empty call on one configuration, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// Name of the configuration that was measured.
    pub configuration: String,
    /// Round trip without switching.
    pub none_ns: f64,
    /// Round trips with switching, by version.
    pub switched_ns: BTreeMap<String, f64>,
}

/// Clock ticks and the instrument that records idle time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// Clock ticks per second on each core; 0 for none.
    pub tick_hz: f64,
    /// Handler of a tick on the reference core, in nanoseconds.
    pub tick_ns: f64,
    /// Event that ends a recorded idle period.
    pub stamps: Stamps,
    /// Condition under which idle cores power down.
    #[serde(default)]
    pub power_down: PowerDown,
}

/// Condition under which idle cores power down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerDown {
    /// At once, whenever they idle.
    #[default]
    Always,
    /// Stays powered up.
    Never,
    /// Application cores if their idle times are expected to be long (`AdaptiveIdle`), OS cores if
    /// they are not entered often (`RatePowerDown`).
    Adaptive,
}

/// A description that was checked.
#[derive(Clone, Debug)]
pub struct Model {
    spec: Spec,
}

impl Model {
    /// Checks a description.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn new(spec: Spec) -> Result<Model, ModelError> {
        check::spec(&spec)?;
        for (n, workload) in spec.workloads.iter().enumerate() {
            workload
                .check()
                .map_err(|e| ModelError::at(format!("workloads.{n}.{}", e.element), e.message))?;
        }
        Ok(Model { spec })
    }

    /// Returns the description of the model.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// A configuration by name.
    ///
    /// # Errors
    /// If there is none.
    pub fn configuration(&self, name: &str) -> Result<&Configuration, ModelError> {
        let found = self.spec.configurations.iter().find(|c| c.name == name);
        found.ok_or_else(|| ModelError::at("configurations", format!("none is named `{name}`")))
    }

    /// A kernel that switches, by name.
    ///
    /// # Errors
    /// If there is none.
    pub fn version(&self, name: &str) -> Result<&Version, ModelError> {
        let found = self.spec.mechanism.versions.get(name);
        found.ok_or_else(|| ModelError::at("mechanism.versions", format!("none is named `{name}`")))
    }
}
