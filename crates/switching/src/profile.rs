//! Programs: what one unit of work asks of cores, devices and the network.

use serde::{Deserialize, Serialize};

use crate::check::{not_negative, positive, share};
use crate::model::ModelError;

/// A program, or several that run alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name of the workload (`web`).
    pub name: String,
    /// Which of several variants: the network (`1g`), the number of users.
    pub variant: String,
    /// Configurations on which it is run.
    pub configurations: Vec<String>,
    /// Kernels with which it is run on them: `unmod`, `bound`, versions of the mechanism.
    pub kernels: Vec<String>,
    /// Simulated time, in seconds.
    pub seconds: f64,
    /// Amount that one unit of work counts for, in `amount_unit`.
    pub unit_amount: f64,
    /// Unit of amounts (`KB`).
    pub amount_unit: String,
    /// Amounts are reported per so many seconds.
    pub per_seconds: f64,
    /// Threads on each application core; or in all, if the stock kernel places them.
    pub threads: usize,
    /// Units that are asked for at once, the next when all are done; 0: threads go on by
    /// themselves.
    #[serde(default)]
    pub batch: usize,
    /// Cores on which the stock kernel runs the threads and the interrupts.
    pub unmod: Placement,
    /// Demand of a unit on the reference core.
    pub demand: Demand,
    /// System calls of a unit, in order.
    pub calls: Vec<Call>,
    /// Which calls may move, where it is not what the model says.
    pub offload: Option<Offload>,
    /// Name of the kernel code that its calls and interrupts run; without one, code that misses
    /// first-level caches as the fitted loop of a switch does.
    pub kernel_code: Option<String>,
    /// Bytes from which on a transfer may move.
    pub least_bytes: u64,
    /// Amount per second that the network takes; none: no limit.
    pub wire_per_s: Option<f64>,
    /// Spread of user and waiting times: coefficient of variation, exponential at 1, constant at 0.
    #[serde(default)]
    pub spread: f64,
    /// Metered time of a run beyond the time of its work, in seconds.
    #[serde(default)]
    pub metered_beyond_s: f64,
    /// The whole amount of a run of fixed work; none for runs of fixed time.
    pub fixed_amount: Option<f64>,
    /// Length of a run of fixed time, in seconds.
    pub fixed_s: Option<f64>,
    /// Printed values that a demand in nanoseconds was fitted to.
    pub fitted_to: Option<FittedTo>,
}

/// Placement of work by a kernel that ignores core types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// Cores that run threads while no call has moved.
    pub threads: Where,
    /// Which cores handle interrupts.
    pub interrupts: Where,
}

/// Some of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// All application cores.
    App,
    /// OS cores, if there are any.
    Os,
    /// Any core that is idle, else the one with the shortest queue.
    Any,
}

/// Demand of one unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "from", rename_all = "kebab-case")]
pub enum Demand {
    /// Derives the demand from the shares of time and the amount of a run on the reference core.
    Profile {
        /// Percent of the time in user mode.
        user_pct: f64,
        /// Share of time in system calls.
        kernel_pct: f64,
        /// Share of time in interrupt handlers.
        interrupt_pct: f64,
        /// Idle; the four shares add up to 100.
        idle_pct: f64,
        /// Amount of work in `per_seconds`.
        amount: f64,
        /// Cause of the idle time.
        waits: Waits,
    },
    /// States the demand in nanoseconds on the reference core.
    Times {
        /// User mode, with system calls that never move.
        user_ns: f64,
        /// System calls that may move.
        kernel_ns: f64,
        /// Time in interrupt handlers.
        interrupt_ns: f64,
        /// Waiting for devices and the network.
        wait_ns: f64,
    },
}

/// Cause of the idle time of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// A latency that does not depend on the cores.
    Latency,
    /// The network, which is full.
    Wire,
}

/// Nanoseconds of one unit on the reference core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitTimes {
    /// Time in user mode.
    pub user_ns: f64,
    /// Time in all system calls.
    pub kernel_ns: f64,
    /// Time in interrupt handlers.
    pub interrupt_ns: f64,
    /// Waiting for a request, a device or the network, with the core idle.
    pub wait_ns: f64,
}

/// A system call of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Name, as Linux has it (`read`).
    pub name: String,
    /// Number on x86-64 Linux, by which policies know it.
    pub number: u32,
    /// Number of calls in a unit.
    pub count: u32,
    /// Share of the unit's kernel time in all of them, of 1.
    pub share: f64,
    /// Bytes or entries that it asks for.
    pub asks: u64,
    /// The unit's interrupts come while it runs (`true`), or before the unit begins.
    #[serde(default)]
    pub interrupted: bool,
    /// The call waits for its device, whose interrupt ends the wait.
    pub device_ns: Option<f64>,
}

/// Which calls may move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "rule", rename_all = "kebab-case")]
pub enum Offload {
    /// The list of Mogul (2007).
    EnoughWork,
    /// The calls that are listed here.
    Listed {
        /// Calls that may move; all others stay.
        calls: Vec<Rule>,
    },
}

/// A call that may move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Number on x86-64 Linux.
    pub number: u32,
    /// The argument, 0 to 5, that must reach the workload's `least_bytes`; none: it always moves.
    pub bytes_argument: Option<u8>,
}

/// Printed values that two unknowns of a demand were fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedTo {
    /// Rate of the single core.
    pub rate_single: f64,
    /// Recorded idle time of the application core, in seconds.
    pub idle_app_s: f64,
}

/// Shortest unit of work, in nanoseconds.
const SHORTEST_UNIT_NS: f64 = 10.0;
/// Most system calls of a unit.
const MOST_CALLS: u64 = 100_000;
/// Most requests of a batch.
const MOST_REQUESTS: usize = 100_000;

impl Workload {
    /// Demand of a unit on the reference core.
    #[must_use]
    pub fn times(&self) -> UnitTimes {
        match self.demand {
            Demand::Times { user_ns, kernel_ns, interrupt_ns, wait_ns } => {
                UnitTimes { user_ns, kernel_ns, interrupt_ns, wait_ns }
            }
            Demand::Profile { user_pct, kernel_pct, interrupt_pct, idle_pct, amount, waits } => {
                let unit_ns = self.per_seconds * 1e9 / (amount / self.unit_amount);
                let part = |pct: f64| unit_ns * pct / 100.0;
                let wait_ns = if waits == Waits::Wire { 0.0 } else { part(idle_pct) };
                UnitTimes {
                    user_ns: part(user_pct),
                    kernel_ns: part(kernel_pct),
                    interrupt_ns: part(interrupt_pct),
                    wait_ns,
                }
            }
        }
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        for (key, value) in [
            ("seconds", self.seconds),
            ("unit_amount", self.unit_amount),
            ("per_seconds", self.per_seconds),
        ] {
            positive(key, value)?;
        }
        if self.seconds > 1e3 {
            return Err(ModelError::at("seconds", "expected at most 1000"));
        }
        if !(1..=1000).contains(&self.threads) {
            return Err(ModelError::at("threads", "expected 1 to 1000"));
        }
        if self.batch > MOST_REQUESTS {
            return Err(ModelError::at("batch", "expected at most 100000 requests"));
        }
        if self.configurations.is_empty() || self.kernels.is_empty() {
            return Err(ModelError::at(
                "configurations",
                "expected one, and a kernel to run on it",
            ));
        }
        share("spread", self.spread)?;
        not_negative("metered_beyond_s", self.metered_beyond_s)?;
        for (key, value) in [
            ("wire_per_s", self.wire_per_s),
            ("fixed_amount", self.fixed_amount),
            ("fixed_s", self.fixed_s),
        ] {
            value.map_or(Ok(()), |v| positive(key, v))?;
        }
        self.check_demand()?;
        for (n, call) in self.calls.iter().enumerate() {
            if call.count == 0 {
                return Err(ModelError::at(format!("calls.{n}.count"), "0, expected 1 or more"));
            }
            share(&format!("calls.{n}.share"), call.share)?;
            call.device_ns.map_or(Ok(()), |v| not_negative(&format!("calls.{n}.device_ns"), v))?;
        }
        if self.calls.iter().map(|c| u64::from(c.count)).sum::<u64>() > MOST_CALLS {
            return Err(ModelError::at("calls.0.count", "expected at most 100000 calls a unit"));
        }
        if self.calls.iter().map(|c| c.share).sum::<f64>() > 1.0 + 1e-9 {
            return Err(ModelError::at("calls.0.share", "the shares sum to more than 1"));
        }
        Ok(())
    }

    fn check_demand(&self) -> Result<(), ModelError> {
        let at = |key: &str| format!("demand.{key}");
        match self.demand {
            Demand::Profile { user_pct, kernel_pct, interrupt_pct, idle_pct, amount, .. } => {
                for (key, value) in [
                    ("user_pct", user_pct),
                    ("kernel_pct", kernel_pct),
                    ("interrupt_pct", interrupt_pct),
                    ("idle_pct", idle_pct),
                ] {
                    not_negative(&at(key), value)?;
                }
                positive(&at("amount"), amount)?;
            }
            Demand::Times { user_ns, kernel_ns, interrupt_ns, wait_ns } => {
                for (key, value) in [
                    ("user_ns", user_ns),
                    ("kernel_ns", kernel_ns),
                    ("interrupt_ns", interrupt_ns),
                    ("wait_ns", wait_ns),
                ] {
                    not_negative(&at(key), value)?;
                }
            }
        }
        let times = self.times();
        let in_calls: f64 = self.calls.iter().map(|call| call.share).sum();
        // A client of batches waits between them only.
        let wait_ns = if self.batch > 0 { 0.0 } else { times.wait_ns };
        let unit_ns = times.user_ns + times.kernel_ns * in_calls + wait_ns;
        // Else a simulation of whole seconds would never end.
        if unit_ns >= SHORTEST_UNIT_NS {
            return Ok(());
        }
        let message = format!("{unit_ns} ns a unit, expected at least {SHORTEST_UNIT_NS}");
        Err(ModelError::at("demand", message))
    }
}
