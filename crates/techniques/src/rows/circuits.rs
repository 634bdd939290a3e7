//! Which circuits an optical switch sets up next.

use halfwink_policy::circuits::{Choose, Needed, Plan, Still, Turns, Week, WeekParameters};
use halfwink_units::Time;

use super::availability::{silicon, today, usual};
use crate::context::CircuitsContext;
use crate::{Choice, Make, Parameter, Technique};

const DAY: Parameter = Parameter::number("day_us", "us", 123.5, (1e-3, 1e9))
    .about("length of a day", "Strong 2013, Sec 4.5.1");
const SHORT_DAY: Parameter = Parameter::number("day_us", "us", 100.0, (1e-3, 1e9))
    .about("length of a day", "Strong 2013, ch. 5: 100 us or less");
const LONG_DAY: Parameter = Parameter::number("day_us", "us", 584.0, (1e-3, 1e9))
    .about("length of a day", "Mellette 2020, Sec 4.1: six slices of 99 us, less a night");
const RELAYS: Parameter = Parameter::words("relays", &["yes", "no"])
    .about("whether flows may wait in a rack between", "Mellette 2017, Sec 4.2");
const PARTS: Parameter = Parameter::words("parts", &["fair", "even"])
    .about("of a circuit, which servers of a rack have", "halfwink; even: opera-sim's RotorLB");
const SHORT: Parameter = Parameter::number("short_mb", "MB", 15.0, (0.0, 1e9))
    .about("flows that do not wait for their circuit are smaller", "Mellette 2020, Sec 5");
const WEEK: Parameter = Parameter::number("week_us", "us", 0.0, (1e-3, 1e10))
    .or_else("one slot of 123.5 us for each other host, with its night")
    .about("length of a week, nights included; of Solstice the most", "halfwink");

const CIRCUITS: Technique = Technique {
    name: "",
    available: silicon("an optical circuit switch, and hosts that follow its schedule"),
    family: "circuits",
    worlds: &["fabric", "racks"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Circuits(|_, fabric| Box::new(Still::packets(fabric.hosts))),
    unread: &[],
    module: None,
};

fn us(us: f64) -> Time {
    Time::from_ns(1e3 * us)
}

fn day(choice: &Choice) -> Time {
    us(choice.number("day_us"))
}

fn week(choice: &Choice, fabric: &CircuitsContext, plan: Plan) -> WeekParameters {
    let night = us(fabric.night_us);
    let turns = (us(123.5) + night) * u64::from(fabric.hosts.saturating_sub(1));
    WeekParameters {
        hosts: fabric.hosts,
        plan,
        week: choice.given("week_us").map_or(turns, us),
        night,
        shortest: us(fabric.shortest_day_us),
        // Gb/s are 125,000 B/ms.
        bytes_per_ms: (fabric.port_gbps * f64::from(fabric.planes) * 125e3) as u64,
    }
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "packet-switch",
        available: usual("packet switches of today"),
        title: "no circuits: all packets go at once",
        ..CIRCUITS
    },
    Technique {
        name: "static-circuits",
        available: today("fibres or an optical patch panel"),
        title: "one matching for ever: each host sends to the next",
        make: Make::Circuits(|_, fabric| Box::new(Still::ring(fabric.hosts, 1))),
        ..CIRCUITS
    },
    Technique {
        name: "round-robin",
        title: "everybody's turn, whatever waits",
        source: "Strong 2013, Sec 4.4.1",
        parameters: &[DAY],
        make: Make::Circuits(|choice, fabric| {
            Box::new(Turns::round_robin(fabric.hosts, day(choice)))
        }),
        ..CIRCUITS
    },
    Technique {
        name: "rotor",
        worlds: &["racks"],
        title: "everybody's turn on several planes; what a day has left goes by a rack between",
        source: "Mellette 2017, RotorNet",
        parameters: &[DAY, RELAYS, PARTS],
        make: Make::Circuits(|choice, fabric| {
            Box::new(Turns::rotor(fabric.hosts, fabric.planes, day(choice)))
        }),
        ..CIRCUITS
    },
    Technique {
        name: "opera",
        worlds: &["racks"],
        title: "the same, one plane after the other; short flows go over several circuits",
        source: "Mellette 2020, Opera",
        parameters: &[LONG_DAY, RELAYS, SHORT, PARTS],
        make: Make::Circuits(|choice, fabric| {
            Box::new(Turns::opera(fabric.hosts, fabric.planes, day(choice)))
        }),
        ..CIRCUITS
    },
    Technique {
        name: "traffic-matrix",
        title: "a week of matchings, by shares of what waits",
        source: "Strong 2013, Sec 4.1",
        parameters: &[WEEK],
        make: Make::Circuits(|choice, fabric| {
            Box::new(Week::new(week(choice, fabric, Plan::Shares)))
        }),
        ..CIRCUITS
    },
    Technique {
        name: "solstice",
        title: "few long days for what waits, until all of it is served",
        source: "Liu 2015, Solstice",
        parameters: &[WEEK],
        make: Make::Circuits(|choice, fabric| {
            let plan = Plan::Solstice { packet_bytes_per_ms: 0 };
            Box::new(Week::new(week(choice, fabric, plan)))
        }),
        ..CIRCUITS
    },
    Technique {
        name: "most-needed",
        title: "the longest queues first, anew each day",
        source: "Strong 2013, ch. 5",
        parameters: &[SHORT_DAY],
        make: Make::Circuits(|choice, fabric| {
            Box::new(Needed::new(fabric.hosts, Choose::Greedy, day(choice)))
        }),
        ..CIRCUITS
    },
    Technique {
        name: "edmonds",
        title: "the matching under which most waits, anew each day",
        source: "Farrington 2010, Helios",
        parameters: &[SHORT_DAY],
        make: Make::Circuits(|choice, fabric| {
            Box::new(Needed::new(fabric.hosts, Choose::Heaviest, day(choice)))
        }),
        ..CIRCUITS
    },
    Technique {
        name: "hedera",
        title: "the same by demand that is estimated from what waits",
        source: "Al-Fares 2010, Hedera",
        parameters: &[SHORT_DAY],
        make: Make::Circuits(|choice, fabric| {
            Box::new(Needed::new(fabric.hosts, Choose::Estimated, day(choice)))
        }),
        ..CIRCUITS
    },
];
