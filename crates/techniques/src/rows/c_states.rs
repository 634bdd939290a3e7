//! Idle states of cores and packages of today, as techniques: what Linux does on such a machine,
//! and what research proposes in its place. States are the machine's (`[[idle_states]]`,
//! `[package]`).

use halfwink_policy::gating::{AlwaysOn, GatingPolicy, IdleGate, IdleMenu, IdleMenuParameters};
use halfwink_units::Time;

use super::availability::{silicon, today};
use super::gating::{GatingContext, GATING};
use crate::{Change, Choice, Delays, Gating, Make, Modifier, Parameter, Technique};

const MENU: &[Parameter] = &[
    Parameter::number("alike_us", "us", 20.0, (1e-3, 1e6))
        .about("spread up to which idle times are alike", "Linux, cpuidle/governors/menu.c"),
    Parameter::number("tick_us", "us", 4000.0, (1e-3, 1e9))
        .about("until a core whose clock is stopped is predicted again", "Linux, 250 a second"),
    Parameter::number("latency_limit_us", "us", 2e9, (0.0, 2e9)).about(
        "longest exit that is allowed; a core that takes longer never enters the state",
        "Linux, pm_qos.h: PM_QOS_CPU_LATENCY_DEFAULT_VALUE",
    ),
];

/// Linux' governor between a stopped clock (C1) and the state that the machine was given.
fn menu(choice: &Choice, core: &GatingContext) -> GatingPolicy {
    let us = |name| Time::from_ns(1e3 * choice.number(name));
    let parameters = IdleMenuParameters {
        tick: us("tick_us"),
        latency_limit: us("latency_limit_us"),
        alike: us("alike_us"),
    };
    Box::new(IdleMenu::new(core.costs, parameters))
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
};

/// A state that is entered at each halt.
const STATE: Gating = Gating {
    retention: false,
    delays: |_| Delays::AfterHalts,
    build: |_, _| Box::new(IdleGate::new()),
    ..GATING
};

/// A state that is entered where Linux expects it to be worth it.
const BY_MENU: Gating = Gating { delays: |_| Delays::AfterSomeHalts, build: menu, ..STATE };

const fn in_state(name: &'static str, how: Gating) -> Make {
    Make::Gating(Gating { change: Change::IdleState(name), ..how })
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "c1e",
        available: today("cpupower idle-set, with C1E enabled in firmware"),
        title: "Linux' menu governor with C1 and C1E",
        source: "Linux, intel_idle.c",
        parameters: MENU,
        make: in_state("c1e", BY_MENU),
        ..ON_A_CHIP
    },
    Technique {
        name: "c6",
        available: today("cpupower idle-set, with C6 enabled in firmware"),
        title: "Linux' menu governor with C1 and C6, in which a core loses its caches",
        source: "Linux, intel_idle.c",
        parameters: MENU,
        make: in_state("c6", BY_MENU),
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
