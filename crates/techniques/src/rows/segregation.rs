//! Which ways, banks and ranks of a second level are the kernel's.

use halfwink_policy::segregation::{
    Allocator, AllocatorParameters, BankChoice, BankChoiceParameters, Fixed, LookUp, Replacement,
    Route, Rule, SegregationPolicy, UtilityBased, PUBLISHED_EPOCH_CYCLES,
};

use super::availability::{kernel, silicon, today};
use super::gating::{GATING, ON_BOTH};
use crate::{Choice, Delays, Gating, Make, Parameter, Segregation, Slot, Technique};

/// Epochs of published controllers are this much longer than those here, since recorded workloads
/// are some ten million instructions long: a tenth of a million cycles for a split that is tried.
const EPOCHS_SHORTENED_BY: u64 = 50;

const SHORTENED: Parameter = Parameter::whole("shortened", EPOCHS_SHORTENED_BY, (1, 1_000_000))
    .about("the published epochs are so many times as long", "assumption: for short recordings");
const BOTH: &str = Route::Both.name();
const DATA: &str = Route::Data.name();
const INSTRUCTIONS: &str = Route::Instructions.name();
const ROUTE: Parameter = Parameter::words("route", &[BOTH, DATA, INSTRUCTIONS])
    .about("which of the kernel's lines go to its ways", "Nellans 2014, Sec 5.4.6");

const BANKS: &[Parameter] = &[
    Parameter::words("route", &["choose", DATA, INSTRUCTIONS, BOTH])
        .about("which of the kernel's lines go to its bank", "Nellans 2014, Sec 5.2.2"),
    Parameter::words("lookup", &["parallel", "serial"])
        .about("both banks at once, or the predicted one first", "Nellans 2014, Sec 5.2.3"),
    Parameter::number("fallback", "%", 10.0, (0.0, 100.0)).about(
        "kernel's share of an epoch's instructions under which banks are interleaved",
        "Nellans 2014, Sec 5.2.4",
    ),
    Parameter::whole("again", 0, (0, 1_000_000_000_000)).about(
        "instructions after which routes are tried again, shortened too; 0: never",
        "Nellans 2014, Sec 5.2.2",
    ),
    SHORTENED,
];

/// One LRU stack: nothing is kept apart.
const LRU: Segregation = Segregation {
    replacement: Replacement::Lru,
    monitors: false,
    build: |_, _| Box::new(Fixed::new(Rule::LRU)),
};

const fn ruling(segregation: Segregation) -> Make {
    Make::Gating(Gating {
        slots: &[Slot::Cache],
        retention: false,
        delays: |_| Delays::Never,
        segregation: Some(segregation),
        ..GATING
    })
}

const ON_A_CHIP: Technique = Technique {
    name: "",
    available: silicon("a second-level cache with another rule of replacement"),
    family: "segregation",
    worlds: ON_BOTH,
    title: "",
    source: "-",
    parameters: &[],
    make: ruling(LRU),
    unread: &[],
    module: None,
};

fn shortened(choice: &Choice) -> u64 {
    choice.whole("shortened")
}

fn banks(choice: &Choice, _: u8) -> SegregationPolicy {
    let look_up = match choice.word("lookup") {
        "serial" => LookUp::Serial,
        _ => LookUp::Parallel,
    };
    let parameters = BankChoiceParameters {
        route: Route::named(choice.word("route")),
        least_share_ppm: (1e4 * choice.number("fallback")).round() as u64,
        again_instructions: choice.whole("again"),
        ..BankChoiceParameters::published(look_up)
    };
    Box::new(BankChoice::new(parameters.shortened(shortened(choice))))
}

fn ways(choice: &Choice, _: u8) -> SegregationPolicy {
    let route = Route::named(choice.word("route")).unwrap_or_default();
    match choice.given("ways") {
        Some(kernel) => Box::new(Fixed::new(Rule::ways(route, kernel as u8))),
        None => {
            let published = AllocatorParameters { route, ..AllocatorParameters::published() };
            Box::new(Allocator::new(published.shortened(shortened(choice))))
        }
    }
}

fn insertion(choice: &Choice, ways: u8) -> SegregationPolicy {
    let half = ways / 2;
    let kernel = choice.given("kernel").map_or(half, |rank| rank as u8);
    Box::new(Fixed::new(Rule::insertion(choice.whole("user") as u8, kernel)))
}

fn utility(choice: &Choice, _: u8) -> SegregationPolicy {
    Box::new(UtilityBased::new(PUBLISHED_EPOCH_CYCLES / shortened(choice)))
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "lru",
        available: today("the caches as they are"),
        title: "second levels as they are, with counts by side: the baseline",
        ..ON_A_CHIP
    },
    Technique {
        name: "bank-partition",
        available: silicon("a second-level cache with a bank for each privilege"),
        title: "a bank of the second level for the kernel, another for the user",
        source: "Nellans 2014, Sec 5.2",
        parameters: BANKS,
        make: ruling(Segregation { build: banks, ..LRU }),
        ..ON_A_CHIP
    },
    Technique {
        name: "way-partition",
        available: kernel("resctrl, and a kernel that changes the class at each entry"),
        title: "ways of the second level for the kernel, as many as turn out best",
        source: "Nellans 2014, Sec 5.4",
        parameters: &[
            Parameter::whole("ways", 8, (1, 31))
                .or_else("found by trying, and LRU if none is better")
                .about("ways of the kernel, of each set", "Nellans 2014, Sec 5.4.4"),
            ROUTE,
            SHORTENED,
        ],
        make: ruling(Segregation { build: ways, ..LRU }),
        ..ON_A_CHIP
    },
    Technique {
        name: "insertion",
        title: "lines come in at a rank of their side: 0 as most recent",
        source: "Nellans 2014, Sec 5.3",
        parameters: &[
            Parameter::whole("user", 0, (0, 31))
                .about("rank at which the user's lines come in", "assumption: as without it"),
            Parameter::whole("kernel", 8, (0, 31))
                .or_else("half of the ways")
                .about("rank at which the kernel's lines come in", "assumption"),
        ],
        make: ruling(Segregation { build: insertion, ..LRU }),
        ..ON_A_CHIP
    },
    Technique {
        name: "ucp",
        available: silicon("a second-level cache with monitors of what each side uses"),
        title: "ways of the second level by what monitors say each side makes of them",
        source: "Qureshi 2006",
        parameters: &[SHORTENED],
        make: ruling(Segregation { monitors: true, build: utility, ..LRU }),
        ..ON_A_CHIP
    },
    Technique {
        name: "drrip",
        title: "lines come in near their end, or nearer, whichever misses less; no sides",
        source: "Jaleel 2010",
        make: ruling(Segregation { replacement: Replacement::Drrip, ..LRU }),
        ..ON_A_CHIP
    },
    Technique {
        name: "ship",
        title: "lines come in near their end if their instruction's were not used; no sides",
        source: "Wu 2011",
        make: ruling(Segregation { replacement: Replacement::Ship, ..LRU }),
        ..ON_A_CHIP
    },
];
