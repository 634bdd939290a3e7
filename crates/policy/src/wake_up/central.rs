//! The central wake-up controller, WUC: knows the state of every core, and grants each gated core
//! the fastest wake-up that is safe whatever the others do.
//!
//! Strong's Eq 2.1, `T = T0 (w + beta x + gamma y + delta z)^alpha`, says how long all waking cores
//! must take. Solved for the sum, a waking core disturbs a running one by `(T0 / T)^(1 / alpha)`
//! times a weight for their places, and all disturbances together must not exceed 1. In this form
//! cores may wake in different modes; with one mode for all it is Eq 2.1.
//!
//! Every core may use the slowest mode at any time without asking: that much is always set aside
//! for it. A gated core is granted the fastest mode that leaves nobody disturbed beyond the limit;
//! the grant holds until the core runs again. So no message can come too late to be safe.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use crate::{Policy, Snapshot};

/// Disturbance that a running core just bears, in the unit of all disturbances.
pub const LIMIT: u64 = 1_000_000;

/// A setting of the header switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Time from closing the first switch until the supply is stable.
    pub latency: Time,
    /// Disturbance of a direct neighbour on an inner place, in millionths of what it bears.
    pub noise: u64,
}

/// Disturbance of running cores by waking ones, by place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbourhood {
    /// Total number of cores.
    pub cores: usize,
    /// Weight of a waking core on a running one, in millionths: row after row of running cores.
    pub weights: Vec<u64>,
    /// Amount by which a running core's own place lowers the disturbance that it bears, in
    /// millionths of the greatest one: its edge position.
    pub places: Vec<u64>,
}

/// Events from a core to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// The core is gated and requests a fast wake-up.
    Gated(usize),
    /// The core runs again.
    Awake(usize),
}

/// Answers of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// The core may wake in this time, once.
    Grant {
        /// Number of the core.
        core: usize,
        /// Time from closing the first switch until its supply is stable.
        #[cfg_attr(feature = "serde", serde(rename = "wake_up_ps"))]
        wake_up: Time,
    },
}

/// Even if all cores wake as slowly as they can, one is disturbed too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsafeError {
    /// Number of the core.
    pub core: usize,
    /// Disturbance of the core, in millionths of what it bears.
    pub disturbance: u64,
}

/// The controller of a chip.
#[derive(Clone, Debug)]
pub struct Central {
    around: Neighbourhood,
    /// Modes from the slowest to the fastest.
    modes: Vec<Mode>,
    /// The mode that each core may wake in now.
    granted: Vec<usize>,
    /// Disturbance of each core if all others woke as they may, without its place.
    sums: Vec<u64>,
    pending: Option<Action>,
    grants: i64,
}

impl Central {
    /// A controller for cores that all run, with modes from the slowest to the fastest.
    ///
    /// # Errors
    /// If the slowest mode is not safe for all cores at once.
    pub fn new(around: Neighbourhood, modes: Vec<Mode>) -> Result<Central, UnsafeError> {
        let cores = around.cores;
        let slowest = modes.first().map_or(0, |mode| mode.noise);
        let sums: Vec<u64> = (0..cores)
            .map(|a| (0..cores).map(|c| disturbance(&around, a, c, slowest)).sum())
            .collect();
        for (core, &sum) in sums.iter().enumerate() {
            let disturbance = sum + scaled(around.places[core], slowest);
            if cores > 1 && disturbance > LIMIT {
                return Err(UnsafeError { core, disturbance });
            }
        }
        let granted = vec![0; cores];
        Ok(Central { around, modes, granted, sums, pending: None, grants: 0 })
    }

    fn noise_of(&self, core: usize) -> u64 {
        self.modes[self.granted[core]].noise
    }

    /// Lets `core` wake in `mode` and keeps the sums.
    fn set(&mut self, core: usize, mode: usize) {
        let (old, new) = (self.noise_of(core), self.modes[mode].noise);
        for a in 0..self.around.cores {
            self.sums[a] += disturbance(&self.around, a, core, new);
            self.sums[a] -= disturbance(&self.around, a, core, old);
        }
        self.granted[core] = mode;
    }

    /// The greatest disturbance of a core, in millionths of what it bears, if all that may wake do.
    #[must_use]
    pub fn worst(&self) -> u64 {
        let cores = 0..self.around.cores;
        let totals = cores.clone().map(|a| {
            let loudest = cores.clone().filter(|&c| c != a).map(|c| self.noise_of(c)).max();
            self.sums[a] + scaled(self.around.places[a], loudest.unwrap_or(0))
        });
        totals.max().unwrap_or(0)
    }

    fn grant(&mut self, core: usize) {
        for mode in (0..self.modes.len()).rev() {
            self.set(core, mode);
            if mode == 0 || self.worst() <= LIMIT {
                break;
            }
        }
        self.grants += 1;
        let wake_up = self.modes[self.granted[core]].latency;
        self.pending = Some(Action::Grant { core, wake_up });
    }
}

/// A share in millionths of something.
fn scaled(share: u64, of: u64) -> u64 {
    share * of / 1_000_000
}

fn disturbance(around: &Neighbourhood, running: usize, waking: usize, noise: u64) -> u64 {
    if running == waking {
        return 0;
    }
    // Rounded up: what is granted must be safe.
    (around.weights[running * around.cores + waking] * noise).div_ceil(1_000_000)
}

impl Policy for Central {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match *event {
            Event::Gated(core) => self.grant(core),
            Event::Awake(core) => self.set(core, 0),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let fast = self.granted.iter().filter(|&&mode| mode > 0).count();
        vec![("grants", self.grants), ("fast", fast as i64), ("worst_ppm", self.worst() as i64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two by two cores, all on the edge: Table 2.2's coefficients for four cores, latencies from 8
    /// to 16 ns, `T0` 8 ns, `alpha` 0.5: noise 1, 0.64, 0.44, 0.33, 0.25.
    fn four() -> Central {
        let (edge, diagonal) = (1_150_000, 350_000);
        #[rustfmt::skip]
        let weights = vec![
            0, edge, edge, diagonal,
            edge, 0, diagonal, edge,
            edge, diagonal, 0, edge,
            diagonal, edge, edge, 0,
        ];
        let around = Neighbourhood { cores: 4, weights, places: vec![150_000; 4] };
        let modes = [16, 14, 12, 10, 8]
            .map(|ns| Mode { latency: Time::ns(ns), noise: 64_000_000 / (ns * ns) });
        Central::new(around, modes.to_vec()).unwrap()
    }

    fn grant(central: &mut Central, core: usize) -> Time {
        central.on_event(Time::ZERO, &Event::Gated(core));
        let Some(Action::Grant { core: who, wake_up }) = central.poll_action() else {
            panic!("a request is answered")
        };
        assert_eq!((who, central.poll_action()), (core, None));
        wake_up
    }

    #[test]
    fn central_grants_keep_the_droop_below_the_limit() {
        let mut central = four();
        // All slow: 0.25 (1.15 + 1.15 + 0.35 + 0.15).
        assert_eq!(central.worst(), 700_000);
        // One in mode n: 1.15 n + 0.25 (1.15 + 0.35) + 0.15 n <= 1 for n up to 0.48: 12 ns.
        assert_eq!(grant(&mut central, 0), Time::ns(12));
        // Its neighbour: cores 2 and 3 would have 1.15 (0.44 + n) + ...: only the diagonal pair
        // leaves room, 1.15 n + 0.35 * 0.44 + 0.25 * 1.15 + 0.15 max.
        let second = grant(&mut central, 1);
        assert!(second >= Time::ns(14), "{second}");
        assert!(central.worst() <= LIMIT);
        // Awake again, the first gives back what it had.
        central.on_event(Time::ZERO, &Event::Awake(0));
        central.on_event(Time::ZERO, &Event::Awake(1));
        assert_eq!(central.worst(), 700_000);
        assert_eq!(grant(&mut central, 3), Time::ns(12));
    }

    #[test]
    fn modes_that_are_too_fast_for_the_chip_are_refused() {
        let four = four();
        let fast = vec![Mode { latency: Time::ns(8), noise: 1_000_000 }];
        let error = Central::new(four.around, fast).unwrap_err();
        assert_eq!(error, UnsafeError { core: 0, disturbance: 2_800_000 });
    }

    proptest::proptest! {
        /// Checks that under any order of events no core is disturbed beyond the limit, and each
        /// request is answered.
        #[test]
        fn no_schedule_is_unsafe(
            steps in proptest::collection::vec((0usize..4, proptest::bool::ANY), 0..200)
        ) {
            let mut central = four();
            for (core, gated) in steps {
                if gated {
                    let wake_up = grant(&mut central, core);
                    proptest::prop_assert!(wake_up <= Time::ns(16));
                } else {
                    central.on_event(Time::ZERO, &Event::Awake(core));
                }
                proptest::prop_assert!(central.worst() <= LIMIT);
                let sums = central.sums.clone();
                let again: Vec<u64> = (0..4)
                    .map(|a| {
                        let of = |c| disturbance(&central.around, a, c, central.noise_of(c));
                        (0..4).map(of).sum()
                    })
                    .collect();
                proptest::prop_assert_eq!(sums, again);
            }
        }
    }
}
