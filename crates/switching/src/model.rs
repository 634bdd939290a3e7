//! Descriptions: cores, configurations, switching mechanisms and workloads, as they are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::idle::Stamps;
use crate::printed::{CatalogueCore, Printed, System};
use crate::profile::{Offload, Workload};

/// What is wrong with a description, and with which of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// Path of the value (`cores.simple.clock_ghz`).
    pub element: String,
    /// What was found and what was expected, in one line.
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
    /// What it is, in one line.
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
    /// Sets of cores.
    pub configurations: Vec<Configuration>,
    /// How threads move.
    pub mechanism: Mechanism,
    /// Clock ticks and the idle-time instrument.
    pub kernel: KernelSpec,
    /// Power that is swept for the OS core, in watts.
    #[serde(default)]
    pub os_core_w: Vec<f64>,
    /// Which calls move in kernels that switch.
    pub offload: Offload,
    /// Programs.
    #[serde(default)]
    pub workloads: Vec<Workload>,
    /// Printed rows to account for again.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// Power of whole systems.
    #[serde(default)]
    pub systems: Vec<System>,
    /// Cores to compare.
    #[serde(default)]
    pub catalogue: Vec<CatalogueCore>,
}

/// A kind of core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreKind {
    /// Clock, in gigahertz.
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

/// A set of cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Name (`sim-cs`).
    pub name: String,
    /// Kinds of the application cores.
    pub app: Vec<String>,
    /// Kinds of the OS cores.
    #[serde(default)]
    pub os: Vec<String>,
    /// Shape of the first-level caches of cores whose misses depend on it.
    pub l1: Option<String>,
}

/// How threads move between cores, and what the steps cost.
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
    /// From the resumption of a quiesced core to its first poll, in reference cycles.
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
    /// How the target learns of the thread.
    pub signal: Signal,
    /// The version whose path the source takes if it has other threads to run.
    pub when_busy: Option<String>,
}

/// How the target of a switch learns of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// An inter-processor interrupt.
    Interrupt,
    /// It polls, and never powers down.
    Poll,
    /// It was woken early and polls by now; if it does not yet, an interrupt.
    EarlyWake,
}

/// Round trips of an empty call on one configuration, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// The configuration.
    pub configuration: String,
    /// Without switching.
    pub none_ns: f64,
    /// By version.
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
    /// What ends a recorded idle period.
    pub stamps: Stamps,
    /// When idle cores power down.
    #[serde(default)]
    pub power_down: PowerDown,
}

/// When idle cores power down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerDown {
    /// At once, whenever they idle.
    #[default]
    Always,
    /// Never.
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
        if spec.schema != 1 {
            return Err(ModelError::at("schema", "this halfwink reads switching schema 1"));
        }
        positive("reference_ghz", spec.reference_ghz)?;
        positive("l2_ns", spec.l2_ns)?;
        check_cores(&spec)?;
        check_configurations(&spec)?;
        check_mechanism(&spec)?;
        for (n, w) in spec.os_core_w.iter().enumerate() {
            not_negative(&format!("os_core_w.{n}"), *w)?;
        }
        not_negative("kernel.tick_hz", spec.kernel.tick_hz)?;
        if spec.kernel.tick_hz > 1e6 {
            return Err(ModelError::at("kernel.tick_hz", "expected at most 1e6"));
        }
        not_negative("kernel.tick_ns", spec.kernel.tick_ns)?;
        for (n, workload) in spec.workloads.iter().enumerate() {
            workload
                .check()
                .map_err(|e| ModelError::at(format!("workloads.{n}.{}", e.element), e.message))?;
        }
        check_lists(&spec)?;
        Ok(Model { spec })
    }

    /// The description.
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

pub(crate) fn positive(element: &str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(ModelError::at(element, format!("{value}, expected a number above 0")))
}

pub(crate) fn not_negative(element: &str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(ModelError::at(element, format!("{value}, expected a number of 0 or more")))
}

pub(crate) fn share(element: &str, value: f64) -> Result<(), ModelError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(ModelError::at(element, format!("{value}, expected 0 to 1")))
}

fn check_cores(spec: &Spec) -> Result<(), ModelError> {
    for (name, core) in &spec.cores {
        let at = |key: &str| format!("cores.{name}.{key}");
        positive(&at("clock_ghz"), core.clock_ghz)?;
        positive(&at("user_cycles"), core.user_cycles)?;
        positive(&at("kernel_cycles"), core.kernel_cycles)?;
        not_negative(&at("kernel_misses"), core.kernel_misses)?;
        not_negative(&at("empty_call_ns"), core.empty_call_ns)?;
        not_negative(&at("active_w"), core.active_w)?;
        not_negative(&at("idle_w"), core.idle_w)?;
        core.up_w.map_or(Ok(()), |w| not_negative(&at("up_w"), w))?;
    }
    for (name, shape) in &spec.l1 {
        positive(&format!("l1.{name}.instruction_misses"), shape.instruction_misses)?;
        positive(&format!("l1.{name}.data_misses"), shape.data_misses)?;
    }
    Ok(())
}

fn check_lists(spec: &Spec) -> Result<(), ModelError> {
    for (n, row) in spec.printed.iter().enumerate() {
        let at = |e: ModelError| ModelError::at(format!("printed.{n}.{}", e.element), e.message);
        row.check().map_err(at)?;
    }
    for (n, system) in spec.systems.iter().enumerate() {
        positive(&format!("systems.{n}.total_w"), system.total_w)?;
        not_negative(&format!("systems.{n}.cpu_w"), system.cpu_w)?;
    }
    for (n, core) in spec.catalogue.iter().enumerate() {
        positive(&format!("catalogue.{n}.average_w"), core.average_w)?;
        positive(&format!("catalogue.{n}.area"), core.area)?;
    }
    Ok(())
}

/// Most cores of a configuration on one side.
const MAX_CORES: usize = 64;

fn check_configurations(spec: &Spec) -> Result<(), ModelError> {
    for (n, configuration) in spec.configurations.iter().enumerate() {
        let at = |key: &str| format!("configurations.{n}.{key}");
        if !(1..=MAX_CORES).contains(&configuration.app.len()) {
            return Err(ModelError::at(at("app"), "expected 1 to 64 application cores"));
        }
        if configuration.os.len() > MAX_CORES {
            return Err(ModelError::at(at("os"), "expected at most 64 OS cores"));
        }
        for kind in configuration.app.iter().chain(&configuration.os) {
            if !spec.cores.contains_key(kind) {
                let message = format!("`{kind}` is none of the cores");
                return Err(ModelError::at(at("app"), message));
            }
        }
        if let Some(l1) = &configuration.l1 {
            if !spec.l1.contains_key(l1) {
                return Err(ModelError::at(at("l1"), format!("`{l1}` is none of the caches")));
            }
        }
        if spec.configurations[..n].iter().any(|c| c.name == configuration.name) {
            let message = format!("`{}` is there twice", configuration.name);
            return Err(ModelError::at(at("name"), message));
        }
    }
    Ok(())
}

fn check_mechanism(spec: &Spec) -> Result<(), ModelError> {
    let m = &spec.mechanism;
    for (key, value) in [
        ("ipi_handler_ns", m.ipi_handler_ns),
        ("ipi_send_cycles", m.ipi_send_cycles),
        ("line_ns", m.line_ns),
        ("wake_cycles", m.wake_cycles),
        ("resume_cycles", m.resume_cycles),
        ("data_line_ns", m.data_line_ns),
        ("power_up_cycles", m.power_up_cycles),
    ] {
        not_negative(&format!("mechanism.{key}"), value)?;
    }
    share("mechanism.source_share", m.source_share)?;
    for (name, version) in &m.versions {
        positive(&format!("mechanism.versions.{name}.leg_cycles"), version.leg_cycles)?;
        if let Some(other) = &version.when_busy {
            if !m.versions.contains_key(other) {
                let at = format!("mechanism.versions.{name}.when_busy");
                return Err(ModelError::at(at, format!("`{other}` is none of the versions")));
            }
        }
    }
    for (n, observed) in m.observed.iter().enumerate() {
        let at = |key: &str| format!("mechanism.observed.{n}.{key}");
        if !spec.configurations.iter().any(|c| c.name == observed.configuration) {
            let message = format!("`{}` is none of the configurations", observed.configuration);
            return Err(ModelError::at(at("configuration"), message));
        }
        positive(&at("none_ns"), observed.none_ns)?;
        for (version, &ns) in &observed.switched_ns {
            if !m.versions.contains_key(version) {
                let message = format!("`{version}` is none of the versions");
                return Err(ModelError::at(at("switched_ns"), message));
            }
            positive(&at("switched_ns"), ns)?;
        }
    }
    Ok(())
}
