//! What a machine that lost its caches loads before a request comes.

use halfwink_policy::preheat::{
    Begin, Hears, Late, NextLine, NoPreheat, Order, Preheater, PreheaterParameters, Recorded,
    Replayer, ReplayerParameters, Sets, ShamRequest, Stash, Stride, StrideParameters, Trigger,
    WakeOnly,
};
use halfwink_units::Time;

use super::availability::{kernel, silicon, today, usual};
use crate::{Choice, Make, Parameter, Preheating, Technique};

const QUIET: Hears = Hears { misses: false, packets: false, restarts: false };
const RESTARTS: Hears = Hears { restarts: true, ..QUIET };
const MISSES: Hears = Hears { misses: true, ..QUIET };
const PACKETS: Hears = Hears { packets: true, ..QUIET };

const PREHEAT: Technique = Technique {
    name: "",
    available: silicon("a prefetcher that no processor has"),
    family: "preheat",
    worlds: &["preheat"],
    title: "",
    source: "-",
    parameters: &[],
    make: Make::Preheat(Preheating { hears: QUIET, build: |_| Box::new(NoPreheat) }),
    unread: &[],
    module: None,
};

const LATE: Parameter = Parameter::words("late", &["wait", "skip", "concurrent"]).about(
    "a request that comes before its lines: held, or the load stopped, or both at once",
    "Gottschlag 2016, Sec 6.6",
);
const LEAD: Parameter = Parameter::number("lead_us", "us", 0.0, (0.0, 10_000.0))
    .or_else("all of the announcement's lead")
    .about("how long before a request is due it begins", "assumption");
const TRAINING: Parameter = Parameter::whole("training", 10, (1, 1000))
    .about("dumps that are intersected", "assumption: as in Gottschlag 2016, Sec 4.1.2");
const CORES: Parameter = Parameter::whole("cores", 2, (1, 64))
    .about("cores that load", "Gottschlag 2016, Sec 5.3: the best of 1 to 4");
const FILTER: Parameter = Parameter::words("filter", &["yes", "no"])
    .about("takes off what is cached when a load begins", "Gottschlag 2016, Sec 4.1.1");
const ORDER: Parameter = Parameter::words("order", &["address", "first-use", "tags"])
    .or_else("address; first-use if late=concurrent")
    .about("of the lines", "Gottschlag 2016, Sec 4.1.1, 6.6");
const SETS: Parameter = Parameter::words("sets", &["apart", "intersection", "union"])
    .about("one of each service, or one for all", "Gottschlag 2016, Sec 6.3.3");
const ONLY_COLD: Parameter = Parameter::words("only_cold", &["yes", "no"])
    .about("loads only what a sleep lost", "assumption: a warm machine needs nothing");
const REFRESH: Parameter = Parameter::whole("refresh", 0, (0, 1_000_000_000))
    .or_else("never")
    .about("requests after which a set is estimated anew", "Gottschlag 2016, Sec 3.3.4");
const TRIGGER: Parameter = Parameter::words("trigger", &["arrived", "announced"])
    .about("what a replay begins with: the request, or its announcement", "Schall 2022");
const DEGREE: Parameter =
    Parameter::whole("degree", 1, (1, 64)).about("lines fetched at a miss", "Smith 1982");
const DISTANCE: Parameter =
    Parameter::whole("distance", 1, (1, 64)).about("how far ahead", "Smith 1982");

fn us(us: f64) -> Time {
    Time::from_ns(1e3 * us)
}

fn late(choice: &Choice) -> Late {
    match choice.word("late") {
        "skip" => Late::Skip,
        "concurrent" => Late::Concurrent,
        _ => Late::Wait,
    }
}

fn trigger(choice: &Choice) -> Trigger {
    match choice.word("trigger") {
        "announced" => Trigger::Announced,
        _ => Trigger::Arrived,
    }
}

fn preheater(choice: &Choice) -> PreheaterParameters {
    let late = late(choice);
    let order = match choice.word("order") {
        "address" => Order::Address,
        "first-use" => Order::FirstUse,
        "tags" => Order::Tags,
        // Nothing was said.
        _ if late == Late::Concurrent => Order::FirstUse,
        _ => Order::Address,
    };
    PreheaterParameters {
        training: choice.whole("training") as u32,
        filter: choice.word("filter") == "yes",
        sets: match choice.word("sets") {
            "intersection" => Sets::Intersection,
            "union" => Sets::Union,
            _ => Sets::Apart,
        },
        cores: choice.whole("cores") as u8,
        order,
        late,
        only_cold: choice.word("only_cold") == "yes",
        begin: Begin::AtOnce,
        refresh_requests: choice.given("refresh").map(|n| n as u32),
        ..PreheaterParameters::published()
    }
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "no-preheat",
        available: usual("wake on network traffic, as network cards do"),
        title: "a packet wakes the machine, which answers it with cold caches",
        source: "Gottschlag 2016, Sec 2.1",
        ..PREHEAT
    },
    Technique {
        name: "wake-only",
        available: kernel("a network that announces packets, and a driver that wakes the machine"),
        title: "an announcement wakes the machine before the packet comes",
        source: "Zhu 2015",
        parameters: &[LEAD],
        make: Make::Preheat(Preheating {
            hears: QUIET,
            build: |choice| Box::new(WakeOnly::new(choice.given("lead_us").map(us))),
        }),
        ..PREHEAT
    },
    Technique {
        name: "preheat",
        available: kernel(
            "a network that announces packets; halfwink live preheat loads the lines",
        ),
        title: "an announcement has the lines loaded that all requests used before",
        source: "Gottschlag 2016, Ch. 4",
        parameters: &[LATE, TRAINING, CORES, FILTER, ORDER, SETS, ONLY_COLD, REFRESH],
        make: Make::Preheat(Preheating {
            hears: RESTARTS,
            build: |choice| Box::new(Preheater::new(preheater(choice))),
        }),
        ..PREHEAT
    },
    Technique {
        name: "sham-request",
        available: kernel("a network that announces packets, and requests without effect"),
        title: "an announcement has a request of no effect played first",
        parameters: &[LATE, LEAD],
        make: Make::Preheat(Preheating {
            hears: QUIET,
            build: |choice| {
                let lead = choice.given("lead_us").map(us);
                Box::new(ShamRequest::new(lead, late(choice)))
            },
        }),
        ..PREHEAT
    },
    Technique {
        name: "next-line",
        available: today("the next-line prefetchers that processors have"),
        title: "each miss fetches the next lines too",
        source: "Smith 1982",
        parameters: &[DEGREE, DISTANCE],
        make: Make::Preheat(Preheating {
            hears: MISSES,
            build: |choice| {
                let [degree, distance] = ["degree", "distance"].map(|n| choice.whole(n) as u16);
                Box::new(NextLine::new(degree, distance))
            },
        }),
        ..PREHEAT
    },
    Technique {
        name: "stride",
        available: today("the stride prefetchers that processors have"),
        title: "misses at even distances fetch the next ones",
        source: "Fu 1992",
        parameters: &[DEGREE, DISTANCE],
        make: Make::Preheat(Preheating {
            hears: MISSES,
            build: |choice| {
                let [degree, distance] = ["degree", "distance"].map(|n| choice.whole(n) as u16);
                Box::new(Stride::new(StrideParameters { entries: 256, degree, distance }))
            },
        }),
        ..PREHEAT
    },
    Technique {
        name: "jukebox",
        available: silicon("hardware that records and replays misses"),
        title: "hardware replays the misses of the last request",
        source: "Schall 2022, here of code and data alike",
        parameters: &[TRIGGER],
        make: Make::Preheat(Preheating {
            hears: MISSES,
            build: |choice| {
                Box::new(Replayer::new(ReplayerParameters {
                    what: Recorded::Misses,
                    trigger: trigger(choice),
                    ..ReplayerParameters::jukebox()
                }))
            },
        }),
        ..PREHEAT
    },
    Technique {
        name: "reap",
        available: kernel("a kernel that records the pages of a request and loads them"),
        title: "all pages that the first request touched are loaded",
        source: "Ustiugov 2021, here into a cache",
        parameters: &[TRIGGER],
        make: Make::Preheat(Preheating {
            hears: QUIET,
            build: |choice| {
                let trigger = trigger(choice);
                Box::new(Replayer::new(ReplayerParameters {
                    trigger,
                    ..ReplayerParameters::reap()
                }))
            },
        }),
        ..PREHEAT
    },
    Technique {
        name: "stash",
        available: today("network cards with direct cache access (DDIO)"),
        title: "the network card writes packets into the last-level cache",
        source: "Huggahalli 2005",
        parameters: &[Parameter::whole("most", 64, (1, 65535))
            .about("lines of a packet that it places there", "assumption")],
        make: Make::Preheat(Preheating {
            hears: PACKETS,
            build: |choice| Box::new(Stash::new(choice.whole("most") as u16)),
        }),
        ..PREHEAT
    },
];
