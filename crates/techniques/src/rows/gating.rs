//! When a core, or part of one, sleeps; and how fast it runs instead.

use halfwink_policy::gating::{
    AdaptiveIdle, AlwaysOn, Estimate, Expectation, Fupg, FupgParameters, GatingPolicy, IdleGate,
    IdleMenu, IdleMenuParameters, MapgCounter, MapgParameters, Oracle, Switching,
    SwitchingParameters, Tap, WakeFor,
};
use halfwink_units::Time;

use super::availability::{bound, kernel, silicon, today, usual};
use crate::context::GatingContext;
use crate::{Change, Choice, Delays, Gating, Make, Parameter, Plan, Slot, Technique};

/// What most of these are: gating of the machine as it is, run once.
pub(super) const GATING: Gating = Gating {
    slots: &[Slot::Stalls, Slot::Idle],
    retention: true,
    change: Change::None,
    needs_os_cores: false,
    plan: Plan::Once,
    delays: |_| Delays::Anywhere,
    build: |_, _| Box::new(AlwaysOn),
    offload: None,
    delegation: None,
    segregation: None,
    idle: None,
};

const ON_A_CHIP: Technique = Technique {
    name: "",
    available: silicon("cores with power switches that wake within nanoseconds"),
    family: "gating",
    worlds: &["chip"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Gating(GATING),
    unread: &[],
    module: None,
};

/// Techniques that work within a request: the chip plays them, and a server of today what it costs
/// under them.
pub(super) const ON_BOTH: &[&str] = &["chip", "node"];

/// Costs of gating, and what policies are told of the memory. `gating.leakage_reduction` and
/// `gating.loses` are no part: unused cores are gated under every technique.
const UNREAD_WITHOUT_GATING: &[&str] = &[
    "gating.entry_cycles",
    "gating.wake_up_ns",
    "gating.control_cycles",
    "gating.refill_cycles",
    "gating.wake_up_energy_pj",
    "gating.retention_overhead",
    "tokens",
    "mapg",
    "fupg",
];

/// Trials of 20 us each, every millisecond.
const SWITCHING: SwitchingParameters = SwitchingParameters { window: Time::ns(20_000), round: 50 };

const EXPECTATION: Parameter = Parameter::words("expectation", &["memory", "memory-and-delta"])
    .about("what an actual latency is compared with when the guess is corrected", "assumption");

const IDLE_MENU: &[Parameter] = &[
    Parameter::number("alike_us", "us", 20.0, (1e-3, 1e6))
        .or_else("the shortest idle time that is worth gating")
        .about("spread up to which idle times are alike; Linux: 20 us", "assumption: in ratio"),
    Parameter::number("tick_us", "us", 4000.0, (1e-3, 1e9))
        .or_else("200 times the shortest idle time that is worth gating")
        .about(
            "until a core whose clock is stopped is predicted again",
            "Linux: 4 ms, beside 20 us for what is alike",
        ),
    Parameter::number("latency_limit_us", "us", 2e9, (0.0, 2e9)).about(
        "longest wake-up that is allowed; a core that takes longer is never gated",
        "Linux, pm_qos.h: PM_QOS_CPU_LATENCY_DEFAULT_VALUE",
    ),
];

fn idle_menu(choice: &Choice, core: &GatingContext) -> GatingPolicy {
    let linux = IdleMenuParameters::linux(&core.costs);
    let given = |name, otherwise| choice.given(name).map_or(otherwise, |us| ns(1e3 * us));
    let parameters = IdleMenuParameters {
        tick: given("tick_us", linux.tick),
        latency_limit: given("latency_limit_us", linux.latency_limit),
        alike: given("alike_us", linux.alike),
    };
    Box::new(IdleMenu::new(core.costs, parameters))
}

fn mapg(choice: &Choice, core: &GatingContext) -> MapgCounter {
    let expectation = match choice.word("expectation") {
        "memory-and-delta" => Expectation::MemoryAndDelta,
        _ => Expectation::Memory,
    };
    let [t_llc, t_mem] = core.memory;
    MapgCounter::new(core.costs, MapgParameters { t_llc, t_mem, expectation })
}

fn ns(ns: f64) -> Time {
    Time::from_ns(ns)
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "always-on",
        available: today("boot with idle=poll, or run cpupower idle-set -D 0"),
        worlds: &["chip", "toy"],
        title: "never gated: the baseline",
        unread: UNREAD_WITHOUT_GATING,
        make: Make::Gating(Gating { retention: false, delays: |_| Delays::Never, ..GATING }),
        ..ON_A_CHIP
    },
    Technique {
        name: "clock-gate",
        available: today("C1 alone: cpupower idle-set -D, 1 us above C1's exit latency"),
        title: "stops the clock of a core that waits, gates nothing: a baseline apart",
        make: Make::Gating(Gating { retention: false, change: Change::GatedClock, ..GATING }),
        ..ON_A_CHIP
    },
    Technique {
        name: "idle-gate",
        available: today("disable every other idle state with cpupower idle-set"),
        worlds: &["chip", "toy"],
        title: "gates while the OS has halted the core, as a deep C-state does",
        make: Make::Gating(Gating {
            slots: &[Slot::Idle],
            delays: |_| Delays::AfterHalts,
            build: |_, _| Box::new(IdleGate::new()),
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "idle-adaptive",
        available: kernel("a cpuidle governor of its own"),
        worlds: &["chip", "toy"],
        title: "as idle-gate, but not for idle times expected to be too short",
        source: "Mogul 2007, Sec 5.6",
        make: Make::Gating(Gating {
            slots: &[Slot::Idle],
            delays: |_| Delays::AfterSomeHalts,
            build: |_, core| Box::new(AdaptiveIdle::new(core.costs)),
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "idle-menu",
        available: usual("the menu governor, which Linux runs unless told otherwise"),
        worlds: &["chip", "toy"],
        title: "stops the clock or gates, by how long Linux' menu governor predicts idle times",
        source: "Linux, cpuidle/governors/menu.c",
        parameters: IDLE_MENU,
        make: Make::Gating(Gating {
            slots: &[Slot::Idle],
            delays: |_| Delays::AfterSomeHalts,
            build: idle_menu,
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "mapg-counter",
        worlds: ON_BOTH,
        available: silicon("power switches that wake in nanoseconds, and a predictor of stalls"),
        title: "gates long memory stalls, guesses their end from past ones",
        source: "Strong 2013, Sec 2.3.3",
        parameters: &[EXPECTATION],
        make: Make::Gating(Gating {
            slots: &[Slot::Stalls],
            build: |choice, core| Box::new(mapg(choice, core)),
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "tap",
        worlds: ON_BOTH,
        available: silicon(
            "power switches that wake in nanoseconds, and tokens in caches and memory",
        ),
        title: "gates for as long as tokens from caches and memory promise",
        source: "Strong 2013, Sec 2.3.4",
        parameters: &[
            Parameter::words("wake", &["first", "last"])
                .about("the outstanding response that the core is awake for", "Strong 2013, ch. 5"),
            Parameter::words("estimate", &["scheduled", "counted"]).about(
                "when memory says how long it takes: once it has given the command that reads, or \
                 once it has accepted the request, by a counter of the bank",
                "assumption; counted: Strong 2013, Sec 2.3.4",
            ),
        ],
        make: Make::Gating(Gating {
            slots: &[Slot::Stalls],
            delays: |choice| match (choice.word("wake"), choice.word("estimate")) {
                ("first", "scheduled") => Delays::AfterHalts,
                _ => Delays::Anywhere,
            },
            build: tap,
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "tap-or-mapg",
        worlds: ON_BOTH,
        available: silicon("the hardware of tap and of mapg-counter"),
        title: "tap or mapg-counter, whichever gains more on this workload",
        source: "Strong 2013, ch. 5",
        parameters: &[EXPECTATION],
        make: Make::Gating(Gating {
            slots: &[Slot::Stalls],
            build: |choice, core| {
                let tap = Tap::new(core.costs, core.token_entries);
                Box::new(Switching::new(core.costs, SWITCHING, tap, mapg(choice, core)))
            },
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "fupg",
        available: silicon("power switches for execution units alone"),
        title: "gates each kind of execution unit after an idle time, harm bounded",
        source: "Strong 2013, Sec 2.4",
        parameters: &[
            Parameter::number("idle_ns", "ns", 5.0, (0.0, 1e6))
                .about("idle time before a unit is gated", "Strong 2013, Sec 2.4"),
            Parameter::number("window_ns", "ns", 10_000.0, (1.0, 1e9))
                .about("span over which the harm is bounded", "Strong 2013, Sec 2.4"),
            Parameter::number("budget", "", 0.02, (0.0, 1.0)).about(
                "share of a window that operations may wait for units",
                "Strong 2013, Sec 2.4",
            ),
        ],
        make: Make::Gating(Gating {
            retention: false,
            change: Change::GatedUnits,
            build: |choice, _| {
                let window_ns = choice.number("window_ns");
                let parameters = FupgParameters {
                    idle: ns(choice.number("idle_ns")),
                    window: ns(window_ns),
                    budget: ns(window_ns * choice.number("budget")),
                };
                Box::new(Fupg::new(parameters))
            },
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "dvfs-oracle",
        worlds: ON_BOTH,
        available: bound("every frequency is tried on the whole run before one is chosen"),
        family: "dvfs",
        title: "the frequency and voltage with the least product of energy and delay",
        source: "Strong 2013, Sec 2.4",
        make: Make::Gating(Gating {
            slots: &[Slot::Speed],
            retention: false,
            plan: Plan::LeastEnergyDelay,
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "dvfs-mean",
        worlds: ON_BOTH,
        available: today("measure once at full speed, then cpupower frequency-set"),
        family: "dvfs",
        title: "the least frequency that is predicted to cost at most 5 %",
        source: "Strong 2013, Sec 2.4; Dhiman and Rosing 2007",
        parameters: &[Parameter::number("max_slowdown", "", 0.05, (0.0, 1.0))
            .about("share that the work may take longer", "Strong 2013, Sec 2.4")],
        make: Make::Gating(Gating {
            slots: &[Slot::Speed],
            retention: false,
            plan: Plan::BoundedSlowdown,
            ..GATING
        }),
        unread: &[],
        module: None,
    },
    Technique {
        name: "oracle",
        available: bound("the end of every stall is known when it begins"),
        title: "knows every stall's end: the most that gating can save",
        source: "Strong 2013, Sec 2.4",
        make: Make::Gating(Gating {
            delays: |_| Delays::Never,
            build: |_, core| Box::new(Oracle::new(core.costs)),
            ..GATING
        }),
        ..ON_A_CHIP
    },
];

fn tap(choice: &Choice, core: &GatingContext) -> GatingPolicy {
    let estimate = match choice.word("estimate") {
        "counted" => Estimate::Counted,
        _ => Estimate::Scheduled,
    };
    let tap = Tap::new(core.costs, core.token_entries).hearing(estimate);
    match choice.word("wake") {
        "last" => Box::new(tap.waking_for(WakeFor::LastResponse)),
        _ => Box::new(tap),
    }
}
