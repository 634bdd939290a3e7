//! A description, checked, and what follows from it without a simulation.

use halfwink_engine::{Points, Sampler};
use halfwink_policy::steering::{Side, LEVELS};
use halfwink_units::{Power, Time};

use super::set::Set;
use super::{Level, Machine, Spec, Study, Times, Workload};

/// A value of a description that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{element}: {message}")]
pub struct ModelError {
    /// Path of the value (`small.workers`).
    pub element: String,
    /// Message with the value found and the values allowed.
    pub message: String,
}

impl ModelError {
    pub(crate) fn at(element: impl Into<String>, message: impl Into<String>) -> ModelError {
        ModelError { element: element.into(), message: message.into() }
    }
}

/// A machine in whole picoseconds and microwatts.
#[derive(Clone, Copy, Debug)]
pub struct MachineModel {
    /// Requests in service at a time.
    pub workers: u32,
    /// On, without requests.
    pub idle: Power,
    /// More for each request in service (Niccolini 2012, Eq 3.2).
    pub thread: Power,
    /// Waking up, or going down.
    pub transition: Power,
    /// Levels of sleep, each reached from the one before. Places beyond the deepest repeat it.
    pub sleep: [LevelModel; LEVELS],
    /// Number of levels that the machine has.
    pub levels: u8,
}

/// A level of sleep in whole picoseconds and microwatts.
#[derive(Clone, Copy, Debug)]
pub struct LevelModel {
    /// Power of the machine while it sleeps there.
    pub power: Power,
    /// From asleep to on.
    pub wake: Time,
    /// From on, or from the level before, to asleep.
    pub down: Time,
    /// Added to the first request of each worker after it woke.
    pub cold: Time,
}

/// Law of a machine's service times.
#[derive(Clone, Debug)]
enum Serving {
    Linear { alpha_ps: f64, beta_ps: Vec<f64> },
    Profile(Points),
}

/// A workload, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Service {
    size: Sampler,
    gamma: f64,
    /// Laws of the kinds, in the order of the set.
    serving: Vec<Serving>,
    speed: Vec<f64>,
    workers: Vec<u32>,
    /// Kind of the machine at each place.
    kinds: Vec<u8>,
}

/// Model of a hybrid server, with a checked description.
#[derive(Clone, Debug)]
pub struct Model {
    spec: Spec,
    set: Set,
}

impl Model {
    /// Checks a description.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn new(spec: Spec) -> Result<Model, ModelError> {
        within("schema", f64::from(spec.schema), 1.0, 1.0)?;
        let set = Set::of(&spec)?;
        if let Some(found) = &spec.study {
            study(found)?;
        }
        let kinds: Vec<&Machine> = set.kinds().map(|kind| spec.kind(kind)).collect();
        spec.faults.check(&kinds)?;
        let [least, most] = spec.power.factor;
        within("power.factor", least, 0.0, 1.0)?;
        within("power.factor", most, 1.0, 100.0)?;
        if spec.workloads.is_empty() {
            return Err(ModelError::at("workloads", "expected one workload or more"));
        }
        for name in spec.study.iter().flat_map(|study| &study.workloads) {
            if !spec.workloads.contains_key(name) {
                return Err(ModelError::at("study.workloads", format!("no workload `{name}`")));
            }
        }
        let model = Model { spec, set };
        for (name, workload) in &model.spec.workloads {
            model.check(workload).map_err(|e| ModelError {
                element: format!("workloads.{name}.{}", e.element),
                ..e
            })?;
        }
        Ok(model)
    }

    /// Returns the description of the server.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the description of a machine.
    #[must_use]
    pub fn machine(&self, side: Side) -> &Machine {
        self.spec.kind(self.set.kind_of(side))
    }

    /// Returns the ordered set of machines.
    #[must_use]
    pub fn set(&self) -> &Set {
        &self.set
    }

    /// A workload by name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<Service> {
        // Checked before.
        self.spec.workloads.get(name).and_then(|workload| self.check(workload).ok())
    }

    /// A workload that is not in the description.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn check(&self, workload: &Workload) -> Result<Service, ModelError> {
        let size = Sampler::new(&workload.size).map_err(|e| ModelError::at("size", e))?;
        within("gamma", workload.gamma, 0.0, 8.0)?;
        // Both are checked, also of a kind that the set does not have.
        let (small, big) = (serving("small", &workload.small)?, serving("big", &workload.big)?);
        let of = |kind: &str| match self.spec.times_of(kind) {
            "small" => small.clone(),
            _ => big.clone(),
        };
        Ok(Service {
            size,
            gamma: workload.gamma,
            serving: self.set.kinds().map(of).collect(),
            speed: self.set.kinds().map(|kind| self.spec.kind(kind).speed).collect(),
            workers: self.set.kinds().map(|kind| self.spec.kind(kind).workers).collect(),
            kinds: self.set.kind_at_places().to_vec(),
        })
    }

    /// Power of all machines, always on, at a share of all their workers (the thesis' worst case,
    /// Fig 3.5), in watts.
    #[must_use]
    pub fn worst_w(&self, load: f64) -> f64 {
        let of = |m: &Machine| m.idle_w + (m.max_w - m.idle_w) * load;
        self.set.sides().map(|side| of(self.machine(side))).sum()
    }
}

impl Service {
    /// How long a request of this size is served, with so many in service there, itself included.
    #[must_use]
    #[inline]
    pub fn span(&self, side: Side, size: f64, load: u32) -> Time {
        Time(self.span_ps(self.kind(side), size, load).min(1e17) as u64)
    }

    #[inline]
    fn span_ps(&self, kind: usize, size: f64, load: u32) -> f64 {
        let at_speed = match &self.serving[kind] {
            Serving::Linear { alpha_ps, beta_ps } => {
                let beta = beta_ps[(load as usize).clamp(1, beta_ps.len()) - 1];
                let size = if self.gamma == 1.0 { size } else { size.powf(self.gamma) };
                alpha_ps + size * beta
            }
            Serving::Profile(points) => points.at(size),
        };
        at_speed / self.speed[kind]
    }

    #[inline]
    fn kind(&self, side: Side) -> usize {
        usize::from(self.kinds[side.index()])
    }

    /// Returns the same service, where each request says how long it takes: sizes are seconds on
    /// the last machine of the set (the big one of a pair), and longer on others by the ratio of
    /// their mean times with one request in service. Drawn sizes are `mean_s`.
    // assumption: a log was written by a machine like the last one.
    #[must_use]
    pub fn measured(&self, mean_s: f64) -> Service {
        let last = self.kinds.last().map_or(0, |&kind| usize::from(kind));
        let last_s = self.kind_mean_s(last, 1);
        // Times include the speed of each machine.
        let linear = |kind: usize| {
            let is_known = kind != last && last_s > 0.0;
            let ratio = if is_known { self.kind_mean_s(kind, 1) / last_s } else { 1.0 };
            let beta_ps = vec![1e12 * ratio * self.speed[kind]];
            Serving::Linear { alpha_ps: 0.0, beta_ps }
        };
        let serving = (0..self.serving.len()).map(linear).collect();
        Service { size: Sampler::fixed(mean_s), gamma: 1.0, serving, ..self.clone() }
    }

    /// Draws the size of a request.
    #[inline]
    pub fn draw(&self, random: &mut halfwink_engine::Stream) -> f64 {
        self.size.draw(random)
    }

    /// Mean size of a request, in the unit of its law.
    #[must_use]
    pub fn mean_size(&self) -> f64 {
        self.size.mean()
    }

    /// Mean time of service, in seconds, with so many in service there; exact for an exponent of 1
    /// and for profiles, else that of the mean of many draws.
    #[must_use]
    pub fn mean_s(&self, side: Side, load: u32) -> f64 {
        self.kind_mean_s(self.kind(side), load)
    }

    fn kind_mean_s(&self, kind: usize, load: u32) -> f64 {
        if let Serving::Profile(points) = &self.serving[kind] {
            return points.mean() * 1e-12 / self.speed[kind];
        }
        if self.gamma == 1.0 {
            return self.span_ps(kind, self.size.mean(), load) * 1e-12;
        }
        let mut random = halfwink_engine::stream(1, "mean");
        let draws = 200_000;
        let sum: f64 = (0..draws).map(|_| self.span_ps(kind, self.draw(&mut random), load)).sum();
        sum / f64::from(draws) * 1e-12
    }

    /// The highest rate that a machine carries, with all its workers busy, in requests per second.
    #[must_use]
    pub fn capacity(&self, side: Side) -> f64 {
        let workers = self.workers[self.kind(side)];
        f64::from(workers) / self.mean_s(side, workers)
    }

    /// The highest rate that all machines carry together, in requests per second.
    #[must_use]
    pub fn whole_capacity(&self) -> f64 {
        let kinds = 0..self.workers.len();
        let of = |kind| f64::from(self.workers[kind]) / self.kind_mean_s(kind, self.workers[kind]);
        let each: Vec<f64> = kinds.map(of).collect();
        self.kinds.iter().map(|&kind| each[usize::from(kind)]).sum()
    }
}

fn serving(element: &str, times: &Times) -> Result<Serving, ModelError> {
    match times {
        Times::Linear { alpha_ms, beta_ms } => {
            within(&format!("{element}.alpha_ms"), *alpha_ms, 0.0, 1e7)?;
            if beta_ms.is_empty() {
                let message = "expected a time with one request in service, or more";
                return Err(ModelError::at(format!("{element}.beta_ms"), message));
            }
            for beta in beta_ms {
                within(&format!("{element}.beta_ms"), *beta, 0.0, 1e7)?;
            }
            let beta_ps = beta_ms.iter().map(|ms| ms * 1e9).collect();
            Ok(Serving::Linear { alpha_ps: alpha_ms * 1e9, beta_ps })
        }
        Times::Profile { profile_ms } => {
            let ps: Vec<[f64; 2]> = profile_ms.iter().map(|[ms, p]| [ms * 1e9, *p]).collect();
            let points = Points::new(&ps);
            points
                .map(Serving::Profile)
                .map_err(|e| ModelError::at(format!("{element}.profile_ms"), e))
        }
    }
}

pub(super) fn machine(name: &str, m: &Machine) -> Result<MachineModel, ModelError> {
    let at = |key: &str| format!("{name}.{key}");
    within(&at("workers"), f64::from(m.workers), 1.0, 4096.0)?;
    within(&at("speed"), m.speed, 1e-6, 1e6)?;
    within(&at("idle_w"), m.idle_w, 0.0, 1e6)?;
    within(&at("max_w"), m.max_w, m.idle_w, 1e6)?;
    within(&at("transition_share"), m.transition_share, 0.0, 100.0)?;
    let first = Level {
        name: String::new(),
        sleep_share: m.sleep_share,
        wake_ms: m.wake_ms,
        down_ms: m.down_ms,
        cold_ms: m.cold_ms,
    };
    if m.levels.len() >= LEVELS {
        let found = m.levels.len();
        let message = format!("{found} tables, expected {} at most", LEVELS - 1);
        return Err(ModelError::at(at("levels"), message));
    }
    let mut sleep = [level(name, m.idle_w, &first, (1.0, 0.0))?; LEVELS];
    let mut above = &first;
    for (place, deeper) in m.levels.iter().enumerate() {
        let element = at(&format!("levels.{}", deeper.name));
        let bounds = (above.sleep_share, above.wake_ms);
        sleep[place + 1..].fill(level(&element, m.idle_w, deeper, bounds)?);
        above = deeper;
    }
    Ok(MachineModel {
        workers: m.workers,
        idle: Power::from_w(m.idle_w),
        thread: Power::from_w((m.max_w - m.idle_w) / f64::from(m.workers)),
        transition: Power::from_w(m.transition_share * m.idle_w),
        sleep,
        levels: m.levels.len() as u8 + 1,
    })
}

/// Checks a level, which draws no more and wakes no faster than the one above it.
fn level(
    element: &str,
    idle_w: f64,
    level: &Level,
    (most_share, least_wake_ms): (f64, f64),
) -> Result<LevelModel, ModelError> {
    let at = |key: &str| format!("{element}.{key}");
    within(&at("sleep_share"), level.sleep_share, 0.0, most_share)?;
    within(&at("wake_ms"), level.wake_ms, least_wake_ms, 1e7)?;
    within(&at("down_ms"), level.down_ms, 0.0, 1e7)?;
    within(&at("cold_ms"), level.cold_ms, 0.0, 1e7)?;
    let ms = |ms: f64| Time::from_ns(ms * 1e6);
    Ok(LevelModel {
        power: Power::from_w(level.sleep_share * idle_w),
        wake: ms(level.wake_ms),
        down: ms(level.down_ms),
        cold: ms(level.cold_ms),
    })
}

fn study(s: &Study) -> Result<(), ModelError> {
    if s.workloads.is_empty() {
        return Err(ModelError::at("study.workloads", "expected one or more"));
    }
    within("study.requests", s.requests as f64, 1000.0, 1e9)?;
    let all = |name: &str, values: &[f64], low: f64, high: f64| {
        if values.is_empty() {
            return Err(ModelError::at(format!("study.{name}"), "expected one or more"));
        }
        values.iter().try_for_each(|v| within(&format!("study.{name}"), *v, low, high))
    };
    let whole = |values: &[u32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    all("utilisation", &s.utilisation, 0.0, 1.0)?;
    all("big_speeds", &s.big_speeds, 1e-3, 1e3)?;
    all("ratios", &whole(&s.ratios), 1.0, 512.0)?;
    all("speed_ratios", &whole(&s.speed_ratios), 1.0, 512.0)?;
    all("speeds", &s.speeds, 1e-3, 1e3)?;
    all("thresholds", &whole(&s.thresholds), 0.0, 1e6)?;
    all("transitions_ms", &s.transitions_ms, 0.0, 1e6)?;
    all("sleep_shares", &s.sleep_shares, 0.0, 1.0)?;
    within("study.utilisation, summed up", s.utilisation.iter().sum(), 0.999, 1.001)
}

pub(super) fn within(element: &str, value: f64, low: f64, high: f64) -> Result<(), ModelError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let expected =
        if low.to_bits() == high.to_bits() { format!("{low}") } else { format!("{low} to {high}") };
    Err(ModelError::at(element, format!("{value}, expected {expected}")))
}
