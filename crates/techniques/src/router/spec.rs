//! What `machines/router/*.toml` say. Unknown keys are refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Faults;

/// A description of a router, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Description in one line.
    pub description: String,
    /// Values that were fitted to published ones.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// Cores of the router.
    pub cores: Cores,
    /// Sleep states of the cores.
    pub sleep: Sleep,
    /// Costs of interrupts.
    pub wake: Wake,
    /// Fixed part of the latency.
    pub path: Path,
    /// Loop that polls the queues.
    #[serde(rename = "loop")]
    pub poll: Loop,
    /// Ports of the router.
    pub nic: Nic,
    /// Power of the components, in watts.
    pub power: Power,
    /// Faults that are injected.
    #[serde(default)]
    pub faults: Faults,
    /// Costs of applications, by name.
    pub apps: BTreeMap<String, App>,
    /// Load profile of the evaluation.
    pub evaluation: Evaluation,
    /// Parameters of the burst tests.
    pub burst: Burst,
    /// Further published facts.
    pub printed: Printed,
}

/// The cores and their rail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// Number of cores.
    pub count: u8,
    /// Packages that they share.
    pub packages: u8,
    /// Step between P-states, in MHz.
    pub clock_step_mhz: f64,
    /// Slowest P-state, in steps.
    pub slowest: u32,
    /// Fastest P-state, in steps.
    pub fastest: u32,
    /// Time for a change of P-state, in microseconds.
    pub p_switch_us: f64,
}

/// Sleep states of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// Exit latency of C1, in microseconds.
    pub c1_exit_us: f64,
    /// Exit latency of C3, in microseconds.
    pub c3_exit_us: f64,
    /// Exit latency of C6, in microseconds.
    pub c6_exit_us: f64,
    /// Extra busy time of a core's first packets after C3, in microseconds: it lost its first two
    /// levels of cache (Gottschlag 2016, Sec 2.1).
    #[serde(default)]
    pub c3_cold_us: f64,
    /// Extra busy time after C6, in microseconds.
    #[serde(default)]
    pub c6_cold_us: f64,
    /// Time in C1 before C3 is entered, in microseconds.
    pub c3_after_us: f64,
    /// Time in C1 before C6 is entered, in microseconds.
    pub c6_after_us: f64,
    /// Shortest stay in C1 that is worth it, in microseconds.
    pub c1_residency_us: f64,
    /// Target residency of C3, in microseconds.
    pub c3_residency_us: f64,
    /// Target residency of C6, in microseconds.
    pub c6_residency_us: f64,
    /// Entry takes this share of the exit latency.
    pub entry_share: f64,
    /// Wake-ups of a core beside its queue, per second.
    pub background_hz: f64,
}

/// Costs of an interrupt beyond the exit from the sleep state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wake {
    /// Time until the interrupt reaches the core, in microseconds.
    pub delivery_us: f64,
    /// Busy time until the core polls, in microseconds.
    pub handler_us: f64,
    /// Busy time of a timed sleep beside it, in microseconds.
    pub timer_us: f64,
}

/// Latency that does not depend on queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Latency of an idle polling router, in microseconds.
    pub unloaded_us: f64,
    /// More when ports batch, in microseconds.
    pub batching_us: f64,
}

/// Loop that polls the queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Packets taken at a time.
    pub batch: u32,
    /// Time at which a policy's core checks its queue.
    pub look: Look,
    /// A poll that finds nothing, in microseconds.
    pub empty_poll_us: f64,
}

/// The ports, as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Ports, all of one rate.
    pub ports: u8,
    /// Rate of a port, in Gb/s.
    pub port_gbps: f64,
    /// Descriptors of a core's ring; a power of two.
    pub ring: u32,
    /// Bytes on the wire beside the frame.
    pub frame_overhead_bytes: u32,
    /// Entries of the redirect table.
    pub entries: u32,
    /// Flows at a time.
    pub flows: u32,
}

/// Watts. Those of a core are above its deepest sleep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Constant power of a package.
    pub package_w: f64,
    /// Constant power of the board.
    pub board_w: f64,
    /// Power of idle memory.
    pub memory_idle_w: f64,
    /// Additional power of memory at peak load.
    pub memory_w: f64,
    /// Power of idle ports.
    pub nic_idle_w: f64,
    /// Additional power of ports at peak load.
    pub nic_w: f64,
    /// Power of the fans, with all cores asleep.
    pub fans_w: f64,
    /// Fans' watts per watt of cores.
    pub fans_per_core_w: f64,
    /// A core that forwards, slowest P-state.
    pub busy_w: f64,
    /// Exponent of its growth with frequency.
    pub busy_exponent: f64,
    /// A core in an empty loop, slowest P-state.
    pub spin_w: f64,
    /// Exponent of its growth with frequency.
    pub spin_exponent: f64,
    /// Time after a packet in which a loop still stalls, in microseconds.
    pub spin_after_us: f64,
    /// A core in a delay loop, as a share of one in an empty loop.
    pub pause_share: f64,
    /// A core in C1.
    pub c1_w: f64,
    /// A core in C3.
    pub c3_w: f64,
    /// Peak time of memory and ports per packet, in nanoseconds.
    pub activity_packet_ns: f64,
    /// Peak time of memory and ports per byte, in nanoseconds.
    pub activity_byte_ns: f64,
}

/// Cost of a packet: `cycles_us` / GHz + memory time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Microseconds at 1 GHz.
    pub cycles_us: f64,
    /// Microseconds beside, one core active.
    pub memory_one_us: f64,
    /// Microseconds beside, all cores active.
    pub memory_all_us: f64,
    /// Mean length of a frame, in bytes.
    pub bytes: u32,
}

/// Load profile of the evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Mean, as a share of the peak rate.
    pub mean_load: f64,
    /// Trough of the sine.
    pub low_load: f64,
    /// Crest of the sine.
    pub high_load: f64,
    /// Largest step of the walk beside it.
    pub walk: f64,
    /// Highest load of a spike.
    pub spike_load: f64,
    /// Packets of a flow in a row.
    pub train: u32,
    /// Points of the profile.
    pub points: u32,
    /// Time for which each is played, in milliseconds.
    pub point_ms: f64,
    /// Published interval of samples, in milliseconds.
    pub sample_ms: f64,
    /// Published interval of statistics, in seconds.
    pub statistics_s: f64,
}

/// Parameters of the burst tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Mean rate of a port, in Gb/s.
    pub port_gbps: f64,
    /// Longest burst, in packets.
    pub longest: u32,
}

/// Published facts that nothing depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Number of memory modules.
    pub dimms: u32,
    /// Size of each, in GB.
    pub dimm_gb: f64,
    /// Number of fans.
    pub fans: u32,
    /// Shunt of the meter, in ohm.
    pub shunt_ohm: f64,
    /// Rating of the supply, in watts.
    pub supply_w: f64,
    /// Efficiency of the supply up to 300 W, lower value.
    pub supply_efficiency_low: f64,
    /// Efficiency of the supply up to 300 W, upper value.
    pub supply_efficiency_high: f64,
}

/// Time at which a policy's core checks its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// Before it takes a batch: all that waits.
    BeforeBatch,
    /// After it took a batch: what is left.
    AfterBatch,
}
