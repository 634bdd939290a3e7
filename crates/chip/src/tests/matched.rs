//! The machine that is compared with ChampSim (`benches/champsim/matched.toml`): what its terms
//! take, as loops of one thing, which took the same there (docs/champsim.md has both); and the
//! parts of it that a core has only if it is told to, by hand.

use super::*;

const MATCHED: &str = include_str!("../../../../benches/champsim/matched.toml");
/// Of it, from load to use: the first level, the second and the third.
const LEVELS: [u64; 3] = [5, 21, 73];

/// Cycles of an iteration of a loop: the difference of many and few.
fn each(machine: &Machine, steps: &[Step], addresses: impl Fn(u64) -> Vec<Address>) -> f64 {
    let cycles = |times: u64| {
        let mut writer = Writer::new();
        let block = writer.block(steps);
        let (mut script, lines) = writer.script();
        for n in 0..times {
            script.run(block, addresses(n));
        }
        let result = run(machine, "always-on", vec![task(script, warm(&lines, &[]))]);
        result.duration.0 as f64 / machine.clock.time_of(1).0 as f64
    };
    let (few, many) = (1000, 3000);
    (cycles(many) - cycles(few)) / (many - few) as f64
}

fn matched() -> Machine {
    Machine::parse(&Input::new("matched", MATCHED)).unwrap()
}

#[test]
fn operations_of_a_loop_take_what_they_take_there() {
    // Eleven and the jump back, which ends the group of a cycle.
    let back = Step { branch: Branch::Jump, ..op(Kind::Branch, 0, &[]) };
    let back = Step { writes: 0, ..back };
    let body = |step: &dyn Fn(u32) -> Step| (0..11).map(step).chain([back]).collect::<Vec<_>>();
    let none = |_| Vec::new();
    assert_eq!(each(&matched(), &body(&|_| alu(1, &[1])), none), 11.0);
    assert_eq!(each(&matched(), &body(&|n| alu(1 + n % 8, &[10])), none), 3.0);
}

#[test]
fn loads_that_depend_on_each_other_take_what_their_level_takes_there() {
    // More lines than the levels above hold, all of them in this one: of 512, 4096 and 8192.
    for (lines, expected) in [64, 2048, 6144].into_iter().zip(LEVELS) {
        let of = |n: u64| vec![at(DATA + 64 * (n % lines))];
        let mut machine = matched();
        // What walks take is in no closed form.
        machine.tlb = None;
        machine.memory = crate::MemorySpec {
            kind: crate::MemoryKind::Uniform { latency: Time::ns(1), ranks: 1 },
            ..machine.memory
        };
        let mut step = load(1, 1);
        step.writes = 1 << 1;
        let warmed = |times: u64| {
            let mut writer = Writer::new();
            let block = writer.block(&[step]);
            let (mut script, code) = writer.script();
            for n in 0..times {
                script.run(block, of(n));
            }
            let result = run(&machine, "always-on", vec![task(script, warm(&code, &[]))]);
            result.duration.0 as f64 / machine.clock.time_of(1).0 as f64
        };
        let taken = (warmed(2 * lines) - warmed(lines)) / lines as f64;
        assert_eq!(taken.round() as u64, expected, "{lines} lines: {taken}");
    }
}

/// Out of order, with fetch so far ahead.
fn ahead(depth: Option<u64>) -> Machine {
    let mut machine = simple("out-of-order");
    machine.fetch = crate::FetchSpec { queue: 4, lines_per_cycle: 2, depth };
    machine
}

/// A branch that is predicted wrong, and one operation in another line, which is there or not.
fn wrong_way(machine: &Machine, is_there: bool) -> u64 {
    let mut writer = Writer::new();
    let first = writer.block(&[jump_if(FLAGS)]);
    let far = writer.block_at(CODE + 0x80, false, &[alu(2, &[2])]);
    let (mut script, lines) = writer.script();
    script.run(first, vec![]).run(far, vec![]);
    let there = if is_there { &lines[..] } else { &lines[..1] };
    ns(&run(machine, "always-on", vec![task(script, warm(there, &[]))]))
}

#[test]
fn a_line_passes_the_stages_behind_it_also_after_a_misprediction() {
    // As on a core without: resolved in 2, dispatch again in 6; issue 7, commit 8.
    assert_eq!(wrong_way(&ahead(None), true), 9);
    // The line of the branch is looked up in 0 and dispatched in 3; else the same.
    assert_eq!(wrong_way(&ahead(Some(2)), true), 12);
    // From memory, 44 after it was asked for. In 2: dispatched in 46.
    assert_eq!(wrong_way(&ahead(None), false), 49);
    // Resolved in 5, asked for in 6: there in 50, dispatched in 52, issue 53, commit 54.
    assert_eq!(wrong_way(&ahead(Some(2)), false), 55);
}

#[test]
fn branches_in_order_are_resolved_behind_the_one_before() {
    let go = |in_order: bool| {
        let mut machine = simple("out-of-order");
        machine.core.branches_in_order = in_order;
        let mut writer = Writer::new();
        let first = writer.block(&[op(Kind::IntMul, 1, &[2]), jump_if(1)]);
        let second = writer.block(&[jump_if(FLAGS)]);
        let far = writer.block_at(CODE + 0x20, false, &[alu(2, &[2])]);
        let (mut script, lines) = writer.script();
        script.run(first, vec![]).run(second, vec![]).run(far, vec![]);
        ns(&run(&machine, "always-on", vec![task(script, warm(&lines, &[]))]))
    };
    // The product is there in 8, its branch is resolved in 9. The second one issues in 2, is
    // resolved in 3, the last operation dispatched in 7, and commits with the branches: 9 and 10.
    assert_eq!(go(false), 11);
    // The second one issues in 9, is resolved in 10; dispatch in 14, issue 15, commit 16.
    assert_eq!(go(true), 17);
}

#[test]
fn impossible_orders_and_depths_are_refused_with_their_line() {
    let of = |from: &str, to: &str| {
        let text = MATCHED.replacen(from, to, 1);
        Machine::parse(&Input::new("matched", text)).unwrap_err().to_string()
    };
    let error = of("depth_cycles = 3", "depth_cycles = 5");
    assert!(error.contains("part of core.refill_cycles, expected 0 to 4"), "{error}");
    let text =
        SIMPLE.replacen("atomic_cycles = 6", "atomic_cycles = 6\nbranches_in_order = true", 1);
    let error = Machine::parse(&Input::new("simple", text)).unwrap_err().to_string();
    assert!(error.contains("all is in order on an in-order core"), "{error}");
}
