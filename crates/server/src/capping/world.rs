//! Epochs, statistics, accounts.

use halfwink_engine::confidence::{Estimate, Estimator, Goal, QuantileEstimator};
use halfwink_engine::{Cause, Closed, Imbalance, Ledger, Mode, Row, RunControl, State};
use halfwink_units::{Energy, Power, Time};

use super::server::{Pace, Server, Tally};
use super::{Capping, CappingError, Stop};

/// The quantile of interest.
const QUANTILE: f64 = 0.95;
/// Requests that may wait at a server, on average, before it is called overloaded.
const MOST_WAITING: usize = 5_000;

/// Results of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time from a request's arrival to its finish, in seconds.
    pub response_s: Estimate,
    /// 0.95 quantile of the response time.
    pub response_p95_s: Estimate,
    /// Mean over servers of what one draws beyond its budget, at the epochs, in watts. Zero without
    /// a cap.
    pub cap_w: Estimate,
    /// 0.95 quantile of the cap.
    pub cap_p95_w: Estimate,
    /// Whether all four estimates have reached the goal.
    pub converged: bool,
    /// Epochs played, with those left out at the start.
    pub epochs: u64,
    /// The most that was shared out to all servers at an epoch, in watts for each.
    pub budget_most_w: f64,
    /// Share of epochs, after the start, at which servers drew more than the cap.
    pub over_cap: f64,
    /// Requests that came, with those of the start.
    pub arrived: u64,
    /// Arrivals, finishes and epochs.
    pub events: u64,
    /// Mean power of a server, in watts.
    pub power_w: f64,
    /// The balanced ledger, all from the start.
    pub books: Closed,
}

struct World<'a> {
    setting: &'a Capping,
    servers: Vec<Server>,
    /// Servers by number of busy cores, at the last epoch.
    used: Vec<usize>,
    /// Pace of a server, by its number of busy cores.
    paces: Vec<Pace>,
    now: u64,
    epochs: u64,
    finished: u64,
    budget_most_w: f64,
    over_cap: u64,
    statistics: Statistics,
}

struct Statistics {
    response: Estimator,
    response_p95: QuantileEstimator,
    cap: Estimator,
    cap_p95: QuantileEstimator,
    capped: bool,
}

impl Statistics {
    fn new(stop: &Stop, capped: bool) -> Statistics {
        let goal = Goal { relative: stop.accuracy, confidence: stop.confidence };
        let quantile = || QuantileEstimator::new(QUANTILE, goal);
        let mean = || Estimator::new(goal);
        let (response, cap) = (mean(), mean());
        Statistics { response, response_p95: quantile(), cap, cap_p95: quantile(), capped }
    }

    fn are_done(&self) -> bool {
        let caps = !self.capped || self.cap.is_done() && self.cap_p95.is_done();
        self.response.is_done() && self.response_p95.is_done() && caps
    }
}

/// Responses of one epoch.
struct Responses<'a> {
    /// Picoseconds; so many fit that no epoch fills it.
    sum: u128,
    count: u64,
    quantile: &'a mut QuantileEstimator,
}

impl Tally for Responses<'_> {
    #[inline]
    fn response(&mut self, ps: u64) {
        self.sum += u128::from(ps);
        self.count += 1;
        self.quantile.record(ps as f64 * 1e-12);
    }
}

/// Responses that are only counted.
struct Ignored(u64);

impl Tally for Ignored {
    #[inline]
    fn response(&mut self, _: u64) {
        self.0 += 1;
    }
}

/// Plays until the confidence is reached that is wanted.
///
/// # Errors
/// A setting that is out of range, growing queues, a stop from outside.
pub fn run(
    setting: &Capping,
    stop: &Stop,
    seed: u64,
    control: &RunControl,
) -> Result<Outcome, CappingError> {
    check(setting, stop)?;
    let mut world = World::new(setting, stop, seed);
    for _ in 0..stop.warm_up {
        world.play_epoch(false);
        world.watch(control)?;
    }
    let most = stop.epochs.unwrap_or(stop.most);
    for _ in 0..most {
        world.play_epoch(true);
        world.watch(control)?;
        // A fixed number of epochs is played to its end, so that two runs can be compared epoch by
        // epoch.
        if stop.epochs.is_none() && world.statistics.are_done() {
            break;
        }
    }
    world.close(stop)
}

fn check(setting: &Capping, stop: &Stop) -> Result<(), CappingError> {
    let wrong = |name, expected, found| Err(CappingError::Setting { name, expected, found });
    let above_0 = "a number above 0";
    let epochs = stop.warm_up.saturating_add(stop.epochs.unwrap_or(stop.most));
    // Half of what fits, so that no sum of times can go past the end.
    let longest = u64::MAX / 2 / setting.epoch.0.max(1);
    match () {
        () if setting.servers == 0 => wrong("servers", above_0, 0.0),
        () if setting.cores == 0 => wrong("cores", above_0, 0.0),
        () if setting.gaps.is_zero() => wrong("gaps between requests", above_0, 0.0),
        () if setting.epoch == Time::ZERO => wrong("epoch", above_0, 0.0),
        () if stop.accuracy.is_nan() || stop.accuracy <= 0.0 => {
            wrong("accuracy", above_0, stop.accuracy)
        }
        () if !(stop.confidence > 0.0 && stop.confidence < 1.0) => {
            wrong("confidence", "a number between 0 and 1", stop.confidence)
        }
        () if epochs > longest => wrong("epochs", "at most 106 days", epochs as f64),
        () => Ok(()),
    }
}

impl<'a> World<'a> {
    fn new(setting: &'a Capping, stop: &Stop, seed: u64) -> World<'a> {
        let server = |n| Server::new(setting.cores, seed, n, &setting.gaps);
        let mut used = vec![0; setting.cores + 1];
        used[0] = setting.servers;
        World {
            setting,
            servers: (0..setting.servers).map(server).collect(),
            used,
            paces: vec![Pace::FULL; setting.cores + 1],
            now: 0,
            epochs: 0,
            finished: 0,
            budget_most_w: 0.0,
            over_cap: 0,
            statistics: Statistics::new(stop, setting.budget.is_some()),
        }
    }

    /// Plays all servers to the next epoch, and shares out power then.
    fn play_epoch(&mut self, counts: bool) {
        let span = (self.now, self.now + self.setting.epoch.0);
        if counts {
            let quantile = &mut self.statistics.response_p95;
            let mut tally = Responses { sum: 0, count: 0, quantile };
            play_all(&mut self.servers, self.setting, &self.paces, span, &mut tally);
            let (sum, count) = (tally.sum, tally.count);
            self.finished += count;
            self.statistics.response.push_many(sum as f64 * 1e-12, count);
            self.statistics.response_p95.end_interval();
        } else {
            let mut tally = Ignored(0);
            play_all(&mut self.servers, self.setting, &self.paces, span, &mut tally);
            self.finished += tally.0;
        }
        self.now = span.1;
        self.epochs += 1;
        self.share_out(counts);
    }

    fn share_out(&mut self, counts: bool) {
        let (setting, cores) = (self.setting, self.setting.cores);
        self.used.fill(0);
        for server in &self.servers {
            self.used[server.busy_cores(self.now)] += 1;
        }
        let Some(budget) = setting.budget else { return };
        let share = |busy: usize| busy as f64 / cores as f64;
        let used: f64 = (0..=cores).map(|busy| share(busy) * self.used[busy] as f64).sum();
        let rate = budget.rate_w(setting.servers, used);
        let (mut capped, mut shared) = (0.0, 0.0);
        // By the number of busy cores, not by server: servers with as many get the same, and there
        // are few numbers.
        for (busy, &servers) in self.used.iter().enumerate() {
            let allowed = rate * share(busy) + setting.idle_w;
            let drawn = setting.dynamic_w * share(busy) + setting.idle_w;
            capped += (drawn - allowed).max(0.0) * servers as f64;
            shared += allowed * servers as f64;
            self.paces[busy] = budget.pace(budget.speed(allowed));
        }
        let each = 1.0 / setting.servers as f64;
        self.budget_most_w = self.budget_most_w.max(shared * each);
        if counts {
            self.statistics.cap.push(capped * each);
            self.statistics.cap_p95.push(capped * each);
            let power = setting.idle_w + setting.dynamic_w * used * each;
            self.over_cap += u64::from(power > budget.cap_w);
        }
    }

    fn watch(&self, control: &RunControl) -> Result<(), CappingError> {
        control.report(self.finished)?;
        let waiting = self.servers.iter().map(Server::waiting).sum();
        let servers = self.servers.len();
        // The mean over servers: one may have a long queue by chance, all of them only if more
        // comes than is served.
        if waiting / servers > MOST_WAITING {
            let seconds = Time(self.now).as_s();
            return Err(CappingError::Overload { waiting, servers, seconds });
        }
        Ok(())
    }

    fn close(mut self, stop: &Stop) -> Result<Outcome, CappingError> {
        for server in &mut self.servers {
            server.finish(self.now);
        }
        let books = self.books()?;
        let statistics = &self.statistics;
        let arrived = self.servers.iter().map(|server| server.arrived).sum();
        let counted = (self.epochs - stop.warm_up).max(1);
        let energy = books.energy_where(|_| true).as_j();
        Ok(Outcome {
            response_s: statistics.response.estimate(),
            response_p95_s: statistics.response_p95.estimate(),
            cap_w: statistics.cap.estimate(),
            cap_p95_w: statistics.cap_p95.estimate(),
            converged: statistics.are_done(),
            epochs: self.epochs,
            budget_most_w: self.budget_most_w,
            over_cap: self.over_cap as f64 / counted as f64,
            arrived,
            events: arrived + self.finished + self.epochs,
            power_w: energy / Time(self.now).as_s() / self.servers.len() as f64,
            books,
        })
    }

    /// Rows are summed up from requests, meters from the times at which cores had none.
    fn books(&self) -> Result<Closed, Imbalance> {
        let core = Power::from_w(self.setting.dynamic_w / self.setting.cores as f64);
        let duration = Time(self.now);
        let all = duration.0 * self.setting.cores as u64;
        let always = Power::from_w(self.setting.idle_w) * duration;
        let mut ledger = Ledger::new();
        for (n, server) in self.servers.iter().enumerate() {
            // More idle time than there is would be a mistake; it shows as an imbalance.
            let metered = core * Time(all.saturating_sub(server.idle));
            let meter = Row { time: duration, energy: always + metered };
            let id = ledger.component(format!("server{n}"), meter);
            let row = |time, energy| Row { time, energy };
            let idle = Cause { mode: Mode::Idle, reason: "always" };
            ledger.post(id, State("on"), idle, row(duration, always));
            let requests = Cause { mode: Mode::User, reason: "requests" };
            let energy: Energy = core * Time(server.busy);
            ledger.post(id, State("on"), requests, row(Time::ZERO, energy));
        }
        ledger.close(duration)
    }
}

fn play_all(
    servers: &mut [Server],
    setting: &Capping,
    paces: &[Pace],
    span: (u64, u64),
    tally: &mut impl Tally,
) {
    for server in servers {
        // At the begin of the epoch, when power was shared out by the same count.
        let pace = paces[server.busy_cores(span.0)];
        server.play(span, pace, [&setting.gaps, &setting.sizes], tally);
    }
}
