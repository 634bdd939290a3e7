use serde::{Deserialize, Serialize};

/// Which accesses are kept apart (Nellans 2014, section 5.4: data only, instructions only, both).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Divides instructions and data.
    #[default]
    Both,
    /// Data; instructions go anywhere. Needs masks for code and data apart (CDP).
    Data,
    /// Instructions; data goes anywhere. Needs masks for code and data apart (CDP).
    Instructions,
}

impl Routing {
    /// All, with the names that users type.
    pub const NAMES: [(&'static str, Routing); 3] =
        [("both", Routing::Both), ("data", Routing::Data), ("instructions", Routing::Instructions)];
}

/// A change against the cache as it is, in percent, with its interval; below zero is less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Estimate of the mean, in percent.
    pub mean_pct: f64,
    /// Lower end of its interval, %.
    pub low_pct: f64,
    /// Upper end of its interval, %.
    pub high_pct: f64,
}

/// Expected effect of an advice. Modelled, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Change of the time of a unit of work.
    pub latency: Change,
    /// Change of the joules of a unit of work.
    pub energy: Change,
}

/// Result of an analysis of a recording for a cache; it is made elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// Ways of the cache that was analysed.
    pub ways_of_cache: u8,
    /// Ways for the kernel; none, where no split is better than none.
    pub kernel_ways: Option<u8>,
    /// Accesses that are separated.
    pub routing: Routing,
    /// Expected effect of the split.
    pub expected: Option<Expected>,
    /// The gain is inside its interval: leave the cache as it is.
    pub leave_it: bool,
    /// The reason, one line.
    pub why: String,
}
