//! Idle times as they were recorded, and what idle policies would have made of them.
//!
//! ```text
//!  perf script, ftrace, CSV ─▶ read ─▶ gaps of each CPU ─▶ play(policy) ─▶ joules, verdicts
//!                                              └─────────▶ together ─▶ time in which all are idle
//! ```
//!
//! A gap begins when a CPU has nothing to do and ends when something wakes it. Playing leaves the
//! gaps where they are: the work that ends one comes when it came, and a late wake-up delays
//! nothing but itself. So the answer holds for a load that does not depend on its own latency.

mod judge;
mod play;
mod read;
mod together;

use halfwink_engine::Histogram;
use halfwink_units::Time;

pub use play::{best, package_saves, play, recorded, Outcome};
pub use read::{read, read_with, ReadError};
pub use together::{together, Together};

/// An idle time of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The CPU has nothing to do from here on, since the beginning of the recording.
    pub begin: Time,
    /// Time at which something wakes it.
    pub end: Time,
    /// Number of the idle state that the kernel chose, where the recording has it.
    pub state: Option<u8>,
}

impl Gap {
    /// Length of the gap.
    #[must_use]
    pub fn length(&self) -> Time {
        self.end - self.begin
    }
}

/// Gaps of a CPU, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Number of the CPU.
    pub number: u32,
    /// Gaps of this CPU; none overlaps the next.
    pub gaps: Vec<Gap>,
}

/// Contents of a recording, and what it cannot tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Name of the format.
    pub format: &'static str,
    /// CPUs that have gaps, by number.
    pub cpus: Vec<Cpu>,
    /// Time from the first event to the last.
    pub length: Time,
    /// Lines that are no events of idle CPUs, such as comments and events of other kinds.
    pub other_lines: u64,
    /// Lines that look like events of idle CPUs and cannot be read.
    pub bad_lines: u64,
    /// Events that the recorder says it lost.
    pub lost_events: u64,
    /// Gaps left out because events are missing or the clock stepped back within them.
    pub broken: u64,
    /// Gaps left out because the recording begins or ends within them.
    pub cut: u64,
    /// Gaps after which a task ran, if switches of tasks were recorded.
    pub to_task: Option<u64>,
    /// The kernel's own verdicts, if it recorded them: gaps that were longer than the chosen state
    /// is for (`below`), and shorter (`above`).
    pub kernel: Option<[u64; 2]>,
}

impl Recording {
    /// Number of gaps of all CPUs.
    #[must_use]
    pub fn gaps(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.gaps.len() as u64).sum()
    }

    /// Time of all CPUs in gaps.
    #[must_use]
    pub fn idle(&self) -> Time {
        Time(self.cpus.iter().flat_map(|cpu| &cpu.gaps).map(|gap| gap.length().0).sum())
    }

    /// Lengths of all gaps.
    #[must_use]
    pub fn lengths(&self) -> Histogram {
        let mut lengths = Histogram::default();
        for gap in self.cpus.iter().flat_map(|cpu| &cpu.gaps) {
            lengths.record(gap.length());
        }
        lengths
    }

    /// Numbers of states that the kernel chose, where the recording has them, each with its gaps.
    #[must_use]
    pub fn chosen(&self) -> Vec<(u8, u64)> {
        // State numbers are bytes, so that every one has a place.
        let mut counts = [0_u64; 256];
        for state in self.cpus.iter().flat_map(|cpu| &cpu.gaps).filter_map(|gap| gap.state) {
            counts[usize::from(state)] += 1;
        }
        let numbered = (0..=u8::MAX).zip(counts);
        numbered.filter(|(_, gaps)| *gaps > 0).collect()
    }
}
