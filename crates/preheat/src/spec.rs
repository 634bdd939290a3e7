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
    /// One line.
    pub description: String,
    /// Values that were fitted to published ones.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// Groups and services are those of this other description.
    pub services_of: Option<String>,
    /// Its cores.
    pub core: Core,
    /// The last-level cache.
    pub llc: Llc,
    /// Behind it.
    pub memory: Memory,
    /// Who loads lines.
    pub loader: Loader,
    /// How working sets are estimated.
    pub estimate: Estimate,
    /// Deep sleep.
    pub sleep: Sleep,
    /// Who announces packets.
    pub network: Network,
    /// What it draws.
    pub power: Watts,
    /// How long the same request takes on different days.
    pub spread: Spread,
    /// Lines by who shares them.
    #[serde(default)]
    pub groups: BTreeMap<String, Group>,
    /// Servers by name.
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
    /// How many.
    pub cores: u32,
    /// Clock in GHz.
    pub ghz: f64,
    /// Misses that a core can have outstanding.
    pub line_fills: u32,
    /// Cycles per instruction with warm caches over what services say.
    pub cpi_factor: f64,
    /// Exposed time of a miss over what services say.
    pub exposed_factor: f64,
    /// What a request takes longer after a flush of its translations, in microseconds.
    pub tlb_us: f64,
    /// The same of the first-level instruction cache.
    pub l1i_us: f64,
    /// The same of the first-level data cache.
    pub l1d_us: f64,
    /// The same of branch prediction.
    pub branch_us: f64,
}

/// What fetches lines that nobody asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetcher {
    /// Nothing.
    Off,
    /// After two neighbouring lines the next one.
    #[default]
    Stream,
    /// After every line the next one.
    NextLine,
}

/// The last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llc {
    /// Capacity, in KiB.
    pub kib: u64,
    /// Ways.
    pub ways: usize,
    /// Which line of a full set leaves.
    pub replacement: Replacement,
    /// Of the hardware, outside windows of estimation.
    pub prefetcher: Prefetcher,
    /// How long a fetched line that is there keeps a line fill busy, in nanoseconds.
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
    /// What is mixed into the bank.
    pub hash: BankHash,
    /// Between cache and controller, there and back, in nanoseconds.
    pub path_ns: f64,
    /// The way back carries one line in so many nanoseconds.
    pub port_ns: f64,
    /// Capacity, in GiB.
    pub gib: u64,
}

/// In which order a list of lines is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListOrder {
    /// As tags are read.
    Set,
    /// Any.
    Random,
    /// By address.
    #[default]
    Address,
    /// As requests use the lines.
    FirstUse,
}

/// Who loads lines, and what that costs (Gottschlag 2016, Sec 4.1.5, 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// Until the first prefetch, in microseconds.
    pub start_us: f64,
    /// Until each further core begins, one after the other, in microseconds.
    pub further_core_us: f64,
    /// Cycles for a line in a loop.
    pub loop_cycles: f64,
    /// Cycles for a line without one.
    pub unrolled_cycles: f64,
    /// Cycles to take a word of the list.
    pub word_cycles: f64,
    /// Cycles that the end of each run costs: a jump that nobody foresees.
    pub jump_cycles: f64,
    /// Lines of the list that are on their way ahead of the one in use.
    pub list_ahead: u64,
    /// Order of the list.
    pub order: ListOrder,
    /// Runs of lines are words of the list, rather than lines.
    pub run_lengths: bool,
    /// Cores that load.
    pub cores: u32,
    /// Lines of a run are fetched without a loop.
    pub unrolled: bool,
}

/// How working sets are estimated (Gottschlag 2016, Sec 3.2, 4.1.1).
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

/// Deep sleep.
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
    /// From announcement to packet, in microseconds.
    pub lead_us: f64,
    /// In the prototype, whose client announces, in microseconds.
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
    /// The same without its content.
    pub llc_asleep_w: f64,
    /// Memory between accesses.
    pub memory_w: f64,
    /// Beside what the device says of reading and writing a line, in picojoules a line.
    pub line_pj: f64,
}

/// How response times of one request differ.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Of the logarithm, of most requests.
    pub sigma: f64,
    /// Share of requests that something else delays.
    pub outliers: f64,
    /// By how much at least, over the response time.
    pub outlier_excess: f64,
    /// Mean of what comes on top of that.
    pub outlier_mean: f64,
}

/// Lines that are used together, or not.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many.
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
    /// In one line.
    pub title: String,
    /// Where it listens.
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
    /// What is not the server's, in microseconds.
    pub fixed_us: f64,
    /// What a miss adds to the response time, in nanoseconds.
    pub exposed_ns: f64,
}

/// A description that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{element}: {message}")]
pub struct SpecError {
    /// The value at fault, as a path.
    pub element: String,
    /// What was found and what was expected.
    pub message: String,
}
