use serde::{Deserialize, Serialize};

/// Power of a shared cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachePower {
    /// Leakage, in watts.
    pub leakage_w: f64,
    /// Energy of an access, in picojoules.
    pub access_pj: f64,
}

/// Power of a memory channel: its devices and their interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramPower {
    /// Standby power of a rank, refresh included, in watts.
    pub background_w_per_rank: f64,
    /// Opening and closing a row, in picojoules.
    pub activate_pj: f64,
    /// Reading a line, with its transfer, in picojoules.
    pub read_pj: f64,
    /// Writing a line, with its transfer, in picojoules.
    pub write_pj: f64,
}
