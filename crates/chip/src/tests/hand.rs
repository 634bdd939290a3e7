//! Sequences whose cycles were added up by hand, on the machine of [`SIMPLE`].
//!
//! In order, an operation that issues in cycle `c` with latency `l` has its result in `c + l`, and
//! the run ends when the last result is there. Out of order, an operation dispatched in cycle `c`
//! issues in `c + 1` at the earliest, commits in the cycle of its result, and the run ends with the
//! cycle after the last commit.

use super::*;

/// Runs one block once, with code in the first level, and `data` too.
fn once(kind: &str, steps: &[Step], addresses: Vec<Address>, data: &[u64]) -> u64 {
    let mut writer = Writer::new();
    let block = writer.block(steps);
    let (mut script, lines) = writer.script();
    script.run(block, addresses);
    ns(&run(&simple(kind), "always-on", vec![task(script, warm(&lines, data))]))
}

#[test]
fn dependent_additions_take_a_cycle_each() {
    let chain = [alu(1, &[1]), alu(1, &[1]), alu(1, &[1]), alu(1, &[1]), alu(1, &[1])];
    // Issue in 0, 1, 2, 3, 4; last result in 5.
    assert_eq!(once("in-order", &chain, vec![], &[]), 5);
    // Dispatch two a cycle; issue in 1, 2, 3, 4, 5; last commit in 6.
    assert_eq!(once("out-of-order", &chain, vec![], &[]), 7);
}

#[test]
fn independent_additions_take_half() {
    let pairs = [alu(1, &[1]), alu(2, &[2]), alu(3, &[3]), alu(5, &[5])];
    // Issue two in 0, two in 1; results in 1 and 2.
    assert_eq!(once("in-order", &pairs, vec![], &[]), 2);
    // Dispatch in 0 and 1, issue in 1 and 2, commit in 2 and 3.
    assert_eq!(once("out-of-order", &pairs, vec![], &[]), 4);
}

#[test]
fn a_multiplication_delays_its_user_only() {
    let steps = [op(Kind::IntMul, 1, &[2]), alu(3, &[3]), alu(4, &[1])];
    // mul in 0 (result in 7), alu in 0, its user in 7.
    assert_eq!(once("in-order", &steps, vec![], &[]), 8);
    // mul issues in 1, result in 8, its user issues in 8, commits in 9.
    assert_eq!(once("out-of-order", &steps, vec![], &[]), 10);
}

#[test]
fn divisions_wait_for_one_another() {
    let steps = [op(Kind::IntDiv, 1, &[2]), op(Kind::IntDiv, 3, &[4])];
    // The divider is busy from 0 to 20, then to 40.
    assert_eq!(once("in-order", &steps, vec![], &[]), 40);
    // From 1 to 21, then to 41; commit in 41.
    assert_eq!(once("out-of-order", &steps, vec![], &[]), 42);
}

#[test]
fn loads_take_what_their_level_says() {
    let steps = [load(1, 2), alu(3, &[1])];
    // In the first level: load in 0, user in 1.
    assert_eq!(once("in-order", &steps, vec![at(DATA)], &[DATA]), 2);
    assert_eq!(once("out-of-order", &steps, vec![at(DATA)], &[DATA]), 4);
    // From memory: 1 + 4 + 10 + 3 + (10 + 10 + 4) + 2 = 44.
    assert_eq!(once("in-order", &steps, vec![at(COLD)], &[]), 45);
    assert_eq!(once("out-of-order", &steps, vec![at(COLD)], &[]), 47);
}

/// Lines that fill a set: `ways` of the first level's 32 sets, so that `DATA` leaves it.
fn after_eviction(sets: u64, ways: u64) -> Vec<u64> {
    (0..=ways).map(|n| DATA + n * sets * 64).collect()
}

#[test]
fn the_second_level_adds_four_and_the_third_ten() {
    let steps = [load(1, 2), alu(3, &[1])];
    // Two later lines of its set push DATA out of the first level (32 sets, 2 ways).
    let from_l2 = after_eviction(32, 2);
    assert_eq!(once("in-order", &steps, vec![at(DATA)], &from_l2), 6);
    assert_eq!(once("out-of-order", &steps, vec![at(DATA)], &from_l2), 8);
    // Four later lines push it out of the second as well (64 sets, 4 ways).
    let from_l3 = after_eviction(64, 4);
    assert_eq!(once("in-order", &steps, vec![at(DATA)], &from_l3), 16);
    assert_eq!(once("out-of-order", &steps, vec![at(DATA)], &from_l3), 18);
}

#[test]
fn independent_misses_overlap_in_time() {
    let steps = [load(1, 2), load(3, 4), alu(5, &[1]), alu(6, &[3])];
    let addresses = vec![at(COLD), at(COLD + 64)];
    // Loads in 0 and 1. The second is a row hit: column command 4 after the first's, so its data
    // follows the first's by a burst: answers in 44 and 48.
    assert_eq!(once("in-order", &steps, addresses.clone(), &[]), 49);
    // Loads issue in 1 and 2; answers in 45 and 49; the last user issues in 49, commits in 50.
    assert_eq!(once("out-of-order", &steps, addresses, &[]), 51);
}

#[test]
fn a_second_access_to_a_missing_line_waits_for_the_first() {
    let steps = [load(1, 2), load(3, 4), alu(5, &[3])];
    let addresses = vec![at(COLD), at(COLD + 8)];
    assert_eq!(once("in-order", &steps, addresses.clone(), &[]), 45);
    assert_eq!(once("out-of-order", &steps, addresses, &[]), 47);
}

#[test]
fn a_third_miss_waits_for_a_register() {
    // Two miss registers: the third load starts when the first is answered.
    let steps = [load(1, 2), load(3, 4), load(5, 6), alu(7, &[5])];
    let addresses = vec![at(COLD), at(COLD + 64), at(COLD + 128)];
    // First answer in 44. The third load starts in 44: at the bank in 44 + 5 + 10 + 3 = 62, row
    // hit:
    // + 10 + 4 + 2 = 78.
    assert_eq!(once("in-order", &steps, addresses.clone(), &[]), 79);
    // Everything a cycle later, and two cycles to commit.
    assert_eq!(once("out-of-order", &steps, addresses, &[]), 81);
}

#[test]
fn a_load_takes_its_value_from_a_waiting_store() {
    let steps = [store(1, 2), load(3, 4), alu(5, &[3])];
    let addresses = vec![at(COLD), at(COLD)];
    // Out of order: store and load dispatched in 0. The store issues in 1, commits and writes in 2,
    // misses, and the run waits for its line, 2 + 44; the load and its user were done long before.
    assert_eq!(once("out-of-order", &steps, addresses.clone(), &[]), 46);
    // In order, the store has left the queue for a miss register when the load comes in 1, and no
    // longer forwards: the load waits for the line, 1 + 44, and its user issues then.
    assert_eq!(once("in-order", &steps, addresses, &[]), 46);
}

#[test]
fn a_mispredicted_branch_costs_its_resolution_and_the_refill() {
    for (kind, taken, expected) in [
        // Predicted not taken at first. In order: branch in 0, next in 1 (two memory-less
        // operations: branch and alu share cycle 0).
        ("in-order", false, 1),
        // Resolved in 1, refilled in 5: alu issues in 5.
        ("in-order", true, 6),
        // Branch and alu dispatched in 0, issue in 1, commit in 2.
        ("out-of-order", false, 3),
        // Branch dispatched in 0, issued in 1, resolved in 2, dispatch again in 6; issue 7, commit
        // 8.
        ("out-of-order", true, 9),
    ] {
        let mut writer = Writer::new();
        let first = writer.block(&[jump_if(FLAGS)]);
        let next = writer.block(&[alu(1, &[1])]);
        let far = writer.block_at(CODE + 0x20, false, &[alu(2, &[2])]);
        let (mut script, lines) = writer.script();
        script.run(first, vec![]).run(if taken { far } else { next }, vec![]);
        let result = run(&simple(kind), "always-on", vec![task(script, warm(&lines, &[]))]);
        assert_eq!(ns(&result), expected, "{kind}, taken: {taken}");
        assert_eq!(result.cores[0].branches.mispredicted, [u64::from(taken), 0]);
    }
}

#[test]
fn a_missing_instruction_line_stops_the_front() {
    let steps = [alu(1, &[1])];
    let cold = |kind: &str| {
        let mut writer = Writer::new();
        let block = writer.block(&steps);
        let (mut script, _) = writer.script();
        script.run(block, vec![]);
        let result = run(&simple(kind), "always-on", vec![task(script, Arc::default())]);
        let stall = result.cores[0].memory_stalls.total();
        (ns(&result), stall)
    };
    // Line in 44, issue in 44.
    assert_eq!(cold("in-order"), (45, Time::ns(44)));
    // Line in 44, dispatch in 44, issue in 45, commit in 46.
    assert_eq!(cold("out-of-order"), (47, Time::ns(44)));
}

#[test]
fn kernel_entries_drain_and_refill() {
    let mut syscall = op(Kind::Branch, 1, &[]);
    syscall.branch = Branch::Syscall;
    for (kind, expected) in [
        // alu in 0; syscall needs its result: in 1, takes 10, refill 4: kernel alu in 15.
        ("in-order", 16),
        // alu issues in 1, commits in 2; syscall dispatched in 2, issues in 3, done in 13, refill
        // until 17: dispatch, issue in 18, commit in 19.
        ("out-of-order", 20),
    ] {
        let mut writer = Writer::new();
        let user = writer.block(&[alu(1, &[1]), syscall]);
        let kernel = writer.block_at(CODE + 0x20, true, &[alu(1, &[1])]);
        // The decoder marks what drains; here it is marked by hand.
        let n = writer.program.instrs.len() - 2;
        writer.program.instrs[n].flags = halfwink_trace::InstrFlags::SERIALIZING;
        let (mut script, lines) = writer.script();
        script.run(user, vec![]).run(kernel, vec![]);
        let result = run(&simple(kind), "always-on", vec![task(script, warm(&lines, &[]))]);
        assert_eq!(ns(&result), expected, "{kind}");
        assert_eq!(result.cores[0].work.instructions, [2, 1]);
    }
}

#[test]
fn the_window_limits_what_a_miss_lets_pass() {
    // A miss at the head of a window of 16: 15 more operations enter, the rest after the answer.
    let mut steps = vec![load(1, 2)];
    steps.extend((0..30).map(|n| alu(3 + n % 2, &[3 + n % 2])));
    let addresses = vec![at(COLD)];
    // Load issues in 1, answered in 45, committed in 45 with one more; 15 operations wait behind,
    // two commit a cycle while two more enter: the k-th of the 15 late ones enters in 45 +
    // (k-1)/2..
    let expected = once("out-of-order", &steps, addresses, &[]);
    // Entered before the answer: 16, of which 15 are done in 45. In 45: commit 2, dispatch 2; each
    // cycle likewise. 29 operations are left after cycle 45, two a cycle: the last two enter in 52,
    // issue in 53, are done in 54 and commit then with the flow: 45 + 15 = 60 is the last commit.
    assert_eq!(expected, 61);
}

#[test]
fn repeated_string_instructions_count_once() {
    let mut movs = op(Kind::String, 1, &[]);
    movs.base = 1 << 6;
    let mut writer = Writer::new();
    let block = writer.block(&[movs]);
    writer.program.instrs[0].flags = halfwink_trace::InstrFlags::REP;
    let (mut script, lines) = writer.script();
    for _ in 0..5 {
        script.run(block, vec![]);
    }
    let result = run(&simple("in-order"), "always-on", vec![task(script, warm(&lines, &[]))]);
    assert_eq!(result.cores[0].work.instructions, [1, 0]);
    assert_eq!(result.cores[0].work.uops, [5, 0]);
}
