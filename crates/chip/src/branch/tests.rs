//! Predictors of every kind, on branches whose pattern is known.

use super::*;
use crate::machine::{BtbSpec, IndirectSpec, PerceptronSpec, TageSpec};

fn predictor(kind: PredictorKind) -> Predictor {
    Predictor::new(BranchSpec {
        predictor: kind,
        indirect_entries: 16,
        return_entries: 2,
        indirect: None,
        btb: None,
    })
}

fn wrong(predictor: &mut Predictor, outcomes: impl Iterator<Item = bool>) -> usize {
    outcomes
        .filter(|&taken| {
            let target = if taken { 0x2000 } else { 0x1002 };
            predictor.guess(Branch::Conditional, 0x1000, 0x1002, target, false) == Guess::Wrong
        })
        .count()
}

#[test]
fn a_loop_of_seven_is_learnt_by_local_history_only() {
    let pattern = || (0..7_000).map(|n| n % 7 != 6);
    assert!(wrong(&mut predictor(PredictorKind::Tournament), pattern()) < 60);
    assert_eq!(wrong(&mut predictor(PredictorKind::Bimodal), pattern()), 1001);
    assert_eq!(wrong(&mut predictor(PredictorKind::Perfect), pattern()), 0);
}

#[test]
fn returns_are_predicted_as_deep_as_the_stack() {
    let mut predictor = predictor(PredictorKind::Tournament);
    for n in 0..3 {
        predictor.guess(Branch::Call, n, 100 + n, 7, false);
    }
    let mut back = |to| predictor.guess(Branch::Return, 0, 0, to, false) == Guess::Right;
    assert!(back(102));
    assert!(back(101));
    assert!(!back(100), "it was pushed out");
}

#[test]
fn an_indirect_jump_repeats_its_last_target() {
    let mut predictor = predictor(PredictorKind::Bimodal);
    let mut jump = |to| predictor.guess(Branch::IndirectJump, 0x10, 0x12, to, true) == Guess::Right;
    assert_eq!([jump(5), jump(5), jump(6), jump(6)], [false, true, false, true]);
    assert_eq!(predictor.counts.mispredicted, [0, 2]);
}

const TAGE: TageSpec = TageSpec {
    base_entries: 1024,
    tables: 6,
    entries: 256,
    tag_bits: 10,
    shortest_history: 4,
    longest_history: 200,
    loop_entries: 0,
};

const PERCEPTRON: PerceptronSpec =
    PerceptronSpec { tables: 8, entries: 256, shortest_history: 3, longest_history: 200 };

/// Of outcomes that depend on one long before, those that long histories learn.
#[test]
fn far_back_is_seen_by_long_histories_only() {
    // A coin is thrown, forty branches that always go the same way follow, then one goes as the
    // coin fell.
    let mut state = 1u64;
    let mut toss = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 63 != 0
    };
    let rounds: Vec<bool> = (0..3000).map(|_| toss()).collect();
    let echoes = |kind| {
        let mut predictor = predictor(kind);
        let mut wrong = 0;
        for (n, &coin) in rounds.iter().enumerate() {
            let mut branch = |pc: u64, taken: bool| {
                let target = if taken { pc + 64 } else { pc + 2 };
                predictor.guess(Branch::Conditional, pc, pc + 2, target, false) == Guess::Wrong
            };
            branch(0x100, coin);
            for step in 0..40 {
                branch(0x1000 + 16 * step, true);
            }
            // Not what it learns from.
            wrong += usize::from(branch(0x8000, coin) && n >= 2000);
        }
        wrong
    };
    assert!(echoes(PredictorKind::Tournament) > 300, "a coin of a thousand");
    assert!(echoes(PredictorKind::Tage(TAGE)) < 30, "{}", echoes(PredictorKind::Tage(TAGE)));
    assert!(echoes(PredictorKind::Perceptron(PERCEPTRON)) < 60);
}

#[test]
fn a_long_loop_is_learnt_by_counting_it() {
    // Longer than any history here, round after round of other lengths beside it.
    let pattern = || (0..900_000).map(|n| n % 900 != 899);
    let with = |loop_entries| PredictorKind::Tage(TageSpec { loop_entries, ..TAGE });
    assert!(wrong(&mut predictor(with(0)), pattern()) >= 1000);
    assert!(wrong(&mut predictor(with(64)), pattern()) < 20);
}

#[test]
fn an_indirect_jump_goes_by_what_came_before() {
    let indirect = IndirectSpec {
        tables: 4,
        entries: 64,
        tag_bits: 9,
        shortest_history: 2,
        longest_history: 32,
    };
    let spec = BranchSpec {
        predictor: PredictorKind::Tage(TAGE),
        indirect_entries: 16,
        return_entries: 2,
        indirect: Some(indirect),
        btb: None,
    };
    let wrong_of = |spec| {
        let mut predictor = Predictor::new(spec);
        let mut jump = |n: u64| {
            // An interpreter's dispatch: six operations, round and round.
            let target = 0x4000 + 64 * [1, 5, 1, 3, 5, 2][n as usize % 6];
            predictor.guess(Branch::IndirectJump, 0x10, 0x12, target, false) == Guess::Wrong
        };
        (0..6000).filter(|&n| jump(n) && n >= 3000).count()
    };
    assert!(wrong_of(spec) < 10);
    assert!(wrong_of(BranchSpec { indirect: None, ..spec }) > 2500);
}

#[test]
fn a_taken_branch_is_unknown_the_first_time_and_when_others_took_its_place() {
    let spec = BranchSpec {
        predictor: PredictorKind::Bimodal,
        indirect_entries: 16,
        return_entries: 2,
        indirect: None,
        btb: Some(BtbSpec { entries: 8, ways: 2, redirect: 3 }),
    };
    let mut predictor = Predictor::new(spec);
    let mut jump = |pc| predictor.guess(Branch::Jump, pc, pc + 2, 0x9000, false);
    assert_eq!([jump(8), jump(8)], [Guess::Redirected, Guess::Right]);
    // Three in the set of two: the least recent is forgotten.
    assert_eq!([jump(16), jump(24), jump(8)], [Guess::Redirected; 3]);
    assert_eq!(predictor.counts.redirected, [4, 0]);
    assert_eq!(predictor.counts.predicted, [0, 0]);
}

#[test]
fn cleared_predictor_equals_new_predictor() {
    for kind in [PredictorKind::Tage(TAGE), PredictorKind::Perceptron(PERCEPTRON)] {
        let mut old = predictor(kind);
        let pattern = || (0..500).map(|n| n % 7 != 6);
        let first = wrong(&mut old, pattern());
        assert!(wrong(&mut old, pattern()) < first);
        let spec = BranchSpec {
            predictor: kind,
            indirect_entries: 16,
            return_entries: 2,
            indirect: None,
            btb: None,
        };
        old.forget(spec);
        assert_eq!(wrong(&mut old, pattern()), first);
    }
}
