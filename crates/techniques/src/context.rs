//! What worlds tell techniques of their machines, from which a row makes its policy.

use halfwink_policy::completion::Topology;
use halfwink_policy::gating::Costs;
use halfwink_policy::scaling::{IdleParameters, IdleStates};
use halfwink_units::Time;

/// The properties of a core that a world tells to the techniques that put it to sleep.
#[derive(Clone, Copy, Debug)]
pub struct GatingContext {
    /// Costs of going to sleep and waking up.
    pub costs: Costs,
    /// Loads that may wait for memory at once.
    pub token_entries: usize,
    /// Time until an access has missed the last cache, and time that memory takes from there (both
    /// 0 in a world without memory).
    pub memory: [Time; 2],
    /// The idle states that its machine may use; none where it names none.
    pub idle_states: Option<IdleStates>,
    /// True if a core without a thread powers down while others have theirs.
    pub power_down: bool,
    /// Time between ticks of the kernel.
    pub tick: Time,
    /// Time until the next timer that a governor sees on an idle core.
    pub timer: Time,
}

impl GatingContext {
    /// Ticks of a kernel with 250 a second, where a world knows none.
    pub const TICK: Time = Time::ns(4_000_000);
    /// The next timer, where a world knows none.
    pub const TIMER: Time = IdleParameters::NO_TIMER;
}

/// A fabric as policies of circuits know it.
#[derive(Clone, Copy, Debug)]
pub struct CircuitsContext {
    /// From the end of one day to the begin of the next, in microseconds.
    pub night_us: f64,
    /// Shortest day, in microseconds.
    pub shortest_day_us: f64,
    /// Rate of a port of a switch, in gigabits per second.
    pub port_gbps: f64,
    /// Hosts on it, or racks.
    pub hosts: u16,
    /// The number of such switches.
    pub planes: u8,
}

/// The properties of a machine that its policies of completions are told.
#[derive(Clone, Debug)]
pub struct CompletionContext {
    /// The machine's CPUs.
    pub topology: Topology,
    /// The CPU that takes the device's interrupts.
    pub hears: u16,
}
