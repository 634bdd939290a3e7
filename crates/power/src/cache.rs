use serde::{Deserialize, Serialize};

/// Power of a shared cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachePower {
    /// Leakage of the cache, in watts.
    pub leakage_w: f64,
    /// Energy of an access, in picojoules.
    pub access_pj: f64,
}
