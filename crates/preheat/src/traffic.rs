//! What comes to a node, and what became of it.

use halfwink_engine::confidence::Piece;
use halfwink_engine::{Closed, Histogram, Imbalance, Interrupted};
use halfwink_policy::StuckTimer;
use halfwink_units::Time;

/// Requests that a node receives.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Services, by their place among the description's names, with their shares.
    pub services: Vec<(usize, f64)>,
    /// Requests a second, in the mean; gaps are exponential.
    pub rate: f64,
    /// Number of requests.
    pub requests: u64,
    /// Time from the announcement to the packet.
    pub lead: Time,
    /// Share of requests that are not announced.
    pub lost: f64,
    /// Announcements of what does not come, over requests.
    pub false_alarms: f64,
    /// Services restart after so many requests; 0 for never.
    pub restart_after: u64,
    /// Seed of all random streams.
    pub seed: u64,
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Response times, as clients see them.
    pub latency: Histogram,
    /// Requests that met a machine that slept when they, or their announcement, came.
    pub after_sleep: u64,
    /// Fills of the last-level cache during requests.
    pub refills: u64,
    /// Lines that requests used and were not there.
    pub missed: u64,
    /// Number of wake-ups.
    pub wakes: u64,
    /// Loads, and lines that they brought.
    pub loads: u64,
    /// Lines that loads brought.
    pub lines: u64,
    /// Time of loads, from the first instruction to the last line.
    pub load_time: Time,
    /// Time that cores spent loading.
    pub load_core_time: Time,
    /// Requests that waited for a load.
    pub held: u64,
    /// Number of sham requests.
    pub shams: u64,
    /// Number of dumps.
    pub dumps: u64,
    /// Announcements of what did not come.
    pub false_alarms: u64,
    /// Number of requests that were not announced.
    pub unannounced: u64,
    /// Misses of the first half and of the second half of the run.
    pub missed_by_half: [u64; 2],
}

/// Results of a finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Time and energy of all components.
    pub books: Closed,
    /// Counters of the run.
    pub tally: Tally,
    /// Pieces of the run, to compare with those of another policy: work is requests.
    pub pieces: Vec<Piece>,
}

/// Reason why a run failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The run was stopped from outside.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The ledger does not balance.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// A policy's timer does not move on.
    #[error("{0}")]
    Stuck(StuckTimer),
    /// Requests wait, and nothing happens any more.
    #[error("{0} requests wait at the end, and nothing happens any more")]
    Unserved(usize),
}
