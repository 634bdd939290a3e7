//! How fast a gated core may wake beside others: added to a technique that gates.

use halfwink_units::Time;

use super::availability::silicon;
use crate::{Change, Choice, Make, Modifier, Parameter, Technique};

const ON_A_CHIP: Technique = Technique {
    name: "",
    available: silicon("power switches with a controller of wake-ups"),
    family: "wake-up",
    worlds: &["chip"],
    title: "",
    source: "",
    parameters: &[],
    make: Make::Modifier(Modifier::Chip(|_| Change::None)),
    unread: &[],
    module: None,
};

fn central(choice: &Choice) -> Change {
    Change::CentralWakeUp { delay: choice.given("delay_ns").map(Time::from_ns) }
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "fixed-wake-up",
        title: "cores wake at any time, always as fast as the machine says",
        source: "Strong 2013, Sec 2.3.1",
        make: Make::Modifier(Modifier::Chip(|_| Change::FixedWakeUp)),
        ..ON_A_CHIP
    },
    Technique {
        name: "distributed-wake-up",
        title: "cores wake in slots that recur, assigned by place",
        source: "Strong 2013, Sec 2.3.2",
        make: Make::Modifier(Modifier::Chip(|_| Change::DistributedWakeUp)),
        ..ON_A_CHIP
    },
    Technique {
        name: "central-wake-up",
        title: "cores wake as fast as a controller grants that knows what all do",
        source: "Strong 2013, Sec 2.3.1",
        parameters: &[Parameter::number("delay_ns", "ns", 5.0, (0.0, 1e6))
            .or_else("wake_up.delay_ns of the machine")
            .about("from a core to the controller, or back", "Strong 2013, Sec 2.3.1")],
        make: Make::Modifier(Modifier::Chip(central)),
        ..ON_A_CHIP
    },
];
