//! Test traffic for routers: a generator that keeps to a schedule, and a sink that checks what
//! arrives.
//!
//! Every frame carries its flow, its number in the flow and in all, and the time at which it was
//! *scheduled* (`CLOCK_MONOTONIC`, which all network namespaces of a machine share). Latency counts
//! from there, so a router that stalls the generator is charged for it (no coordinated omission).

pub mod capture;
pub mod flows;
pub mod frame;
pub mod generator;
mod link;
pub mod profile;
pub mod running;
pub mod schedule;
pub mod sink;
mod socket;
mod source;
pub mod tracker;

use std::io;

use halfwink_engine::Histogram;
use halfwink_units::Time;
use serde::Serialize;

/// Reason why traffic cannot be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel rejects an operation.
    #[error("{what}: {source}")]
    Os {
        /// Operation that was requested.
        what: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The user's input is invalid: value found, and values allowed.
    #[error("{0}")]
    Input(String),
}

impl Error {
    pub(crate) fn os(what: impl Into<String>) -> Error {
        Error::Os { what: what.into(), source: io::Error::last_os_error() }
    }

    pub(crate) fn input(message: impl Into<String>) -> Error {
        Error::Input(message.into())
    }

    pub(crate) fn file(path: &std::path::Path, source: io::Error) -> Error {
        Error::Os { what: path.display().to_string(), source }
    }
}

/// Times in microseconds; null of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Half of all are no longer.
    pub p50: Option<f64>,
    /// 99 of 100 are no longer.
    pub p99: Option<f64>,
    /// 999 of 1,000 are no longer.
    pub p999: Option<f64>,
    /// Largest of the values.
    pub max: Option<f64>,
}

impl Summary {
    /// Sums up a histogram.
    #[must_use]
    pub fn of(times: &Histogram) -> Summary {
        let us = |time: Option<Time>| time.map(|t| t.as_ns() / 1e3);
        Summary {
            count: times.count(),
            mean: us(times.mean()),
            p50: us(times.quantile(0.5)),
            p99: us(times.quantile(0.99)),
            p999: us(times.quantile(0.999)),
            max: us(times.max()),
        }
    }
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

#[inline]
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the one structure that it is given.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until `CLOCK_MONOTONIC` says so, or a signal comes.
pub(crate) fn sleep_until(ns: u64) {
    let until = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    let flag = libc::TIMER_ABSTIME;
    // SAFETY: the kernel reads the one structure that it is given.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flag, &raw const until, core::ptr::null_mut())
    };
}

/// Processor time of the calling thread, in seconds.
pub(crate) fn thread_cpu_s() -> f64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) as f64 / 1e9
}

/// The calling thread's timers fire as soon as they can: 50 us of slack are the default.
pub(crate) fn no_timer_slack() {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
