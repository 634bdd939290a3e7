//! Policies of a router by name: one line each.

use halfwink_policy::scaling::{
    Depth, Grout, GroutParameters, GroutRss, GroutRssParameters, IdleParameters, IdleState,
    L3fwdPause, L3fwdPower, L3fwdPowerParameters, Menu, Metronome, MetronomeParameters, Napi, Nmap,
    NmapParameters, Polling, PowerSave, PowerSaveParameters, ScalingPolicy, Suricata, Teo,
};
use halfwink_router::Model;
use halfwink_units::Time;

use crate::error::StudyError;

/// How a router's cores are run.
#[derive(Clone, Copy, Debug)]
pub struct RouterPolicy {
    /// Name on the command line.
    pub name: &'static str,
    /// In one line.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    pub(super) make: fn(&Model) -> ScalingPolicy,
}

/// All of them; the first is what others are compared with.
pub static ROUTER_POLICIES: &[RouterPolicy] = &[
    RouterPolicy {
        name: "polling",
        title: "Click: all cores poll at full speed",
        source: "Niccolini 2012, Sec 4.2",
        make: |_| Box::new(Polling::new()),
    },
    RouterPolicy {
        name: "napi",
        title: "NAPI-Click: all cores at full speed, interrupts, naps in C1",
        source: "Niccolini 2012, Sec 4.2",
        make: |_| Box::new(Napi::new(Depth::C1)),
    },
    RouterPolicy {
        name: "power-save",
        title: "PowerSave: fewest cores, then slowest clock, the others in C6",
        source: "Niccolini 2012, Sec 4.4",
        make: |model| Box::new(PowerSave::new(power_save(model))),
    },
    RouterPolicy {
        name: "power-save-in-order",
        title: "PowerSave whose moved flows wait for the queue that they left",
        source: "-",
        make: |model| {
            let parameters = PowerSaveParameters { in_order: true, ..power_save(model) };
            Box::new(PowerSave::new(parameters))
        },
    },
    RouterPolicy {
        name: "napi-c6",
        title: "NAPI-Click whose long naps go on in C6",
        source: "Niccolini 2012, Sec 4.3.2",
        make: |_| Box::new(Napi::new(Depth::C6)),
    },
    RouterPolicy {
        name: "napi-menu",
        title: "NAPI whose idle state Linux' menu governor chooses",
        source: "Linux, cpuidle/governors/menu.c",
        make: |model| Box::new(Menu::new(idle(model))),
    },
    RouterPolicy {
        name: "napi-teo",
        title: "NAPI whose idle state Linux' TEO governor chooses",
        source: "Linux, cpuidle/governors/teo.c",
        make: |model| Box::new(Teo::new(idle(model))),
    },
    RouterPolicy {
        name: "nmap-dvfs",
        title: "NAPI whose P-state follows its changes between interrupts and polling",
        source: "Kang 2021",
        make: |model| Box::new(Nmap::new(nmap(model))),
    },
    RouterPolicy {
        name: "l3fwd-power",
        title: "DPDK's example: pauses, then interrupts; P-state by queue length",
        source: "DPDK, examples/l3fwd-power",
        make: |model| Box::new(L3fwdPower::new(l3fwd(model))),
    },
    RouterPolicy {
        name: "l3fwd-power-pause",
        title: "DPDK's queue power management: pauses of 1 us between empty polls",
        source: "DPDK, lib/power",
        make: |model| Box::new(L3fwdPause::new(model.spec().cores.count)),
    },
    RouterPolicy {
        name: "metronome",
        title: "Metronome: threads of a queue sleep in turn, for a time that follows the load",
        source: "Faltelli 2020",
        make: |model| Box::new(Metronome::new(metronome(model))),
    },
    RouterPolicy {
        name: "grout",
        title: "grout: sleeps between empty windows, each 1 us longer",
        source: "DPDK/grout",
        make: |model| Box::new(Grout::new(grout(model))),
    },
    RouterPolicy {
        name: "grout-rss",
        title: "grout with fewest queues in the redirect table, other workers parked",
        source: "DPDK/grout, pull request 624",
        make: |model| Box::new(GroutRss::new(grout_rss(model))),
    },
    RouterPolicy {
        name: "suricata",
        title: "Suricata: ten empty polls, then an interrupt",
        source: "OISF/suricata, source-dpdk.c",
        make: |model| Box::new(Suricata::new(model.spec().cores.count, Depth::C1)),
    },
];
/// The three stacks of the thesis are the first ones ...
pub(super) const STACKS: usize = 3;
/// ... of those that its experiments are run with.
pub(super) const THESIS: usize = 5;

/// A policy by name.
///
/// # Errors
/// If there is none of that name.
pub(crate) fn policy(name: &str) -> Result<&'static RouterPolicy, StudyError> {
    let known = || ROUTER_POLICIES.iter();
    let unknown = || StudyError::unknown("policy", name, known().map(|p| p.name));
    known().find(|p| p.name == name).ok_or_else(unknown)
}

fn us(us: f64) -> Time {
    Time::from_ns(us * 1e3)
}

fn power_save(model: &Model) -> PowerSaveParameters {
    let spec = model.spec();
    let p = &spec.power_save;
    PowerSaveParameters {
        q_high: p.q_high,
        q_low: p.q_low,
        c_up: p.c_up,
        c_down: p.c_down,
        ..PowerSaveParameters::published(spec.cores.count, model.steps())
    }
}

fn idle(model: &Model) -> IdleParameters {
    let (spec, sleep) = (model.spec(), &model.spec().sleep);
    let state =
        |depth, exit, residency| IdleState { depth, exit: us(exit), residency: us(residency) };
    IdleParameters {
        cores: spec.cores.count,
        states: [
            state(Depth::C1, sleep.c1_exit_us, sleep.c1_residency_us),
            state(Depth::C3, sleep.c3_exit_us, sleep.c3_residency_us),
            state(Depth::C6, sleep.c6_exit_us, sleep.c6_residency_us),
        ],
        tick: us(spec.others.tick_ms * 1e3),
        wake: us(spec.wake.delivery_us + spec.wake.handler_us),
    }
}

fn nmap(model: &Model) -> NmapParameters {
    let others = &model.spec().others;
    NmapParameters {
        cores: model.spec().cores.count,
        steps: model.steps(),
        network: others.nmap_network,
        percent: others.nmap_percent,
        period: us(others.nmap_period_ms * 1e3),
        depth: Depth::C1,
    }
}

fn l3fwd(model: &Model) -> L3fwdPowerParameters {
    let spec = model.spec();
    L3fwdPowerParameters {
        cores: spec.cores.count,
        steps: model.steps(),
        burst: spec.poll.batch,
        period: us(spec.others.l3fwd_period_ms * 1e3),
        depth: Depth::C1,
    }
}

fn metronome(model: &Model) -> MetronomeParameters {
    let others = &model.spec().others;
    MetronomeParameters {
        cores: model.spec().cores.count,
        threads: others.metronome_threads,
        vacation: us(others.metronome_vacation_us),
        depth: Depth::C1,
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

fn grout_rss(model: &Model) -> GroutRssParameters {
    let others = &model.spec().others;
    GroutRssParameters {
        workers: grout(model),
        burst: model.spec().poll.batch,
        period: us(others.grout_period_ms * 1e3),
        park_after: us(others.grout_park_ms * 1e3),
    }
}
