//! Machines as they are written, and as they are once checked.

use serde::{Deserialize, Serialize};

use crate::faults::Faults;

/// Most CPUs of a machine.
const MOST_CPUS: u32 = 4096;

/// A description as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Description in one line.
    pub description: String,
    /// Paths that were fitted to published numbers, and behind a colon to which.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// Sockets and cores of the machine.
    pub topology: Topology,
    /// Transfer times of cache lines.
    pub coherence: Coherence,
    /// Costs of the block layer.
    pub block: Block,
    /// The driver's stages and locks.
    pub driver: Driver,
    /// Storage device of the machine.
    pub device: Device,
    /// Faults injected into the device.
    #[serde(default)]
    pub faults: Faults,
    /// Power of what computes; ours, the work has none.
    pub power: Power,
    /// Applications above it, as closed networks.
    pub applications: Applications,
}

/// Sockets and cores (Nellans 2014, Table 6.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Sockets, which are NUMA nodes.
    pub sockets: u16,
    /// Cores of each; hyper-threading is off.
    pub cores_per_socket: u16,
    /// Clock frequency of the CPUs, in gigahertz.
    pub ghz: f64,
    /// Last-level cache of each socket.
    pub l3_mb: f64,
    /// First-level data cache of each core.
    pub l1_kb: f64,
    /// Memory of the machine, in gigabytes.
    pub memory_gb: f64,
}

impl Topology {
    /// Returns the number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.sockets.saturating_mul(self.cores_per_socket)
    }

    /// Hops between two sockets. Up to four are all neighbours; of more, those are whose numbers
    /// differ in one bit (a cube has three neighbours and the rest counts as two hops).
    #[must_use]
    pub fn hops(&self, from: u16, to: u16) -> u32 {
        match (from ^ to).count_ones() {
            0 => 0,
            1 => 1,
            _ if self.sockets <= 4 => 1,
            _ => 2,
        }
    }
}

/// Transfer times of a line from the cache that wrote it last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coherence {
    /// Latency from the core's own cache.
    pub same_core_ns: f64,
    /// Latency from another core of the socket.
    pub same_socket_ns: f64,
    /// Latency from a neighbouring socket.
    pub one_hop_ns: f64,
    /// Latency from a socket two hops away.
    pub two_hops_ns: f64,
}

/// The block layer (Sec 6.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// CPU whose clock the times of software are of.
    pub reference_ghz: f64,
    /// Application, libaio and everything outside locks, of an I/O through the request queue:
    /// plugging and accounting included.
    pub submit_us: f64,
    /// Submission time of an I/O that goes to the driver past the request queue.
    pub direct_submit_us: f64,
    /// Share by which a submission may be shorter or longer.
    pub jitter: f64,
    /// The completing half above a driver that has no work of its own.
    pub complete_us: f64,
    /// Lines outside locks that each issuing writes, and that come from who issued before.
    #[serde(default)]
    pub shared_lines: f64,
    /// The request queue's lock: taken to insert, to dispatch, and to complete.
    pub queue: LockSpec,
    /// The lock of a queue of one's own, where there are many.
    pub own_queue: LockSpec,
}

/// The driver (Sec 6.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    /// Interrupt, reading which I/O it is of, and acknowledging.
    pub interrupt_us: f64,
    /// Completions that one interrupt may take.
    pub coalesce: u32,
    /// Time of an interrupt's work where a CPU polls instead.
    pub poll_us: f64,
    /// Sending an interrupt to another CPU.
    pub ipi_send_us: f64,
    /// Being interrupted by another CPU.
    pub ipi_receive_us: f64,
    /// Updating the driver's data structures.
    pub structures_us: f64,
    /// Share that this takes longer where it does not follow the interrupt on the same CPU.
    pub lost_locality: f64,
    /// Completing to the operating system and the application, at the reference's clock.
    pub completion_us: f64,
    /// Lines of a descriptor and what its issuer waits on that the completing CPU takes over.
    pub descriptor_lines: f64,
    /// Taking the result back in the application where another CPU completed.
    pub wake_us: f64,
    /// Time by which a completion slows the application whose cache lines it evicted.
    pub refill_us: f64,
    /// Counts spinning on a completion lock as use of the CPU, in reports to the policy.
    #[serde(default = "yes")]
    pub spinning_is_use: bool,
    /// Size of the data structures, in megabytes.
    pub working_set_mb: f64,
    /// I/Os that a handler takes from the ring at once.
    pub batch: u32,
    /// The ring of I/Os that wait for the second phase.
    pub ring: LockSpec,
    /// Lock of the map.
    pub map: LockSpec,
}

fn yes() -> bool {
    true
}

/// A lock, and what it protects.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockSpec {
    /// Rule by which it is granted.
    pub kind: LockKind,
    /// Hold time for each I/O if all lines are in the own cache.
    pub hold_ns: f64,
    /// Lines that it protects: they follow the lock to its next holder.
    pub lines: f64,
    /// Writes of the holder to the lock's own line or beside it: each takes it from those who
    /// spin, the farther the longer.
    pub writes: f64,
    /// Probability that a waiter of the holder's own socket comes next, if there is one.
    #[serde(default)]
    pub own_socket: f64,
}

/// Rule by which a lock is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// First come, first served.
    Ticket,
    /// Waiters near the holder are favoured.
    Unfair,
    /// Readers that upgrade to write: two at once wait for each other for ever (Sec 6.2.2).
    Upgrade,
    /// An index that is added to atomically: nothing is held but the line.
    Atomic,
}

/// The device (Sec 6.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Latency from taking a request to its completion, at the device.
    pub latency_us: f64,
    /// Largest rate, in requests per second.
    pub iops: f64,
    /// Bytes a second, in both directions together.
    pub gb_per_s: f64,
    /// Way there and back through bridges: by sockets 10 to 135 us.
    pub pcie_us: f64,
}

/// Power of CPUs and device; modelled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// A CPU that works.
    pub busy_w: f64,
    /// A CPU that waits for a lock.
    pub spin_w: f64,
    /// A CPU that polls the device.
    pub poll_w: f64,
    /// A CPU that sleeps until an interrupt.
    pub idle_w: f64,
    /// Power of the device.
    pub device_w: f64,
}

/// Descriptions of applications by name: see [`crate::application`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Applications(pub std::collections::BTreeMap<String, crate::application::Application>);

/// An error in a description, with the path of the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{element}: {message}")]
pub struct DescriptionError {
    /// Path of the value (`topology.sockets`).
    pub element: String,
    /// Message of one line: the value found and the values allowed.
    pub message: String,
}

/// A description whose values are possible.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    spec: Spec,
}

impl Machine {
    /// Checks a description.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn new(spec: Spec) -> Result<Machine, DescriptionError> {
        if spec.schema != 1 {
            return Err(wrong("schema", format!("found {}, expected 1", spec.schema)));
        }
        check_topology(&spec.topology)?;
        check_coherence(&spec.coherence)?;
        check_block(&spec.block)?;
        check_driver(&spec.driver)?;
        check_device(&spec.device)?;
        spec.faults.check()?;
        check_power(&spec.power)?;
        for (name, application) in &spec.applications.0 {
            application.check(&format!("applications.{name}"))?;
        }
        Ok(Machine { spec })
    }

    /// Returns the description as it was written.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the factor by which software is slower than on the reference.
    #[must_use]
    pub fn slower(&self) -> f64 {
        self.spec.block.reference_ghz / self.spec.topology.ghz
    }
}

fn check_topology(topology: &Topology) -> Result<(), DescriptionError> {
    for (name, value) in
        [("sockets", topology.sockets), ("cores_per_socket", topology.cores_per_socket)]
    {
        at_least(&format!("topology.{name}"), f64::from(value), 1.0)?;
    }
    // Both are 16 bits wide: their product would not fit in as many.
    let cpus = u32::from(topology.sockets) * u32::from(topology.cores_per_socket);
    if cpus > MOST_CPUS {
        let message = format!("{cpus} CPUs, expected at most {MOST_CPUS}");
        return Err(wrong("topology.cores_per_socket", message));
    }
    // Times of software are scaled by the ratio of two clocks.
    between("topology.ghz", topology.ghz, (0.01, 100.0))?;
    positive("topology.l3_mb", topology.l3_mb)?;
    positive("topology.l1_kb", topology.l1_kb)?;
    positive("topology.memory_gb", topology.memory_gb)
}

fn check_device(device: &Device) -> Result<(), DescriptionError> {
    // These bounds keep the end of every request within the 64 bits of a time in picoseconds.
    between("device.iops", device.iops, (1e-3, 1e12))?;
    between("device.gb_per_s", device.gb_per_s, (1e-3, 1e9))?;
    between("device.latency_us", device.latency_us, (0.0, 1e9))?;
    between("device.pcie_us", device.pcie_us, (0.0, 1e9))
}

fn check_power(power: &Power) -> Result<(), DescriptionError> {
    between("power.idle_w", power.idle_w, (0.0, 1e6))?;
    between("power.device_w", power.device_w, (0.0, 1e6))?;
    for (name, watts) in [("busy", power.busy_w), ("spin", power.spin_w), ("poll", power.poll_w)] {
        // A CPU that draws less at work than asleep would be rewarded for staying awake.
        between(&format!("power.{name}_w"), watts, (power.idle_w, 1e6))?;
    }
    Ok(())
}

fn check_coherence(coherence: &Coherence) -> Result<(), DescriptionError> {
    let mut least = 0.0;
    for (name, ns) in [
        ("same_core_ns", coherence.same_core_ns),
        ("same_socket_ns", coherence.same_socket_ns),
        ("one_hop_ns", coherence.one_hop_ns),
        ("two_hops_ns", coherence.two_hops_ns),
    ] {
        // What is farther takes no less.
        between(&format!("coherence.{name}"), ns, (least, 1e6))?;
        least = ns;
    }
    Ok(())
}

fn check_block(block: &Block) -> Result<(), DescriptionError> {
    between("block.reference_ghz", block.reference_ghz, (0.01, 100.0))?;
    for (name, us) in [
        ("submit_us", block.submit_us),
        ("direct_submit_us", block.direct_submit_us),
        ("complete_us", block.complete_us),
    ] {
        between(&format!("block.{name}"), us, (0.0, 1e6))?;
    }
    between("block.shared_lines", block.shared_lines, (0.0, 1e6))?;
    // A jitter above 1 would make some submissions last less than no time.
    between("block.jitter", block.jitter, (0.0, 1.0))?;
    block.queue.check("block.queue", false)?;
    block.own_queue.check("block.own_queue", false)
}

fn check_driver(driver: &Driver) -> Result<(), DescriptionError> {
    for (name, us) in [
        ("interrupt_us", driver.interrupt_us),
        ("poll_us", driver.poll_us),
        ("ipi_send_us", driver.ipi_send_us),
        ("ipi_receive_us", driver.ipi_receive_us),
        ("structures_us", driver.structures_us),
        ("completion_us", driver.completion_us),
        ("wake_us", driver.wake_us),
        ("refill_us", driver.refill_us),
        ("lost_locality", driver.lost_locality),
        ("descriptor_lines", driver.descriptor_lines),
    ] {
        between(&format!("driver.{name}"), us, (0.0, 1e6))?;
    }
    positive("driver.interrupt_us", driver.interrupt_us)?;
    positive("driver.poll_us", driver.poll_us)?;
    positive("driver.working_set_mb", driver.working_set_mb)?;
    at_least("driver.coalesce", f64::from(driver.coalesce), 1.0)?;
    at_least("driver.batch", f64::from(driver.batch), 1.0)?;
    driver.ring.check("driver.ring", true)?;
    driver.map.check("driver.map", false)
}

impl LockSpec {
    fn check(&self, path: &str, is_ring: bool) -> Result<(), DescriptionError> {
        for (name, value) in
            [("hold_ns", self.hold_ns), ("lines", self.lines), ("writes", self.writes)]
        {
            between(&format!("{path}.{name}"), value, (0.0, 1e6))?;
        }
        between(&format!("{path}.own_socket"), self.own_socket, (0.0, 1.0))?;
        // Only CPUs that take from the ring read it before they write; only its index can be added
        // to.
        if !is_ring && matches!(self.kind, LockKind::Upgrade | LockKind::Atomic) {
            let message = "found a ring's lock, expected `ticket` or `unfair`";
            return Err(wrong(&format!("{path}.kind"), message));
        }
        Ok(())
    }
}

pub(crate) fn positive(element: &str, value: f64) -> Result<(), DescriptionError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(wrong(element, format!("found {value}, expected a number above 0")))
}

pub(crate) fn at_least(element: &str, value: f64, least: f64) -> Result<(), DescriptionError> {
    if value.is_finite() && value >= least {
        return Ok(());
    }
    Err(wrong(element, format!("found {value}, expected {least} or more")))
}

pub(crate) fn within(element: &str, value: f64, most: f64) -> Result<(), DescriptionError> {
    // NaN fails this comparison, and is refused.
    if value <= most {
        return Ok(());
    }
    Err(wrong(element, format!("found {value}, expected {most} or less")))
}

fn between(element: &str, value: f64, (least, most): (f64, f64)) -> Result<(), DescriptionError> {
    at_least(element, value, least)?;
    within(element, value, most)
}

pub(crate) fn wrong(element: &str, message: impl Into<String>) -> DescriptionError {
    DescriptionError { element: element.to_owned(), message: message.into() }
}
