//! The same world, one event at a time, as a check of `server.rs`: a queue of events, finishes that
//! are planned anew, and power shared out server by server, as `BigHouse` does it.

use std::collections::VecDeque;

use halfwink_engine::confidence::{Estimate, Estimator, Goal, QuantileEstimator};
use halfwink_engine::Cdf;
use halfwink_engine::{stream, Class, EventQueue, RunControl, Stream};
use halfwink_units::Time;

use super::{run, Budget, Capping, Rule, Sampler, Stop};

const GOAL: Goal = Goal { relative: 0.05, confidence: 0.95 };

// This is the order of events of one time in `server.rs`, too:
// `simultaneous_events_equal_oracle_order` compares both.
const FINISH: Class = Class(0);
const ARRIVE: Class = Class(1);
const EPOCH: Class = Class(2);

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive { server: usize },
    Finish { server: usize, core: usize, plan: u64 },
    Epoch,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    arrival: u64,
    left: u64,
    since: u64,
    plan: u64,
}

struct Machine {
    gaps: Stream,
    sizes: Stream,
    cores: Vec<Option<Job>>,
    queue: VecDeque<Job>,
    /// Factor on the correct service time of a request.
    factor: f64,
}

impl Machine {
    fn new(setting: &Capping, seed: u64, n: usize) -> Machine {
        Machine {
            gaps: stream(seed, &format!("server{n}.arrivals")),
            sizes: stream(seed, &format!("server{n}.sizes")),
            cores: vec![None; setting.cores],
            queue: VecDeque::new(),
            factor: 1.0,
        }
    }

    fn use_share(&self) -> f64 {
        let busy = self.cores.iter().filter(|core| core.is_some()).count();
        busy as f64 / self.cores.len() as f64
    }
}

struct Slow<'a> {
    setting: &'a Capping,
    machines: Vec<Machine>,
    events: EventQueue<Event>,
    plans: u64,
    sum: u128,
    count: u64,
    response: Estimator,
    quantile: QuantileEstimator,
    cap: Estimator,
    energy_j: f64,
}

impl Slow<'_> {
    fn plan(&mut self, now: u64, server: usize, core: usize) {
        self.plans += 1;
        let factor = self.machines[server].factor;
        let span = match self.setting.budget {
            Some(Budget { rule: Rule::Published, .. }) => 1.0 / factor,
            _ => factor,
        };
        let job = self.machines[server].cores[core].as_mut().expect("it works");
        job.plan = self.plans;
        job.since = now;
        let at = Time(now + (job.left as f64 * span + 0.5) as u64);
        self.events.push(at, FINISH, Event::Finish { server, core, plan: self.plans });
    }

    fn begin(&mut self, now: u64, server: usize) {
        let machine = &mut self.machines[server];
        let Some(core) = machine.cores.iter().position(Option::is_none) else { return };
        let Some(job) = machine.queue.pop_front() else { return };
        machine.cores[core] = Some(job);
        self.plan(now, server, core);
    }

    fn on(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrive { server } => {
                let machine = &mut self.machines[server];
                let left = self.setting.sizes.draw(&mut machine.sizes);
                machine.queue.push_back(Job { arrival: now, left, since: now, plan: 0 });
                let next = now + self.setting.gaps.draw(&mut machine.gaps);
                self.events.push(Time(next), ARRIVE, event);
                self.begin(now, server);
            }
            Event::Finish { server, core, plan } => {
                // The queue cannot drop events: a finish that was planned at an earlier pace is
                // passed over.
                if let Some(job) = self.machines[server].cores[core].filter(|job| job.plan == plan)
                {
                    self.machines[server].cores[core] = None;
                    self.sum += u128::from(now - job.arrival);
                    self.count += 1;
                    self.quantile.record((now - job.arrival) as f64 * 1e-12);
                    self.begin(now, server);
                }
            }
            Event::Epoch => self.epoch(now),
        }
    }

    fn epoch(&mut self, now: u64) {
        self.response.push_many(self.sum as f64 * 1e-12, self.count);
        (self.sum, self.count) = (0, 0);
        self.quantile.end_interval();
        self.events.push(Time(now) + self.setting.epoch, EPOCH, Event::Epoch);
        let Some(budget) = self.setting.budget else { return };
        let n = self.machines.len() as f64;
        let total: f64 = self.machines.iter().map(Machine::use_share).sum();
        let fungible = budget.cap_w * n - budget.floor_w * n;
        let rate = if total == 0.0 { 1.0 } else { fungible / total };
        let mut beyond = 0.0;
        for server in 0..self.machines.len() {
            let share = self.machines[server].use_share();
            let allowed = rate * share + self.setting.idle_w;
            let drawn = self.setting.dynamic_w * share + self.setting.idle_w;
            beyond += (drawn - allowed).max(0.0);
            let cpu = allowed - (budget.rated_w - budget.scaled_w);
            let speed =
                if cpu < 0.0 { 0.5 } else { (cpu / budget.scaled_w).cbrt().clamp(0.5, 1.0) };
            let old = self.machines[server].factor;
            self.machines[server].factor = (1.0 - budget.bound) + budget.bound / speed;
            for core in 0..self.setting.cores {
                if let Some(job) = self.machines[server].cores[core].as_mut() {
                    // The factor of what ran until now, also for what ran at it for no time.
                    let done = ((now - job.since) as f64 * (1.0 / old) + 0.5) as u64;
                    job.left = job.left.saturating_sub(done);
                    self.plan(now, server, core);
                }
            }
        }
        self.cap.push(beyond / n);
    }
}

fn slow(setting: &Capping, seed: u64, epochs: u64) -> (Estimate, Estimate, Estimate, f64) {
    let mut world = Slow {
        setting,
        machines: (0..setting.servers).map(|n| Machine::new(setting, seed, n)).collect(),
        events: EventQueue::new(),
        plans: 0,
        sum: 0,
        count: 0,
        response: Estimator::new(GOAL),
        quantile: QuantileEstimator::new(0.95, GOAL),
        cap: Estimator::new(GOAL),
        energy_j: 0.0,
    };
    for server in 0..setting.servers {
        let first = setting.gaps.draw(&mut world.machines[server].gaps);
        world.events.push(Time(first), ARRIVE, Event::Arrive { server });
    }
    world.events.push(setting.epoch, EPOCH, Event::Epoch);
    let end = setting.epoch.0 * epochs;
    let mut last = 0;
    while world.events.next_time().is_some_and(|at| at.0 <= end) {
        let (at, event) = world.events.pop().expect("there is one");
        let used: f64 = world.machines.iter().map(Machine::use_share).sum();
        let power = setting.idle_w * setting.servers as f64 + setting.dynamic_w * used;
        world.energy_j += power * Time(at.0 - last).as_s();
        last = at.0;
        world.on(at.0, event);
    }
    let power = world.energy_j / Time(end).as_s() / setting.servers as f64;
    (world.response.estimate(), world.quantile.estimate(), world.cap.estimate(), power)
}

fn compare(setting: &Capping, seed: u64) {
    let stop = Stop { warm_up: 0, epochs: Some(200), ..Stop::default() };
    let fast = run(setting, &stop, seed, &RunControl::new()).expect("it runs");
    let (response, quantile, cap, power) = slow(setting, seed, 200);
    assert_eq!(fast.response_s, response);
    assert_eq!(fast.response_p95_s, quantile);
    if setting.budget.is_some() {
        assert_eq!(fast.cap_w.samples, cap.samples);
        assert!((fast.cap_w.mean - cap.mean).abs() < 1e-9);
    }
    assert!((fast.power_w - power).abs() < 1e-6, "{} {power}", fast.power_w);
}

const GAPS: &str = "0 0\n50 0.2\n200 0.5\n400 0.8\n3000 0.99\n";
const SIZES: &str = "0 0\n0 0.05\n30 0.3\n100 0.6\n400 0.9\n2500 0.999\n";

#[test]
fn every_response_is_that_of_a_run_by_events() {
    let [gaps, sizes] = [GAPS, SIZES].map(|text| Cdf::parse(text).unwrap());
    for rule in [Rule::Published, Rule::Slower] {
        for seed in 0..4 {
            compare(&Capping::bighouse(&gaps, &sizes, 17, rule), seed);
        }
    }
}

#[test]
fn responses_equal_oracle_for_other_cores_budgets_epochs() {
    let [gaps, sizes] = [GAPS, SIZES].map(|text| Cdf::parse(text).unwrap());
    let base = Capping::bighouse(&gaps, &sizes, 5, Rule::Slower);
    for cores in [1, 2, 3, 8] {
        // Loads of 0.55 to 0.9 at full speed, budgets from scarce to more than enough.
        let unit = 1e-3 * (0.4 + 0.05 * cores as f64) / cores as f64;
        for (cap_w, epoch_ms) in [(80.0, 70), (95.0, 1000), (160.0, 333)] {
            let budget = Budget { cap_w, ..Budget::bighouse(Rule::Slower) };
            let setting = Capping {
                cores,
                gaps: Sampler::empirical(&gaps, unit),
                sizes: Sampler::empirical(&sizes, 1e-3 * 0.3),
                epoch: Time::ns(epoch_ms * 1_000_000),
                budget: Some(budget),
                ..base.clone()
            };
            compare(&setting, cap_w as u64);
            compare(&Capping { budget: None, ..setting }, 1);
        }
    }
}

#[test]
fn simultaneous_events_equal_oracle_order() {
    // Every arrival, finish and epoch falls on a whole quarter of a second.
    let quarter = |n: u64| Sampler::constant(Time::ns(n * 250_000_000));
    for (gap, size, cores) in [(2, 3, 2), (1, 3, 3), (1, 4, 4), (4, 4, 1), (3, 5, 2)] {
        let cdf = Cdf::parse(GAPS).unwrap();
        let base = Capping::bighouse(&cdf, &cdf, 3, Rule::Slower);
        let setting = Capping { cores, gaps: quarter(gap), sizes: quarter(size), ..base };
        compare(&Capping { budget: None, ..setting.clone() }, 1);
    }
}
