//! What a pool did, and what a load found.

use halfwink_engine::Histogram;
use halfwink_units::Time;
use serde::Serialize;

/// Times in seconds; null of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// Number of values.
    pub count: u64,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Half of all are no longer.
    pub p50: Option<f64>,
    /// 9 of 10 are no longer.
    pub p90: Option<f64>,
    /// 99 % quantile.
    pub p99: Option<f64>,
    /// 99.9 % quantile.
    pub p999: Option<f64>,
    /// Largest of the values.
    pub max: Option<f64>,
}

impl Seconds {
    /// Sums up a histogram; quantiles are exact to 0.8 %, the rest to a nanosecond.
    #[must_use]
    pub fn of(times: &Histogram) -> Seconds {
        let s = |time: Option<Time>| time.map(|t| t.as_ns() / 1e9);
        Seconds {
            count: times.count(),
            mean: s(times.mean()),
            p50: s(times.quantile(0.5)),
            p90: s(times.quantile(0.9)),
            p99: s(times.quantile(0.99)),
            p999: s(times.quantile(0.999)),
            max: s(times.max()),
        }
    }
}

/// Measured work of one worker of a pool.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerReport {
    /// CPU that it stays on.
    pub cpu: u32,
    /// Requests for a workload that were answered.
    pub served: u64,
    /// Requests that were refused (4xx, 5xx).
    pub refused: u64,
    /// Seconds from taking a request up until its answer was handed to the kernel, with waits.
    pub busy_s: f64,
    /// Processor time of its thread, in seconds.
    pub cpu_s: f64,
    /// Bytes of all answers.
    pub bytes: u64,
}

/// Measured work of a pool.
#[derive(Clone, Debug, Serialize)]
pub struct PoolReport {
    /// Name of the pool.
    pub name: String,
    /// Seconds from its start.
    pub duration_s: f64,
    /// Requests for a workload that were answered.
    pub served: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Connections that were taken.
    pub connections: u64,
    /// Time in service, from taking a request up until its answer was handed to the kernel.
    pub service_s: Seconds,
    /// Reports of the workers.
    pub workers: Vec<WorkerReport>,
}
