//! Which CPU completes a block I/O.

use halfwink_policy::completion::{
    CacheAware, CacheAwareParameters, Completing, CompletionPolicy, Direct, Dynamic,
    DynamicParameters, Gather, Group, Hears, InterleavedTags, Issuer, Mapping, Rested, RoundRobin,
    Same, SingleThread, Topology,
};
use halfwink_policy::scaling::{Depth, L3fwdPause, Napi, Polling, ScalingPolicy, Suricata};
use halfwink_units::Time;

use super::availability::{kernel, silicon, today, usual};
use crate::context::CompletionContext;
use crate::{Choice, Error, Make, Parameter, Technique};

/// Names of ways to rest, for messages.
const RESTS: &str = "auto, own, gather, interrupt, polling, suricata, l3fwd-pause";

/// Gives a policy a way to rest, by name: its own, or one of those that wait for packets.
///
/// # Errors
///
/// If there is no such way, or there are more CPUs than it has numbers for.
pub(crate) fn resting(
    policy: CompletionPolicy,
    rest: &str,
    topology: &Topology,
) -> Result<CompletionPolicy, Error> {
    let cores = u8::try_from(topology.cpus());
    // Who is not interrupted has a way of his own.
    let own = policy.hears() == Hears::Polled || cores.is_err();
    if rest == "own" || (rest == "auto" && own) {
        return Ok(policy);
    }
    let Ok(cores) = cores else {
        return Err(Error::Usage(format!("rest `{rest}`: expected 255 CPUs at most")));
    };
    let rests: ScalingPolicy = match rest {
        "auto" | "gather" => Box::new(Gather::new(cores)),
        "interrupt" => Box::new(Napi::new(Depth::C1)),
        "polling" => Box::new(Polling::new()),
        "suricata" => Box::new(Suricata::new(cores, Depth::C1)),
        "l3fwd-pause" => Box::new(L3fwdPause::new(cores)),
        other => return Err(Error::Usage(format!("rest `{other}`: expected {RESTS}"))),
    };
    Ok(Box::new(Rested::new(policy, rests)))
}

const PERIOD: Parameter = Parameter::number("period_ms", "ms", 10.0, (1e-3, 1e6))
    .about("between looks at how busy CPUs are", "assumption: Nellans 2014 does not say");
const HIGH: Parameter = Parameter::number("high_pct", "%", 95.0, (1.0, 100.0))
    .about("from which on a CPU is fully used", "assumption: Nellans 2014 does not say");
const LOW: Parameter = Parameter::number("low_pct", "%", 50.0, (0.0, 100.0))
    .about("below which there are too many CPUs", "assumption: Nellans 2014 does not say");
const SPARES: Parameter = Parameter::words("spares", &["yes", "no"])
    .about("whether the CPU that hears completes nothing else", "assumption");
const BY: Parameter = Parameter::words("by", &["socket", "cache"])
    .about("what CPUs belong together by", "Nellans 2014, Sec 6.3.3");
const FALLS_BEHIND: Parameter = Parameter::whole("high", 8, (1, 1 << 20))
    .about("I/Os that wait before it gives any away", "assumption");
const CAUGHT_UP: Parameter =
    Parameter::whole("low", 1, (0, 1 << 20)).about("I/Os that wait when it stops", "assumption");
const THREADS: Parameter = Parameter::whole("threads", 4, (1, 4096)).about("that complete", "ublk");

const COMPLETION: Technique = Technique {
    name: "",
    available: kernel("a driver with two phases of completion"),
    family: "completion",
    worlds: &["storage"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Completion(|_, machine| boxed(SingleThread, machine)),
    unread: &[],
    module: None,
};

fn boxed<M: Mapping + 'static>(mapping: M, machine: &CompletionContext) -> CompletionPolicy {
    Box::new(Completing::new(mapping, machine.topology.cpus()))
}

fn group(choice: &Choice) -> Group {
    match choice.word("by") {
        "cache" => Group::Cache,
        _ => Group::Socket,
    }
}

fn spared(choice: &Choice, machine: &CompletionContext) -> Option<u16> {
    (choice.word("spares") == "yes").then_some(machine.hears)
}

fn aware(choice: &Choice, machine: &CompletionContext) -> CacheAware {
    let permille = |name| (10.0 * choice.number(name)) as u32;
    let parameters = CacheAwareParameters {
        by: group(choice),
        spared: spared(choice, machine),
        high_permille: permille("high_pct"),
        low_permille: permille("low_pct"),
        period: Time::from_ns(1e6 * choice.number("period_ms")),
    };
    CacheAware::new(&machine.topology, parameters)
}

fn direct(mapping: Direct, machine: &CompletionContext) -> CompletionPolicy {
    boxed(mapping, machine)
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "single-thread",
        available: today("drivers with one queue and one interrupt"),
        title: "one CPU hears and completes all, as the shipped driver does",
        source: "Nellans 2014, Sec 6.2.1",
        ..COMPLETION
    },
    Technique {
        name: "same",
        title: "two phases on one CPU: what splitting costs",
        source: "Nellans 2014, Sec 6.3.2",
        make: Make::Completion(|_, machine| boxed(Same, machine)),
        ..COMPLETION
    },
    Technique {
        name: "issuer",
        available: today("/sys/block/*/queue/rq_affinity = 2"),
        title: "back to the CPU that issued, wherever that is",
        source: "Nellans 2014, Sec 6.3.3",
        make: Make::Completion(|_, machine| boxed(Issuer, machine)),
        ..COMPLETION
    },
    Technique {
        name: "round-robin-socket",
        title: "all CPUs of the issuer's socket by turns",
        source: "Nellans 2014, Sec 6.3.2",
        parameters: &[BY, SPARES],
        make: Make::Completion(|choice, machine| {
            let spared = spared(choice, machine);
            boxed(RoundRobin::new(&machine.topology, group(choice), spared), machine)
        }),
        ..COMPLETION
    },
    Technique {
        name: "cache-aware",
        title: "as few CPUs of the issuer's socket as keep up",
        source: "Nellans 2014, Sec 6.3.3",
        parameters: &[BY, HIGH, LOW, PERIOD, SPARES],
        make: Make::Completion(|choice, machine| boxed(aware(choice, machine), machine)),
        ..COMPLETION
    },
    Technique {
        name: "dynamic",
        title: "where it is heard, until that CPU falls behind",
        source: "Nellans 2014, Sec 6.5: named, not built",
        parameters: &[BY, FALLS_BEHIND, CAUGHT_UP, HIGH, LOW, PERIOD, SPARES],
        make: Make::Completion(|choice, machine| {
            let [high, low] = ["high", "low"].map(|name| choice.number(name) as u32);
            let parameters = DynamicParameters { high, low };
            boxed(Dynamic::new(aware(choice, machine), parameters), machine)
        }),
        ..COMPLETION
    },
    Technique {
        name: "interleaved-tags",
        available: today("a ublk server of several threads"),
        title: "threads of the hearing CPU's cache, by the I/O's tag",
        source: "ublk's server of several threads",
        parameters: &[SPARES, THREADS],
        make: Make::Completion(|choice, machine| {
            let (threads, spared) = (choice.number("threads") as u16, spared(choice, machine));
            boxed(InterleavedTags::new(&machine.topology, threads, spared), machine)
        }),
        ..COMPLETION
    },
    Technique {
        name: "msi-x",
        available: silicon("a device that interrupts the CPU that issued"),
        title: "the device interrupts the CPU that issued",
        source: "Nellans 2014, Sec 6.5: named, not built",
        make: Make::Completion(|_, machine| direct(Direct::MSI_X, machine)),
        ..COMPLETION
    },
    Technique {
        name: "multi-queue",
        available: usual("blk-mq on devices with a queue for each CPU"),
        title: "a request queue and an interrupt for each CPU",
        source: "Linux 3.13, blk-mq; Nellans 2014, Sec 6.5",
        make: Make::Completion(|_, machine| direct(Direct::MULTI_QUEUE, machine)),
        ..COMPLETION
    },
    Technique {
        name: "polled",
        available: today("io_uring with IOPOLL, or SPDK"),
        title: "a queue for each CPU, which asks it for ever",
        source: "SPDK",
        make: Make::Completion(|_, machine| direct(Direct::POLLED, machine)),
        ..COMPLETION
    },
    Technique {
        name: "hybrid-poll",
        available: today("Linux 4.10 to 6.1: /sys/block/*/queue/io_poll_delay = 0"),
        title: "the same, asleep for the first half of what an I/O takes",
        source: "Linux 4.10, io_poll_delay",
        make: Make::Completion(|_, machine| direct(Direct::HYBRID_POLL, machine)),
        ..COMPLETION
    },
];
