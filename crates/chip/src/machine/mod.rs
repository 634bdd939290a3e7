//! Machine descriptions: what a chip is made of.
//!
//! [`Machine::parse`] turns a TOML file into values that are known to be possible; everything
//! behind it can rely on them.

mod branch;
mod central;
mod check;
mod core;
mod facts;
mod faults;
mod file;
mod fupg;
mod idle;
mod memory;
mod power;
mod prefetch;
mod socket;
#[cfg(test)]
mod tests;
mod translation;
mod value;

use halfwink_dram::CommandEnergy;
use halfwink_engine::{Input, InputError};
use halfwink_policy::gating::{Costs, Slots};
use halfwink_power::pdn::Grid;
use halfwink_power::{CachePower, CorePower, Gating};
use halfwink_units::{Clock, Cycle, Power, PowerBasis, Time, LINE_BYTES};
use serde::Deserialize;

pub use branch::{
    BranchSpec, BtbSpec, FetchSpec, IndirectSpec, PerceptronSpec, PredictorKind, TageSpec,
};
pub use faults::FaultSpec;
pub use fupg::{FupgSpec, UnitDomain, UnitDomains};
pub use idle::{IdleState, PackageSleep, PackageSpec, WakeTime};
pub use memory::{MemoryKind, MemorySpec};
pub use prefetch::{PrefetchKind, PrefetchSpec, PrefetcherSpec};
pub use socket::Socket;
pub use translation::{TlbLevelSpec, TlbSpec};

/// A chip that can be simulated.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Description in one line.
    pub description: String,
    /// Number of cores, all alike (1..=64).
    pub cores: usize,
    /// Clock of the cores.
    pub clock: Clock,
    /// Pipelines of the cores.
    pub core: CoreSpec,
    /// Branch prediction of the cores.
    pub branch: BranchSpec,
    /// Instruction fetch of the cores.
    pub fetch: FetchSpec,
    /// Instruction cache of each core.
    pub l1i: L1Spec,
    /// Data cache of each core.
    pub l1d: L1Spec,
    /// Private second-level cache of each core.
    pub l2: L2Spec,
    /// Address translation of each core; none if it takes no time.
    pub tlb: Option<TlbSpec>,
    /// Prefetchers of each core.
    pub prefetch: PrefetchSpec,
    /// Cache shared by all cores.
    pub l3: L3Spec,
    /// Memory behind it.
    pub memory: MemorySpec,
    /// Delays of tokens on their way to the core.
    pub tokens: TokenSpec,
    /// Costs of gating a core.
    pub gating: Gating,
    /// Power of a core that has no work: gated whole, whatever is done to the others.
    pub unused: Power,
    /// Latencies that a counter-based gating controller goes by.
    pub mapg: MapgSpec,
    /// Gating of the execution units alone.
    pub fupg: FupgSpec,
    /// Points of voltage and frequency.
    pub dvfs: DvfsSpec,
    /// Scheme of the cores' wake-ups.
    pub wake_up: WakeUpSpec,
    /// Cores that a technique may set aside for the kernel.
    pub os: OsSpec,
    /// C-states of a core, by name.
    pub idle_states: Vec<IdleState>,
    /// Power of the package beside its parts, if that is known.
    pub package: Option<PackageSpec>,
    /// Faults that are injected.
    pub faults: FaultSpec,
    /// Power of all parts.
    pub power: PowerSpec,
}

/// Parameters of a core's pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSpec {
    /// Execution in program order, or as operands become ready.
    pub kind: CoreKind,
    /// Micro-operations fetched, dispatched, issued, committed per cycle; with `fusion`,
    /// macro-operations are dispatched and committed.
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
    /// An out-of-order core resolves each branch after the one before it, but for indirect jumps
    /// and returns: the others read the instruction pointer.
    pub branches_in_order: bool,
    /// An out-of-order core dispatches and commits the micro-operations of an instruction, and a
    /// comparison with the branch behind it, as one.
    pub fusion: bool,
    /// An out-of-order core renames moves between registers: they take a place and no time.
    pub move_elimination: bool,
    /// More cycles of a load whose address has an index.
    pub index: Cycle,
    /// Cycles until a divider takes the next operation: integer, floating point.
    pub busy: [Cycle; 2],
    /// Fast execution of repeated string instructions; without it each iteration is played.
    pub strings: Option<StringSpec>,
}

/// Parameters of repeated string instructions that move or fill memory upward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringSpec {
    /// Bytes of a load and a store, a power of two: all iterations within so many are one.
    pub bytes: u64,
    /// Cycles of dispatch until the first of them is moved.
    pub start: Cycle,
    /// Largest number of bytes that begin sooner, if each iteration is of one byte.
    pub short_bytes: u64,
    /// Cycles of dispatch until the first of these is moved.
    pub short_start: Cycle,
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
    /// Entries for waiting floating-point operations.
    pub fp: usize,
    /// Number of loads in flight.
    pub loads: usize,
}

/// Size of the largest reorder buffer.
pub const MAX_WINDOW: usize = 1024;
/// Most cores of a chip.
pub const MAX_CORES: usize = 64;

/// Micro-operations that may start in a cycle, by unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Units for integers and branches.
    pub alu: usize,
    /// Units for multiplication and division.
    pub multiply: usize,
    /// Floating point and vectors.
    pub fp: usize,
    /// Largest number of additions among these; by default as many as `fp`.
    pub fp_add: Option<usize>,
    /// Largest number of multiplications among these; by default as many as `fp`.
    pub fp_multiply: Option<usize>,
    /// Ports of the data cache.
    pub memory: usize,
}

/// Cycles from issue to result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Latency of integer operations.
    pub alu: Cycle,
    /// Latency of integer multiplication.
    pub multiply: Cycle,
    /// Integer division; occupies its unit.
    pub divide: Cycle,
    /// Latency of vector integer operations.
    pub vector: Cycle,
    /// Latency of floating-point addition.
    pub fp_add: Cycle,
    /// Latency of floating-point multiplication.
    pub fp_multiply: Cycle,
    /// Floating-point division; occupies its unit.
    pub fp_divide: Cycle,
}

/// Shape of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Sets (a power of two).
    pub sets: usize,
    /// Number of lines per set.
    pub ways: usize,
}

impl Geometry {
    /// Returns the capacity in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.sets * self.ways) as u64 * LINE_BYTES
    }

    /// Reads a shape such as `32KB:8`: the capacity and the ways.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Geometry, String> {
        let expected = || format!("cache {text:?}: expected SIZE:WAYS, such as 32KB:8");
        let (size, ways) = text.split_once(':').ok_or_else(expected)?;
        let bytes = value::parse_size(size).ok_or_else(expected)?;
        let ways: u64 = ways.trim().parse().map_err(|_| expected())?;
        let lines = bytes / LINE_BYTES;
        if ways == 0 || bytes % LINE_BYTES != 0 || !lines.is_multiple_of(ways) || lines == 0 {
            return Err(format!("cache {text:?}: expected whole sets of {LINE_BYTES}-byte lines"));
        }
        let sets = lines / ways;
        if !sets.is_power_of_two() || lines > 1 << 24 {
            return Err(format!(
                "cache {text:?}: {sets} sets; expected a power of two and at most 1 GB"
            ));
        }
        Ok(Geometry { sets: sets as usize, ways: ways as usize })
    }
}

/// Parameters of a first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L1Spec {
    /// Shape of the cache.
    pub geometry: Geometry,
    /// Cycles from access to data.
    pub latency: Cycle,
    /// Number of outstanding misses.
    pub mshrs: usize,
}

/// A private second-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2Spec {
    /// Shape of the cache.
    pub geometry: Geometry,
    /// Cycles it adds to an access.
    pub latency: Cycle,
    /// Cycles that one of its two banks adds, where a segregation policy splits it: the same,
    /// unless the machine says less.
    pub bank_latency: Cycle,
}

/// The shared third level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L3Spec {
    /// Shape of the cache; none if it is only the directory of lines.
    pub geometry: Option<Geometry>,
    /// Time it adds to an access.
    pub latency: Time,
    /// Independent banks (a power of two).
    pub banks: usize,
    /// A bank starts an access this often.
    pub occupancy: Time,
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
    /// Time from the memory controller's scheduling of the access to the token.
    pub eta: Time,
}

/// Latencies that a counter-based gating controller goes by (Strong 2013, Sec 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapgSpec {
    /// A stall this old has missed the last cache.
    pub t_llc: Time,
    /// Memory latency from there: a row-buffer miss.
    pub t_mem: Time,
}

/// Dynamic voltage and frequency scaling (Strong 2013, Sec 2.4).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DvfsSpec {
    /// Points, as shares of the full frequency, from 1 downwards.
    pub frequencies: Vec<f64>,
    /// Share by which the voltage falls when the frequency falls to zero.
    pub voltage_slope: f64,
}

impl DvfsSpec {
    /// Share of the full voltage at a share of the full frequency.
    #[must_use]
    pub fn voltage(&self, frequency: f64) -> f64 {
        1.0 - self.voltage_slope * (1.0 - frequency)
    }
}

/// Scheme that decides when and how fast a core may wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WakeUpKind {
    /// Any time, always as fast as `gating.wake_up_ns`.
    Fixed,
    /// Wakes in recurring slots, assigned by place (Strong 2013, Sec 2.3.2).
    Distributed,
    /// Wakes as fast as a central controller grants, which knows the state of all cores (Strong
    /// 2013, Sec 2.3.1).
    Central,
}

/// Parameters that keep wake-ups of cores from disturbing one another.
#[derive(Clone, Debug, PartialEq)]
pub struct WakeUpSpec {
    /// Scheme of the wake-ups.
    pub controller: WakeUpKind,
    /// Distinct slots, for distributed control.
    pub slots: usize,
    /// Time between neighbouring slots.
    pub stagger: Time,
    /// Delay from a core to the central controller, or back.
    pub delay: Time,
    /// Fastest and slowest mode of the switches, and how many there are, evenly spaced.
    pub fastest: Time,
    /// Likewise; slower ones are added for chips on which it is too fast.
    pub slowest: Time,
    /// Likewise (at least 2).
    pub modes: usize,
    /// Safe wake-up times by number of cores, increasing.
    pub equations: Vec<SafeWakeUp>,
}

/// Coefficients of the shortest safe wake-up on a chip (Strong 2013, Eq 2.1, Table 2.2):
/// `T = T0 (w + beta x + gamma y + delta z)^alpha`, with `w` direct, `x` diagonal and `y` other
/// waking cores, and `z` cores on the edge among the running one and its waking neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SafeWakeUp {
    /// Cores of the chip it was fitted to.
    pub cores: usize,
    /// Time for one direct neighbour, in nanoseconds.
    pub t0_ns: f64,
    /// Exponent of the equation.
    pub alpha: f64,
    /// Weight of a diagonal neighbour.
    pub beta: f64,
    /// Weight of a waking core farther off.
    pub gamma: f64,
    /// Weight of an edge position.
    pub delta: f64,
}

/// Cores for the kernel, and what it takes to go to them (Mogul 2007, Sec 3; Nellans 2014, Sec
/// 4.4).
#[derive(Clone, Debug)]
pub struct OsSpec {
    /// Number of cores, beside the others (0..=[`MAX_CORES`]).
    pub cores: usize,
    /// The machine whose cores they are like, by name; without one they are like the others.
    pub like: Option<String>,
    /// Machine of that name, once it was found; its shared levels do not count.
    pub kind: Option<Box<Machine>>,
    /// Work of moving a thread to another core, one way: half on each, at its own clock.
    pub switch: Cycle,
    /// Time from the look-up in the shared levels until a line of another core's caches arrives.
    pub transfer: Time,
    /// A core without a thread is powered down.
    pub power_down: bool,
    /// Time slice of a thread, if there are more threads than cores; zero forbids that.
    pub time_slice: Time,
    /// Threads are CPUs of one recorded machine: the same physical line is the same line, and not
    /// one of its own for each. Only where they are watched ([`Options::offload`](crate::Options)).
    pub one_memory: bool,
}

/// Power of all parts.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerSpec {
    /// A core with its private caches.
    pub core: CorePower,
    /// Power of the shared cache.
    pub l3: CachePower,
    /// Memory, rank by rank and command by command.
    pub memory: CommandEnergy,
    /// Origin of all these watts.
    pub basis: PowerBasis,
    /// All of them lie between these multiples of what is written.
    pub factor: [f64; 2],
}

impl Machine {
    /// Reads a machine description.
    ///
    /// # Errors
    /// The first thing that is unknown, missing or impossible, with file and line.
    pub fn parse(input: &Input) -> Result<Machine, InputError> {
        check::build(input, input.parse()?)
    }

    /// Returns a text of all values that determine the timing of a chip whose sleep delays no core:
    /// runs of the same work on machines of one pace differ in power alone.
    #[must_use]
    pub fn pace(&self) -> String {
        // All of them, so that whoever adds one has to say which kind it is.
        let Machine {
            cores,
            clock,
            core,
            branch,
            fetch,
            l1i,
            l1d,
            l2,
            tlb,
            prefetch,
            l3,
            memory,
            tokens,
            wake_up,
            os,
            faults,
            description: _,
            gating: _,
            unused: _,
            mapg: _,
            fupg: _,
            dvfs: _,
            idle_states: _,
            package: _,
            power: _,
        } = self;
        let caches = (l1i, l1d, l2, l3, tlb, prefetch);
        let front = (branch, fetch);
        let cores = (cores, clock, core, front);
        format!("{:?}", (cores, caches, memory, tokens, wake_up, os, faults))
    }

    /// Returns the machine with another number of cores (1..=[`MAX_CORES`]).
    #[must_use]
    pub fn with_cores(mut self, cores: usize) -> Machine {
        self.cores = cores.clamp(1, MAX_CORES);
        self
    }

    /// Returns the machine whose cores stop their clock at once whenever they wait for memory, and
    /// lose no time by it: clock gating alone, with the supply on.
    #[must_use]
    pub fn with_gated_clock(mut self) -> Machine {
        self.power.core.stalled_clock_w = 0.0;
        self
    }

    /// Returns the machine with its cores at a share of their frequency and the voltage that goes
    /// with it: dynamic energy and leakage fall with the square of the voltage (Strong 2013, Sec
    /// 2.4). Parts outside the cores' clock domain stay as they are.
    #[must_use]
    pub fn at_frequency(mut self, share: f64) -> Machine {
        let voltage = self.dvfs.voltage(share);
        // A share of a clock that was checked; at worst a hertz.
        let hz = ((self.clock.hz() * share) as u64).max(1);
        self.clock = Clock::from_hz(hz).unwrap_or(self.clock);
        self.power.core = self.power.core.at_voltage(voltage, share);
        self
    }

    /// Returns the machine without cores for the kernel.
    #[must_use]
    pub fn without_os_cores(mut self) -> Machine {
        self.os.cores = 0;
        self
    }

    /// A machine as this one, whose cores are those that it sets aside for the kernel.
    #[must_use]
    pub fn os_core(&self) -> Machine {
        let own = match &self.os.kind {
            Some(kind) => kind.as_ref().clone(),
            None => self.clone(),
        };
        let mut wake_up = own.wake_up;
        wake_up.controller = WakeUpKind::Fixed;
        Machine {
            // Policies know one table, whatever the kind of the core.
            idle_states: self.idle_states.clone(),
            l3: self.l3,
            memory: self.memory.clone(),
            tokens: self.tokens,
            faults: self.faults,
            fupg: FupgSpec { gated: self.fupg.gated, ..own.fupg },
            os: OsSpec { kind: None, ..self.os.clone() },
            power: PowerSpec { core: own.power.core, ..self.power.clone() },
            wake_up,
            ..own
        }
    }

    /// Returns the grid of its cores: the most nearly square one of that number.
    #[must_use]
    pub fn grid(&self) -> Grid {
        let rows = (1..=self.cores).take_while(|rows| rows * rows <= self.cores);
        let rows = rows.filter(|rows| self.cores.is_multiple_of(*rows)).max().unwrap_or(1);
        Grid { rows, columns: self.cores / rows }
    }

    /// Slots in which a core may begin to wake.
    #[must_use]
    pub fn slots_of(&self, core: usize) -> Slots {
        match self.wake_up.controller {
            WakeUpKind::Fixed | WakeUpKind::Central => Slots::ANY,
            WakeUpKind::Distributed => {
                let slots = self.wake_up.slots;
                Slots::nth(self.grid().slot(core, slots), slots, self.wake_up.stagger)
            }
        }
    }

    /// Returns the time from the order to wake until the pipeline is refilled, after the supply is
    /// stable.
    #[must_use]
    pub fn restore(&self) -> Time {
        self.clock.time_of(self.gating.control_cycles + self.gating.refill_cycles)
    }

    /// Returns the costs of a round trip to the gated state for a core.
    #[must_use]
    pub fn gating_costs(&self, core: usize) -> Costs {
        Costs {
            entry: self.clock.time_of(self.gating.entry_cycles),
            break_even: self.gating.break_even(self.power.core.leakage_w),
            wake_up: self.usual_wake_up(),
            restore: self.restore(),
            slots: self.slots_of(core),
        }
    }

    /// Outstanding accesses that a core can have: its miss registers together, and its walkers.
    #[must_use]
    pub fn token_entries(&self) -> usize {
        self.l1i.mshrs + self.l1d.mshrs + self.tlb.map_or(0, |tlb| tlb.walkers)
    }
}
