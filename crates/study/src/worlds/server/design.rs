//! The design study: power against load, number and speed of small cores (Niccolini 2012, Sec 3.3,
//! Fig 3.5 to 3.7).

use halfwink_policy::steering::Side;
use halfwink_server::{Arrivals, Options, Run};
use halfwink_techniques::server::{Model, Service, Set, Spec, Times};
use halfwink_techniques::Choice;

use super::{big_share, run_all, run_table, run_values, Cell, RunView, ServerInfo, SEED};
use crate::error::StudyError;
use crate::table::{integer, real, text, Table};

/// Loads of Fig 3.5, in per cent of what both machines carry.
const LOADS: [f64; 20] = [
    2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0, 75.0,
    80.0, 85.0, 90.0, 95.0,
];
/// Workloads that Fig 3.5 plots.
const PLOTTED: [&str; 2] = ["count", "compress"];
/// The workload of Fig 3.6 and 3.7 (assumption: not said).
const WORKLOAD: &str = "count";

/// The thesis' scheduler, at a threshold of its own if there is one.
fn published(threshold: Option<u32>) -> Result<Choice, StudyError> {
    let own = threshold.map(|n| format!(":threshold={n}")).unwrap_or_default();
    Ok(Choice::parse("server", &format!("hybrid{own}"))?)
}

/// A point of the core studies.
#[derive(Clone, Copy, Debug)]
struct Design {
    /// Speed of the big machine.
    big_speed: f64,
    /// Small over big workers.
    ratio: u32,
    /// Speed of the small machine.
    speed: f64,
    /// Neither time nor power asleep.
    ideal: bool,
    /// The small machine's idle power grows with its workers and speed, too.
    idle_grows: bool,
}

impl ServerInfo {
    fn published_cell(
        &self,
        model: Model,
        technique: Choice,
        service: Service,
        per_s: f64,
    ) -> Result<Cell, StudyError> {
        let options = Options::requests(self.study()?.requests, SEED);
        let arrivals = Arrivals::Poisson { rate: per_s };
        Ok(Cell { model, service, arrivals, technique, options })
    }

    /// Power against load for each wake-up time and sleep power, beside the worst case (Fig 3.5).
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn power(&self) -> Result<Table, StudyError> {
        let study = self.study()?;
        let (mut keys, mut cells) = (Vec::new(), Vec::new());
        for workload in PLOTTED {
            let service = self.service(workload)?;
            for &ms in &study.transitions_ms {
                for &share in &study.sleep_shares {
                    let model = self.with(|spec| {
                        (spec.big.wake_ms, spec.big.down_ms) = (ms, ms);
                        spec.big.sleep_share = share;
                    })?;
                    for load in LOADS {
                        keys.push((workload, ms, share, load));
                        let per_s = load / 100.0 * service.whole_capacity();
                        let technique = published(None)?;
                        cells.push(self.published_cell(
                            model.clone(),
                            technique,
                            service.clone(),
                            per_s,
                        )?);
                    }
                }
            }
        }
        let runs = run_all(&cells)?;
        let before = [
            text("workload"),
            real("transition_ms"),
            real("sleep_share"),
            real("load_pct"),
            real("worst_w"),
            real("below_worst_pct"),
        ];
        let mut table = run_table(&before);
        for ((workload, ms, share, load), run) in keys.iter().zip(&runs) {
            let worst_w = self.model.worst_w(load / 100.0);
            let mut row = vec![
                (*workload).into(),
                (*ms).into(),
                (*share).into(),
                (*load).into(),
                worst_w.into(),
                (100.0 * (1.0 - run.power_w() / worst_w)).into(),
            ];
            row.extend(run_values(&RunView::of(run, self.model.set())));
            table.push(row);
        }
        Ok(table)
    }

    /// Delay and energy per request against the number of small cores (Fig 3.6), over the
    /// utilisation of Google's servers.
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn ratios(&self) -> Result<Table, StudyError> {
        let study = self.study()?;
        let mut designs = Vec::new();
        for &big_speed in &study.big_speeds {
            for (ideal, idle_grows) in [(false, false), (true, false), (false, true)] {
                for &ratio in &study.ratios {
                    designs.push(Design { big_speed, ratio, speed: 1.0, ideal, idle_grows });
                }
            }
        }
        self.designs(&designs)
    }

    /// Tabulates the same against the speed of small cores (Fig 3.7).
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn speeds(&self) -> Result<Table, StudyError> {
        let study = self.study()?;
        let mut designs = Vec::new();
        for &big_speed in &study.big_speeds {
            for (ideal, idle_grows) in [(false, false), (true, false)] {
                for &ratio in &study.speed_ratios {
                    for &speed in &study.speeds {
                        designs.push(Design { big_speed, ratio, speed, ideal, idle_grows });
                    }
                }
            }
        }
        self.designs(&designs)
    }

    /// Each design at each utilisation; means weighted by time and requests.
    fn designs(&self, designs: &[Design]) -> Result<Table, StudyError> {
        let shares = &self.study()?.utilisation;
        let middle = |n: usize| (n as f64 + 0.5) / shares.len() as f64;
        let (mut rates, mut cells) = (Vec::new(), Vec::new());
        for design in designs {
            let one =
                self.with(|spec| design.apply(&Design { ratio: 1, speed: 1.0, ..*design }, spec))?;
            // At the capacity of the unchanged small machine: designs are compared at the same
            // requests, not at the same share of what each carries.
            let full = service_of(&one)?.whole_capacity();
            let model = self.with(|spec| design.apply(design, spec))?;
            for n in 0..shares.len() {
                rates.push(middle(n) * full);
                cells.push(self.published_cell(
                    model.clone(),
                    // As many requests as there are small threads: a fixed threshold would leave
                    // added cores without work.
                    published(Some(model.spec().small.workers))?,
                    service_of(&model)?,
                    middle(n) * full,
                )?);
            }
        }
        let runs = run_all(&cells)?;
        let mut table = Table::new(&[
            real("big_speed"),
            real("gap"),
            integer("ideal"),
            integer("idle_grows"),
            integer("ratio"),
            real("speed"),
            real("mean_ms"),
            real("j_per_request"),
            real("power_w"),
            real("small_share"),
        ]);
        for (n, design) in designs.iter().enumerate() {
            let span = n * shares.len()..(n + 1) * shares.len();
            let played = (&runs[span.clone()], self.model.set());
            let mean = Means::over(shares, &rates[span.clone()], played);
            let service = &cells[span.start].service;
            let gap = service.mean_s(Side::Small, u32::MAX) * design.speed
                / service.mean_s(Side::Big, u32::MAX);
            table.push(vec![
                design.big_speed.into(),
                gap.into(),
                u64::from(design.ideal).into(),
                u64::from(design.idle_grows).into(),
                u64::from(design.ratio).into(),
                design.speed.into(),
                mean.mean_ms.into(),
                mean.j_per_request.into(),
                mean.power_w.into(),
                mean.small_share.into(),
            ]);
        }
        Ok(table)
    }
}

fn service_of(model: &Model) -> Result<Service, StudyError> {
    let unknown = || StudyError::Usage(format!("the design study needs a workload `{WORKLOAD}`"));
    model.service(WORKLOAD).ok_or_else(unknown)
}

impl Design {
    fn apply(&self, to: &Design, spec: &mut Spec) {
        // As many threads for each small core as the big machine has for each of its own, so that a
        // ratio of 1 is the description's machine.
        let workers = spec.big.workers * to.ratio;
        let scale = f64::from(to.ratio) * to.speed;
        let range_w = spec.small.max_w - spec.small.idle_w;
        if self.idle_grows {
            spec.small.idle_w *= scale;
        }
        // Linear in number and speed (Sec 3.3).
        spec.small.max_w = spec.small.idle_w + range_w * scale;
        spec.small.workers = workers;
        spec.small.speed *= to.speed;
        spec.big.speed *= to.big_speed;
        if self.ideal {
            (spec.big.wake_ms, spec.big.down_ms, spec.big.sleep_share) = (0.0, 0.0, 0.0);
        }
        // All small threads as slow as when all are busy: with fewer, delay would fall again where
        // there are more cores than requests (assumption).
        for workload in spec.workloads.values_mut() {
            if let Times::Linear { beta_ms, .. } = &mut workload.small {
                let full = beta_ms.last().copied();
                beta_ms.iter_mut().for_each(|beta| *beta = full.unwrap_or(*beta));
            }
        }
    }
}

/// Means over a utilisation.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    mean_ms: f64,
    j_per_request: f64,
    power_w: f64,
    small_share: f64,
}

impl Means {
    fn over(shares: &[f64], rates: &[f64], (runs, set): (&[Run], &Set)) -> Means {
        let (mut sum, mut requests) = (Means::default(), 0.0);
        for ((share, rate), run) in shares.iter().zip(rates).zip(runs) {
            let weight = share * rate;
            requests += weight;
            let mean_ms = run.tally.latency.mean().map_or(0.0, |t| t.as_ns() * 1e-6);
            sum.mean_ms += weight * mean_ms;
            sum.small_share += weight * (1.0 - big_share(&run.tally, set));
            // Power by time, delay by requests: an idle hour draws power, and nobody waits in it.
            sum.power_w += share * run.power_w();
        }
        Means {
            mean_ms: sum.mean_ms / requests,
            j_per_request: sum.power_w / requests,
            power_w: sum.power_w,
            small_share: sum.small_share / requests,
        }
    }
}
