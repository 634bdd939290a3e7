//! What `machines/preheat/*.toml` say. Unknown keys are refused.

use std::collections::BTreeMap;

use halfwink_dram::{BankHash, MapOrder};
use serde::Deserialize;

use crate::cache::Replacement;

/// A description of a server that loses its caches, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Description in one line.
    pub description: String,
    /// Values that were fitted to published ones.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// Groups and services are those of this other description.
    pub services_of: Option<String>,
    /// Cores of the machine.
    pub core: Core,
    /// Last-level cache of the machine.
    pub llc: Llc,
    /// Memory of the machine.
    pub memory: Memory,
    /// Loader of cache lines.
    pub loader: Loader,
    /// Estimation of working sets.
    pub estimate: Estimate,
    /// Deep sleep of the machine.
    pub sleep: Sleep,
    /// Network that announces packets.
    pub network: Network,
    /// Power of the components.
    pub power: Watts,
    /// Spread of response times over days.
    pub spread: Spread,
    /// Lines by who shares them.
    #[serde(default)]
    pub groups: BTreeMap<String, Group>,
    /// Description of servers by name.
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    /// Loads of several services by name: services with their shares.
    #[serde(default)]
    pub mixes: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Cores of one kind, under one last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Number of cores.
    pub cores: u32,
    /// Clock frequency, in gigahertz.
    pub ghz: f64,
    /// Misses that a core can have outstanding.
    pub line_fills: u32,
    /// Cycles per instruction with warm caches over what services say.
    pub cpi_factor: f64,
    /// Exposed time of a miss over what services say.
    pub exposed_factor: f64,
    /// Extra time of a request after a flush of its translations, in microseconds.
    pub tlb_us: f64,
    /// Extra time after a flush of the first-level instruction cache, in microseconds.
    pub l1i_us: f64,
    /// Extra time after a flush of the first-level data cache, in microseconds.
    pub l1d_us: f64,
    /// Extra time after a flush of branch prediction, in microseconds.
    pub branch_us: f64,
}

/// Hardware prefetcher of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetcher {
    /// Prefetches no lines.
    Off,
    /// After two neighbouring lines the next one.
    #[default]
    Stream,
    /// After every line the next one.
    NextLine,
}

/// Parameters of the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llc {
    /// Capacity of the cache, in KiB.
    pub kib: u64,
    /// Number of ways.
    pub ways: usize,
    /// Which line of a full set leaves.
    pub replacement: Replacement,
    /// Hardware prefetcher, outside windows of estimation.
    pub prefetcher: Prefetcher,
    /// Time for which a fetch of a present line occupies a line fill, in nanoseconds.
    pub hit_ns: f64,
}

/// Memory and the way to it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// A device of `halfwink-dram` by name.
    pub device: String,
    /// Channels (a power of two).
    pub channels: usize,
    /// Ranks of a channel (a power of two).
    pub ranks: usize,
    /// Order of the fields of an address.
    pub map: MapOrder,
    /// Bits that are mixed into the bank.
    pub hash: BankHash,
    /// Between cache and controller, there and back, in nanoseconds.
    pub path_ns: f64,
    /// The way back carries one line in so many nanoseconds.
    pub port_ns: f64,
    /// Capacity of the memory, in GiB.
    pub gib: u64,
}

/// Order in which a list of lines is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListOrder {
    /// Order in which tags are read.
    Set,
    /// Random order of lines.
    Random,
    /// Order of addresses.
    #[default]
    Address,
    /// Order of the first use by requests.
    FirstUse,
}

/// Loader of cache lines, and its costs (Gottschlag 2016, Sec 4.1.5, 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// Time until the first prefetch, in microseconds.
    pub start_us: f64,
    /// Time until each further core begins, one after the other, in microseconds.
    pub further_core_us: f64,
    /// Cycles for a line in a loop.
    pub loop_cycles: f64,
    /// Cycles for a line without one.
    pub unrolled_cycles: f64,
    /// Cycles to take a word of the list.
    pub word_cycles: f64,
    /// Cycles at the end of each run, for a mispredicted jump.
    pub jump_cycles: f64,
    /// Lines of the list that are on their way ahead of the one in use.
    pub list_ahead: u64,
    /// Order of the list.
    pub order: ListOrder,
    /// Runs of lines are words of the list, rather than lines.
    pub run_lengths: bool,
    /// Number of cores that load.
    pub cores: u32,
    /// Lines of a run are fetched without a loop.
    pub unrolled: bool,
}

/// Estimation of working sets (Gottschlag 2016, Sec 3.2, 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Dumps that are intersected.
    pub repetitions: u32,
    /// Lines of the first group of a service that entering the prototype's module uses.
    pub path_lines: u64,
    /// Lines that the dump itself writes before it reads tags.
    pub buffer_lines: u64,
    /// Time to read one tag, in nanoseconds.
    pub tag_ns: f64,
}

/// Deep sleep of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// Wake-up time in microseconds.
    pub wake_us: f64,
    /// An idle machine sleeps after so many microseconds.
    pub after_us: f64,
    /// Time to write back a line on the way down, in nanoseconds.
    pub write_back_ns: f64,
}

/// A network whose arbiter plans packets (Gottschlag 2016, Sec 2.2, 4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Time from the announcement to the packet, in microseconds.
    pub lead_us: f64,
    /// Time from the announcement to the packet in the prototype, whose client announces, in
    /// microseconds.
    pub prototype_lead_us: f64,
    /// The arbiter assigns slots once in so many nanoseconds.
    pub epoch_ns: f64,
    /// Lines of the first group of a service that an announcement's way through the machine uses.
    pub path_lines: u64,
    /// A network card that is asked once in so many microseconds, beside it.
    pub polled_us: f64,
}

/// Power, in watts; modelled, as all energy here.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watts {
    /// A core that runs.
    pub core_active_w: f64,
    /// A core that waits for memory.
    pub core_stalled_w: f64,
    /// A core that is on and has nothing to do.
    pub core_idle_w: f64,
    /// A core that sleeps deeply.
    pub core_asleep_w: f64,
    /// The last-level cache and what is around it, on.
    pub llc_on_w: f64,
    /// Power of the last-level cache without its content.
    pub llc_asleep_w: f64,
    /// Power of memory between accesses.
    pub memory_w: f64,
    /// Beside what the device says of reading and writing a line, in picojoules a line.
    pub line_pj: f64,
}

/// Spread of the response times of one request.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Standard deviation of the logarithm, for most requests.
    pub sigma: f64,
    /// Share of requests that something else delays.
    pub outliers: f64,
    /// Smallest delay of an outlier, over the response time.
    pub outlier_excess: f64,
    /// Mean of what comes on top of that.
    pub outlier_mean: f64,
}

/// Lines that are used together, or not.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Number of lines.
    pub lines: u64,
    /// Probability that a request uses a run of them.
    #[serde(default = "one")]
    pub touched: f64,
    /// Share of runs that are written.
    #[serde(default)]
    pub written: f64,
    /// Lines of the kernel, whose memory is contiguous.
    #[serde(default)]
    pub kernel: bool,
    /// Share of pages that a restart moves.
    #[serde(default)]
    pub moved: f64,
    /// Mean length of its runs.
    pub run_lines: f64,
    /// Share of the lines between the first and the last that are used.
    pub density: f64,
}

fn one() -> f64 {
    1.0
}

/// A server and its requests (Gottschlag 2016, Tables 6.1 and 6.2).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Title in one line.
    pub title: String,
    /// Port of the service.
    pub port: u16,
    /// Lines of these groups; an announcement's way is through the first.
    pub groups: Vec<String>,
    /// Lines that no request used before.
    pub fresh_lines: u64,
    /// Share of these that are packets, which the network card brings.
    pub packet_share: f64,
    /// Thousands of instructions of a request.
    pub instructions: f64,
    /// Cycles per instruction with warm caches.
    pub cpi: f64,
    /// Time outside the server, in microseconds.
    pub fixed_us: f64,
    /// Time that a miss adds to the response time, in nanoseconds.
    pub exposed_ns: f64,
}

/// A description that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{element}: {message}")]
pub struct SpecError {
    /// The value at fault, as a path.
    pub element: String,
    /// Message with the value found and the values allowed.
    pub message: String,
}
