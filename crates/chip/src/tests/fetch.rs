//! Windows of more than one word, fetch ahead of dispatch, and what a branch costs that the front
//! end does not know.

use super::exact::{
    any_recipe, fingerprint, first_difference, script, with_extras, Recipe, EXTRAS,
};
use super::*;
use crate::{PrefetchKind, PrefetchSpec, PrefetcherSpec};
use proptest::prelude::*;

/// With a window of so many, and queues to match.
fn window(entries: usize) -> Machine {
    let queues = format!(
        "kind = \"out-of-order\"\nwindow = {entries}\ninteger_queue = {entries}\n\
         fp_queue = {entries}\nload_queue = {entries}"
    );
    let text = SIMPLE.replace("kind = \"in-order\"", &queues);
    let text = text.replacen("mshrs = 2", "mshrs = 16", 1);
    let text = text.replacen("store_queue = 4", &format!("store_queue = {}", entries / 4), 1);
    Machine::parse(&Input::new("window", text)).unwrap()
}

/// So many lines behind each that is fetched are brought in, too, if any.
fn next_lines(lines: usize) -> PrefetchSpec {
    let (kind, degree, queue) = (PrefetchKind::NextLine, lines, 8);
    let it = PrefetcherSpec { kind, degree, distance: degree, entries: 1, queue };
    PrefetchSpec { l1i: (lines > 0).then_some(it), ..PrefetchSpec::default() }
}

/// The same with fetch ahead, a target buffer, and predictors of today.
pub(super) fn ahead(entries: usize, queue: usize, lines: usize) -> Machine {
    let mut machine = window(entries);
    machine.fetch = crate::FetchSpec { queue, lines_per_cycle: 2, depth: None };
    machine.prefetch = next_lines(lines);
    machine.l1i.mshrs = 4;
    machine.branch.btb = Some(crate::BtbSpec { entries: 8, ways: 2, redirect: 3 });
    machine.branch.predictor = crate::PredictorKind::Tage(crate::TageSpec {
        base_entries: 64,
        tables: 4,
        entries: 16,
        tag_bits: 8,
        shortest_history: 2,
        longest_history: 30,
        loop_entries: 16,
    });
    machine
}

/// Recordings of others may have code at any address: that of a block wraps, and so does where it
/// lies in memory.
#[test]
fn block_over_the_end_of_the_address_space_is_played_to_its_end() {
    let top = u64::MAX - 5;
    let play = |machine: &Machine| {
        let mut program = Program::default();
        let branch = Instr { kind: Kind::Branch, branch: Branch::Jump, ..Instr::nop(8, 4) };
        let instrs = [Instr::nop(0, 4), Instr::nop(4, 4), branch];
        let block = Block {
            pc: VirtAddr(top),
            phys: PhysAddr(top),
            phys_next_page: PhysAddr(u64::MAX),
            kernel: true,
            first_instr: 0,
            instrs: 0,
        };
        let block = program.push_block(block, &instrs);
        let id = program.push_template(block, 3, &[]);
        let mut script = Script::new(Arc::new(program));
        (0..3).for_each(|_| {
            script.run(id, vec![]);
        });
        let result = run(machine, "always-on", vec![task(script, Arc::default())]);
        result.cores[0].work.instructions
    };
    for machine in [simple("in-order"), simple("out-of-order"), window(16), ahead(16, 4, 1)] {
        assert_eq!(play(&machine), [0, 9]);
    }
}

fn skips_and_does_not(machine: &Machine, recipe: &Recipe, technique: usize) -> Option<String> {
    let go = |never_skip| {
        let (script, lines) = script(recipe, 0);
        // Half of the code is in the caches.
        let (near, _) = lines.split_at(lines.len() / 2);
        let tasks = vec![task(script, warm(near, &[]))];
        let how = How { never_skip, quantum: None };
        fingerprint(&try_run(machine, TECHNIQUES[technique], tasks, how).unwrap())
    };
    first_difference(&go(false), &go(true))
}

fn long_recipe() -> impl Strategy<Value = Recipe> {
    prop::collection::vec(any::<(u8, u8, u8, u16)>(), 100..400)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn skipping_cycles_changes_nothing_in_any_window(
        recipe in long_recipe(),
        size in 0..5usize,
        technique in 0..TECHNIQUES.len(),
        extras in 0..EXTRAS,
    ) {
        let machine = with_extras(window([127, 128, 129, 512, 1024][size]), extras);
        prop_assert_eq!(skips_and_does_not(&machine, &recipe, technique), None);
    }

    #[test]
    fn skipping_cycles_changes_nothing_with_fetch_ahead(
        recipe in any_recipe(),
        size in 0..3usize,
        queue in 0..3usize,
        lines in 0..3usize,
        tiny in any::<bool>(),
        depth in prop::option::of(0..4u64),
        technique in 0..TECHNIQUES.len(),
        extras in 0..EXTRAS,
    ) {
        let machine = ahead([16, 129, 512][size], [0, 1, 16][queue], lines);
        let mut machine = with_extras(machine, extras);
        machine.fetch.depth = depth;
        machine.core.branches_in_order = depth.is_some();
        if tiny {
            machine.l1i.geometry = crate::Geometry { sets: 2, ways: 1 };
            machine.l2.geometry = crate::Geometry { sets: 4, ways: 2 };
            machine.l1i.mshrs = 1;
        }
        prop_assert_eq!(skips_and_does_not(&machine, &recipe, technique), None);
    }

    #[test]
    fn running_ahead_changes_nothing_with_fetch_ahead(
        recipes in prop::collection::vec(any_recipe(), 1..4),
        technique in 0..TECHNIQUES.len(),
        quantum in 1u64..300,
        lines in 0..2usize,
        extras in 0..EXTRAS,
    ) {
        let machine = with_extras(ahead(512, 16, lines), extras);
        let go = |quantum| {
            let tasks = recipes.iter().enumerate().map(|(n, recipe)| {
                let (script, lines) = script(recipe, n as u64);
                let mut task = task(script, warm(&lines[..lines.len() / 2], &[]));
                task.start = Time::ns(7 * n as u64);
                task
            });
            let how = How { never_skip: false, quantum };
            fingerprint(&try_run(&machine, TECHNIQUES[technique], tasks.collect(), how).unwrap())
        };
        prop_assert_eq!(first_difference(&go(None), &go(Some(Time::ns(quantum)))), None);
    }

    /// What is executed and predicted does not depend on when it is fetched.
    #[test]
    fn fetch_ahead_predicts_the_same(recipe in any_recipe()) {
        let go = |queue| {
            let mut machine = ahead(64, queue, 0);
            machine.fetch.queue = queue;
            let (script, lines) = script(&recipe, 0);
            let result = run(&machine, "always-on", vec![task(script, warm(&lines, &[]))]);
            (result.cores[0].work, result.cores[0].branches, result.cores[0].caches.l1i_accesses)
        };
        prop_assert_eq!(go(0), go(8));
    }
}

/// A block of one line, over and over in a row of lines, none of them in a cache.
fn row_of_lines(lines: u64) -> Script {
    let mut writer = Writer::new();
    let blocks: Vec<TemplateId> =
        (0..lines).map(|n| writer.block_at(CODE + 64 * n, false, &[alu(0, &[1]); 16])).collect();
    let (mut script, _) = writer.script();
    for block in blocks {
        script.run(block, Vec::new());
    }
    script
}

#[test]
fn lines_that_are_asked_for_ahead_come_beside_each_other() {
    let end = |queue, lines, mshrs| {
        let mut machine = window(128);
        machine.fetch = crate::FetchSpec { queue, lines_per_cycle: 1, depth: None };
        machine.prefetch = next_lines(lines);
        machine.l1i.mshrs = mshrs;
        ns(&run(&machine, "always-on", vec![task(row_of_lines(8), Arc::default())]))
    };
    // One after the other: each line takes 5 + 10 + 3 + memory's open row, 10 + 4, + 2; sixteen
    // operations of a line follow in eight cycles, two a cycle.
    let alone = end(0, 0, 4);
    let two = end(2, 0, 4);
    let four = end(8, 0, 4);
    let eight = end(8, 0, 8);
    assert!(alone > two && two > four && four > eight, "{alone} {two} {four} {eight}");
    // The first takes as long as ever; the others follow as memory's bus brings them.
    assert!(eight < alone / 3, "{alone} {eight}");
    // With one register nothing overlaps.
    assert!(end(8, 0, 1) >= alone - 8 * 8, "{alone} {}", end(8, 0, 1));
    assert!(end(0, 1, 4) < alone * 2 / 3, "{alone} {}", end(0, 1, 4));
}

#[test]
fn the_next_line_of_another_page_is_not_brought_in() {
    let mut machine = window(128);
    machine.prefetch = next_lines(2);
    machine.l1i.mshrs = 8;
    let mut writer = Writer::new();
    // The last line of a page and the one before it.
    let last = writer.block_at(0x1_0f80, false, &[alu(0, &[1]); 16]);
    let (mut script, _) = writer.script();
    script.run(last, Vec::new());
    let result = run(&machine, "always-on", vec![task(script, Arc::default())]);
    let core = &result.cores[0];
    assert_eq!((core.caches.l1i_misses, core.prefetch.l1i.issued), ([1, 0], 1));
}

#[test]
fn a_branch_that_is_not_known_costs_its_redirect() {
    let end = |redirect: Option<u64>, queue| {
        let mut machine = window(128);
        machine.fetch = crate::FetchSpec { queue, lines_per_cycle: 2, depth: None };
        machine.branch.btb =
            redirect.map(|redirect| crate::BtbSpec { entries: 64, ways: 4, redirect });
        let mut writer = Writer::new();
        let jump = Step { branch: Branch::Jump, reads: 0, ..jump_if(0) };
        let blocks: Vec<TemplateId> =
            (0..4).map(|n| writer.block_at(CODE + 256 * n, false, &[jump])).collect();
        let (mut script, lines) = writer.script();
        for _ in 0..2 {
            for &block in &blocks {
                script.run(block, Vec::new());
            }
        }
        ns(&run(&machine, "always-on", vec![task(script, warm(&lines, &[]))]))
    };
    for queue in [0, 8] {
        let known = end(None, queue);
        // A redirect of one cycle is what any taken branch costs. The first time round, four are
        // not known; the second, all are.
        assert_eq!(end(Some(1), queue), known);
        assert_eq!(end(Some(5), queue), known + 4 * 4);
    }
}
