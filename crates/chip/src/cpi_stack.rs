//! Why time passed: the cycles of a core by mode and reason (its CPI stack), and what its units
//! did.

use halfwink_units::Cycle;

use crate::uop::{Unit, UNITS};

/// Reason why a core retired no work in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// Work was retired.
    Base,
    /// Operands or units of the oldest operation.
    Dependency,
    /// Refilling after a mispredicted branch.
    Branch,
    /// Instructions from beyond the first level.
    Fetch,
    /// Data from the second level.
    L2,
    /// Data from the third level.
    L3,
    /// Data from another core's caches.
    Remote,
    /// Waits for data from memory.
    Memory,
    /// The translation of an address.
    Tlb,
    /// Code or data that the core had before a sleep lost its caches.
    Cold,
    /// A full store queue.
    Store,
    /// Draining and refilling around kernel entries, exits and other serializing operations.
    System,
    /// Loading lines before they are needed.
    Preheat,
    /// Moving a thread to another core, or taking one over.
    Switch,
    /// No work: the thread that the core runs is on another core.
    Away,
    /// No work: halted by the operating system.
    Idle,
    /// No work: nothing was given to the core, or it has finished.
    Unused,
}

impl Reason {
    /// Every reason, in the order of a stack.
    pub const ALL: [Reason; 17] = [
        Reason::Base,
        Reason::Dependency,
        Reason::Branch,
        Reason::Fetch,
        Reason::L2,
        Reason::L3,
        Reason::Remote,
        Reason::Memory,
        Reason::Tlb,
        Reason::Cold,
        Reason::Store,
        Reason::System,
        Reason::Preheat,
        Reason::Switch,
        Reason::Away,
        Reason::Idle,
        Reason::Unused,
    ];

    /// Name in ledgers and plots.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Base => "base",
            Reason::Dependency => "dependency",
            Reason::Branch => "branch",
            Reason::Fetch => "fetch-stall",
            Reason::L2 => "l2-stall",
            Reason::L3 => "l3-stall",
            Reason::Remote => "remote-stall",
            Reason::Memory => "memory-stall",
            Reason::Tlb => "tlb-stall",
            Reason::Cold => "cold-caches",
            Reason::Store => "store-stall",
            Reason::System => "system",
            Reason::Preheat => "preheat",
            Reason::Switch => "core-switch",
            Reason::Away => "away",
            Reason::Idle => "idle",
            Reason::Unused => "unused",
        }
    }
}

/// Number of all reasons.
pub(crate) const REASONS: usize = Reason::ALL.len();

/// Places for them: a power of two, since the loop of an in-order core counts by a masked number.
pub(crate) const REASON_SLOTS: usize = REASONS.next_power_of_two();

/// Cycles with the pipeline's clock on and not stalled, by mode and reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ActiveCycles {
    pub(crate) cycles: [[Cycle; REASON_SLOTS]; 2],
}

impl ActiveCycles {
    #[inline]
    pub(crate) fn add(&mut self, kernel: bool, reason: Reason, cycles: Cycle) {
        self.cycles[usize::from(kernel)][reason as usize] += cycles;
    }

    pub(crate) fn total(&self) -> Cycle {
        self.cycles.iter().flatten().sum()
    }
}

/// Operations executed, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitCounts {
    /// Operations in integer units.
    pub alu: [u64; 2],
    /// Operations in multipliers and dividers.
    pub multiply: [u64; 2],
    /// Operations in floating-point units.
    pub fp: [u64; 2],
    /// Number of loads and stores.
    pub memory: [u64; 2],
}

impl UnitCounts {
    /// Counts a run's micro-operations by unit.
    #[inline]
    pub(crate) fn add(&mut self, in_unit: &[u16; UNITS], mode: usize) {
        self.alu[mode] += u64::from(in_unit[Unit::Alu as usize]);
        self.multiply[mode] += u64::from(in_unit[Unit::Multiply as usize]);
        self.fp[mode] += u64::from(in_unit[Unit::Fp as usize]);
        self.memory[mode] += u64::from(in_unit[Unit::Memory as usize]);
    }
}
