//! Which of a server's machines serves a request, and which sleeps.

use halfwink_policy::steering::{
    Always, AlwaysOn, Count, DreamWeaver, DreamWeaverParameters, Hal, HalParameters, KnightShift,
    KnightShiftParameters, LevelCost, Member, OctopusMan, OctopusManParameters, Progressive,
    ProgressiveBackup, ProgressiveBackupParameters, ProgressiveParameters, Rest, Server, Shortest,
    ShortestParameters, Side, SleepTimer, SleepTimerParameters, Split, SplitParameters, Threshold,
    ThresholdParameters, LEVELS,
};
use halfwink_units::Time;

use super::availability::{kernel, silicon, today, usual};
use crate::server::{Machine, Model, Service, MOST};
use crate::{Choice, Make, Parameter, Steering, Technique};

const SERVER: Technique = Technique {
    name: "",
    available: silicon("a small and a big machine in one server; halfwink live steer pairs two"),
    family: "steering",
    worlds: &["server"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Steering(Steering::Alone(|_| Box::new(AlwaysOn::new(0)))),
    unread: &[],
    module: None,
};

/// Costs of sleep and wake-ups. A crashed machine is repaired, which takes a time of its own.
const UNREAD_WITHOUT_SLEEP: &[&str] = &[
    "small.sleep_share",
    "small.transition_share",
    "small.wake_ms",
    "small.down_ms",
    "small.cold_ms",
    "big.sleep_share",
    "big.transition_share",
    "big.wake_ms",
    "big.down_ms",
    "big.cold_ms",
];

const THRESHOLD: Parameter = Parameter::whole("threshold", 4, (0, 1_000_000_000)).about(
    "S_t: concurrent requests from which on the big machine serves",
    "Niccolini 2012, Sec 3.2.3: at the number of small threads nothing waits there",
);
const LINGER: Parameter = Parameter::number("linger_ms", "ms", 0.0, (0.0, 1e7))
    .about("how long the big machine stays on without requests", "assumption: not at all");
const WAKE_AT: Parameter = Parameter::whole("wake_at", 4, (0, 1_000_000_000))
    .or_else("the threshold")
    .about("the big machine is woken when more than so many count", "Niccolini 2012, Sec 3.1.2");
const PERIOD: Parameter = Parameter::number("period_ms", "ms", 1000.0, (1e-3, 1e7))
    .about("how often it looks", "assumption");

fn ms(ms: f64) -> Time {
    Time::from_ns(ms * 1e6)
}

fn threshold(choice: &Choice, count: Count) -> ThresholdParameters {
    let threshold = choice.whole("threshold") as u32;
    ThresholdParameters {
        threshold,
        count,
        wake_at: choice.given("wake_at").map_or(threshold, |n| n as u32),
        linger: ms(choice.number("linger_ms")),
    }
}

/// Returns the sleep timer whose timeout pays for a way to sleep and back: for what it draws beyond
/// sleeping for as long.
fn break_even(model: &Model) -> SleepTimerParameters {
    SleepTimerParameters::break_even(model.spec().big.idle_w, level_costs(&model.spec().big)[0])
}

/// Returns what each level of a machine costs. To a deeper one it goes through those before.
fn level_costs(machine: &Machine) -> Vec<LevelCost> {
    let transition_w = machine.transition_share * machine.idle_w;
    let mut all_down_ms = 0.0;
    let mut cost = |sleep_share: f64, wake_ms: f64, down_ms: f64| {
        all_down_ms += down_ms;
        let sleep_w = sleep_share * machine.idle_w;
        let transition_j = (transition_w - sleep_w) * 1e-3 * (wake_ms + all_down_ms);
        LevelCost { sleep_w, transition_j: transition_j.max(0.0) }
    };
    let mut costs = vec![cost(machine.sleep_share, machine.wake_ms, machine.down_ms)];
    let deeper = machine.levels.iter();
    costs.extend(deeper.map(|level| cost(level.sleep_share, level.wake_ms, level.down_ms)));
    costs
}

/// Returns a timer after which the machine goes to a level, through those before.
fn fixed_timer(choice: &Choice) -> SleepTimerParameters {
    let timer = ms(choice.number("timer_ms"));
    let mut parameters = SleepTimerParameters::fixed(timer);
    parameters.deeper[..choice.whole("level") as usize - 1].fill(timer);
    parameters
}

fn octopus(choice: &Choice) -> OctopusManParameters {
    OctopusManParameters {
        period: ms(choice.number("period_ms")),
        ..OctopusManParameters::published(ms(choice.number("target_ms")))
    }
}

fn knight(choice: &Choice, model: &Model, service: &Service) -> KnightShiftParameters {
    let spec = model.spec();
    let capability = service.capacity(Side::Small) / service.capacity(Side::Big);
    KnightShiftParameters {
        capability_permille: (1000.0 * capability).round().clamp(1.0, 1e6) as u32,
        period: ms(choice.number("period_ms")),
        ..KnightShiftParameters::published(spec.small.workers, spec.big.workers)
    }
}

fn shortest(choice: &Choice, model: &Model, service: &Service) -> ShortestParameters {
    let server = |side: Side| {
        let workers = model.machine(side).workers;
        Server { workers, service: Time::from_ns(1e9 * service.mean_s(side, workers)) }
    };
    ShortestParameters {
        small: server(Side::Small),
        big: server(Side::Big),
        wake_latency: ms(model.spec().big.wake_ms),
        linger: ms(choice.number("linger_ms")),
    }
}

fn progressive_backup(
    choice: &Choice,
    model: &Model,
    service: &Service,
) -> ProgressiveBackupParameters {
    let big = &model.spec().big;
    let wake_latency = ms(big.wake_ms);
    // Gandhi 2012: t_wait, which costs what a set-up costs.
    let (set_up_w, idle_w) = (big.transition_share * big.idle_w, big.idle_w);
    let linger = SleepTimerParameters::set_up_over_idle(wake_latency, set_up_w, idle_w).linger;
    ProgressiveBackupParameters {
        threshold: choice.whole("threshold") as u32,
        hold: choice.given("hold_ms").map_or(wake_latency, ms),
        down: choice.whole("down") as u32,
        linger: choice.given("linger_ms").map_or(linger, ms),
        wake_latency,
        small_gap: Time::from_ns(1e9 / service.capacity(Side::Small)),
    }
}

/// The machines of a set, the first `least_on` of which are always on.
fn set(choice: &Choice, model: &Model, least_on: u32) -> ProgressiveParameters {
    let given = choice.given("threshold").map(|holds| (holds as u32).max(1));
    let member = |side| Member { side, holds: given.unwrap_or(model.machine(side).workers) };
    let members = model.set().sides().map(member).collect();
    ProgressiveParameters {
        members,
        least_on,
        spare: 0,
        linger: Time::NEVER,
        rest: Rest::default(),
    }
}

fn progressive(choice: &Choice, model: &Model) -> ProgressiveParameters {
    // Gandhi 2012: t_wait, which costs what a set-up costs; of the machine for which it is longest.
    let wait = |side: Side| model.machine(side).wake_ms * model.machine(side).transition_share;
    let longest = model.set().sides().map(wait).fold(0.0, f64::max);
    ProgressiveParameters {
        spare: choice.whole("spare") as u32,
        linger: ms(choice.given("linger_ms").unwrap_or(longest)),
        rest: Rest {
            least_awake: ms(choice.number("least_awake_ms")),
            per_day: choice.given("sleeps_per_day").map(|n| n as u32),
        },
        ..set(choice, model, choice.whole("least_on") as u32)
    }
}

/// Shares requests among the first machines of a set in proportion to what each carries.
fn split(choice: &Choice, model: &Model, service: &Service) -> SplitParameters {
    let first = choice.given("first").map_or(usize::MAX, |n| n as usize);
    let all: Vec<(Side, f64)> =
        model.set().sides().map(|side| (side, service.capacity(side))).collect();
    let fastest = all.iter().map(|(_, capacity)| *capacity).fold(0.0, f64::max);
    let weight = |capacity: f64| (1e6 * capacity / fastest).round().clamp(1.0, 1e6) as u32;
    let share = |(place, &(side, capacity)): (usize, &(Side, f64))| {
        (side, if place < first { weight(capacity) } else { 0 })
    };
    SplitParameters { shares: all.iter().enumerate().map(share).collect() }
}

/// Parameter of techniques for which a set's machines hold requests.
const HOLDS: Parameter = THRESHOLD.or_else("as many as it has workers").about(
    "requests that a machine of the set holds",
    "Gandhi 2012: a packing factor; at the number of workers nothing waits there",
);

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "always-on",
        available: today("two machines behind a proxy that never sleep"),
        title: "all machines always on: the small one of a pair up to the threshold, the first \
                with room of a set",
        source: "Niccolini 2012, Sec 3.3",
        parameters: &[THRESHOLD.about(
            "S_t: concurrent requests from which on the big machine serves; of a set, requests \
             that each machine holds, or else its workers",
            "Niccolini 2012, Sec 3.2.3: at the number of small threads nothing waits there",
        )],
        make: Make::Steering(Steering::Either {
            pair: |choice| Box::new(AlwaysOn::new(choice.whole("threshold") as u32)),
            set: |choice, model, _| Box::new(Progressive::new(set(choice, model, u32::MAX))),
        }),
        unread: UNREAD_WITHOUT_SLEEP,
        ..SERVER
    },
    Technique {
        name: "hybrid",
        title: "the big machine serves from a threshold on, and sleeps otherwise",
        source: "Niccolini 2012, Sec 3.1.2",
        parameters: &[THRESHOLD, WAKE_AT, LINGER],
        make: Make::Steering(Steering::Alone(|choice| {
            Box::new(Threshold::new(threshold(choice, Count::Small)))
        })),
        ..SERVER
    },
    Technique {
        name: "hybrid-all",
        title: "the same, counting the requests of both machines",
        source: "Niccolini 2012, Sec 3.1.2",
        parameters: &[THRESHOLD, WAKE_AT, LINGER],
        make: Make::Steering(Steering::Alone(|choice| {
            Box::new(Threshold::new(threshold(choice, Count::All)))
        })),
        ..SERVER
    },
    Technique {
        name: "hybrid-early",
        title: "the same, woken at half the threshold, before it is needed",
        parameters: &[THRESHOLD, WAKE_AT.or_else("half the threshold"), LINGER],
        make: Make::Steering(Steering::Alone(|choice| {
            let published = threshold(choice, Count::Small);
            let wake_at = choice.given("wake_at").map_or(published.threshold / 2, |n| n as u32);
            Box::new(Threshold::new(ThresholdParameters { wake_at, ..published }))
        })),
        ..SERVER
    },
    Technique {
        name: "always-big",
        available: usual("one server of today"),
        title: "the big machine alone, always on: a server of today",
        make: Make::Steering(Steering::Alone(|_| Box::new(Always::new(Side::Big)))),
        ..SERVER
    },
    Technique {
        name: "always-small",
        available: today("one small server of today"),
        title: "the small machine alone",
        make: Make::Steering(Steering::Alone(|_| Box::new(Always::new(Side::Small)))),
        ..SERVER
    },
    Technique {
        name: "power-nap",
        available: silicon("a server that sleeps and wakes whole within milliseconds"),
        title: "the big machine alone, asleep whenever it has nothing",
        source: "Meisner 2009",
        make: Make::Steering(Steering::Alone(|_| {
            Box::new(SleepTimer::new(SleepTimerParameters::power_nap()))
        })),
        ..SERVER
    },
    Technique {
        name: "sleep-timer",
        available: kernel("suspend to memory, woken by the network card"),
        title: "the big machine alone, asleep after a while",
        source: "Gandhi 2010",
        parameters: &[
            Parameter::number("timer_ms", "ms", 50.0, (0.0, 1e7))
                .about("how long it waits", "assumption"),
            Parameter::whole("level", 1, (1, LEVELS as u64))
                .about("level of sleep to which it goes, or its deepest", "assumption"),
        ],
        make: Make::Steering(Steering::Alone(|choice| {
            Box::new(SleepTimer::new(fixed_timer(choice)))
        })),
        ..SERVER
    },
    Technique {
        name: "break-even",
        available: kernel("suspend to memory, woken by the network card"),
        title: "the same, after as long as sleeping and waking costs",
        source: "Karlin 1994",
        make: Make::Steering(Steering::Of(|_, model, _| {
            Box::new(SleepTimer::new(break_even(model)))
        })),
        ..SERVER
    },
    Technique {
        name: "ladder",
        available: kernel("suspend to memory, woken by the network card, and levels below it"),
        title: "the same, and deeper by a level after as long as that level costs more",
        source: "Irani 2003",
        make: Make::Steering(Steering::Of(|_, model, _| {
            let big = &model.spec().big;
            let parameters = SleepTimerParameters::ladder(big.idle_w, &level_costs(big));
            Box::new(SleepTimer::new(parameters))
        })),
        ..SERVER
    },
    Technique {
        name: "dream-weaver",
        available: silicon("a server that sleeps and wakes whole within milliseconds"),
        title: "the big machine alone, asleep with its work whenever a worker is idle",
        source: "Meisner 2012",
        parameters: &[Parameter::number("delay_ms", "ms", 20.0, (0.0, 1e7))
            .about("what a request may be delayed by", "assumption")],
        make: Make::Steering(Steering::Of(|choice, model, _| {
            let (workers, delay) = (model.spec().big.workers, ms(choice.number("delay_ms")));
            Box::new(DreamWeaver::new(DreamWeaverParameters::published(workers, delay)))
        })),
        ..SERVER
    },
    Technique {
        name: "octopus-man",
        title: "one machine or the other, by the tail of the response time",
        source: "Petrucci 2015",
        parameters: &[
            PERIOD,
            Parameter::number("target_ms", "ms", 100.0, (1e-3, 1e7))
                .about("99th percentile that it aims at", "assumption"),
        ],
        make: Make::Steering(Steering::Alone(|choice| Box::new(OctopusMan::new(octopus(choice))))),
        ..SERVER
    },
    Technique {
        name: "knight-shift",
        title: "one machine or the other, by utilisation",
        source: "Wong 2012",
        parameters: &[PERIOD],
        make: Make::Steering(Steering::Of(|choice, model, service| {
            Box::new(KnightShift::new(knight(choice, model, service)))
        })),
        ..SERVER
    },
    Technique {
        name: "hal",
        title: "the small machine up to a rate that follows its queue, the excess to the big one",
        source: "Huang 2024",
        make: Make::Steering(Steering::Of(|_, model, service| {
            let rate = service.capacity(Side::Small).clamp(1.0, 1e9) as u32;
            Box::new(Hal::new(HalParameters::published(rate, model.spec().small.workers)))
        })),
        ..SERVER
    },
    Technique {
        name: "shortest",
        available: silicon("a small and a big machine in one server, and a proxy that knows both"),
        title: "where the request will be done first, as far as is known",
        source: "Selen 2016",
        parameters: &[LINGER],
        make: Make::Steering(Steering::Of(|choice, model, service| {
            Box::new(Shortest::new(shortest(choice, model, service)))
        })),
        ..SERVER
    },
    Technique {
        name: "progressive-backup",
        title: "the big machine is called when the small one has or will have too much for a while",
        source: "Gandhi 2012",
        parameters: &[
            THRESHOLD.about(
                "requests that the small machine should have at most",
                "Gandhi 2012: a packing factor; its value is S_t of Niccolini 2012",
            ),
            Parameter::number("hold_ms", "ms", 0.0, (0.0, 1e7))
                .or_else("as long as the big machine wakes up")
                .about("how long it has had more when the big one is woken", "assumption"),
            Parameter::whole("down", 1, (0, 1_000_000_000)).about(
                "requests up to which the big machine has little to do",
                "assumption; Gandhi 2012 waits for none",
            ),
            LINGER
                .or_else("wake-up time x power while waking / idle power")
                .about("how long it has had little to do when it gets no more", "Gandhi 2012"),
        ],
        make: Make::Steering(Steering::Of(|choice, model, service| {
            Box::new(ProgressiveBackup::new(progressive_backup(choice, model, service)))
        })),
        ..SERVER
    },
    Technique {
        name: "split",
        available: today("weights of a load balancer; what has none is switched off by hand"),
        title: "a fixed share of the requests for each of the first machines of a set",
        parameters: &[Parameter::whole("first", MOST as u64, (1, MOST as u64))
            .or_else("all")
            .about("so many machines of the order share the requests; others sleep", "halfwink")],
        make: Make::Steering(Steering::Set(|choice, model, service| {
            Box::new(Split::new(&split(choice, model, service)))
        })),
        ..SERVER
    },
    Technique {
        name: "progressive",
        available: kernel("suspend to memory, woken by the network card"),
        title: "as many machines of an ordered set as the requests in the system need",
        source: "Gandhi 2012",
        parameters: &[
            HOLDS,
            Parameter::whole("least_on", 1, (0, MOST as u64))
                .about("the first so many machines never sleep", "assumption"),
            Parameter::whole("spare", 1, (0, 1_000_000_000)).about(
                "requests for which the others must have room when the last one is released",
                "assumption: a hysteresis of one request",
            ),
            LINGER
                .or_else("wake-up time x power while waking / idle power, of the slowest")
                .about("how long they must have had it", "Gandhi 2012"),
            Parameter::number("least_awake_ms", "ms", 0.0, (0.0, 1e9))
                .about("how long a machine stays on after it woke", "halfwink live steer's"),
            Parameter::whole("sleeps_per_day", 86_400, (1, 86_400))
                .or_else("any number")
                .about("budget of each machine's sleeps", "halfwink live steer's"),
        ],
        make: Make::Steering(Steering::Set(|choice, model, _| {
            Box::new(Progressive::new(progressive(choice, model)))
        })),
        ..SERVER
    },
];
