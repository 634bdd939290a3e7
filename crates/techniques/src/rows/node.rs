//! What a server of today does while its cores wait, by slots: one policy for each of them.

use halfwink_policy::gating::{
    AdaptiveIdle, AlwaysOn, Costs, GatingPolicy, HaltPoll, HaltPollParameters, IdleGate, Oracle,
};
use halfwink_policy::scaling::{
    Depth, IdleParameters, IdleState, IdleStates, Menu, Polling, ScalingPolicy, Teo,
};
use halfwink_units::Time;

use super::availability::{bound, kernel, silicon, today, usual};
use crate::node::machine::{us, POLL};
use crate::node::{Announce, Dispatch, Idler, Input, Machine, NodePart, Plan};
use crate::{Choice, Make, Parameter, Slot, Technique};

/// Number of a state; techniques name only those that were looked for.
fn state(machine: &Machine, name: &str) -> usize {
    machine.state(name).unwrap_or(0)
}

/// The states of a machine on sale, the shallowest, a middle one, the deepest.
fn ladder(machine: &Machine) -> [usize; 3] {
    match machine.on_sale()[..] {
        [] => [1; 3],
        [only] => [only; 3],
        [first, last] => [first, first, last],
        [first, middle, .., last] => [first, middle, last],
    }
}

/// A governor of Linux over three states.
fn governor(
    machine: &Machine,
    depths: [usize; 3],
    make: fn(IdleParameters) -> ScalingPolicy,
) -> Idler {
    let told = |depth, n: usize| {
        let (exit, residency) =
            machine.told(n).map_or((0.0, 0.0), |state| (state.exit_us, state.residency_us));
        IdleState { depth, exit: us(exit), residency: us(residency), polls: false }
    };
    let [first, middle, last] = depths;
    let states = [told(Depth::C1, first), told(Depth::C3, middle), told(Depth::C6, last)];
    let states = IdleStates::new(&states);
    let tick = us(machine.spec().kernel.tick_us);
    let timer = us(machine.spec().kernel.next_timer_us);
    let policy = make(IdleParameters { cores: 1, states, tick, timer, wake: Time::ZERO });
    Idler::Rest { policy, depths }
}

fn menu(parameters: IdleParameters) -> ScalingPolicy {
    Box::new(Menu::new(parameters))
}

fn teo(parameters: IdleParameters) -> ScalingPolicy {
    Box::new(Teo::new(parameters))
}

/// Menu between C1 and another state.
fn menu_with(machine: &Machine, name: &str) -> Idler {
    let (c1, other) = (state(machine, "c1"), state(machine, name));
    governor(machine, [c1, c1, other], menu)
}

/// A gating policy between C1 and another state, with the costs that the kernel is told.
fn gate(machine: &Machine, name: &str, make: fn(Costs) -> GatingPolicy) -> Idler {
    let gated = state(machine, name);
    Idler::gate(make(machine.gating_costs(gated)), state(machine, "c1"), gated)
}

/// Whatever the machine's deepest state on sale is called.
fn deepest(machine: &Machine) -> &'static str {
    let [.., last] = ladder(machine);
    machine.state_names().nth(last).unwrap_or("c1")
}

const NOTHING: fn(&Choice, &mut Plan) = |_, _| ();

const ON_A_NODE: Technique = Technique {
    name: "",
    family: "idle",
    worlds: &["node"],
    title: "",
    source: "-",
    available: today(""),
    parameters: &[],
    make: Make::Node(IDLE),
    unread: &[],
    module: None,
};

const IDLE: NodePart =
    NodePart { slots: &[Slot::Idle], needs: (&[], None), idle: None, change: NOTHING };

const fn idle(needs: &'static [&'static str], make: fn(&Choice, &Machine) -> Idler) -> Make {
    Make::Node(NodePart { needs: (needs, None), idle: Some(make), ..IDLE })
}

const fn other(slot: &'static [Slot], change: fn(&Choice, &mut Plan)) -> Make {
    Make::Node(NodePart { slots: slot, change, ..IDLE })
}

const fn package(state: &'static str, change: fn(&Choice, &mut Plan)) -> Make {
    Make::Node(NodePart { slots: &[Slot::Package], needs: (&[], Some(state)), change, ..IDLE })
}

const LIMIT: &[Parameter] = &[Parameter::whole("limit", 2, (1, 1000))
    .about("requests on a core from which on the next core is used", "assumption")];

const HOLD: &[Parameter] = &[Parameter::number("hold_us", "us", 50.0, (0.0, 1e6))
    .about("longest time that an interrupt is held back", "assumption: as adaptive moderation")];

/// Work that polling saves: a request of memcached at full load took 8,411 cycles with interrupts
/// and 6,998 without, at no more than the 3.3 GHz of an EPYC 7662.
const INTERRUPT: Parameter = Parameter::number("interrupt_us", "us", 0.43, (0.0, 1e6)).about(
    "work that a request costs less if it is found by polling",
    "Karsten 2024, patch of IRQ suspension, fullbusy at most",
);

const POLLED: &[Parameter] = &[
    Parameter::number("usecs", "us", 50.0, (0.0, 1e6)).about(
        "how long a core without work polls before it rests",
        "Linux, admin-guide/sysctl/net.rst: busy_poll, for several sockets",
    ),
    INTERRUPT,
];

const SUSPENDED: &[Parameter] = &[
    Parameter::whole("flush_ns", 20_000, (100, 1_000_000_000)).about(
        "nanoseconds of each timer that looks for packets (gro_flush_timeout)",
        "Karsten 2024, patch of IRQ suspension, suspend20",
    ),
    Parameter::whole("empty_polls", 100, (1, 100_000)).about(
        "timers that find nothing before interrupts are back (napi_defer_hard_irqs)",
        "Karsten 2024, patch of IRQ suspension, suspend20",
    ),
    INTERRUPT,
];

const ANNOUNCED: &[Parameter] = &[
    Parameter::number("lead_us", "us", 500.0, (0.0, 1e6)).about(
        "from the announcement of a request to its arrival",
        "assumption: three times the wake-up of the deepest state",
    ),
    Parameter::number("lost", "", 0.0, (0.0, 1.0)).about(
        "share of requests whose announcement is lost on the way",
        "assumption: the network loses none",
    ),
    Parameter::number("stray", "", 0.0, (0.0, 1.0)).about(
        "announcements of requests that never come, for each request",
        "assumption: each is of a request",
    ),
    Parameter::number("patience_us", "us", 500.0, (0.0, 1e6)).about(
        "how long a core waits for a request beyond its time",
        "assumption: as long as it is announced ahead",
    ),
];

fn announce(choice: &Choice, plan: &mut Plan, loads: bool) {
    let [lead_us, lost, stray, patience_us] =
        ["lead_us", "lost", "stray", "patience_us"].map(|name| choice.number(name));
    plan.announce = Some(Announce { lead_us, lost, stray, patience_us, loads });
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "menu",
        available: usual("cpuidle.governor=menu, Linux' default"),
        title: "Linux' menu governor over all idle states of the machine",
        source: "Linux, cpuidle/governors/menu.c",
        make: idle(&[], |_, machine| governor(machine, ladder(machine), menu)),
        ..ON_A_NODE
    },
    Technique {
        name: "teo",
        available: today(
            "echo teo >/sys/devices/system/cpu/cpuidle/current_governor \
             # if the kernel has CONFIG_CPU_IDLE_GOV_TEO (Debian's has not)",
        ),
        title: "Linux' timer events oriented governor over all idle states of the machine",
        source: "Linux, cpuidle/governors/teo.c",
        make: idle(&[], |_, machine| governor(machine, ladder(machine), teo)),
        ..ON_A_NODE
    },
    Technique {
        name: "haltpoll",
        available: today("in guests of KVM alone: modprobe cpuidle_haltpoll"),
        title: "Linux' haltpoll governor: polls for up to 200 us before it enters C1",
        source: "Linux, cpuidle/governors/haltpoll.c",
        make: idle(&["c1"], |_, machine| Idler::Gate {
            policy: Box::new(HaltPoll::new(HaltPollParameters::LINUX)),
            halted: state(machine, "c1"),
            gated: state(machine, "c1"),
            rests: vec![POLL, state(machine, "c1")],
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "always-on",
        available: today("cpupower idle-set -D 0, or boot with idle=poll (x86)"),
        title: "idle cores spin and never halt (idle=poll)",
        source: "Linux, admin-guide/pm/cpuidle.rst",
        make: idle(&[], |_, machine| Idler::Rest {
            policy: Box::new(Polling::new()),
            depths: ladder(machine),
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "c1",
        available: today("cpupower idle-set -D, 1 us above C1's exit latency"),
        title: "idle cores halt in C1 and nothing deeper, as vendors advise for latency",
        source: "Linux, admin-guide/pm/cpuidle.rst",
        make: idle(&["c1"], |_, machine| gate(machine, "c1", |_| Box::new(AlwaysOn))),
        ..ON_A_NODE
    },
    Technique {
        name: "c1e",
        available: today("cpupower idle-set -D, 1 us above C1E's exit latency"),
        title: "Linux' menu governor with C1 and C1E",
        source: "Linux, intel_idle.c",
        make: idle(&["c1", "c1e"], |_, machine| menu_with(machine, "c1e")),
        ..ON_A_NODE
    },
    Technique {
        name: "c6",
        available: today("cpupower idle-set -E, then -d for the states between C1 and C6"),
        title: "Linux' menu governor with C1 and C6",
        source: "Linux, intel_idle.c",
        make: idle(&["c1", "c6"], |_, machine| menu_with(machine, "c6")),
        ..ON_A_NODE
    },
    Technique {
        name: "c6a",
        available: silicon("AgileWatts' C6A"),
        title: "an idle core is gated at once, its caches and registers kept, in place of C1",
        source: "Yahya 2022 (AgileWatts), C6A",
        make: idle(&["c1", "c6a"], |_, machine| {
            gate(machine, "c6a", |_| Box::new(IdleGate::new()))
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "c6ae",
        available: silicon("AgileWatts' C6AE"),
        title: "the same at the least voltage and frequency, in place of C1E",
        source: "Yahya 2022 (AgileWatts), C6AE",
        make: idle(&["c1", "c6ae"], |_, machine| {
            gate(machine, "c6ae", |_| Box::new(IdleGate::new()))
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "idle-adaptive",
        available: kernel("a cpuidle governor of one's own"),
        title: "the deepest state, but not for idle times expected to be too short",
        source: "Mogul 2007, Sec 5.6",
        make: idle(&["c1"], |_, machine| {
            gate(machine, deepest(machine), |costs| Box::new(AdaptiveIdle::new(costs)))
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "oracle",
        available: bound("nobody knows when the next request comes"),
        title: "knows when the next request comes: the most that the deepest state can save",
        source: "Strong 2013, Sec 2.4",
        make: idle(&["c1"], |_, machine| {
            gate(machine, deepest(machine), |costs| Box::new(Oracle::new(costs)))
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "pc1a",
        available: silicon("AgilePkgC's PC1A"),
        title: "idle cores halt in C1; while all do, what they share sleeps",
        source: "Antoniou 2022 (AgilePkgC), PC1A",
        make: Make::Node(NodePart {
            slots: &[Slot::Idle, Slot::Package],
            needs: (&["c1"], Some("pc1a")),
            idle: Some(|_, machine| gate(machine, "c1", |_| Box::new(AlwaysOn))),
            change: |_, plan| plan.package = Some("pc1a".to_owned()),
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "package-sleep",
        available: silicon("AgilePkgC's PC1A"),
        family: "package",
        title: "what cores share sleeps while all of them are idle, however deep",
        source: "Antoniou 2022 (AgilePkgC)",
        make: package("pc1a", |_, plan| plan.package = Some("pc1a".to_owned())),
        ..ON_A_NODE
    },
    Technique {
        name: "pc6",
        available: today("firmware: package C-state limit C6"),
        family: "package",
        title: "what cores share sleeps while all of them are in C6",
        source: "Linux, intel_idle.c",
        make: package("pc6", |_, plan| plan.package = Some("pc6".to_owned())),
        ..ON_A_NODE
    },
    Technique {
        name: "least-loaded",
        available: kernel("a scheduler or dispatcher that sees queues, as sched_ext"),
        family: "dispatch",
        title: "a request goes to the core with the fewest, not to where its flow hashes",
        source: "-",
        make: other(&[Slot::Dispatch], |_, plan| plan.dispatch = Dispatch::LeastLoaded),
        ..ON_A_NODE
    },
    Technique {
        name: "packing",
        available: kernel("a scheduler or dispatcher that packs, as sched_ext"),
        family: "dispatch",
        title: "a request goes to the first core that has room, so that others sleep long",
        source: "-",
        parameters: LIMIT,
        make: other(&[Slot::Dispatch], |choice, plan| {
            plan.dispatch = Dispatch::Packing(choice.whole("limit") as u32);
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "lifo",
        available: today("a program whose workers all wait on one epoll set"),
        family: "dispatch",
        title: "one queue: the core that became idle last takes the next request, as epoll does",
        source: "-",
        make: other(&[Slot::Dispatch], |_, plan| plan.dispatch = Dispatch::Lifo),
        ..ON_A_NODE
    },
    Technique {
        name: "fifo",
        available: today("a program whose workers all take from one queue"),
        family: "dispatch",
        title: "one queue: the core that has been idle longest takes the next request",
        source: "-",
        make: other(&[Slot::Dispatch], |_, plan| plan.dispatch = Dispatch::Fifo),
        ..ON_A_NODE
    },
    Technique {
        name: "coalesce",
        available: today(
            "ethtool -C INTERFACE adaptive-rx off; ethtool -C INTERFACE rx-usecs HOLD_US",
        ),
        family: "input",
        title: "the network card holds interrupts back, so that one wakes a core for several",
        source: "Linux, ethtool: rx-usecs",
        parameters: HOLD,
        make: other(&[Slot::Input], |choice, plan| {
            plan.input = Input::Coalesced(choice.number("hold_us"));
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "coalesce-adaptive",
        available: today("ethtool -C INTERFACE adaptive-rx on"),
        family: "input",
        title:
            "the network card holds interrupts back for a time that Linux moderates by their rate",
        source: "Linux, lib/dim/net_dim.c",
        make: other(&[Slot::Input], |_, plan| plan.input = Input::Moderated),
        ..ON_A_NODE
    },
    Technique {
        name: "busy-poll",
        available: today("sysctl net.core.busy_poll=USECS net.core.busy_read=USECS"),
        family: "input",
        title: "a core without work polls the network card for a while before it rests",
        source: "Linux, networking/napi.rst, busy polling",
        parameters: POLLED,
        make: other(&[Slot::Input], |choice, plan| {
            let [span_us, interrupt_us] = ["usecs", "interrupt_us"].map(|name| choice.number(name));
            plan.input = Input::Polled { span_us, interrupt_us };
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "poll-mode",
        available: today("a poll-mode driver of DPDK, or busy polling without an end"),
        family: "input",
        title: "cores poll the network card and never rest: no interrupts, no wake-ups",
        source: "DPDK, programmer's guide, poll mode driver",
        parameters: &[INTERRUPT],
        make: Make::Node(NodePart {
            slots: &[Slot::Input, Slot::Idle],
            idle: Some(|_, machine| Idler::Rest {
                policy: Box::new(Polling::new()),
                depths: ladder(machine),
            }),
            change: |choice, plan| {
                let interrupt_us = choice.number("interrupt_us");
                plan.input = Input::Polled { span_us: f64::INFINITY, interrupt_us };
            },
            ..IDLE
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "irq-suspend",
        available: today(
            "Linux 6.13: ynl --family netdev --do napi-set --json '{\"id\": NAPI, \
             \"defer-hard-irqs\": EMPTY_POLLS, \"gro-flush-timeout\": FLUSH_NS, \
             \"irq-suspend-timeout\": 20000000}', and an epoll that prefers busy polling",
        ),
        family: "input",
        title: "interrupts are masked while a core finds work, and back some timers after that",
        source: "Linux, networking/napi.rst, IRQ suspension",
        parameters: SUSPENDED,
        make: other(&[Slot::Input], |choice, plan| {
            plan.input = Input::Suspended {
                flush_us: 1e-3 * choice.number("flush_ns"),
                empty_polls: choice.whole("empty_polls") as u32,
                interrupt_us: choice.number("interrupt_us"),
            };
        }),
        ..ON_A_NODE
    },
    Technique {
        name: "wake-only",
        available: kernel("a network that announces requests, and a driver that wakes the core"),
        family: "preheat",
        title: "an announcement wakes the core, which then rests in C1 until its request comes",
        source: "Zhu 2015",
        parameters: ANNOUNCED,
        make: other(&[Slot::Preheat], |choice, plan| announce(choice, plan, false)),
        ..ON_A_NODE
    },
    Technique {
        name: "preheat",
        available: kernel(
            "a network that announces requests; halfwink live preheat loads the lines",
        ),
        family: "preheat",
        title: "an announcement wakes the core, which loads the lines that requests use",
        source: "Gottschlag 2016, Sec 4.1",
        parameters: ANNOUNCED,
        make: other(&[Slot::Preheat], |choice, plan| announce(choice, plan, true)),
        ..ON_A_NODE
    },
];
