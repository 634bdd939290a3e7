//! What `machines/server/*.toml` say. Unknown keys are refused.

use std::collections::BTreeMap;

use halfwink_engine::Law;
use halfwink_units::PowerBasis;
use serde::{Deserialize, Serialize};

use super::Faults;

/// A description of a hybrid server, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Description in one line.
    pub description: String,
    /// Values that were fitted to published ones.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// Description of the small machine.
    pub small: Machine,
    /// Description of the big machine.
    pub big: Machine,
    /// Descriptions of further kinds of machines, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, Machine>,
    /// The ordered set: kinds, each with its number of machines behind it (`small*4`). None: the
    /// small machine, then the big one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// Origin of the watts of all machines.
    #[serde(default)]
    pub power: PowerOrigin,
    /// Faults of the machines.
    #[serde(default)]
    pub faults: Faults,
    /// Description of workloads by name.
    pub workloads: BTreeMap<String, Workload>,
    /// Parameters of the design study, which only a pair has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<Study>,
    /// Printed facts that the model does not need.
    #[serde(default)]
    pub facts: BTreeMap<String, Fact>,
}

/// Origin of the watts of a description.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerOrigin {
    /// Origin of the watts: published, measured, estimated or assumed.
    pub basis: PowerBasis,
    /// The least and the greatest multiple of its watts that each machine may take, where they are
    /// estimated or assumed.
    #[serde(default = "as_written")]
    pub factor: [f64; 2],
}

impl Default for PowerOrigin {
    fn default() -> PowerOrigin {
        PowerOrigin { basis: PowerBasis::default(), factor: as_written() }
    }
}

const fn as_written() -> [f64; 2] {
    [1.0; 2]
}

/// Parameters of the design study (Niccolini 2012, Sec 3.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Requests of each run, the first tenth of which are left out.
    pub requests: u64,
    /// Shares of time at a utilisation in the middle of each of so many equal parts.
    pub utilisation: Vec<f64>,
    /// Speeds of the big machine over what its workloads' times say.
    pub big_speeds: Vec<f64>,
    /// Numbers of small over big workers (Fig 3.6).
    pub ratios: Vec<u32>,
    /// Numbers of small over big workers in the speed study (Fig 3.7).
    pub speed_ratios: Vec<u32>,
    /// Speeds of the small machine over what its workloads' times say (Fig 3.7).
    pub speeds: Vec<f64>,
    /// Workloads whose delays are shown (Fig 3.3, Sec 3.1.3).
    pub workloads: Vec<String>,
    /// Thresholds (Fig 3.3, Sec 3.2.3).
    pub thresholds: Vec<u32>,
    /// Wake-up times of the big machine, in milliseconds (Fig 3.5).
    pub transitions_ms: Vec<f64>,
    /// Sleep power of the big machine over its idle power (Fig 3.5).
    pub sleep_shares: Vec<f64>,
}

/// A printed fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, a text, true or false")]
pub enum Fact {
    /// A claim that holds or not.
    Claim(bool),
    /// A number, as printed.
    Number(f64),
    /// A text, as printed.
    Text(String),
}

/// A kind of machine, with its share of memory, buses and the like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Kind whose times workloads have for this one: `small` or `big`. Only `kinds` say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<String>,
    /// Requests in service at a time: hardware threads (the thesis' T).
    pub workers: u32,
    /// Speed relative to the workloads' times.
    pub speed: f64,
    /// Power when on without requests, in watts.
    pub idle_w: f64,
    /// Power when all its workers serve, in watts.
    pub max_w: f64,
    /// Power asleep, over `idle_w`.
    pub sleep_share: f64,
    /// Power while it wakes up or goes down, over `idle_w`.
    pub transition_share: f64,
    /// Time from asleep to on, in milliseconds.
    pub wake_ms: f64,
    /// Time from on to asleep, in milliseconds.
    pub down_ms: f64,
    /// Extra time of each worker's first request after a wake-up, in milliseconds: caches that were
    /// lost, or memory that is restored (Gottschlag 2016, Sec 2.1).
    #[serde(default)]
    pub cold_ms: f64,
    /// Deeper levels of sleep, in the order in which it passes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
}

/// A deeper level of sleep, into which a machine goes from the level before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The name, for `--set` and errors.
    pub name: String,
    /// Power asleep, over `idle_w`.
    pub sleep_share: f64,
    /// Time from this level to on, in milliseconds.
    pub wake_ms: f64,
    /// Time from the level before to this one, in milliseconds.
    pub down_ms: f64,
    /// Extra time of each worker's first request after a wake-up, in milliseconds.
    #[serde(default)]
    pub cold_ms: f64,
}

/// Sizes and service times of requests. Serving one of size `s` with `n` in service, itself
/// included, takes `alpha + s^gamma beta(n)` (Niccolini 2012, Eq 3.1), over the machine's speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Distribution of sizes, in thousands of bytes or any other unit.
    pub size: Law,
    /// The exponent of the size.
    #[serde(default = "one")]
    pub gamma: f64,
    /// Times on the small machine.
    pub small: Times,
    /// Times on the big machine.
    pub big: Times,
}

fn one() -> f64 {
    1.0
}

/// Law of a machine's service times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum Times {
    /// Service time by size.
    Linear {
        /// Constant part, in milliseconds.
        alpha_ms: f64,
        /// Time for each unit of size, in milliseconds: with one request in service, with two ...;
        /// the last one with more.
        beta_ms: Vec<f64>,
    },
    /// Service time by a measured distribution, such as a service profile of a simulated chip: the
    /// request's size, from 0 to 1, is its rank.
    Profile {
        /// Points (milliseconds, share of requests that take no longer), rising.
        profile_ms: Vec<[f64; 2]>,
    },
}
