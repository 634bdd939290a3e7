//! Poisson arrivals and exponential service; infinite servers.

/// Erlang's B: probability that a request is lost by M/M/k/k (and M/G/k/k) at this offered load, in
/// Erlang: arrival rate x mean service time (Kleinrock, Sec 3.5).
#[must_use]
pub fn erlang_b(offered: f64, servers: u32) -> f64 {
    // 1/B(k) = 1 + k / (a B(k-1)), from B(0) = 1, written for B: no factorial overflows.
    (1..=servers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b))
}

/// Erlang's C: probability that a request of M/M/k must wait (Kleinrock, Sec 3.5); 1 without a
/// steady state.
#[must_use]
pub fn erlang_c(offered: f64, servers: u32) -> f64 {
    let utilisation = offered / f64::from(servers);
    if utilisation >= 1.0 {
        return 1.0;
    }
    let b = erlang_b(offered, servers);
    b / (1.0 - utilisation * (1.0 - b))
}

/// M/M/k, first come, first served; M/M/1 with one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mmk {
    /// Arrival rate in requests per second.
    pub arrival_rate: f64,
    /// Rate of one server, per second.
    pub service_rate: f64,
    /// Number of servers.
    pub servers: u32,
}

impl Mmk {
    /// Returns the offered load, in Erlang.
    #[must_use]
    pub fn offered(&self) -> f64 {
        self.arrival_rate / self.service_rate
    }

    /// Share of time that a server is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.offered() / f64::from(self.servers)
    }

    /// Probability that a request waits.
    #[must_use]
    pub fn waits(&self) -> f64 {
        erlang_c(self.offered(), self.servers)
    }

    /// Returns the spare capacity of all servers, per second; 0 without a steady state.
    fn spare(&self) -> f64 {
        (f64::from(self.servers) * self.service_rate - self.arrival_rate).max(0.0)
    }

    /// Mean time in the queue, in seconds.
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        self.waits() / self.spare()
    }

    /// Mean time in the system, in seconds.
    #[must_use]
    pub fn mean_response(&self) -> f64 {
        self.mean_wait() + 1.0 / self.service_rate
    }

    /// Mean number in the system (Little).
    #[must_use]
    pub fn mean_number(&self) -> f64 {
        self.arrival_rate * self.mean_response()
    }

    /// Probability of a wait longer than so many seconds.
    #[must_use]
    pub fn waits_longer(&self, seconds: f64) -> f64 {
        self.waits() * (-self.spare() * seconds).exp()
    }

    /// The wait that this share of requests, 0 to 1, does not exceed, in seconds.
    #[must_use]
    pub fn wait_quantile(&self, share: f64) -> f64 {
        ((self.waits() / (1.0 - share)).ln() / self.spare()).max(0.0)
    }

    /// Probability of a time in the system longer than so many seconds: the sum of the wait and an
    /// independent service (Harchol-Balter, Ch. 14).
    #[must_use]
    pub fn responds_longer(&self, seconds: f64) -> f64 {
        let (waits, mu) = (self.waits(), self.service_rate);
        if self.spare() == 0.0 {
            return 1.0;
        }
        let apart = self.spare() - mu;
        // Both rates alike: the limit of the other form.
        let waited = if (apart * seconds).abs() < 1e-9 {
            mu * seconds
        } else {
            -mu * (-apart * seconds).exp_m1() / apart
        };
        (-mu * seconds).exp() * (1.0 + waits * waited)
    }

    /// The time in the system that this share of requests, 0 to 1, does not exceed, in seconds.
    #[must_use]
    pub fn response_quantile(&self, share: f64) -> f64 {
        if share >= 1.0 || self.spare() == 0.0 {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (0.0, self.mean_response());
        // The quantile may be any multiple of the mean, which is only where the search begins.
        while self.responds_longer(high) > 1.0 - share {
            high *= 2.0;
        }
        // Halved until it moves no more.
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if self.responds_longer(middle) > 1.0 - share {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// M/G/infinity: every request is served at once (Kleinrock, Sec 3.4; Takagi).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mginf {
    /// Arrival rate in requests per second.
    pub arrival_rate: f64,
    /// Mean service time, in seconds.
    pub service: f64,
}

impl Mginf {
    /// Mean number in service.
    #[must_use]
    pub fn mean_number(&self) -> f64 {
        self.arrival_rate * self.service
    }

    /// Probability that so many are in service: Poisson, whatever the distribution of service.
    #[must_use]
    pub fn busy(&self, number: u32) -> f64 {
        let mean = self.mean_number();
        // By the ratio of neighbours: a power over a factorial overflows from 171 on.
        (1..=number).fold((-mean).exp(), |p, n| p * mean / f64::from(n))
    }

    /// Probability that more than so many are in service.
    #[must_use]
    pub fn busier(&self, number: u32) -> f64 {
        (1.0 - (0..=number).map(|n| self.busy(n)).sum::<f64>()).max(0.0)
    }

    /// Mean time from the first request to none being there, in seconds.
    #[must_use]
    pub fn mean_busy_period(&self) -> f64 {
        self.mean_number().exp_m1() / self.arrival_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} {expected}");
    }

    #[test]
    fn erlangs_formulas_by_hand() {
        // B(2 Erlang, 2) = (4/2) / (1 + 2 + 2).
        near(erlang_b(2.0, 2), 0.4);
        near(erlang_b(1.0, 3), (1.0 / 6.0) / (1.0 + 1.0 + 0.5 + 1.0 / 6.0));
        // C(1, 2) = (1/2 * 2) / (1 + 1 + 1).
        near(erlang_c(1.0, 2), 1.0 / 3.0);
        near(erlang_c(0.7, 1), 0.7);
        assert_eq!(erlang_c(2.0, 2), 1.0);
        // Where factorials overflow: 1 / (sqrt(pi k / 2) + 2/3), but for terms of 1 / k.
        let about = 1.0 / ((500.0 * std::f64::consts::PI).sqrt() + 2.0 / 3.0);
        assert!((erlang_b(1000.0, 1000) / about - 1.0).abs() < 1e-4);
    }

    #[test]
    fn one_server_gives_the_closed_form_of_m_m_1() {
        let one = Mmk { arrival_rate: 0.8, service_rate: 1.0, servers: 1 };
        near(one.mean_wait(), 4.0);
        near(one.mean_response(), 5.0);
        near(one.mean_number(), 4.0);
        near(one.responds_longer(3.0), (-0.6f64).exp());
        near(one.response_quantile(0.99), 100f64.ln() / 0.2);
        near(one.wait_quantile(0.5), 1.6f64.ln() / 0.2);
        assert_eq!(one.wait_quantile(0.1), 0.0);
        let full = Mmk { arrival_rate: 1.0, ..one };
        assert!(full.mean_wait().is_infinite() && full.response_quantile(0.5).is_infinite());
        assert_eq!(full.responds_longer(1.0), 1.0);
    }

    #[test]
    fn two_servers_give_the_closed_form_of_m_m_2() {
        let two = Mmk { arrival_rate: 1.0, service_rate: 1.0, servers: 2 };
        near(two.mean_wait(), 1.0 / 3.0);
        near(two.waits_longer(1.0), (-1f64).exp() / 3.0);
        // Wait and service at the same rate: e^-t (1 + t/3).
        near(two.responds_longer(2.0), (-2f64).exp() * (1.0 + 2.0 / 3.0));
        let nearly = Mmk { arrival_rate: 1.0 - 1e-7, ..two };
        assert!((nearly.responds_longer(2.0) - two.responds_longer(2.0)).abs() < 1e-6);
        // Mean of the time in the system, as the area below its tail.
        let busy = Mmk { arrival_rate: 5.0, service_rate: 2.0, servers: 4 };
        let area: f64 =
            (0..40_000).map(|n| busy.responds_longer(1e-3 * (f64::from(n) + 0.5))).sum();
        assert!((area * 1e-3 - busy.mean_response()).abs() < 1e-6);
        near(busy.responds_longer(busy.response_quantile(0.9)), 0.1);
    }

    #[test]
    fn infinite_servers_are_poisson() {
        let many = Mginf { arrival_rate: 3.0, service: 0.5 };
        near(many.busy(0), (-1.5f64).exp());
        near(many.busy(2), (-1.5f64).exp() * 1.125);
        near(many.busier(1), 1.0 - (-1.5f64).exp() * 2.5);
        // Busy and idle times: the share of idle is P(0).
        let idle = 1.0 / 3.0;
        near(idle / (idle + many.mean_busy_period()), many.busy(0));
    }
}
