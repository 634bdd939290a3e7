use super::*;
use crate::cache::Cache;
use halfwink_policy::segregation::Route;
use proptest::prelude::*;

const SHAPE: Geometry = Geometry { sets: 8, ways: 4 };

fn user(line: u64) -> Reference {
    Reference { line, kernel: false, code: false, pc: 0 }
}

fn kernel(line: u64) -> Reference {
    Reference { line, kernel: true, code: false, pc: 0 }
}

/// True if it was there; it is afterwards.
fn access(cache: &mut RuledCache, reference: Reference) -> bool {
    let hit = cache.touch(reference, 0).flags.is_some();
    if !hit {
        cache.insert(reference, 0);
    }
    hit
}

fn ruled(rule: Rule) -> RuledCache {
    let mut cache = RuledCache::new(SHAPE, false);
    cache.set(rule);
    cache
}

/// The n-th line of set 0 of either bank.
fn of_set_0(n: u64) -> u64 {
    n * SHAPE.sets as u64
}

#[test]
fn a_side_never_displaces_the_other_sides_ways() {
    let mut cache = ruled(Rule::ways(Route::Both, 1));
    assert!(!access(&mut cache, kernel(of_set_0(0))));
    for n in 1..20 {
        assert!(!access(&mut cache, user(of_set_0(n))));
    }
    assert!(access(&mut cache, kernel(of_set_0(0))), "its way is its own");
    assert!(access(&mut cache, user(of_set_0(0))), "lines hit whoever asks");
    assert!(!access(&mut cache, kernel(of_set_0(30))));
    assert!(!access(&mut cache, kernel(of_set_0(0))), "of one way");
    for n in 17..20 {
        assert!(access(&mut cache, user(of_set_0(n))), "three ways are the user's");
    }
}

#[test]
fn a_new_mask_moves_nothing() {
    let mut cache = ruled(Rule::ways(Route::Both, 2));
    let lines: Vec<u64> = (0..4).map(of_set_0).collect();
    for &line in &lines[..2] {
        access(&mut cache, kernel(line));
    }
    for &line in &lines[2..] {
        access(&mut cache, user(line));
    }
    cache.set(Rule::ways(Route::Both, 1));
    assert!(lines.iter().all(|&line| cache.clone().touch(user(line), 0).flags.is_some()));
    // The user's fills now take the second way as well: it holds its least recent line.
    let victim = cache.insert(user(of_set_0(9)), 0).unwrap();
    assert_eq!((victim.line, victim.kernel), (lines[1], true));
}

#[test]
fn banks_are_found_by_side_and_by_number() {
    let mut cache = ruled(Rule::banks(Route::Data, LookUp::Serial));
    let code = Reference { line: 2, kernel: true, code: true, pc: 0 };
    access(&mut cache, kernel(4));
    access(&mut cache, code);
    let found = |cache: &mut RuledCache, reference| {
        let found = cache.touch(reference, 0);
        (found.predicted, found.fast, found.banks)
    };
    assert_eq!(found(&mut cache, kernel(4)), (Some(true), true, 1));
    assert_eq!(found(&mut cache, user(4)), (Some(false), false, 2), "in the kernel's bank");
    assert_eq!(found(&mut cache, code), (Some(true), true, 1), "instructions are the user's");
    assert_eq!(found(&mut cache, user(100)), (None, false, 2));
    // A parallel look-up takes a bank's time and reads both.
    cache.set(Rule::banks(Route::Data, LookUp::Parallel));
    assert_eq!(found(&mut cache, user(4)), (Some(false), true, 2));
    // Fallen back, lines are where they came in.
    cache.set(Rule::LRU);
    assert_eq!(found(&mut cache, user(4)), (Some(false), false, 2));
    assert_eq!(cache.invalidate(4), Some(flag::VALID | flag::KERNEL));
    assert_eq!(cache.invalidate(4), None);
}

/// A bank has all ways: more lines of a set than a way split leaves.
#[test]
fn a_bank_keeps_the_associativity() {
    let mut cache = ruled(Rule::banks(Route::Both, LookUp::Parallel));
    // Of one set of the kernel's bank: numbers that differ in bit 3 and up.
    let lines: Vec<u64> = (0..4).map(|n| n * 8).collect();
    lines.iter().for_each(|&line| assert!(!access(&mut cache, kernel(line))));
    (100..200).for_each(|n| _ = access(&mut cache, user(n)));
    assert!(lines.iter().all(|&line| access(&mut cache, kernel(line))));
}

#[test]
fn a_fill_comes_in_at_its_rank() {
    // The kernel's fills are the next to leave.
    let mut cache = ruled(Rule::insertion(0, 3));
    (0..4).for_each(|n| _ = access(&mut cache, user(of_set_0(n))));
    assert_eq!(cache.insert(kernel(of_set_0(4)), 0).unwrap().line, of_set_0(0));
    assert_eq!(cache.insert(kernel(of_set_0(5)), 0).unwrap().line, of_set_0(4));
    // Used, it is the most recent.
    assert!(access(&mut cache, kernel(of_set_0(5))));
    assert_eq!(cache.insert(kernel(of_set_0(6)), 0).unwrap().line, of_set_0(1));
    // In the middle: two others leave before it.
    cache.set(Rule::insertion(0, 1));
    assert_eq!(cache.insert(kernel(of_set_0(7)), 0).unwrap().line, of_set_0(6));
    assert_eq!(cache.insert(user(of_set_0(8)), 0).unwrap().line, of_set_0(2));
}

/// A loop over one line more than there are ways: LRU loses all, and a fill that comes in as the
/// next to leave keeps the others. Splits that leave a side fewer ways are worse (Nellans 2014, Sec
/// 5.5.3).
#[test]
fn insertion_wins_a_loop_of_one_line_more_than_ways() {
    let hits = |rule| {
        let mut cache = ruled(rule);
        let mut hits = 0;
        for _ in 0..100 {
            hits += (0..5).filter(|&n| access(&mut cache, user(of_set_0(n)))).count();
        }
        hits
    };
    assert_eq!(hits(Rule::LRU), 0);
    assert_eq!(hits(Rule::ways(Route::Both, 1)), 0);
    assert!(hits(Rule::insertion(3, 0)) > 250);
}

/// Bursts: the kernel comes back to its two lines, the user goes through new ones, each used twice.
/// Partitions keep the kernel's; insertion at any rank does not, since what is used again is
/// promoted (Nellans 2014, Sec 5.3.3).
#[test]
fn partitions_win_alternating_bursts() {
    let misses = |rule| {
        let mut cache = ruled(rule);
        let mut misses = 0;
        let mut burst = |reference: Reference| {
            misses += (0..2).filter(|_| !access(&mut cache, reference)).count();
        };
        for round in 0..100 {
            (0..2).for_each(|n| burst(kernel(of_set_0(n))));
            (0..6).for_each(|n| burst(user(of_set_0(2 + 6 * round + n))));
        }
        misses
    };
    let new = 6 * 100;
    assert_eq!(misses(Rule::ways(Route::Both, 2)), new + 2);
    assert_eq!(misses(Rule::banks(Route::Both, LookUp::Parallel)), new + 2);
    let grid = (0..4).flat_map(|u| (0..4).map(move |k| Rule::insertion(u, k)));
    assert_eq!(grid.map(misses).min(), Some(new + 2 * 100));
}

#[test]
fn impossible_rules_are_told() {
    let cache = RuledCache::new(SHAPE, false);
    let why = |rule| cache.possible(&rule).unwrap_err();
    assert_eq!(why(Rule::ways(Route::Both, 0)), "no way for the kernel");
    assert_eq!(why(Rule::ways(Route::Both, 4)), "no way for the user");
    assert_eq!(why(Rule::insertion(0, 4)), "a rank that no way has");
    let single = RuledCache::new(Geometry { sets: 1, ways: 4 }, false);
    let banks = Rule::banks(Route::Both, LookUp::Serial);
    assert_eq!(single.possible(&banks), Err("one set has no two banks"));
}

#[test]
fn monitors_see_what_a_side_alone_would_hit() {
    let mut cache = RuledCache::new(SHAPE, true);
    for n in [0, 1, 0, 1, 1] {
        access(&mut cache, user(of_set_0(n)));
        access(&mut cache, kernel(of_set_0(5 + n)));
    }
    let utility = cache.take_utility().unwrap();
    for side in 0..2 {
        assert_eq!(utility.hits[side][..3], [1, 2, 0]);
    }
    assert_eq!(*cache.take_utility().unwrap(), Utility::default());
}

fn references() -> impl Strategy<Value = Vec<(u64, bool, bool, u64)>> {
    prop::collection::vec((0u64..96, any::<bool>(), any::<bool>(), 0u64..40), 0..600)
}

proptest! {
    /// With one stack for all it is the plain cache, line for line and victim for victim, through
    /// invalidations too.
    #[test]
    fn without_a_rule_it_is_the_plain_cache(references in references()) {
        let (mut plain, mut cache) = (Cache::new(SHAPE), RuledCache::new(SHAPE, false));
        for (line, kernel, code, dice) in references {
            let reference = Reference { line, kernel, code, pc: 0 };
            if dice == 0 {
                prop_assert_eq!(plain.invalidate(line), cache.invalidate(line));
                continue;
            }
            let owner = flag::owner(kernel);
            let dirty = if dice < 10 { flag::DIRTY } else { 0 };
            let hit = plain.touch(line, dirty);
            prop_assert_eq!(hit, cache.touch(reference, dirty).flags);
            if hit.is_none() {
                prop_assert_eq!(plain.insert(line, owner | dirty), cache.insert(reference, dirty));
            }
        }
    }

    /// Whatever rules follow one another: ranks stay a permutation, no line is twice, a hit is a
    /// line that came in and has not left.
    #[test]
    fn no_rule_loses_or_doubles_a_line(
        references in references(),
        rules in prop::collection::vec((0u8..4, 1u8..4, 0u8..4, 0u8..4, any::<bool>()), 1..8),
    ) {
        let mut cache = RuledCache::new(SHAPE, true);
        let mut held = std::collections::BTreeSet::new();
        for (n, (line, kernel, code, dice)) in references.into_iter().enumerate() {
            if dice == 0 {
                let (kind, ways, user, kernel, serial) = rules[n % rules.len()];
                let look_up = if serial { LookUp::Serial } else { LookUp::Parallel };
                let route = Route::ALL[usize::from(user) % 3];
                cache.set(match kind {
                    0 => Rule::insertion(user, kernel),
                    1 => Rule::ways(route, ways),
                    _ => Rule::banks(route, look_up),
                });
            }
            let reference = Reference { line, kernel, code, pc: 0 };
            let found = cache.touch(reference, 0);
            prop_assert_eq!(found.flags.is_some(), held.contains(&line));
            if found.flags.is_none() {
                held.insert(line);
                if let Some(victim) = cache.insert(reference, 0) {
                    prop_assert!(held.remove(&victim.line));
                }
            }
        }
        for ranks in cache.ranks.chunks(SHAPE.ways) {
            let mut sorted = ranks.to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, [0, 1, 2, 3]);
        }
    }
}
