//! Policies of a hybrid server by name: one line each.

use halfwink_policy::steering::{
    Always, AlwaysOn, Count, DreamWeaver, DreamWeaverParameters, Hal, HalParameters, KnightShift,
    KnightShiftParameters, OctopusMan, OctopusManParameters, Server, Shortest, ShortestParameters,
    Side, SleepTimer, SleepTimerParameters, SteeringPolicy, Threshold, ThresholdParameters,
};
use halfwink_server::{Counted, Model, Service};
use halfwink_units::Time;

use crate::error::StudyError;

/// How a hybrid server is run.
#[derive(Clone, Copy, Debug)]
pub struct ServerPolicy {
    /// Name on the command line.
    pub name: &'static str,
    /// In one line.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    pub(super) make: fn(&Model, &Service) -> SteeringPolicy,
}

/// All of them; the first is what others are compared with.
pub static SERVER_POLICIES: &[ServerPolicy] = &[
    ServerPolicy {
        name: "always-on",
        title: "both machines always on, the small one up to the threshold",
        source: "Niccolini 2012, Sec 3.3",
        make: |model, _| Box::new(AlwaysOn::new(model.spec().policy.threshold)),
    },
    ServerPolicy {
        name: "hybrid",
        title: "the big machine serves from a threshold on, and sleeps otherwise",
        source: "Niccolini 2012, Sec 3.1.2",
        make: |model, _| Box::new(Threshold::new(threshold(model))),
    },
    ServerPolicy {
        name: "hybrid-all",
        title: "the same, counting the requests of both machines",
        source: "Niccolini 2012, Sec 3.1.2",
        make: |model, _| {
            let parameters = ThresholdParameters { count: Count::All, ..threshold(model) };
            Box::new(Threshold::new(parameters))
        },
    },
    ServerPolicy {
        name: "hybrid-early",
        title: "the same, woken at half the threshold, before it is needed",
        source: "-",
        make: |model, _| {
            let half = model.spec().policy.threshold / 2;
            let parameters = ThresholdParameters { wake_at: half, ..threshold(model) };
            Box::new(Threshold::new(parameters))
        },
    },
    ServerPolicy {
        name: "always-big",
        title: "the big machine alone, always on: a server of today",
        source: "-",
        make: |_, _| Box::new(Always::new(Side::Big)),
    },
    ServerPolicy {
        name: "always-small",
        title: "the small machine alone",
        source: "-",
        make: |_, _| Box::new(Always::new(Side::Small)),
    },
    ServerPolicy {
        name: "power-nap",
        title: "the big machine alone, asleep whenever it has nothing",
        source: "Meisner 2009",
        make: |_, _| Box::new(SleepTimer::new(SleepTimerParameters::power_nap())),
    },
    ServerPolicy {
        name: "sleep-timer",
        title: "the big machine alone, asleep after a while",
        source: "Gandhi 2010",
        make: |model, _| {
            let linger = ms(model.spec().others.timer_ms);
            Box::new(SleepTimer::new(SleepTimerParameters::fixed(linger)))
        },
    },
    ServerPolicy {
        name: "break-even",
        title: "the same, after as long as sleeping and waking costs",
        source: "Karlin 1994",
        make: |model, _| Box::new(SleepTimer::new(break_even(model))),
    },
    ServerPolicy {
        name: "dream-weaver",
        title: "the big machine alone, asleep with its work whenever a worker is idle",
        source: "Meisner 2012",
        make: |model, _| {
            let (workers, delay) = (model.spec().big.workers, ms(model.spec().others.delay_ms));
            Box::new(DreamWeaver::new(DreamWeaverParameters::published(workers, delay)))
        },
    },
    ServerPolicy {
        name: "octopus-man",
        title: "one machine or the other, by the tail of the response time",
        source: "Petrucci 2015",
        make: |model, _| {
            let o = &model.spec().others;
            let parameters = OctopusManParameters {
                period: ms(o.period_ms),
                ..OctopusManParameters::published(ms(o.target_ms))
            };
            Box::new(OctopusMan::new(parameters))
        },
    },
    ServerPolicy {
        name: "knight-shift",
        title: "one machine or the other, by utilisation",
        source: "Wong 2012",
        make: |model, service| Box::new(KnightShift::new(knight(model, service))),
    },
    ServerPolicy {
        name: "hal",
        title: "the small machine up to a rate that follows its queue, the excess to the big one",
        source: "Huang 2024",
        make: |model, service| {
            let rate = service.capacity(Side::Small).clamp(1.0, 1e9) as u32;
            Box::new(Hal::new(HalParameters::published(rate, model.spec().small.workers)))
        },
    },
    ServerPolicy {
        name: "shortest",
        title: "where the request will be done first, as far as is known",
        source: "Selen 2016",
        make: |model, service| Box::new(Shortest::new(shortest(model, service))),
    },
];

/// A policy by name.
///
/// # Errors
/// If there is none of that name.
pub(crate) fn server_policy(name: &str) -> Result<&'static ServerPolicy, StudyError> {
    let known = || SERVER_POLICIES.iter();
    let unknown = || StudyError::unknown("policy", name, known().map(|p| p.name));
    known().find(|p| p.name == name).ok_or_else(unknown)
}

fn ms(ms: f64) -> Time {
    Time::from_ns(ms * 1e6)
}

fn threshold(model: &Model) -> ThresholdParameters {
    let p = &model.spec().policy;
    ThresholdParameters {
        threshold: p.threshold,
        count: match p.count {
            Counted::Small => Count::Small,
            Counted::All => Count::All,
        },
        wake_at: p.wake_at.unwrap_or(p.threshold),
        linger: ms(p.linger_ms),
    }
}

/// What a way down and up again draws beyond sleeping for as long.
fn break_even(model: &Model) -> SleepTimerParameters {
    let big = &model.spec().big;
    let sleep_w = big.sleep_share * big.idle_w;
    let transition_w = big.transition_share * big.idle_w;
    let transition_j = (transition_w - sleep_w) * 1e-3 * (big.wake_ms + big.down_ms);
    SleepTimerParameters::break_even(transition_j.max(0.0), big.idle_w, sleep_w)
}

fn knight(model: &Model, service: &Service) -> KnightShiftParameters {
    let spec = model.spec();
    let capability = service.capacity(Side::Small) / service.capacity(Side::Big);
    KnightShiftParameters {
        capability_permille: (1000.0 * capability).round().clamp(1.0, 1e6) as u32,
        period: ms(spec.others.period_ms),
        ..KnightShiftParameters::published(spec.small.workers, spec.big.workers)
    }
}

fn shortest(model: &Model, service: &Service) -> ShortestParameters {
    let server = |side: Side| {
        let workers = model.machine(side).workers;
        Server { workers, service: Time::from_ns(1e9 * service.mean_s(side, workers)) }
    };
    ShortestParameters {
        small: server(Side::Small),
        big: server(Side::Big),
        wake_latency: ms(model.spec().big.wake_ms),
        linger: ms(model.spec().policy.linger_ms),
    }
}
