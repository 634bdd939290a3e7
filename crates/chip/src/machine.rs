//! Machine descriptions: what a chip is made of.
//!
//! [`Machine::parse`] turns a TOML file into values that are known to be possible; everything behind
//! it can rely on them.

use halfwink_engine::{Input, InputError};
use halfwink_policy::gating::{Costs, Expectation, MapgParameters};
use halfwink_power::{CachePower, CorePower, DramPower, Gating};
use halfwink_units::{Clock, Cycle, Time, LINE_BYTES};
use serde::Deserialize;
use toml::Spanned;

/// A chip that can be simulated.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What it is, in one line.
    pub description: String,
    /// Number of cores, all alike (1..=64).
    pub cores: usize,
    /// Clock of the cores.
    pub clock: Clock,
    /// The cores' pipelines.
    pub core: CoreSpec,
    /// Branch prediction.
    pub branch: BranchSpec,
    /// Instruction cache of each core.
    pub l1i: L1Spec,
    /// Data cache of each core.
    pub l1d: L1Spec,
    /// Private second-level cache of each core.
    pub l2: L2Spec,
    /// Cache shared by all cores.
    pub l3: L3Spec,
    /// Memory behind it.
    pub memory: MemorySpec,
    /// Delays of tokens on their way to the core.
    pub tokens: TokenSpec,
    /// What gating a core takes.
    pub gating: Gating,
    /// Parameters of the counter-based gating controller.
    pub mapg: MapgParameters,
    /// Power of all parts.
    pub power: PowerSpec,
}

/// How a core executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSpec {
    /// In program order, or as operands become ready.
    pub kind: CoreKind,
    /// Micro-operations fetched, dispatched, issued, committed per cycle.
    pub width: usize,
    /// Stores that have not written the data cache.
    pub store_queue: usize,
    /// Cycles from the resolution of a mispredicted branch to the first new dispatch.
    pub refill: Cycle,
    /// Cycles of a kernel entry or exit beyond drain and refill.
    pub syscall: Cycle,
    /// Cycles of an atomic operation.
    pub atomic: Cycle,
    /// Units by number of starts per cycle.
    pub units: Units,
    /// Cycles by kind of operation.
    pub latency: Latencies,
}

/// The two kinds of pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreKind {
    /// Issues in program order, waits when an operand is not there.
    InOrder,
    /// Issues from a window.
    OutOfOrder(Window),
}

/// Sizes of an out-of-order core's queues, in micro-operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Reorder buffer (at most [`MAX_WINDOW`]).
    pub reorder: usize,
    /// Waiting integer, memory and branch operations.
    pub integer: usize,
    /// Waiting floating-point operations.
    pub fp: usize,
    /// Loads in flight.
    pub loads: usize,
}

/// Largest reorder buffer.
pub const MAX_WINDOW: usize = 128;
/// Most cores of a chip.
pub const MAX_CORES: usize = 64;

/// Micro-operations that may start in a cycle, by unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Integer and branch.
    pub alu: usize,
    /// Multiplication and division.
    pub multiply: usize,
    /// Floating point and vectors.
    pub fp: usize,
    /// Data cache ports.
    pub memory: usize,
}

/// Cycles from issue to result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Integer.
    pub alu: Cycle,
    /// Integer multiplication.
    pub multiply: Cycle,
    /// Integer division; occupies its unit.
    pub divide: Cycle,
    /// Vector integer.
    pub vector: Cycle,
    /// Floating-point addition.
    pub fp_add: Cycle,
    /// Floating-point multiplication.
    pub fp_multiply: Cycle,
    /// Floating-point division; occupies its unit.
    pub fp_divide: Cycle,
}

/// Branch prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchSpec {
    /// Direction predictor.
    pub predictor: PredictorKind,
    /// Entries of the indirect target table (a power of two).
    pub indirect_entries: usize,
    /// Depth of the return address stack.
    pub return_entries: usize,
}

/// Direction predictors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorKind {
    /// Never wrong, for studies that exclude branches.
    Perfect,
    /// 2048 two-bit counters.
    Bimodal,
    /// The Alpha 21264's local and global predictors with a chooser.
    Tournament,
}

/// Shape of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Sets (a power of two).
    pub sets: usize,
    /// Lines per set.
    pub ways: usize,
}

impl Geometry {
    /// Capacity in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.sets * self.ways) as u64 * LINE_BYTES
    }
}

/// A first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L1Spec {
    /// Its shape.
    pub geometry: Geometry,
    /// Cycles from access to data.
    pub latency: Cycle,
    /// Outstanding misses.
    pub mshrs: usize,
}

/// A private second-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2Spec {
    /// Its shape.
    pub geometry: Geometry,
    /// Cycles it adds to an access.
    pub latency: Cycle,
}

/// The shared third-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L3Spec {
    /// Its shape.
    pub geometry: Geometry,
    /// Time it adds to an access.
    pub latency: Time,
    /// Independent banks (a power of two).
    pub banks: usize,
    /// A bank starts an access this often.
    pub occupancy: Time,
}

/// Memory: channels of ranks of banks with row buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Channels (a power of two).
    pub channels: usize,
    /// Ranks per channel (a power of two).
    pub ranks: usize,
    /// Banks per rank (a power of two).
    pub banks: usize,
    /// Lines per row (a power of two).
    pub row_lines: u64,
    /// Row to column delay.
    pub t_rcd: Time,
    /// Precharge.
    pub t_rp: Time,
    /// Column command to data.
    pub t_cl: Time,
    /// Activate to precharge.
    pub t_ras: Time,
    /// End of write data to precharge.
    pub t_wr: Time,
    /// Read command to precharge.
    pub t_rtp: Time,
    /// A line on the channel.
    pub burst: Time,
    /// Miss in the shared cache to the controller.
    pub request: Time,
    /// Data at the controller to the core.
    pub response: Time,
}

/// Delays from an access to the arrival of tokens at the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSpec {
    /// Missed in the first level.
    pub l1: Time,
    /// Missed in the second level.
    pub l2: Time,
    /// Missed in the third level.
    pub l3: Time,
    /// From the memory controller, from the time it schedules the access.
    pub eta: Time,
}

/// Power of all parts.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerSpec {
    /// A core with its private caches.
    pub core: CorePower,
    /// The shared cache.
    pub l3: CachePower,
    /// A memory channel.
    pub memory: DramPower,
}

impl Machine {
    /// Reads a machine description.
    ///
    /// # Errors
    /// The first thing that is unknown, missing or impossible, with file and line.
    pub fn parse(input: &Input) -> Result<Machine, InputError> {
        let file: MachineFile = input.parse()?;
        build(input, file)
    }

    /// The same machine with another number of cores (1..=[`MAX_CORES`]).
    #[must_use]
    pub fn with_cores(mut self, cores: usize) -> Machine {
        self.cores = cores.clamp(1, MAX_CORES);
        self
    }

    /// From the order to wake until the pipeline is refilled, after the supply is stable.
    #[must_use]
    pub fn restore(&self) -> Time {
        self.clock.time_of(self.gating.control_cycles + self.gating.refill_cycles)
    }

    /// What a round trip to the gated state costs one of its cores.
    #[must_use]
    pub fn gating_costs(&self) -> Costs {
        Costs {
            entry: self.clock.time_of(self.gating.entry_cycles),
            break_even: self.gating.break_even(self.power.core.leakage_w),
            wake_up: Time::from_ns(self.gating.wake_up_ns),
            restore: self.restore(),
        }
    }

    /// Outstanding accesses that a core can have: its miss registers together.
    #[must_use]
    pub fn token_entries(&self) -> usize {
        self.l1i.mshrs + self.l1d.mshrs
    }

    /// Named quantities that follow from the description, for targets in closed form.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, f64)> {
        let costs = self.gating_costs();
        vec![
            ("gating.break_even_ns", costs.break_even.as_ns()),
            ("gating.wake_up_ns", costs.wake_up.as_ns()),
            ("gating.restore_ns", costs.restore.as_ns()),
            (
                "gating.restore_cycles",
                (self.gating.control_cycles + self.gating.refill_cycles) as f64,
            ),
            ("tap.entries", self.token_entries() as f64),
            // One valid bit, the physical address, and the bound in steps of 100 ps (Sec 2.3.4).
            ("tap.entry_bits", f64::from(1 + 64 + COUNTER_BITS)),
            ("mapg.bits", f64::from(2 * COUNTER_BITS)),
        ]
    }
}

/// Width of the delay registers: 100 ps steps up to 3.28 us (Strong 2013, Sec 2.3.3).
const COUNTER_BITS: u32 = 15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    schema: Spanned<u32>,
    description: String,
    chip: ChipSection,
    core: CoreSection,
    branch: BranchSection,
    l1i: L1Section,
    l1d: L1Section,
    l2: L2Section,
    l3: L3Section,
    memory: MemorySection,
    tokens: TokenSection,
    gating: Spanned<Gating>,
    mapg: MapgSection,
    power: PowerSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChipSection {
    cores: Spanned<usize>,
    clock_ghz: Spanned<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    InOrder,
    OutOfOrder,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoreSection {
    kind: Spanned<KindName>,
    width: Spanned<usize>,
    window: Option<Spanned<usize>>,
    integer_queue: Option<Spanned<usize>>,
    fp_queue: Option<Spanned<usize>>,
    load_queue: Option<Spanned<usize>>,
    store_queue: Spanned<usize>,
    refill_cycles: Cycle,
    syscall_cycles: Cycle,
    atomic_cycles: Cycle,
    units: Spanned<Units>,
    latency_cycles: Spanned<Latencies>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchSection {
    predictor: PredictorKind,
    indirect_entries: Spanned<usize>,
    return_entries: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct L1Section {
    size: Spanned<String>,
    ways: Spanned<usize>,
    latency_cycles: Spanned<Cycle>,
    mshrs: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct L2Section {
    size: Spanned<String>,
    ways: Spanned<usize>,
    latency_ns: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct L3Section {
    size: Spanned<String>,
    ways: Spanned<usize>,
    latency_ns: Spanned<f64>,
    banks: Spanned<usize>,
    occupancy_ns: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemorySection {
    channels: Spanned<usize>,
    ranks: Spanned<usize>,
    banks: Spanned<usize>,
    row_bytes: Spanned<u64>,
    t_rcd_ns: Spanned<f64>,
    t_rp_ns: Spanned<f64>,
    t_cl_ns: Spanned<f64>,
    t_ras_ns: Spanned<f64>,
    t_wr_ns: Spanned<f64>,
    t_rtp_ns: Spanned<f64>,
    burst_ns: Spanned<f64>,
    request_ns: Spanned<f64>,
    response_ns: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenSection {
    l1_ns: Spanned<f64>,
    l2_ns: Spanned<f64>,
    l3_ns: Spanned<f64>,
    eta_ns: Spanned<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ExpectationName {
    Memory,
    MemoryAndDelta,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MapgSection {
    t_llc_ns: Spanned<f64>,
    t_mem_ns: Spanned<f64>,
    expectation: ExpectationName,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerSection {
    core: Spanned<CorePower>,
    l3: Spanned<CachePower>,
    memory: Spanned<DramPower>,
}

fn build(input: &Input, file: MachineFile) -> Result<Machine, InputError> {
    let check = Check { input };
    if *file.schema.get_ref() != 1 {
        return Err(check.fail(&file.schema, "this halfwink reads machine schema 1"));
    }
    let hz = check.positive(&file.chip.clock_ghz, "a clock")? * 1e9;
    let clock = Clock::from_hz(hz.round() as u64)
        .ok_or_else(|| check.fail(&file.chip.clock_ghz, "expected a clock below 1000 GHz"))?;
    let memory = check.memory(&file.memory)?;
    let machine = Machine {
        description: file.description,
        cores: check.within(&file.chip.cores, 1, MAX_CORES, "cores")?,
        clock,
        core: check.core(&file.core)?,
        branch: BranchSpec {
            predictor: file.branch.predictor,
            indirect_entries: check.power_of_two(&file.branch.indirect_entries, "entries")?,
            return_entries: check.within(&file.branch.return_entries, 1, 256, "entries")?,
        },
        l1i: check.l1(&file.l1i, 1)?,
        // A load from two lines needs two at once.
        l1d: check.l1(&file.l1d, 2)?,
        l2: L2Spec {
            geometry: check.geometry(&file.l2.size, &file.l2.ways)?,
            latency: check.l2_latency(&file.l2.latency_ns, clock)?,
        },
        l3: L3Spec {
            geometry: check.geometry(&file.l3.size, &file.l3.ways)?,
            latency: check.time(&file.l3.latency_ns)?,
            banks: check.power_of_two(&file.l3.banks, "banks")?,
            occupancy: check.time(&file.l3.occupancy_ns)?,
        },
        memory,
        tokens: TokenSpec {
            l1: check.time(&file.tokens.l1_ns)?,
            l2: check.time(&file.tokens.l2_ns)?,
            l3: check.time(&file.tokens.l3_ns)?,
            eta: check.time(&file.tokens.eta_ns)?,
        },
        mapg: MapgParameters {
            t_llc: check.time(&file.mapg.t_llc_ns)?,
            t_mem: check.time(&file.mapg.t_mem_ns)?,
            expectation: match file.mapg.expectation {
                ExpectationName::Memory => Expectation::Memory,
                ExpectationName::MemoryAndDelta => Expectation::MemoryAndDelta,
            },
        },
        gating: check.gating(&file.gating)?,
        power: check.power(&file.power)?,
    };
    if machine.l3.latency == Time::ZERO {
        return Err(check.fail(&file.l3.latency_ns, "a shared cache takes time; expected > 0 ns"));
    }
    if machine.tokens.eta > machine.memory.response {
        let expected = "an estimate must not arrive after the data: expected at most response_ns";
        return Err(check.fail(&file.tokens.eta_ns, expected));
    }
    Ok(machine)
}

/// Turns written values into possible ones.
struct Check<'a> {
    input: &'a Input,
}

impl Check<'_> {
    fn fail<T>(&self, at: &Spanned<T>, message: impl Into<String>) -> InputError {
        self.input.error_at(&at.span(), message)
    }

    fn within(
        &self,
        value: &Spanned<usize>,
        min: usize,
        max: usize,
        what: &str,
    ) -> Result<usize, InputError> {
        let n = *value.get_ref();
        if (min..=max).contains(&n) {
            Ok(n)
        } else {
            Err(self.fail(value, format!("{n} {what}, expected {min} to {max}")))
        }
    }

    fn power_of_two(&self, value: &Spanned<usize>, what: &str) -> Result<usize, InputError> {
        let n = *value.get_ref();
        if n.is_power_of_two() && n <= 1 << 20 {
            Ok(n)
        } else {
            Err(self.fail(value, format!("{n} {what}, expected a power of two")))
        }
    }

    fn positive(&self, value: &Spanned<f64>, what: &str) -> Result<f64, InputError> {
        let n = *value.get_ref();
        if n.is_finite() && n > 0.0 {
            Ok(n)
        } else {
            Err(self.fail(value, format!("{what} of {n}, expected more than 0")))
        }
    }

    /// A latency from nanoseconds; up to a second, so that no sum of them overflows.
    fn time(&self, value: &Spanned<f64>) -> Result<Time, InputError> {
        let ns = *value.get_ref();
        if (0.0..=1e9).contains(&ns) {
            Ok(Time::from_ns(ns))
        } else {
            Err(self.fail(value, format!("a time of {ns} ns, expected 0 to 1e9")))
        }
    }

    fn geometry(
        &self,
        size: &Spanned<String>,
        ways: &Spanned<usize>,
    ) -> Result<Geometry, InputError> {
        let text = size.get_ref();
        let Some(bytes) = parse_size(text) else {
            let expected = "expected a size such as \"32KB\" or \"8MB\"";
            return Err(self.fail(size, format!("\"{text}\" is no size; {expected}")));
        };
        let ways_count = self.within(ways, 1, 64, "ways")?;
        let way_bytes = bytes / ways_count as u64;
        let sets = way_bytes / LINE_BYTES;
        let whole = sets * LINE_BYTES * ways_count as u64 == bytes;
        if !whole || !sets.is_power_of_two() || sets > 1 << 24 {
            return Err(self.fail(
                size,
                format!(
                    "an impossible cache: {text} in {ways_count} ways of {LINE_BYTES}-byte lines is \
                     {:.4} sets, expected a power of two",
                    bytes as f64 / (LINE_BYTES as f64 * ways_count as f64)
                ),
            ));
        }
        Ok(Geometry { sets: sets as usize, ways: ways_count })
    }

    fn l1(&self, section: &L1Section, least_mshrs: usize) -> Result<L1Spec, InputError> {
        let latency = *section.latency_cycles.get_ref();
        if !(1..=64).contains(&latency) {
            let message = format!("a latency of {latency} cycles, expected 1 to 64");
            return Err(self.fail(&section.latency_cycles, message));
        }
        Ok(L1Spec {
            geometry: self.geometry(&section.size, &section.ways)?,
            latency,
            mshrs: self.within(&section.mshrs, least_mshrs, 64, "miss registers")?,
        })
    }

    fn l2_latency(&self, value: &Spanned<f64>, clock: Clock) -> Result<Cycle, InputError> {
        let cycles = clock.cycles_covering(self.time(value)?);
        if (1..=100).contains(&cycles) {
            Ok(cycles)
        } else {
            Err(self.fail(value, format!("{cycles} cycles, expected 1 to 100")))
        }
    }

    fn core(&self, section: &CoreSection) -> Result<CoreSpec, InputError> {
        let queues = [
            (&section.window, "window", MAX_WINDOW),
            (&section.integer_queue, "integer_queue", MAX_WINDOW),
            (&section.fp_queue, "fp_queue", MAX_WINDOW),
            (&section.load_queue, "load_queue", MAX_WINDOW),
        ];
        let kind = match section.kind.get_ref() {
            KindName::InOrder => {
                for (value, name, _) in queues {
                    if let Some(value) = value {
                        let message = format!("`{name}` is for out-of-order cores only");
                        return Err(self.fail(value, message));
                    }
                }
                CoreKind::InOrder
            }
            KindName::OutOfOrder => {
                let mut sizes = [0; 4];
                for (size, (value, name, max)) in sizes.iter_mut().zip(queues) {
                    let Some(value) = value else {
                        let message = format!("an out-of-order core needs `{name}`");
                        return Err(self.fail(&section.kind, message));
                    };
                    *size = self.within(value, 1, max, "entries")?;
                }
                let [reorder, integer, fp, loads] = sizes;
                CoreKind::OutOfOrder(Window { reorder, integer, fp, loads })
            }
        };
        let units = *section.units.get_ref();
        if [units.alu, units.multiply, units.fp, units.memory].contains(&0) {
            return Err(self.fail(&section.units, "every unit must start at least 1 a cycle"));
        }
        let latency = *section.latency_cycles.get_ref();
        let Latencies { alu, multiply, divide, vector, fp_add, fp_multiply, fp_divide } = latency;
        let all = [alu, multiply, divide, vector, fp_add, fp_multiply, fp_divide];
        let all = all.into_iter().chain([section.atomic_cycles, section.syscall_cycles]);
        if all.chain([section.refill_cycles]).any(|n| !(1..=200).contains(&n)) {
            return Err(self.fail(&section.latency_cycles, "latencies must be 1 to 200 cycles"));
        }
        Ok(CoreSpec {
            kind,
            width: self.within(&section.width, 1, 16, "micro-operations a cycle")?,
            store_queue: self.within(&section.store_queue, 1, MAX_WINDOW, "entries")?,
            refill: section.refill_cycles,
            syscall: section.syscall_cycles,
            atomic: section.atomic_cycles,
            units,
            latency,
        })
    }

    fn memory(&self, section: &MemorySection) -> Result<MemorySpec, InputError> {
        let row = *section.row_bytes.get_ref();
        if !row.is_power_of_two() || row < LINE_BYTES {
            let message = format!("a row of {row} bytes, expected a power of two from 64");
            return Err(self.fail(&section.row_bytes, message));
        }
        Ok(MemorySpec {
            channels: self.power_of_two(&section.channels, "channels")?,
            ranks: self.power_of_two(&section.ranks, "ranks")?,
            banks: self.power_of_two(&section.banks, "banks")?,
            row_lines: row / LINE_BYTES,
            t_rcd: self.time(&section.t_rcd_ns)?,
            t_rp: self.time(&section.t_rp_ns)?,
            t_cl: self.time(&section.t_cl_ns)?,
            t_ras: self.time(&section.t_ras_ns)?,
            t_wr: self.time(&section.t_wr_ns)?,
            t_rtp: self.time(&section.t_rtp_ns)?,
            burst: self.time(&section.burst_ns)?,
            request: self.time(&section.request_ns)?,
            response: self.time(&section.response_ns)?,
        })
    }

    fn gating(&self, section: &Spanned<Gating>) -> Result<Gating, InputError> {
        let gating = section.get_ref();
        let shares = [gating.leakage_reduction, gating.retention_overhead];
        if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || shares[0] == 0.0 {
            return Err(self.fail(section, "gating shares must be 0 to 1, the reduction above 0"));
        }
        let ranges = [gating.wake_up_ns, gating.wake_up_energy_pj];
        if ranges.iter().any(|n| !(0.0..=1e12).contains(n)) {
            return Err(self.fail(section, "gating times and energies must not be negative"));
        }
        if gating.entry_cycles + gating.control_cycles + gating.refill_cycles > 100_000 {
            return Err(self.fail(section, "gating sequences must stay below 100000 cycles"));
        }
        Ok(gating.clone())
    }

    fn power(&self, section: &PowerSection) -> Result<PowerSpec, InputError> {
        let core = section.core.get_ref();
        let event = &core.event_pj;
        let numbers = [
            core.leakage_w,
            core.clock_w,
            core.stalled_clock_w,
            event.uop,
            event.alu,
            event.multiply,
            event.fp,
            event.l1i_access,
            event.l1d_access,
            event.l2_access,
            event.mispredict,
        ];
        let bad = |n: &f64| !(0.0..=1e9).contains(n);
        if numbers.iter().any(bad) || core.leakage_w == 0.0 {
            let message = "core power and energies must be 0 to 1e9, the leakage above 0";
            return Err(self.fail(&section.core, message));
        }
        let l3 = section.l3.get_ref();
        if [l3.leakage_w, l3.access_pj].iter().any(bad) {
            return Err(self.fail(&section.l3, "power and energies must be 0 to 1e9"));
        }
        let dram = section.memory.get_ref();
        let dram_numbers =
            [dram.background_w_per_rank, dram.activate_pj, dram.read_pj, dram.write_pj];
        if dram_numbers.iter().any(bad) {
            return Err(self.fail(&section.memory, "power and energies must be 0 to 1e9"));
        }
        Ok(PowerSpec { core: core.clone(), l3: l3.clone(), memory: dram.clone() })
    }
}

/// Bytes of a size such as `32KB`; K, M and G are powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "B" => 1,
        "KB" | "KiB" => 1 << 10,
        "MB" | "MiB" => 1 << 20,
        "GB" | "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EV6: &str = include_str!("../../../machines/ev6.toml");

    fn parse(text: &str) -> Result<Machine, InputError> {
        Machine::parse(&Input::new("ev6.toml", text))
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(EV6.contains(from), "{from}");
        parse(&EV6.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn the_shipped_machines_are_those_of_table_2_3() {
        let ev6 = parse(EV6).unwrap();
        assert_eq!(ev6.gating_costs().break_even, Time(17_170));
        assert_eq!(ev6.gating_costs().restore, Time(3_030));
        assert_eq!(ev6.l1d.geometry, Geometry { sets: 64, ways: 8 });
        assert_eq!(ev6.l3.geometry.bytes(), 8 << 20);
        assert_eq!(ev6.token_entries(), 20);
        let in_order = include_str!("../../../machines/in-order.toml");
        let in_order = Machine::parse(&Input::new("in-order.toml", in_order)).unwrap();
        assert_eq!(in_order.gating_costs().restore, Time(3_500));
        assert_eq!(in_order.token_entries(), 4);
    }

    #[test]
    fn an_impossible_cache_is_named_with_its_line() {
        let error = refused("size = \"256KB\"", "size = \"200KB\"");
        assert_eq!(
            error,
            "ev6.toml:58: an impossible cache: 200KB in 8 ways of 64-byte lines is 400.0000 sets, \
             expected a power of two"
        );
        assert!(refused("size = \"8MB\"", "size = \"8\"").contains("\"8\" is no size"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cases = [
            ("cores = 4", "cores = 0", ":10: 0 cores, expected 1 to 64"),
            ("clock_ghz = 3.3", "clock_ghz = -1.0", "a clock of -1, expected more than 0"),
            ("window = 80", "window = 400", "400 entries, expected 1 to 128"),
            ("window = 80", "widnow = 80", "did you mean `window`?"),
            ("alu = 6", "alu = 0", "at least 1 a cycle"),
            ("mshrs = 16", "mshrs = 0", "0 miss registers"),
            ("latency_ns = 13.0", "latency_ns = 0.0", "takes time"),
            ("leakage_reduction = 0.9765", "leakage_reduction = 1.5", "must be 0 to 1"),
            ("schema = 1", "schema = 2", "reads machine schema 1"),
            ("eta_ns = 4.5", "eta_ns = 45.0", "at most response_ns"),
            ("t_cl_ns = 13.5", "t_cl_ns = nan", "a time of NaN ns"),
            ("kind = \"out-of-order\"", "kind = \"in-order\"", "out-of-order cores only"),
            ("kind = \"out-of-order\"", "kind = \"outoforder\"", "did you mean `out-of-order`?"),
        ];
        for (from, to, expected) in cases {
            let error = refused(from, to);
            assert!(error.contains(expected), "{to}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
