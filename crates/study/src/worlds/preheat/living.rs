//! Tails, deadlines and energy (Gottschlag 2016, Sec 5.1, 6.3, 6.6).

use std::collections::BTreeMap;

use halfwink_engine::draw::exponential;
use halfwink_engine::{stream, RunControl};
use halfwink_policy::preheat::LineSet;
use halfwink_preheat::{simulate, Estimated, Flush, ListOrder, Loaded, Mode, Traffic};
use halfwink_techniques::Choice;
use halfwink_units::Time;

use super::experiment::{Bench, WARM_UP};
use super::{failed, policy, PreheatInfo, SEED};
use crate::error::StudyError;
use crate::table::{real, text, Table};

/// Requests behind a percentile.
const TAIL: u64 = 2500;
/// Requests behind a mean.
const REQUESTS: u64 = 200;
/// Requests of a point of the deadline.
const POINT: u64 = 24;

impl PreheatInfo {
    /// Every so many requests one meets cold caches (Table 6.3).
    pub(super) fn tail(&self) -> Table {
        let heads = [real("every"), text("statistic"), real("cold_pct"), real("preheated_pct")];
        let mut table = Table::new(&heads);
        let bench = self.bench();
        let play = |every: u64, mode: Mode| -> Vec<Time> {
            let mut prototype = bench.prototype.clone();
            let mut responses = Vec::new();
            for n in 0..WARM_UP + TAIL {
                let is_rare = every > 0 && n % every == every - 1;
                let mode = if is_rare { mode } else { Mode::Warm };
                let served = prototype.request(self.web(), mode, Flush::CACHES);
                if n >= WARM_UP {
                    responses.push(served.response);
                }
            }
            // Buckets of a histogram are wider than what is looked for.
            responses.sort_unstable();
            responses
        };
        let warm = play(0, Mode::Warm);
        for every in [5, 10, 20, 50] {
            let [cold, preheated] = [Mode::Cold, Mode::Preheated].map(|mode| play(every, mode));
            let over =
                |of: &dyn Fn(&[Time]) -> f64, at: &[Time]| 100.0 * (of(at) / of(&warm) - 1.0);
            let mut push = |statistic: &str, of: &dyn Fn(&[Time]) -> f64| {
                let (cold, preheated) = (over(of, &cold), over(of, &preheated));
                let every = every as f64;
                table.push(vec![every.into(), statistic.into(), cold.into(), preheated.into()]);
            };
            push("mean", &|all| all.iter().map(|t| t.as_ns()).sum::<f64>() / all.len() as f64);
            for (name, q) in
                [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p97", 0.97), ("p99", 0.99)]
            {
                push(name, &|all| all[(q * (all.len() - 1) as f64) as usize].as_ns());
            }
        }
        table
    }

    /// A network card that is asked once in a while: how late packets are heard (Fig 5.1).
    pub(super) fn polled(&self) -> Table {
        let mut table = Table::new(&[text("fact"), real("value")]);
        let period = self.spec.network.polled_us;
        let mut random = stream(SEED, "polled");
        let (mut at, mut largest, mut sum, mut heard) = (0.0f64, 0.0f64, 0.0, Vec::new());
        const PACKETS: u32 = 10_000;
        for _ in 0..PACKETS {
            at += 1e3 * exponential(&mut random);
            let seen = (at / period).ceil() * period;
            largest = largest.max(seen - at);
            sum += seen - at;
            heard.push(seen);
        }
        // Packets that one look finds are no step; rounding leaves some a trace apart.
        let gaps = heard.windows(2).map(|two| two[1] - two[0]).filter(|gap| *gap > 1e-6);
        let step = gaps.fold(f64::INFINITY, f64::min);
        table.push(vec!["largest_delay_us".into(), largest.into()]);
        table.push(vec!["mean_delay_us".into(), (sum / f64::from(PACKETS)).into()]);
        table.push(vec!["step_us".into(), step.into()]);
        table
    }

    /// One set of each service, or one for all (Sec 6.3.3).
    pub(super) fn shared(&self) -> Table {
        let heads = [
            text("sets"),
            text("workload"),
            real("lines"),
            real("response_us"),
            real("reduction_pct"),
        ];
        let mut table = Table::new(&heads);
        let mut bench = self.bench();
        let apart = bench.estimates.clone();
        let fold = |how: fn(&LineSet, &LineSet) -> LineSet| -> LineSet {
            let sets = apart.iter().map(|e| e.set.clone());
            sets.reduce(|a, b| how(&a, &b)).unwrap_or_default()
        };
        let [common, union] = [fold(LineSet::intersect), fold(LineSet::union)];
        let workloads = self.loads();
        let mean = |bench: &Bench, workload: &str, mode| {
            let load = self.load(workload).unwrap_or_default();
            PreheatInfo::measure(bench, &load, mode, REQUESTS).mean_us()
        };
        let base: Vec<[f64; 2]> = workloads
            .iter()
            .map(|w| [Mode::Warm, Mode::Cold].map(|mode| mean(&bench, w, mode)))
            .collect();
        for (name, set) in [("apart", None), ("intersection", Some(common)), ("union", Some(union))]
        {
            for (service, own) in apart.iter().enumerate() {
                let set = set.clone().unwrap_or_else(|| own.set.clone());
                let estimated = Estimated { raw: set.clone(), set };
                bench.prototype.prepare(service, &estimated);
                bench.estimates[service] = estimated;
            }
            for (workload, [warm, cold]) in workloads.iter().zip(&base) {
                let preheated = mean(&bench, workload, Mode::Preheated);
                let lines = bench.estimates.iter().map(|e| e.set.len() as f64).sum::<f64>();
                table.push(vec![
                    name.into(),
                    workload.as_str().into(),
                    (lines / bench.estimates.len() as f64).into(),
                    preheated.into(),
                    (100.0 * (cold - preheated) / (cold - warm)).into(),
                ]);
            }
        }
        table
    }

    /// Loads that are late: what becomes of requests (Sec 6.6).
    pub(super) fn deadline(&self) -> Table {
        let heads = [
            text("workload"),
            text("late"),
            real("lead_us"),
            real("wake_us"),
            real("bandwidth"),
            real("load_us"),
            real("overshoot_us"),
            real("response_us"),
            real("cold_us"),
            real("net_gain_us"),
        ];
        let mut table = Table::new(&heads);
        let bench = self.bench();
        let network = &self.spec.network;
        let (lead, wake) = (network.lead_us, self.spec.sleep.wake_us);
        let mut points: Vec<[f64; 3]> = Vec::new();
        let leads = [20.0, 35.0, 50.0, lead, 100.0, 150.0, 200.0, 250.0, 500.0];
        points.extend(leads.map(|lead| [lead, wake, 1.0]));
        points.extend([5.0, 10.0, 30.0, 40.0, 133.0].map(|wake| [lead, wake, 1.0]));
        points.extend([2.0, 4.0, 8.0, 16.0].map(|bandwidth| [lead, wake, bandwidth]));
        let policies = ["wait", "skip", "concurrent"];
        let all: BTreeMap<&str, Vec<Loaded>> =
            policies.map(|late| (late, PreheatInfo::all_loads(&bench, late))).into();
        for workload in self.loads() {
            let load = self.load(&workload).unwrap_or_default();
            let cold = PreheatInfo::measure(&bench, &load, Mode::Cold, POINT).mean_us();
            for late in policies {
                let loads = &all[late];
                for &[lead, wake, bandwidth] in &points {
                    let loads: Vec<Loaded> =
                        loads.iter().map(|load| load.clone().faster(bandwidth)).collect();
                    // A machine that wakes later than the packet comes has no time to load at all.
                    let budget = Time::from_ns(1e3 * (lead - wake).max(0.0));
                    let found = PreheatInfo::late(&bench, &load, &loads, late, budget);
                    // Who is not awake when the packet comes wakes for it in any case.
                    table.push(vec![
                        workload.as_str().into(),
                        late.into(),
                        lead.into(),
                        wake.into(),
                        bandwidth.into(),
                        found.load_us.into(),
                        found.overshoot_us.into(),
                        found.response_us.into(),
                        cold.into(),
                        (cold - found.response_us).into(),
                    ]);
                }
            }
        }
        table
    }

    /// Loads all sets, in the order that a late policy wants.
    fn all_loads(bench: &Bench, late: &str) -> Vec<Loaded> {
        let mut prototype = bench.prototype.clone();
        let estimates = bench.estimates.iter().enumerate();
        let load = |(service, estimated)| {
            let (mut way, mut order) = (prototype.way(), Vec::new());
            if late == "concurrent" {
                way.order = ListOrder::FirstUse;
                order = prototype.first_use(service);
            }
            prototype.load_by_use(estimated, way, &order)
        };
        estimates.map(load).collect()
    }

    fn late(
        bench: &Bench,
        load: &[(usize, f64)],
        loads: &[Loaded],
        late: &str,
        budget: Time,
    ) -> Late {
        let mut prototype = bench.prototype.clone();
        // The same services as those that are measured cold.
        for _ in 0..WARM_UP {
            prototype.choose(load);
        }
        let mut sums = [0.0; 3];
        for _ in 0..POINT {
            let service = prototype.choose(load);
            let loaded = &loads[service];
            let node = &mut prototype.node;
            node.flush(Flush::CACHES);
            node.enter(service);
            let overshoot = loaded.end.saturating_sub(budget);
            let held = if late == "wait" { overshoot } else { Time::ZERO };
            node.take(loaded, budget + held);
            if late == "concurrent" {
                node.expect(loaded, budget);
            }
            let served = node.serve(service, Flush::CACHES);
            let us = |time: Time| time.as_ns() * 1e-3;
            sums[0] += us(loaded.end);
            sums[1] += us(overshoot);
            sums[2] += us(held + served.response);
        }
        let [load_us, overshoot_us, response_us] = sums.map(|sum| sum / POINT as f64);
        Late { load_us, overshoot_us, response_us }
    }

    /// Tabulates what techniques draw at rates of requests, beside a machine that never sleeps.
    pub(super) fn energy(&self) -> Result<Table, StudyError> {
        let heads = [
            text("technique"),
            real("rate_per_s"),
            real("energy_mj"),
            real("power_w"),
            real("latency_us"),
            real("p99_us"),
            real("load_core_us"),
        ];
        let mut table = Table::new(&heads);
        for rate in [1.0, 10.0, 100.0, 1000.0] {
            for name in ["awake", "no-preheat", "wake-only", "preheat", "sham-request"] {
                let mut spec = self.spec.clone();
                if name == "awake" {
                    // Longer than any gap of these runs: the machine never sleeps, and all else is
                    // the same.
                    spec.sleep.after_us = 1e7;
                }
                let technique = if name == "awake" { "no-preheat" } else { name };
                let choice = Choice::parse("preheat", technique)?;
                let (made, hears) = policy(&choice)?;
                let traffic = Traffic {
                    services: vec![(self.web(), 1.0)],
                    rate,
                    requests: 100,
                    lead: Time::from_ns(1e3 * spec.network.lead_us),
                    lost: 0.0,
                    false_alarms: 0.0,
                    restart_after: 0,
                    seed: SEED,
                };
                let run = simulate(&spec, &traffic, made, hears, &RunControl::new())
                    .map_err(|error| failed(&error))?;
                let joules = run.books.energy_where(|_| true).as_j();
                let us = |time: Option<Time>| time.map(|t| t.as_ns() * 1e-3);
                let n = traffic.requests as f64;
                table.push(vec![
                    name.into(),
                    rate.into(),
                    (1e3 * joules / n).into(),
                    (joules / run.books.duration.as_s()).into(),
                    us(run.tally.latency.mean()).into(),
                    us(run.tally.latency.quantile(0.99)).into(),
                    (run.tally.load_core_time.as_ns() * 1e-3 / n).into(),
                ]);
            }
        }
        Ok(table)
    }
}

struct Late {
    load_us: f64,
    overshoot_us: f64,
    response_us: f64,
}
