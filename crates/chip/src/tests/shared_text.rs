//! Copies of one recording that share what none of them writes.

use super::exact::{any_recipe, first_difference, script, with_extras};
use super::*;
use crate::SharedLines;
use halfwink_policy::offload::{Fixed, OffloadPolicy};
use proptest::prelude::*;

/// Of this script, which begins with these lines in its caches.
fn shared_lines(script: &Script, warm: &WarmSet) -> Arc<SharedLines> {
    Arc::new(SharedLines::of(&mut script.clone(), warm).unwrap())
}

fn watched(machine: &Machine, tasks: Vec<Task>, how: How) -> Result<RunResult, ChipError> {
    let gating = |_| policy(machine, "idle-gate");
    let offload = |_| -> OffloadPolicy { Box::new(Fixed::never()) };
    let options = Options { offload: Some(&offload), ..Options::new(&gating) };
    play(machine, tasks, &options, how)
}

/// So many copies of a script, each a while after the one before.
fn copies(script: &Script, warm: &Arc<WarmSet>, count: u64, share: bool) -> Vec<Task> {
    let lines = shared_lines(script, warm);
    let copy = |n| Task {
        start: Time::ns(3_000 * n),
        shared: share.then(|| Arc::clone(&lines)),
        ..task(script.clone(), Arc::clone(warm))
    };
    (0..count).map(copy).collect()
}

#[test]
fn a_page_of_a_process_is_its_own_once_it_was_written() {
    const READ: u64 = 0x20_0000;
    const WRITTEN: u64 = 0x20_1000;
    const KERNELS: u64 = 0x20_2000;
    const DIRTY: u64 = 0x20_3000;
    let mut writer = Writer::new();
    let user = writer.block(&[load(1, 2), store(1, 2), load(1, 2)]);
    let kernel = writer.block_at(0x8_0000, true, &[load(1, 2), store(1, 2)]);
    let (mut script, lines) = writer.script();
    script.run(user, vec![at(READ), at(WRITTEN + 64), at(WRITTEN)]);
    script.run(kernel, vec![at(KERNELS), at(KERNELS + 128)]);
    let line = |byte: u64, dirty, kernel| WarmLine {
        line: LineAddr(byte >> 6),
        code: false,
        dirty,
        kernel,
    };
    let warm = WarmSet { lines: vec![line(DIRTY, true, false), line(DIRTY + 64, false, false)] };
    let shared = shared_lines(&script, &warm);
    let has = |byte: u64| shared.has(byte >> 6);
    assert!(lines.iter().all(|&line| shared.has(line)), "code");
    assert!(has(READ));
    // The whole page: it was copied when it was written.
    assert!(!has(WRITTEN) && !has(WRITTEN + 64) && !has(WRITTEN + 4032));
    // The kernel's line alone: other objects lie in the same page.
    assert!(has(KERNELS) && has(KERNELS + 64) && !has(KERNELS + 128));
    assert!(!has(DIRTY) && !has(DIRTY + 64));
}

#[test]
fn what_copies_share_comes_from_memory_once() {
    for kind in KINDS {
        let machine = simple(kind).without_os_cores();
        let mut writer = Writer::new();
        let block = writer.block(&[load(1, 2), load(3, 2), store(3, 2)]);
        let (mut script, lines) = writer.script();
        for n in 0..16 {
            let own = COLD + 0x1_0000 + n * 64;
            script.run(block, vec![at(COLD + n * 64), at(own), at(own)]);
        }
        let warm = warm(&lines, &[]);
        let play = |share| watched(&machine, copies(&script, &warm, 3, share), USUAL).unwrap();
        let (apart, together) = (play(false), play(true));
        assert_eq!(apart.l3.misses, [3 * 32, 0], "{kind}");
        assert_eq!(together.l3.misses, [16 + 3 * 16, 0], "{kind}");
        assert_eq!(apart.l3.transfers, [0, 0]);
        // Nobody writes what is shared: no right to write is asked for.
        assert_eq!(together.l3.upgrades, [0, 0]);
        let work = |r: &RunResult| r.cores.iter().map(|core| core.work).collect::<Vec<_>>();
        assert_eq!(work(&apart), work(&together));
        assert!(together.duration < apart.duration);
    }
}

/// A line that the third level has given up comes from the other core that holds it.
#[test]
fn the_directory_finds_a_shared_line_in_another_core() {
    let mut machine = simple("in-order").without_os_cores();
    machine.l3.geometry = None;
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(COLD)]);
    let warm = warm(&lines, &[]);
    let result = watched(&machine, copies(&script, &warm, 2, true), USUAL).unwrap();
    assert_eq!((result.l3.misses, result.l3.transfers), ([1, 0], [1, 0]));
}

#[test]
fn shared_lines_without_offload_policy_are_refused() {
    let (script, lines) = Writer::new().script();
    let warm = warm(&lines, &[]);
    let tasks = copies(&script, &warm, 2, true);
    let found = try_run(&simple("in-order"), "always-on", tasks, USUAL);
    assert!(matches!(found, Err(ChipError::Unwatched)));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn running_ahead_changes_nothing_of_copies(
        recipe in any_recipe(),
        kind in 0..2usize,
        extras in 0..5usize,
        quantum in prop_oneof![1u64..4, 1u64..300],
        never_skip in any::<bool>(),
    ) {
        let machine = with_extras(simple(KINDS[kind]).without_os_cores(), extras);
        let (script, lines) = script(&recipe, 0);
        let warm = warm(&lines, &[]);
        let go = |how| {
            let mut tasks = copies(&script, &warm, 3, true);
            for (n, task) in tasks.iter_mut().enumerate() {
                task.start = Time::ns(7 * n as u64);
            }
            let result = watched(&machine, tasks, how).unwrap();
            format!("{:?} {:?} {:?}", result.cores, result.l3, result.memory)
        };
        let how = How { never_skip, quantum: Some(Time::ns(quantum)) };
        prop_assert_eq!(first_difference(&go(USUAL), &go(how)), None);
    }
}
