//! Applications above the driver, as closed networks of queues (Nellans 2014, Sec 6.2, 6.4).
//!
//! Threads compute, have I/Os, wait for them, and compute again. Mean-value analysis is exact for
//! one server at each station; stations of several servers are taken as one fast server and a
//! delay (Seidmann 1987).

use serde::{Deserialize, Serialize};

use crate::description::{at_least, positive, DescriptionError};

/// An application, by what it does between two waits for the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Number of threads.
    pub threads: u32,
    /// CPU time of a round, in microseconds.
    pub cpu_us: f64,
    /// I/Os that are waited for together.
    pub ios: f64,
    /// Time that is spent elsewhere: on clients, locks, logs.
    #[serde(default)]
    pub think_us: f64,
}

/// A service station, at which threads queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Service of one customer in a round, in microseconds.
    pub demand_us: f64,
    /// Number of servers.
    pub servers: f64,
}

/// A closed network, solved.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// Number of rounds per microsecond.
    pub rounds_per_us: f64,
    /// Stay at each station in a round, in microseconds.
    pub stay_us: Vec<f64>,
}

/// Solves a closed network: so many customers that spend `delay_us` of each round nowhere.
#[must_use]
pub fn solve(customers: u32, delay_us: f64, stations: &[Station]) -> Solved {
    let fast: Vec<f64> = stations.iter().map(|s| s.demand_us / s.servers).collect();
    let beside: Vec<f64> = stations.iter().zip(&fast).map(|(s, fast)| s.demand_us - fast).collect();
    let all_beside: f64 = delay_us + beside.iter().sum::<f64>();
    let mut queued = vec![0.0; stations.len()];
    let mut stay = fast.clone();
    let mut rate = 0.0;
    for n in 1..=customers {
        for ((stay, fast), queued) in stay.iter_mut().zip(&fast).zip(&queued) {
            // The arrival theorem (Reiser and Lavenberg 1980): a customer finds what the network
            // with one customer less has in its queues.
            *stay = fast * (1.0 + queued);
        }
        rate = f64::from(n) / (all_beside + stay.iter().sum::<f64>());
        for (queued, stay) in queued.iter_mut().zip(&stay) {
            *queued = rate * stay;
        }
    }
    let stay_us = stay.iter().zip(&beside).map(|(stay, beside)| stay + beside).collect();
    Solved { rounds_per_us: rate, stay_us }
}

impl Application {
    /// Solves the application above a driver that completes on one CPU, with `driver_us` of its
    /// time per I/O, below a device with this latency.
    #[must_use]
    pub fn on_one_cpu(&self, cpus: f64, driver_us: f64, latency_us: f64) -> Solved {
        let compute = Station { demand_us: self.cpu_us, servers: (cpus - 1.0).max(1.0) };
        let driver = Station { demand_us: self.ios * driver_us, servers: 1.0 };
        solve(self.threads, self.think_us + latency_us, &[driver, compute])
    }

    /// Solves the application above a driver whose second phase takes `driver_us` of the CPUs on
    /// which the application computes, and whose first phase runs on one of them. Each I/O slows
    /// the application by `refill_us`, and the driver takes at most one I/O in `least_us`.
    #[must_use]
    pub fn on_all_cpus(
        &self,
        cpus: f64,
        driver_us: f64,
        refill_us: f64,
        least_us: f64,
        latency_us: f64,
    ) -> Solved {
        let demand_us = self.cpu_us + self.ios * (driver_us + refill_us);
        let compute = Station { demand_us, servers: cpus };
        let driver = Station { demand_us: self.ios * least_us, servers: 1.0 };
        solve(self.threads, self.think_us + latency_us, &[driver, compute])
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), DescriptionError> {
        at_least(&format!("{path}.threads"), f64::from(self.threads), 1.0)?;
        at_least(&format!("{path}.cpu_us"), self.cpu_us, 0.0)?;
        at_least(&format!("{path}.think_us"), self.think_us, 0.0)?;
        positive(&format!("{path}.ios"), self.ios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_form::repairman_throughput;

    #[test]
    fn one_server_is_the_machine_repairman() {
        for (customers, think, service) in [(1, 10.0, 2.0), (5, 30.0, 7.0), (40, 100.0, 3.0)] {
            let station = Station { demand_us: service, servers: 1.0 };
            let solved = solve(customers, think, &[station]);
            let known = repairman_throughput(customers, think, service);
            assert!((solved.rounds_per_us / known - 1.0).abs() < 1e-12);
            // Little: what is not thinking is at the station.
            let there = f64::from(customers) - solved.rounds_per_us * think;
            assert!((solved.rounds_per_us * solved.stay_us[0] - there).abs() < 1e-9);
        }
    }

    #[test]
    fn many_customers_fill_the_slowest_station() {
        let stations =
            [Station { demand_us: 4.0, servers: 1.0 }, Station { demand_us: 70.0, servers: 10.0 }];
        let solved = solve(2000, 50.0, &stations);
        assert!((solved.rounds_per_us - 1.0 / 7.0).abs() < 1e-4, "{solved:?}");
        // One customer alone waits for nobody.
        let alone = solve(1, 50.0, &stations);
        assert!((alone.rounds_per_us - 1.0 / 124.0).abs() < 1e-12, "{alone:?}");
    }
}
