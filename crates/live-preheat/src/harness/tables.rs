//! What is measured, and how it is told.

use serde::Serialize;

use crate::statistics::{sign_test, Summary};

/// State of the caches before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cold {
    /// The second cache lost all, the last one kept it: what core C6 does.
    L2,
    /// State of `L2`, with all user lines of the set also flushed to memory.
    UserDram,
    /// The last cache lost all too, as far as reading much else makes it.
    Llc,
}

impl Cold {
    /// All states, in order.
    pub const ALL: [Cold; 3] = [Cold::L2, Cold::UserDram, Cold::Llc];

    /// Returns the name that tables use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cold::L2 => "L2-cold",
            Cold::UserDram => "DRAM-cold (user lines)",
            Cold::Llc => "LLC-cold (streamed)",
        }
    }
}

/// Preparation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Other requests just before it, nothing emptied.
    Warm,
    /// Caches were emptied.
    Cold,
    /// Caches were emptied, then preheated.
    Preheated,
    /// Emptied, then another request on another connection.
    Sham,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Class; 4] = [Class::Warm, Class::Cold, Class::Preheated, Class::Sham];
}

/// Response times under one kind of cold, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Name of the caches' state.
    pub cold: &'static str,
    /// Response times by class.
    pub classes: Vec<Row>,
    /// Share of the median penalty (cold less warm) that preheating removes.
    pub removed_by_preheat: f64,
    /// And by a sham request.
    pub removed_by_sham: f64,
    /// Sign tests of pairs: warm below preheated, preheated below cold, sham below preheated.
    pub p_warm_preheated: f64,
    /// Sign test of preheated below cold; see `p_warm_preheated`.
    pub p_preheated_cold: f64,
    /// Sign test of sham below preheated; see `p_warm_preheated`.
    pub p_sham_preheated: f64,
    /// Times in the order of rounds, by class.
    #[serde(skip)]
    pub times: Vec<Vec<f64>>,
}

/// A class and its quantiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Class of the requests.
    pub class: Class,
    /// Response times in microseconds.
    #[serde(flatten)]
    pub summary: Summary,
}

/// Times of loads, in nanoseconds per line.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rates {
    /// The BPF program, all lines cached.
    pub kernel_warm: f64,
    /// The BPF program, after the second-level cache was emptied.
    pub kernel_cold: f64,
    /// The server's thread, lines flushed; all walks of the list together.
    pub user: f64,
    /// A plain loop of prefetches over as many lines of our own, laid out likewise.
    pub best_prefetch: f64,
    /// The former by the latter.
    pub ratio: f64,
}

/// The table of times by class.
pub(super) fn table(cold: Cold, times: Vec<Vec<f64>>) -> Table {
    let summaries: Vec<Summary> = times.iter().map(|t| Summary::of(t)).collect();
    let classes = Class::ALL.into_iter().zip(&summaries);
    let p50 = |class: Class| summaries[class as usize].p50.value;
    let penalty = p50(Class::Cold) - p50(Class::Warm);
    let removed = |class| (p50(Class::Cold) - p50(class)) / penalty;
    let test = |a: Class, b: Class| sign_test(&times[a as usize], &times[b as usize]);
    Table {
        cold: cold.name(),
        classes: classes.map(|(class, summary)| Row { class, summary: *summary }).collect(),
        removed_by_preheat: removed(Class::Preheated),
        removed_by_sham: removed(Class::Sham),
        p_warm_preheated: test(Class::Warm, Class::Preheated),
        p_preheated_cold: test(Class::Preheated, Class::Cold),
        p_sham_preheated: test(Class::Sham, Class::Preheated),
        times,
    }
}
