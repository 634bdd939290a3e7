//! A run to play, given by names.

use serde::{Deserialize, Serialize};

/// A run to play, given by names. It has the same form in every world, is small, and can be sent to
/// another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The name of a world.
    pub world: String,
    /// `nginx`, `ipv4@evaluation`, `count@30`, `tcpmaerts@1g`.
    pub workload: String,
    /// `ev6-16`, `westmere`, `niccolini`, `alpha@sim-ce`.
    pub machine: String,
    /// The technique with its parameters (`tap:wake=last`); see `Choice::parse`.
    pub technique: String,
    /// Values of the machine, options of the world (`seed`) or parameters of techniques
    /// (`power-save:c_up`, `technique.threshold`) to set. Results show them.
    pub set: Vec<(String, String)>,
    /// Options of the world that are the same for all of a study; results do not show them.
    pub options: Vec<(String, String)>,
}
