use halfwink_policy::segregation::{Fixed, LookUp, Replacement, Route, Rule};
use halfwink_trace::{Kernel, Synthetic, WarmLine};
use halfwink_units::LineAddr;
use proptest::prelude::*;

use super::replay::PARTS;
use super::*;
use crate::os_profile::{os_profile, ProfileCaches};

const L1: Geometry = Geometry { sets: 16, ways: 2 };
const L2: Geometry = Geometry { sets: 64, ways: 16 };
const PUBLISHED: Latencies = Latencies { whole: 12, bank: 9, memory: 350 };
const SETUP: ReplaySetup = ReplaySetup {
    geometry: L2,
    replacement: Replacement::Lru,
    sides: Sides::Privilege,
    monitors: false,
    latencies: PUBLISHED,
    write_backs: false,
    stores_stall: true,
};

fn mixed() -> impl Source {
    let kernel = Kernel::Mixed;
    Synthetic { kernel, footprint: 1 << 18, instructions: 200_000, seed: 7, duty: None }.source()
}

fn played(stream: &SecondLevelStream, rule: Rule) -> Replayed {
    replay(stream, &SETUP, Box::new(Fixed::new(rule))).unwrap()
}

/// A stream by hand: each reference after an instruction of its mode.
fn by_hand(references: &[(u64, bool, bool)]) -> SecondLevelStream {
    let word = |&(line, kernel, code): &(u64, bool, bool)| {
        line << LINE_BIT | if kernel { KERNEL } else { 0 } | if code { CODE } else { 0 }
    };
    let retired = |kernel: bool| [u32::from(!kernel), u32::from(kernel)];
    let records =
        references.iter().map(|r| Record { word: word(r), retired: retired(r.1) }).collect();
    let kernel = references.iter().filter(|r| r.1).count() as u64;
    let instructions = [references.len() as u64 - kernel, kernel];
    SecondLevelStream { records, warm: Vec::new(), instructions, rest: [0; 2] }
}

#[test]
fn misses_of_one_stack_are_those_of_the_profile() {
    let line = |n: u64| WarmLine {
        line: LineAddr(n),
        code: n.is_multiple_of(3),
        dirty: true,
        kernel: n.is_multiple_of(2),
    };
    let warm = WarmSet { lines: (0..3000).map(|n| line(0x40_0000 + n)).collect() };
    let caches = ProfileCaches { l1i: L1, l1d: L1, unified: vec![L2] };
    let profile = os_profile(&mut mixed(), &warm, &caches).unwrap();
    let stream = second_level_stream(&mut mixed(), &warm, [L1; 2], Rule::LRU).unwrap();
    assert_eq!(stream.instructions(), profile.instructions);
    let found = played(&stream, Rule::LRU);
    assert_eq!(found.accesses, profile.levels[2].counts.accesses);
    assert_eq!(found.misses, profile.levels[2].counts.misses);
    let of_sets = found.misses_of_set.iter().map(|&n| u64::from(n)).sum::<u64>();
    assert_eq!(of_sets, found.misses[0] + found.misses[1]);
}

#[test]
fn time_is_what_the_look_ups_stall() {
    // A kernel line, found by the kernel and by the user.
    let stream = by_hand(&[(4, true, false), (4, true, false), (4, false, false)]);
    let serial = played(&stream, Rule::banks(Route::Both, LookUp::Serial));
    // The miss asks both banks, then memory.
    assert_eq!(serial.cost, Cost { instructions: 3, fast: 1, slow: 2, misses: 1 });
    assert_eq!(serial.cost.cycles(PUBLISHED), 3 + 9 + 2 * 12 + 350);
    assert_eq!((serial.predicted, serial.bank_reads), ([1, 1], 5));
    let parallel = played(&stream, Rule::banks(Route::Both, LookUp::Parallel));
    assert_eq!(parallel.cost.cycles(PUBLISHED), 3 + 3 * 9 + 350);
    assert_eq!(played(&stream, Rule::LRU).cost.cycles(PUBLISHED), 3 + 3 * 12 + 350);
    // With equal latencies banks have no head start.
    let equal = Latencies { bank: 12, ..PUBLISHED };
    assert_eq!(parallel.cost.cycles(equal), serial.cost.cycles(equal));
}

#[test]
fn a_written_back_line_is_of_who_had_brought_it() {
    let mut recorder = Recorder {
        l1: [L1; 2].map(|l1| FirstLevel::new(l1, Rule::LRU)),
        retired: [0; 2],
        stream: by_hand(&[]),
    };
    let at = |line: u64, write: bool| LineTouch { line, code: false, write, pc: 0 };
    // The kernel writes a line; two user lines of its set push it out.
    recorder.touch(at(0, true), true);
    recorder.touch(at(16, false), false);
    recorder.touch(at(32, false), false);
    let stream = recorder.finish();
    let last = stream.records[3];
    assert!(last.is_write_back());
    assert_eq!(last.reference(), Reference::write_back(0, true));
}

#[test]
fn sides_can_be_swapped() {
    let stream = second_level_stream(&mut mixed(), &WarmSet::default(), [L1; 2], Rule::LRU);
    let stream = stream.unwrap();
    let misses = |sides, kernel| {
        let rule = Fixed::new(Rule::ways(Route::Both, kernel));
        let found = replay(&stream, &ReplaySetup { sides, ..SETUP }, Box::new(rule)).unwrap();
        found.misses[0]
    };
    // All of it is the user's.
    assert_eq!(misses(Sides::Privilege, 3), misses(Sides::Swapped, 13));
    assert_ne!(misses(Sides::Privilege, 3), misses(Sides::Swapped, 3));
    assert_ne!(misses(Sides::Page, 8), misses(Sides::Privilege, 8));
}

#[test]
fn parts_are_equal_and_add_up() {
    let stream = second_level_stream(&mut mixed(), &WarmSet::default(), [L1; 2], Rule::LRU);
    let found = played(&stream.unwrap(), Rule::LRU);
    assert_eq!(found.parts.len() as u64, PARTS);
    assert_eq!(*found.parts.last().unwrap(), found.cost);
    let mut before = Cost::default();
    for part in &found.parts {
        let length = part.since(&before).instructions as f64;
        assert!((length / (found.cost.instructions / PARTS) as f64 - 1.0).abs() < 0.1);
        before = *part;
    }
}

#[test]
fn impossible_rules_are_errors() {
    let fails = |rule| replay(&by_hand(&[]), &SETUP, Box::new(Fixed::new(rule))).unwrap_err();
    assert_eq!(fails(Rule::ways(Route::Both, 16)).why, "no way for the user");
    let shown = fails(Rule::ways(Route::Data, 0)).to_string();
    assert!(shown.contains("Ways(0)") && shown.contains("16 ways: no way for the kernel"));
}

proptest! {
    /// Stack distances are every split at once, exactly, where no line is used by both sides.
    #[test]
    fn stack_distances_are_all_splits(
        references in prop::collection::vec((0u64..2000, any::<bool>(), any::<bool>()), 0..4000),
        route in prop::sample::select(&Route::ALL[..]),
    ) {
        let apart: Vec<_> = references
            .into_iter()
            .map(|(n, kernel, code)| {
                (4 * n + 2 * u64::from(kernel) + u64::from(code), kernel, code)
            })
            .collect();
        let stream = by_hand(&apart);
        let distances = stack_distances(&stream, L2, route, false);
        for kernel in [1, 3, 8, 15] {
            let found = played(&stream, Rule::ways(route, kernel));
            let kernel = usize::from(kernel);
            prop_assert_eq!(
                found.misses[0] + found.misses[1],
                distances.misses(16 - kernel, kernel)
            );
        }
    }
}
