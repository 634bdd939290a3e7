//! What `machines/server/*.toml` say. Unknown keys are refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A description of a hybrid server, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format: 1.
    pub schema: u32,
    /// One line.
    pub description: String,
    /// Values that were fitted to published ones.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// The small machine.
    pub small: Machine,
    /// The big machine.
    pub big: Machine,
    /// The threshold scheduler.
    pub policy: Policy,
    /// Policies of others.
    pub others: Others,
    /// Workloads by name.
    pub workloads: BTreeMap<String, Workload>,
    /// The design study.
    pub study: Study,
    /// What is printed and the model does not need.
    #[serde(default)]
    pub facts: BTreeMap<String, Fact>,
}

/// What the design study (Niccolini 2012, Sec 3.3) is run with.
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
    /// The same of the speed study (Fig 3.7).
    pub speed_ratios: Vec<u32>,
    /// Speeds of the small machine over what its workloads' times say (Fig 3.7).
    pub speeds: Vec<f64>,
    /// Thresholds (Fig 3.3, Sec 3.2.3).
    pub thresholds: Vec<u32>,
    /// Wake-up times of the big machine, in milliseconds (Fig 3.5).
    pub transitions_ms: Vec<f64>,
    /// Sleep power of the big machine over its idle power (Fig 3.5).
    pub sleep_shares: Vec<f64>,
}

/// A printed fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact {
    /// Yes or no.
    Claim(bool),
    /// A number.
    Number(f64),
    /// Words.
    Text(String),
}

/// One of the two machines, with its share of memory, buses and the like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Requests in service at a time: hardware threads (the thesis' T).
    pub workers: u32,
    /// How much faster it is than its workloads' times say.
    pub speed: f64,
    /// Power when on without requests, in watts.
    pub idle_w: f64,
    /// Power when all its workers serve, in watts.
    pub max_w: f64,
    /// Power asleep, over `idle_w`.
    pub sleep_share: f64,
    /// Power while it wakes up or goes down, over `idle_w`.
    pub transition_share: f64,
    /// From asleep to on, in milliseconds.
    pub wake_ms: f64,
    /// From on to asleep, in milliseconds.
    pub down_ms: f64,
}

/// The threshold scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Concurrent requests from which on the big machine serves (the thesis' S_t).
    pub threshold: u32,
    /// Which of them count.
    pub count: Counted,
    /// The big machine is woken when more than so many count; the threshold, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<u32>,
    /// How long the big machine stays on without requests, in milliseconds.
    pub linger_ms: f64,
}

/// Which requests count against the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Those of the small machine.
    Small,
    /// Those of the whole server.
    All,
}

/// Parameters of policies of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Others {
    /// What tail latency policies that watch it aim at, in milliseconds.
    pub target_ms: f64,
    /// How often policies that watch something look, in milliseconds.
    pub period_ms: f64,
    /// What DreamWeaver may delay a request by, in milliseconds.
    pub delay_ms: f64,
    /// How long a sleep timer waits, in milliseconds.
    pub timer_ms: f64,
}

/// What requests ask for. Serving one of size `s` with `n` in service, itself included, takes
/// `alpha + s^gamma beta(n)` (Niccolini 2012, Eq 3.1), over the machine's speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// How sizes are distributed, in thousands of bytes or any other unit.
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

/// How long a machine serves a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, untagged)]
pub enum Times {
    /// By its size.
    Linear {
        /// For any request, in milliseconds.
        alpha_ms: f64,
        /// For each unit of size, in milliseconds: with one request in service, with two ...; the
        /// last one with more.
        beta_ms: Vec<f64>,
    },
    /// By a measured distribution, such as a service profile of a simulated chip: the request's
    /// size, from 0 to 1, is its rank.
    Profile {
        /// Points (milliseconds, share of requests that take no longer), rising.
        profile_ms: Vec<[f64; 2]>,
    },
}

/// A distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// Always the same.
    Fixed {
        /// The value.
        value: f64,
    },
    /// Any value between two.
    Uniform {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// The sum of so many exponential ones.
    Erlang {
        /// Its mean.
        mean: f64,
        /// How many.
        phases: u32,
    },
    /// Two exponential ones of balanced means.
    Hyperexponential {
        /// Its mean.
        mean: f64,
        /// Its coefficient of variation, above 1.
        cv: f64,
    },
    /// Log-normal.
    LogNormal {
        /// Its mean.
        mean: f64,
        /// Its coefficient of variation.
        cv: f64,
    },
    /// A power law between two values.
    BoundedPareto {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// The exponent of its tail.
        shape: f64,
    },
    /// A measured one: points of its cumulative distribution, with lines between them.
    Points {
        /// (value, share that is no greater), rising.
        points: Vec<[f64; 2]>,
    },
}
