//! What the second level's split into a bank for the kernel and one for the user brings (Nellans
//! 2014, Sec 5.2.4, Table 5.5).

use halfwink_chip::{
    replay, second_level_stream, Geometry, ReplaySetup, SecondLevelLatencies, SecondLevelStream,
    Sides,
};
use halfwink_policy::segregation::{Fixed, LookUp, Replacement, Route, Rule};
use halfwink_trace::{ServiceSource, WarmSet};

/// Table 5.4; the bank's 9 cycles are Sec 5.2.3's, of a parallel look-up.
const LATENCIES: SecondLevelLatencies = SecondLevelLatencies { whole: 12, bank: 9, memory: 350 };

/// First-level caches of 16 KB, in two ways.
pub fn stream(mut source: ServiceSource, warm: &WarmSet) -> SecondLevelStream {
    let l1 = Geometry::parse("16KB:2").expect("a shape");
    second_level_stream(&mut source, warm, [l1; 2], Rule::LRU).expect("nothing to be damaged")
}

/// A second level of one size, as one LRU stack and split.
pub struct BankSplit {
    /// Misses per 1000 instructions, unsplit.
    pub mpki: f64,
    /// References per 1000 instructions.
    pub accesses: f64,
    /// Performance beyond the unsplit cache's, in percent, by what goes to the kernel's bank.
    pub gains: [(Route, f64); 3],
}

impl BankSplit {
    pub fn new(stream: &SecondLevelStream, kilobytes: u64) -> BankSplit {
        let setup = ReplaySetup {
            replacement: Replacement::Lru,
            sides: Sides::Privilege,
            geometry: Geometry::parse(&format!("{kilobytes}KB:16")).expect("a shape"),
            monitors: false,
            latencies: LATENCIES,
            write_backs: false,
            stores_stall: true,
        };
        let play = |rule| {
            replay(stream, &setup, Box::new(Fixed::new(rule))).expect("a rule for 16 ways").cost
        };
        let whole = play(Rule::LRU);
        let per_thousand = |n: u64| 1000.0 * n as f64 / whole.instructions as f64;
        let gain = |route| {
            let split = play(Rule::banks(route, LookUp::Parallel));
            100.0 * (whole.cycles(LATENCIES) as f64 / split.cycles(LATENCIES) as f64 - 1.0)
        };
        BankSplit {
            mpki: per_thousand(whole.misses),
            accesses: per_thousand(whole.slow + whole.fast),
            gains: Route::ALL.map(|route| (route, gain(route))),
        }
    }

    /// The route that gains most, with its gain.
    pub fn best(&self) -> (Route, f64) {
        let [first, rest @ ..] = self.gains;
        rest.into_iter().fold(first, |best, other| if other.1 > best.1 { other } else { best })
    }
}
