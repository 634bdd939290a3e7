//! One server, any distribution of service, that sleeps when it has nothing to do.
//!
//! ```text
//!   busy ─▶ idle ── linger over ─▶ closes down ─▶ asleep ── request ─▶ set-up ─▶ busy
//!             └ request: busy        └ request: set-up after closing down
//! ```

/// M/G/1, first come, first served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mg1 {
    /// Arrival rate in requests per second.
    pub arrival_rate: f64,
    /// Mean service time of a request.
    pub service: f64,
    /// Mean square of the service time.
    pub service_square: f64,
}

impl Mg1 {
    /// Creates the queue from the coefficient of variation: 0 for a fixed time, 1 for an
    /// exponential one.
    #[must_use]
    pub fn new(arrival_rate: f64, service: f64, variation: f64) -> Mg1 {
        let service_square = service * service * (1.0 + variation * variation);
        Mg1 { arrival_rate, service, service_square }
    }

    /// Share of time that it is busy.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.arrival_rate * self.service
    }

    /// Mean time in the queue: Pollaczek and Khinchine (Kleinrock, Sec 5.6).
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        let idle = (1.0 - self.utilisation()).max(0.0);
        self.arrival_rate * self.service_square / (2.0 * idle)
    }

    /// Mean time in the system.
    #[must_use]
    pub fn mean_response(&self) -> f64 {
        self.mean_wait() + self.service
    }

    /// Mean square of the time in the queue, from the mean cube of the service time (Takács;
    /// Kleinrock, Sec 5.7).
    #[must_use]
    pub fn wait_square(&self, service_cube: f64) -> f64 {
        let idle = (1.0 - self.utilisation()).max(0.0);
        2.0 * self.mean_wait().powi(2) + self.arrival_rate * service_cube / (3.0 * idle)
    }

    /// Mean wait if the first request of each busy period starts with a delay of this mean and mean
    /// square, independent of what comes later: a set-up (Welch 1964, "On a generalized M/G/1
    /// queuing process in which the first customer of each busy period receives exceptional
    /// service"; Takagi, Sec 2.3).
    #[must_use]
    pub fn mean_wait_with_set_up(&self, set_up: f64, set_up_square: f64) -> f64 {
        let extra = (2.0 * set_up + self.arrival_rate * set_up_square)
            / (2.0 * (1.0 + self.arrival_rate * set_up));
        self.mean_wait() + extra
    }

    /// Mean wait if the server leaves whenever it is idle, again and again until it finds a
    /// request: multiple vacations of this mean and mean square. The wait is that of M/G/1 and the
    /// rest of a vacation (Fuhrmann, Cooper, "Stochastic decompositions in the M/G/1 queue with
    /// generalized vacations", Operations Research 33, 1985).
    #[must_use]
    pub fn mean_wait_with_vacations(&self, vacation: f64, vacation_square: f64) -> f64 {
        self.mean_wait() + vacation_square / (2.0 * vacation)
    }

    /// Likewise if it leaves once for each idle time, for a time of this mean, mean square and
    /// probability that no request comes meanwhile, E[exp(-rate x vacation)] (Takagi, Sec 2.2).
    #[must_use]
    pub fn mean_wait_with_one_vacation(&self, mean: f64, square: f64, none: f64) -> f64 {
        self.mean_wait() + self.arrival_rate * square / (2.0 * (none + self.arrival_rate * mean))
    }

    /// Mean time from a request at an idle server to its being idle again.
    #[must_use]
    pub fn mean_busy_period(&self) -> f64 {
        self.service / (1.0 - self.utilisation()).max(0.0)
    }
}

/// Sleep cycle of an M/G/1 server: it lingers when idle, closes down, and is set up by the next
/// request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SleepCycle {
    /// Fixed time that it stays on without requests; infinite for ever, 0 for instant sleep.
    pub linger: f64,
    /// Fixed time to go down, which a request that comes meanwhile waits for.
    pub close_down: f64,
    /// Mean time to wake.
    pub set_up: f64,
    /// Mean square of it.
    pub set_up_square: f64,
}

/// Shares of time, which sum to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Share of time serving.
    pub busy: f64,
    /// Share of time on without requests.
    pub idle: f64,
    /// Share of time closing down.
    pub closing: f64,
    /// Share of time asleep.
    pub asleep: f64,
    /// Share of time being set up.
    pub set_up: f64,
}

impl Shares {
    /// Mean power, from that of each state.
    #[must_use]
    pub fn power_w(&self, state_w: &Shares) -> f64 {
        self.busy * state_w.busy
            + self.idle * state_w.idle
            + self.closing * state_w.closing
            + self.asleep * state_w.asleep
            + self.set_up * state_w.set_up
    }
}

impl SleepCycle {
    /// Creates a cycle of fixed times.
    #[must_use]
    pub fn fixed(linger: f64, close_down: f64, set_up: f64) -> SleepCycle {
        SleepCycle { linger, close_down, set_up, set_up_square: set_up * set_up }
    }

    /// Probability that no request comes while it lingers.
    fn sleeps(&self, rate: f64) -> f64 {
        (-rate * self.linger).exp()
    }

    /// Mean and mean square of what is left of closing down when the next request comes.
    fn closing(&self, rate: f64) -> (f64, f64) {
        let (c, x) = (self.close_down, rate * self.close_down);
        if x < 1e-6 {
            // The forms below cancel; the first terms of their series.
            return (rate * c * c / 2.0, rate * c * c * c / 3.0);
        }
        let met = -(-x).exp_m1();
        (c - met / rate, c * c - 2.0 * c / rate + 2.0 * met / (rate * rate))
    }

    /// Mean and mean square of how long the first request of a busy period is held up.
    fn first(&self, rate: f64) -> (f64, f64) {
        let (rest, rest_square) = self.closing(rate);
        let sleeps = self.sleeps(rate);
        let square = self.set_up_square + 2.0 * self.set_up * rest + rest_square;
        (sleeps * (self.set_up + rest), sleeps * square)
    }

    /// Mean time in the queue of this server: M/G/1 whose first request of a busy period is held
    /// up with probability exp(-rate x linger), by the set-up and what is left of closing down.
    /// Exponential set-up and service give M/M/1/setup of Gandhi, Harchol-Balter, Adan, "Server
    /// farms with setup costs" (Performance Evaluation 67, 2010): 1/(mu - rate) + mean set-up.
    #[must_use]
    pub fn mean_wait(&self, server: &Mg1) -> f64 {
        let (mean, square) = self.first(server.arrival_rate);
        server.mean_wait_with_set_up(mean, square)
    }

    /// Mean time in the system.
    #[must_use]
    pub fn mean_response(&self, server: &Mg1) -> f64 {
        self.mean_wait(server) + server.service
    }

    /// Shares of time in each state, of a cycle from idle to idle. An unstable server is busy.
    #[must_use]
    pub fn shares(&self, server: &Mg1) -> Shares {
        let (rate, busy) = (server.arrival_rate, server.utilisation());
        if busy >= 1.0 {
            return Shares { busy: 1.0, idle: 0.0, closing: 0.0, asleep: 0.0, set_up: 0.0 };
        }
        let sleeps = self.sleeps(rate);
        // A cycle is one idle time and the busy period behind it; requests that come during the
        // set-up lengthen that by 1 / (1 - busy).
        let cycle = (1.0 + rate * self.first(rate).0) / (rate * (1.0 - busy));
        Shares {
            busy,
            idle: (1.0 - sleeps) / rate / cycle,
            closing: sleeps * self.close_down / cycle,
            asleep: sleeps * (-rate * self.close_down).exp() / rate / cycle,
            set_up: sleeps * self.set_up / cycle,
        }
    }

    /// Mean energy of a request, in joules, from the power of each state.
    #[must_use]
    pub fn energy_per_request(&self, server: &Mg1, state_w: &Shares) -> f64 {
        self.shares(server).power_w(state_w) / server.arrival_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} {expected}");
    }

    #[test]
    fn mean_wait_equals_pollaczek_khinchine() {
        // M/M/1 and M/D/1 at 0.8.
        near(Mg1::new(0.8, 1.0, 1.0).mean_wait(), 4.0);
        near(Mg1::new(0.8, 1.0, 0.0).mean_wait(), 2.0);
        assert!(Mg1::new(1.0, 1.0, 1.0).mean_wait().is_infinite());
        // E[W^2] of M/M/1: 2 rho / (mu - rate)^2.
        near(Mg1::new(0.8, 1.0, 1.0).wait_square(6.0), 2.0 * 0.8 / 0.04);
        near(Mg1::new(0.8, 1.0, 1.0).mean_busy_period(), 5.0);
    }

    #[test]
    fn set_up_time_adds_to_the_response() {
        let server = Mg1::new(0.5, 1.0, 1.0);
        // Exponential of mean 3: the response is 1/(mu - rate) + 3.
        near(server.mean_wait_with_set_up(3.0, 18.0) + 1.0, 2.0 + 3.0);
        // Fixed of 2: (4 + 0.5 * 4) / (2 * 2).
        near(server.mean_wait_with_set_up(2.0, 4.0), 1.0 + 1.5);
        near(SleepCycle::fixed(0.0, 0.0, 2.0).mean_wait(&server), 2.5);
        near(SleepCycle::fixed(f64::INFINITY, 1.0, 2.0).mean_wait(&server), 1.0);
    }

    #[test]
    fn vacations_add_their_residual_time_to_the_wait() {
        let server = Mg1::new(0.5, 1.0, 1.0);
        near(server.mean_wait_with_vacations(2.0, 4.0), 2.0);
        // One exponential vacation of mean 2: E[exp(-V/2)] = 1/2.
        near(server.mean_wait_with_one_vacation(2.0, 8.0, 0.5), 1.0 + 4.0 / 3.0);
    }

    #[test]
    fn rest_of_closing_down_equals_integral() {
        let cycle = SleepCycle::fixed(0.0, 2.0, 0.0);
        let (mean, square) = cycle.closing(0.5);
        // E[(2 - X)+] = 2 - (1 - e^-1) / 0.5 = 2 / e.
        near(mean, 2.0 / 1f64.exp());
        // Integral of (2 - x)^2 e^(-x/2) / 2 from 0 to 2 = 4 - 8 / e.
        near(square, 4.0 - 8.0 / 1f64.exp());
        // The series meets the form.
        let (a, b) = (cycle.closing(4.9e-7), cycle.closing(5.1e-7));
        assert!((a.0 / b.0 - 4.9 / 5.1).abs() < 1e-3, "{a:?} {b:?}");
    }

    #[test]
    fn shares_sum_to_one_and_pay() {
        let server = Mg1::new(0.5, 1.0, 1.0);
        // Instant sleep without set-up: busy or asleep.
        let free = SleepCycle::default();
        let shares = free.shares(&server);
        assert_eq!((shares.busy, shares.asleep), (0.5, 0.5));
        let watts =
            Shares { busy: 200.0, idle: 140.0, closing: 150.0, asleep: 10.0, set_up: 200.0 };
        near(free.energy_per_request(&server, &watts), 210.0);
        // Set-up of 2, linger until half of the idle times end: by hand.
        let linger = 2f64.ln() / 0.5;
        let some = SleepCycle::fixed(linger, 0.0, 2.0);
        let shares = some.shares(&server);
        // Cycle: (1 + 0.5 * 1) / 0.25 = 6; idle 1, asleep 1, set-up 1, busy 3.
        near(shares.idle, 1.0 / 6.0);
        near(shares.asleep, 1.0 / 6.0);
        near(shares.set_up, 1.0 / 6.0);
        near(shares.busy, 0.5);
        for cycle in [some, SleepCycle::fixed(0.3, 0.7, 1.9), SleepCycle::fixed(0.0, 5.0, 0.1)] {
            let s = cycle.shares(&server);
            near(s.busy + s.idle + s.closing + s.asleep + s.set_up, 1.0);
        }
        assert_eq!(some.shares(&Mg1::new(2.0, 1.0, 1.0)).busy, 1.0);
    }
}
