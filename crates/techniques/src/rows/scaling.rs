//! How many cores of a router forward, how fast, and how they wait.

use halfwink_policy::scaling::{
    Depth, Grout, GroutParameters, GroutRss, GroutRssParameters, IdleParameters, IdleState,
    IdleStates, L3fwdPause, L3fwdPower, L3fwdPowerParameters, Menu, Metronome, MetronomeParameters,
    Napi, Nmap, NmapParameters, Polling, PowerSave, PowerSaveParameters, Suricata, Teo,
    VppAdaptive, VppAdaptiveParameters,
};
use halfwink_units::Time;

use super::availability::{kernel, today, usual};
use crate::router::Model;
use crate::{Choice, Make, Parameter, Technique};

const ROUTER: Technique = Technique {
    name: "",
    available: today("a forwarder of today"),
    family: "scaling",
    worlds: &["router"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Scaling(|_, _| Box::new(Polling::new())),
    unread: &[],
    module: None,
};

/// Costs of naps, sleep and interrupts, of which a core that polls has none.
const UNREAD_BY_POLLING: &[&str] = &["sleep", "wake"];

const POWER_SAVE: &[Parameter] = &[
    Parameter::whole("q_high", 32, (1, 1 << 20))
        .about("packets in a queue from which on more is done", "Niccolini 2012, Sec 4.4.1"),
    Parameter::whole("q_low", 4, (0, 1 << 20))
        .about("packets in a queue below which less is done", "Niccolini 2012, Sec 4.4.1"),
    Parameter::whole("c_up", 5, (0, 1_000_000))
        .about("looks above q_high that are passed over", "assumption: not printed"),
    Parameter::whole("c_down", 50, (0, 1_000_000))
        .about("looks below q_low that are passed over", "assumption: not printed"),
];

const TICK: Parameter = Parameter::number("tick_ms", "ms", 4.0, (0.01, 1e5))
    .about("between ticks of the kernel", "assumption: 250 ticks a second");

/// The note for profiles that play a second in less: times of more than a millisecond are shortened
/// likewise, or a run would never see them.
const SHORTENED: &str = "the published time, shortened as the load profile is";

/// A time in milliseconds that is shortened as the profile is, unless it was chosen.
fn shortened(choice: &Choice, name: &str, published_ms: f64, model: &Model) -> Time {
    ms(choice.given(name).unwrap_or_else(|| published_ms * model.spec().evaluation.point_ms / 1e3))
}

fn us(us: f64) -> Time {
    Time::from_ns(us * 1e3)
}

fn ms(ms: f64) -> Time {
    us(ms * 1e3)
}

fn power_save(choice: &Choice, model: &Model) -> PowerSaveParameters {
    let packets = |name| choice.whole(name) as u32;
    PowerSaveParameters {
        q_high: packets("q_high"),
        q_low: packets("q_low"),
        c_up: packets("c_up"),
        c_down: packets("c_down"),
        ..PowerSaveParameters::published(model.spec().cores.count, model.steps())
    }
}

fn idle(choice: &Choice, model: &Model) -> IdleParameters {
    let (spec, sleep) = (model.spec(), &model.spec().sleep);
    let state = |depth, exit, residency| IdleState {
        depth,
        exit: us(exit),
        residency: us(residency),
        polls: false,
    };
    IdleParameters {
        cores: spec.cores.count,
        states: IdleStates::new(&[
            state(Depth::C1, sleep.c1_exit_us, sleep.c1_residency_us),
            state(Depth::C3, sleep.c3_exit_us, sleep.c3_residency_us),
            state(Depth::C6, sleep.c6_exit_us, sleep.c6_residency_us),
        ]),
        tick: ms(choice.number("tick_ms")),
        timer: IdleParameters::NO_TIMER,
        wake: us(spec.wake.delivery_us + spec.wake.handler_us),
    }
}

fn nmap(choice: &Choice, model: &Model) -> NmapParameters {
    NmapParameters {
        cores: model.spec().cores.count,
        steps: model.steps(),
        network: choice.whole("network"),
        percent: choice.whole("percent"),
        period: shortened(choice, "period_ms", 10.0, model),
        depth: Depth::C1,
    }
}

fn l3fwd(choice: &Choice, model: &Model) -> L3fwdPowerParameters {
    let spec = model.spec();
    L3fwdPowerParameters {
        cores: spec.cores.count,
        steps: model.steps(),
        burst: spec.poll.batch,
        period: shortened(choice, "period_ms", 100.0, model),
        depth: Depth::C1,
    }
}

fn metronome(choice: &Choice, model: &Model) -> MetronomeParameters {
    MetronomeParameters {
        cores: model.spec().cores.count,
        threads: choice.whole("threads") as u8,
        vacation: us(choice.number("vacation_us")),
        depth: Depth::C1,
    }
}

fn vpp_adaptive(choice: &Choice, model: &Model) -> VppAdaptiveParameters {
    let (spec, packets) = (model.spec(), |name| choice.whole(name) as u32);
    VppAdaptiveParameters {
        window: packets("window"),
        to_polling: packets("to_polling"),
        to_interrupt: packets("to_interrupt"),
        ..VppAdaptiveParameters::published(spec.cores.count, us(spec.poll.empty_poll_us))
    }
}

fn grout(model: &Model) -> GroutParameters {
    let nic = &model.spec().nic;
    GroutParameters {
        cores: model.spec().cores.count,
        longest_us: GroutParameters::longest_us(nic.ring, (nic.port_gbps * 1e3) as u32),
        depth: Depth::C1,
    }
}

fn grout_rss(choice: &Choice, model: &Model) -> GroutRssParameters {
    // Ten minutes, which a shortened profile would never see: there, one point of it.
    let point_ms = model.spec().evaluation.point_ms;
    let period_ms = if point_ms < 1e3 { point_ms } else { 600_000.0 };
    GroutRssParameters {
        workers: grout(model),
        burst: model.spec().poll.batch,
        period: ms(choice.given("period_ms").unwrap_or(period_ms)),
        park_after: shortened(choice, "park_ms", 100.0, model),
    }
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "polling",
        available: today("DPDK, or Click in polling mode"),
        title: "Click: all cores poll at full speed",
        source: "Niccolini 2012, Sec 4.2",
        unread: UNREAD_BY_POLLING,
        ..ROUTER
    },
    Technique {
        name: "napi",
        available: today("Linux NAPI with C1 alone"),
        title: "NAPI-Click: all cores at full speed, interrupts, naps in C1",
        source: "Niccolini 2012, Sec 4.2",
        make: Make::Scaling(|_, _| Box::new(Napi::new(Depth::C1))),
        ..ROUTER
    },
    Technique {
        name: "power-save",
        available: kernel(
            "a forwarder that moves queues between cores, as halfwink live router does",
        ),
        title: "PowerSave: fewest cores, then slowest clock, the others in C6",
        source: "Niccolini 2012, Sec 4.4",
        parameters: POWER_SAVE,
        make: Make::Scaling(|choice, model| Box::new(PowerSave::new(power_save(choice, model)))),
        ..ROUTER
    },
    Technique {
        name: "power-save-in-order",
        available: kernel("a forwarder that moves queues in order, as halfwink live router does"),
        title: "PowerSave whose moved flows wait for the queue that they left",
        parameters: POWER_SAVE,
        make: Make::Scaling(|choice, model| {
            let parameters = PowerSaveParameters { in_order: true, ..power_save(choice, model) };
            Box::new(PowerSave::new(parameters))
        }),
        ..ROUTER
    },
    Technique {
        name: "napi-c6",
        available: today("Linux NAPI with C6 enabled"),
        title: "NAPI-Click whose long naps go on in C6",
        source: "Niccolini 2012, Sec 4.3.2",
        make: Make::Scaling(|_, _| Box::new(Napi::new(Depth::C6))),
        ..ROUTER
    },
    Technique {
        name: "napi-menu",
        available: usual("NAPI and the menu governor, as Linux runs unless told otherwise"),
        title: "NAPI whose idle state Linux' menu governor chooses",
        source: "Linux, cpuidle/governors/menu.c",
        parameters: &[TICK],
        make: Make::Scaling(|choice, model| Box::new(Menu::new(idle(choice, model)))),
        ..ROUTER
    },
    Technique {
        name: "napi-teo",
        available: today(
            "echo teo >/sys/devices/system/cpu/cpuidle/current_governor \
             # if the kernel has CONFIG_CPU_IDLE_GOV_TEO (Debian's has not)",
        ),
        title: "NAPI whose idle state Linux' TEO governor chooses",
        source: "Linux, cpuidle/governors/teo.c",
        parameters: &[TICK],
        make: Make::Scaling(|choice, model| Box::new(Teo::new(idle(choice, model)))),
        ..ROUTER
    },
    Technique {
        name: "nmap-dvfs",
        available: kernel("a driver that sets P-states at changes of NAPI mode"),
        title: "NAPI whose P-state follows its changes between interrupts and polling",
        source: "Kang 2021",
        parameters: &[
            Parameter::whole("network", 64, (1, 1_000_000)).about(
                "packets by polling after an interrupt, above which the network is busy",
                "assumption: Kang 2021 profiles each service; a NAPI budget here",
            ),
            Parameter::whole("percent", 100, (0, 1_000_000)).about(
                "packets by polling for each hundred by interrupt, below which it is not",
                "assumption: as many packets by polling as by interrupt",
            ),
            Parameter::number("period_ms", "ms", 10.0, (1e-3, 1e6))
                .or_else(SHORTENED)
                .about("between looks at utilisation", "assumption: 10 ms"),
        ],
        make: Make::Scaling(|choice, model| Box::new(Nmap::new(nmap(choice, model)))),
        ..ROUTER
    },
    Technique {
        name: "l3fwd-power",
        available: today("DPDK, examples/l3fwd-power"),
        title: "DPDK's example: pauses, then interrupts; P-state by queue length",
        source: "DPDK, examples/l3fwd-power",
        parameters: &[Parameter::number("period_ms", "ms", 100.0, (1e-3, 1e6))
            .or_else(SHORTENED)
            .about("after so much time a core may go slower", "DPDK: 100 ms")],
        make: Make::Scaling(|choice, model| Box::new(L3fwdPower::new(l3fwd(choice, model)))),
        ..ROUTER
    },
    Technique {
        name: "l3fwd-power-pause",
        available: today("DPDK, rte_power_ethdev_pmgmt_queue_enable"),
        title: "DPDK's queue power management: pauses of 1 us between empty polls",
        source: "DPDK, lib/power",
        make: Make::Scaling(|_, model| Box::new(L3fwdPause::new(model.spec().cores.count))),
        ..ROUTER
    },
    Technique {
        name: "metronome",
        available: kernel("Metronome's kernel module for precise sleep, and threads on DPDK"),
        title: "Metronome: threads of a queue sleep in turn, for a time that follows the load",
        source: "Faltelli 2020",
        parameters: &[
            Parameter::whole("threads", 3, (1, 8)).about("for each queue", "Faltelli 2020"),
            Parameter::number("vacation_us", "us", 10.0, (0.1, 1e6))
                .about("wanted between visits to a queue", "Faltelli 2020"),
        ],
        make: Make::Scaling(|choice, model| Box::new(Metronome::new(metronome(choice, model)))),
        ..ROUTER
    },
    Technique {
        name: "grout",
        available: today("grout on DPDK"),
        title: "grout: sleeps between empty windows, each 1 us longer",
        source: "DPDK/grout",
        make: Make::Scaling(|_, model| Box::new(Grout::new(grout(model)))),
        ..ROUTER
    },
    Technique {
        name: "grout-rss",
        available: kernel("grout with pull request 624"),
        title: "grout with fewest queues in the redirect table, other workers parked",
        source: "DPDK/grout, pull request 624",
        parameters: &[
            Parameter::number("period_ms", "ms", 600_000.0, (1e-3, 1e9))
                .or_else("600000; a point of the load profile where that is shortened")
                .about("between looks whether fewer queues would do", "grout: 600 s"),
            Parameter::number("park_ms", "ms", 100.0, (1e-3, 1e6))
                .or_else(SHORTENED)
                .about("from leaving the table until parked", "grout: 100 ms"),
        ],
        make: Make::Scaling(|choice, model| Box::new(GroutRss::new(grout_rss(choice, model)))),
        ..ROUTER
    },
    Technique {
        name: "suricata",
        available: today("Suricata on DPDK in interrupt mode"),
        title: "Suricata: ten empty polls, then an interrupt",
        source: "OISF/suricata, source-dpdk.c",
        make: Make::Scaling(|_, model| {
            Box::new(Suricata::new(model.spec().cores.count, Depth::C1))
        }),
        ..ROUTER
    },
    Technique {
        name: "vpp-adaptive",
        available: today("VPP: set interface rx-mode adaptive"),
        title: "VPP: polls from 10 packets in 128 loops on, waits for interrupts up to 5",
        source: "FD.io VPP, src/vlib/main.c: dispatch_node",
        parameters: &[
            Parameter::whole("window", 128, (1, 1 << 20))
                .about("loops over which packets are counted", "VPP, src/vlib/main.h: 1 << 7"),
            Parameter::whole("to_polling", 10, (0, 1 << 30)).about(
                "packets of a window from which on a core polls",
                "VPP, src/vlib/main.c: polling_threshold_vector_length",
            ),
            Parameter::whole("to_interrupt", 5, (0, 1 << 30)).about(
                "packets of a window up to which it waits for interrupts",
                "VPP, src/vlib/main.c: interrupt_threshold_vector_length",
            ),
        ],
        make: Make::Scaling(|choice, model| {
            Box::new(VppAdaptive::new(vpp_adaptive(choice, model)))
        }),
        ..ROUTER
    },
];
