//! What a request of a service costs a core.

use halfwink_engine::{Law, Sampler};
use halfwink_units::{Energy, Power, Time};
use serde::{Deserialize, Serialize};

use halfwink_techniques::node::machine::{us, within, SpecError};

/// Visits of one request: a request of milliseconds makes hundreds of system calls.
const MOST_VISITS: f64 = 10_000.0;

/// A profile as it is written (`profiles/*/*.toml`). Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// Version of the format: 1.
    pub schema: u32,
    /// Service that it is of.
    pub workload: String,
    /// Machine file of the core that it was made on; `any` if it does not come from a recording.
    pub core: String,
    /// Command and inputs that made it.
    pub made_by: String,
    /// Requests that it rests on; 0 if it was stated.
    #[serde(default)]
    pub requests: u64,
    /// Law of the time that a core is busy with a request whose caches are warm, in microseconds.
    pub service_us: Law,
    /// Time of a request in which no core works for it (devices, the client's part of a
    /// protocol), in microseconds: its latency has it, no core has.
    #[serde(default)]
    pub apart_us: f64,
    /// Share of that time in user code; none if it is not known.
    pub user_share: Option<f64>,
    /// Time that lost caches add to a request.
    #[serde(default)]
    pub cold: Vec<Cold>,
    /// Watts; none if the machine's are to be used.
    pub watts: Option<Watts>,
    /// Costs of a request under techniques that work within it.
    #[serde(default)]
    pub variants: Vec<Variant>,
}

/// Costs of a request under a technique of the chip, as shares of what it costs without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Technique, or several joined, as the chip played them in one run: `tap+way-partition`.
    pub technique: String,
    /// Time that a core is busy with a request.
    pub time: f64,
    /// Power of the core while it is busy.
    pub power: f64,
    /// Energy of the accesses to what cores share.
    pub shared: f64,
    /// Visits of a request to cores of the kernel, if kernel code has moved to cores of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

/// Kernel code of a request that runs on cores of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// Visits of a request, in the mean.
    pub visits: f64,
    /// Time that a core of the kernel is busy with a visit, its half of both moves included, in
    /// microseconds.
    pub visit_us: f64,
    /// Power of that core meanwhile, as a share of a busy core's without the technique.
    pub power: f64,
}

/// Time that one depth of sleep adds to the next request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cold {
    /// Contents that are lost.
    pub loses: Vec<String>,
    /// Time added to a request, in microseconds.
    pub extra_us: f64,
    /// Rest of it after the lines that requests use were loaded, in microseconds; none if it is
    /// not known.
    pub preheated_us: Option<f64>,
    /// Time that loading them takes, in microseconds.
    pub load_us: Option<f64>,
}

/// Effect of preheating on lost caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preheated {
    /// Time that loading takes.
    pub load: Time,
    /// Time that a request still takes longer.
    pub left: Time,
}

/// Power and energy of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watts {
    /// Core and private caches while busy, in watts.
    pub busy_w: f64,
    /// The same core at two instructions a cycle, in watts, as the model that `busy_w` comes from
    /// has it: the machine's `active_w` is scaled by their ratio. Without it `busy_w` holds as it
    /// is.
    pub full_w: Option<f64>,
    /// Accesses of a request to what cores share (third level, memory), in microjoules.
    pub shared_uj: f64,
}

/// A profile, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Profile {
    spec: ProfileSpec,
    pub(crate) service: Sampler,
    /// Factors of the times, the power and the accesses that were drawn or stated.
    pub(crate) variant: Variant,
}

impl Profile {
    /// Checks a profile.
    ///
    /// # Errors
    /// The first value that is not possible.
    pub fn new(spec: ProfileSpec) -> Result<Profile, SpecError> {
        within("schema", f64::from(spec.schema), 1.0, 1.0)?;
        let service = Sampler::new(&spec.service_us).map_err(|e| SpecError::at("service_us", e))?;
        // A law of zeros, or of a tail without a mean, has no load that means anything.
        within("service_us (its mean)", service.mean(), 1e-3, 1e9)?;
        within("apart_us", spec.apart_us, 0.0, 1e9)?;
        if let Some(share) = spec.user_share {
            within("user_share", share, 0.0, 1.0)?;
        }
        for (n, cold) in spec.cold.iter().enumerate() {
            let at = |key: &str| format!("cold.{n}.{key}");
            within(&at("extra_us"), cold.extra_us, 0.0, 1e9)?;
            within(&at("preheated_us"), cold.preheated_us.unwrap_or(0.0), 0.0, cold.extra_us)?;
            within(&at("load_us"), cold.load_us.unwrap_or(0.0), 0.0, 1e9)?;
        }
        if let Some(watts) = spec.watts {
            within("watts.busy_w", watts.busy_w, 1e-6, 1e4)?;
            within("watts.full_w", watts.full_w.unwrap_or(1.0), 1e-6, 1e4)?;
            within("watts.shared_uj", watts.shared_uj, 0.0, 1e9)?;
        }
        for (n, variant) in spec.variants.iter().enumerate() {
            let Variant { technique, time, power, shared, moved } = variant;
            let at = |key: &str| format!("variants.{n}.{key}");
            if technique.is_empty() || spec.variants[..n].iter().any(|v| v.technique == *technique)
            {
                let message = format!("`{technique}`, expected a name, and each once");
                return Err(SpecError::at(at("technique"), message));
            }
            within(&at("time"), *time, 0.01, 100.0)?;
            within(&at("power"), *power, 0.01, 100.0)?;
            within(&at("shared"), *shared, 0.0, 100.0)?;
            if let Some(Moved { visits, visit_us, power }) = moved {
                within(&at("moved.visits"), *visits, 0.0, MOST_VISITS)?;
                within(&at("moved.visit_us"), *visit_us, 0.0, 1e6)?;
                within(&at("moved.power"), *power, 0.01, 100.0)?;
            }
        }
        let technique = String::new();
        let variant = Variant { technique, time: 1.0, power: 1.0, shared: 1.0, moved: None };
        Ok(Profile { spec, service, variant })
    }

    /// The profile of the same service under a technique that works within a request. None if the
    /// profile has no such variant.
    #[must_use]
    pub fn under(&self, technique: &str) -> Option<Profile> {
        let variant = self.spec.variants.iter().find(|v| v.technique == technique)?.clone();
        Some(Profile { variant, ..self.clone() })
    }

    /// The profile as it is written.
    #[must_use]
    pub fn spec(&self) -> &ProfileSpec {
        &self.spec
    }

    /// Mean time that a core is busy with a request, in seconds.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        self.service.mean() * self.variant.time * 1e-6
    }

    /// Mean time that cores of the kernel are busy with a request, in seconds.
    #[must_use]
    pub fn moved_s(&self) -> f64 {
        self.variant.moved.map_or(0.0, |moved| moved.visits * moved.visit_us * 1e-6)
    }

    /// Length of a visit beside the mean time of a core with a request, if kernel code has moved.
    pub(crate) fn visit_share(&self) -> Option<f64> {
        self.variant.moved.map(|moved| moved.visit_us * 1e-6 / self.mean_s())
    }

    /// Share of the time of a core with requests that is the user's; all of it if that is not
    /// known. Kernel code that has moved is not part of that time.
    pub(crate) fn user_share(&self) -> f64 {
        let share = self.spec.user_share.unwrap_or(1.0);
        match self.variant.moved {
            Some(_) => (share / self.variant.time).min(1.0),
            None => share,
        }
    }

    /// Time that a state which loses this adds to the next request: of the least that the profile
    /// knows which covers it. None if it knows nothing so deep.
    #[must_use]
    pub fn extra(&self, loses: &[String]) -> Option<Time> {
        if loses.is_empty() {
            return Some(Time::ZERO);
        }
        self.cold(loses).map(|cold| us(cold.extra_us))
    }

    /// Returns the effect of preheating after a state that loses this. None if the profile does not
    /// know it.
    #[must_use]
    pub fn preheated(&self, loses: &[String]) -> Option<Preheated> {
        if loses.is_empty() {
            return Some(Preheated { load: Time::ZERO, left: Time::ZERO });
        }
        let cold = self.cold(loses)?;
        Some(Preheated { load: us(cold.load_us?), left: us(cold.preheated_us?) })
    }

    /// The least that covers what a state loses.
    fn cold(&self, loses: &[String]) -> Option<&Cold> {
        let covers = |cold: &&Cold| loses.iter().all(|lost| cold.loses.contains(lost));
        let all = self.spec.cold.iter().filter(covers);
        all.min_by(|a, b| a.extra_us.total_cmp(&b.extra_us))
    }

    /// Power of a core that serves, on a machine whose cores take `active` at full activity.
    pub(crate) fn busy(&self, active: Power) -> Power {
        Power::from_w(self.plain_w(active) * self.variant.power)
    }

    /// Power of a core of the kernel with a visit.
    pub(crate) fn visited(&self, active: Power) -> Power {
        let share = self.variant.moved.map_or(1.0, |moved| moved.power);
        Power::from_w(self.plain_w(active) * share)
    }

    fn plain_w(&self, active: Power) -> f64 {
        match self.spec.watts {
            None => active.as_w(),
            Some(Watts { busy_w, full_w: None, .. }) => busy_w,
            Some(Watts { busy_w, full_w: Some(full_w), .. }) => active.as_w() * busy_w / full_w,
        }
    }

    pub(crate) fn shared(&self) -> Energy {
        let shared = |watts: Watts| watts.shared_uj * self.variant.shared;
        self.spec.watts.map_or(Energy(0), |watts| Energy::from_pj(shared(watts) * 1e6))
    }
}
