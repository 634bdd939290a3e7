//! A unit of work as a list of steps.

use halfwink_policy::offload::{CallRule, Fixed, OffloadPolicy, PerCall, Place, Work};
use halfwink_policy::offload::{ENOUGH_WORK_BYTES, STATIC_CHECK_CYCLES};

use super::Kernel;
use crate::profile::{Offload, Workload};

/// A step of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Nanoseconds of user code on the reference core.
    User(f64),
    /// A call, with nanoseconds of its body on the reference core.
    Call { call: usize, body_ns: f64 },
    /// The unit's data pass the network.
    Wire,
    /// Waits for so many nanoseconds.
    Wait(f64),
}

/// Time at which the interrupts of a unit arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Before the unit: a request, or the end of a wait.
    Before,
    /// While this call runs.
    During(usize),
    /// At the end of this call's wait for its device.
    Device(usize),
}

/// The steps of one unit, user time spread evenly before the calls and after the last.
pub(crate) fn steps(workload: &Workload) -> Vec<Step> {
    let times = workload.times();
    let calls: u32 = workload.calls.iter().map(|call| call.count).sum();
    let user = Step::User(times.user_ns / f64::from(calls + 1));
    let mut steps = Vec::new();
    for (n, call) in workload.calls.iter().enumerate() {
        for _ in 0..call.count {
            let body_ns = times.kernel_ns * call.share / f64::from(call.count);
            steps.extend([user, Step::Call { call: n, body_ns }]);
        }
    }
    steps.push(user);
    if workload.wire_per_s.is_some() {
        steps.push(Step::Wire);
    }
    // A client of batches waits itself, once for all.
    if workload.batch == 0 && times.wait_ns > 0.0 {
        steps.push(Step::Wait(times.wait_ns));
    }
    steps
}

pub(crate) fn arrival(workload: &Workload) -> Arrival {
    let calls = || workload.calls.iter().enumerate();
    if let Some((n, _)) = calls().find(|(_, call)| call.device_ns.is_some()) {
        return Arrival::Device(n);
    }
    calls().find(|(_, call)| call.interrupted).map_or(Arrival::Before, |(n, _)| Arrival::During(n))
}

/// The policy of a core.
pub(crate) fn policy(offload: &Offload, workload: &Workload, kernel: &Kernel) -> OffloadPolicy {
    if !matches!(kernel, Kernel::Switching(_)) {
        return Box::new(Fixed::never());
    }
    match workload.offload.as_ref().unwrap_or(offload) {
        Offload::EnoughWork => Box::new(PerCall::enough_work(ENOUGH_WORK_BYTES)),
        Offload::Listed { calls } => {
            let least = workload.least_bytes;
            let rule = |call: &crate::profile::Rule| CallRule {
                number: call.number,
                work: match call.bytes_argument {
                    Some(argument) => Work::AtLeast { argument, least },
                    None => Work::Always,
                },
            };
            let rules = calls.iter().map(rule).collect();
            Box::new(PerCall::new(rules, STATIC_CHECK_CYCLES, Place::OsCore))
        }
    }
}
