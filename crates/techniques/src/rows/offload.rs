//! Which kernel entries move to another core.

use halfwink_policy::gating::{AdaptiveIdle, AlwaysOn};
use halfwink_policy::offload::{
    DelegationKind, DelegationParameters, Feedback, FeedbackParameters, Fixed, LikeOs,
    LikeOsParameters, OffloadPolicy, Organisation, Parameters, PerCall, Predicted,
    PredictedParameters, Threshold, ENOUGH_WORK_BYTES,
};
use halfwink_units::Time;

use super::availability::{kernel, silicon, today};
use super::gating::{GATING, ON_BOTH};
use crate::{Change, Choice, Gating, Make, MakeOffload, Parameter, Plan, Slot, Technique};

/// Epochs of the published controller are this much longer than those here, since recorded
/// workloads are some million instructions long.
const EPOCHS_SHORTENED_BY: u64 = 250;
/// A call is long if it costs this many times a move there and back (assumption).
const STATIC_MULTIPLE: u64 = 2;

/// Makes the parameters of a rule for the system calls of a real program.
type Delegating = fn(&Choice) -> DelegationParameters;

const THRESHOLD: Parameter = Parameter::whole("threshold", 1000, (0, 1_000_000_000)).about(
    "N: instructions that a kernel entry must be expected to exceed to move",
    "Nellans 2014, Sec 4.6.3, start for a large OS share",
);

/// Cores without a thread power down, application cores as OS cores.
const OFFLOAD: Gating = Gating {
    slots: &[Slot::Kernel],
    needs_os_cores: true,
    build: |_, core| {
        if core.power_down {
            Box::new(AdaptiveIdle::new(core.costs))
        } else {
            Box::new(AlwaysOn)
        }
    },
    ..GATING
};

const fn moving(offload: MakeOffload) -> Make {
    Make::Gating(Gating { offload: Some(offload), ..OFFLOAD })
}

const fn moving_live(offload: MakeOffload, delegation: Delegating) -> Make {
    Make::Gating(Gating { offload: Some(offload), delegation: Some(delegation), ..OFFLOAD })
}

/// Parameters of a kind that takes none of the others' values.
const fn delegating(kind: DelegationKind) -> DelegationParameters {
    DelegationParameters { kind, n_ns: None, least_bytes: ENOUGH_WORK_BYTES }
}

const ON_A_CHIP: Technique = Technique {
    name: "",
    available: silicon("a predictor of run lengths in each core, and cores for the kernel"),
    family: "offload",
    worlds: &["chip"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Gating(OFFLOAD),
    unread: &[],
    module: None,
};

/// The published run-length predictor in hardware.
fn predicted(choice: &Choice, organisation: Organisation) -> OffloadPolicy {
    let threshold = Threshold::Fixed(choice.whole("threshold"));
    let parameters = Parameters::published(organisation);
    Box::new(Predicted::new(PredictedParameters::hardware(parameters, threshold)))
}

fn feedback() -> OffloadPolicy {
    let feedback = FeedbackParameters::published().shortened(EPOCHS_SHORTENED_BY);
    let parameters = Parameters::published(Organisation::PUBLISHED_ASSOCIATIVE);
    let threshold = Threshold::Feedback(Box::new(Feedback::new(feedback)));
    Box::new(Predicted::new(PredictedParameters::hardware(parameters, threshold)))
}

fn like_os() -> OffloadPolicy {
    let mut parameters = LikeOsParameters::usual();
    parameters.epoch = Time(parameters.epoch.0 / EPOCHS_SHORTENED_BY);
    Box::new(LikeOs::new(parameters, Box::new(Fixed::never())))
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "os-profile",
        available: today("nothing moves: perf trace measures the same"),
        title: "moves nothing, and counts what the kernel does",
        source: "Nellans 2014, Sec 4.1",
        make: Make::Gating(Gating {
            retention: false,
            change: Change::WithoutOsCores,
            needs_os_cores: false,
            build: |_, _| Box::new(AlwaysOn),
            offload: Some(|_, _, _| Box::new(Fixed::never())),
            delegation: Some(|_| delegating(DelegationKind::Never)),
            ..OFFLOAD
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-always",
        worlds: ON_BOTH,
        available: kernel("a kernel that moves system calls; halfwink live delegate moves some"),
        title: "runs all kernel code on OS cores",
        source: "Nellans 2014, Sec 4.7",
        make: moving_live(
            |_, _, _| Box::new(Fixed::always()),
            |_| delegating(DelegationKind::Always),
        ),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-enough-work",
        worlds: ON_BOTH,
        available: kernel("a kernel that moves system calls; halfwink live delegate moves some"),
        title: "moves the system calls that ask for enough work, and interrupts",
        source: "Mogul 2007, Sec 5.2",
        parameters: &[Parameter::whole("bytes", 4096, (0, 1 << 40))
            .about("transfer from which on a call is enough work", "Mogul 2007, Sec 5.2")],
        make: moving_live(
            |choice, _, _| Box::new(PerCall::enough_work(choice.whole("bytes"))),
            |choice| DelegationParameters {
                least_bytes: choice.whole("bytes"),
                ..delegating(DelegationKind::EnoughWork)
            },
        ),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-static",
        worlds: ON_BOTH,
        available: kernel("a kernel that moves system calls; halfwink live delegate moves some"),
        title: "moves the system calls that a first run found long",
        source: "Nellans 2014, Sec 4.6.1",
        make: Make::Gating(Gating {
            plan: Plan::Profiled,
            offload: Some(|_, move_cycles, calls| {
                let round_trip = 2 * move_cycles;
                Box::new(PerCall::instrumented(calls, round_trip, STATIC_MULTIPLE))
            }),
            ..OFFLOAD
        }),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-dynamic",
        worlds: ON_BOTH,
        available: kernel("a kernel that decides at each entry, and moves system calls"),
        title: "as os-offload, decided by software at every entry",
        source: "Nellans 2014, Sec 4.4",
        parameters: &[THRESHOLD],
        make: moving_live(
            |choice, _, _| {
                let parameters = Parameters::published(Organisation::PUBLISHED_ASSOCIATIVE);
                let threshold = Threshold::Fixed(choice.whole("threshold"));
                Box::new(Predicted::new(PredictedParameters::software(parameters, threshold)))
            },
            |choice| DelegationParameters {
                n_ns: Some(choice.whole("threshold")),
                ..delegating(DelegationKind::Predicted)
            },
        ),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-offload",
        worlds: ON_BOTH,
        title: "moves kernel entries that are predicted to be longer than N",
        source: "Nellans 2014, Sec 4.6.2",
        parameters: &[THRESHOLD],
        make: moving(|choice, _, _| predicted(choice, Organisation::PUBLISHED_ASSOCIATIVE)),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-offload-direct",
        worlds: ON_BOTH,
        title: "as os-offload, with a direct-mapped table",
        source: "Nellans 2014, Sec 4.6.2",
        parameters: &[THRESHOLD],
        make: moving(|choice, _, _| predicted(choice, Organisation::PUBLISHED_DIRECT)),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-offload-unbounded",
        worlds: ON_BOTH,
        title: "as os-offload, with a table without end",
        source: "Nellans 2014, Sec 4.6.2",
        parameters: &[THRESHOLD],
        make: moving(|choice, _, _| predicted(choice, Organisation::Unbounded)),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-adaptive",
        worlds: ON_BOTH,
        title: "as os-offload, with N found by trying",
        source: "Nellans 2014, Sec 4.6.3",
        make: moving_live(|_, _, _| feedback(), |_| delegating(DelegationKind::Predicted)),
        ..ON_A_CHIP
    },
    Technique {
        name: "os-like",
        available: kernel("a scheduler that knows which threads resemble the kernel"),
        title: "runs threads whose user code is like the kernel's on OS cores, if they keep up",
        source: "Mogul 2007, Sec 4.3",
        make: moving(|_, _, _| like_os()),
        ..ON_A_CHIP
    },
];
