//! Idle states of cores and packages of today, as techniques: what Linux does on such a machine,
//! and what research proposes in its place. States are the machine's (`[[idle_states]]`,
//! `[package]`).

use halfwink_policy::gating::{
    AlwaysOn, CpuIdle, CpuIdleParameters, DeepRest, GatingPolicy, HaltPoll, HaltPollParameters,
    IdleGate,
};
use halfwink_policy::scaling::{Governor, LadderCore, MenuCore, TeoCore};
use halfwink_units::Time;

use super::availability::{silicon, today};
use super::gating::GATING;
use crate::context::GatingContext;
use crate::{Change, Choice, Delays, Gating, Make, Modifier, Parameter, Slot, Technique};

const GOVERNOR: &[Parameter] = &[
    Parameter::number("tick_us", "us", 4000.0, (1e-3, 1e9))
        .about("until a core whose clock is stopped is predicted again", "Linux, 250 a second"),
    Parameter::number("latency_limit_us", "us", 2e9, (0.0, 2e9)).about(
        "longest exit latency that is allowed; deeper states are never entered",
        "Linux, pm_qos.h: PM_QOS_CPU_LATENCY_DEFAULT_VALUE",
    ),
];

/// One of Linux' governors over the idle states that the machine may use.
fn governor<G: Governor + 'static>(choice: &Choice, core: &GatingContext) -> GatingPolicy {
    let us = |name| Time::from_ns(1e3 * choice.number(name));
    // A machine without states lacks them, which is said before anything is built.
    let Some(states) = core.idle_states else { return Box::new(AlwaysOn) };
    Box::new(CpuIdle::<G>::new(CpuIdleParameters {
        states,
        tick: us("tick_us"),
        latency_limit: us("latency_limit_us"),
    }))
}

const HALT_POLL: &[Parameter] = &[
    Parameter::number("most_us", "us", 200.0, (0.0, 1e6))
        .about("longest time of polling before a halt", "Linux: guest_halt_poll_ns"),
    Parameter::number("grow_start_us", "us", 50.0, (0.0, 1e6))
        .about("first limit, and the least one above 0", "Linux: guest_halt_poll_grow_start"),
    Parameter::whole("grow", 2, (0, 1000)).about(
        "factor of the limit after a halt that polling would have covered",
        "Linux: guest_halt_poll_grow",
    ),
    Parameter::whole("shrink", 2, (0, 1000)).about(
        "divisor of the limit after a longer halt; 0: no polling after it",
        "Linux: guest_halt_poll_shrink",
    ),
];

/// Linux' haltpoll governor, over polling and C1.
fn halt_poll(choice: &Choice, core: &GatingContext) -> GatingPolicy {
    // A machine without states lacks them, which is said before anything is built.
    if core.idle_states.is_none() {
        return Box::new(AlwaysOn);
    }
    let us = |name| Time::from_ns(1e3 * choice.number(name));
    Box::new(HaltPoll::new(HaltPollParameters {
        most: us("most_us"),
        grow: choice.whole("grow") as u32,
        grow_start: us("grow_start_us"),
        shrink: choice.whole("shrink") as u32,
        ..HaltPollParameters::LINUX
    }))
}

/// Enters the deepest state that the machine may use at each halt.
fn deepest(_: &Choice, core: &GatingContext) -> GatingPolicy {
    match core.idle_states {
        Some(states) => Box::new(DeepRest::new((states.len() - 1) as u8)),
        None => Box::new(IdleGate::new()),
    }
}

const ON_A_CHIP: Technique = Technique {
    name: "",
    available: silicon("an idle state that no processor has"),
    family: "c-states",
    worlds: &["chip"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Gating(STATE),
    unread: &[],
    module: None,
};

/// A state that is entered at each halt.
const STATE: Gating = Gating {
    slots: &[Slot::Idle],
    retention: false,
    delays: |_| Delays::AfterHalts,
    build: deepest,
    ..GATING
};

/// Linux' governors, over all states that one can buy.
const GOVERNED: Gating = Gating {
    delays: |_| Delays::AfterSomeHalts,
    change: Change::IdleStates,
    build: governor::<MenuCore>,
    ..STATE
};

const fn in_state(name: &'static str, how: Gating) -> Make {
    Make::Gating(Gating { change: Change::IdleState(name), ..how })
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "menu",
        available: today("cpuidle.governor=menu, Linux' default"),
        title: "Linux' menu governor over all idle states of the machine, as most servers have it",
        source: "Linux, cpuidle/governors/menu.c",
        parameters: GOVERNOR,
        make: Make::Gating(GOVERNED),
        ..ON_A_CHIP
    },
    Technique {
        name: "teo",
        available: today(
            "echo teo >/sys/devices/system/cpu/cpuidle/current_governor \
             # if the kernel has CONFIG_CPU_IDLE_GOV_TEO (Debian's has not)",
        ),
        title: "Linux' timer events oriented governor over all idle states of the machine",
        source: "Linux, cpuidle/governors/teo.c",
        parameters: GOVERNOR,
        make: Make::Gating(Gating { build: governor::<TeoCore>, ..GOVERNED }),
        ..ON_A_CHIP
    },
    Technique {
        name: "ladder",
        available: today("echo ladder >/sys/devices/system/cpu/cpuidle/current_governor"),
        title: "Linux' ladder governor over all idle states: deeper after four stays that paid",
        source: "Linux, cpuidle/governors/ladder.c",
        parameters: GOVERNOR,
        make: Make::Gating(Gating { build: governor::<LadderCore>, ..GOVERNED }),
        ..ON_A_CHIP
    },
    Technique {
        name: "haltpoll",
        available: today("in guests of KVM alone: modprobe cpuidle_haltpoll"),
        title: "Linux' haltpoll governor: polls for up to 200 us before it enters C1",
        source: "Linux, cpuidle/governors/haltpoll.c",
        parameters: HALT_POLL,
        make: in_state("poll", Gating { delays: |_| Delays::Never, build: halt_poll, ..STATE }),
        ..ON_A_CHIP
    },
    Technique {
        name: "c1e",
        available: today(
            "cpupower idle-set -D, 1 us above C1E's exit latency, with C1E enabled in firmware",
        ),
        title: "Linux' menu governor with C1 and C1E",
        source: "Linux, intel_idle.c",
        parameters: GOVERNOR,
        make: in_state("c1e", GOVERNED),
        ..ON_A_CHIP
    },
    Technique {
        name: "c6",
        available: today("cpupower idle-set -E, then -d for the states between C1 and C6"),
        title: "Linux' menu governor with C1 and C6, in which a core loses its caches",
        source: "Linux, intel_idle.c",
        parameters: GOVERNOR,
        make: in_state("c6", GOVERNED),
        ..ON_A_CHIP
    },
    Technique {
        name: "c6a",
        title: "a halted core is gated at once, its caches and registers kept, in place of C1",
        source: "Yahya 2022 (AgileWatts), C6A",
        make: in_state("c6a", STATE),
        ..ON_A_CHIP
    },
    Technique {
        name: "c6ae",
        title: "the same at the least voltage and frequency, in place of C1E",
        source: "Yahya 2022 (AgileWatts), C6AE",
        make: in_state("c6ae", STATE),
        ..ON_A_CHIP
    },
    Technique {
        name: "pc1a",
        available: silicon("a package state that hardware enters while all cores are in C1"),
        title: "what cores share sleeps while all of them are halted in C1",
        source: "Antoniou 2022 (AgilePkgC), PC1A",
        make: Make::Gating(Gating {
            slots: &[Slot::Package],
            retention: false,
            change: Change::PackageSleep,
            delays: |_| Delays::Never,
            build: |_, _| Box::new(AlwaysOn),
            ..GATING
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "package-sleep",
        available: silicon("a package state that hardware enters while all cores are halted"),
        title: "what cores share sleeps while all of them are halted, whatever they do meanwhile",
        source: "Antoniou 2022 (AgilePkgC)",
        make: Make::Modifier(Modifier::Chip(|_| Change::PackageSleep)),
        ..ON_A_CHIP
    },
];
