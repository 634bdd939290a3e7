//! What cores of today add to an out-of-order core, each if it is told to: macro-operations,
//! dividers that take the next before the last is done, addresses with an index. By hand.

use super::*;

/// Runs blocks one after the other, with code and `DATA` in the first level; nanoseconds.
fn blocks(machine: &Machine, blocks: &[&[Step]]) -> u64 {
    let mut writer = Writer::new();
    let ids: Vec<_> = blocks.iter().map(|steps| writer.block(steps)).collect();
    let (mut script, lines) = writer.script();
    for (id, steps) in ids.into_iter().zip(blocks) {
        let accesses = steps.iter().filter(|step| step.access.is_some()).count();
        script.run(id, vec![at(DATA); accesses]);
    }
    ns(&run(machine, "always-on", vec![task(script, warm(&lines, &[DATA]))]))
}

/// Adds what it loads to `to`.
fn add_from(to: u32, base: u32) -> Step {
    Step { base: 1 << base, access: Some(false), ..alu(to, &[to]) }
}

#[test]
fn an_instruction_takes_one_place_where_operations_are_fused() {
    let steps = [add_from(1, 9), add_from(2, 9), add_from(3, 9), add_from(5, 9)];
    let mut machine = simple("out-of-order");
    machine.core.units.memory = 2;
    // A load and an addition a cycle; the last are dispatched in 3, issue in 4 and 5, commit in 6.
    assert_eq!(blocks(&machine, &[&steps]), 7);
    // Two of each a cycle, 0 and 1; issued in 1 to 3, the last of them commits in 4.
    machine.core.fusion = true;
    assert_eq!(blocks(&machine, &[&steps]), 5);
}

#[test]
fn a_comparison_and_its_branch_take_one_place_where_operations_are_fused() {
    let mut machine = simple("out-of-order");
    machine.core.units.alu = 4;
    let compare: &[Step] = &[alu(FLAGS, &[1]), jump_if(FLAGS)];
    let last: &[Step] = &[alu(2, &[2]), alu(3, &[3])];
    // Two places each, in 0, 1 and 2, two starts a cycle: the branch and the next comparison in
    // 2, the second branch and one of the last in 3, the other in 4; it commits in 5.
    assert_eq!(blocks(&machine, &[compare, compare, last]), 6);
    // Both in 0, the last in 1: comparisons start in 1, all else in 2. Two of what was dispatched
    // as one commit a cycle: the first comparison in 2, then with its branch the second and one of
    // the last in 3, the other in 4.
    machine.core.fusion = true;
    assert_eq!(blocks(&machine, &[compare, compare, last]), 5);
    // An addition has a result beside the flags, and stays apart: places as at first.
    let add = Step { writes: 1 << FLAGS | 1 << 7, ..alu(FLAGS, &[1]) };
    let apart: &[Step] = &[add, jump_if(FLAGS)];
    assert_eq!(blocks(&machine, &[apart, apart, last]), 6);
}

#[test]
fn a_divider_takes_the_next_when_the_machine_says() {
    let mut machine = simple("out-of-order");
    let steps = [op(Kind::IntDiv, 1, &[2]), op(Kind::IntDiv, 3, &[4])];
    // From 1 to 21, then to 41; or from 6 to 26.
    assert_eq!(blocks(&machine, &[&steps]), 42);
    machine.core.busy = [5, 15];
    assert_eq!(blocks(&machine, &[&steps]), 27);
}

#[test]
fn an_index_takes_its_cycles() {
    let mut machine = simple("out-of-order");
    let plain = [load(1, 2), alu(3, &[1])];
    let indexed = [Step { base: 1 << 2 | 1 << 4, ..load(1, 2) }, alu(3, &[1])];
    assert_eq!([&plain, &indexed].map(|steps| blocks(&machine, &[steps])), [4, 4]);
    machine.core.index = 2;
    assert_eq!([&plain, &indexed].map(|steps| blocks(&machine, &[steps])), [4, 6]);
}

#[test]
fn a_move_takes_a_place_and_no_time_where_it_is_eliminated() {
    let mut machine = simple("out-of-order");
    let copy = |to, from| op(Kind::Move, to, &[from]);
    // A product, which is there in 8, goes through two moves to its user.
    let steps = [op(Kind::IntMul, 1, &[2]), copy(3, 1), copy(4, 3), alu(5, &[4])];
    // The moves issue in 8 and 9, the user in 10; it commits in 11.
    assert_eq!(blocks(&machine, &[&steps]), 12);
    // One is eliminated; for the second, the product has one more register already.
    machine.core.move_elimination = true;
    assert_eq!(blocks(&machine, &[&steps]), 11);
    // Both, where they are of two results: their user issues in 8, and is the fifth to commit.
    let steps = [op(Kind::IntMul, 1, &[2]), alu(6, &[6]), copy(3, 1), copy(4, 6), alu(5, &[3, 4])];
    assert_eq!(blocks(&machine, &[&steps]), 11);
    // What is moved keeps its value when its source is written again.
    let steps = [op(Kind::IntMul, 1, &[2]), copy(3, 1), alu(1, &[6]), alu(5, &[3])];
    assert_eq!(blocks(&machine, &[&steps]), 10);
    // And is not waited for once it is written again itself: all but the division is done in 4.
    // They commit behind it, in 21 and 22.
    let steps = [op(Kind::IntDiv, 1, &[2]), copy(3, 1), alu(3, &[6]), alu(5, &[3])];
    assert_eq!(blocks(&machine, &[&steps]), 23);
}

#[test]
fn additions_have_their_share_of_the_units() {
    let mut machine = simple("out-of-order");
    machine.core.units.fp = 2;
    let steps = [1, 2, 3, 5].map(|to| op(Kind::FpAdd, to, &[to]));
    // Two a cycle: issued in 1 and 2, the last are there in 6.
    assert_eq!(blocks(&machine, &[&steps]), 7);
    machine.core.units.fp_add = Some(1);
    // One a cycle, in 1 to 4: there in 8. Products go beside them, in 1 to 4 as well.
    assert_eq!(blocks(&machine, &[&steps]), 9);
    let mixed: Vec<Step> =
        (0..4).flat_map(|n| [op(Kind::FpAdd, n, &[n]), op(Kind::FpMul, 8 + n, &[8 + n])]).collect();
    // The last product is dispatched in 3, issues in 4, is there in 9.
    assert_eq!(blocks(&machine, &[&mixed]), 10);
}

#[test]
fn impossible_fusion_is_refused_by_machine() {
    let of = |text: &str, added: &str| {
        let text = text.replacen("atomic_cycles = 6", &format!("atomic_cycles = 6\n{added}"), 1);
        Machine::parse(&Input::new("simple", text)).unwrap_err().to_string()
    };
    let wide = SIMPLE.replace(
        "kind = \"in-order\"",
        "kind = \"out-of-order\"\nwindow = 16\ninteger_queue = 8\nfp_queue = 8\nload_queue = 8",
    );
    for key in [
        "fusion = true",
        "move_elimination = true",
        "index_cycles = 1",
        "busy_cycles = { divide = 5 }",
    ] {
        let error = of(SIMPLE, key);
        let name = key.split(' ').next().unwrap();
        assert!(error.contains(&format!("`{name}` is for out-of-order cores only")), "{error}");
    }
    let shared = |text: &str| {
        let text = text.replacen("fp = 1\n", "fp = 1\nfp_add = 2\n", 1);
        Machine::parse(&Input::new("simple", text)).unwrap_err().to_string()
    };
    assert!(shared(SIMPLE).contains("`fp_add` is for out-of-order cores only"));
    assert!(shared(&wide).contains("fp_add 2, expected 1 to fp, 1"));
    let error = of(&wide, "index_cycles = 21");
    assert!(error.contains("21 cycles, expected 0 to 20"), "{error}");
    for cycles in [0, 16] {
        let error = of(&wide, &format!("busy_cycles = {{ fp_divide = {cycles} }}"));
        let expected = format!("fp_divide {cycles}, expected 1 to its latency, 15");
        assert!(error.contains(&expected), "{error}");
    }
}
